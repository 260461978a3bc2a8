# Does cowbell go on looking while LVM or the device-mapper hang? Four ways to hang, one
# after the other: somebody holds a VG's lock; the disk below a PV does not answer; LVM
# is told to look for PVs on volumes and one of these does not answer; a thin pool
# waits for its metadata, and with it whoever asks for its status. Each time: ticks come
# when they should, a sentence says what is stale, there is never more than one child
# `lvm`, and all is well again within 20 s of the cause's end.
#
source "$repo/tests/lab/guest/lab.sh"

patience=20    # s until all parts are well again; LVM is asked after 15 s at the latest

# Each PV lies on two devices, of which LVM sees the upper; the lower can be suspended
# without LVM's knowing, as a disk that does not answer.
make_machine() {
    local disk letter
    modules dm-snapshot dm-thin-pool dm-zero
    for disk in $(disks); do
        letter=${disk#/dev/ubd}
        dmsetup create "disk$letter" --table "0 $(blockdev --getsz "$disk") linear $disk 0"
        dmsetup create "pv$letter" --table "0 $(blockdev --getsz "$disk") linear /dev/mapper/disk$letter 0"
    done
    lvm_sees_only '/dev/mapper/pv.*'
    new_group vg0 /dev/mapper/pva
    new_group vg1 /dev/mapper/pvb
    new_volume -L 100M -n data vg0
    new_volume -L 100M -n other vg1
    new_volume --type thin-pool -L 200M -n pool vg0
    new_volume -V 300M --thinpool vg0/pool -n thin
}

# A device comes and goes: cowbell wants to ask LVM.
something_changes() {
    dmsetup create "change$((++changes))" --table "0 8 zero"
}

# "NAME: SENTENCE" of the parts that are not well. There is no pressure in this kernel.
stale() {
    curl -fs -m 5 "$api/status" | jq -r '.parts[] | select(.name != "pressure" and (.ok | not)) | "\(.name): \(.error)"'
}

is_well() {
    [[ -z $(stale) ]]
}

# Milliseconds that regular ticks came late since $1: the time between two ticks is an interval, or less
# where one came out of turn.
lateness() {
    curl -fs "$api/series?of=vm&metric=bi_kib_per_s&points=10000&from=$1" | jq -r '
        def ms: capture("(?<s>[^.Z]+)(?<f>\\.[0-9]+)?Z") | (.s + "Z" | fromdate) * 1000 + ("0" + (.f // "") | tonumber * 1000);
        [.[].t | ms] as $t | [range(1; $t | length) | [$t[.] - $t[. - 1] - 1000, 0] | max] | sort
        | "\(length) \(.[length * 99 / 100 | floor] | round) \(.[-1] | round)"'
}

# during SECONDS: what is said and how many children there are while it hangs. Half-way cowbell gets another
# reason to ask LVM; not while a lock is held, since it must ask again by itself when that is free.
during() {
    local number end=$((SECONDS + $1)) next=$((SECONDS + $1 / 2))
    [[ -z ${holder:-} ]] || next=$end
    while ((SECONDS < end)); do
        stale >/mnt/saying
        stood_still || cat /mnt/saying >>/mnt/said
        number=$(pgrep -c -x lvm || true)
        ((number <= children)) || children=$number
        if ((SECONDS >= next)); then
            something_changes
            next=$end
        fi
        sleep 0.2
    done
}

# hang WHAT PARTS SECONDS BEGIN END: PARTS must be said to be stale, no other may be.
hang() {
    local what=$1 parts=$2 seconds=$3 begin=$4 end=$5 from missed start began=$((${EPOCHREALTIME/./} / 1000)) excused
    wait_until 60 "all parts to be well before: $what" is_well
    : >/mnt/said
    children=0
    from=$(date -u +%FT%TZ)
    missed=$(curl -fs "$api/status" | jq .ticks.missed)
    $begin
    something_changes
    during "$seconds"
    sort /mnt/said | sed 's/[0-9.]\+ s/… s/' | uniq -c | sed "s/^ */info  $what, said so often: /"
    $end
    start=$SECONDS
    in_time "$patience" is_well
    check "$what: stale $patience s after its end" "" "$(stale)"
    echo "figure $what: well again $((SECONDS - start)) s after its end; children at once: $children"
    check "$what: stale parts" "$parts" "$(cut -d: -f 1 /mnt/said | sort -u | xargs)"
    check "$what: more than one child at once" no "$( ((children > 1)) && echo "$children" || echo no)"
    read -r ticks p99 worst <<<"$(lateness "$from")"
    echo "figure $what: $ticks ticks, late by $p99 ms (p99), $worst ms (worst)"
    missed=$(($(curl -fs "$api/status" | jq .ticks.missed) - missed))
    excused=$(excused "$began")
    echo "figure $what: $missed ticks missed, $excused of them because the guest stood still"
    check "$what: ticks missed while the guest ran" 0 "$((missed > excused ? missed - excused : 0))"
}

hold_the_lock() {
    flock /run/lock/lvm/V_vg0 sleep 1000 &
    holder=$!
}

release_the_lock() {
    pkill -P "$holder"
    holder=
}

stop_the_disk() {
    dmsetup suspend --nolockfs diskb
}

start_the_disk() {
    dmsetup resume diskb
}

# LVM leaves suspended devices alone, but `over` is not suspended: it lies on one that is.
look_on_volumes() {
    dmsetup create over --table "0 204800 linear /dev/vg0/data 0"
    sed -i 's#^devices.*#devices { scan_lvs=1 filter=["r|/dev/ubd.*|","r|/dev/mapper/disk.*|","a|.*|"] use_devicesfile=0 }#' /mnt/lvm/lvmlocal.conf
    dmsetup suspend --nolockfs vg0-data
}

look_no_more() {
    dmsetup resume vg0-data
    dmsetup remove --retry over
    sed -i 's#^devices.*#devices { filter=["a|/dev/mapper/pv.*|","r|.*|"] use_devicesfile=0 }#' /mnt/lvm/lvmlocal.conf
}

stop_the_pool() {
    dmsetup suspend --nolockfs vg0-pool_tmeta
    dd if=/dev/urandom of=/dev/vg0/thin bs=64k count=64 oflag=direct conv=fsync status=none &
    writer=$!
}

start_the_pool() {
    dmsetup resume vg0-pool_tmeta
    wait "$writer"
}

changes=0
make_machine
: >/mnt/cowbell.toml
start_cowbell
start_metronome
hang "lock held" lvm 34 hold_the_lock release_the_lock
hang "disk stopped" lvm 18 stop_the_disk start_the_disk
hang "volume scanned" lvm 18 look_on_volumes look_no_more
hang "pool stopped" dm 8 stop_the_pool start_the_pool
check "volumes in the end" "$(active_by_lvs)" "$(active_by_cowbell)"
kill "$metronome"
stop_cowbell
finish
