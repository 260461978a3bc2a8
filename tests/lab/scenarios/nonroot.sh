# What does cowbell show to an ordinary user, and is it right? It runs as nobody, with a folder of its own: the names
# of volumes and origins, throughput beside /proc/diskstats, what `check` says that root would add, and the estimated
# fill of thick snapshots beside what the kernel tells root: for three sizes of chunk, written to in order and at
# random, while a backup reads the snapshot; for two snapshots of one origin; and none where the making was not seen.
#
# LAB_MEM=900M
source "$repo/tests/lab/guest/lab.sh"

most_error=0.5    # points of percent, of one snapshot alone that was seen before anything was copied into it

# From now on $COWBELL is a script that runs the binary as nobody: a copy, since its folder may be closed to others.
become_nobody() {
    install -D "$COWBELL" /mnt/nobody/cowbell
    cat >/mnt/nobody/as-nobody <<-'END'
	#!/bin/bash
	exec setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/mnt/nobody /mnt/nobody/cowbell "$@"
	END
    chmod +x /mnt/nobody/as-nobody
    echo 'interval = "500ms"' >/mnt/cowbell.toml
    chown -R 65534:65534 /mnt/nobody /mnt/state /mnt/cowbell.toml
    COWBELL=/mnt/nobody/as-nobody
}

make_volumes() {
    modules dm-snapshot dm-thin-pool
    new_group vg0 /dev/ubda /dev/ubdb
    new_volume -L 300M -n data vg0
    new_volume -L 64M -i 2 -n my-striped vg0
    new_volume -s -c 4k -L 32M -n before vg0/data
    new_volume --type thin-pool -L 100M -n pool vg0
    new_volume -V 200M --thinpool vg0/pool -n thin
    new_volume -s -kn -n thin_snapshot vg0/thin
}

# volume NAME FILTER: what jq says of a volume.
volume() {
    curl -fs "$api/volumes" | jq -r --arg lv "$1" ".[] | select(.lv == \$lv) | $2"
}

# Names, uuids, and origins of thick snapshots; a thin snapshot's origin is known to LVM's metadata alone.
names_are_right() {
    local by_lvs by_cowbell
    by_lvs=$(lvs --noheadings --separator , -o vg_name,lv_name,lv_uuid,origin,pool_lv | awk -F, '
        { sub(/^ */, ""); print $1 "/" $2, $3, $4 && !$5 ? $4 : "-" }' | sort)
    by_cowbell=$(curl -fs "$api/volumes" | jq -r '.[] | "\(.vg)/\(.lv) \(.uuid) \(.origin // "-")"' | sort)
    check "names, uuids and origins of thick snapshots" "$by_lvs" "$by_cowbell"
    check "no fill is shown" "" "$(curl -fs "$api/volumes" | jq -r '.[] | select(.fill_percent != null or .used_bytes != null or .metadata_percent != null) | .lv')"
    check "a snapshot that was there before has no estimate" null "$(volume before .fill_estimate)"
    check "part dm says why" true "$(curl -fs "$api/status" | jq '.parts[] | select(.name == "dm") | .ok == false and (.error | test("root"))')"
}

check_says_what_root_would_add() {
    local said status=0
    said=$("$COWBELL" check --config /mnt/cowbell.toml --db /mnt/state/cowbell.db) || status=$?
    printf '      %s\n' "${said//$'\n'/$'\n      '}"
    check "exit status of cowbell check" 0 "$status"
    check "it names root, and the fill that only root sees" 1 "$(grep -c '^missing .*fill.*root' <<<"$said")"
}

# "DEVICE READ WRITTEN" in bytes since boot.
diskstats() {
    awk '$3 ~ /^(dm-|ubd)/ { printf "%s %.0f %.0f\n", $3, $6 * 512, $10 * 512 }' /proc/diskstats
}

# quiet_tick FILE: waits for a tick that saw the same counters as we before and after it: they are in FILE, its time is
# in `tick`. A thin pool commits up to a second after it was written to.
quiet_tick() {
    local start=$SECONDS
    while true; do
        diskstats >"$1"
        await_ticks 2
        tick=$(last_tick)
        await_ticks 1
        diskstats >/mnt/now
        ! cmp -s "$1" /mnt/now || break
        ((SECONDS - start < 60)) || fail "the disks do not become quiet"
    done
    wait_until 60 "the store to have it" has_stored "$tick"
}

# Bytes of every device while both volumes are written and read, between two quiet ticks: within half a percent.
throughput_is_right() {
    local from device read written found tick
    quiet_tick "$OUT/diskstats-before"
    from=$tick
    dd if=/dev/urandom of=/dev/vg0/data bs=64k count=100 oflag=direct status=none
    dd if=/dev/urandom of=/dev/vg0/my-striped bs=256k count=60 oflag=direct status=none
    dd if=/dev/urandom of=/dev/vg0/thin bs=64k count=50 oflag=direct status=none
    dd if=/dev/vg0/before of=/dev/null bs=64k count=200 iflag=direct status=none
    dd if=/dev/vg0/data of=/dev/null bs=64k count=300 iflag=direct status=none
    sync
    sleep 1.2    # the pool's commit
    quiet_tick "$OUT/diskstats-after"
    while read -r device read written; do
        found="$(bytes_between "device:$device" read_bytes "$from" "$tick") $(bytes_between "device:$device" written_bytes "$from" "$tick")"
        check "$device read and written, in bytes" "$(about "$read" "${found% *}") $(about "$written" "${found#* }")" "$found"
    done < <(join "$OUT/diskstats-before" "$OUT/diskstats-after" | awk '{ printf "%s %.0f %.0f\n", $1, $4 - $2, $5 - $3 }')
}

# about EXPECTED FOUND: FOUND if it is so within half a percent, else EXPECTED.
about() {
    awk -v expected="$1" -v found="$2" 'BEGIN { d = found - expected; printf "%.0f\n", (d < 0 ? -d : d) <= expected / 200 ? found : expected }'
}

# What the kernel says, in percent.
truth() {
    dmsetup status --noflush "vg0-$1" | awk '{ split($4, part, "/"); printf "%.2f", part[1] == $5 ? 0 : 100 * part[1] / part[2] }'
}

# compare WHAT SNAPSHOT [alone]: prints a row; the truth lies between the bounds, and alone the estimate is near it.
# Nothing moves meanwhile.
compare() {
    local truth percent low high error
    await_ticks 2
    truth=$(truth "$2")
    read -r percent low high < <(volume "$2" '.fill_estimate | if . then "\(.percent) \(.low_percent) \(.high_percent)" else "null null null" end')
    if [[ $percent == null ]]; then
        check "$1: there is an estimate" "near $truth" null
        return
    fi
    error=$(awk "BEGIN { printf \"%.2f\", $percent - $truth }")
    printf 'figure %s: truth %.2f %%, estimate %.2f %% (%.2f to %.2f), error %s\n' "$1" "$truth" "$percent" "$low" "$high" "$error"
    check "$1: the truth is between the bounds" yes "$(holds "$low - 0.005 <= $truth && $truth <= $high + 0.005")"
    [[ ${3:-} != alone ]] || check "$1: error is at most $most_error" yes "$(holds "$error <= $most_error && -$most_error <= $error")"
}

holds() {
    awk "BEGIN { print ($1) ? \"yes\" : \"no: $1\" }"
}

write_in_order() {
    dd if=/dev/urandom of=/dev/vg0/data bs=64k count=400 oflag=direct status=none
}

write_at_random() {
    fio --name=writer --filename=/dev/vg0/data --rw=randwrite --bs=16k --size=300M --io_size="${1:-8M}" --direct=1 \
        --ioengine=libaio --iodepth=4 --randrepeat=0 --output=/dev/null
}

read_snapshot() {
    dd if="/dev/vg0/$1" of=/dev/null bs=64k iflag=direct status=none
}

# new_snapshot CHUNK NAME: goes on when cowbell has seen it.
new_snapshot() {
    new_volume -s -c "$1" -L 90M -n "$2" vg0/data
    wait_until 60 "cowbell to see $2" is "$2" .origin data
}

is() {
    [[ $(volume "$1" "$2") == "$3" ]]
}

# The pages of a database while a backup runs: the backup's reads are no copies.
chunks_of() {
    local writing=$1 chunk=$2 backup
    new_snapshot "$chunk" data_snapshot
    read_snapshot data_snapshot &
    backup=$!
    "write_$writing"
    wait "$backup"
    compare "chunk $chunk ${writing//_/ }" data_snapshot alone
    check "chunk $chunk ${writing//_/ }: fill_percent is not known" null "$(volume data_snapshot .fill_percent)"
    lvremove -qq -f vg0/data_snapshot
}

# What is copied before the first tick that sees the snapshot cannot be told from what is read through it: the bounds
# are the wider for it, and hold.
written_at_once() {
    local backup
    new_volume -s -c 16k -L 90M -n data_snapshot vg0/data
    read_snapshot data_snapshot &
    backup=$!
    write_in_order
    wait "$backup"
    compare "written at once" data_snapshot
    lvremove -qq -f vg0/data_snapshot
}

# Each one's part of the copying is not known, but lies between bounds; what is written into a snapshot counts too.
two_of_one_origin() {
    new_snapshot 4k first
    write_at_random 6M
    new_snapshot 16k second
    write_at_random 6M
    compare "first of two" first
    compare "second of two" second
    dd if=/dev/urandom of=/dev/vg0/first bs=64k seek=3000 count=64 oflag=direct status=none
    compare "first of two, written into" first
    compare "second of two, the first written into" second
    lvremove -qq -f vg0/second
    write_at_random 4M
    compare "first, the second gone" first
}

become_nobody
make_volumes
start_cowbell
check "the process is nobody's" 65534 "$(stat -c %u "/proc/$cowbell")"
wait_until 60 "cowbell to name the volumes" is thin_snapshot .lv thin_snapshot
names_are_right
check_says_what_root_would_add
throughput_is_right
lvremove -qq -f vg0/before
for chunk in 4k 16k 64k; do
    chunks_of in_order "$chunk"
    chunks_of at_random "$chunk"
done
written_at_once
two_of_one_origin
stop_cowbell
start_cowbell
await_ticks 2
check "after a restart the making was not seen" null "$(volume first .fill_estimate)"
stop_cowbell
finish
