# What does cowbell show to an ordinary user, and is it right? It runs as nobody, with a folder of its own: the names
# of volumes and origins, throughput beside /proc/diskstats, unknown usage instead of a guess, and the sentence about
# root in `check`, in the API and on the pages. And as in a container, with one capability: usage is known.
#
# LAB_MEM=900M
source "$repo/tests/lab/guest/lab.sh"

root_needed="Only root can read snapshot and pool usage: run cowbell as root, or install the service."

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
}

no_usage_is_shown() {
    check "no usage is shown" "" "$(curl -fs "$api/volumes" | jq -r '.[] | select(.fill_percent != null or .used_bytes != null or .metadata_percent != null) | .lv')"
    check "the state of the snapshot is unknown" unknown "$(volume before .state)"
}

says_that_root_is_needed() {
    local base=${api%/api/v1} page
    check "part dm says why" "$root_needed" "$(curl -fs "$api/status" | jq -r '.parts[] | select(.name == "dm") | .error')"
    check "the notes say it" true "$(curl -fs "$api/status" | jq --arg said "$root_needed" '.notes | index($said) != null')"
    for page in / /status /volumes/vg0/before; do
        check "page $page says it" yes "$(curl -fs "$base$page" | grep -F "$root_needed" >/dev/null && echo yes)"
    done
}

check_says_what_root_would_add() {
    local said status=0
    said=$("$COWBELL" check --config /mnt/cowbell.toml --db /mnt/state/cowbell.db) || status=$?
    printf '      %s\n' "${said//$'\n'/$'\n      '}"
    check "exit status of cowbell check" 0 "$status"
    check "it says that root is needed" 1 "$(grep -cxF "missing  $root_needed" <<<"$said")"
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

is() {
    [[ $(volume "$1" "$2") == "$3" ]]
}

become_nobody
make_volumes
start_cowbell
check "the process is nobody's" 65534 "$(stat -c %u "/proc/$cowbell")"
wait_until 60 "cowbell to name the volumes" is thin_snapshot .lv thin_snapshot
names_are_right
no_usage_is_shown
says_that_root_is_needed
check_says_what_root_would_add
throughput_is_right
no_usage_is_shown    # though the snapshot has filled
stop_cowbell

# As in a container: root with one capability, /proc and /sys elsewhere, and no lvm.
become_contained() {
    mkdir -p /mnt/host/proc /mnt/host/sys
    mount --rbind /proc /mnt/host/proc
    mount --rbind /sys /mnt/host/sys
    cat >/mnt/contained <<-'END'
	#!/bin/bash
	exec setpriv --bounding-set=-all,+sys_admin --inh-caps=-all env PATH=/nonexistent COWBELL_ROOT=/mnt/host /mnt/nobody/cowbell "$@"
	END
    chmod +x /mnt/contained
    chown -R 0:0 /mnt/nobody /mnt/state /mnt/cowbell.toml
    rm -rf /mnt/state/*
    COWBELL=/mnt/contained
}

usage_is_right() {
    check "with SYS_ADMIN alone: fill of the snapshot" \
        "$(lvs --noheadings -o data_percent vg0/before | awk '{ printf "%.2f", $1 }')" "$(volume before .fill_percent | awk '{ printf "%.2f", $1 }')"
    check "and of the pool" "$(lvs --noheadings -o data_percent vg0/pool | awk '{ printf "%.2f", $1 }')" \
        "$(volume pool .fill_percent | awk '{ printf "%.2f", $1 }')"
}

become_contained
start_cowbell
check "it has one capability" 0000000000200000 "$(sed -n 's/^CapEff:\t//p' "/proc/$cowbell/status")"
wait_until 60 "the fill of the pool" is pool '.fill_percent != null' true
usage_is_right
stop_cowbell
finish
