# Does what cowbell keeps outlive a power cut? Its state is on ext4, then on XFS, on a device whose writes dm-log-writes
# records with every flush: what was not synced at a moment of the record was not on a disk that lost its power then.
# While cowbell runs, cuts are marked at random moments. Then the device is made as each cut left it: once with nothing that was
# not synced, and once with some of what was not, in no order and torn, and there: can it be mounted, is the
# database whole, does cowbell start, and does it have every tick that was older than five seconds? From the last cut of a
# generation the next goes on, so that a second cut finds what recovered from a first. `powercut SEED`: the same moments.
#
# LAB_DISKS=4
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/state.sh"

seed=${1:-$((EPOCHSECONDS % 32768))}
age=5000          # ms after which a tick has to be there
declare -A sectors=([ext4]=131072 [xfs]=634880)    # mkfs.xfs wants 300 MiB
spans=()          # "FROM TO" in which all that was said has to be kept: what went before a cut is judged after all later ones
newest=()         # ms before the cut, of the newest tick that was there

# over DEVICE COW: a device that reads as another, and writes elsewhere.
over() {
    dmsetup create "$1" --table "0 ${sectors[$fs]} snapshot /dev/mapper/base $2 N 8"
}

make_base() {
    dmsetup create base --table "0 ${sectors[$fs]} linear /dev/ubda 0"
    wipefs -aq /dev/mapper/base
    "mkfs.$fs" -q /dev/mapper/base
}

# Cowbell starts on what the last generation left, and the record begins.
begin() {
    over live /dev/ubdb
    dd if=/dev/zero of=/dev/ubdd bs=4k count=1 conv=fsync status=none
    dmsetup create state --table "0 ${sectors[$fs]} log-writes /dev/mapper/live /dev/ubdd"
    mount -t "$fs" /dev/mapper/state /mnt/state
    start_cowbell
    start_listening
    began=$(now)
}

# power_goes NAME SECONDS: at a random moment within the two seconds that come so long from now.
power_goes() {
    sleep "$(awk -v seconds="$2" -v random="$RANDOM" 'BEGIN { print seconds + random / 16384 }')"
    cut_at[$1]=$(now)
    dmsetup message state 0 mark "$1"
}

# All at once, as the power goes; the rest of the record is not used.
end() {
    kill -KILL "$cowbell"
    { wait "$cowbell" || true; } 2>/dev/null    # what bash says of it
    stop_listening
    keep_log
    umount /mnt/state
    dmsetup remove --retry state
    dmsetup remove --retry live
}

# judge WHAT CUT DEVICE [SEED]: makes the device as the cut left it, and looks.
judge() {
    local what="$fs, $1" at=${cut_at[$2]} span mounted=yes
    echo "info  $what: $("$repo/tests/lab/guest/replay-log" /dev/ubdd "$3" "$2" ${4:+"$4"})"
    mount -t "$fs" "$3" /mnt/state 2>/dev/null || mounted="no: $(dmesg | tail -n 3)"
    check "$what: can be mounted" yes "$mounted"
    [[ $mounted == yes ]] || return 0
    check "$what: the database" ok "$(integrity /mnt/state)"
    start_cowbell
    for span in "${spans[@]}" "$began $((at - age))"; do check_kept "$what" $span; done
    await_store
    newest+=($((at - $(series vm bo_kib_per_s "$began" "$at" | tail -n 1 | cut -d ' ' -f 1 | grep . || echo "$began"))))
    sed -n '/ \(WARN\|ERROR\) /p' "$OUT/cowbell.log" | head -n 3 | sed "s/^/info  $what: it says: /"
    stop_cowbell
    keep_log
    umount /mnt/state
}

judge_aside() {
    over aside /dev/ubdc
    judge "$1" "$2" /dev/mapper/aside "${@:3}"
    dmsetup remove --retry aside
}

# generation NUMBER: the last cut is judged on the base, which the next goes on from.
generation() {
    declare -A cut_at=()
    begin
    power_goes a 7
    power_goes b 2
    end
    judge_aside "generation $1, first cut, nothing that was not synced" a
    judge "generation $1, second cut, some of what was not synced" b /dev/mapper/base "$RANDOM"
    spans+=("$began $((cut_at[b] - age))")
}

RANDOM=$seed
echo "figure seed: $seed"
modules dm-snapshot dm-log-writes ext4 xfs
printf '[lvm]\nsource = "dm"\n' >/mnt/cowbell.toml
start_writing
for fs in ext4 xfs; do
    spans=()
    rm -f "$heard" "$polled"
    make_base
    generation 1
    [[ $fs != ext4 ]] || generation 2
    dmsetup remove --retry base
done
kill "$writer"
echo "figure newest tick that was kept, ms before each cut: ${newest[*]}"
finish
