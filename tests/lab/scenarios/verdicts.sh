# Is no bad backup called good, and no good one bad? Real runs of mylvmbackup of a real MariaDB, with one fault each, and
# good runs of four kinds. Each archive of a run that cowbell calls good is restored, and its database started.
# Each bad run must raise an alert within 90 s, and none may clear an older one.
# `tests/lab/run verdicts 5` repeats all of it five times; `tests/lab/run verdicts 1 tar_killed plain` chooses some.
# Needs the packages mylvmbackup, mariadb-server and rsync.
#
# LAB_MEM=1200M
# LAB_DISKS=3
# LAB_TIMEOUT=900
# LAB_PACKAGES=rsync
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/database.sh"

rounds=${1:-1}
# The data volume fills the first disk, so that COW areas lie on the second one, whose blocks can be made bad.
make_database() {
    modules dm-snapshot dm-dust dm-thin-pool ext4
    # LVM would not activate thin snapshots.
    sed -i 's/^activation {/activation { auto_set_activation_skip=0/' /mnt/lvm/lvmlocal.conf
    dmsetup create dusty --table "0 $(blockdev --getsz /dev/ubdb) dust /dev/ubdb 0 4096"
    lvm_sees_only /dev/ubda /dev/ubdc /dev/mapper/dusty
    new_group vg0 /dev/ubda /dev/mapper/dusty
    new_group vg1 /dev/ubdc
    new_volume -l 100%PVS -n data vg0 /dev/ubda
    new_volume --type thin-pool -L 600M -n pool vg1
    new_volume -V 500M --thinpool vg1/pool -n data
    local one
    for one in vg0 vg1; do
        mkfs.ext4 -q "/dev/$one/data"
        mkdir -p "/mnt/$one"
        mount "/dev/$one/data" "/mnt/$one"
    done
    install_database /mnt/tmp/mysql
    copy_database /mnt/tmp/mysql /mnt/vg0/
    rm -rf /mnt/tmp/mysql
    start_database /mnt/vg0/mysql $elsewhere
    mariadb --no-defaults -e 'CREATE DATABASE shop; USE shop; CREATE TABLE shop.goods (id INT PRIMARY KEY, name CHAR(200)) ENGINE=InnoDB; INSERT INTO goods SELECT seq, seq FROM seq_1_to_10000'
    dd if=/dev/urandom of=/mnt/vg0/mysql/ballast bs=1M count=24 conv=fsync status=none
    copy_database /mnt/vg0/mysql /mnt/vg1/
    sync
    # Reads 8 MiB a second, so that there is time for a fault.
    cat >/mnt/slowly <<'END'
#!/usr/bin/perl
while (read STDIN, $block, 1 << 20) { print $block; select undef, undef, undef, 0.12 }
END
    printf '#!/bin/sh\nsleep 10\numount "$@"\n' >/mnt/slow-umount
    printf '#!/bin/sh\nexec tar "$@" --checkpoint=100 --checkpoint-action=exec="sleep 0.1"\n' >/mnt/slow-tar
    printf '#!/bin/sh\nsleep 8\nexec tar "$@"\n' >/mnt/late-tar
    chmod +x /mnt/slowly /mnt/slow-umount /mnt/slow-tar /mnt/late-tar
}

# backup [OPTION…]: a run of mylvmbackup. Its status is left in $status, its output in $said.
backup() {
    backup_settings data 60M
    sed -i "s#^compress=.*#compress=$compressor#; s#^compressarg=.*#compressarg=#; s#^vgname=.*#vgname=$group#" /mnt/mylvmbackup.conf
    status=0
    said=$OUT/mylvmbackup-$((++runs)).log
    rm -rf /mnt/backup/*
    began=$(date +%s)
    before=$(newest_job)
    "${around[@]}" mylvmbackup --configfile=/mnt/mylvmbackup.conf --skip_flush_tables "$@" >"$said" 2>&1 || status=$?
}
runs=0
compressor=/mnt/slowly
around=()
group=vg0

newest_job() {
    curl -fs "$api/jobs" | jq '[.[].id] | max // 0'
}

# job FILTER: of the job of this run.
job() {
    curl -fs "$api/jobs" | jq -r --argjson before "$before" "[.[] | select(.kind != \"mark\" and .id > \$before)][0] | $1"
}

has_ended() {
    [[ $(job .outcome) != null ]]
}

rings() {
    curl -fs "$api/alerts" | jq -e --argjson began "$began" "$ms [.[] | select(.rule == \"backup_failed\" and .cleared_at == null and (.raised_at | ms) >= \$began * 1000)] | length > 0"
}

open_alerts() {
    curl -fs "$api/alerts" | jq '[.[] | select(.rule == "backup_failed" and .cleared_at == null)] | length'
}

when_read() {
    wait_until 60 "tar to read" pgrep -x "${1:-tar}"
    sleep 0.6
}

is_mounted() {
    grep -q ' /mnt/snap/backup ' /proc/mounts
}

# Removes what a run left.
tidy() {
    pkill -KILL -x tar || true
    wait_until 30 "the snapshot to be free" eval '! is_mounted || umount -l /mnt/snap/backup'
    wait_until 30 "the snapshot to go" eval '! lvs vg0/data_snapshot || lvremove -qq -f vg0/data_snapshot'
    rm -rf /mnt/snap/backup*
}

# overfill: writes more to the origin than the COW area holds.
overfill() {
    dd if=/dev/urandom of=/mnt/vg0/filler bs=1M count=70 conv=fsync status=none
    rm -f /mnt/vg0/filler
}

# The faults. Each leaves the outcomes that are right in $right.
tar_killed() { right=incomplete; (when_read; pkill -KILL -x tar) & backup; wait $!; }
relpath() { right=incomplete; backup --relpath=nothing_here; }
tar_missing() { right=incomplete; backup --tar=/no/such/tar; }
rsync_killed() { right="failed incomplete"; (when_read rsync; pkill -KILL -x rsync) & backup --backuptype=rsync --rsyncarg='-a --bwlimit=8000'; wait $!; }
compressor_killed() { right=failed; (when_read; pkill -KILL -f /mnt/slowly) & backup; wait $!; }
backup_disk_full() {
    right="failed incomplete"
    mount -t tmpfs -o size=8M small /mnt/backup
    compressor='' backup
    umount -l /mnt/backup
}
uncompressed_tar_killed() { right=failed; (when_read; pkill -KILL -x tar) & compressor='' backup --tar=/mnt/slow-tar; wait $!; }
mount_fails() { right=failed; backup --mount=/bin/false; }
database_down() { right=failed; backup --host=127.0.0.1 --port=1; }
name_taken() {
    right=failed
    new_volume -s -L 8M -n data_snapshot vg0/data
    await_ticks 3
    # It ends before its first hook, so only the command around it tells.
    around=("$COWBELL" run --)
    backup
    around=()
    lvremove -qq -f vg0/data_snapshot >>"$OUT/lvm.log" 2>&1
}
no_room() {
    right=failed
    new_volume -l 100%FREE -n filler vg0
    backup
    lvremove -qq -f vg0/filler >>"$OUT/lvm.log" 2>&1
}
killed() { right=abandoned; (when_read; pkill -KILL -x mylvmbackup) & backup; wait $!; in_time 3 has_ended; tidy; }
terminated() { right=abandoned; (when_read; pkill -TERM -x mylvmbackup) & backup; wait $!; in_time 3 has_ended; tidy; }
removed() {
    right="failed untrustworthy"
    (
        when_read
        umount -l /mnt/snap/backup
        dmsetup remove -f --retry vg0-data_snapshot >>"$OUT/lvm.log" 2>&1 || true
        lvremove -qq -f vg0/data_snapshot >>"$OUT/lvm.log" 2>&1 || true
    ) &
    backup
    wait $!
    tidy
}
overflow() { right="untrustworthy overflowed"; (when_read; overfill) & backup; wait $!; }
bad_blocks() {
    right="untrustworthy incomplete"
    (
        wait_until 60 "the snapshot" is_mounted
        dd if=/dev/urandom of=/mnt/vg0/mysql/ballast bs=1M count=24 conv=notrunc,fsync status=none
        local start block
        start=$(dmsetup table vg0-data_snapshot-cow | awk '{ print $5 / 8; exit }')
        for ((block = 1500; block < 5000; block += 100)); do
            dmsetup message dusty 0 addbadblock $((start + block))
        done >/dev/null
        dmsetup message dusty 0 enable
    ) &
    backup --tar=/mnt/late-tar
    wait $!
    dmsetup message dusty 0 disable
    dmsetup message dusty 0 clearbadblocks
}
restarted_and_tar_killed() {
    right=incomplete
    (when_read; kill -KILL "$(pgrep -x cowbell)"; start_cowbell; pkill -KILL -x tar) &
    backup
    wait $!
}
script_with_dead_tar() {
    right="unknown incomplete"
    cat >/mnt/script <<'END'
#!/bin/sh
lvcreate -qq -s -L 60M -n own vg0/data
mkdir -p /mnt/own
mount -o ro /dev/vg0/own /mnt/own
timeout -s KILL 0.5 tar -cf - -C /mnt/own . | /mnt/slowly >/mnt/backup/own.tar
umount /mnt/own
lvremove -qq -f vg0/own
true
END
    chmod +x /mnt/script
    before=$(newest_job) began=$(date +%s)
    rm -rf /mnt/backup/*
    "$COWBELL" run --name own -- /mnt/script >>"$OUT/lvm.log" 2>&1
}

faults="relpath tar_missing database_down no_room name_taken mount_fails tar_killed rsync_killed
    compressor_killed uncompressed_tar_killed backup_disk_full killed terminated removed overflow bad_blocks
    restarted_and_tar_killed script_with_dead_tar"

# judge FAULT: its outcome, its alert, and the alerts before it.
judge() {
    local fault=$1 found older
    older=$(open_alerts)
    "$fault"
    in_time 60 has_ended
    in_time 5 rings >/dev/null || true
    found=$(job .outcome)
    ((bad += 1))
    [[ $found != succeeded ]] || ((called_good += 1))
    check "$fault: outcome (mylvmbackup's status $status)" "$found" "$(for one in $right; do [[ $one != "$found" ]] || echo "$one"; done)"
    check "$fault: an alert" true "$(rings || true)"
    check "$fault: older alerts remain" yes "$( (($(open_alerts) > older)) && echo yes)"
    echo "figure $fault: $(curl -fs "$api/jobs/$(job .id)/figures" | jq -r '.account | "\(.outcome), \(.basis). \(.warning)"')"
}

# Good runs, which leave what is right in $right as well, and the restored folder in $restored.
unpack() {
    rm -rf /mnt/restored
    mkdir -p /mnt/restored
    tar -xf /mnt/backup/*.tar* -C /mnt/restored 2>>"$OUT/lvm.log" || true
    restored=$(find /mnt/restored -name ibdata1 -printf '%h\n' -quit)
}
plain() { right=succeeded; compressor='' backup; unpack; }
compressed() { right=succeeded; compressor=gzip backup; unpack; }
synchronised() { right=succeeded; backup --backuptype=rsync; restored=$(find /mnt/backup -name ibdata1 -printf '%h\n' -quit); }
thin() {
    right=succeeded
    group=vg1
    backup --thin
    group=vg0
    unpack
}
unmounted_lazily() { right=succeeded; (when_read; umount -l /mnt/snap/backup) & backup; wait $!; tidy; unpack; }
kept() {
    right=succeeded
    backup --keep_snapshot
    in_time 3 has_ended
    check "kept: the snapshot is left" true "$(job .left_snapshot)"
    lvremove -qq -f vg0/data_snapshot >>"$OUT/lvm.log" 2>&1
    unpack
}
dead_after_success() {
    right=succeeded
    before=$(newest_job)
    (wait_until 60 "the report" eval '[[ $(job .reported) == succeeded ]]'; overfill) &
    backup --umount=/mnt/slow-umount
    wait $!
    check "dead after success: it died" true "$(job '.died_at != null')"
    unpack
}

good_runs="plain compressed synchronised thin unmounted_lazily kept dead_after_success"

starts() {
    local number=0 pid
    rm -f "$1"/aria_log_control
    mariadbd $(mariadb_options "$1") --socket=/run/mysqld/restored.sock --skip-networking --tmpdir=/mnt/tmp >>"$OUT/restored.log" 2>&1 &
    pid=$!
    until number=$(mariadb --no-defaults --socket=/run/mysqld/restored.sock -N -e 'SELECT count(*) FROM shop.goods' 2>/dev/null); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.2
    done
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
    [[ $number == 10000 ]]
}

judge_good() {
    local kind=$1
    restored=
    "$kind"
    in_time 60 has_ended
    ((good += 1))
    [[ $(job .outcome) == succeeded ]] || ((called_bad += 1))
    check "$kind: outcome" "$right" "$(job .outcome)"
    echo "figure $kind: $(job '"\(.completeness.read_bytes) of \(.completeness.expected_bytes) bytes were read, \(.completeness.runs) runs before"')"
    check "$kind: no open alert" 0 "$(curl -fs "$api/alerts" | jq --arg vg "$(job .vg)" '[.[] | select(.rule == "backup_failed" and .cleared_at == null and .vg == $vg)] | length')"
    check "$kind: the archive starts" yes "$([[ -n $restored ]] && starts "$restored" && echo yes)"
    rm -rf /mnt/restored
}

# What is no backup of its own, or has nothing to do with one.
bystanders() {
    new_volume -s -L 20M -n mine vg0/data
    mkdir -p /mnt/mine
    mount -o ro /dev/vg0/mine /mnt/mine
    await_ticks 3
    check "a person's snapshot: a backup" false "$(curl -fs "$api/jobs" | jq '[.[] | select(.lv == "mine")][0].is_backup')"
    check "a person's snapshot: no forecast" null "$(curl -fs "$api/jobs/$(newest_job)/outlook")"
    umount /mnt/mine
    lvremove -qq -f vg0/mine >>"$OUT/lvm.log" 2>&1
    before=$(newest_job)
    new_volume -L 40M -n ext vg1
    lvconvert -y --type thin --thinpool vg1/pool --originname extorigin vg1/ext >>"$OUT/lvm.log" 2>&1
    await_ticks 4
    check "a volume with an external origin: no job" "$before" "$(newest_job)"
    lvremove -qq -f vg1/ext vg1/extorigin >>"$OUT/lvm.log" 2>&1
    local known=$before
    "$COWBELL" job start beside >/dev/null
    "$COWBELL" run --name sleeper -- sleep 20 &
    local sleeper=$!
    judge overflow
    "$COWBELL" job stop beside
    wait "$sleeper"
    check "a mark and a command beside a lost snapshot" '["succeeded","succeeded"]' \
        "$(curl -fs "$api/jobs" | jq -c --argjson known "$known" '[.[] | select(.id > $known and (.name == "beside" or .name == "sleeper")) | .outcome]')"
}

chosen=" ${*:2} "
is_chosen() {
    [[ $chosen == "  " || $chosen == *" $1 "* ]]
}

bad=0 called_good=0 good=0 called_bad=0
need mylvmbackup mariadbd mariadb mariadb-install-db rsync
make_database
link_hooks
start_cowbell_with_hooks
for ((round = 1; round <= rounds; round++)); do
    for fault in $faults; do ! is_chosen "$fault" || judge "$fault"; done
    ! is_chosen bystanders || bystanders
    for kind in $good_runs; do ! is_chosen "$kind" || judge_good "$kind"; done
done
echo "figure verdicts: of $bad bad runs $called_good were called good, of $good good runs $called_bad were not"
kill "$mariadb"
finish
