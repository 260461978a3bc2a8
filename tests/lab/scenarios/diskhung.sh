# Does cowbell go on when the disk below its own state does not answer? Its device is suspended for 90 s (`diskhung 120`: as
# many): ticks go on, the pages that show the present come at once, and when the disk is back every tick is in the series, with
# what was said of it. Then it hangs again and cowbell is told to end: it ends when it can, and says how much it could not keep.
#
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/state.sh"

hung=${1:-90}          # s
most_ms=1000           # for a page that shows the present; or three times as long as the slowest took before, on a slow machine
present=(/ /devices /volumes /alerts /api/v1/status /api/v1/devices /api/v1/volumes /api/v1/vm)
past=(/jobs /api/v1/jobs "/api/v1/series?of=vm&metric=bo_kib_per_s")    # nothing but what was kept

make_machine() {
    modules dm-snapshot ext4
    lvm_sees_only /dev/ubda
    new_group vg0 /dev/ubda
    new_volume -L 64M -n data vg0
    new_volume -s -L 12M -n data_snapshot vg0/data
    dmsetup create state --table "0 262144 linear /dev/ubdb 0"
    mkfs.ext4 -q /dev/mapper/state
    mount /dev/mapper/state /mnt/state
    trap disk_is_back EXIT    # the guest could not halt
    : >/mnt/cowbell.toml
}

# From now on nothing that is written below /mnt/state ends, and nobody may say `sync`. What is in memory of it can be read.
disk_hangs() {
    sync -f /mnt/state
    dmsetup suspend --nolockfs --noflush state
}

disk_is_back() {
    dmsetup resume state
}

# look SECONDS PAGE…: lines of "MS STATUS PAGE" in /mnt/looks, each page once a second. One curl for all: it is dear to start.
look() {
    local end=$((SECONDS + $1))
    shift
    : >/mnt/looks
    while ((SECONDS < end)); do
        printf 'url = "http://127.0.0.1:2692%s"\noutput = /dev/null\n' "$@" |
            { curl -s -m 5 -w '%{time_total} %{http_code} %{url_effective}\n' -K - || true; } |
            awk '{ sub(/^http:\/\/[^\/]*/, "", $3); printf "%.0f %s %s\n", $1 * 1000, $2, $3 }' >>/mnt/looks
        sleep 1
    done
}

slowest() {
    sort -rn /mnt/looks | awk 'NR == 1 { print $1 " ms, " $3 }'
}

# From one tick to the next, in ms: the longest of a span.
longest_gap() {
    series vm bo_kib_per_s "$1" "$2" | awk 'last && $1 - last > longest { longest = $1 - last } { last = $1 } END { print longest + 0 }'
}

# looks_well WHAT: those at which we looked came, and in time.
looks_well() {
    echo "figure $1: slowest page $(slowest), of $(wc -l </mnt/looks)"
    check "$1: pages that took longer than $most_ms ms, or did not come" "" "$(awk -v most="$most_ms" '$1 > most || $2 != 200' /mnt/looks)"
}

# look_while_others_wait WHAT: what is can be shown, although others wait for what was.
look_while_others_wait() {
    local askers=() page
    : >/mnt/asked
    for page in "${past[@]}"; do
        curl -s -m 10 -o /dev/null -w '%{http_code}\n' "http://127.0.0.1:2692$page" >>/mnt/asked &
        askers+=($!)
    done
    look 10 "${present[@]}"
    looks_well "$1"
    wait "${askers[@]}" || true
    echo "figure $1: of ${#past[@]} pages of what was, $(grep -c 200 /mnt/asked || true) came within 10 s"
}

hangs_and_comes_back() {
    local before missed excused began ended start taken
    look 5 "${present[@]}" "${past[@]}"
    before=$(slowest)
    echo "figure before: slowest page $before"
    ((3 * ${before%% *} < most_ms)) || most_ms=$((3 * ${before%% *}))
    missed=$(curl -fs "$api/status" | jq .ticks.missed)
    taken=$(ticks_taken)
    began=$(now)
    start=$SECONDS
    disk_hangs
    while ((SECONDS - start < 10)); do sleep 0.2; done
    look_while_others_wait "hung"
    echo 1 >/proc/sys/vm/drop_caches
    look_while_others_wait "hung, nothing of the disk in memory"
    echo "figure hung: after $((SECONDS - start)) s the store says: $(store_error | grep . || echo nothing)"
    while ((SECONDS - start < hung)); do sleep 0.2; done
    missed=$(($(curl -fs "$api/status" | jq .ticks.missed) - missed))
    excused=$(excused "$began")
    taken=$(($(ticks_taken) - taken))
    disk_is_back
    ended=$(last_tick)
    start=$SECONDS
    echo "figure hung: $taken ticks in $hung s, $missed missed, $excused of them because the guest stood still"
    check "hung: ticks missed while the guest ran" 0 "$((missed > excused ? missed - excused : 0))"
    check "hung: ticks were taken" yes "$( ((taken + missed >= hung - 1)) && echo yes || echo "$taken")"
    wait_until 60 "the store to have what came meanwhile" has_stored "$ended"
    echo "figure back: all was kept after $((SECONDS - start)) s"
    in_time 5 store_is_well
    check "back: the store says" "" "$(store_error)"
    check_kept "back" "$first" "$ended"
    check "back: longest from one tick to the next, in ms, while the guest ran" "less than 2000" \
        "$(gap=$(longest_gap "$began" "$ended"); ((gap < 2000 + 1000 * excused)) && echo "less than 2000" || echo "$gap")"
}

# What a thread waits for in the kernel cannot be given up: the process is gone when the disk is back, at the latest.
ends_while_it_hangs() {
    local kept_until start status=0 ended number when=
    await_ticks 2
    await_store
    kept_until=$stored
    disk_hangs
    await_ticks 6
    ended=$(last_tick)
    stop_listening
    start=$SECONDS
    kill -TERM "$cowbell"
    while is_running "$cowbell" && ((SECONDS - start < 12)); do sleep 0.2; done
    when="after $((SECONDS - start)) s, "
    is_running "$cowbell" && when+="when the disk was back" || when+="while it hung"
    number=$(said_to_be_lost)
    check "told to end: before the disk is back it says how much it could not keep" yes "$([[ -n $number ]] && echo yes)"
    disk_is_back
    start=$SECONDS
    wait_until 60 "cowbell to end" eval '! is_running "$cowbell"'
    wait "$cowbell" || status=$?
    number=$(said_to_be_lost)
    echo "figure told to end: ended $when with exit status $status; said that it lost ${number:-nothing}"
    keep_log
    check "told to end: database" ok "$(integrity /mnt/state)"
    start_cowbell
    check_kept "told to end, what was kept before" "$first" "$kept_until"
    keeps "$first" "$ended" || true
    echo "figure told to end: $lost of $said ticks lost"
    check "told to end: lost more than it said" no "$( ((lost > ${number:-0})) && echo "$lost, and it said ${number:-nothing}" || echo no)"
    stop_cowbell
}

make_machine
start_writing
start_cowbell
start_metronome
first=$(last_tick)
start_listening
await_ticks 2
hangs_and_comes_back
ends_while_it_hangs
kill "$writer" "$metronome"
finish
