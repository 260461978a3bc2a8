# Does cowbell claim only what it sees? Volumes that LVM is to extend, but dmeventd does not monitor until the command that
# cowbell shows switches that on. A snapshot that is mounted in place of its origin and written to: no backup, and no
# forecast of one.
#
# LAB_DISKS=2
# LAB_PACKAGES=dmeventd
source "$repo/tests/lab/guest/lab.sh"
modules dm-snapshot dm-thin-pool ext4

start_dmeventd() {
    local extend="autoextend_threshold=70 thin_pool_autoextend_threshold=70"
    sed -i "s/monitoring=0/monitoring=1 snapshot_$extend/" /mnt/lvm/lvmlocal.conf
    dmeventd -f >"$OUT/dmeventd.log" 2>&1 &
    dmeventd=$!
    wait_until 60 "dmeventd" test -p /run/dmeventd-client
}

make_volumes() {
    new_group vg0 /dev/ubda /dev/ubdb
    new_volume -L 200M -n data vg0
    new_volume --ignoremonitoring -s -L 64M -n data_snapshot vg0/data
    new_volume --ignoremonitoring -T -Zn -L 64M vg0/pool -V 200M -n thin
    new_volume -L 100M -n mysql vg0
    mkfs.ext4 -q /dev/vg0/mysql
    mkdir -p /mnt/mysql
    mount /dev/vg0/mysql /mnt/mysql
    dd if=/dev/urandom of=/mnt/mysql/ibdata1 bs=1M count=40 status=none
    umount /mnt/mysql
    new_volume -s -L 60M -n mysql_snapshot vg0/mysql
    mount /dev/vg0/mysql_snapshot /mnt/mysql
}

# page VOLUME: its text.
page() {
    curl -fs "${api%/api/v1}/volumes/$1" | sed 's/<[^>]*>/ /g' | tr -s ' \n' ' '
}

# says WHAT TEXT COMMAND…: the output has this text, within 70 s, since LVM is asked once a minute.
says() {
    in_time 70 has "$2" "${@:3}"
    check "$1" "$2" "$("${@:3}" | grep -o -F -- "$2" | head -n 1)"
}

has() {
    "${@:2}" | grep -q -F -- "$1"
}

alerts() {
    curl -fs "$api/alerts" | jq -r --arg lv "$1" '.[] | select(.lv == $lv and .cleared_at == null) | .sentence'
}

# Writes on, so that dmeventd's next look finds a pool and a snapshot above 70 %.
fill() {
    dd if=/dev/urandom of="/dev/vg0/$1" bs=64k seek="$2" count="$3" oflag=direct status=none
}

# LVM is asked once a minute, or when a volume appears.
nudge() {
    new_volume -L 4M -n "nudge$1" vg0
}

not_monitored() {
    local lv off="LVM is to extend it at 70 %, but does not, since dmeventd does not monitor it: switch that on with"
    fill data 0 740
    fill thin 0 740
    for lv in data_snapshot pool; do
        says "$lv at 72 %, not monitored: page" "$off lvchange --monitor y vg0/$lv" page "vg0/$lv"
        says "$lv at 72 %, not monitored: alert" "$off \`lvchange --monitor y vg0/$lv\`." alerts $lv
        check "LVM accepts lvchange --monitor y vg0/$lv" yes "$(lvchange -qq --monitor y "vg0/$lv" >>"$OUT/lvm.log" 2>&1 && echo yes)"
    done
    nudge 1
    for lv in data_snapshot pool; do
        says "$lv, monitored: page" "LVM extends it by 20 % at 70 %" page "vg0/$lv"
    done
    kill -KILL "$dmeventd"
    wait_until 10 "dmeventd to end" eval "! is_running $dmeventd"
    nudge 2
    says "without dmeventd: page" "but does not, since dmeventd does not run" page vg0/pool
}

in_place_of_origin() {
    local text="It is mounted on /mnt/mysql and written to: it is in use, and is no backup."
    for part in 1 2 3; do
        dd if=/dev/urandom of=/mnt/mysql/ibdata1 bs=64k seek=$((part * 100)) count=40 conv=notrunc,fsync status=none
        cat /mnt/mysql/ibdata1 >/dev/null
    done
    says "mounted in place of its origin: page" "$text" page vg0/mysql_snapshot
    says "mounted in place of its origin: overview" "mounted on /mnt/mysql" curl -fs "${api%/api/v1}/"
    check "no backup, no forecast" null "$(curl -fs "$api/jobs" | jq -r '.[] | select(.lv == "mysql_snapshot") | .id' |
        xargs -I ID curl -fs "$api/jobs/ID/outlook")"
    check "no backup needs time" "" "$("$COWBELL" status | grep -o 'backup needs')"
}

: >/mnt/cowbell.toml
start_dmeventd
make_volumes
start_cowbell
in_place_of_origin
not_monitored
stop_cowbell
finish
