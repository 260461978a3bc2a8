# What scenarios share whose subject is cowbell's own state, on a file system of its own: what cowbell said of each tick
# when it took it, to be held against what it kept. Scenarios source this after lab.sh.
# Two quantities are followed: bo, of the whole host, as the live stream says it, which asks no store; and what is
# written to the device $counted, as the series said it soon after each tick.

heard=/mnt/heard      # the live stream
polled=/mnt/polled    # lines of "MS BYTES", of the series

now() {
    echo $((${EPOCHREALTIME/./} / 1000))
}

# Writes to a disk of its own, each time another amount.
start_writing() {
    modules brd
    counted=ram0
    while true; do
        dd if=/dev/zero of=/dev/ram0 bs=4k count=$((RANDOM % 64 + 1)) oflag=direct status=none
        sleep 0.3
    done &
    writer=$!
}

# Begins to follow; goes on from where an earlier cowbell ended.
start_listening() {
    curl -sN "$api/live" >>"$heard" &
    listener=$!
    while true; do
        sleep 1.5
        series "device:$counted" written_bytes $(($(now) - 8000)) "$(now)" >>"$polled" || true
    done 2>/dev/null &
    poller=$!
}

stop_listening() {
    kill "$poller" "$listener" 2>/dev/null || true
    wait "$poller" "$listener" || true
}

# series OF METRIC FROM TO: lines of "MS VALUE", each tick by itself.
series() {
    curl -fs -m 20 -G "$api/series" -d "of=$1" -d "metric=$2" -d "from=$(api_time "$3")" -d "to=$(api_time "$4")" -d points=10000 |
        jq -r "$ms .[] | \"\\(.t | ms) \\(.avg)\""
}

# What was said of the ticks of a span; the last line of a stream may be cut off.
heard_of() {
    sed -n 's/^data: *//p' "$heard" | jq -rR --argjson from "$1" --argjson to "$2" \
        "$ms fromjson? | (.at | ms) as \$at | select(\$at >= \$from and \$at <= \$to) | \"\\(\$at) \\(.bo_kib_per_s)\"" | sort -u
}

polled_of() {
    awk -v from="$1" -v to="$2" '$1 >= from && $1 <= to' "$polled" | sort -u
}

# unlike SAID KEPT: lines of "MS SAID KEPT" where they are not the same, "-" for a tick that was not kept.
unlike() {
    awk 'FILENAME == ARGV[1] { kept[$1] = $2; next }
        !($1 in kept) { print $1, $2, "-"; next }
        { by = $2 - kept[$1]; if (by < 0) by = -by }
        ($2 == "null") != (kept[$1] == "null") || by > 1e-6 * $2 { print $1, $2, kept[$1] }' "$2" "$1"
}

# keeps FROM TO: every tick of the span that was said is kept, with what was said. Leaves the numbers in `said` and
# `lost`, those that are not right in $OUT/unlike.
keeps() {
    heard_of "$1" "$2" >/mnt/said.host
    polled_of "$1" "$2" >/mnt/said.device
    series vm bo_kib_per_s "$1" "$2" >/mnt/kept.host
    series "device:$counted" written_bytes "$1" "$2" >/mnt/kept.device
    unlike /mnt/said.host /mnt/kept.host >"$OUT/unlike"
    unlike /mnt/said.device /mnt/kept.device >>"$OUT/unlike"
    said=$(wc -l </mnt/said.host)
    lost=$(awk '$3 == "-" { print $1 }' "$OUT/unlike" | sort -u | wc -l)
    [[ ! -s $OUT/unlike ]]
}

# Waits until the last tick that was taken by now is in the store; its time is in `stored`.
await_store() {
    stored=$(last_tick)
    wait_until 60 "the store to take in the last tick" has_stored "$stored"
}

# check_kept WHAT FROM TO: of ticks that are in the store by now.
check_kept() {
    local outcome=kept
    keeps "$2" "$3" || outcome="$lost lost, $(grep -vc -- '-$' "$OUT/unlike" || true) wrong (see unlike): $(head -n 2 "$OUT/unlike" | xargs)"
    check "$1: ticks that were said ($said), are" kept "$outcome"
    check "$1: some were said" yes "$( ((said > 0)) && [[ -s /mnt/said.device ]] && echo yes || echo no)"
}

# For cowbell.toml: whoever is to be told is told in /mnt/told.
tells='[[notify]]
kind = "command"
command = ["/bin/sh", "-c", "x=$(cat); echo \"$x\" >>/mnt/told"]
'
: >/mnt/told

# fills LV WHAT: vg0/data is written until its snapshot is four fifths full, and somebody is told.
fills() {
    dd if=/dev/urandom of=/dev/vg0/data bs=64k count=155 conv=fsync status=none
    in_time 5 was_told "$1"
    check "$2: somebody was told that $1 fills" yes "$(was_told "$1" && echo yes)"
}

was_told() {
    jq -se --arg lv "$1" 'any(.lv == $lv and .status == "raised")' /mnt/told >/dev/null
}

# What the store says of itself: empty when it is well.
store_error() {
    curl -fs -m 30 "$api/status" | jq -r '.parts[] | select(.name == "store") | if .ok then "" else .error end'
}

store_is_well() {
    [[ -z $(store_error) ]]
}

store_is_ill() {
    ! store_is_well
}

# A copy is looked at: looking would mend what is there. Every SQLite database below the folder.
integrity() {
    local file
    rm -rf /mnt/copy
    cp -r "$1" /mnt/copy
    while read -r file; do
        sqlite3 "$file" 'PRAGMA integrity_check' | head -n 3
    done < <(find /mnt/copy -type f ! -name '*-wal' ! -name '*-shm' -exec grep -la '^SQLite format 3' {} +) | sort -u | xargs
}

# What cowbell says in its log when it ends, and did not keep: a number, or nothing.
said_to_be_lost() {
    { grep -o '[0-9]* [a-z]* could not be stored' "$OUT/cowbell.log" || true; } | awk '{ sum += $1 } END { if (NR) print sum }'
}

# Each start has a log of its own.
keep_log() {
    mv "$OUT/cowbell.log" "$OUT/cowbell-$((++starts)).log"
}
starts=0
