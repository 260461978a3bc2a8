# Does cowbell go on when its own disk is full, and lose nothing that it had in memory? Its state is on an ext4 of 8 MiB,
# which is filled to the last byte: before the first start, while it runs, and twice just before it is stopped. While it
# runs: ticks come, the API and the page answer and say what is wrong, and whoever is to be told of a snapshot is told. When
# there is room again it is well by itself, and no tick is missing; after the stop neither, and what is gone it named.
#
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/state.sh"

full=6     # s for which there is no room

make_machine() {
    modules dm-snapshot ext4
    lvm_sees_only /dev/ubda
    new_group vg0 /dev/ubda
    new_volume -L 64M -n data vg0
    dmsetup create state --table "0 16384 linear /dev/ubdb 0"
    mkfs.ext4 -q -m 0 /dev/mapper/state
    mount /dev/mapper/state /mnt/state
    echo "$tells" >/mnt/cowbell.toml
}

# To the last byte: what cowbell gives back meanwhile is taken too.
fill_up() {
    local size
    for size in 1M 64k 4k 1k; do
        dd if=/dev/zero bs=$size oflag=append conv=notrunc,fsync of=/mnt/state/filler status=none 2>/dev/null || true
    done
    check "$1: bytes that are free" 0 "$(($(stat -f -c '%a * %S' /mnt/state)))"
}

make_room() {
    rm /mnt/state/filler
    roomy=$SECONDS
}

rings() {
    new_volume -s -c 4k -L 12M -n "$1" vg0/data
    fills "$1" "$2"
    lvremove -qq -f "vg0/$1"
}

# The page says what the API says, up to what would be written otherwise there.
page_says() {
    local sentence=${1%%[<>&\"\']*}
    curl -fs http://127.0.0.1:2692/ | grep -cF "${sentence:-nothing is wrong}" || true
}

# goes_on WHAT SNAPSHOT: while the disk is full. For ticks there may be room that was kept free, and for a few snapshots, their
# jobs and alerts, in SQLite's log as it is; for the next one there is none.
goes_on() {
    local start=$SECONDS taken sentence number
    for number in 1 2 3 4 5 6; do
        rings "$2$number" "$1"
        in_time 2 store_is_ill
        [[ -z $(store_error) ]] || break
    done
    sentence=$(store_error)
    echo "figure $1: said after $((SECONDS - start)) s: ${sentence:-nothing}"
    check "$1: the store says that something is wrong" yes "$([[ -n $sentence ]] && echo yes)"
    check "$1: the page says so too" 1 "$(($(page_says "$sentence") > 0))"
    taken=$(ticks_taken)
    in_time "$full" false
    check "$1: ticks go on" yes "$( (($(ticks_taken) - taken >= full)) && echo yes || echo "$(($(ticks_taken) - taken)) in $full s")"
    check "$1: it can still be asked" 200 "$(curl -s -o /dev/null -w '%{http_code}' "$api/volumes")"
}

# recovers WHAT FROM: all that was said since then is kept.
recovers() {
    make_room
    in_time 10 store_is_well
    echo "figure $1: well $((SECONDS - roomy)) s after there was room"
    check "$1: afterwards the store says" "" "$(store_error)"
    await_store
    check_kept "$1" "$2" "$stored"
    check "$1: database" ok "$(integrity /mnt/state)"
}

full_before_the_first_start() {
    local what="full before the start" refused
    fill_up "$what"
    "$COWBELL" serve --config /mnt/cowbell.toml --db /mnt/state/cowbell.db >"$OUT/cowbell.log" 2>&1 &
    cowbell=$!
    wait_until 60 "cowbell to answer or end" answers_or_ended
    refused=$(is_running "$cowbell" || tail -n 1 "$OUT/cowbell.log")
    check "$what: it starts" "" "$refused"
    if [[ -n $refused ]]; then
        keep_log
        make_room
        start_cowbell
    fi
    began=$(last_tick)
    start_listening
    if [[ -z $refused ]]; then
        goes_on "$what" early
        recovers "$what" "$began"
    fi
}

full_while_it_runs() {
    await_ticks 3
    fill_up "full while it runs"
    goes_on "full while it runs" middle
    recovers "full while it runs" "$began"
}

# full_when_it_stops WHAT [SNAPSHOT]: ticks have their room in the journal. A new snapshot, its job and its alert have none, nor
# have ticks that speak of it: what is gone of them after the next start, it named.
full_when_it_stops() {
    local what="full when it stops, $1" snapshot=${2:-} status=0 start ended number gone=0
    await_ticks 2
    fill_up "$what"
    if [[ -n $snapshot ]]; then
        rings "$snapshot" "$what"
        in_time 5 store_is_ill
    fi
    await_ticks 2
    ended=$(last_tick)
    start=$SECONDS
    kill -TERM "$cowbell"
    wait "$cowbell" || status=$?
    stop_listening
    number=$(said_to_be_lost)
    echo "figure $what: ended after $((SECONDS - start)) s with exit status $status, and named ${number:-nothing} as lost"
    check "$what: it ends within 30 s" yes "$( ((SECONDS - start <= 30)) && echo yes)"
    keep_log
    make_room
    check "$what: database" ok "$(integrity /mnt/state)"
    start_cowbell
    start_listening
    if [[ -z $snapshot ]]; then
        check "$what: named as lost" "" "$number"
        check_kept "$what" "$began" "$ended"
        return
    fi
    keeps "$began" "$ended" || true
    knows jobs "$snapshot" || gone=$((gone + 1))
    knows alerts "$snapshot" || gone=$((gone + 1))
    echo "figure $what: $lost of $said ticks lost, and $gone of a job and an alert"
    check "$what: more is gone than it named" no \
        "$( ((lost + gone > ${number:-0})) && echo "$((lost + gone)), and it named ${number:-nothing}" || echo no)"
}

# knows LIST LV: whether a list of the API has something of that volume.
knows() {
    curl -fs "$api/$1" | jq -e --arg lv "$2" 'any(.lv == $lv)' >/dev/null
}

make_machine
start_writing
full_before_the_first_start
full_while_it_runs
full_when_it_stops "nothing new"
full_when_it_stops "a new snapshot" late
stop_listening
stop_cowbell
kill "$writer"
finish
