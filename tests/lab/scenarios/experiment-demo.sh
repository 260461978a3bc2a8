# Records what `cowbell demo` plays: the nightly backup of a database server, half an hour long. Another job begins to
# write while it runs, its snapshot overflows shortly before the end, and mylvmbackup does not notice.
# A real mylvmbackup of a real MariaDB; each disk serves as many requests a second as a hard disk. Nothing is made up:
# $OUT/demo.cowbell is what `cowbell record` read. To use it: cp $OUT/demo.cowbell web/
# `experiment-demo HISTORY COW SITE` takes other sizes, to try it out.
#
# LAB_DISKS=2
# LAB_DISK_SIZE=40G
# LAB_SERVED_DISKS=yes
# LAB_MEM=2600M
# LAB_TIMEOUT=7200
# LAB_PACKAGES=qemu-storage-daemon
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/database.sh"
source "$repo/tests/lab/guest/experiment.sh"

history=${1:-8000}  # MiB of the data folder that the job overwrites
cow=${2:-2G}
site=${3:-2000}     # MiB of another volume
requests=120
bytes=60000000
calm=60             # s before the backup and after it
rows=150000         # four in a page of 16 KiB
clients=4
writers=3           # of the job
# The job begins when so much of the history was backed up, and fills the snapshot by the time that so much was, in percent.
begin=25
full=92

make_machine() {
    hostname db1
    served_disks
    modules dm-snapshot dm-thin-pool ext4
    new_group vg0 /dev/vda /dev/vdb
    new_volume -L 24G -n data vg0 /dev/vda
    new_volume -L 8G -n backup vg0 /dev/vdb
    new_volume --type thin-pool -L 6G -n pool vg0 /dev/vdb
    new_volume -V 10G --thinpool vg0/pool -n www
    make_file_system /dev/vg0/data /mnt/data
    make_file_system /dev/vg0/backup /mnt/backup
    make_file_system /dev/vg0/www /mnt/www
    text "$site" >/mnt/www/site.tar
    install_database /mnt/tmp/mysql
    copy_database /mnt/tmp/mysql /mnt/data/mysql
    start_server
    make_table
    stop_database
    text "$history" >/mnt/data/mysql/history
    sync
}

# text MIB: compresses as well as a database does.
text() {
    yes "$(head -c 3000 /dev/urandom | base64 -w 0)" | dd bs=1M count="$1" iflag=fullblock status=none || true
}

start_server() {
    start_database /mnt/data/mysql --innodb-buffer-pool-size-max=256M --innodb-buffer-pool-size=256M \
        --innodb-log-file-size=64M --innodb-flush-method=fsync --innodb-flush-log-at-trx-commit=2 \
        --innodb-max-dirty-pages-pct=5 --innodb-max-dirty-pages-pct-lwm=1
}

make_table() {
    mariadb --no-defaults <<-END
	CREATE DATABASE shop;
	USE shop;
	CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(3600) NOT NULL);
	INSERT INTO orders SELECT seq, RPAD(MD5(RAND(seq)), 3600, MD5(RAND(seq + 1))) FROM seq_1_to_$rows;
	DELIMITER //
	CREATE PROCEDURE sell() LOOP
	    SET @id = 1 + FLOOR(RAND() * $rows);
	    UPDATE orders SET note = RPAD(MD5(RAND()), 3600, MD5(RAND())) WHERE id = @id;
	    DO SLEEP(0.2);
	END LOOP //
	END
}

# The clients update single rows, and the web server writes its log.
start_writers() {
    local number
    for ((number = 0; number < clients; number++)); do
        mariadb --no-defaults shop -e 'CALL sell()' >/dev/null 2>&1 &
    done
    while sleep 1; do head -c 100K /dev/zero; done >>/mnt/www/access.log &
}

# Overwrites the history from its end, as fast as makes the race close, until the snapshot is gone.
overwrite_history() {
    local place=$history percent used total number writing=()
    text 8 >/mnt/tmp/text
    until (($(percent_read) >= begin)); do sleep 2; done
    echo "info  the job begins $((SECONDS - began)) s after the backup"
    while read -r used total < <(dmsetup status --noflush vg0-data_snapshot 2>/dev/null | sed -n 's#.* snapshot \([0-9]*\)/\([0-9]*\) .*#\1 \2#p'); do
        percent=$(percent_read)
        if ((used * 100 / total < (percent - begin) * 100 / (full - begin) + 1)) && ((place > 24)); then
            for ((number = 0; number < writers; number++)); do
                place=$((place - 8))
                dd if=/mnt/tmp/text of=/mnt/data/mysql/history bs=1M seek="$place" conv=notrunc,fdatasync status=none &
                writing+=($!)
            done
            wait "${writing[@]}"
            writing=()
        else
            sleep 1
        fi
    done
}

# How much tar has read.
percent_read() {
    awk -v all="$history" '/^rchar/ { read = $2 } END { print int(read / all / 10485.76) }' "/proc/$(pgrep -x tar)/io" 2>/dev/null ||
        echo 0
}

start_recorder() {
    mkdir -p -m 700 /run/cowbell
    printf 'interval = "2s"\n[hooks]\nsocket = "/run/cowbell/hooks"\n' >/mnt/recorder.toml
    "$COWBELL" record --config /mnt/recorder.toml "$OUT/demo.cowbell" >"$OUT/recorder.log" 2>&1 &
    recorder=$!
}

need mylvmbackup mariadbd mariadb mariadb-install-db
make_machine
echo "info  ready after $SECONDS s"
link_hooks
backup_settings data "$cow"
start_server
echo 3 >/proc/sys/vm/drop_caches
limit_disks "$requests" "$bytes"
start_recorder
start_writers
sleep "$calm"
began=$SECONDS
overwrite_history &
mylvmbackup --configfile=/mnt/mylvmbackup.conf >"$OUT/mylvmbackup.log" 2>&1 && status=0 || status=$?
echo "info  the backup took $((SECONDS - began)) s"
sleep "$calm"
kill -INT "$recorder"
wait "$recorder"
check "mylvmbackup's exit status" 0 "$status"
check "the snapshot overflowed" 1 "$(grep -c 'swi-I' "$OUT/mylvmbackup.log")"
finish
