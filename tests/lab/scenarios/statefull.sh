# Does an alert go out when a thin pool is full that also has cowbell's state directory, where each write then waits? And is
# all well again once the pool is extended?
#
source "$repo/tests/lab/guest/lab.sh"

most_ms=3000    # from the tick that finds the pool full to the message

make_machine() {
    modules dm-snapshot dm-thin-pool ext4
    lvm_sees_only '/dev/ubd[ab]'
    new_group -s 1M vg0 /dev/ubda /dev/ubdb
    lvm_does <<-END
	lvcreate --type thin-pool -c 64k -L 48M --poolmetadatasize 2M -n pool vg0
	lvcreate -V 64M --thinpool vg0/pool -n state
	lvcreate -V 96M --thinpool vg0/pool -n data
	END
    mkfs.ext4 -q /dev/vg0/state
    mount /dev/vg0/state /mnt/state
    tell_receiver >/mnt/cowbell.toml
}

is_told() {
    grep -q "\"$1\":\"$2\"" /mnt/told
}

pool_fills() {
    local ms
    # Its writes wait as soon as the pool is full.
    dd if=/dev/urandom of=/dev/vg0/data bs=64k oflag=direct status=none 2>/dev/null &
    writer=$!
    in_time 30 is_told rule pool_state || true
    ms=$(delay rule pool_state || echo none)
    echo "figure full: the alert was received $ms ms after its tick"
    check "full: received within $most_ms ms" yes "$([[ $ms != none ]] && ((ms <= most_ms)) && echo yes || echo "$ms")"
    check "full: the pool's fill was received as critical" yes "$(is_told severity critical && echo yes)"
    check "full: it goes on without its state directory" yes "$(in_time 5 has_taken "$(($(ticks_taken) + 3))" && echo yes)"
}

pool_grows() {
    lvextend -q -L +80M vg0/pool >/dev/null 2>&1
    in_time 20 is_told status cleared || true
    check "extended: the end was received" yes "$(is_told status cleared && echo yes)"
    wait "$writer" || true
    wait_until 60 "the deliveries to be stored" eval '[[ $(curl -fs "$api/alerts" | jq "[.[].deliveries[] | select(.is_delivered)] | length") -ge 1 ]]'
    check "extended: each alert was delivered once" "" "$(cut -d " " -f 2- /mnt/told | jq -r '"\(.id) \(.status) \(.severity)"' | sort | uniq -d)"
}

make_machine
start_receiver
start_cowbell
await_ticks 3
pool_fills
pool_grows
stop_cowbell
kill "$receiver"
umount /mnt/state
finish
