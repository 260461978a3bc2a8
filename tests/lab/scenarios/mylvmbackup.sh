# Does a real mylvmbackup, of a real MariaDB, tell cowbell of its phases by the hooks that the README links? Is a run one
# job, and a command around it another? Is a run for which the group has no room a failed job without a snapshot? Is
# the span of the lock no shorter than the lock was? A snapshot that is too small: mylvmbackup reports success, and
# cowbell knows better. A daemon that is killed in the middle goes on with the job; a run that is killed is abandoned;
# and without a daemon the backup is none the worse. After a busy backup and an idle one of some seconds, is no place for a
# smaller size than before?
# Needs the packages mylvmbackup and mariadb-server.
#
# LAB_MEM=1200M
# LAB_TIMEOUT=500
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/database.sh"

# What is backed up takes some seconds to read, since it cannot be compressed.
make_database() {
    modules dm-snapshot ext4
    new_group vg0 /dev/ubda /dev/ubdb
    new_volume -L 500M -n data vg0
    mkfs.ext4 -q /dev/vg0/data
    mkdir -p /mnt/data
    mount /dev/vg0/data /mnt/data
    install_database /mnt/tmp/mysql
    copy_database /mnt/tmp/mysql /mnt/data/
    rm -r /mnt/tmp/mysql
    start_database /mnt/data/mysql $elsewhere
    dd if=/dev/urandom of=/mnt/data/ballast bs=1M count=28 conv=fsync status=none
}

# backup SIZE [COMMAND…]: of the snapshot; COMMAND is put before. Its status is left in $status, what it said in $said.
backup() {
    backup_settings data "$1"
    status=0
    said=$OUT/mylvmbackup-$((++runs)).log
    rm -f /mnt/backup/*
    "${@:2}" mylvmbackup --configfile=/mnt/mylvmbackup.conf >"$said" 2>&1 || status=$?
}
runs=0

# job FILTER: what jq finds of the latest snapshot's job.
job() {
    curl -fs "$api/jobs" | jq -c "[.[] | select(.kind == \"snapshot\")][0] | $1"
}

job_is() {
    [[ $(job "$1") == "$2" ]]
}

# shows WHAT FILTER EXPECTED: cowbell may take two seconds to say it.
shows() {
    in_time 2 job_is "$2" "$3"
    check "$1" "$3" "$(job "$2")"
}

jobs_of_kind() {
    curl -fs "$api/jobs" | jq "[.[] | select(.kind == \"$1\")] | length"
}

command_outcome() {
    curl -fs "$api/jobs" | jq -r '[.[] | select(.kind == "command")][0].outcome'
}

open_alerts() {
    curl -fs "$api/alerts" | jq -r '[.[] | select(.cleared_at == null) | "\(.rule) of \(.lv)"] | join(", ")'
}

# When mylvmbackup said that, in whole seconds.
said_at() {
    date -d "$(sed -n "s/ Info: $1.*//p" "$said" | head -n 1)" +%s
}

seconds() {
    date -d "${1//\"/}" +%s
}

all_phases='["flush","snapshot","mount","backup","cleanup"]'

good_run() {
    backup 100M "$COWBELL" run --name nightly --
    check "a good run: exit status" 0 "$status"
    shows "its outcome" .outcome '"succeeded"'
    check "its phases" "$all_phases" "$(job '[.phases[].phase]')"
    check "jobs of snapshots" 1 "$(jobs_of_kind snapshot)"
    check "jobs of commands" 1 "$(jobs_of_kind command)"
    check "the command's outcome" succeeded "$(command_outcome)"
    check "open alerts" "" "$(open_alerts)"
    local from until
    from=$(seconds "$(job .locked_at_most.from)")
    until=$(seconds "$(job .locked_at_most.until)")
    check "the lock was not taken before its span" yes "$( (($(said_at 'Flushing tables') >= from)) && echo yes)"
    check "the lock was not given back after its span" yes "$( (($(said_at 'Unlocking tables') <= until)) && echo yes)"
    echo "figure the lock was held at most: $(job '"\(.locked_at_most.from) to \(.locked_at_most.until)"')"
    echo "figure phases: $(job '[.phases[] | "\(.phase) \(.began_at)"]')"
    check "the page shows phases" 1 "$(curl -fs "http://127.0.0.1:2692/jobs/$(job .id)" | grep -c '<caption>Phases')"
}

is_mounted() {
    grep -q ' /mnt/snap/backup ' /proc/mounts
}

write_when_mounted() {
    wait_until 60 "the snapshot to be mounted" is_mounted
    dd if=/dev/urandom of=/mnt/data/ballast bs=1M count=20 conv=notrunc,fsync status=none
}

lost_run() {
    write_when_mounted &
    backup 12M "$COWBELL" run --name nightly --
    wait $!
    check "a run that is lost: exit status" 0 "$status"
    check "mylvmbackup says" "DONE: create tar archive" "$(grep -o 'DONE: create tar archive' "$said")"
    shows "its outcome" .outcome '"untrustworthy"'
    check "what it reported" '"succeeded"' "$(job .reported)"
    check "it died" true "$(job '.died_at != null')"
    check "the command's outcome" untrustworthy "$(command_outcome)"
    check "open alerts" "backup_failed of data" "$(open_alerts)"
    check "jobs of snapshots" 2 "$(jobs_of_kind snapshot)"
}

kill_cowbell_when_it_is_read() {
    wait_until 60 "the phase of the backup" job_is '.phases[-1].phase' '"backup"'
    kill -KILL "$cowbell"
}

restarted_run() {
    (kill_cowbell_when_it_is_read; sleep 0.3; start_cowbell) &
    backup 100M
    wait $!
    check "a run over a restart: exit status" 0 "$status"
    shows "its outcome" .outcome '"succeeded"'
    check "its phases" "$all_phases" "$(job '[.phases[].phase]')"
    check "jobs of snapshots" 3 "$(jobs_of_kind snapshot)"
    check "a good backup ends the alert" "" "$(open_alerts)"
}

refused_run() {
    new_volume -l 100%FREE -n filler vg0
    backup 100M
    lvremove -qq -f vg0/filler >>"$OUT/lvm.log" 2>&1
    check "a run without room: exit status" 1 "$status"
    shows "its outcome" .outcome '"failed"'
    check "its phases" '["flush","snapshot","cleanup"]' "$(job '[.phases[].phase]')"
    check "what it is called" '"data_snapshot of vg0/data"' "$(job '"\(.name) of \(.vg)/\(.origin)"')"
    check "jobs of snapshots" 4 "$(jobs_of_kind snapshot)"
    check "open alerts" "backup_failed of data" "$(open_alerts)"
    check "the command line says why" 1 "$("$COWBELL" job show "$(job .id)" | grep -c 'no snapshot was made')"
    echo "figure phases: $(job '[.phases[] | "\(.phase) \(.began_at)"]')"
}

# The busy one comes first.
no_smaller_size() {
    local id
    write_when_mounted &
    backup 80M
    wait $!
    backup 80M
    check "an idle run: exit status" 0 "$status"
    shows "its outcome" .outcome '"succeeded"'
    id=$(job .id)
    check "the size of the next snapshot" true "$("$COWBELL" size vg0/data --json | jq '.suggested_bytes >= 80 * 1048576')"
    check "the same of the job" true "$(curl -fs "$api/jobs/$id/figures" | jq '.sizing.suggested_bytes >= 80 * 1048576')"
    check "job show: smaller sizes" "" "$("$COWBELL" job show "$id" | grep 'would be enough')"
    mount --bind /mnt/mylvmbackup.conf /etc/mylvmbackup.conf
    COWBELL_CONFIG=/mnt/cowbell.toml "$COWBELL" check >"$OUT/check.log" || true
    check "check: smaller sizes" "" "$(grep 'would be enough' "$OUT/check.log")"
    echo "figure size: $("$COWBELL" size vg0/data | head -n 3 | xargs)"
    echo "figure check: $(grep 'next snapshot of' "$OUT/check.log")"
    umount /etc/mylvmbackup.conf
}

kill_when_it_is_read() {
    wait_until 60 "the phase of the backup" job_is '.phases[-1].phase' '"backup"'
    kill -KILL "$(pgrep -x mylvmbackup)"
}

killed_run() {
    kill_when_it_is_read &
    backup 100M
    wait $!
    check "a run that is killed: exit status" 137 "$status"
    shows "its outcome, when its process has ended" .outcome '"abandoned"'
    check "its snapshot is left" true "$(job .left_snapshot)"
    pkill -x tar || true
    wait_until 20 "the snapshot to be free" umount /mnt/snap/backup
    rmdir /mnt/snap/backup
    lvremove -qq -f vg0/data_snapshot >>"$OUT/lvm.log" 2>&1
    check "its last phase" '"backup"' "$(job '.phases[-1].phase')"
}

# The guest's system calls are dear: the time is a figure here, and judged by the tests on the machine itself.
without_a_daemon() {
    local begun number
    backup 100M
    check "a run without a daemon: exit status" 0 "$status"
    begun=${EPOCHREALTIME/./}
    for number in {1..20}; do "$hooks/preunlock" || fail "the hook ended badly"; done
    echo "figure a hook in the guest: $(((${EPOCHREALTIME/./} - begun) / 20)) us"
    begun=${EPOCHREALTIME/./}
    for number in {1..20}; do /bin/true; done
    echo "figure /bin/true in the guest: $(((${EPOCHREALTIME/./} - begun) / 20)) us"
}

need mylvmbackup mariadbd mariadb mariadb-install-db
make_database
link_hooks
start_cowbell_with_hooks
good_run
lost_run
restarted_run
refused_run
no_smaller_size
cowbell=$(pgrep -x cowbell)
killed_run
kill -TERM "$cowbell"
wait_until 20 "cowbell to end" eval '! pgrep -x cowbell'
check "the socket went with cowbell" no "$([[ -e /run/cowbell/hooks ]] || echo no)"
without_a_daemon
kill "$mariadb"
finish
