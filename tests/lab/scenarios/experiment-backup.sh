# Does a backup's reading slow down as its snapshot fills, and what makes it so? Asked in 2013: 11 h under writes, less
# than 3 h without; a reader asked for a thin snapshot. Here: a real mylvmbackup of a real MariaDB, while clients update
# it; the same with the clients stopped; with a thin snapshot; with pbzip2, so that the processors are the limit. The disk
# serves one request of up to 64 KiB at a time, each in 10 ms. At last the first again, with a COW area that is too small,
# which mylvmbackup does not notice; it is recorded: $OUT/demo.cowbell is what `cowbell demo` plays.
# `experiment-backup REPEATS`; with 0 there is nothing but the recording.
#
# LAB_DISKS=1
# LAB_MEM=2600M
# LAB_TIMEOUT=7200
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/database.sh"
source "$repo/tests/lab/guest/experiment.sh"

repeats=${1:-5}
clients=16
calm=25        # s before a backup and after it
cow=24M        # of which some 15 are filled
ballast=60    # MiB of the data folder that nobody writes to
declare -A jobs=()
figures=(duration 'bytes read' 'time of reading' 'read speed mean' 'bi mean' 'bo mean' 'peak fill' 'growth of fill'
    'first writes mean' 'bytes on disk per byte written' 'read speed by fill rank correlation'
    'read speed by first writes rank correlation' 'origin written before' 'origin written during' 'origin written after'
    'origin write latency before' 'origin write latency during' 'origin write latency after'
    'sda read request at the beginning' 'sda read request at the end' 'sda busy' user iowait)

make_machine() {
    hostname db1
    mechanical_disks 1000 1
    modules dm-snapshot dm-thin-pool ext4
    new_group vg0 /dev/sda
    new_volume -L 320M -n data vg0
    new_volume --type thin-pool -L 480M -c 64k -n pool vg0
    new_volume -V 320M --thinpool vg0/pool -n thindata
    make_file_system /dev/vg0/data /mnt/data
    install_database /mnt/data/mysql
    dd if=/dev/urandom of=/mnt/data/mysql/ballast bs=1M count="$ballast" status=none
    start_database /mnt/data/mysql
    make_tables
    stop_database
    make_file_system /dev/vg0/thindata /mnt/thindata
    cp -a /mnt/data/mysql /mnt/thindata/
    sync
    disk_ticks 1
}

# Some 40 MiB of rows, of which each update changes one anywhere.
make_tables() {
    mariadb --no-defaults <<-'END'
	CREATE DATABASE shop;
	USE shop;
	CREATE TABLE shop.orders (id INT PRIMARY KEY, note VARCHAR(1000) NOT NULL);
	INSERT INTO shop.orders SELECT seq, RPAD(MD5(RAND(seq)), 900, MD5(RAND(seq + 1))) FROM seq_1_to_40000;
	DELIMITER //
	CREATE PROCEDURE shop.work() LOOP
	    SET @id = 1 + FLOOR(RAND() * 40000);
	    UPDATE shop.orders SET note = RPAD(MD5(RAND()), 900, MD5(RAND())) WHERE id = @id;
	    DO SLEEP(0.1);
	END LOOP //
	END
}

start_clients() {
    local number
    for ((number = 0; number < clients; number++)); do
        mariadb --no-defaults shop -e 'CALL work()' >/dev/null 2>&1 &
        workers+=($!)
    done
}
workers=()

stop_clients() {
    ((${#workers[@]} > 0)) || return 0
    mariadb --no-defaults -N -e "SELECT CONCAT('KILL ', id, ';') FROM information_schema.processlist WHERE db = 'shop'" |
        mariadb --no-defaults
    wait "${workers[@]}" || true
    workers=()
}

# back_up VARIANT LV busy|idle SIZE OUTCOME [COMPRESSOR ARGUMENTS]: between some calm, a run of mylvmbackup, which cowbell
# knows by itself.
back_up() {
    local variant=$1 lv=$2 before
    start_database "/mnt/$lv/mysql" --innodb-buffer-pool-size=64M --innodb-max-dirty-pages-pct=5 \
        --innodb-max-dirty-pages-pct-lwm=1 --innodb-io-capacity=2000 --innodb-io-capacity-max=4000 \
        --innodb-write-io-threads=16 --innodb-flush-log-at-trx-commit=2
    mariadb --no-defaults shop -e 'SELECT SUM(LENGTH(note)) FROM orders' >/dev/null    # into memory, as a server has it
    backup_settings "$lv" "$4" "${@:6}"
    # A thin snapshot has no size, and is not active unless lvcreate is told so.
    [[ $lv != thindata ]] || sed -i 's/^\[tools\]/&\nlvcreate=lvcreate -kn/; s/^\[misc\]/&\nthin=1/' /mnt/mylvmbackup.conf
    [[ $3 == idle ]] || start_clients
    sync
    echo 3 >/proc/sys/vm/drop_caches
    sleep "$calm"
    before=$(updates)
    mylvmbackup --configfile=/mnt/mylvmbackup.conf >"$OUT/mylvmbackup-$variant.log" 2>&1 ||
        fail "mylvmbackup failed: $(tail -n 3 "$OUT/mylvmbackup-$variant.log")"
    echo "info  $variant: $(($(updates) - before)) updates while it ran, $before before"
    sleep "$calm"
    await_ticks 2
    jobs[$variant]+="${jobs[$variant]:+,}$(latest .id)"
    check "$variant: outcome" "$5" "$(latest .outcome)"
    stop_clients
    stop_database
    rm -f /mnt/backup/*
    sync
}

updates() {
    mariadb --no-defaults -N -e "SHOW GLOBAL STATUS LIKE 'Com_update'" | cut -f 2
}

latest() {
    curl -fs "$api/jobs" | jq -r "[.[] | select(.kind == \"snapshot\")][0] | $1"
}

# The recorder hears the hooks too: a script between hands each word to both.
also_to_the_recorder() {
    local step
    for step in "$repo"/systemd/mylvmbackup/[pb]*; do
        rm -f "$hooks/${step##*/}"
        printf '#!/bin/sh\n%s\nCOWBELL_HOOKS=/run/recorder/hooks exec %s\n' "$step" "$step" >"$hooks/${step##*/}"
        chmod +x "$hooks/${step##*/}"
    done
}

start_recorder() {
    mkdir -p -m 700 /run/recorder
    printf '[hooks]\nsocket = "/run/recorder/hooks"\n' >/mnt/recorder.toml
    "$COWBELL" record --config /mnt/recorder.toml "$OUT/demo.cowbell" >"$OUT/recorder.log" 2>&1 &
    recorder=$!
}

stop_recorder() {
    kill -INT "$recorder"
    wait "$recorder"
    link_hooks
}

compare_all() {
    local variant figure groups=() only=()
    for figure in "${figures[@]}"; do only+=(--figure "$figure"); done
    for variant in writing idle thin pbzip2; do groups+=(--group "$variant:${jobs[$variant]}"); done
    {
        printf '#### Mean of %s nights each\n\n' "$repeats"
        "$COWBELL" job compare --markdown "${only[@]}" "${groups[@]}"
        printf '\n#### The first run under writes, from `cowbell job show --markdown`\n\n'
        "$COWBELL" job show --markdown "${jobs[writing]%%,*}" | sed -n '/^# /d; /^| Figure/q; p'
    } >>"$OUT/experiment.md"
    "$COWBELL" job report -o "$OUT/backup.html" "${groups[@]}"
}

need mylvmbackup mariadbd mariadb mariadb-install-db pbzip2
make_machine
link_hooks
: >"$OUT/experiment.md"
start_cowbell_with_hooks
for ((repeat = 0; repeat < repeats; repeat++)); do
    back_up writing data busy "$cow" succeeded
    back_up idle data idle "$cow" succeeded
    back_up thin thindata busy "$cow" succeeded
    back_up pbzip2 data busy "$cow" succeeded pbzip2 '-9 -c -p1'
done
((repeats == 0)) || compare_all
also_to_the_recorder
start_recorder
back_up small data busy 8M untrustworthy
stop_recorder
finish_experiment
