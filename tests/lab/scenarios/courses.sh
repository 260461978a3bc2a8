# Records courses of backups for the forecast: thirteen kinds, four of each with other sizes and speeds, those of a number
# at once. tar reads a mounted snapshot while a process writes to its origin, until the snapshot or pool is full, also
# after tar has ended. Nothing is checked. `courses 2 3` records only those numbers.
#
# LAB_DISKS=4
# LAB_DISK_SIZE=3G
# LAB_MEM=2600M
# LAB_TIMEOUT=3000
# LAB_PACKAGES=fio
source "$repo/tests/lab/guest/lab.sh"

io=$repo/tests/lab/guest/course-io
longest=230    # seconds of a course
numbers=("$@")
(($# > 0)) || numbers=(1 2 3 4)

# The kinds, and for each number: MiB to read, KB read a second and its noise, MiB of the COW area (of a pool: that are
# free), KiB of a chunk, chunks written a second, and how.
courses() {
    case $1 in
    1) cat <<-'END'
	steady     120 1200 0.03  40 16 19
	noise      150 1100 0.12  40 16 20 noise=0.8
	burst5     130 1300 0.03  44 32 14 period=5 on=1.5
	burst30    160 1000 0.03  60 32 17 period=30 on=8
	again      140 1000 0.06  30 16 60 order=hot
	decaying   150 1100 0.03  44 32 50 order=random region=1250
	halfway    150 1100 0.03  40 16 50 delay=70
	slowing    260 9000 0.03  96 16 30 order=random
	extended   150 1000 0.03  30 16 18 noise=0.3
	thin       120 1000 0.03  70 64  6 noise=0.3
	autoextend 150 1000 0.03  24 16 20 noise=0.2
	drifting   140 1000 0.06  50 16 12 drift=1.7
	nightly    130 1200 0.06  64 16 20
	END
        ;;
    2) cat <<-'END'
	steady     160  900 0.03  36 32 12
	noise      160  800 0.06  44 32 12 noise=1
	burst5     140 1000 0.06  40 16 25 period=5 on=2
	burst30    170  900 0.06  52 16 30 period=28 on=6
	again      150  900 0.06  28 32 35 order=hot
	decaying   160 1000 0.06  40 16 70 order=random region=3600
	halfway    150  900 0.03  48 32 16 delay=80
	slowing    280 9000 0.03  80 16 40 order=random
	extended   140  900 0.06  32 32 11 noise=0.2
	thin       130  900 0.06  60 64  7 noise=0.5
	autoextend 140  900 0.06  28 32 12 noise=0.4
	drifting   150  900 0.03  40 32 16 drift=0.6
	nightly    130 1200 0.06  64 16 20
	END
        ;;
    3) cat <<-'END'
	steady     150 1400 0.06  48 32 10
	noise      140 1200 0.2  36 16 24 noise=0.6
	burst5     150 1100 0.06  36 32 10 period=6 on=1
	burst30    150  800 0.03  44 32 11 period=32 on=10
	again      160 1300 0.03  40 16 70 order=hot
	decaying   150 1000 0.06  60 32 35 order=random region=2100
	halfway    140  900 0.12  60 32 22 delay=55
	slowing    220 9000 0.03 120 32 22 order=random
	extended   160 1200 0.06  28 16 24 noise=0.5
	thin       140 1100 0.03  90 64  9 noise=0.2
	autoextend 150  900 0.03  20 16 25 noise=0.3
	drifting   130  800 0.06  60 32  8 drift=1.4
	nightly    130 1200 0.06  64 16 20
	END
        ;;
    4) cat <<-'END'
	steady     140 1000 0.12  52 16 18
	noise      130 1000 0.06  56 32 14 noise=0.7
	burst5     160 1200 0.03  52 16 22 period=4 on=0.8
	burst30    140 1000 0.12  64 16 26 period=30 on=5
	again      140 1100 0.03  36 32 45 order=hot
	decaying   140  900 0.03  36 16 90 order=random region=2200
	halfway    160 1200 0.06  44 16 36 delay=65
	slowing    240 9000 0.03  64 32 20 order=random
	extended   150  900 0.03  36 16 22 noise=0.4
	thin       120  800 0.12  80 64  8 noise=0.3
	autoextend 130 1100 0.12  24 32 10 noise=0.5
	drifting   160 1000 0.12  44 16 26 drift=0.75
	nightly    130 1200 0.06  64 16 20
	END
        ;;
    esac
}

# A file system with files of so many MiB, of which `file` is written to: half of it.
fill() {
    local number part=$(($2 / 12))
    mkdir -p "/mnt/$1" "/mnt/$1.snap"
    case $3 in
    xfs) mkfs.xfs -q -f "/dev/$4/$1"; mount -o lazytime,noatime "/dev/$4/$1" "/mnt/$1" ;;
    *) mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "/dev/$4/$1"
        mount -o lazytime,noatime "/dev/$4/$1" "/mnt/$1" ;;
    esac
    for number in 1 2 3 4 5 6; do
        dd if=/dev/zero of="/mnt/$1/$number" bs=1M count="$part" status=none
    done
    dd if=/dev/zero of="/mnt/$1/file" bs=1M count=$(($2 - part * 6)) status=none
}

# Makes the origin and all that the course needs, before its snapshot.
prepare() {
    local kind=$1 mib=$2 free=$5 chunk=$6
    case $kind in
    thin)
        lvm_does <<-END
		lvcreate --type thin-pool -L $((mib + free + 40))M -c ${chunk}k -n pool vg0
		lvchange --errorwhenfull y vg0/pool
		lvcreate -V 400M --thinpool vg0/pool -n thin
		lvcreate -V 400M --thinpool vg0/pool -n other
		END
        fill thin "$mib" ext4 vg0
        # So much is free in the end as was said.
        dd if=/dev/zero of=/dev/vg0/other bs=1M count=30 seek=350 conv=fsync status=none ;;
    slowing)
        lvcreate -y -qq -L $((mib + mib / 8 + 20))M -n slowing vg1 /dev/sda >>"$OUT/lvm.log" 2>&1
        set_ticks 0 2>/dev/null || true
        fill slowing "$mib" ext4 vg1 ;;
    nightly) [[ -e /mnt/nightly/file ]] || { new_volume -L 340M -n nightly vg0; fill nightly "$mib" xfs vg0; } ;;
    *) new_volume -L $((mib + mib / 8 + 20))M -n "$kind" vg0; fill "$kind" "$mib" ext4 vg0 ;;
    esac
    sync
}

# The volume group, the device that is read and the one that fills, bytes of a pool's block.
devices() {
    case $1 in
    thin) echo "vg0-thin_snapshot vg0-pool-tpool" ;;
    slowing) echo "vg1-slowing_snapshot vg1-slowing_snapshot" ;;
    *) echo "vg0-$1_snapshot vg0-$1_snapshot" ;;
    esac
}

take_snapshot() {
    local kind=$1 free=$5 chunk=$6 vg=vg0
    case $kind in
    thin) new_volume -s -n thin_snapshot -kn vg0/thin ;;
    slowing) vg=vg1; lvcreate -y -qq -s -c "${chunk}k" -L "${free}M" -n slowing_snapshot vg1/slowing /dev/sdb >>"$OUT/lvm.log" 2>&1 ;;
    *) new_volume -s -c "${chunk}k" -L "${free}M" -n "${kind}_snapshot" "vg0/$kind" ;;
    esac
    local options=ro,noload
    [[ $kind != nightly ]] || options=ro,norecovery,nouuid
    mount -o "$options" "/dev/$vg/${kind}_snapshot" "/mnt/$kind.snap"
}

reader() {
    local kind=$1 rate=$3 noise=$4
    sleep $((RANDOM % 4 + 2))
    tar cf - -C "/mnt/$kind.snap" . 2>>"$OUT/tar.log" | "$io" read "${rate}000" "$noise"
    ((PIPESTATUS[0] != 0)) || echo "done $(date +%s.%N)" >>"/mnt/events.$kind"
}

writer() {
    local kind=$1 chunk=$6 rate=$7
    shift 7
    if [[ $kind == nightly ]]; then
        fio --name=db --filename=/mnt/nightly/file --rw=randwrite --bs=16k --random_distribution=zipf:0.9 --direct=1 \
            --ioengine=psync --rate=$((rate * 16))k,$((rate * 16))k --time_based --runtime="$longest" --size=60M \
            --randseed="$RANDOM" >>"$OUT/fio.log" 2>&1
    elif [[ $kind == thin ]]; then
        # Another volume of the pool takes a third of what is written.
        "$io" write "/mnt/other" $((chunk * 1024)) "$longest" $((rate / 3 + 1)) noise=0.4 2>>"$OUT/writers.log" &
        "$io" write "/mnt/thin/file" $((chunk * 1024)) "$longest" "$rate" "$@" 2>>"$OUT/writers.log"
        wait
    else
        "$io" write "/mnt/$kind/file" $((chunk * 1024)) "$longest" "$rate" "$@" 2>>"$OUT/writers.log"
    fi
}

# What happens to it on the way.
meddle() {
    local kind=$1 free=$5
    case $kind in
    extended) sleep $((40 + RANDOM % 20)); lvextend -y -qq -L +$((free * 2 / 3))M vg0/extended_snapshot ;;
    autoextend)
        # As dmeventd does it, every ten seconds; the third time there is no space left.
        local times=0
        while ((times < 2)); do
            sleep 10
            before=$(lv_field vg0/autoextend_snapshot lv_size)
            lvextend --use-policies --config 'activation{snapshot_autoextend_threshold=70 snapshot_autoextend_percent=30}' \
                vg0/autoextend_snapshot || true
            [[ $before == "$(lv_field vg0/autoextend_snapshot lv_size)" ]] || times=$((times + 1))
        done ;;
    esac >>"$OUT/lvm.log" 2>&1
}

# record NUMBER: all courses of a number, from a file system to a course's file.
record() {
    local number=$1 kind rest line pids=() started
    mapfile -t lines < <(courses "$number")
    for line in "${lines[@]}"; do prepare $line; done
    # A thin volume is written to by its device.
    ln -sf /dev/vg0/other /mnt/other
    disk_ticks 1
    echo 3 >/proc/sys/vm/drop_caches
    for line in "${lines[@]}"; do take_snapshot $line; done
    rm -f /mnt/watched
    for line in "${lines[@]}"; do echo "start $(date +%s.%N)" >"/mnt/events.${line%% *}"; done
    for line in "${lines[@]}"; do
        set -- $line
        echo "$1 $(devices "$1") $(($6 * 1024))"
    done | "$io" watch $((longest + 15)) >"/mnt/watched" &
    pids+=($!)
    wait_until 30 "the first lines" test -s /mnt/watched
    for line in "${lines[@]}"; do
        reader $line & pids+=($!)
        (sleep $((RANDOM % 3)); writer $line) & pids+=($!)
        meddle $line & pids+=($!)
    done
    started=$SECONDS
    wait "${pids[0]}"
    echo "number $number: $((SECONDS - started)) s"
    for line in "${lines[@]}"; do
        set -- $line
        {
            echo "kind: $1"
            echo "number: $number"
            echo "chunk: $(($6 * 1024))"
            echo "expected: $(df -B1 --output=used "/mnt/$1.snap" | tail -n 1 | tr -d ' ')"
            cat "/mnt/events.$1"
            grep "^$1 " /mnt/watched
        } | "$io" course >"$OUT/$1-$number.txt"
    done
    clear_away "${pids[@]:1}"
}

# descendants PID: all processes below it.
descendants() {
    local child
    for child in $(ps -o pid= --ppid "$1"); do descendants "$child"; echo "$child"; done
}

clear_away() {
    local pid mounted
    for pid; do kill $(descendants "$pid") "$pid" 2>/dev/null || true; done
    wait "$@" 2>/dev/null || true
    for line in "${lines[@]}"; do
        set -- $line
        umount -l "/mnt/$1.snap" 2>/dev/null || true
        [[ $1 == nightly ]] || umount "/mnt/$1" 2>/dev/null || true
    done
    sleep 1
    for line in "${lines[@]}"; do
        set -- $line
        case $1 in
        thin) lvremove -qq -f vg0/pool ;;
        slowing) lvremove -qq -f vg1/slowing ;;
        nightly) lvremove -qq -f vg0/nightly_snapshot ;;
        *) lvremove -qq -f "vg0/$1" ;;
        esac >>"$OUT/lvm.log" 2>&1 || echo "$1 $number could not be removed"
    done
}

mechanical_disks 400
lvm_sees_only '/dev/ubd.*' '/dev/sd.*'
modules dm-snapshot dm-thin-pool ext4 xfs
new_group vg0 $(disks)
new_group vg1 /dev/sda /dev/sdb
for number in "${numbers[@]}"; do record "$number"; done
finish
