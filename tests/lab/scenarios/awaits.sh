# Are the latencies of a volume right whose disk does not answer for four seconds? Kernels before 6.4 count its writes
# when they start, later ones when they end. What the counters were each second is in $OUT/diskstats.
#
# LAB_DISKS=1
source "$repo/tests/lab/guest/lab.sh"

modules dm-snapshot
dmsetup create lower --table "0 $(blockdev --getsz /dev/ubda) linear /dev/ubda 0"
lvm_sees_only /dev/mapper/lower
new_group vg0 /dev/mapper/lower
new_volume -L 100M -n data vg0

note_counters() {
    while true; do
        echo "# $(cut -d' ' -f1 /proc/uptime)"
        grep ' dm-' /proc/diskstats
        sleep 1
    done >"$OUT/diskstats"
}

# The latencies of writes that were shown since $1, in milliseconds.
latencies() {
    curl -fs "$api/series?of=device:vg0/data&metric=write_await_ms&points=10000&from=$1" |
        jq -r '[.[].avg | select(. != null and . > 500) | round] | join(" ")'
}

: >/mnt/cowbell.toml
start_cowbell
await_ticks 3
note_counters &
noting=$!
from=$(date -u +%FT%TZ)
dmsetup suspend --noflush --nolockfs lower
for write in 0 1 2 3 4 5 6 7; do
    dd if=/dev/zero of=/dev/vg0/data bs=4k seek="$write" count=1 oflag=direct status=none &
    writes+=($!)
done
sleep 4.2
dmsetup resume lower
wait "${writes[@]}"
await_ticks 3
kill "$noting"
number=dm-$(dmsetup info -c --noheadings -o minor vg0-data)
took=$(awk -v name="$number" '$3 == name { if (!n++) { writes = $8; ms = $11 } w = $8; t = $11 } END { printf "%.0f", (t - ms) / (w - writes) }' "$OUT/diskstats")
figure=$(latencies "$from")
echo "figure $(uname -r): writes that took $took ms were shown with $figure ms"
check "the latency of the writes is the kernel's, to a tenth of a second" true \
    "$(jq -n --arg took "$took" --arg figure "$figure" '($took | tonumber) - ($figure | tonumber) | fabs < 100')"
deepest=$(curl -fs "$api/series?of=device:vg0/data&metric=queue_depth&points=10000&from=$from" | jq '[.[].max | select(. != null)] | max <= 16')
check "the queue is at most what was in flight and completed" true "$deepest"
finish
