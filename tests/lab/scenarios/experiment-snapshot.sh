# What does a snapshot cost the writer, and does a COW area on a second disk help? Asked in 2007 with a dd of 1 GB onto
# ext3: 16 s without a snapshot, 6 min 5 s with its COW area on the same PV, 5 min 17 s on a second PV, 3 min 25 s again
# into a new file. Here: the same blocks are written again and again, in a file that is there; then a new file. Disks
# that serve one request of up to 64 KiB at a time, each in 10 ms. `experiment-snapshot [REPEATS [MIB]]`: one of 6 MiB by
# itself, which shows that all of this works.
#
# LAB_DISKS=1
# LAB_MEM=2200M
# LAB_TIMEOUT=3600
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/experiment.sh"

set='dd onto ext4'
repeats=${1:-1}
size=${2:-6}
variants=('no snapshot' 'COW area on the same PV' 'COW area on a second PV' 'second PV, a new file' 'after the snapshot')

make_machine() {
    mechanical_disks 400
    modules dm-snapshot ext4
    new_group vg0 /dev/sda /dev/sdb
    new_volume -L 240M -n data vg0 /dev/sda
    make_file_system /dev/vg0/data /mnt/data
    dd if=/dev/urandom of=/mnt/random bs=1M count="$size" status=none
    dd if=/dev/urandom of=/mnt/data/file bs=1M count="$size" conv=fsync status=none
    disk_ticks 1
}

# write VARIANT FILE: the same size each time, onto blocks that are there, or into a file that is not.
write() {
    run_as "$set" "$1" dd if=/mnt/random of="$2" bs=1M conv=notrunc,fsync status=none
}

snapshot() {
    new_volume -s -L 80M -n data_snapshot vg0/data "$1"
}

remove_snapshot() {
    lvremove -qq -f vg0/data_snapshot >>"$OUT/lvm.log" 2>&1
}

make_machine
start_experiment
for ((repeat = 0; repeat < repeats; repeat++)); do
    write 'no snapshot' /mnt/data/file
    snapshot /dev/sda
    write 'COW area on the same PV' /mnt/data/file
    remove_snapshot
    snapshot /dev/sdb
    write 'COW area on a second PV' /mnt/data/file
    write 'second PV, a new file' "/mnt/data/new$repeat"
    remove_snapshot
    write 'after the snapshot' /mnt/data/file
done
for variant in "${variants[@]}"; do as_many "$set" "$variant" "$repeats"; done
compare "Writing $size MiB, in order" "$set" duration 'bytes written' 'bytes read' 'write speed mean' \
    'sda written' 'sda read' 'sda busy' 'sdb written' 'sdb busy'
# First writes are copied, so they are read, and written once more: on a disk that has a limit this cannot go unseen.
check "writing with a COW area on the same PV is dearer" yes \
    "$(of_comparison "$set" 'COW area on the same PV' duration '.ratio.ratio > 1.3')"
finish_experiment
