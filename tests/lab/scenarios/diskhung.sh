# Does cowbell go on when the disk below its own state does not answer? Its device is suspended for 45 s (`diskhung 120`: as
# many), with nothing of it in memory: ticks go on, the pages that show the present come at once, those of the past in time and
# with a sentence, somebody is told of a snapshot, and when the disk is back every tick is in the series, with what was said of it.
# Then it hangs again and cowbell is told to end: it ends when it can, and says how much it could not keep.
#
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/state.sh"

hung=${1:-45}          # s
most_ms=1000           # for a page of what is now; or three times as long as the slowest took before, on a slow machine
waited_ms=2200         # what a page of what was may take more: the time for which a read is waited for, and then a little one
present=(/devices /volumes /status /api/v1/status /api/v1/devices /api/v1/volumes /api/v1/vm)
past=(/ /jobs /alerts "/devices/$(basename /dev/ubda)" "/?from=-1h")
lists=(/api/v1/jobs /api/v1/alerts)
gone=/jobs/999         # nobody knows without the database that there is none
says="the database has not answered for"

make_machine() {
    modules dm-snapshot ext4
    lvm_sees_only /dev/ubda
    new_group vg0 /dev/ubda
    new_volume -L 64M -n data vg0
    dmsetup create state --table "0 262144 linear /dev/ubdb 0"
    mkfs.ext4 -q /dev/mapper/state
    mount /dev/mapper/state /mnt/state
    trap disk_is_back EXIT    # the guest could not halt
    echo "$tells" >/mnt/cowbell.toml
}

# What it keeps is in the database when it ends, and no more in memory when it begins again.
has_a_past() {
    new_volume -s -c 4k -L 12M -n past vg0/data
    start_cowbell
    await_ticks 2
    lvremove -qq -f vg0/past
    await_ticks 2
    stop_cowbell
    keep_log
    new_volume -s -c 4k -L 12M -n filling vg0/data
}

# From now on nothing that is written below /mnt/state ends, what is read has to come from the disk, and nobody may say `sync`.
disk_hangs() {
    sync -f /mnt/state
    echo 3 >/proc/sys/vm/drop_caches
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
            { curl -s -m 20 -w '%{time_total} %{http_code} %{url_effective}\n' -K - || true; } |
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

# looks_well WHAT MS: those at which we looked came, and in time.
looks_well() {
    echo "figure $1: slowest $(slowest), of $(wc -l </mnt/looks)"
    check "$1: pages that took longer than $2 ms, or did not come" "" "$(awk -v most="$2" '$1 > most || $2 != 200' /mnt/looks)"
}

# asked PAGE SENTENCE: whether the page has it, with its status before it.
asked() {
    curl -s -m 20 -D /mnt/head -o /mnt/page -w '%{http_code} ' "http://127.0.0.1:2692$1"
    cat /mnt/head /mnt/page | grep -c "$2" >/dev/null && echo yes || echo no
}

# What is not in memory is not made up.
says_what_is_missing() {
    local page from
    for page in "${past[@]}" "${lists[@]}"; do
        check "hung: $page says what is missing" "200 yes" "$(asked "$page" "$says")"
    done
    check "hung: $gone says why it is not told" "503 yes" "$(asked "$gone" "$says")"
    check "hung: $gone is a page" yes "$(grep -c '<nav' /mnt/page >/dev/null && echo yes)"
    from=$(api_time "$past_tick")
    check "hung: a series of the first run is refused with a sentence" "503 yes" \
        "$(asked "/api/v1/series?of=vm&metric=bo_kib_per_s&from=$from" "$says")"
    check "hung: a series of the last seconds is told" yes \
        "$([[ -n $(series vm bo_kib_per_s $(($(now) - 8000)) "$(now)") ]] && echo yes)"
}

# says_that_it_hangs: wherever one looks for how it is.
says_that_it_hangs() {
    local sentence="has not responded for [0-9]* s"
    echo "figure hung: the API says: $(store_error)"
    check "hung: the API says so" "200 yes" "$(asked /api/v1/status "$sentence")"
    check "hung: the page says so" "200 yes" "$(asked /status "$sentence")"
    "$COWBELL" status --config /mnt/cowbell.toml >/mnt/status || true
    check "hung: cowbell status says so" 1 "$(grep -c "$sentence" /mnt/status || true)"
}

hangs_and_comes_back() {
    local missed excused began ended start taken threads
    missed=$(curl -fs "$api/status" | jq .ticks.missed)
    taken=$(ticks_taken)
    began=$(now)
    start=$SECONDS
    disk_hangs
    look 1 "${past[@]}" "${lists[@]}"
    looks_well "hung at first, what was" $((most_ms + 2 * waited_ms))
    fills filling hung
    while ((SECONDS - start < 12)); do sleep 0.2; done
    look 5 "${present[@]}"
    looks_well "hung, what is" "$most_ms"
    look 5 "${past[@]}" "${lists[@]}"
    looks_well "hung, what was" $((most_ms + waited_ms))
    says_that_it_hangs
    says_what_is_missing
    threads=$(grep -l '^sqlx' /proc/"$cowbell"/task/*/comm | wc -l)
    check "hung: threads of SQLite, of which the writer has one" "at most 3" "$( ((threads <= 3)) && echo "at most 3" || echo "$threads")"
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
    check "back: what was is told again" 404 "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:2692$gone")"
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
    while is_running "$cowbell" && [[ -z $(said_to_be_lost) ]] && ((SECONDS - start < 12)); do sleep 0.2; done
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
has_a_past
past_tick=$(($(now) - 5000))
start_cowbell
start_metronome
look 9 "${present[@]}"    # until a poller's series are in memory, so that nobody has read the database when it hangs
before=$(slowest)
echo "figure before: slowest page $before"
((3 * ${before%% *} < most_ms)) || most_ms=$((3 * ${before%% *}))
first=$(last_tick)
start_listening
await_ticks 2
hangs_and_comes_back
ends_while_it_hangs
kill "$writer" "$metronome"
finish
