# Does LVM accept each command that cowbell shows? Brings each state about, waits for its alert, and runs what the alert
# shows, in its order. Prints a line for each command, and how many states, commands and refusals there were.
#
# LAB_DISKS=16
# LAB_PACKAGES=dmeventd kpartx
# LAB_TIMEOUT=1500
source "$repo/tests/lab/guest/lab.sh"

states=0 commands=0 refused=0 changes=0

# A group on some of the disks: new_vg NAME LETTER…
new_vg() {
    local vg=$1
    shift
    new_group -s 1M "$vg" "${@/#//dev/ubd}"
}

# LVM is asked once a minute, and when a device comes.
ask_lvm_again() {
    sleep 2    # for a query that has begun before
    local since
    since=$(last_tick)
    dmsetup create "change$((++changes))" --table '0 8 zero'
    in_time 20 lvm_answered_after "$since"
    await_ticks 2
}

lvm_answered_after() {
    curl -fs "$api/status" | jq -e --argjson since "$1" "$ms .parts[] | select(.name == \"lvm\") | .last_ok_at | . != null and ms > \$since"
}

# sentence VG/LV RULE: what an open alert says; VG/ is a group.
sentence() {
    curl -fs "$api/alerts" | jq -r --arg name "$1" --arg rule "$2" \
        'first(.[] | select("\(.vg)/\(.lv)" == $name and .rule == $rule and .cleared_at == null)) | .sentence'
}

is_alerted() {
    [[ -n $(sentence "$1" "$2") ]]
}

# An answer for what asks before it changes something. This kernel has no dm-crypt, so LUKS is one by its UUID alone.
answered() {
    case $1 in
    "cryptsetup close "*) echo "dmsetup remove ${1##* }" ;;
    lv* | vg* | pv*) echo "${1/ / -y }" ;;
    *) echo "$1" ;;
    esac
}

# state WHAT VG/LV RULE [COMMANDS]: runs what an alert shows, which is one command unless it is said how many.
state() {
    local what=$1 text command outcome count=0
    in_time 100 is_alerted "$2" "$3"
    text=$(sentence "$2" "$3")
    echo "      $what: ${text:-no alert by $3}"
    states=$((states + 1))
    while read -r command; do
        count=$((count + 1))
        outcome=accepted
        echo "+ $command" >>"$OUT/lvm.log"
        bash -c "$(answered "$command")" >>"$OUT/lvm.log" 2>&1 </dev/null || outcome="refused: $(tail -n 1 "$OUT/lvm.log")"
        check "$what: $command" accepted "$outcome"
        [[ $outcome == accepted ]] || refused=$((refused + 1))
    done < <(grep -o '`[^`]*`' <<<"$text" | tr -d '`' | grep -E '^(lv|vg|pv|dmsetup|umount|cryptsetup|losetup|kpartx)')
    check "$what: commands" "${4:-1}" "$count"
    commands=$((commands + count))
}

# A volume, and a snapshot of it that is filled: near_full VG NAME MIB LVCREATE-ARGUMENTS…
near_full() {
    local vg=$1 name=$2 mib=$3
    shift 3
    new_volume -L 64M -n "$name" "$vg"
    new_volume -s -n "${name}_s" "$@" "$vg/$name"
    fill "$vg/$name" "$mib"
}

fill() {
    dd if=/dev/urandom of="/dev/$1" bs=64k count=$(($2 * 16)) oflag=direct status=none
}

snapshots() {
    near_full vg0 data 36 -L 40M
    ask_lvm_again
    state "snapshot near full" vg0/data_s snapshot_fill
    new_volume -L 16M -n small vg0
    new_volume -s -L 40M -n small_s vg0/small    # which LVM makes smaller
    fill vg0/small 16
    ask_lvm_again
    state "snapshot of the largest size" vg0/small_s snapshot_fill 0
    near_full vg0 cont 18 --alloc contiguous -L 20M
    new_volume -L 1M -n behind vg0
    ask_lvm_again
    state "contiguous snapshot" vg0/cont_s snapshot_fill
    near_full vg0 cling 18 --alloc cling -L 20M
    ask_lvm_again
    state "cling snapshot" vg0/cling_s snapshot_fill
}

merge_pending() {
    mkdir -p /mnt/origin
    new_volume -L 64M -n merging vg0
    mkfs.ext4 -q /dev/vg0/merging
    new_volume -s -L 40M -n merging_s vg0/merging
    fill vg0/merging_s 36
    mount /dev/vg0/merging /mnt/origin
    lvconvert -y --merge vg0/merging_s >>"$OUT/lvm.log" 2>&1
    ask_lvm_again
    state "merge pending" vg0/merging_s snapshot_fill 3
}

# vgp/tiny, a pool with little metadata.
tiny_pool() {
    new_vg vgp b
    new_volume --type thin-pool -Zn -c 64k -L 704M --poolmetadatasize 2M -n tiny vgp
    new_volume -V 640M --thinpool vgp/tiny -n many
    dd if=/dev/zero of=/dev/vgp/many bs=1M oflag=direct status=none 2>/dev/null || true
    crowded=0
}

# Fills its metadata.
crowd_until() {
    while awk -v used="$(lv_field vgp/tiny metadata_percent)" -v until="$1" 'BEGIN { exit used >= until }' && ((crowded < 40)); do
        crowd vgp-tiny-tpool 1
    done
}

full_metadata() {
    tiny_pool
    while ! is_alerted vgp/tiny pool_state && ((crowded < 40)); do
        crowd vgp-tiny-tpool 1 2>>"$OUT/writer.log" || true
    done
    [[ ! -b /dev/mapper/crowd ]] || dmsetup remove crowd
    ask_lvm_again
    state "pool metadata full" vgp/tiny pool_state
    in_time 20 eval '! is_alerted vgp/tiny pool_state'
    vgremove -ffy vgp >>"$OUT/lvm.log" 2>&1
}

pools() {
    tiny_pool
    crowd_until 75
    ask_lvm_again
    state "pool metadata too full for a snapshot" vgp/tiny next_snapshot_blocked
    crowd_until 85
    ask_lvm_again
    state "pool metadata near full" vgp/tiny pool_metadata
    ask_lvm_again
    state "pool data near full" vgp/tiny pool_data
    new_vg vgq c
    new_volume --type thin-pool -Zn -c 64k -L 64M -n pool vgq
    lvchange --errorwhenfull y vgq/pool >>"$OUT/lvm.log" 2>&1
    new_volume -V 128M --thinpool vgq/pool -n thin
    dd if=/dev/zero of=/dev/vgq/thin bs=64k oflag=direct status=none 2>/dev/null || true
    ask_lvm_again
    state "pool full" vgq/pool pool_state
    lvm_does <<-END
	lvremove -f vgp
	lvremove -f vgq
	END
}

striped() {
    new_vg vgs e f
    near_full vgs wide 36 -i 2 -L 40M
    ask_lvm_again
    state "striped COW area" vgs/wide_s snapshot_fill
    new_volume -l 100%PVS -n rest vgs /dev/ubdf
    fill vgs/wide 60
    ask_lvm_again
    state "striped COW area, one PV with room" vgs/wide_s snapshot_fill
    vgremove -fy vgs >>"$OUT/lvm.log" 2>&1
    pvremove /dev/ubde /dev/ubdf >>"$OUT/lvm.log" 2>&1    # which would be free ones for the next group
}

no_room() {
    new_vg tight g
    near_full tight data 36 -L 40M
    new_volume -l 100%FREE -n rest tight
    ask_lvm_again
    state "no free space, no free PV" tight/data_s snapshot_fill 0
    truncate -s 64M /mnt/blocks
    losetup -b 4096 /dev/loop1 /mnt/blocks
    pvcreate -y /dev/loop1 >>"$OUT/lvm.log" 2>&1
    ask_lvm_again
    state "no free space, a free PV with larger blocks" tight/data_s snapshot_fill 0
    check "LVM refuses to add it" 5 "$(vgextend tight /dev/loop1 >>"$OUT/lvm.log" 2>&1; echo $?)"
    pvcreate -y /dev/ubdh >>"$OUT/lvm.log" 2>&1
    ask_lvm_again
    state "no free space, a free PV" tight/data_s snapshot_fill
    pvchange -x n /dev/ubdh >>"$OUT/lvm.log" 2>&1
    ask_lvm_again
    state "a PV that is not allocatable" tight/data_s snapshot_fill
    new_volume -l 100%FREE -n rest2 tight
    vgchange -x n tight >>"$OUT/lvm.log" 2>&1
    pvcreate -y /dev/ubdi >>"$OUT/lvm.log" 2>&1
    ask_lvm_again
    state "resizeable off" tight/data_s snapshot_fill 2
    lvremove -fy tight >>"$OUT/lvm.log" 2>&1
}

most_pvs() {
    new_vg most e
    near_full most data 36 -L 40M
    new_volume -l 100%FREE -n rest most
    vgchange -p 1 most >>"$OUT/lvm.log" 2>&1
    pvcreate -y /dev/ubdf >>"$OUT/lvm.log" 2>&1
    ask_lvm_again
    state "as many PVs as the group may have" most/data_s snapshot_fill 2
    vgremove -fy most >>"$OUT/lvm.log" 2>&1
    pvremove /dev/ubde /dev/ubdf >>"$OUT/lvm.log" 2>&1
}

pvmove_under_way() {
    dmsetup create slow --table "0 $(blockdev --getsz /dev/ubdp) delay /dev/ubdp 0 0 /dev/ubdp 0 1000"
    new_group -s 1M vgm /dev/ubde /dev/mapper/slow
    near_full vgm data 36 -L 40M
    pvmove -b -n data_s /dev/ubde /dev/mapper/slow >>"$OUT/lvm.log" 2>&1
    ask_lvm_again
    lvs -a -o +devices vgm >>"$OUT/lvm.log"
    state "pvmove under way" vgm/data_s snapshot_fill
    ask_lvm_again
    state "pvmove aborted" vgm/data_s snapshot_fill
    vgremove -fy vgm >>"$OUT/lvm.log" 2>&1
    pvremove /dev/ubde >>"$OUT/lvm.log" 2>&1
    dmsetup remove slow
}

invalid_snapshots() {
    near_full vg0 plain 12 -L 8M
    ask_lvm_again
    state "invalid snapshot" vg0/plain_s snapshot_invalid
    new_volume -L 64M -n mounted vg0
    mkfs.ext4 -q /dev/vg0/mounted
    new_volume -s -L 8M -n mounted_s vg0/mounted
    mkdir -p "/mnt/a backup"
    mount /dev/vg0/mounted_s "/mnt/a backup"
    fill vg0/mounted 20
    ask_lvm_again
    state "invalid snapshot, mounted" vg0/mounted_s snapshot_invalid 2
    # As where the file systems / and /boot are backed up together.
    for volume in root boot; do
        new_volume -L 64M -n "$volume" vg0
        mkfs.ext4 -q "/dev/vg0/$volume"
    done
    mkdir -p /mnt/system
    mount /dev/vg0/root /mnt/system
    mkdir /mnt/system/boot
    umount /mnt/system
    for volume in root boot; do new_volume -s -L 8M -n "${volume}_s" "vg0/$volume"; done
    mount /dev/vg0/root_s /mnt/system
    mount /dev/vg0/boot_s /mnt/system/boot
    fill vg0/root 20
    ask_lvm_again
    state "invalid snapshot with another one mounted in it" vg0/root_s snapshot_invalid 3
    lvremove -fy vg0/boot_s vg0/root vg0/boot >>"$OUT/lvm.log" 2>&1
    new_volume -L 64M -n luks vg0
    new_volume -s -L 8M -n luks_s vg0/luks
    dmsetup create crypt --uuid "CRYPT-LUKS2-1" --table "0 2048 linear /dev/vg0/luks_s 0"
    fill vg0/luks 20
    ask_lvm_again
    state "invalid snapshot below LUKS" vg0/luks_s snapshot_invalid 2
    new_volume -L 64M -n guest vg0
    # An MBR with one partition of Linux, from sector 2048, of 32 MiB.
    printf '\0\0\0\0\x83\0\0\0\0\x08\0\0\0\0\x01\0' | dd of=/dev/vg0/guest bs=1 seek=446 conv=notrunc status=none
    printf '\x55\xaa' | dd of=/dev/vg0/guest bs=1 seek=510 conv=notrunc,fsync status=none
    new_volume -s -L 8M -n guest_s vg0/guest
    kpartx -a /dev/vg0/guest_s >>"$OUT/lvm.log" 2>&1
    dmsetup create crypt2 --uuid "CRYPT-LUKS2-2" --table "0 2048 linear /dev/mapper/vg0-guest_s1 0"
    fill vg0/guest 20
    ask_lvm_again
    state "invalid snapshot below LUKS in a partition" vg0/guest_s snapshot_invalid 3
    new_volume -L 64M -n disk vg0
    new_volume -s -L 8M -n disk_s vg0/disk
    local uuid
    uuid=$(printf 'a%.0s' {1..32})
    dmsetup create inner-root --uuid "LVM-$uuid$uuid" --table "0 2048 linear /dev/vg0/disk_s 0"
    fill vg0/disk 20
    ask_lvm_again
    state "invalid snapshot below a guest's volume" vg0/disk_s snapshot_invalid 2
}

# What has a snapshot open, though it is not mounted here.
open_snapshots() {
    local name
    for name in held contained looped; do
        new_volume -L 64M -n "$name" vg0
        mkfs.ext4 -q "/dev/vg0/$name"
        new_volume -s -L 8M -n "${name}_s" "vg0/$name"
    done
    mkdir -p /mnt/container
    sleep 1000 </dev/vg0/held_s &
    local reader=$!
    unshare -m sh -c 'mount /dev/vg0/contained_s /mnt/container && exec sleep 1000' &
    local container=$!
    losetup /dev/loop0 /dev/vg0/looped_s
    sleep 2
    for name in held contained looped; do
        fill "vg0/$name" 20
    done
    ask_lvm_again
    state "invalid snapshot below a loop device" vg0/looped_s snapshot_invalid 2
    for name in held contained; do
        in_time 20 eval '[[ $(sentence "vg0/${name}_s" snapshot_invalid) == *"fuser -v /dev/vg0/${name}_s"* ]]'
        check "LVM refuses to remove it, $name" 5 "$(lvremove -y "vg0/${name}_s" >>"$OUT/lvm.log" 2>&1; echo $?)"
    done
    kill "$reader" "$container"
    ask_lvm_again
    state "invalid snapshot, once its reader has ended" vg0/held_s snapshot_invalid
    state "invalid snapshot, once the container has ended" vg0/contained_s snapshot_invalid
}

outside_lvm() {
    dmsetup create area --table '0 40960 linear /dev/ubdp 409600'
    dmsetup create base --table '0 204800 snapshot-origin /dev/ubdp'
    dmsetup create outside --table '0 204800 snapshot /dev/ubdp /dev/mapper/area P 8'
    dd if=/dev/urandom of=/dev/mapper/outside bs=64k count=400 oflag=direct status=none 2>/dev/null || true
    ask_lvm_again
    state "snapshot outside LVM" mapper/outside snapshot_invalid
    dmsetup remove base
    dmsetup remove area
}

suspended() {
    local name
    new_vg vgt j
    lvm_does <<-END
	lvcreate -L 64M -n data vgt
	lvcreate -s -L 40M -n data_s vgt/data
	lvcreate --type thin-pool -Zn -L 64M -n pool vgt
	lvcreate -V 64M --thinpool vgt/pool -n thin
	END
    for name in data data_s pool; do
        dmsetup suspend "vgt-$name$([[ $name != pool ]] || echo -tpool)"
        state "suspended $name" "vgt/$name" volume_state
    done
    vgremove -fy vgt >>"$OUT/lvm.log" 2>&1
    fragile_group vgk
    new_volume -L 16M -n below vgk
    dmsetup suspend badk
    state "suspended PV" vgk/below volume_state
    remove_group vgk
}

not_monitored() {
    new_vg vgw j
    sed -i 's/monitoring=0/monitoring=1 snapshot_autoextend_threshold=70 thin_pool_autoextend_threshold=70/' /mnt/lvm/lvmlocal.conf
    dmeventd -f >"$OUT/dmeventd.log" 2>&1 &
    wait_until 60 "dmeventd" test -p /run/dmeventd-client
    new_volume -L 64M -n watched vgw
    new_volume --ignoremonitoring -s -L 40M -n watched_s vgw/watched
    fill vgw/watched 36
    ask_lvm_again
    state "not monitored" vgw/watched_s snapshot_fill 2
    vgremove -fy vgw >>"$OUT/lvm.log" 2>&1
}

left_over_name() {
    [[ -e /etc/mylvmbackup.conf ]] || return 0
    printf '[lvm]\nvgname=vg0\nlvname=next\n' >/mnt/mylvmbackup.conf
    mount --bind /mnt/mylvmbackup.conf /etc/mylvmbackup.conf
    new_volume -L 16M -n next vg0
    new_volume -s -L 8M -n next_snapshot vg0/next
    in_time 130 is_alerted vg0/next_snapshot next_snapshot_blocked    # read each minute, and held
    state "the next snapshot's name is taken" vg0/next_snapshot next_snapshot_blocked
    mkfs.ext4 -q /dev/vg0/next
    mkdir -p /mnt/next
    mount /dev/vg0/next /mnt/next
    new_volume -s -L 8M -n undo vg0/next
    lvconvert -y --merge vg0/undo >>"$OUT/lvm.log" 2>&1
    ask_lvm_again
    state "a merge into the next snapshot's origin waits" vg0/next next_snapshot_blocked 3
    umount /etc/mylvmbackup.conf
}

# A PV that can give errors and come back, behind a device of its own: bad_disk LETTER
bad_disk() {
    dmsetup create "bad$1" --table "0 $(blockdev --getsz "/dev/ubd$1") linear /dev/ubd$1 0"
}

disk_gives() {
    local size
    size=$(blockdev --getsz "/dev/ubd$1")
    case $2 in
    data) dmsetup reload "bad$1" --table "0 $size linear /dev/ubd$1 0" ;;
    write-errors) dmsetup reload "bad$1" --table "0 8192 linear /dev/ubd$1 0
8192 $((size - 8192)) flakey /dev/ubd$1 8192 0 3600 1 error_writes" ;;
    errors) dmsetup reload "bad$1" --table "0 $size error" ;;
    esac
    dmsetup suspend --noflush --nolockfs "bad$1"
    dmsetup resume "bad$1"
}

# A group on the disk k, which can give errors.
fragile_group() {
    [[ -b /dev/mapper/badk ]] || bad_disk k
    new_group -s 1M --dataalignment 8M "$1" "${@:2}" /dev/mapper/badk
}

remove_group() {
    wait_until 60 "its pool to be well again" eval "! is_alerted $1/pool pool_state"
    vgremove -ffy "$1" >>"$OUT/lvm.log" 2>&1
    wipefs -qa /dev/mapper/badk
}

new_pool() {
    new_volume --type thin-pool -Zn -c 64k -L 16M --poolmetadatasize 2M "${@:2}" -n pool "$1"
    new_volume -V 64M --thinpool "$1/pool" -n thin
    dd if=/dev/zero of="/dev/$1/thin" bs=1M count=4 oflag=direct status=none
}

# A leg that fails and comes back; legs that differ; the same below a pool; a leg that is split off.
raids() {
    fragile_group vgd /dev/ubdj
    lvm_does <<-END
	lvcreate --type raid1 -m 1 -L 16M -n mirrored vgd
	lvcreate --type raid1 -m 1 -L 32M -n pool vgd
	lvconvert --type thin-pool -Zn --poolmetadatasize 4M vgd/pool
	END
    wait_until 60 "the legs to be in sync" in_sync vgd/mirrored
    wait_until 60 "the pool's legs to be in sync" in_sync vgd/pool_tdata
    disk_gives k errors
    dd if=/dev/urandom of=/dev/vgd/mirrored bs=1M count=4 oflag=direct status=none
    disk_gives k data
    in_time 20 is_alerted vgd/mirrored volume_state
    ask_lvm_again
    state "RAID whose failed leg is back" vgd/mirrored volume_state
    in_time 20 is_over vgd/mirrored volume_state
    differ mirrored
    state "RAID whose legs differ" vgd/mirrored volume_state
    in_time 20 is_over vgd/mirrored volume_state
    differ pool_tdata
    state "pool on a RAID whose legs differ" vgd/pool volume_state
    in_time 20 is_over vgd/pool volume_state
    lvm_does <<-END
	lvconvert --splitmirrors 1 --trackchanges vgd/mirrored
	END
    ask_lvm_again
    in_time 20 is_alerted vgd/mirrored volume_state
    check "a split leg is a warning" warning "$(curl -fs "$api/volumes" | jq -r '.[] | select(.lv == "mirrored") | .grade')"
    state "RAID with a leg that is split off" vgd/mirrored volume_state
    in_time 20 is_over vgd/mirrored volume_state
    remove_group vgd
}

differ() {
    dd if=/dev/urandom of="/dev/mapper/vgd-$1_rimage_1" bs=64k seek=20 count=2 oflag=direct status=none
    lvchange --syncaction check "vgd/$1" >>"$OUT/lvm.log" 2>&1
}

is_over() {
    ! is_alerted "$@"
}

# LVM makes a snapshot in vgx, or refuses it.
makes_snapshot() {
    lvcreate -qq -kn -s -n "$1" vgx/thin >>"$OUT/lvm.log" 2>&1 && echo made || echo refused
}

# LVM makes no snapshot in a pool above the threshold of autoextend, although no dmeventd extends it.
pool_above_threshold() {
    new_vg vgx j
    new_volume --type thin-pool -Zn -c 64k -L 100M -n pool vgx
    new_volume -V 90M --thinpool vgx/pool -n thin
    dd if=/dev/zero of=/dev/vgx/thin bs=1M count=60 oflag=direct status=none
    sed -i 's/monitoring=0/monitoring=0 thin_pool_autoextend_threshold=50/' /mnt/lvm/lvmlocal.conf
    check "LVM refuses a snapshot" refused "$(makes_snapshot s1)"
    state "pool above the threshold" vgx/pool next_snapshot_blocked
    check "LVM makes a snapshot then" made "$(makes_snapshot s2)"
    sed -i 's/ thin_pool_autoextend_threshold=50//' /mnt/lvm/lvmlocal.conf
    # A metadata profile comes before lvm.conf, and the pool's own before its group's.
    mkdir -p "$LVM_SYSTEM_DIR/profile"
    echo 'activation/thin_pool_autoextend_threshold=40' >"$LVM_SYSTEM_DIR/profile/strict.profile"
    echo 'activation/thin_pool_autoextend_threshold=90' >"$LVM_SYSTEM_DIR/profile/easy.profile"
    lvm_does <<<"vgchange --metadataprofile strict vgx"
    ask_lvm_again
    check "LVM refuses a snapshot by the group's profile" refused "$(makes_snapshot s3)"
    state "pool above the threshold of its group's profile" vgx/pool next_snapshot_blocked
    check "LVM makes a snapshot after that" made "$(makes_snapshot s4)"
    dd if=/dev/urandom of=/dev/vgx/thin bs=1M count=20 oflag=direct status=none
    ask_lvm_again
    check "LVM refuses a snapshot once more" refused "$(makes_snapshot s5)"
    in_time 100 is_alerted vgx/pool next_snapshot_blocked
    lvm_does <<<"lvchange --metadataprofile easy vgx/pool"
    ask_lvm_again
    check "the pool's own profile: the alert" "" "$(sentence vgx/pool next_snapshot_blocked)"
    check "the pool's own profile: LVM makes a snapshot" made "$(makes_snapshot s6)"
    vgremove -fy vgx >>"$OUT/lvm.log" 2>&1
}

broken_pool() {
    fragile_group vgk
    new_pool vgk
    disk_gives k write-errors
    dd if=/dev/zero of=/dev/vgk/thin bs=1M seek=4 count=4 conv=fsync status=none 2>>"$OUT/writer.log" || true
    in_time 20 is_alerted vgk/pool pool_state
    disk_gives k data
    ask_lvm_again
    state "pool needs a check" vgk/pool pool_state 3
    remove_group vgk
    # Neither the group nor a spare volume has room for what the repair writes.
    fragile_group vgk
    new_pool vgk --poolmetadataspare n
    new_volume -l 100%FREE -n rest vgk
    pvcreate -y /dev/ubde >>"$OUT/lvm.log" 2>&1
    disk_gives k write-errors
    dd if=/dev/zero of=/dev/vgk/thin bs=1M seek=4 count=4 conv=fsync status=none 2>>"$OUT/writer.log" || true
    in_time 20 is_alerted vgk/pool pool_state
    disk_gives k data
    ask_lvm_again
    state "pool needs a check, without room" vgk/pool pool_state 4
    remove_group vgk
    pvremove -q /dev/ubde >>"$OUT/lvm.log" 2>&1
}

failed_pool() {
    fragile_group vgk
    new_pool vgk
    disk_gives k errors
    dd if=/dev/zero of=/dev/vgk/thin bs=1M seek=4 count=4 conv=fsync status=none 2>>"$OUT/writer.log" || true
    in_time 20 is_alerted vgk/pool pool_state
    disk_gives k data
    ask_lvm_again
    state "pool failed" vgk/pool pool_state 3
    remove_group vgk
}

failed_writecache() {
    fragile_group vgk /dev/ubdj
    new_volume -L 64M -n data vgk /dev/ubdj
    new_volume -L 16M -n fast vgk /dev/mapper/badk
    lvchange -an vgk/fast
    lvconvert -qq -y --type writecache --cachevol vgk/fast vgk/data >>"$OUT/lvm.log" 2>&1
    fill vgk/data 4
    disk_gives k errors
    fill vgk/data 4 2>>"$OUT/writer.log" || true
    in_time 20 is_alerted vgk/data pool_state
    disk_gives k data
    ask_lvm_again
    state "writecache failed" vgk/data pool_state 2
    in_time 20 eval '! is_alerted vgk/data pool_state'
    check "the alert is over then" over "$(is_alerted vgk/data pool_state || echo over)"
    remove_group vgk
}

failed_merge() {
    fragile_group vgk
    near_full vgk data 36 -L 80M
    echo 1 >/sys/module/dm_snapshot/parameters/snapshot_copy_throttle
    lvconvert -y -b --merge vgk/data_s >>"$OUT/lvm.log" 2>&1
    disk_gives k errors
    in_time 20 is_alerted vgk/data merge_failed
    disk_gives k data
    ask_lvm_again
    state "merge failed" vgk/data merge_failed 2
    echo 100 >/sys/module/dm_snapshot/parameters/snapshot_copy_throttle
    remove_group vgk
}

cow_area_with_errors() {
    fragile_group vgk /dev/ubdj
    new_volume -L 64M -n data vgk /dev/ubdj
    new_volume -s -L 40M -n data_s vgk/data /dev/mapper/badk
    disk_gives k errors
    fill vgk/data 4
    disk_gives k data
    ask_lvm_again
    state "I/O error of the COW area" vgk/data_s snapshot_invalid
    remove_group vgk
}

cut_short() {
    near_full vg0 cut 16 -L 24M
    lvresize -f -y -L 8M vg0/cut_s >>"$OUT/lvm.log" 2>&1
    ask_lvm_again
    state "COW area cut" vg0/cut_s snapshot_invalid
}

# A PV that was away while LVM changed the group stays missing when it is back.
returned_pvs() {
    new_vg vgr l m
    lvm_does <<-END
	lvcreate --type raid1 -m 1 -L 16M -n mirrored vgr /dev/ubdl /dev/ubdm
	lvcreate -L 64M -n data vgr /dev/ubdl
	lvcreate -L 16M -n other vgr /dev/ubdm
	lvcreate -s -L 4M -n left vgr/data /dev/ubdl
	lvcreate -s -L 40M -n data_s vgr/data /dev/ubdl
	END
    wait_until 60 "the mirror to be in sync" in_sync vgr/mirrored
    lvm_sees_only '/dev/ubd[a-jln]' /dev/loop1 '/dev/mapper/bad.*' /dev/mapper/slow
    ask_lvm_again
    state "group with a PV that LVM does not see" vgr/ group_state 0
    check "it names that disk" 1 "$(sentence vgr/ group_state | grep -c 'If /dev/ubdm works, allow it')"
    lvremove -qy vgr/left >>"$OUT/lvm.log" 2>&1
    fill vgr/data 36
    lvm_sees_only '/dev/ubd[a-jl-o]' /dev/loop1 '/dev/mapper/bad.*' /dev/mapper/slow
    ask_lvm_again
    check "LVM makes no snapshot" 5 "$(lvcreate -s -l 4 -n none vgr/data >>"$OUT/lvm.log" 2>&1; echo $?)"
    for name in mirrored other; do
        check "the same command for $name" 1 "$(sentence "vgr/$name" volume_state | grep -c 'vgextend --restoremissing vgr /dev/ubdm')"
    done
    state "partial volume, and its PV is back" vgr/other volume_state 2
    ask_lvm_again
    check "the alert of the group" "" "$(sentence vgr/ group_state)"
    state "a snapshot near full after that" vgr/data_s snapshot_fill
    lvm_does <<<"vgremove -f vgr"
    pvremove -q /dev/ubdl /dev/ubdm >>"$OUT/lvm.log" 2>&1
}

missing_pvs() {
    new_vg vgr l m
    new_vg vge n
    pvcreate -y /dev/ubdd >>"$OUT/lvm.log" 2>&1
    lvm_does <<-END
	lvcreate --type raid1 -m 1 -L 16M -n mirrored vgr /dev/ubdl /dev/ubdm
	lvcreate -L 64M -n data vgr /dev/ubdl
	lvcreate -s -L 40M -n data_s vgr/data /dev/ubdl
	lvcreate -L 64M -n data vge /dev/ubdn
	lvcreate -s -L 40M -n data_s vge/data /dev/ubdn
	END
    vgextend vge /dev/ubdo >>"$OUT/lvm.log" 2>&1
    wait_until 60 "the mirror to be in sync" in_sync vgr/mirrored
    fill vgr/data 36
    fill vge/data 36
    lvm_sees_only '/dev/ubd[a-jln]' '/dev/mapper/bad.*' /dev/mapper/slow
    ask_lvm_again
    state "group with a missing PV with data" vgr/ group_state 0
    state "a snapshot near full while a PV with data is missing" vgr/data_s snapshot_fill 0
    state "RAID with a missing leg, and a free PV" vgr/mirrored volume_state 2
    ask_lvm_again
    state "a snapshot near full while an empty PV is missing" vge/data_s snapshot_fill
    ask_lvm_again
    state "a snapshot near full after that" vge/data_s snapshot_fill
}

partial() {
    bad_disk p
    new_group -s 1M vgl /dev/mapper/badp
    new_volume -L 16M -n data vgl
    disk_gives p errors
    ask_lvm_again
    state "partial volume, PV with errors" vgl/data volume_state 0
}

# LVM needs room for each leg of what is cached.
cached_pool() {
    local free
    new_vg vgc e f
    lvm_does <<-END
	lvcreate --type raid1 -m 1 -L 100M -n pool vgc
	lvconvert --type thin-pool vgc/pool
	lvcreate --type cache-pool -L 16M -n fast vgc /dev/ubde
	lvconvert --type cache --cachepool vgc/fast vgc/pool
	lvcreate -V 200M --thinpool vgc/pool -n thin
	END
    free=$(pvs --nolocking --noheadings --units m --nosuffix -o pv_free /dev/ubdf | awk '{ print int($1) }')
    new_volume -L "$((free - 10))M" -n rest vgc /dev/ubdf
    # Stories before this one may leave a free PV, which would be named too.
    pvs --noheadings -o pv_name -S vg_name= | xargs -r pvremove -qy >>"$OUT/lvm.log" 2>&1
    fill vgc/thin 92
    ask_lvm_again
    state "pool with mirrored and cached data near full" vgc/pool pool_data
    lvm_does <<<"vgremove -f vgc"
    pvremove -q /dev/ubde /dev/ubdf >>"$OUT/lvm.log" 2>&1
}

pv_there_twice() {
    new_vg twice e
    near_full twice data 36 -L 40M
    dd if=/dev/ubde of=/dev/ubdf bs=1M count=2 conv=fsync status=none
    ask_lvm_again
    state "group with a PV that is there twice" twice/ group_state 0
    state "a snapshot near full in that group" twice/data_s snapshot_fill 0
    check "LVM refuses to extend it" 5 "$(lvextend -L +4m twice/data_s >>"$OUT/lvm.log" 2>&1; echo $?)"
    sed -i 's/^devices {/devices { allow_changes_with_duplicate_pvs=1/' /mnt/lvm/lvmlocal.conf
    ask_lvm_again
    state "the same where LVM may change the group" twice/data_s snapshot_fill
}

no_archive() {
    local archive=$LVM_SYSTEM_DIR/archive
    new_vg vga e
    near_full vga data 18 -L 20M
    near_full vga lost 12 -L 8M
    near_full vga other 18 -L 20M
    fill_archive
    ask_lvm_again
    state "a full file system for LVM's archive" vga/ group_state 0
    check "LVM refuses to make a snapshot" 5 "$(lvcreate -s -l 1 -n none vga/data >>"$OUT/lvm.log" 2>&1; echo $?)"
    state "invalid snapshot on that host" vga/lost_s snapshot_invalid
    ask_lvm_again
    state "snapshot near full on that host" vga/data_s snapshot_fill
    mount -o remount,ro "$archive"
    ask_lvm_again
    state "snapshot near full, where that file system is read-only" vga/other_s snapshot_fill
    umount "$archive"
    ask_lvm_again
    check "the alert of the group" "" "$(sentence vga/ group_state)"
    lvm_does <<<"vgremove -f vga"
    pvremove -q /dev/ubde >>"$OUT/lvm.log" 2>&1
}

modules dm-snapshot dm-thin-pool dm-cache dm-cache-smq dm-writecache dm-raid raid1 dm-mirror dm-zero dm-flakey dm-delay ext4 loop
printf '[alerts]\nticks_missed = "off"\npart_failed = "off"\n' >/mnt/cowbell.toml
start_cowbell
lvm_sees_only '/dev/ubd[a-jl-o]' /dev/loop1 '/dev/mapper/bad.*' /dev/mapper/slow
new_vg vg0 a
stories="snapshots merge_pending full_metadata pools striped no_room most_pvs pvmove_under_way invalid_snapshots open_snapshots outside_lvm suspended raids \
    pool_above_threshold not_monitored left_over_name broken_pool failed_pool failed_writecache failed_merge cow_area_with_errors cut_short returned_pvs missing_pvs partial cached_pool no_archive pv_there_twice"
for story in ${*:-$stories}; do
    "$story"
done
echo "figure $states states, $commands commands, $refused refused"
stop_cowbell
finish
