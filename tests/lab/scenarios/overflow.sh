# What does cowbell say of thick snapshots that end badly, or well? dmeventd runs and monitors, as it does on a server.
# One is mounted, overflows and is unmounted by dmeventd: is it invalid within a second of the kernel's event, is
# its fill never said as 100, and does its job say who unmounted it? Three of one origin: has each its own fill? One is
# extended at 90 %: does the fill fall, and the alert end? One is merged back: does the fill fall with the kernel's?
#
# LAB_DISK_SIZE=512M
# LAB_PACKAGES=dmeventd
source "$repo/tests/lab/guest/lab.sh"

start_dmeventd() {
    sed -i 's/monitoring=0/monitoring=1 snapshot_autoextend_threshold=100/' /mnt/lvm/lvmlocal.conf
    dmeventd -f >"$OUT/dmeventd.log" 2>&1 &
    dmeventd=$!
    wait_until 60 "dmeventd" test -p /run/dmeventd-client
}

# of KIND LV WHAT: what jq finds of the volume, job or alert of this name.
of() {
    curl -fs "$api/$1" | jq -c --arg lv "$2" ".[] | select(.lv == \$lv) | $3"
}

is() {
    [[ $(of "$1" "$2" "$3") == "$4" ]]
}

# shows SECONDS WHAT KIND LV FIELD EXPECTED: cowbell may take so long to say it.
shows() {
    in_time "$1" is "${@:3}"
    check "$2" "$6" "$(of "${@:3:3}")"
}

# A forecast depends on the machine's speed, and holds for a minute after an extension, so it is not among them.
open_alerts() {
    curl -fs "$api/alerts" | jq -r --arg lv "$1" '[.[] | select(.lv == $lv and .cleared_at == null and .rule != "time_until_full") | "\(.rule) \(.severity)"] | sort | join(", ")'
}

# Every fifth of a second: lines of "SECONDS LV STATE FILL", as cowbell says them.
watch() {
    while true; do
        curl -fs "$api/volumes" | jq -r --arg now "$EPOCHREALTIME" '.[] | "\($now) \(.lv) \(.state) \(.fill_percent // "-")"'
        sleep 0.2
    done
}

# A time of the API as seconds.
seconds() {
    date -d "${1//\"/}" +%s.%N
}

# follows WHAT MOST EVENT SEEN: prints how long after an event it was seen: at most so many seconds, or at the first or
# second tick after it, where ticks are late.
follows() {
    local late ticks
    wait_until 60 "the store to have all ticks" has_stored "$(last_tick)"
    late=$(awk -v event="$3" -v seen="$4" 'BEGIN { printf "%.2f", seen - event }')
    ticks=$(curl -fsG "$api/series" -d of=vm -d metric=bi_kib_per_s -d points=10000 | jq --argjson event "$3" --argjson seen "$4" \
        "$ms [.[].t | ms / 1000 | select(. > \$event and . < \$seen - 0.002)] | length")
    echo "figure $1: $late s, after $ticks other ticks"
    check "$1, at most $2 s or 1 other tick" yes "$(awk -v late="$late" -v most="$2" -v ticks="$ticks" 'BEGIN { print (late <= most || ticks <= 1 ? "yes" : late) }')"
}

overflow_while_mounted() {
    local watcher event valid known_valid=0 unmounted job
    new_volume -L 100M -n data vg0
    mkfs.ext4 -q /dev/vg0/data
    mkdir /mnt/data /mnt/snap
    mount /dev/vg0/data /mnt/data
    new_volume -s -L 12M -n doomed vg0/data
    check "doomed is monitored by dmeventd" monitored "$(lv_field vg0/doomed seg_monitor)"
    mount -o ro,noload /dev/vg0/doomed /mnt/snap
    shows 3 "doomed is mounted" volumes doomed .mounted_on '["/mnt/snap"]'
    watch >/mnt/said &
    watcher=$!
    (dmsetup wait vg0-doomed "$(dmsetup info -c --noheadings -o events vg0-doomed)" >/dev/null && echo "$EPOCHREALTIME" >/mnt/event) &
    while valid=$EPOCHREALTIME && ! dmsetup status vg0-doomed | grep -q Invalid; do
        known_valid=$valid
        dd if=/dev/urandom of=/mnt/data/file bs=1M count=1 oflag=append conv=notrunc,fsync status=none
        sleep 0.1
    done
    wait_until 120 "dmeventd to unmount the snapshot" eval '! grep -q " /mnt/snap " /proc/mounts'
    unmounted=$EPOCHREALTIME
    shows 2 "doomed: state" volumes doomed .state '"invalid"'
    shows 2 "doomed: its job was unmounted" jobs doomed '(.unmounted_at != null)' true
    wait_until 60 "the watcher and the kernel's event" eval 'grep -q "doomed invalid" /mnt/said && [[ -s /mnt/event ]]'
    kill "$watcher"
    event=$(cat /mnt/event)
    check "doomed: lvs says of its fill" 100.00 "$(lv_field vg0/doomed data_percent)"
    check "doomed: its fill" null "$(of volumes doomed .fill_percent)"
    follows "invalid_since, from the kernel's event" 1 "$event" "$(seconds "$(of volumes doomed .invalid_since)")"
    check "invalid_since, not before it was" yes "$(awk -v seen="$(seconds "$(of volumes doomed .invalid_since)")" -v valid="$known_valid" 'BEGIN { print (seen >= valid ? "yes" : seen " before " valid) }')"
    follows "said by the API, from the kernel's event" 2 "$event" "$(awk '$2 == "doomed" && $3 == "invalid" { print $1; exit }' /mnt/said)"
    follows "unmounted_at, from dmeventd's unmounting" 2 "$unmounted" "$(seconds "$(of jobs doomed .unmounted_at)")"
    check "doomed: mounted now" '[]' "$(of volumes doomed .mounted_on)"
    check "doomed: its job was mounted on" '"/mnt/snap"' "$(of jobs doomed .mounted_on)"
    job=$(of jobs doomed .id)
    check "the job's page says who unmounted it" 1 "$(curl -fs "http://127.0.0.1:2692/jobs/$job" | grep -c 'unmounted from /mnt/snap at .*dmeventd')"
    check "doomed: open alerts" "snapshot_invalid critical" "$(open_alerts doomed)"
    lvremove -qq -f vg0/doomed
    shows 3 "doomed, removed: outcome of its job" jobs doomed .outcome '"overflowed"'
    shows 3 "doomed, removed: open alerts" alerts doomed 'select(.cleared_at == null) | .rule' ''
    echo "figure highest fill that was said of it: $(sort -k 4n /mnt/said | awk '$2 == "doomed" && $4 != "-" { most = $4 } END { print most }') %"
    check "doomed: fills of 100 that were said" "" "$(awk '$2 == "doomed" && $4 != "-" && $4 >= 100' /mnt/said)"
    check "doomed: fills of 100 in its history" 0 "$(curl -fs "$api/series?of=volume:vg0/doomed&metric=fill_percent&points=10000" |
        jq '[.[] | select(.max != null and .max >= 100)] | length')"
}

# The fill of a volume; $lvs is left to say it.
equals_lvs() {
    lvs=$(lv_field "vg0/$1" data_percent)
    shows 3 "$1: fill, by lvs $lvs" volumes "$1" '.fill_percent * 100 | round' "$((10#${lvs/./}))"
}

# Younger snapshots have less to keep.
each_its_own() {
    local number
    umount /mnt/data
    for number in 1 2 3; do
        new_volume -s -L 24M -n "own$number" vg0/data
        dd if=/dev/urandom of=/dev/vg0/data bs=1M seek=$((number * 10)) count=5 conv=fsync status=none
    done
    for number in 1 2 3; do equals_lvs "own$number"; done
    check "three fills" 3 "$(for number in 1 2 3; do of volumes "own$number" .fill_percent; done | sort -u | wc -l)"
}

extend_at_90() {
    dd if=/dev/urandom of=/dev/vg0/own3 bs=64k seek=1000 count=267 conv=fsync status=none
    equals_lvs own3
    shows 2 "own3: alert" alerts own3 'select(.cleared_at == null and .rule == "snapshot_fill") | .severity' '"critical"'
    lvextend -qq -L +24M vg0/own3
    equals_lvs own3
    shows 2 "own3, extended: size" volumes own3 .size_bytes $((48 << 20))
    check "own3, extended: open alerts" "" "$(open_alerts own3)"
}

# While the kernel merges, cowbell says so within three ticks. On a busy machine the merge may be over before them.
shows_merging() {
    local goal is_due=no state='"ok"'
    goal=$(($(ticks_taken) + 3))
    while merges; do
        # What is read after the third tick counts, not what was read before it.
        ! has_taken "$goal" || is_due=yes
        state=$(of volumes data .state)
        [[ $state != '"merging"' && $is_due == no ]] || break
        sleep 0.1
    done
    if [[ $state == '"merging"' ]] || { [[ $is_due == yes ]] && merges; }; then
        check "data: state" '"merging"' "$state"
    else
        echo "info  data: the merge was over before three ticks"
    fi
}
merges() { dmsetup table vg0-data | grep -q snapshot-merge; }

# In many small steps, so that it can be stopped in between, by suspending the origin. The fill is the origin's now.
merge_back() {
    local fills=()
    scatter /dev/vg0/own2 2400 20
    equals_lvs own2
    shows 2 "own2: alert" alerts own2 'select(.cleared_at == null and .rule != "time_until_full") | .rule' '"snapshot_fill"'
    echo 1 >/sys/module/dm_snapshot/parameters/snapshot_copy_throttle
    lvconvert -y -b -i 3 --merge vg0/own2 >>"$OUT/lvm.log" 2>&1 &
    until merges; do :; done
    while dmsetup suspend vg0-data && [[ $(lv_field vg0/data data_percent) == [1-9]* ]]; do
        equals_lvs data
        fills+=("$lvs")
        dmsetup resume vg0-data
        ((${#fills[@]} != 1)) || shows_merging
        sleep 0.1
    done
    dmsetup resume vg0-data
    echo "figure fills while merging, each as lvs has it: ${fills[*]}"
    check "they only fall" "$(printf '%s\n' "${fills[@]}" | sort -rn | xargs)" "${fills[*]}"
    wait_until 120 "LVM to end the merge" eval '! lvs vg0/own2'
    shows 3 "data, merged: state" volumes data .state '"ok"'
    check "data, merged: fill" null "$(of volumes data .fill_percent)"
    lvremove -qq -f vg0/own1 vg0/own3    # they kept what the merge overwrote
    ended_well own2
}

# A merge is no overflow, although the kernel says "Invalid" of the snapshot between handing it over and removing it.
ended_well() {
    shows 3 "$1, merged: outcome of its job" jobs "$1" '[.outcome, .ended_at != null]' '["unknown",true]'
    check "$1, merged: alerts for being invalid" "" "$(of alerts "$1" 'select(.rule == "snapshot_invalid") | .sentence')"
    check "$1, merged: open alerts" "" "$(open_alerts "$1")"
}

# The moment of handing over is short: several in a row.
merge_several() {
    local number
    for number in 1 2 3 4; do
        echo "lvcreate -L 8M -n base$number vg0"
        echo "lvcreate -s -L 4M -n short$number vg0/base$number"
    done | lvm_does
    sleep 1
    for number in 1 2 3 4; do lvconvert -y -b -i 1 --merge "vg0/short$number" >>"$OUT/lvm.log" 2>&1; done
    wait_until 120 "LVM to end the merges" eval '! lvs -a --noheadings -o lv_name | grep -q short'
    for number in 1 2 3 4; do ended_well "short$number"; done
}

modules dm-snapshot ext4
start_dmeventd
new_group vg0 /dev/ubda /dev/ubdb
: >/mnt/cowbell.toml
start_cowbell
overflow_while_mounted
each_its_own
extend_at_90
merge_back
merge_several
check "alerts that are open at last" "[]" "$(curl -fs "$api/alerts" | jq -c '[.[] | select(.cleared_at == null) | "\(.rule) of \(.lv)"]')"
kill "$dmeventd"
stop_cowbell
finish
