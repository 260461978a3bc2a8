# The story that the program is for: a database on two slow disks, a snapshot of
# it, a backup that reads through the snapshot while the database goes on writing.
# During the backup an import begins: the backup's reads slow down and the
# snapshot fills faster, past 70 % and 85 %, until it overflows and the backup is
# lost; then all is calm again. Recorded to $OUT/demo.cowbell, three minutes;
# without the binary only the table is printed: the backup's and the database's
# KiB/s, the first disk's mean read request in KiB. Arguments, for tuning: COW
# size, import after, import depth.
#
# LAB_DISKS=1
# LAB_MEM=2000M
# LAB_TIMEOUT=420
source "$repo/tests/lab/guest/lab.sh"

calm=20           # s before the snapshot and after it
calm_rate=25      # the database's pages a second
import_after=${2:-14}    # s after the backup's beginning, the database begins an import:
import_depth=${3:-32}    # so many pages at once, as fast as the disks allow
cow_size=${1:-48M}

make_database() {
    hostname db1
    mechanical_disks 600
    modules dm-snapshot dm-thin-pool xfs
    new_group vg0 /dev/sda /dev/sdb
    new_volume -L 480M -n mysql vg0 /dev/sda
    new_volume --type thin-pool -L 200M -n pool vg0 /dev/sdb
    new_volume -V 300M --thinpool vg0/pool -n scratch
    mkfs.xfs -q /dev/vg0/mysql
    mkdir -p /mnt/mysql /mnt/snap
    mount /dev/vg0/mysql /mnt/mysql
    dd if=/dev/urandom of=/mnt/mysql/ibdata1 bs=1M count=330 conv=fsync status=none
    sync
    disk_ticks 1
}

# write_pages FILE SIZE RATE DEPTH: random 16k pages, as a database writes them, until killed.
write_pages() {
    exec fio --name=writer --filename="$1" --filesize="$2" --rw=randwrite --bs=16k --direct=1 \
        --ioengine=libaio --iodepth="$4" --rate_iops="$3" --randrepeat=0 --norandommap \
        --time_based --runtime=1000 --output=/dev/null
}

# How many sectors that volume has read and written so far; 0 0 while there is none.
sectors_of() {
    local block name taken
    for block in /sys/block/dm-*; do
        read -r name <"$block/dm/name"
        [[ $name == "$1" ]] || continue
        read -ra taken <"$block/stat"
        echo "${taken[2]} ${taken[6]}"
        return
    done
    echo 0 0
}

fill_of_snapshot() {
    dmsetup status --noflush vg0-mysql_snapshot 2>/dev/null |
        awk '{ if (split($4, part, "/") == 2) printf "%.2f", 100 * part[1] / part[2]; else print $4 }' || true
}

# "MILLISECONDS SNAPSHOT-READ MYSQL-WRITTEN DISK-REQUESTS DISK-READ", the last four since boot, in sectors.
sample() {
    local snapshot mysql disk
    snapshot=$(sectors_of vg0-mysql_snapshot)
    mysql=$(sectors_of vg0-mysql)
    read -ra disk </sys/block/sda/stat
    echo "$((${EPOCHREALTIME/./} / 1000)) ${snapshot% *} ${mysql#* } ${disk[0]} ${disk[2]}"
}

# What two samples tell: KiB/s, KiB/s, and KiB in a request.
print_row() {
    local elapsed=$(($6 - $1)) backup=$(($7 - $2)) mysql=$(($8 - $3)) requests=$(($9 - $4)) read=$((${10} - $5))
    printf '%6d %6s %7d %6d %8s\n' "$SECONDS" "$(fill_of_snapshot)" \
        $((backup < 0 ? 0 : backup * 500 / elapsed)) $((mysql < 0 ? 0 : mysql * 500 / elapsed)) \
        $((requests > 0 ? read / 2 / requests : 0))
}

print_table() {
    local last next
    printf 'second   fill  backup  mysql  request\n'
    SECONDS=0
    last=$(sample)
    while sleep 0.8; do
        next=$(sample)
        print_row $last $next
        last=$next
    done
}

say() {
    echo "--- $*"
}

make_database
if [[ -x $COWBELL ]]; then
    "$COWBELL" record "$OUT/demo.cowbell" >"$OUT/cowbell.log" 2>&1 &
    recorder=$!
fi
print_table &

say "ordinary writing"
write_pages /mnt/mysql/ibdata1 330M "$calm_rate" 4 &
writer=$!
write_pages /dev/vg0/scratch 100M 1 1 &
sleep "$calm"

say "snapshot and backup"
lvcreate -y -s -n mysql_snapshot -L "$cow_size" vg0/mysql /dev/sdb >>"$OUT/lvm.log" 2>&1
blockdev --setra 128 /dev/vg0/mysql_snapshot    # 64 KiB, so that a second of reading is many reads
mount -o ro,nouuid /dev/vg0/mysql_snapshot /mnt/snap
(sleep "$import_after" && write_pages /mnt/mysql/ibdata1 330M 1000 "$import_depth") &
import=$!
tar cf - -C /mnt/snap . | gzip -1 >/dev/null || say "the backup failed"

say "backup done"
kill "$import" "$writer"    # the writer anew: it would make up for what it could not write
write_pages /mnt/mysql/ibdata1 330M "$calm_rate" 4 &
umount /mnt/snap
lvremove -f vg0/mysql_snapshot >>"$OUT/lvm.log" 2>&1
sleep "$calm"
say "the end, after $SECONDS s"
[[ -z ${recorder:-} ]] || { kill -INT "$recorder" && wait "$recorder"; }
