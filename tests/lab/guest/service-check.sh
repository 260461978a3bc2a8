#!/bin/bash
# Judges the service in a Debian of its own, as root: installs it by the README's own
# commands, then lives a bad day with it. Run by tests/lab/service in the folder that holds
# what it brought; one line `ok` or `WRONG` for each thing, `info` for figures.
job=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
OUT=$(dirname "$job")
source "$job/lab.sh"
source "$job/service.sh"

# Everything on the disk that somebody could have written, with size and times; not the state that the
# unit gives, nor what is written here by systemd, the journal, LVM's archive and this check.
files_on_disk() {
    find /etc /usr /var /root /opt /srv /boot -xdev \
        \( -path "$state" -o -path '*.wants/cowbell*' -o -path '/etc/cowbell*' -o -path '*/cowbell.service.d*'  -o -path /var/log/journal -o -path /var/log/wtmp -o -path /var/lib/systemd -o -path '/var/tmp/systemd-private-*' \
        -o -path /etc/lvm/archive -o -path /etc/lvm/backup \) -prune \
        -o -type d -printf '%p\n' -o -printf '%p %s %T@ %C@ %m %U\n' | sort
}

# The commands as they stand in the README, without sudo: this is root already.
install_as_the_readme_says() {
    local line
    while read -r line; do
        info "README" "$line"
        eval "$line"
    done < <(sed -n 's/^ *sudo \('"$1"' .*\)/\1/p' "$job/README.md")
}

configure() {
    mkdir -p /etc/cowbell
    cat >/etc/cowbell/cowbell.toml <<-'END'
	[[notify]]
	kind = "command"
	command = ["/bin/sh", "-c", "x=$(cat); printf '%s\\n' \"$x\" >>$STATE_DIRECTORY/told"]
	END
}

starts_and_is_ready() {
    took install_as_the_readme_says systemctl
    check "systemctl is-active" active "$(systemctl is-active cowbell)"
    check "enabled" enabled "$(systemctl is-enabled cowbell)"
    info "enabled and ready after" "$took ms"
    local begun ready
    begun=$(property ExecMainStartTimestampMonotonic)
    ready=$(property ActiveEnterTimestampMonotonic)
    info "from exec to ready" "$(((ready - begun) / 1000)) ms"
    check_that "ready means that pages are served" curl -fsS -o "$OUT/first.html" "$here/"
    check "restarts" 0 "$(property NRestarts)"
    sleep 5
    for name in NRestarts StatusText MainPID MemoryCurrent MemoryPeak TasksCurrent CPUUsageNSec; do
        info "$name" "$(property "$name")"
    done
    info "resident KiB" "$(grep -o 'VmRSS.*\|VmHWM.*' "/proc/$(property MainPID)/status" | tr -s '\t\n ' ' ')"
}

keeps_state_to_itself() {
    check "state directory" "cowbell cowbell 750" "$(stat -c '%U %G %a' "$state")"
    check "state files are for its user alone" "cowbell 600" "$(find "$state" -type f -printf '%u %m\n' | sort -u)"
    check "hooks are heard from root alone" "root 600, root 755" "$(stat -c '%U %a' /run/cowbell/hooks), $(stat -c '%U %a' /run/cowbell)"
    check "readings are for its group alone" "root cowbell 660" "$(stat -c '%U %G %a' /run/cowbell/reader)"
    info "state" "$(find "$state" -type f -printf '%f %s  ')"
}

# What a command sees that runs with the unit's own sandbox.
is_in_its_sandbox() {
    local status=/proc/$(property MainPID)/status
    check "system calls are filtered" 2 "$(awk '/^Seccomp:/ { print $2 }' "$status")"
    check "no new privileges" 1 "$(awk '/^NoNewPrivs:/ { print $2 }' "$status")"
    check "capabilities of what serves HTTP" "0000000000000000 0000000000000000" "$(awk '/^Cap(Bnd|Eff):/ { print $2 }' "$status" | xargs)"
    check "its user" cowbell "$(stat -c %U "/proc/$(property MainPID)")"
    status=/proc/$(property MainPID cowbell-reader)/status
    check "the reader: no new privileges, system calls are filtered" "1 2" "$(awk '/^(Seccomp|NoNewPrivs):/ { print $2 }' "$status" | xargs)"
    info "capabilities of the reader" "$(awk '/^CapEff:/ { print $2 }' "$status") $(property CapabilityBoundingSet cowbell-reader)"
    check "networks of the reader" lo: "$(awk 'NR > 2 { print $1 }' "/proc/$(property MainPID cowbell-reader)/net/dev" | xargs)"
    check "a disk cannot be opened for writing" "denied" "$(in_its_cgroup)"
    check "descriptors of block devices" "" "$(ls -l "/proc/$(property MainPID)/fd" | grep -o '/dev/\(dm\|ubd\|vg\).*' || true)"
}

# The same rules for devices, in a unit that tries.
in_its_cgroup() {
    local rules=() rule
    while read -r rule; do rules+=(-p "$rule"); done < <(sed -n '/^Device\(Policy\|Allow\)=/p' "$job/systemd/cowbell-reader.service")
    if systemd-run -q --wait "${rules[@]}" /bin/sh -c ': <>/dev/ubdb' 2>/dev/null; then echo allowed; else echo denied; fi
}

make_volumes() {
    new_group vg0 /dev/ubdb
    new_volume -L 200M -n data vg0
    mkfs.ext4 -q /dev/vg0/data
    new_volume -s -c 4k -L 64M -n data_snapshot vg0/data
    new_volume --type thin-pool -L 100M -n pool vg0
    new_volume -V 300M --thinpool vg0/pool -n thin
    dd if=/dev/urandom of=/dev/vg0/data bs=64k seek=800 count=333 conv=fsync status=none
    dd if=/dev/urandom of=/dev/vg0/thin bs=64k count=300 conv=fsync status=none
}

snapshots_are_jobs() {
    within 60 is_one_job data_snapshot
    check "the snapshot is one job, running" "1 snapshot data null" "$(jobs_of data_snapshot '"\(length) \(.[0].kind) \(.[0].origin) \(.[0].ended_at)"')"
    new_volume -s -L 12M -n short vg0/data
    within 60 is_one_job short
    check_that "lvremove of a snapshot that is watched" lvremove -y vg0/short
    within 60 has_ended short
    check "who made it was seen, sandbox or not" "true" "$(jobs_of short '.[0].program != null')"
    check "its job has ended, outcome not known" "1 unknown true" "$(jobs_of short '"\(length) \(.[0].outcome) \(.[0].ended_at != null)"')"
}

# A snapshot that is read, and would overflow: the guard's sandbox lets it extend it.
guard_extends_in_its_sandbox() {
    local number=0 reader pid
    check "the guard is off by default" "disabled inactive" "$(systemctl is-enabled cowbell-guard || true) $(systemctl is-active cowbell-guard || true)"
    cat >/etc/cowbell/guard.toml <<-'END'
	mode = "on"
	[vg.vg0]
	keep_free = "8 MiB"
	[[volume]]
	name = "vg0/guarded"
	largest = "48 MiB"
	add_at_most_per_day = "100 MiB"
	END
    check_that "the guard starts" systemctl start cowbell-guard
    new_volume -L 60M -n origin vg0
    new_volume -s -L 16M -n guarded vg0/origin
    # It is not killed: this script made the job data_snapshot, which would have failed with it.
    until [[ -e /tmp/enough ]]; do
        dd if=/dev/vg0/guarded of=/dev/null bs=1M count=1 skip="$((number++ % 60))" iflag=direct status=none
        sleep 0.2
    done &
    reader=$!
    sleep 3
    for ((number = 0; number < 320; number++)); do
        dd if=/dev/zero of=/dev/vg0/origin bs=64k count=1 seek="$number" oflag=direct status=none
    done
    check "the guard saved a snapshot" "no yes" "$(is_invalid vg0/guarded && echo yes || echo no) $(is_larger guarded 16 && echo yes)"
    sed -i 's/"48 MiB"/"20 MiB"/' /etc/cowbell/guard.toml
    printf '[slow_writers]\ncommand = "/bin/true"\nundo = "/bin/true"\nuser = "nobody"\n' >>/etc/cowbell/guard.toml
    systemctl restart cowbell-guard
    for ((; number < 940; number++)); do
        dd if=/dev/zero of=/dev/vg0/origin bs=64k count=1 seek="$number" oflag=direct status=none
        ! guard_said "the guard slowed its writers" || break
        sleep 0.1
    done
    touch /tmp/enough
    wait "$reader"
    rm /tmp/enough
    lvremove -qy vg0/origin
    within 20 guard_said "Its writers are no longer slowed"
    check_that "the guard slows writers by another user's command" guard_said "the guard slowed its writers"
    check_that "and undoes it" guard_said "Its writers are no longer slowed"
    sed -i '/slow_writers/,$d' /etc/cowbell/guard.toml
    pid=$(property MainPID cowbell-guard)
    kill -9 "$pid"
    within 30 is_another cowbell-guard "$pid"
    within 30 systemctl -q is-active cowbell-guard
    check "the guard is restarted" active "$(systemctl is-active cowbell-guard)"
    sed -i 's/vg0/vg7/' /etc/cowbell/guard.toml
    systemctl restart cowbell-guard || true
    within 30 alert_says_why_the_guard_does_not_run
    check_that "an alert says why the guard does not run" alert_says_why_the_guard_does_not_run
    systemctl stop cowbell-guard
    rm -r /run/cowbell-guard /etc/cowbell/guard.toml
}

guard_said() {
    journalctl -q -u cowbell-guard | grep -q "$1"
}

is_larger() {
    (($(lvs --noheadings --units m --nosuffix -o lv_size "vg0/$1" | awk '{ print int($1) }') > $2))
}

alert_says_why_the_guard_does_not_run() {
    api alerts | jq -e 'any(.rule == "guard" and (.sentence | contains("names the volume group vg7, which does not exist")))'
}

# One life after the other, while LVM is asked by cowbell too.
never_in_the_way() {
    local number failed=0
    for ((number = 0; number < 5; number++)); do
        new_volume -s -L 12M -n "churn$number" vg0/data
        lvremove -y "vg0/churn$number" >>"$OUT/lvm.log" 2>&1 || failed=$((failed + 1))
    done
    check "lvremove that failed, of 5" 0 "$failed"
    sleep 1
    check "volumes that remained" "" "$(dmsetup ls | grep churn || true)"
}

# A sandbox has a mount namespace, which begins as a copy: a snapshot that is mounted then must not stay in it.
mounts_are_not_pinned() {
    local place places=(/mnt/backup /tmp/backup /var/tmp/backup /root/backup /home/backup /srv/backup /run/backup)
    new_volume -s -L 32M -n mounted vg0/data
    for place in "${places[@]}"; do
        mkdir -p "$place"
        mount -o ro,noload /dev/vg0/mounted "$place"
    done
    systemctl restart cowbell-reader cowbell
    info "mounts of it that the service holds" "$(cat "/proc/$(property MainPID)/mountinfo" "/proc/$(property MainPID cowbell-reader)/mountinfo" | grep -c vg0-mounted || true) of ${#places[@]}"
    umount "${places[@]}"
    rmdir "${places[@]}"
    check "mounts that stay in the service" "" "$(awk '/vg0-mounted/ { print $5 }' "/proc/$(property MainPID)/mountinfo" "/proc/$(property MainPID cowbell-reader)/mountinfo")"
    check_that "lvremove after it was mounted and cowbell restarted" lvremove -y vg0/mounted
}

told() {
    journalctl -u cowbell -p "$1" -o cat --no-pager | grep -c "vg0/$2" || true
}

rings_in_the_journal() {
    new_volume -s -c 4k -L 16M -n filling vg0/data
    dd if=/dev/urandom of=/dev/vg0/data bs=64k count=192 conv=fsync status=none
    within 60 test_told warning filling
    check "a warning in the journal at priority warning" 1 "$(told warning..warning filling)"
    info "sentence" "$(journalctl -u cowbell -p warning..warning -o cat --no-pager | grep filling | tail -n 1)"
    dd if=/dev/urandom of=/dev/vg0/data bs=64k seek=200 count=40 conv=fsync status=none
    within 60 test_told err filling
    check "a critical alert at priority err" 1 "$(told emerg..err filling)"
    lvremove -y vg0/filling >>"$OUT/lvm.log"
    within 60 command_was_told cleared
    check "a command is told in the sandbox: raised, worse, over" "raised warning raised critical cleared critical" \
        "$(jq -r 'select(.lv == "filling") | "\(.status) \(.severity)"' "$state/told" | xargs)"
}

command_was_told() {
    jq -e -s --arg status "$1" 'any(.lv == "filling" and .status == $status)' "$state/told"
}

test_told() {
    (($(told "$1" "$2") > 0))
}

shorten_watchdog() {
    mkdir -p /etc/systemd/system/cowbell.service.d
    printf '[Service]\nWatchdogSec=4\n' >/etc/systemd/system/cowbell.service.d/lab.conf
    systemctl daemon-reload
    systemctl restart cowbell
}

restore_watchdog() {
    rm -r /etc/systemd/system/cowbell.service.d
    systemctl daemon-reload
    systemctl restart cowbell
}

# comes_back HOW PID START: waits until another process answers, and says how long that took.
comes_back() {
    wait_until 120 "cowbell to come back after $1" answers_as_another "$2"
    info "answers again after $1" "$(($(milliseconds) - $3)) ms"
}

watchdog_ends_what_hangs() {
    local pid start
    shorten_watchdog
    sleep 6
    check "fed, the watchdog stays quiet" 0 "$(property NRestarts)"
    pid=$(property MainPID)
    start=$(milliseconds)
    kill -STOP "$pid"
    comes_back "SIGSTOP (WatchdogSec=4)" "$pid" "$start"
    check "restarts by the watchdog" 1 "$(property NRestarts)"
    check_that "the journal says why" sh -c "journalctl -u cowbell --no-pager | grep -m 1 -i 'watchdog timeout'"
    restore_watchdog
}

comes_back_after_kill() {
    local before after pid start
    before=$(jobs_of data_snapshot 'map(.id)|@csv')
    pid=$(property MainPID)
    start=$(milliseconds)
    kill -9 "$pid"
    comes_back "kill -9" "$pid" "$start"
    within 60 is_one_job data_snapshot
    after=$(jobs_of data_snapshot 'map(.id)|@csv')
    check "the running job goes on as the same" "$before" "$after"
    check "and still runs" "null" "$(jobs_of data_snapshot '.[0].ended_at')"
    sees_everything | grep -v '^info' || true
    check_that "volumes agree with lvs again" volumes_agree
}

stops_at_once() {
    local streams=()
    curl -sN -o "$OUT/live.log" "$here/api/v1/live" & streams+=($!)
    curl -sN -o /dev/null "$here/api/v1/live" & streams+=($!)
    within 60 grep -q '^event: tick' "$OUT/live.log"
    check_that "the live stream flows" grep -q '^event: tick' "$OUT/live.log"
    took systemctl stop cowbell
    info "stopped with open streams in" "$took ms"
    check_that "stopped within three seconds" test "$took" -lt 3000    # 0.3 s where nothing else runs
    check "result" "success exited 0 inactive" "$(property Result) $(exit_code) $(property ExecMainStatus) $(property ActiveState)"
    wait "${streams[@]}" || true
    systemctl start cowbell
    check "started again" active "$(systemctl is-active cowbell)"
}

# systemd makes a folder within a folder in /tmp and /var/tmp for each start. Without room it does without; with room for one of the two
# the start fails, and is tried again. So no block may be free.
fill_up() {
    local part
    for part in {1..20}; do
        dd if=/dev/zero bs=1k of="/full.rest$part" status=none 2>/dev/null || true
        sync
        sleep 0.5
        mkdir "/var/tmp/room$part" 2>/dev/null || return 0
    done
}

# Its state directory is on that file system too. The stop frees two folders in /tmp, which others fill at once.
starts_on_a_full_root() {
    fallocate -l "$(df --output=avail -B1 / | tail -n 1)" /full || true
    systemctl stop cowbell
    fill_up
    check_that "the root file system is full" not mkdir /var/tmp/room
    check_that "it starts there" timeout 60 systemctl start cowbell
    within 20 curl -fsS -o /dev/null "$here/healthz"
    check "its reader too, and both go on" "active active ok" "$(systemctl is-active cowbell cowbell-reader | xargs) $(curl -fsS "$here/healthz")"
    within 60 store_alert_is true
    check_that "an alert says that nothing is written" store_alert_is true
    rm -rf /full /full.rest* /var/tmp/room*
    within 120 store_alert_is false
    check_that "with room, it is written again" store_alert_is false
}

store_alert_is() {
    api alerts | jq -e --argjson open "$1" 'any(.rule == "store_failed" and .cleared_at == null) == $open'
}

# 1 is CLD_EXITED.
exit_code() {
    [[ $(property ExecMainCode) == 1 ]] && echo exited || echo killed
}

# systemd shows in a line what cowbell sees; the journal finds a volume by its name.
tells_systemd_and_the_journal() {
    info "status" "$(property StatusText)"
    check "systemctl status says what is watched" yes "$([[ $(property StatusText) == 'watching '*' full'* ]] && echo yes)"
    check_that "journalctl LV=data_snapshot finds its job" sh -c "journalctl LV=data_snapshot -o cat --no-pager | grep 'began'"
    check_that "journalctl ALERT=snapshot_fill finds alerts" sh -c "journalctl ALERT=snapshot_fill -o cat --no-pager | grep 'full'"
}

takes_a_new_configuration() {
    local pid
    pid=$(property MainPID)
    sed -i '1i hosts = ["lab.example"]' /etc/cowbell/cowbell.toml
    systemctl reload cowbell
    within 10 answers_as lab.example
    check "after a reload it answers by a new name" yes "$(answers_as lab.example && echo yes)"
    sed -i '1i hostz = []' /etc/cowbell/cowbell.toml
    check_that "the reload of a wrong one fails" not systemctl reload cowbell
    within 10 sh -c "curl -fsS $here/metrics | grep -x 'cowbell_configuration_refused\({}\)\? 1'"
    check "a metric and an alert say so" "1 1" \
        "$(curl -fsS "$here/metrics" | awk '/^cowbell_configuration_refused/ { print $2 }') $(api alerts | jq '[.[] | select(.rule == "configuration_refused" and .cleared_at == null)] | length')"
    check "a check of the file alone says so" 1 "$(cowbell check --config /etc/cowbell/cowbell.toml >/dev/null 2>&1; echo $?)"
    within 10 sh -c "systemctl show -P StatusText cowbell | grep 'kept the old'"
    check_that "a wrong one is named in the status" sh -c "systemctl show -P StatusText cowbell | grep 'kept the old configuration: .*hostz'"
    check "and the old one remains" yes "$(answers_as lab.example && echo yes)"
    check "the process stays" "$pid" "$(property MainPID)"
    configure
    systemctl reload cowbell
}

answers_as() {
    curl -fsS -m 2 -o /dev/null -H "Host: $1" "$here/api/v1/status"
}

# The kernel names the user at the control socket.
knows_who_sends_commands() {
    check_that "root marks a job" cowbell job start by-root
    check_that "another user runs a command as a job" setpriv --reuid nobody --regid nogroup --clear-groups cowbell run --name by-nobody -- true
    check "which is recorded" succeeded "$(api jobs | jq -r '.[] | select(.name == "by-nobody") | .outcome')"
    check_that "another user ends no job of root" not setpriv --reuid nobody --regid nogroup --clear-groups cowbell job stop by-root
    check_that "the group cowbell does" setpriv --reuid nobody --regid nogroup --groups cowbell cowbell job stop by-root
    check "HTTP without a token changes nothing" 403 "$(curl -s -o /dev/null -w '%{http_code}' -X DELETE -H 'Content-Type: application/json' "$here/api/v1/jobs/1")"
}

# What no restart mends is not tried again and again; what may mend itself is.
bad_configuration_is_said_once() {
    echo 'lisen = "127.0.0.1:2692"' >>/etc/cowbell/cowbell.toml
    local before
    check_that "with a bad configuration the start fails" not systemctl restart cowbell
    before=$(journal_lines)
    for user in nobody daemon games; do
        timeout 15 setpriv --reuid "$user" --regid nogroup --clear-groups \
            sh -c 'while sleep 0.2; do cowbell status; done' >/dev/null 2>&1 &
    done
    sleep 16
    check "commands of users again and again make at most 10 lines of log" yes "$(lines=$(($(journal_lines) - before)); ((lines <= 10)) && echo yes || echo "$lines")"
    check "and is not tried again" "failed 2 0" "$(property ActiveState) $(property ExecMainStatus) $(property NRestarts)"
    info "sentence" "$(journalctl -u cowbell -o json --no-pager | jq -r 'select(._COMM == "cowbell") | "priority \(.PRIORITY): \(.MESSAGE)"' | tail -n 1)"
    configure
    systemctl restart cowbell
    check "mended, it starts, and its sockets" "active active active" "$(systemctl is-active cowbell cowbell-control.socket cowbell-reader.socket | xargs)"
    reader_waits_for_its_configuration
    a_restart_applies_everything
}

journal_lines() { journalctl -o cat --no-pager | wc -l; }
own_lines() { journalctl -t cowbell -o cat --no-pager | wc -l; }

# The daemon asks the reader each second: one that cannot start would be started as often.
reader_waits_for_its_configuration() {
    local before
    cp /etc/cowbell/cowbell.toml "$OUT/good.toml"
    echo 'lisen = "127.0.0.1:2692"' >>/etc/cowbell/cowbell.toml
    before=$(own_lines)
    systemctl restart cowbell-reader
    sleep 15
    check "a reader with a bad configuration: at most 10 lines of log" yes "$(lines=$(($(own_lines) - before)); ((lines <= 10)) && echo yes || echo "$lines")"
    check_that "the daemon says what is wrong" sh -c "journalctl -u cowbell -o cat --no-pager | grep 'refused the connection.*lisen'"
    cp "$OUT/good.toml" /etc/cowbell/cowbell.toml
    within 20 sh -c "curl -fsS $here/api/v1/status | jq -e '.parts[] | select(.name == \"dm\") | .ok'"
    check "mended, it reads again without a restart" true "$(api status | jq '.parts[] | select(.name == "dm") | .ok')"
}

a_restart_applies_everything() {
    local reader
    reader=$(property MainPID cowbell-reader)
    sed -i '1i interval = "3s"' /etc/cowbell/cowbell.toml
    systemctl restart cowbell
    within 20 sh -c "curl -fsS $here/api/v1/status | jq -e '.parts[] | select(.name == \"dm\") | .ok'"
    check "a restart begins a reader too" no "$([[ $(property MainPID cowbell-reader) == "$reader" ]] && echo yes || echo no)"
    sleep 10
    check "with the new interval no tick is missed" "3000 0" "$(api status | jq -r '"\(.ticks.interval_ms) \(.ticks.missed)"')"
    systemctl stop cowbell
    # The reader ends after the daemon, and systemctl does not wait for it.
    within 10 not pgrep -x cowbell
    check "a stop ends all" "" "$(pgrep -x cowbell || true)"
    configure
    systemctl restart cowbell
    within 20 sh -c "curl -fsS $here/healthz"
}

not() {
    ! "$@"
}

leaves_nothing_else() {
    files_on_disk >"$OUT/files-after"
    check "files written elsewhere" "" "$(diff "$OUT/files-before" "$OUT/files-after" | grep '^[<>]' || true)"
}

is_as_tight_as_can_be() {
    local unit most
    while read -r unit most; do
        check_that "systemd-analyze verify $unit" systemd-analyze verify --man=no "$unit.service"
        systemd-analyze security --no-pager "$unit" >"$OUT/security-$unit.txt" || true
        check "exposure of $unit is at most $most" yes "$(exposure "$unit" "$most")"
    done <<<$'cowbell 1.4\ncowbell-reader 2.0\ncowbell-guard 3.0'
    check "denied by the sandbox, says the journal" "" "$(journalctl -u cowbell -u cowbell-reader -u cowbell-guard -o cat --no-pager | grep -i 'not permitted\|read-only file system\|permission denied' | head -n 3 || true)"
}


# exposure UNIT MOST: `yes`, or what it is.
exposure() {
    local found
    found=$(sed -n 's/.*exposure level for.*: \([0-9.]*\) .*/\1/p' "$OUT/security-$1.txt")
    info "exposure of $1" "$found" >&2
    awk -v found="$found" -v most="$2" 'BEGIN { print (found != "" && found <= most) ? "yes" : found }'
}

# The reader's sandbox lets it read the kernel's statistics, which it does once a minute.
reads_written_areas() {
    check_that "a volume is watched" cowbell size vg0/thin --watch on --yes
    within 90 written_areas_are_known
    check_that "the reader reads written areas" written_areas_are_known
    check_that "a volume is not watched any more" cowbell size vg0/thin --watch off
}

written_areas_are_known() {
    api status | jq -e '.parts[] | select(.name == "touched").ok'
}

# Without the reader, usage is unknown with the reason, all else goes on, and it comes back by itself.
lives_without_its_reader() {
    local pid before start restarts
    pid=$(property MainPID cowbell-reader)
    restarts=$(property NRestarts)
    before=$(api status | jq .ticks.taken)
    kill -STOP "$pid"
    within 30 dm_says "has not answered"
    check "with a stopped reader" "cowbell-reader has not answered" "$(dm_error | sed 's/ for .*//')"
    check "ticks go on" ok "$(curl -fs -m 5 "$here/healthz" >/dev/null && echo ok)"
    check "usage is unknown" null "$(api volumes | jq '.[] | select(.lv == "data_snapshot") | .fill_percent')"
    check_that "throughput is known" eval 'api devices | jq -e "any(.read_bytes_per_s != null)"'
    start=$(milliseconds)
    kill -CONT "$pid"
    within 120 dm_says none
    info "usage is known again after SIGCONT in" "$(($(milliseconds) - start)) ms"
    within 60 volumes_agree
    check_that "volumes agree with lvs after SIGCONT" volumes_agree
    start=$(milliseconds)
    kill -9 "$pid"
    within 120 is_another cowbell-reader "$pid"
    sleep 3    # The daemon notices after two seconds that readings are missing.
    within 120 dm_says none
    check "after kill -9 of the reader" none "$(dm_error)"
    info "usage is known again after kill -9 in" "$(($(milliseconds) - start)) ms"
    within 60 volumes_agree
    check_that "volumes agree with lvs after kill -9" volumes_agree
    check "the daemon went on" "true $restarts" "$(api status | jq --argjson before "$before" '.ticks.taken > $before') $(property NRestarts)"
}

# is_another UNIT PID: until it is started again, its PID is 0.
is_another() {
    local now
    now=$(property MainPID "$1")
    ((now != 0 && now != $2))
}

# The reader has no network, but systemd's netlink socket tells it which processes of a backup failed.
sees_a_reader_that_was_killed() {
    cp /usr/bin/sleep /tmp/tar
    cat >/tmp/mylvmbackup <<-'END'
	#!/usr/bin/perl
	use Socket;
	socket my $out, AF_UNIX, SOCK_DGRAM, 0;
	connect $out, pack_sockaddr_un "/run/cowbell/hooks";
	sub hook { send $out, "mylvmbackup $$ @_", 0; select undef, undef, undef, 1.5 }
	hook $_ for "preconnect", "presnapshot";
	system "lvcreate -qq -s -L 16M -n read vg0/data >/dev/null";
	hook $_ for "preunlock", "premount", "prebackup";
	system "/tmp/tar 60 & sleep 1; kill -9 \$!; wait \$!; true";
	hook $_ for "backupsuccess", "precleanup";
	system "lvremove -qq -y vg0/read";
	END
    chmod +x /tmp/mylvmbackup
    /tmp/mylvmbackup
    within 60 has_ended read
    check "a killed tar is seen" "tar was killed by signal 9" \
        "$(api "jobs/$(jobs_of read '.[0].id')/figures" | jq -r .account.warning | grep -o 'tar was killed by signal 9')"
    rm /tmp/tar /tmp/mylvmbackup
}

# systemd starts each of the unit's commands itself. What tar writes is read at once, or in part.
night_of_a_unit() {
    local before
    before=$(jobs_of by-unit length)
    systemctl start --no-block nightly.service
    (head -c "$1"; [[ $1 == 1G ]] || sleep 6; exec cat >/dev/null) </tmp/nightly >/dev/null &
    if [[ $1 != 1G ]]; then
        within 60 pgrep -x tar
        sleep 2
        pkill -KILL -x tar
    fi
    within 60 is_later "$before" by-unit
    within 30 is_judged by-unit
    wait "$!"
    jobs_of by-unit '.[0] | "\(.program) \(.outcome)"'
}
is_later() { (($(jobs_of "$2" length) > $1)); }
is_judged() { has_ended "$1" && [[ $(jobs_of "$1" '.[0].outcome') != unknown ]]; }

rings() { api alerts | jq -e 'any(.rule == "backup_failed" and .lv == "nightly" and .cleared_at == null)'; }

follows_a_unit() {
    new_volume -L 60M -n nightly vg0
    mkfs.ext4 -q /dev/vg0/nightly
    mkdir /mnt/nightly
    mkfifo /tmp/nightly
    mount /dev/vg0/nightly /mnt/nightly
    dd if=/dev/urandom of=/mnt/nightly/file bs=1M count=40 status=none
    umount /mnt/nightly
    cat >/run/systemd/system/nightly.service <<-'END'
	[Service]
	Type=oneshot
	ExecStartPre=/usr/sbin/lvcreate -qq -y -s -L 16M -n by-unit vg0/nightly
	ExecStartPre=/usr/bin/mount -o ro,noload /dev/vg0/by-unit /mnt/nightly
	ExecStartPre=/usr/bin/sleep 2
	ExecStart=/usr/bin/tar -C /mnt/nightly -cf /tmp/nightly .
	ExecStopPost=/usr/bin/umount /mnt/nightly
	ExecStopPost=/usr/sbin/lvremove -qq -y vg0/by-unit
	END
    systemctl daemon-reload
    check "the first backup by a unit's commands" "nightly.service succeeded" "$(night_of_a_unit 1G)"
    check "one whose tar is killed" "nightly.service failed" "$(night_of_a_unit 10M)"
    within 60 rings
    check_that "it raises an alert" rings
    check "the next good one" "nightly.service succeeded" "$(night_of_a_unit 1G)"
    rm -r /run/systemd/system/nightly.service /tmp/nightly /mnt/nightly
    systemctl daemon-reload
    lvremove -qq -y vg0/nightly
}

# The machine goes down and comes up; systemd brings cowbell back. The script that made the snapshot is gone.
reboots() {
    jobs_of data_snapshot '.[0].id' >"$OUT/job-id"
    echo "$failures" >"$OUT/rebooting"
    journalctl -b --no-pager >"$OUT/journal-first-boot.log"
    systemctl reboot
    sleep infinity
}

is_back_after_the_reboot() {
    failures=$(cat "$OUT/rebooting")
    within 60 is_active
    check "after a reboot" "active 0" "$(property ActiveState) $(property NRestarts)"
    info "ready after" "$(($(property ActiveEnterTimestampMonotonic) / 1000)) ms of uptime, $((($(property ActiveEnterTimestampMonotonic) - $(property ExecMainStartTimestampMonotonic)) / 1000)) ms after exec"
    check "it stopped with the machine" "cowbell.service: Deactivated successfully." "$(how_it_stopped)"
    sees_everything
    agrees_with_lvs
    check "the snapshot's job ended with the script that made it" "$(cat "$OUT/job-id") abandoned" "$(jobs_of data_snapshot '.[0] | "\(.id) \(.outcome)"')"
}

how_it_stopped() {
    journalctl -b -1 -u cowbell -o cat --no-pager | sed -n '/^Stopping/,$p' | grep '^cowbell.service: [DFKM]' | tail -n 1
}

cd "$job"
if [[ -e $OUT/rebooting ]]; then
    is_back_after_the_reboot
    starts_on_a_full_root
    finish
    exit
fi
mkdir -p /var/log/journal    # of both boots
journalctl --flush
configure
install_as_the_readme_says install
install_as_the_readme_says systemd-sysusers
files_on_disk >"$OUT/files-before"
info "systemd" "$(systemctl --version | head -n 1), $(lvm version | awk '/LVM version/ { print "LVM " $3 }'), kernel $(uname -r)"
modprobe -r dm_mod    # volumes that are made later have to be seen all the same
info "dm_mod before the start" "$(lsmod | grep -c '^dm_mod' || true) loaded, $(ls /dev/mapper/control 2>/dev/null || echo 'no node')"
starts_and_is_ready
keeps_state_to_itself
is_in_its_sandbox
sees_everything
make_volumes
agrees_with_lvs
snapshots_are_jobs
never_in_the_way
mounts_are_not_pinned
rings_in_the_journal
tells_systemd_and_the_journal
takes_a_new_configuration
knows_who_sends_commands
watchdog_ends_what_hangs
comes_back_after_kill
reads_written_areas
lives_without_its_reader
sees_a_reader_that_was_killed
follows_a_unit
guard_extends_in_its_sandbox
stops_at_once
bad_configuration_is_said_once
leaves_nothing_else
is_as_tight_as_can_be
reboots
