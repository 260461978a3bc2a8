# What does LVM cost against the raw disk? Asked in 2007 with a file of 2 GB, ten of 100 MB, and 32 thousand of 1 to 32 kB,
# creating and copying timed apart, ten repeats: less than 2 %. Here scaled down, on two disks that are alike: ext4 on the
# one itself, and on a volume of the other. They serve one request of up to 64 KiB at a time, each in 10 ms.
# `experiment-raw REPEATS`.
#
# LAB_DISKS=1
# LAB_MEM=2400M
# LAB_TIMEOUT=7200
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/experiment.sh"

repeats=${1:-10}

make_machine() {
    mechanical_disks 400
    modules dm-mod ext4
    lvm_sees_only /dev/sdb
    new_group vg0 /dev/sdb
    new_volume -l 100%FREE -n data vg0
    # The volume is smaller than its disk by what LVM keeps for itself; both file systems are of its size.
    blocks=$(($(blockdev --getsize64 /dev/vg0/data) / 4096))
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 -b 4096 /dev/sda "$blocks"
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 -b 4096 /dev/vg0/data "$blocks"
    mkdir -p /mnt/raw /mnt/lvm-disk
    mount -o noatime /dev/sda /mnt/raw
    mount -o noatime /dev/vg0/data /mnt/lvm-disk
    disk_ticks 1
}

# What is to be created, in memory: one large file, ten of a tenth, and many small ones.
make_sources() {
    mkdir -p /mnt/sources/one /mnt/sources/ten /mnt/sources/many
    dd if=/dev/urandom of=/mnt/sources/one/file bs=1M count=24 status=none
    split -n 10 /mnt/sources/one/file /mnt/sources/ten/file
    local number
    for ((number = 0; number < 640; number++)); do
        head -c $(((number * 7919 % 32 + 1) * 1024)) /dev/urandom >"/mnt/sources/many/$number"
    done
}

# In a process of its own, so that all of it is the run: the files, and that they are on the disk.
write_all() {
    run_as "$1" "$2" bash -c 'cp -r "$0" "$1" && sync -f "$1"' "$3" "$4"
}

round() {
    local variant=$1 folder=$2 what
    for what in one ten many; do
        write_all "raw, creating $what" "$variant" "/mnt/sources/$what" "$folder/created"
        write_all "raw, copying $what" "$variant" "$folder/created" "$folder/copied"
        rm -r "$folder/created" "$folder/copied"
        sync -f "$folder"
    done
}

make_machine
make_sources
start_experiment
for ((repeat = 0; repeat < repeats; repeat++)); do
    round 'raw disk' /mnt/raw
    round 'LVM' /mnt/lvm-disk
done
declare -A named=([one]='one file of 24 MiB' [ten]='ten files of 2.4 MiB' [many]='640 files of 1 to 32 KiB')
for what in one ten many; do
    for doing in creating copying; do
        as_many "raw, $doing $what" 'LVM' "$repeats"
        compare "${doing^} ${named[$what]}" "raw, $doing $what" duration 'bytes written' 'write speed mean'
    done
done
finish_experiment
