# One of the hosts of tests/fleet/hosts: takes a backup while its volume is written to. Given are its address, its name, its
# machine ID, the size of the snapshot, and how long it pauses after each MiB of the backup.
#
# LAB_MEM=400M
# LAB_DISK_SIZE=512M
source "$repo/tests/lab/guest/lab.sh"

lvm() { command lvm "$@" >>"$OUT/lvm.log" 2>&1; }

join_network() {
    ip address add "$address/24" dev vec0
    ip link set vec0 up
    hostname "$name"
    echo "$machine" >/mnt/machine-id
    mount --bind /mnt/machine-id /etc/machine-id
}

make_volumes() {
    modules dm-snapshot dm-thin-pool ext4
    new_group vg0 /dev/ubda /dev/ubdb
    new_volume -L 120M -n data vg0
    new_volume --type thin-pool -L 40M -n pool vg0
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/vg0/data
    mkdir /mnt/data /mnt/snapshot
    mount /dev/vg0/data /mnt/data
    dd if=/dev/zero of=/mnt/data/file bs=1M count=60 conv=fsync status=none
}

configure() {
    local server=${address%.*}.1
    (umask 077; cp "$OUT/../token" /mnt/token)
    sed "s/127.0.0.1:9093/$server:9093/" "$repo/systemd/receivers/alertmanager.toml" >/mnt/cowbell.toml
    cat >>/mnt/cowbell.toml <<-END
	[changes]
	token_file = "/mnt/token"
	[remote_write]
	url = "http://$server:8428/api/v1/write"
	END
}

# Changes each block of the file once, a MiB a second or less.
write() {
    local block
    for ((block = 0; block < 60; block++)); do
        dd if=/dev/urandom of=/mnt/data/file bs=1M count=1 seek="$block" conv=notrunc,fsync status=none
        sleep 0.7
    done
}

backup() {
    lvm lvcreate -y -s -L "$snapshot" -n data_snapshot vg0/data
    mount -o ro,noload /dev/vg0/data_snapshot /mnt/snapshot
    local block
    for ((block = 0; block < 60; block++)); do
        dd if=/mnt/snapshot/file of=/dev/null bs=1M count=1 skip="$block" status=none 2>>"$OUT/backup.log" || true
        sleep "$pause"
    done
    umount /mnt/snapshot
    lvm lvremove -f vg0/data_snapshot
}

address=$1 name=$2 machine=$3 snapshot=$4 pause=$5
if [[ ${6:-} == backup ]]; then
    backup
    exit
fi
join_network
make_volumes
configure
start_cowbell --listen 0.0.0.0:2692
await_ticks 10
write & writer=$!
"$COWBELL" run --config /mnt/cowbell.toml --name nightly -- bash "$0" "$@" backup >>"$OUT/backup.log" 2>&1 || true
wait "$writer"
# The servers see what has ended.
await_ticks 10
curl -fs "$api/alerts" >"$OUT/alerts.json"
curl -fs "$api/jobs" >"$OUT/jobs.json"
stop_cowbell
finish
