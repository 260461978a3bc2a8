# Does cowbell keep up when names and numbers change under it? While it runs and fio writes:
# volumes and a group are renamed, a dm minor is used again, a volume is made anew under its
# old name, extended, mirrored and unmirrored, a PV is added, taken away, pulled out and put
# back. After each step cowbell's volumes must be those of `lvs` within 5 s; a renamed
# volume's history goes on under its uuid; and no rate of one device may be another's.
#
# LAB_DISKS=3
# LAB_PACKAGES=fio
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/witness.sh"

patience=5     # s until active volumes agree
reported=12    # s until what only LVM knows does: PVs, groups

lvm_does() {
    "$@" >>"$OUT/lvm.log" 2>&1 || fail "$*: $(tail -n 3 "$OUT/lvm.log")"
}

uuid_of() {
    lv_field "$1" lv_uuid
}

# ask WHAT: asks the API as curl would, but with no program to load, which takes a busy guest a second: the answer
# goes to `answer`, when it began to come to `answered_at`, in ms.
ask() {
    local socket status
    exec {socket}<>/dev/tcp/127.0.0.1/2692
    printf 'GET /api/v1/%s HTTP/1.0\r\nHost: 127.0.0.1:2692\r\n\r\n' "$1" >&"$socket"
    read -r status <&"$socket"
    answered_at=$((${EPOCHREALTIME/./} / 1000))
    answer=$(cat <&"$socket")
    answer=${answer#*$'\r\n\r\n'}
    exec {socket}>&-
}

# agree STEP: how long it takes from now until cowbell names the volumes in use that lvs names, and how many ticks, where
# they are late. What it answers while lvs thinks is kept, and judged then.
agree() {
    local start=$((${EPOCHREALTIME/./} / 1000)) right=0 taken answers=() times=()
    ask status
    taken=$(jq .ticks.taken <<<"$answer")
    rm -f /mnt/truth
    (active_by_lvs >/mnt/truth.new && mv /mnt/truth.new /mnt/truth) &
    while true; do
        ask volumes
        answers+=("$answer")
        times+=($((answered_at - start)))
        for (( ; right < ${#answers[@]}; right++)); do
            [[ -e /mnt/truth ]] || break
            [[ $(active_by_cowbell "${answers[right]}") != "$(cat /mnt/truth)" ]] || break 2
        done
        if [[ -e /mnt/truth ]] && ((times[-1] >= patience * 2000)) && has_taken $((taken + patience + 1)); then break; fi
        sleep 0.1
    done
    taken=$(($(ticks_taken) - taken))
    check "$1: unlike lvs" "" "$(diff /mnt/truth <(active_by_cowbell "${answers[right]:-${answers[-1]}}") || true)"
    echo "figure $1: as lvs says after ${times[right]:-${times[-1]}} ms, at answer $((right + 1))"
    check "$1: within $patience s or $patience ticks" yes "$( ((${times[right]:-${times[-1]}} <= patience * 1000 || taken <= patience)) && echo yes || echo "after ${times[right]:-${times[-1]}} ms, $taken ticks")"
}

# What only LVM's report tells may come a little later: expect SECONDS WHAT EXPECTED COMMAND…
expect() {
    local limit=$1 what=$2 expected=$3 start=${EPOCHREALTIME/./}
    shift 3
    in_time "$limit" says "$expected" "$@"
    echo "figure $what: $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
    check "$what" "$expected" "$("$@")"
}

says() {
    [[ $("${@:2}") == "$1" ]]
}

pvs_by_cowbell() {
    curl -fs "$api/devices" | jq -r '[.[] | select(.label | contains("PV of")) | "\(.device)=\(.vg)"] | sort | join(" ")'
}

pvs_by_lvm() {
    pvs --noheadings --separator = -o pv_name,vg_name 2>/dev/null | grep -v 'unknown\|=$' | sed 's#^ */dev/##' | sort | xargs
}

missing_on_the_page() {
    curl -fs http://127.0.0.1:2692/volumes | grep -o '[0-9]\+ missing' || true
}

# history UUID: "TICKS GAPS" of a volume's device; the first tick of a device is no rate.
history() {
    curl -fs "$api/series?of=volume:$1&metric=written_bytes&points=10000&from=$(curl -fs "$api/status" | jq -r .started_at)" |
        jq -r '([.[].avg != null] | index(true)) as $first | .[$first:] | "\(length) \(map(select(.avg == null)) | length)"'
}

# write_to VOLUME MIB
write_to() {
    dd if=/dev/zero of="/dev/$1" bs=256k count=$(($2 * 4)) oflag=direct status=none
}

rename_volumes() {
    lvm_does lvrename vg0 data moved
    agree "lvrename"
    lvm_does lvrename vg0 data_snapshot moved_snapshot
    agree "lvrename of a snapshot"
    check "lvrename: the snapshot's job" "moved_snapshot moved" "$(curl -fs "$api/jobs" | jq -r '[.[] | select(.kind == "snapshot")][] | "\(.name) \(.origin)"')"
    lvm_does vgrename vg0 vg-1
    agree "vgrename"
    lvm_does vgrename vg-1 vg0
    agree "vgrename back"
    lvm_does lvremove -f vg0/moved_snapshot
    agree "lvremove of the snapshot"
}

# The second gets the first's minor, and has written more before anybody can have seen the first go.
reuse_a_minor() {
    local minor
    new_volume -L 64M -n first vg0
    agree "a volume that goes"
    write_to vg0/first 8
    minor=$(lv_field vg0/first lv_kernel_minor)
    await_ticks 2
    lvm_does lvremove -f vg0/first
    new_volume -Wn -Zn -L 64M -n second vg0
    write_to vg0/second 40
    check "minor used again" "$minor" "$(lv_field vg0/second lv_kernel_minor)"
    agree "minor used again"
}

# The same uuid, and most often the same minor, but another device whose counters begin anew.
activate_again() {
    local minor
    minor=$(lv_field vg0/second lv_kernel_minor)
    for _ in 1 2 3; do
        lvm_does lvchange -an vg0/second
        lvm_does lvchange -ay vg0/second
        write_to vg0/second 48
    done
    echo "info  minor $minor before, $(lv_field vg0/second lv_kernel_minor) after deactivation and activation"
    agree "activated again"
    lvm_does lvchange -an vg0/second
    agree "deactivated"
    lvm_does lvchange -ay vg0/second
    agree "activated"
}

make_anew_under_its_name() {
    local uuid
    uuid=$(uuid_of vg0/second)
    lvm_does lvremove -f vg0/second
    new_volume -Wn -Zn -L 48M -n second vg0
    write_to vg0/second 20
    agree "made anew under its name"
    check "made anew: another uuid" yes "$([[ $(uuid_of vg0/second) != "$uuid" ]] && echo yes)"
    wait_until 60 "the store to have it all" has_stored "$(last_tick)"
    check "made anew: the old one's history is there" 200 "$(curl -so /dev/null -w '%{http_code}' "$api/series?of=volume:$uuid&metric=written_bytes")"
}

change_the_shape() {
    lvm_does lvextend -L +32M vg0/second
    agree "lvextend"
    lvm_does lvconvert -y --type raid1 -m 1 vg0/moved
    agree "lvconvert to raid1"
    wait_until 120 "the mirror to be in sync" in_sync vg0/moved
    agree "raid1 in sync"
    lvm_does lvconvert -y -m 0 vg0/moved
    agree "lvconvert back to linear"
    expect "$reported" "hidden parts of it among cowbell's volumes" "" volumes_with _r
}

volumes_with() {
    curl -fs "$api/volumes" | jq -r --arg part "$1" '.[].lv | select(contains($part))'
}

add_and_take_a_pv() {
    lvm_does vgextend vg0 /dev/ubdc
    lvm_does lvextend -l +10 vg0/second /dev/ubdc
    agree "lvextend to a new PV"
    expect "$reported" "vgextend: PVs" "$(pvs_by_lvm)" pvs_by_cowbell
    lvm_does lvreduce -f -l -10 vg0/second
    lvm_does vgreduce vg0 /dev/ubdc
    agree "lvreduce, vgreduce"
    something_changes    # a vgreduce alone is no event: LVM is asked once a minute then
    expect "$reported" "vgreduce: PVs" "$(pvs_by_lvm)" pvs_by_cowbell
}

# The disk goes while a volume is on it, and comes back, most often under another name.
pull_a_disk() {
    local host
    host=$(basename "$(realpath /sys/block/sdb/device/../..)")
    new_volume -Wn -Zn -L 32M -n ondisk vgs /dev/sdb
    agree "a volume on the disk to be pulled"
    echo 1 >/sys/block/sdb/device/delete
    something_changes
    agree "disk pulled"
    expect "$reported" "disk pulled: the page says" "1 missing" missing_on_the_page
    echo "- - -" >"/sys/class/scsi_host/$host/scan"
    wait_until 60 "the disk to be back" sh -c 'pvs --noheadings -o pv_missing /dev/sd? | grep -vq missing && test $(pvs --noheadings /dev/sd? | wc -l) = 2'
    something_changes
    expect "$reported" "disk back: the page says" "" missing_on_the_page
    lvm_does lvchange -an vgs/ondisk
    lvm_does lvchange -ay vgs/ondisk
    agree "disk back"
    expect "$reported" "disk back: PVs" "$(pvs_by_lvm)" pvs_by_cowbell
}

something_changes() {
    dmsetup create "change$((++changes))" --table "0 8 zero"
}

changes=0
mechanical_disks 64
modules dm-snapshot raid1 dm-raid dm-zero
lvm_sees_only '/dev/[su][bd].*'
new_group vg0 /dev/ubda /dev/ubdb
new_group vgs /dev/sda /dev/sdb
new_volume -L 200M -n data vg0 /dev/ubda
new_volume -s -L 60M -n data_snapshot vg0/data
data=$(uuid_of vg0/data)
: >/mnt/cowbell.toml
start_cowbell
start_witness
fio --name=writer --filename=/dev/vg0/data --filesize=200M --rw=randwrite --bs=16k --direct=1 --ioengine=libaio \
    --iodepth=2 --rate=512k --time_based --runtime=1000 --output=/dev/null &
writer=$!
agree "at first"
rename_volumes
reuse_a_minor
activate_again
make_anew_under_its_name
change_the_shape
add_and_take_a_pv
pull_a_disk
kill "$writer" && wait "$writer" || true
sleep 2
stop_witness
read -r ticks gaps <<<"$(history "$data")"
check "gaps in the history of the renamed volume, of $ticks ticks" 0 "$gaps"
check_rates ubda ubdb ubdc sda sdb
stop_cowbell
finish
