# Does `cowbell guard` save what would be lost, within its limits, and nothing else? On real LVM: wrong configurations;
# dry-run; snapshots in a race with their readers; pools and their metadata; what is not read, or done first; limits;
# slowed writers; what an extension costs; and suspensions that were left.
#
# LAB_DISKS=4
# LAB_DISK_SIZE=1G
# LAB_TIMEOUT=2400
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/guard.sh"

# refuses WHAT TEXT: the guard ends at once, and its last line has this text.
refuses() {
    local said
    said=$(timeout 20 "$COWBELL" guard --config /mnt/guard.toml 2>&1 | tail -n 1) || true
    check "refused: $1" yes "$([[ $said == *"$2"* ]] && echo yes || echo "$said")"
}

# Writes 4 KiB of a file again and again until it is stopped; a line for each write: when it ended, and its milliseconds.
probes() {
    perl -MTime::HiRes=time,sleep -MFcntl -e '
        $| = 1;
        sysopen my $file, shift, O_WRONLY | O_CREAT | O_SYNC or die $!;
        while (1) {
            my $began = time;
            sysseek $file, 0, 0;
            syswrite $file, "x" x 4096;
            printf "%.3f %.0f\n", time, 1000 * (time - $began);
            sleep 0.02;
        }' "$1"
}

# longest_between FROM TO: of the probes' milliseconds.
longest_between() {
    awk -v from="$1" -v to="$2" '$1 >= from && $1 - $2 / 1000 <= to && $2 > most { most = $2 } END { print most + 0 }' /mnt/probes
}

# cost DELAY MIB [sync]: how long writes to the origin wait while its snapshot is extended, with so many dirty MiB; after how
# many synchronizations.
cost() {
    local began extended done syncs=() number
    slow_disks "$1"
    snapshot vg1 other 100
    probes /mnt/other/probe >/mnt/probes & prober=$!
    sleep 3
    began=$EPOCHREALTIME
    dd if=/dev/zero of=/mnt/other/written bs=1M count="$2" conv=notrunc status=none
    for ((number = 0; number < ${3:-0}; number++)); do
        extended=$EPOCHREALTIME
        sync -f /mnt/other
        syncs+=("$(awk -v a="$extended" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.0f", 1000 * (b - a) }')")
    done
    extended=$EPOCHREALTIME
    lvextend -q -L 110m vg1/other_snapshot >>"$OUT/lvm.log" 2>&1
    done=$EPOCHREALTIME
    sleep 1
    kill "$prober"
    wait "$prober" || true
    echo "figure cost, ${1/#0/no} delay, $2 MiB dirty${3:+, synchronized in ${syncs[*]} ms}: longest write before $(longest_between 0 "$began") ms, during $(longest_between "$extended" "$done") ms; lvextend took $(awk -v a="$extended" -v b="$done" 'BEGIN { printf "%.1f", b - a }') s"
    drop vg1 other
    slow_disks 0
}

guarded_groups

echo "== configuration"
guard_configuration on
sed -i '/largest/d' /mnt/guard.toml
refuses "no limit" "missing field \`largest\`"
guard_configuration on
chmod 666 /mnt/guard.toml
refuses "others can write it" "by root alone"
chmod 600 /mnt/guard.toml
guard_configuration on '[vg.vg7]
keep_free = "1 GiB"'
refuses "a group that does not exist" "names the volume group vg7, which does not exist"
check "the state file says why it does not run" yes "$(jq -r .error "$state" | grep -q vg7 && echo yes)"
rm -f "$state"

echo "== idle"
guard_configuration on
start_guard
sleep 4
forks=$(awk '/^processes/ { print $2 }' /proc/stat)
sleep 8
check "no process is started while nothing is at risk" yes "$(holds "$(awk '/^processes/ { print $2 }' /proc/stat) - forks <= 4")"
cpu=$(awk '{ print $14 + $15 }' "/proc/$guard/stat")
sleep 10
echo "figure idle: $(($(awk '{ print $14 + $15 }' "/proc/$guard/stat") - cpu)) clock ticks of 10 ms in 10 ticks"
stop_guard
start_cowbell

echo "== dry-run"
guard_configuration dry-run
start_guard
snapshot vg0 data 24
reads /mnt/data_snapshot 60 /mnt/read & reader=$!
writes /mnt/data 256 & writer=$!
wait_until 60 "the snapshot to overflow" is_invalid vg0/data_snapshot
kill "$writer" "$reader" 2>/dev/null || true
check "dry-run extends nothing" 24 "$(size_mib vg0/data_snapshot)"
check "dry-run says what it would have done" yes "$(tells 'would have added' && echo yes)"
in_time 5 says vg0/data_snapshot "invalid"
check "a lost snapshot is left alone" "The guard leaves it alone: it is invalid." "$(of_guard vg0/data_snapshot .text)"
check "the API has the guard" '"dry-run"' "$(curl -fs "$api/status" | jq .guard.mode)"
drop vg0 data
stop_guard
check "a clean end leaves no state" no "$([[ -e $state ]] && echo yes || echo no)"

echo "== snapshots"
guard_configuration on
start_guard
snapshot vg0 data 24
fill_archive
reads /mnt/data_snapshot 60 /mnt/read & reader=$!
writes /mnt/data 256 & writer=$!
wait "$reader"
kill "$writer" 2>/dev/null || true
check "LVM itself refuses, with a full file system for its archive" 5 "$(lvextend -q -l +1 vg0/data_snapshot >>"$OUT/lvm.log" 2>&1; echo $?)"
umount "$LVM_SYSTEM_DIR/archive"
check "all of the snapshot could be read" 60 "$(cat /mnt/read)"
check "the snapshot is valid" no "$(is_invalid vg0/data_snapshot && echo yes || echo no)"
used=$(of_guard vg0/data_snapshot .used_bytes)
size=$(of_guard vg0/data_snapshot .size_bytes)
echo "figure snapshot: $((used >> 20)) MiB used of $((size >> 20)) MiB, $(jq '[.actions[] | select(.failed | not)] | length' "$state") extensions, longest $(jq '[.actions[].took_ms] | max' "$state") ms, expected to hold up writes for $(jq -c '[.actions[].expected_hold_ms]' "$state") ms"
check "VG vg0 keeps 100 MiB" yes "$(holds "$(free_mib vg0) >= 100")"
drop vg0 data

echo "== what is not to be extended"
new_volume -s -L 24M -n data_snapshot vg0/data
writes /mnt/data 256 60 & writer=$!
wait_until 60 "the unread snapshot to overflow" is_invalid vg0/data_snapshot
kill "$writer" 2>/dev/null || true
check "a snapshot that is not read" 24 "$(size_mib vg0/data_snapshot)"
drop vg0 data
# LVM merges it when the mounted origin is activated the next time, and refuses to extend it until then.
snapshot vg0 data 24
lvconvert -qy --merge vg0/data_snapshot >>"$OUT/lvm.log" 2>&1
reads /mnt/data_snapshot 60 /mnt/read & reader=$!
writes /mnt/data 256 60 & writer=$!
wait_until 60 "the merging snapshot to overflow" is_invalid vg0/data_snapshot
kill "$writer" "$reader" 2>/dev/null || true
wait "$writer" "$reader" 2>/dev/null || true
check "a snapshot that will be merged" 24 "$(size_mib vg0/data_snapshot)"
umount /mnt/data_snapshot /mnt/data
lvremove -qy vg0/data >>"$OUT/lvm.log" 2>&1
origin vg0 data
snapshot vg1 other 40
reads /mnt/other_snapshot 60 /mnt/read & reader=$!
writes /mnt/other 16 12
wait "$reader"
check "a backup that will be done first" 40 "$(size_mib vg1/other_snapshot)"
drop vg1 other

echo "== limits"
stop_guard
largest="40 MiB" guard_configuration on
start_guard
snapshot vg0 data 24
reads /mnt/data_snapshot 60 /mnt/read & reader=$!
writes /mnt/data 256 60 & writer=$!
wait_until 60 "the limited snapshot to overflow" is_invalid vg0/data_snapshot
kill "$writer" "$reader" 2>/dev/null || true
check "largest holds" yes "$(holds "$(size_mib vg0/data_snapshot) <= 40")"
check "before it is due, the journal says that the limit is too low" yes "$(grep -q 'but by less than it needs: `largest` is 40.0 MiB' "$OUT/guard.log" && echo yes)"
in_time 5 tells 'It was lost, although the guard had added'
check "the state file tells the loss" yes "$(tells 'It was lost, although the guard had added' && echo yes)"
check "the journal says which limit" yes "$(grep -q 'may not extend it: `largest` is 40.0 MiB' "$OUT/guard.log" && echo yes)"
drop vg0 data
stop_guard

echo "== slowed writers"
# The writer of vg1 is slow while a file is there, which nobody's commands create and remove.
mkdir -p /mnt/slow
chown nobody /mnt/slow
printf '#!/bin/sh\nid -un >/mnt/slow/flag\n' >/mnt/pause
printf '#!/bin/sh\nrm -f /mnt/slow/flag\n' >/mnt/resume
chmod 755 /mnt/pause /mnt/resume
slows='[slow_writers]
command = "/mnt/pause"
undo = "/mnt/resume"
user = "nobody"
at_most = "'
race_without_room() {
    new_volume -L "$(($(free_mib vg1) - 54))M" -n filler vg1
    snapshot vg1 other 24
    reads /mnt/other_snapshot 60 /mnt/read & reader=$!
    obeys & writer=$!
    wait_until 40 "writers to be slowed" test -e /mnt/slow/flag
}
obeys() {
    local number=0
    while ((number < 230)); do
        dd if=/dev/zero of=/mnt/other/written bs=256k count=1 seek="$number" oflag=direct conv=notrunc status=none || return
        number=$((number + 1))
        sleep 0.05
        [[ ! -e /mnt/slow/flag ]] || sleep 1
    done
}
end_race() {
    kill "$writer" "$reader" 2>/dev/null || true
    wait "$writer" "$reader" 2>/dev/null || true
    drop vg1 other
    lvremove -qy vg1/filler >>"$OUT/lvm.log" 2>&1
}
released() {
    [[ ! -e /mnt/slow/flag ]]
}

guard_configuration on "${slows}10min\""
cp /mnt/guard.toml /mnt/slowing.toml
sed -i 's/"nobody"/"root"/' /mnt/guard.toml
refuses "writers slowed by root" "other than root"
cp /mnt/slowing.toml /mnt/guard.toml
start_guard
race_without_room
check "the command is run by the user" nobody "$(cat /mnt/slow/flag)"
in_time 5 says vg1/other_snapshot "slowed its writers"
check "the state file tells it" slows "$(of_guard vg1/other_snapshot .plan)"
wait "$reader"
check "all could be read with slowed writers" 60 "$(cat /mnt/read)"
check "the snapshot without room is valid" no "$(is_invalid vg1/other_snapshot && echo yes || echo no)"
check "vg1 keeps 20 MiB" yes "$(holds "$(free_mib vg1) >= 20")"
drop vg1 other
in_time 10 released
check "writers are released after the backup" yes "$(released && echo yes)"
end_race
race_without_room
kill -KILL "$guard"
wait "$guard" 2>/dev/null || true
check "a killed guard leaves them slowed" no "$(released && echo yes || echo no)"
"$COWBELL" guard --lift
check "and --lift releases them" yes "$(released && echo yes)"
end_race
start_guard
race_without_room
stop_guard
check "a stop releases them" yes "$(released && echo yes)"
end_race
sed -i 's/10min/3s/' /mnt/guard.toml
start_guard
race_without_room
in_time 10 released
check "the longest time releases them" yes "$(released && echo yes)"
end_race
stop_guard

echo "== cost"
cost 0 0
cost 0 30
cost 1 0
cost 1 30
cost 0 30 2
cost 1 0 2
cost 1 10 2
cost 1 30 2

echo "== pools"
guard_configuration on
start_guard
new_volume --type thin-pool -L 60M --poolmetadatasize 4M -n pool vg0
new_volume -V 400M --thinpool vg0/pool -n thin
dd if=/dev/urandom of=/dev/vg0/thin bs=1M count=10 oflag=direct status=none
for ((number = 10; number < 150; number += 2)); do
    dd if=/dev/urandom of=/dev/vg0/thin bs=1M count=2 seek=$number oflag=direct status=none || break
    sleep 0.5
done
check "the pool took all writes" 150 "$number"
check "the pool is rw" yes "$(dmsetup status vg0-pool-tpool | grep -q ' rw ' && echo yes)"
echo "figure pool: $(size_mib vg0/pool) MiB for 150"
lvremove -qy vg0/pool >>"$OUT/lvm.log" 2>&1
# Each extent of a mirrored pool takes two of the group.
new_volume --type raid1 -m 1 -L 20M -n mirrored vg0
lvconvert -qy --type thin-pool vg0/mirrored >>"$OUT/lvm.log" 2>&1
lvchange -q --errorwhenfull y vg0/mirrored >>"$OUT/lvm.log" 2>&1
new_volume -V 400M --thinpool vg0/mirrored -n thin
for disk in slowa slowb; do
    free=$(pvs --nolocking --noheadings --units m --nosuffix -o pv_free "/dev/mapper/$disk" | awk '{ print int($1) }')
    new_volume -L "$((free - 70))M" -n "filler_$disk" vg0 "/dev/mapper/$disk"
done
for ((number = 0; number < 60; number += 2)); do
    dd if=/dev/urandom of=/dev/vg0/thin bs=1M count=2 seek=$number oflag=direct status=none 2>>"$OUT/lvm.log" || break
    sleep 0.5
done
echo "figure mirrored pool: $(size_mib vg0/mirrored) MiB, $(free_mib vg0) MiB are free"
check "a mirrored pool was extended" yes "$(holds "$(size_mib vg0/mirrored) > 20")"
check "VG vg0 keeps 100 MiB with a mirrored pool" yes "$(holds "$(free_mib vg0) >= 100")"
stop_guard
lvremove -qy vg0/mirrored vg0/filler_slowa vg0/filler_slowb >>"$OUT/lvm.log" 2>&1

echo "== suspensions"
guard_configuration on
start_guard
snapshot vg0 data 24
dmsetup suspend vg0-data
in_time 15 nothing_is_suspended
check "a volume that was left suspended is resumed" yes "$(nothing_is_suspended && echo yes)"
in_time 5 tells 'left suspended'
check "the state file tells it" yes "$(tells 'left suspended' && echo yes)"
drop vg0 data
stop_guard
stop_cowbell
finish
