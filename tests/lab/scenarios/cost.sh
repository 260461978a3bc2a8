# Is the reading of all fills by cowbell 100 times cheaper than `lvs`, and linear in the number of volumes?
# Ten volumes with a fill, then a hundred, half thick snapshots and half thin volumes: at both, the microseconds
# of processor that one reading by cowbell takes, one `lvs`, and one `dmsetup status --noflush`.
#
# The guest counts a process's time in clock ticks of 10 ms: fit for `lvs`, but a reading is over before the next one.
# So one reading at a time is let through: cowbell's device-mapper thread is held (by the freezer) until it was asked,
# then all its other threads are held, then the reader is let go. It is a real-time thread here, and the guest has one
# processor: it runs to its end before this shell goes on, and what the shell's clock says is what it took.
# The same with no question waiting tells what the letting go takes; it is subtracted.
# Of many times by the clock the least counts: what disturbs makes them only longer. Of many counts of clock ticks the middle
# one does: on a busy machine ticks come to others, or to nobody. To be run alone all the same.
#
# To enter the kernel costs 15 µs in this guest, a hundred times as much as on a real machine, and a reading is hardly
# more than one call for each volume: none may be put that is not needed. What entering costs, measured here, is taken
# out of both sides before they are compared; the figures tell the ratio as it stands as well.
#
# LAB_MEM=900M
# LAB_PACKAGES=strace
source "$repo/tests/lab/guest/lab.sh"

readings=30
most_rounds=8        # of that many readings each
runs=12              # of lvs, and of dmsetup
least_ratio=100      # of lvs to cowbell
# Ten times as many volumes: ten times the cost, or less for what every reading costs. The least differs by up to
# 10 % from run to run, and larger answers miss the processor's caches more; anything quadratic would be at 50 or more.
most_growth=13

make_volumes() {
    local number
    modules dm-snapshot dm-thin-pool
    new_group vg0 /dev/ubda /dev/ubdb
    new_volume --type thin-pool -L 200M -n pool vg0
    for number in {1..5}; do
        new_volume -L 16M -n "data$number" vg0
    done
}

# Each number is a snapshot and a thin volume. One process makes them all, inactive: a fifth of the time.
add_volumes() {
    local number
    lvchange -an vg0/data{1..5}
    for ((number = $1; number <= $2; number++)); do
        echo "lvcreate -y -A n -an -s -L 8M -n thick$number vg0/data$((number % 5 + 1))"
        echo "lvcreate -y -A n -an -V 16M --thinpool vg0/pool -n thin$number"
    done | lvm >>"$OUT/lvm.log" 2>&1
    vgchange -ay vg0 >>"$OUT/lvm.log" 2>&1
    for number in {1..5}; do
        dd if=/dev/urandom of="/dev/vg0/data$number" bs=64k count=4 conv=fsync status=none
        dd if=/dev/urandom of="/dev/vg0/thin$number" bs=64k count=4 conv=fsync status=none
    done
    sync
}

least() {
    sort -n | head -n 1
}

# microseconds NAME: what the clock says.
microseconds() {
    printf -v "$1" %s "${EPOCHREALTIME/./}"
}

# As sleep, without a process that would drive the reader's memory out of the processor's caches.
idle() {
    read -rt "$1" -u "$silence" || true
}

# Sorts cowbell's threads into two groups that can be held, and sets `reader`.
group_threads() {
    local task group
    mountpoint -q /mnt/freezer || mount --mkdir -t cgroup -o freezer none /mnt/freezer
    mkdir -p /mnt/freezer/{reader,others}
    for task in "/proc/$cowbell/task/"*; do
        [[ $(<"$task/comm") == device-mapper ]] && group=reader || group=others
        echo "${task##*/}" >"/mnt/freezer/$group/tasks"
    done
    reader=$(<"/mnt/freezer/reader/tasks")
    chrt -f -p 1 "$reader"
}

hold() {
    echo FROZEN >"/mnt/freezer/$1/freezer.state"
}

let_go() {
    echo THAWED >"/mnt/freezer/$1/freezer.state"
}

# until_asked: waits until the loop has read what it reads before it asks the reader.
until_asked() {
    local before now texts
    texts=$(cat /proc/diskstats /proc/vmstat /proc/stat | wc -c)
    read -r _ before <"/proc/$cowbell/io"
    until read -r _ now <"/proc/$cowbell/io" && ((now - before >= texts)); do idle 0.01; done
    idle 0.03
}

# let_through WAIT…: how long the reader ran, each time, when it was held and then WAIT done before the others were held.
let_through() {
    local number start end state silence
    exec {silence}<> <(:)
    for ((number = 0; number < readings; number++)); do
        hold reader
        "$@"
        hold others
        microseconds start
        let_go reader
        microseconds end
        read -r _ _ state _ <"/proc/$cowbell/task/$reader/stat"
        let_go others
        [[ $state == S ]] || fail "the reader did not come to its end: $state"
        echo "$((end - start))"
        idle 0.05
    done
    exec {silence}>&-
}

# Of all threads, in clock ticks: all that is done in a tick is in it, the reading too.
whole_tick() {
    local before after taken
    taken=$(ticks_taken)
    before=$(running_time)
    sleep 8
    after=$(running_time)
    echo "$(((after - before) / 1000 / ($(ticks_taken) - taken)))"
}

running_time() {
    cat "/proc/$cowbell/task/"*/schedstat | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

# The microseconds, user and system, of a run of a command; the middle one of all runs.
cost_of() {
    local number TIMEFORMAT='%3U %3S'
    for ((number = 0; number < runs; number++)); do
        { time "$@" >/dev/null; } 2>&1
    done | awk '{ printf "%d\n", ($1 + $2) * 1e6 }' | sort -n | sed -n "$((runs / 2))p"
}

# The nanoseconds that a system call takes that does next to nothing: what `umask` takes and `:` does not.
price_of_entering() {
    local with without
    with=$(time_of umask 022)
    without=$(time_of :)
    echo "$(((with - without) * 10))"
}

# time_of BUILTIN…: of a hundred of them.
time_of() {
    local number run start end
    for ((run = 0; run < 200; run++)); do
        microseconds start
        for ((number = 0; number < 100; number++)); do "$@"; done
        microseconds end
        echo "$((end - start))"
    done | least
}

# How many questions a reading puts, from one list of devices to the next.
calls_of_reader() {
    timeout 3 strace -e trace=ioctl -o "$OUT/calls" -p "$reader" 2>/dev/null || true
    awk '/DM_LIST_DEVICES/ { if (calls) print calls; calls = 0; lists++ } lists { calls++ }' "$OUT/calls" | least
}

calls_of_lvs() {
    strace -c -f -o "$OUT/calls" lvs >/dev/null
    awk '$NF == "total" { print $4 }' "$OUT/calls"
}

fills_shown() {
    curl -fs http://127.0.0.1:2692/api/v1/volumes | jq '[.[] | select(.fill_percent != null and .pool + .origin != null)] | length'
}

shows() {
    [[ $(fills_shown) == "$1" ]]
}

# time_readings COUNT: sets `empty` and `took`, in microseconds; again until they come out the same, within a tenth, on a
# machine that was busy. What is less than its calls alone take was no reading: the loop had not come to asking.
time_readings() {
    local round took_before empty_before
    rm -f "$OUT/readings-$1" "$OUT/empty-$1"
    took=0 empty=0
    for ((round = 1; round <= most_rounds; round++)); do
        took_before=$took empty_before=$empty
        let_through until_asked >>"$OUT/readings-$1"
        let_through : >>"$OUT/empty-$1"
        empty=$(least <"$OUT/empty-$1")
        took=$(($(awk -v least=$((empty + calls * price / 1000)) '$1 > least' "$OUT/readings-$1" | least) - empty))
        ((10 * took < 9 * took_before || 10 * took > 11 * took_before || 10 * empty < 9 * empty_before)) || break
    done
    echo "info  $1 volumes: times of a reading came out the same after $round rounds"
}

# measure COUNT: sets `took`, the microseconds of a reading.
measure() {
    local empty whole lvs dmsetup calls lvs_calls price ratio
    lvs=$(cost_of lvs)
    lvs_calls=$(calls_of_lvs)
    dmsetup=$(cost_of dmsetup status --noflush)
    price=$(price_of_entering)
    start_cowbell
    wait_until 120 "cowbell to show $1 fills" shows "$1"
    group_threads
    calls=$(calls_of_reader)
    time_readings "$1"
    check "fills shown after the readings were let through" "$1" "$(fills_shown)"
    whole=$(whole_tick)
    stop_cowbell
    echo "figure $1 volumes: a reading $took µs in $calls calls (letting go $empty µs, subtracted), dmsetup $dmsetup µs, lvs $lvs µs in $lvs_calls calls; a whole tick $whole µs"
    echo "figure $1 volumes, as it stands: lvs is $((lvs / took)) times as dear, dmsetup $((dmsetup / took)) times"
    ratio=$(((lvs * 1000 - lvs_calls * price) / (took * 1000 - calls * price)))
    echo "figure $1 volumes, without $price ns for entering the kernel: lvs is $ratio times as dear"
    check "$1 volumes: a list, and a question for each and for their pool" "$(($1 + 2))" "$calls"
    check "$1 volumes: lvs is at least $least_ratio times as dear" yes "$( ((ratio >= least_ratio)) && echo yes || echo "no, $ratio times")"
}

echo 'interval = "103ms"' >/mnt/cowbell.toml    # not a multiple of the clock tick, by which the whole process is measured
make_volumes
add_volumes 1 5
measure 10
few=$took
add_volumes 6 50
measure 100
growth=$(awk "BEGIN { printf \"%.1f\", $took / $few }")
echo "figure growth from 10 to 100 volumes: $growth times"
check "growth is at most $most_growth times" yes "$( ((took <= most_growth * few)) && echo yes || echo "no, $growth times")"
finish
