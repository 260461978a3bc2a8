# Are the touched areas that cowbell reads exactly the chunks that a snapshot copies? For chunks of 4, 64 and 512 KiB, with
# scattered and with clustered writes, on thick volumes and in a thin pool: `cowbell size --watch on`, a real snapshot with
# the same chunk, writes, and the areas in a recording of cowbell's against the snapshot's COW area.
#
# Then what `--watch on` refuses, what a region survives, and that nothing is left behind. At last the storage stops
# answering just when a region is created: the process that creates it is left alone, no second one starts, and when the
# storage answers again, nothing remains.
#
# LAB_DISK_SIZE=2G
source "$repo/tests/lab/guest/lab.sh"

chunks=(4 64 512)
kinds=(uniform clustered)
writes=200            # to each volume, of 4 KiB
size=128              # MiB of each volume
longest_hold=500      # ms: a suspension on idle storage must not take longer, not even here

# Each PV lies on a device that can be suspended without LVM's knowing, as a disk that does not answer.
make_machine() {
    local disk letter chunk kind
    modules dm-snapshot dm-thin-pool dm-zero
    for disk in $(disks); do
        letter=${disk#/dev/ubd}
        dmsetup create "disk$letter" --table "0 $(blockdev --getsz "$disk") linear $disk 0"
        dmsetup create "pv$letter" --table "0 $(blockdev --getsz "$disk") linear /dev/mapper/disk$letter 0"
    done
    lvm_sees_only '/dev/mapper/pv.*'
    new_group vg0 /dev/mapper/pva
    new_group vg1 /dev/mapper/pvb
    for chunk in "${chunks[@]}"; do
        for kind in "${kinds[@]}"; do new_volume -L "${size}M" -n "$kind$chunk" vg0; done
    done
    new_volume --type thin-pool -c 64k -L 400M -n pool vg1
    new_volume -V "${size}M" --thinpool vg1/pool -n thin
    new_volume -L 64M -n data vg1
    new_volume -L 32M -n asleep vg1
    lvchange -an vg1/asleep
}

# size_says ARG…: the last line that it prints, on whichever output; its status in `status`.
size_says() {
    status=0
    "$COWBELL" size "$@" >/mnt/said 2>&1 </dev/null || status=$?
    said=$(grep . /mnt/said | grep -v '^    ' | tail -n 1)
}

regions() {
    dmsetup message "$1" 0 @stats_list cowbell | wc -l
}

# write_to VOLUME KIND: scattered over the whole volume, or nine in ten of them within one of its sixteenths.
write_to() {
    awk -v count=$writes -v blocks=$((size * 256)) -v kind="$2" -v seed="$3" 'BEGIN {
        srand(seed)
        for (number = 0; number < count; number++) {
            block = int(rand() * blocks)
            if (kind == "clustered" && number % 10) block = int(blocks / 2 + rand() * blocks / 16)
            printf "pwrite -q %dk 4k\n", block * 4
        }
    }' | xfs_io -d "/dev/$1" >/dev/null
}

# touched DEVICE STEP: how many areas of that step in sectors are written to in the last reading of the recording that is
# not the first.
touched() {
    local number
    number=$(dmsetup info -c --noheadings -o major,minor --separator : "$1")
    jq -rs --arg start "$number	" --arg step " $2" '[.[] | .texts[]? | select(.part == "touched") | .text | split("\n")
        | to_entries as $lines | $lines[] | select(.value | startswith($start) and endswith($step)) | $lines[.key + 1].value[1:]]
        | last' /mnt/readings | tr ' ' '\n' | awk -F- '/^[0-9]/ { sum += (NF == 2 ? $2 : $1) - $1 + 1 } END { print sum + 0 }'
}

# The bytes of a COW area into which N chunks were copied: with the header, and an area of metadata for each chunk / 16.
cow_sectors() {
    echo $(($1 * 2 * ($2 + 2 + $2 / ($1 * 1024 / 16))))
}

compare() {
    local chunk kind seed=7 mapped
    for chunk in "${chunks[@]}"; do
        for kind in "${kinds[@]}"; do
            size_says "vg0/$kind$chunk" --watch on --yes --chunk "${chunk}k"
            check "vg0/$kind$chunk is watched" 0 "$status"
        done
    done
    size_says vg1/thin --watch on --yes
    check "vg1/thin is watched" 0 "$status"
    check "a thin volume is watched in chunks of its pool" 128 "$(dmsetup message vg1-thin 0 @stats_list cowbell | cut -d ' ' -f 3)"
    "$COWBELL" record --config /mnt/cowbell.toml /mnt/record --for 70s 2>/mnt/record.log &
    recorder=$!
    sleep 4    # The first reading is asked for at the first tick. A recording is compressed, so it cannot be watched.
    for chunk in "${chunks[@]}"; do
        for kind in "${kinds[@]}"; do
            new_volume -s -c "${chunk}k" -L "${size}M" -n "snap_$kind$chunk" "vg0/$kind$chunk"
            write_to "vg0/$kind$chunk" "$kind" $((++seed))
        done
    done
    mapped=$(dmsetup status vg1-thin | cut -d ' ' -f 4)
    write_to vg1/thin uniform 99
    wait "$recorder"
    zcat /mnt/record >/mnt/readings
    check "readings in 70 s" 2 "$(grep -c '"part":"touched"' /mnt/readings)"
    for chunk in "${chunks[@]}"; do
        for kind in "${kinds[@]}"; do
            areas=$(touched "vg0-$kind$chunk" $((chunk * 2)))
            check "$chunk KiB, $kind: sectors of COW area for $areas areas" "$(cow_sectors "$chunk" "$areas")" \
                "$(dmsetup status "vg0-snap_$kind$chunk" | cut -d ' ' -f 4 | cut -d / -f 1)"
        done
    done
    sync
    check "thin: chunks of 64 KiB that the pool mapped" $((($(dmsetup status vg1-thin | cut -d ' ' -f 4) - mapped) / 128)) \
        "$(touched vg1-thin 128)"
    echo "figure reading $(awk '{ sum += $1 } END { print sum }' < <(areas_of_all)) areas: $(jq -rs '[.[] | .texts[]? | select(.part == "touched") | .took_us] | last' /mnt/readings) µs"
}

areas_of_all() {
    local device
    for device in $(dmsetup ls | cut -f 1); do dmsetup message "$device" 0 @stats_list cowbell; done |
        awk '{ split($2, extent, "+"); print int((extent[2] + $3 - 1) / $3) }'
}

# The longest write that was under way in the tenth of a second in which a region was created; of several creations.
hold_up() {
    local number created held=0 took
    for number in {1..3}; do
        write_for 10 /mnt/writes &
        writer=$!
        size_says vg1/data --watch on --yes
        check "--watch on under load" 0 "$status"
        created=$(dmsetup message vg1-data 0 @stats_list cowbell | cut -d ' ' -f 5)
        took=$(grep -o 'starting took [0-9.]* ms' /mnt/said)
        wait "$writer"
        size_says vg1/data --watch off
        held=$(awk -v from="$created" -v held=$held '
            $1 + $2 / 1000 >= from && $1 <= from + 100 && $2 > held { held = $2 } END { print held }' /mnt/writes)
        echo "info  $took; $(wc -l </mnt/writes) writes, the longest of all took $(cut -d ' ' -f 2 /mnt/writes | sort -n | tail -n 1) µs"
    done
    echo "figure longest write that a --watch on held up: $held µs"
    check "no write was held up for $longest_hold ms" yes "$( ((held > 0 && held < longest_hold * 1000)) && echo yes || echo "no, $held µs")"
    size_says vg1/data --watch on --yes
}

# write_for SECONDS FILE: synchronous writes one after the other: when each began in ms, and how many µs it took.
write_for() {
    perl -MTime::HiRes=time -MFcntl -e '
        sysopen my $disk, "/dev/vg1/data", O_WRONLY | O_DSYNC or die $!;
        my ($end, $block) = (time + $ARGV[0], "x" x 4096);
        while ((my $start = time) < $end) {
            sysseek $disk, 4096 * int rand 16384, 0; syswrite $disk, $block or die $!;
            printf "%d %d\n", 1e3 * $start, 1e6 * (time - $start);
        }' "$1" >"$2"
}

refuse() {
    local what=$1 expected=$2
    shift 2
    size_says "$@"
    [[ $status != 0 && $said == *"$expected"* ]] && said=$expected
    check "$what is refused" "$expected" "$said"
    check "$what: one sentence" 1 "$(grep -c . /mnt/said)"
}

refusals() {
    local before
    before=$(all_regions)
    refuse "an unknown volume" "vg1/none does not exist" vg1/none --watch on --yes
    refuse "a pool" "is a pool" vg1/pool --watch on --yes
    refuse "a snapshot" "is a snapshot" vg0/snap_uniform4 --watch on --yes
    refuse "a PV" "expected a volume as VG/LV" /dev/ubda --watch on --yes
    refuse "a hidden layer" "is a hidden part" vg1/pool_tdata --watch on --yes
    refuse "an inactive volume" "is not active" vg1/asleep --watch on --yes
    refuse "a watched volume" "is watched already" vg1/thin --watch on --yes
    size_says vg1/plain --watch on
    check "without a terminal nothing is created" "1 cowbell: nothing was changed: without a terminal to ask on, --yes is needed" "$status $said"
    size_says vg1/plain --watch on --yes --memory 1k
    check "too little memory is refused" "1 yes" "$status $(grep -q 'need at least .* of kernel memory' /mnt/said && echo yes)"
    status=0
    said=$(setpriv --reuid=65534 --regid=65534 --clear-groups "$COWBELL" size vg1/plain --watch on --yes 2>&1) || status=$?
    check "another user is refused" "1 cowbell: only root can watch a volume: run the command with sudo" "$status $said"
    dmsetup suspend vg1-plain
    refuse "a suspended volume" "is suspended" vg1/plain --watch on --yes
    dmsetup resume vg1-plain
    perl -e '$0 = "lvcreate"; sleep 60' &
    maker=$!
    size_says vg1/plain --watch on --yes
    check "while a snapshot is being made nothing is created" "1 yes" "$status $(grep -q 'lvcreate. runs' /mnt/said && echo yes)"
    kill "$maker"
    wait "$maker" 2>/dev/null || true
    check "refusals change nothing" "" "$(diff <(echo "$before") <(all_regions))"
}

# Too many statistics of another program, and then so large ones that the kernel refuses more: it allows a quarter of the
# memory for all of them.
refusals_for_others() {
    local number step before
    before=$(all_regions)
    for number in {1..48}; do dmsetup message vg1-plain 0 @stats_create - 65536 someone >/dev/null; done
    refuse "beside 48 regions of another program" "it has 48 regions of statistics" vg1/plain --watch on --yes
    delete_regions_of_others vg1-plain
    for step in 1 8 32; do
        while dmsetup message vg1-thin 0 @stats_create - $step someone; do :; done >/dev/null 2>&1
    done
    size_says vg1/plain --watch on --yes
    check "memory that the kernel does not give: one sentence, after what it would cost" "1 1" "$status $(tail -n +2 /mnt/said | grep -c 'the kernel refuses the memory')"
    delete_regions_of_others vg1-thin
    check "these refusals change nothing" "" "$(diff <(echo "$before") <(all_regions))"
}

delete_regions_of_others() {
    local id
    for id in $(dmsetup message "$1" 0 @stats_list someone | cut -d : -f 1); do dmsetup message "$1" 0 "@stats_delete $id"; done
}

all_regions() {
    local device
    for device in $(dmsetup ls | cut -f 1 | sort); do dmsetup message "$device" 0 @stats_list | sed "s/^/$device /"; done
}

# What a region survives, and what ends it.
changes() {
    dmsetup message vg1-plain 0 @stats_create - 8192 someone >/dev/null
    size_says vg1/plain --watch on --yes
    check "beside the statistics of another program" 0 "$status"
    lvrename vg1 plain renamed >>"$OUT/lvm.log"
    check "a renamed volume is watched" 1 "$(regions vg1-renamed)"
    lvextend -L +32M vg1/renamed >>"$OUT/lvm.log" 2>&1
    check "an extended volume is watched up to its old end" "0+131072" "$(dmsetup message vg1-renamed 0 @stats_list cowbell | cut -d ' ' -f 2)"
    size_says vg1/renamed --watch off
    check "off" "0 vg1/renamed is not watched any more" "$status $said"
    check "off leaves the other program's statistics" "0: 0+131072 8192 someone -" "$(dmsetup message vg1-renamed 0 @stats_list)"
    size_says vg1/renamed --watch off
    check "off again" "0 vg1/renamed is not watched" "$status $said"
    lvchange -an vg1/data
    lvchange -ay vg1/data
    check "deactivation ends it" 0 "$(regions vg1-data)"
    size_says vg1/asleep --watch off
    check "off for an inactive volume" "0 vg1/asleep is not watched" "$status $said"
    size_says --clean
    check "clean" "0 7 regions of cowbell's statistics were deleted" "$status $said"
    check "clean leaves the other program's statistics" "vg1-renamed 0: 0+131072 8192 someone -" "$(all_regions)"
}

# A volume that is too large for the memory: a map first, and an hour later its probes. So that it need not wait, the map
# is said to be old.
map() {
    new_volume -L 96M -n large vg1
    size_says vg1/large --watch on --yes --memory 4M
    check "a large volume has a map" "0 0+196608 2048" "$status $(dmsetup message vg1-large 0 @stats_list cowbell | cut -d ' ' -f 2,3)"
    label=$(dmsetup message vg1-large 0 @stats_list cowbell | cut -d ' ' -f 5)
    check "the map knows the chunk size of its probes" map/8 "${label#*/}"
    size_says vg1/large --watch off
    dmsetup message vg1-large 0 @stats_create - 2048 cowbell 1000/map/8 >/dev/null
    size=96 write_to vg1/large clustered 5
    start_cowbell
    wait_until 240 "the probes" all_probes
    check "probes" "$(probes)" "$(dmsetup message vg1-large 0 @stats_list cowbell | grep -c "/$(probes)/0\.\|/$(probes)/1\.")"
    check "probes of 256 chunks" "$(probes)" "$(dmsetup message vg1-large 0 @stats_list cowbell | grep -c '+2048 8 ')"
    size_says vg1/large --watch off
    check "off removes the map and its probes" "0 0" "$status $(regions vg1-large)"
    stop_cowbell
    dmsetup message vg1-large 0 @stats_create - 2048 cowbell 2000/map/8 >/dev/null
    size=96 write_to vg1/large uniform 6
    "$COWBELL" create-probes "$(dmsetup info -c --noheadings -o uuid vg1-large)" >/mnt/probes.log 2>&1 &
    creation=$!
    wait_until 60 "the first probe" has_regions 3
    size_says vg1/large --watch off
    wait "$creation" && said=kept || said=ended
    check "off while probes are created ends that" "ended 0" "$said $(regions vg1-large)"
}

has_regions() {
    (($(regions vg1-large) >= $1))
}

# How many probes there will be: as many as the label of each says.
probes() {
    dmsetup message vg1-large 0 @stats_list cowbell | sed -n 's|.* [0-9]*/[0-9]*/\([0-9]*\)/.*|\1|p' | head -n 1
}

all_probes() {
    local count
    count=$(probes)
    [[ -n $count ]] && has_regions $((count + 1))
}

# The storage stops answering while the queue is observed, with one write in flight.
hang() {
    "$COWBELL" size vg1/data --watch on --yes >/mnt/hanging 2>&1 &
    command=$!
    sleep 1.5
    dmsetup suspend --nolockfs --noflush pvb
    dd if=/dev/zero of=/dev/vg1/data bs=4k count=1 oflag=direct status=none &
    writer=$!
    status=0
    wait "$command" || status=$?
    check "storage that hangs meanwhile: one sentence" "1 1" "$status $(tail -n +2 /mnt/hanging | grep -c 'waits for it in the kernel')"
    creator=$(grep -o 'process [0-9]*' /mnt/hanging | cut -d ' ' -f 2)
    check "the process is left alone" D "$(ps -o state= -p "$creator")"
    refuse "a second one" "process $creator is still starting" vg1/data --watch on --yes
    refuse "a second one for another volume" "process $creator is still starting" vg0/uniform4 --watch on --yes
    check "one process creates" 1 "$(pgrep -fc create-region)"
    dmsetup resume pvb
    wait "$writer"
    wait_until 30 "the process to end" test ! -e "/proc/$creator"
    check "the process leaves nothing behind" 0 "$(regions vg1-data)"
    size_says vg1/data --watch on --yes
    check "afterwards it can be watched" "0 1" "$status $(regions vg1-data)"
    size_says vg1/data --watch off
}

: >/mnt/cowbell.toml
make_machine
new_volume -L 64M -n plain vg1
compare
hold_up
refusals
refusals_for_others
changes
map
hang
check "nothing of cowbell's remains" "" "$(all_regions | grep cowbell || true)"
finish
