# Does an alert go out while the disk hangs that has cowbell's program and its database? The program is on a volume that is
# suspended, with nothing of it in the page cache: pages that were not locked before could not be read. A webhook gets the alert
# of a snapshot that fills on another disk.
#
source "$repo/tests/lab/guest/lab.sh"

most_ms=3000    # from the tick that crosses the threshold to the message

make_machine() {
    modules dm-snapshot ext4
    lvm_sees_only /dev/ubda
    new_group vg0 /dev/ubda
    new_volume -L 64M -n data vg0
    dmsetup create root --table "0 262144 linear /dev/ubdb 0"
    mkfs.ext4 -q /dev/mapper/root
    mkdir /mnt/root
    mount /dev/mapper/root /mnt/root
    trap disk_is_back EXIT    # the guest could not halt
    mkdir /mnt/root/state
    mount --bind /mnt/root/state /mnt/state
    cp "$COWBELL" /mnt/root/cowbell
    COWBELL=/mnt/root/cowbell
    # Nobody waits for the command, which is on the disk that hangs.
    printf '#!/bin/sh\n' >/mnt/root/command
    chmod 755 /mnt/root/command
    {
        printf '[[notify]]\nkind = "command"\ncommand = ["/mnt/root/command"]\n'
        tell_receiver
    } >/mnt/cowbell.toml
}

disk_hangs() {
    sync -f /mnt/root
    echo 3 >/proc/sys/vm/drop_caches
    dmsetup suspend --nolockfs --noflush root
}

disk_is_back() {
    dmsetup resume root
}

alert_goes_out() {
    local ms
    new_volume -s -c 4k -L 12M -n filling vg0/data
    await_ticks 3
    disk_hangs
    dd if=/dev/urandom of=/dev/vg0/data bs=64k count=150 conv=fsync status=none
    in_time 15 eval 'grep -q "\"severity\":\"warning\"" /mnt/told' || true
    ms=$(delay severity warning || echo none)
    echo "figure hung: the warning was received $ms ms after its tick"
    check "hung: the warning was received within $most_ms ms" yes "$([[ $ms != none ]] && ((ms <= most_ms)) && echo yes || echo "$ms")"
    dd if=/dev/urandom of=/dev/vg0/data bs=64k seek=150 count=20 conv=fsync status=none
    in_time 15 eval 'grep -q "\"severity\":\"critical\"" /mnt/told' || true
    ms=$(delay severity critical .worse_at || echo none)
    echo "figure hung: the critical alert was received $ms ms after its tick"
    check "hung: the critical alert was received within $most_ms ms" yes "$([[ $ms != none ]] && ((ms <= most_ms)) && echo yes || echo "$ms")"
    disk_is_back
    wait_until 60 "the deliveries to be stored" eval '[[ $(curl -fs "$api/alerts" | jq "[.[].deliveries[] | select(.is_delivered)] | length") -ge 1 ]]'
    check "back: each alert was delivered once" "" "$(cut -d " " -f 2- /mnt/told | jq -r '"\(.id) \(.status) \(.severity)"' | sort | uniq -d)"
}

make_machine
start_receiver
start_cowbell
await_ticks 3
alert_goes_out
stop_cowbell
kill "$receiver"
finish
