# What the scenarios of `cowbell guard` have in common: two groups with an origin each, backups and writers.

state=/run/cowbell-guard/state.json

# guard_configuration MODE [LINES]: of all groups of this scenario.
guard_configuration() {
    cat >/mnt/guard.toml <<-END
	mode = "$1"
	${2:-}
	[vg.vg0]
	keep_free = "100 MiB"
	[vg.vg1]
	keep_free = "20 MiB"
	[[volume]]
	name = "vg0/*_tmeta"
	largest = "64 MiB"
	add_at_most_per_day = "64 MiB"
	[[volume]]
	name = "vg?/*"
	largest = "${largest:-300 MiB}"
	add_at_most_per_day = "${per_day:-600 MiB}"
	steps_per_backup = 20
	END
}

start_guard() {
    "$COWBELL" guard --config /mnt/guard.toml >>"$OUT/guard.log" 2>&1 &
    guard=$!
    wait_until 30 "the guard's state" test -e "$state"
}

stop_guard() {
    kill -TERM "$guard"
    wait "$guard" || true
}

# Whether an arithmetic condition holds.
holds() {
    if (($1)); then echo yes; else echo "no: $1"; fi
}

of_guard() {
    jq -r --arg name "$1" "[.volumes[] | select(.name == \$name)][0] | $2" "$state"
}

# says VOLUME WORDS: whether the guard's text of a volume has these words.
says() {
    of_guard "$1" .text | grep -q "$2"
}

# Whether an action of the state file has these words.
tells() {
    jq -r '.actions[].text' "$state" | grep -q "$1"
}

size_mib() {
    lvs --nolocking --noheadings --units m --nosuffix -o lv_size "$1" 2>/dev/null | awk '{ print int($1) }'
}

free_mib() {
    vgs --nolocking --noheadings --units m --nosuffix -o vg_free "$1" 2>/dev/null | awk '{ print int($1) }'
}

# writes FOLDER KIB_PER_TENTH [SECONDS]: chunks of a file, so many KiB each tenth of a second, until it is stopped.
writes() {
    local number=0 end=$((SECONDS + ${3:-600}))
    while ((SECONDS < end)); do
        dd if=/dev/zero of="$1/written" bs="${2}k" count=1 seek="$number" oflag=direct conv=notrunc status=none || return
        number=$((number + 1))
        sleep 0.1
    done
}

# Reads the mounted snapshot's files, so many blocks of 4 MiB, three a second; ends with how many could be read.
reads() {
    local number
    for ((number = 0; number < $2; number++)); do
        dd if="$1/content" of=/dev/null bs=4M count=1 skip="$number" iflag=direct status=none 2>/dev/null || break
        sleep 0.3
    done
    echo "$number" >"$3"
}

# An origin with a file system, content of 240 MiB, which a backup reads, and 60 MiB to write to: origin GROUP NAME
origin() {
    new_volume -L 340M -n "$2" "$1"
    mkfs.ext4 -q "/dev/$1/$2"
    mkdir -p "/mnt/$2" "/mnt/$2_snapshot"
    mount "/dev/$1/$2" "/mnt/$2"
    dd if=/dev/urandom of="/mnt/$2/content" bs=1M count=240 status=none
    dd if=/dev/zero of="/mnt/$2/written" bs=1M count=60 status=none
    sync
}

# snapshot GROUP NAME MIB: mounted, as a backup does.
snapshot() {
    new_volume -s -L "$3M" -n "$2_snapshot" "$1/$2"
    mount -o ro,noload "/dev/$1/$2_snapshot" "/mnt/$2_snapshot"
}

drop() {
    umount "/mnt/$2_snapshot" 2>/dev/null || true
    lvremove -qy "$1/$2_snapshot" >>"$OUT/lvm.log" 2>&1 || true
}

# Without a process, which would come too late for what lasts for some milliseconds.
nothing_is_suspended() {
    local file suspended
    for file in /sys/block/dm-*/dm/suspended; do
        { read -r suspended <"$file"; } 2>/dev/null || continue
        ((suspended == 0)) || return 1
    done
}

# vg0 with data, and vg1 with other.
guarded_groups() {
    modules dm-snapshot dm-thin-pool dm-raid raid1
    slow_disks 0
    new_group -s 1M vg0 /dev/mapper/slowa /dev/mapper/slowb
    new_group -s 1M vg1 /dev/mapper/slowc
    origin vg0 data
    origin vg1 other
    mkdir -p /mnt/state
    : >/mnt/cowbell.toml
}
