# Is every fill that cowbell says the one that `lvs` says, to the hundredth? Makes each kind of volume that
# this kernel can make: thick snapshots with chunks of 4 to 512 KiB, four of one origin, merging ones, thin pools
# with volumes, snapshots of snapshots and an external origin, caches, RAID and mirrors, and thick snapshots of
# those; on disks, a partition, LUKS and md. Brings each to about 0, 20, 50, 80 and 99 % and, while nothing moves,
# compares all. Then the layout: segments and extents by `lvs --segments` and `pvs --segments`.
#
# LAB_DISKS=5
# LAB_DISK_SIZE=2G
source "$repo/tests/lab/guest/lab.sh"

declare -A end chunk

# Four partitions on the last disk: a plain PV, one under LUKS (as cryptsetup would make it), two for an md mirror.
make_pvs() {
    local part key=0123456789abcdef0123456789abcdef
    modules cbc dm-crypt raid1
    for part in 1 2 3 4; do addpart /dev/ubde $part $((2048 + part * 1048576)) 1048576; done
    dmsetup create luks-pv --uuid "CRYPT-LUKS2-$key-luks-pv" --table "0 1048576 crypt aes-cbc-plain64 $key 0 /dev/ubde2 0"
    echo md0 >/sys/module/md_mod/parameters/new_array
    cd /sys/block/md0/md
    echo none >metadata_version
    echo raid1 >level
    echo 2 >raid_disks
    for part in 3 4; do
        cat "/sys/class/block/ubde$part/dev" >new_dev
        echo $((part - 3)) >"dev-ubde$part/slot"
        echo 524288 >"dev-ubde$part/size"
    done
    echo 524288 >component_size
    echo none >resync_start
    echo active >array_state
    cd - >/dev/null
    lvm_sees_only '/dev/ubd[a-d]' /dev/ubde1 /dev/mapper/luks-pv /dev/md0
    new_group vg0 /dev/ubda /dev/ubdb /dev/ubdc /dev/ubdd
    new_group -s 1M vg-b /dev/ubde1 /dev/md0
    new_group vg-c- /dev/mapper/luks-pv
}

# What is in step moves only when `raid_to` lets it: 1 KiB a second, and not more.
raid_speed() {
    echo "$1" | tee /proc/sys/dev/raid/speed_limit_min >/proc/sys/dev/raid/speed_limit_max
}

make_volumes() {
    local name sectors
    modules dm-snapshot dm-thin-pool dm-mirror dm-raid raid456 raid10 dm-cache dm-cache-smq dm-writecache
    raid_speed 1
    lvm_does <<-END
	lvcreate -L 300M -n data vg0
	lvcreate -s -c 4k -L 8M -n s4 vg0/data
	lvcreate -s -c 16k -L 12M -n s16 vg0/data
	lvcreate -s -c 64k -L 16M -n s64 vg0/data
	lvcreate -s -c 512k -L 52M -n s512 vg0/data
	lvcreate -s -L 4M -n small vg0/data
	lvcreate -L 64M -n merging vg0
	lvcreate -s -c 16k -L 32M -n merging_s vg0/merging
	lvcreate -L 16M -n waiting vg0
	lvcreate -s -c 16k -L 8M -n waiting_s vg0/waiting
	lvcreate --type thin-pool -c 64k -L 112M -n pool vg0
	lvcreate -V 50M --thinpool vg0/pool -n thin
	lvcreate -V 100M --thinpool vg0/pool -n rest
	lvcreate -V 16M --thinpool vg0/pool -n base
	lvcreate -L 16M -n outer vg0
	lvchange -an vg0/outer
	lvchange -pr vg0/outer
	lvcreate -s --thinpool vg0/pool -n outer_s vg0/outer
	lvcreate --type raid1 -m 1 -L 32M -n r1 vg0
	lvcreate --type raid1 -m 1 -L 32M -n rs vg0
	lvcreate -s -L 8M -n rs_s vg0/rs
	lvcreate --type raid5 -i 2 -L 64M -n r5 vg0
	lvcreate --type raid10 -m 1 -i 2 -L 64M -n r10 vg0
	lvcreate --type mirror -m 1 --mirrorlog core -L 32M -n mirror vg0
	lvcreate -i 2 -I 16k -L 32M -n striped vg0
	lvcreate -L 16M -n linear vg0
	lvextend -L +16M vg0/linear /dev/ubdd
	lvcreate -L 64M -n cached vg0
	lvcreate --type cache-pool -c 64k -L 8M -n fast vg0
	lvconvert --type cache --cachepool vg0/fast vg0/cached
	lvcreate -s -c 64k -L 16M -n cached_s vg0/cached
	lvcreate -L 64M -n cachevol vg0
	lvcreate -L 16M -n faster vg0
	lvconvert --type cache --cachevol faster -c 64k vg0/cachevol
	lvcreate -L 64M -n written vg0
	lvcreate -an -L 16M -n fastest vg0
	lvconvert --type writecache --cachevol fastest --cachesettings "high_watermark=100 low_watermark=99" vg0/written
	lvcreate --type thin-pool -c 192k -L 64M -n pool-192 vg-b
	lvcreate -V 64M --thinpool vg-b/pool-192 -n odd
	lvcreate --type thin-pool -Zn -c 64k -L 704M --poolmetadatasize 2M -n tiny vg-b
	lvcreate -V 640M --thinpool vg-b/tiny -n many
	lvcreate -L 20M -n my-data vg-b
	lvcreate -s -L 5M -n my-data--s vg-b/my-data
	lvcreate -L 20M -n root vg-c-
	lvcreate -s -c 8k -L 8M -n root- vg-c-/root
	END
    thin_to vg0-thin 10
    thin_to vg0-base 50
    scatter /dev/vg0/merging_s 1950 32
    dd if=/dev/zero of=/dev/vg-b/many bs=1M count=640 oflag=direct status=none
    lvm_does <<-END
	lvcreate -s -kn -n thin_s vg0/thin
	lvcreate -s -kn -n thin_s_s vg0/thin_s
	lvcreate -s -L 8M -n base_s vg0/base
	END
    sleep 3600 </dev/vg0/waiting &
    echo 1 >/sys/module/dm_snapshot/parameters/snapshot_copy_throttle
    lvconvert -y -b --merge vg0/waiting_s vg0/merging_s >>"$OUT/lvm.log" 2>&1 &
    until dmsetup table vg0-merging | grep -q merge; do :; done
    dmsetup suspend vg0-merging
    while read -r name _ _ _ _ _ _ sectors; do chunk[${name%:}]=$sectors; done < <(dmsetup table --target snapshot)
}

# write_on NAME BYTES: from where it ended last; the names are the device-mapper's.
write_on() {
    (($2 > 0)) || return 0
    dd if=/dev/zero of="/dev/mapper/$1" bs=512k count="$2" iflag=count_bytes seek="${end[$1]:-0}" oflag=seek_bytes conv=fsync status=none
    end[$1]=$((${end[$1]:-0} + $2))
}

# USED TOTAL, of a device's status: its first or second pair with a slash.
used() {
    local word pairs=()
    for word in $(dmsetup status --noflush "$1"); do [[ $word != */* ]] || pairs+=("${word/\// }"); done
    echo "${pairs[${2:-1} - 1]}"
}

# All thick snapshots, by writing into them as many chunks as there is room for. Each chunk of metadata tells of as many
# as it has 16 bytes; $chunk is in sectors.
cows_to() {
    local name used total
    while read -r name used total; do
        write_on "$name" $((((total * $1 / 100 - used) / chunk[$name] * (chunk[$name] * 32) / (chunk[$name] * 32 + 1) - 1) * chunk[$name] * 512))
    done < <(dmsetup status --noflush --target snapshot | awk -F'[: /]+' '$4 == "snapshot" && $5 ~ /^[0-9]/ { print $1, $5, $6 }')
}

# To the last chunk: 100.00, and valid all the same.
cow_to_the_brim() {
    local used total
    while read -r used total < <(used "$1") && ((used < total)); do write_on "$1" $((chunk[$1] * 512)); done
}

# In whole chunks of the pool, of 64 or of 192 KiB.
thin_to() {
    write_on "$1" $(($(blockdev --getsize64 "/dev/mapper/$1") * $2 / 100 / 196608 * 196608 - ${end[$1]:-0}))
}

pool_to() {
    local used total
    read -r used total < <(used vg0-pool-tpool 2)
    write_on vg0-rest $(((total * $1 / 100 - used) * 65536))
}

metadata_to() {
    local used total
    read -r used total < <(used vg--b-tiny-tpool)
    crowd vg--b-tiny-tpool $(((total * $1 / 100 - used) / 43))
}

# What is written again and again goes into the cache.
cache_to() {
    local used total limit=$((SECONDS + 20))
    while read -r used total < <(used "$2" 2) && ((used < total * $3 / 100 - 2 && SECONDS < limit)); do
        dd if=/dev/zero of="$1" bs=4k count=$((total * $3 / 100 * 16)) oflag=direct status=none
    done
}

writecache_to() {
    local total free
    read -r total free < <(dmsetup status vg0-written | cut -d' ' -f 5,6)
    write_on vg0-written $(((total * $1 / 100 - (total - free)) * 4096))
}

# What was not used of the speed before is made up for at once: it is raised step by step.
raid_to() {
    local used total speed=200
    while read -r used total < <(used vg0-r1) && ((used * 100 < total * $1)); do
        raid_speed "$speed"
        speed=$((speed * 3 / 2))
        sleep 0.6
    done
    raid_speed 1
}

# A merge is held still by suspending its volume.
merge_on() {
    dmsetup resume vg0-merging
    sleep 0.1
    dmsetup suspend vg0-merging
}

reach() {
    local volume
    if (($1 > 0)); then
        dd if=/dev/zero of=/dev/vg0/data bs=64k count=17 seek=$((3000 + $1 * 16)) conv=fsync status=none
        cache_to /dev/vg0/cached vg0-cached-real "$1"
        cache_to /dev/vg0/cachevol vg0-cachevol "$1"
        writecache_to "$1"
        cows_to "$1"
        for volume in vg0-thin vg0-outer_s vg--b-odd; do thin_to "$volume" "$1"; done
        thin_to vg0-thin_s $(($1 / 2))
        thin_to vg0-thin_s_s $(($1 / 10))
        pool_to "$1"
        metadata_to $(($1 < 99 ? $1 : 97))
        raid_to "$1"
    fi
    (($1 < 99)) || cow_to_the_brim vg0-s16
    sync
    (($1 == 0)) || merge_on
}

# Both as lines of "VG/LV WHAT<TAB>HUNDREDTHS". The seventh letter of lv_attr says for what copy_percent stands. lvs hides
# a snapshot as soon as it is to be merged. While that waits, the snapshot is used and fills; then it is gone, and its
# origin has its fill.
# LVM waits for no lock here: its own polling of the merge may hold one while it waits for what is suspended.
fills_by_lvs() {
    lvs --nolocking -a -S 'lv_name!=merging_s && (lv_role=public || segtype=thin-pool)' --reportformat json --config 'report { compact_output=0 mark_hidden_devices=0 }' -o vg_name,lv_name,lv_attr,data_percent,metadata_percent,copy_percent |
        jq -r '.report[0].lv[] | (.vg_name + "/" + .lv_name) as $name | .lv_attr as $attr
            | [$name + " fill", if $attr[4:5] | IN("I", "S") then "Invalid" else .data_percent end],
              [$name + " metadata", .metadata_percent],
              [$name + " in step", if $attr[6:7] | IN("r", "m") then .copy_percent else "" end]
            | select(.[1] != "") | .[1] |= if . == "Invalid" then . else tonumber * 100 | round end | @tsv' | sort
}

fills_by_cowbell() {
    curl -fs "$api/volumes" |
        jq -r '.[] | (.vg + "/" + .lv) as $name
            | [$name + " fill", if .state == "invalid" and .fill_percent == null then "Invalid" else .fill_percent end],
              [$name + " metadata", .metadata_percent], [$name + " in step", .sync_percent]
            | select(.[1] != null) | .[1] |= if . == "Invalid" then . else . * 100 | round end | @tsv' | sort
}

# Cowbell is asked between two equal answers of lvs, after two seconds of ticks without a change: a thin pool's metadata
# is committed within one, or later on a slow machine.
compare_fills() {
    local asked what expected found
    sleep 1.5
    for asked in {1..10}; do
        dmsetup suspend vg0-merging    # no harm done if it is; LVM, which began the merge, may have resumed it since
        fills_by_lvs >/mnt/before
        await_ticks 4
        fills_by_cowbell >"$OUT/fills-$1.cowbell"
        fills_by_lvs >"$OUT/fills-$1.lvs"
        ! cmp -s /mnt/before "$OUT/fills-$1.lvs" || break
    done
    check "at $1 %: lvs says the same before and after" "" "$(diff /mnt/before "$OUT/fills-$1.lvs")"
    join -t $'\t' -a 1 -a 2 -e '(none)' -o 0,1.2,2.2 "$OUT/fills-$1.lvs" "$OUT/fills-$1.cowbell" >/mnt/joined
    while IFS=$'\t' read -r what expected found; do check "at $1 %: $what, hundredths" "$expected" "$found"; done </mnt/joined
    cat /mnt/joined >>/mnt/all-fills
}

compare_layouts() {
    local what
    for what in names segments extents; do
        in_time 10 same "$what"
        check "$1, $what that only one of them knows ($(wc -l <"$OUT/$what.lvs") lines)" "" "$(diff "$OUT/$what.lvs" "$OUT/$what.cowbell")"
    done
}

same() {
    "$1_by_lvs" 2>>"$OUT/lvm.log" | sort >"$OUT/$1.lvs"
    "$1_by_cowbell" | sort >"$OUT/$1.cowbell"
    cmp -s "$OUT/$1.lvs" "$OUT/$1.cowbell"
}

names_by_lvs() {
    lvs --nolocking -a -S 'lv_name!=merging_s && (lv_role=public || segtype=thin-pool)' --noheadings --separator ' ' --config 'report { mark_hidden_devices=0 }' -o vg_name,lv_name | awk '{ $1 = $1; print }' | sort -u
}

names_by_cowbell() {
    curl -fs "$api/volumes" | jq -r '.[] | "\(.vg) \(.lv)"'
}

# VG LV TYPE STRIPES STRIPE-SIZE CHUNK EXTENTS; what is kept for repairs belongs to no volume.
segments_by_lvs() {
    lvs --nolocking -a --noheadings --separator ' ' --units b --nosuffix --config 'report { mark_hidden_devices=0 }' \
        -o vg_name,lv_name,segtype,stripes,stripe_size,chunk_size,seg_size_pe | awk '{ $1 = $1 } !/_pmspare / { print }'
}

segments_by_cowbell() {
    curl -fs "$api/volumes" | jq -r '.[] | .vg as $vg | .layout[]
        | "\($vg) \(.lv) \(.type) \(.stripes // 0) \(.stripe_bytes // 0) \(.chunk_bytes // 0) \(.extents)"'
}

# VG LV PV EXTENTS
extents_by_lvs() {
    pvs --nolocking --segments --noheadings --separator ' ' --config 'report { mark_hidden_devices=0 }' -o vg_name,pv_name,pvseg_size,lv_name |
        awk 'NF == 4 && $4 !~ /_pmspare$/ { sum[$1 " " $4 " " $2] += $3 } END { for (key in sum) print key, sum[key] }'
}

extents_by_cowbell() {
    curl -fs "$api/volumes" | jq -r '.[] | .vg as $vg | .layout[] | .lv as $lv | .pvs[] | "\($vg) \($lv) \(.pv) \(.extents)"' |
        awk '{ sum[$1 " " $2 " " $3] += $4 } END { for (key in sum) print key, sum[key] }'
}

# What /sys says of every disk, of a partition that of its disk. LVM's commands make devices for a moment, which may be
# gone from /sys when they were in cowbell's list.
same_devices() {
    local device queue rotational scheduler kib
    for device in $(curl -fs "$api/devices" | tee "$OUT/devices.json" | jq -r '.[].device'); do
        queue=/sys/class/block/$device/queue
        [[ -d $queue ]] || queue=/sys/class/block/$device/../queue
        read -r rotational <"$queue/rotational"
        read -r scheduler <"$queue/scheduler"
        read -r kib <"$queue/read_ahead_kb"
        scheduler=${scheduler#*[}
        echo "$device $rotational ${scheduler%]*} $((kib * 1024))"
    done >"$OUT/disks.sys"
    jq -r '.[] | "\(.device) \({ "true": 1, "false": 0 }["\(.rotational)"]) \(.scheduler) \(.read_ahead_bytes)"' "$OUT/devices.json" >"$OUT/disks.cowbell"
    cmp -s "$OUT/disks.sys" "$OUT/disks.cowbell"
}

# The attributes of all disks. All PVs, and in which group.
compare_devices() {
    local major minor vg
    in_time 5 same_devices
    check "disk attributes ($(wc -l <"$OUT/disks.sys") devices)" "" "$(diff "$OUT/disks.sys" "$OUT/disks.cowbell")"
    check "PVs" "$(pvs --nolocking --noheadings -o pv_major,pv_minor,vg_name | while read -r major minor vg; do
        echo "$(basename "$(readlink "/sys/dev/block/$major:$minor")") $vg"
    done | sort | xargs)" "$(jq -r '.[] | select(.label | contains("PV of ")) | "\(.device) \(.vg)"' "$OUT/devices.json" | sort | xargs)"
}

make_pvs
echo 512 >/sys/block/ubda/queue/read_ahead_kb
echo 0 >/sys/block/ubdb/queue/rotational
echo mq-deadline >/sys/block/ubdc/queue/scheduler
make_volumes
echo 'interval = "500ms"' >/mnt/cowbell.toml
start_cowbell
for level in 0 20 50 80 99; do
    reach "$level"
    compare_fills "$level"
done
awk -F'\t' '$2 ~ /^[0-9]/ && $3 ~ /^[0-9]/ { count++; by = $2 - $3; by = by < 0 ? -by : by; if (by > most) most = by }
    END { printf "figure fills compared: %d, at 5 levels, largest difference %.2f\n", count, most / 100 }' /mnt/all-fills
check "fills compared, 150 or more" 1 "$(($(wc -l </mnt/all-fills) >= 150))"
compare_layouts "with all PVs"
compare_devices
lvm_sees_only '/dev/ubd[a-d]' /dev/ubde1 /dev/mapper/luks-pv    # md0 is lost
lvchange -an vg0/linear    # so that cowbell asks LVM anew
compare_layouts "without one PV"
stop_cowbell
finish
