# What does a thin volume cost against a thick one? Asked in 2013: 66 against 27 MB/s writing on RAID 1, no difference on
# a plain disk. Here: writing and reading in order with dd, at random with fio, direct, so that no cache answers; writing
# for the first time and again apart; with and without zeroing; chunks of 64 and of 512 KiB. Disks that serve one request
# of up to 64 KiB at a time, each in 10 ms. `experiment-thin REPEATS`.
#
# LAB_DISKS=1
# LAB_MEM=2200M
# LAB_TIMEOUT=7200
# LAB_PACKAGES=fio
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/experiment.sh"

repeats=${1:-3}
size=32    # MiB
requests=400

make_machine() {
    mechanical_disks 400
    modules dm-snapshot dm-thin-pool
    new_group vg0 /dev/sda
    disk_ticks 1
}

# new_target VARIANT: /dev/vg0/target, of which no block was ever written.
new_target() {
    case $1 in
    thick) new_volume -L 64M -n target vg0 ;;
    *)
        read -r _ chunk zeroing <<<"${1//,/}"
        new_volume --type thin-pool -L 128M -c "$chunk" -Z "$([[ $zeroing == zeroed ]] && echo y || echo n)" -n pool vg0
        new_volume -V 64M --thinpool vg0/pool -n target
        ;;
    esac
}

remove_target() {
    lvremove -qq -f vg0/target >>"$OUT/lvm.log" 2>&1
    lvremove -qq -f vg0/pool >>"$OUT/lvm.log" 2>&1 || true
}

dd_to() {
    run_as "$1" "$2" dd if=/dev/zero of=/dev/vg0/target bs=1M count="$size" oflag=direct conv=notrunc,fsync status=none
}

# at_random SET VARIANT randwrite|randread: the same places each time.
at_random() {
    run_as "$1" "$2" fio --name=random --filename=/dev/vg0/target --size=${size}M --rw="$3" --bs=4k --direct=1 \
        --ioengine=libaio --iodepth=4 --number_ios="$requests" --randseed=7 --end_fsync=1 --output=/dev/null
}

in_order() {
    new_target "$1"
    dd_to 'thin, dd, the first time' "$1"
    dd_to 'thin, dd, again' "$1"
    run_as 'thin, dd, reading' "$1" dd if=/dev/vg0/target of=/dev/null bs=1M count="$size" iflag=direct status=none
    remove_target
}

scattered() {
    new_target "$1"
    at_random 'thin, fio, the first time' "$1" randwrite
    at_random 'thin, fio, again' "$1" randwrite
    at_random 'thin, fio, reading' "$1" randread
    remove_target
}

variants=(thick 'thin 64k, zeroed' 'thin 64k, not zeroed' 'thin 512k, zeroed' 'thin 512k, not zeroed')
make_machine
start_experiment
for ((repeat = 0; repeat < repeats; repeat++)); do
    for variant in "${variants[@]}"; do
        in_order "$variant"
        scattered "$variant"
    done
done
for variant in "${variants[@]}"; do as_many 'thin, dd, the first time' "$variant" "$repeats"; done
figures=(duration 'bytes written' 'write speed mean' 'sda busy')
compare "Writing $size MiB in order, the first time" 'thin, dd, the first time' "${figures[@]}"
compare "Writing the same $size MiB again" 'thin, dd, again' "${figures[@]}"
compare "Reading them in order" 'thin, dd, reading' duration 'read speed mean' 'sda busy'
compare "$requests random writes of 4 KiB, the first time" 'thin, fio, the first time' "${figures[@]}"
compare "The same writes again" 'thin, fio, again' "${figures[@]}"
compare "$requests random reads of 4 KiB" 'thin, fio, reading' duration 'bytes read' 'read speed mean' 'sda busy'
finish_experiment
