# What scenarios share; they begin with `source "$repo/tests/lab/guest/lab.sh"`.
# Here are the words for making a machine, waiting and judging. A story that
# only one scenario tells stays in that scenario.
# Given by the harness: $repo, $OUT (outlives the guest), $COWBELL, $LAB_DISKS.
set -Eeuo pipefail
trap '((BASH_SUBSHELL > 0)) || echo "lab: line $LINENO of ${BASH_SOURCE[0]##*/} ended the scenario: $BASH_COMMAND" >&2' ERR

api=http://127.0.0.1:2692/api/v1
failures=0

fail() {
    echo "lab: $*" >&2
    exit 1
}

# Each module costs up to half a second: a scenario names those it needs.
modules() {
    local module
    for module; do modprobe -d /mnt/mod "$module" || return; done
}

# check WHAT EXPECTED FOUND: one line each; `finish` tells how it went.
check() {
    if [[ $2 == "$3" ]]; then
        echo "ok    $1: $3"
    else
        echo "WRONG $1: expected \"$2\", but found \"$3\""
        failures=$((failures + 1))
    fi
}

finish() {
    echo "$failures wrong"
    ((failures == 0)) || exit 1
}

# wait_until SECONDS WHAT COMMAND…: asks five times a second.
wait_until() {
    local limit=$1 what=$2 start=$SECONDS
    shift 2
    until "$@" >/dev/null 2>&1; do
        ((SECONDS - start < limit)) || fail "waited $limit s for $what, in vain"
        sleep 0.2
    done
}

disks() {
    local disk
    for disk in /dev/ubd?; do echo "$disk"; done | head -n "$LAB_DISKS"
}

# Which devices LVM looks at, e.g. '/dev/mapper/slow.*' '/dev/md0'; only these, or it would see each PV twice.
lvm_sees_only() {
    sed -i "s#filter=\[.*\]#filter=[$(printf '"a|%s|",' "$@")\"r|.*|\"]#" /mnt/lvm/lvmlocal.conf
}

# slow_disks DELAY: puts /dev/mapper/slowa, slowb … on the disks, each request DELAY ms late
# (0 is none; 1 to 10 come out as 21 ms). Again with another DELAY: changes it in use.
slow_disks() {
    local disk name table
    modules dm-delay
    for disk in $(disks); do
        name=slow${disk#/dev/ubd}
        table="0 $(blockdev --getsz "$disk") delay $disk 0 $1 $disk 0 $1"
        if [[ -e /dev/mapper/$name ]]; then
            dmsetup reload "$name" --table "$table"
            dmsetup suspend "$name"
            dmsetup resume "$name"
        else
            dmsetup create "$name" --table "$table"
        fi
    done
    lvm_sees_only '/dev/mapper/slow.*'
}

# mechanical_disks MIB [COUNT]: /dev/sda and /dev/sdb, or so many, in memory, which serve one request of up to
# 64 KiB at a time, each in 10 ms (97 a second), once `disk_ticks 1` was said.
# dm-delay makes a request late, however many there are at once; here they wait for each
# other, so that scattered reading is slow. No scheduler: mq-deadline lets reads starve writes.
mechanical_disks() {
    modules sd_mod
    modprobe -d /mnt/mod scsi_debug dev_size_mb="$1" add_host="${2:-2}" per_host_store=1 delay=0
    local letters=abcdefghijklmnop last
    last=/dev/sd${letters:${2:-2} - 1:1}
    wait_until 60 "$last" test -b "$last"
    echo 1 | tee /sys/block/sd?/device/queue_depth >/dev/null
    echo 64 | tee /sys/block/sd?/queue/max_sectors_kb >/dev/null
    echo none | tee /sys/block/sd?/queue/scheduler >/dev/null
    lvm_sees_only '/dev/sd.*'
}

# /dev/vda and so on: the disks of a scenario that sets LAB_SERVED_DISKS. They are as fast as this machine's until
# `limit_disks REQUESTS BYTES`: at most so many a second, each disk.
served_disks() {
    modules virtio_blk
    wait_until 10 /dev/vda test -b /dev/vda
    lvm_sees_only '/dev/vd.*'
}

limit_disks() {
    local number
    for ((number = 0; number < LAB_DISKS; number++)); do
        jq -nc --arg path "/objects/limits$number" --argjson requests "$1" --argjson bytes "$2" '{execute: "qom-set",
            arguments: {$path, property: "limits", value: {"iops-total": $requests, "bps-total": $bytes}}}'
    done >>"${LAB_JOB%/*}/disks"
}

# How many clock ticks of 10 ms a mechanical disk takes for a request; refused while it is busy.
disk_ticks() {
    wait_until 60 "the disks to be idle" set_ticks "$1"
}

set_ticks() {
    echo "$1" >/sys/bus/pseudo/drivers/scsi_debug/delay
}

# LVM's remarks about its making go to lvm.log: they are many and seldom about the scenario.
new_group() {
    vgcreate -y "$@" >>"$OUT/lvm.log" 2>&1 || fail "vgcreate $*: $(tail -n 3 "$OUT/lvm.log")"
}

new_volume() {
    lvcreate -y "$@" >>"$OUT/lvm.log" 2>&1 || fail "lvcreate $*: $(tail -n 3 "$OUT/lvm.log")"
}

# LVM's commands from standard input, one a line, all in one process: a fifth of the time. The first that fails ends it.
lvm_does() {
    { echo '#!/sbin/lvm'; sed 's/^ *[a-z]*/& -y/'; } >"$TMPDIR/commands"
    lvm "$TMPDIR/commands" >>"$OUT/lvm.log" 2>&1 || fail "lvm: $(tail -n 3 "$OUT/lvm.log")"
}

# LVM archives the metadata of a group before each change. Until this folder is unmounted, it cannot.
fill_archive() {
    mount -t tmpfs -o size=16k tmpfs "$LVM_SYSTEM_DIR/archive"
    dd if=/dev/zero of="$LVM_SYSTEM_DIR/archive/rest" bs=4k status=none 2>/dev/null || true
}

# scatter DEVICE COUNT EVERY: writes COUNT times 4 KiB, one every so many KiB.
scatter() {
    local number
    for ((number = 0; number < $2; number++)); do echo "pwrite -q -b 4k $((number * $3))k 4k"; done | xfs_io -d "$1" >/dev/null
}

# crowd DEVICE COUNT: fills a thin pool's metadata. Its volume 1 has 640 MiB in use, chunks of 64 KiB. A leaf of the
# pool's tree tells of up to 252 of them, and is copied when a snapshot writes to one: each of COUNT snapshots takes 43
# blocks of 4 KiB. They are the pool's own matter, unknown to LVM.
crowded=0
crowd() {
    local last=$((crowded + $2))
    while ((crowded < last)); do
        crowded=$((crowded + 1))
        dmsetup message "$1" 0 "create_snap 10$crowded 1"
        dmsetup create crowd --table "0 1310720 thin /dev/mapper/$1 10$crowded"
        scatter /dev/mapper/crowd 82 7900
        dmsetup remove crowd
    done
}

# Reads whatever the arguments say of the volume, without blanks: `lv_field vg0/data data_percent`. It waits for no lock:
# LVM's own polling of a merge holds one while it waits for an origin that a scenario has suspended.
lv_field() {
    lvs --nolocking --noheadings -o "$2" "$1" 2>/dev/null | tr -d ' '
}

# One volume of each kind that LVM has, over three disks; each in a state worth looking at:
# `data` with a snapshot at 31 % and one overfilled, a pool, something inactive, hyphens in names.
make_every_kind_of_volume() {
    modules dm-snapshot dm-thin-pool dm-mirror
    new_group vg0 /dev/ubda /dev/ubdb
    new_group vg-a /dev/ubdc

    new_volume -L 64M -n linear vg0
    new_volume -L 64M -i 2 -n striped vg0
    new_volume -L 32M -n asleep vg0 && lvchange -an vg0/asleep

    new_volume -L 300M -n data vg0
    new_volume -s -c 4k -L 64M -n data_snapshot vg0/data
    new_volume -s -c 4k -L 12M -n data_overfilled vg0/data
    dd if=/dev/urandom of=/dev/vg0/data bs=64k count=320 conv=fsync status=none
    wait_until 60 "the small snapshot to overflow" is_invalid vg0/data_overfilled

    new_volume --type thin-pool -L 200M -n pool vg0
    new_volume -V 500M --thinpool vg0/pool -n thin
    dd if=/dev/urandom of=/dev/vg0/thin bs=64k count=300 conv=fsync status=none
    new_volume -s -kn -n thin_snapshot vg0/thin
    new_volume -s -n thin_skipped vg0/thin
    dd if=/dev/urandom of=/dev/vg0/thin bs=64k count=100 seek=250 conv=fsync status=none
    dd if=/dev/urandom of=/dev/vg0/thin_snapshot bs=64k count=10 conv=fsync status=none

    if modules raid1 dm-raid 2>/dev/null; then
        new_volume --type raid1 -m 1 -L 32M -n mirrored vg0
        wait_until 120 "the mirror to be in sync" in_sync vg0/mirrored
    fi

    new_volume -L 100M -n my-data vg-a
    new_volume -s -L 20M -n my-data_snapshot vg-a/my-data
    dd if=/dev/urandom of=/dev/vg-a/my-data bs=4k count=500 conv=fsync status=none
    sync
    sleep 2    # thin metadata is committed within a second
}

is_invalid() {
    [[ -n $(lv_field "$1" lv_snapshot_invalid) ]]
}

in_sync() {
    [[ $(lv_field "$1" copy_percent) == 100.00 ]]
}

start_cowbell() {
    "$COWBELL" serve --config /mnt/cowbell.toml --db /mnt/state/cowbell.db "$@" >"$OUT/cowbell.log" 2>&1 &
    cowbell=$!
    wait_until 60 "cowbell to answer (see cowbell.log)" answers_or_ended
    is_running "$cowbell" || fail "cowbell ended at once: $(tail -n 1 "$OUT/cowbell.log")"
}

answers_or_ended() {
    curl -fs http://127.0.0.1:2692/healthz || ! is_running "$cowbell"
}

# Whether a child of this shell has not ended yet; one that was not waited for is a zombie.
is_running() {
    [[ -e /proc/$1 && $(ps -o state= -p "$1") != Z ]]
}

stop_cowbell() {
    kill -TERM "$cowbell"
    wait "$cowbell"
}

ticks_taken() {
    curl -fs -m 30 "$api/status" | jq .ticks.taken
}

has_taken() {
    (($(ticks_taken) >= $1))
}

# await_ticks COUNT: one may be under way now; from the second on they saw all that was done before.
await_ticks() {
    wait_until 120 "$1 ticks" has_taken $(($(ticks_taken) + $1))
}

# in_time SECONDS COMMAND…: asks until it succeeds. Cowbell has so many seconds for it, and on a slow machine more: as
# many ticks as it should have taken by then, and one. Goes on when it was in vain: what follows says so.
in_time() {
    local seconds=$1 start=$SECONDS goal
    shift
    goal=$(($(ticks_taken) + seconds + 1))
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS - start >= seconds)) && has_taken "$goal"; then break; fi
        ((SECONDS - start < 120)) || fail "cowbell takes no ticks"
        sleep 0.2
    done
}

# Beats ten times a second, and writes to /mnt/stood when it was late, and by how many milliseconds: then the guest itself
# stood still, as it does on a busy machine, and nobody can have taken a tick.
start_metronome() {
    : >/mnt/stood
    metronome &
    metronome=$!
}

metronome() {
    local last now silence
    exec {silence}<> <(:)
    last=${EPOCHREALTIME/./}
    while true; do
        read -rt 0.1 -u "$silence" || true
        now=${EPOCHREALTIME/./}
        ((now - last < 400000)) || echo "$((now / 1000)) $(((now - last) / 1000 - 100))" >>/mnt/stood
        last=$now
    done
}

# excused SINCE: how many ticks of a second may be missing since then, in ms, because the guest stood still.
excused() {
    awk -v since="$1" '$1 >= since { sum += int(($2 + 100) / 1000) } END { print sum + 0 }' /mnt/stood
}

# Whether the guest stood still in the last two seconds, so that what is said now may be of that.
stood_still() {
    local end=0 length
    read -r end length < <(tail -n 1 /mnt/stood) || true
    ((${EPOCHREALTIME/./} / 1000 - end < 2000))
}

# For jq: a time of the API in milliseconds.
ms='def ms: capture("(?<s>[^.Z]+)(?<f>\\.[0-9]+)?Z") | (.s + "Z" | fromdate) * 1000 + ("0" + (.f // "") | tonumber * 1000 + 1e-9 | floor);'

# When cowbell took its last tick, in milliseconds.
last_tick() {
    curl -fs -m 30 "$api/status" | jq "$ms .ticks.last_at | ms"
}

# Milliseconds as a time for the API.
api_time() {
    TZ=UTC printf '%(%FT%T)T.%03dZ' $(($1 / 1000)) $(($1 % 1000))
}

# bytes_between OF METRIC FROM TO: what cowbell saw pass between the ticks of these times: one point of all of them, since
# the times of single ticks are off by what the machine stops between reading two clocks.
bytes_between() {
    curl -fsG "$api/series" -d "of=$1" -d "metric=$2" -d "from=$(api_time $(($3 + 1)))" -d "to=$(api_time "$4")" -d points=1 |
        jq "([.[].avg] | add) * $(($4 - $3)) / 1000 | round"
}

# has_stored TICK: whether the tick of that time is in the store, and with it all before.
has_stored() {
    curl -fs -m 30 "$api/status" | jq -e --argjson tick "$1" "$ms .parts[] | select(.name == \"store\") | .last_ok_at | . != null and ms >= \$tick"
}

# The volumes in use as `lvs` and as cowbell name them, in the same words and order.
active_by_lvs() {
    lvs --noheadings --separator ' ' --units b --nosuffix -S 'lv_active!=""' -o vg_name,lv_name,lv_uuid,lv_size,origin 2>/dev/null |
        awk '{ print $1 "/" $2, $3, $4, ($5 == "" ? "-" : $5) }' | sort
}

# Its answer is asked for, unless it is given.
active_by_cowbell() {
    jq -r '.[] | select(.state != "inactive") | "\(.vg)/\(.lv) \(.uuid) \(.size_bytes) \(.origin // "-")"' \
        <<<"${1:-$(curl -fs http://127.0.0.1:2692/api/v1/volumes)}" | sort
}

# A receiver of webhooks, and its configuration. /mnt/told gets a line for each message: the time in ms, and the body.
start_receiver() {
    : >/mnt/told
    perl -MIO::Socket::INET -MTime::HiRes=time -e '
        my $server = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1:9", ReuseAddr => 1) or die $!;
        while (my $client = $server->accept) {
            my $length = 0;
            while (<$client>) { $length = $1 if /^content-length:\s*(\d+)/i; last if /^\r?$/ }
            read $client, my $body, $length;
            print $client "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            open my $told, ">>", "/mnt/told"; printf $told "%d %s\n", 1000 * time, $body;
        }' &
    receiver=$!
}

tell_receiver() {
    printf '[[notify]]\nkind = "webhook"\nurl = "http://localhost:9/hook"\n'
}

# delay KEY VALUE [TIME]: of the first alert that has this value, how long after its tick it was received, in ms.
delay() {
    local line at
    line=$(grep -m 1 "\"$1\":\"$2\"" /mnt/told) || return 1
    at=$(jq -r "${3:-.raised_at}" <<<"${line#* }")
    echo $((${line%% *} - $(date -d "$at" +%s%3N)))
}
