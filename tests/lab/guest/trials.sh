# Trials of a running service: each does some damage, waits until cowbell works again, and counts what is lost.
# Sourced after lab.sh, state.sh and service.sh. What it writes lands in $OUT, so that it outlives a reboot.
# A tick is lost if the live stream said it and the store does not have it, unless docs/storage.md lets it go.

heard=$OUT/heard      # lines of "MS BO", as the live stream said them
spared=$OUT/spared    # those that may be lost
trials=$OUT/trials    # lines of "KIND|LOST|INTERRUPTED"

# Over all restarts of cowbell. The first tick of a source has no difference, and so no value that could be stored.
listen() {
    while true; do
        curl -sN "$here/api/v1/live" | sed -un 's/^data: *//p' |
            jq --unbuffered -rR "$ms fromjson? | select(.bo_kib_per_s != null) | \"\\(.at | ms) \\(.bo_kib_per_s)\"" >>"$heard" || true
        sleep 0.2
    done
}

# What a kill or a power cut may lose, by docs/storage.md: ten seconds.
spare() {
    awk -v from=$(($(now) - 10000)) '$1 > from' "$heard" >>"$spared"
}

begin_trials() {
    touch "$spared" "$trials"
    the_job >"$OUT/the-job"
    listen &
}

go_on_with_trials() {
    listen &
}

# The snapshot that exists all the time is one job, which does not end.
the_job() {
    jobs_of data_snapshot '"\(length) \(.[0].id) \(.[0].ended_at)"'
}

works() {
    is_active && part_is_ok store && dm_says none && volumes_agree && [[ $(the_job) == "$(cat "$OUT/the-job")" ]]
}

# Lines of "MS SAID KEPT". Of the whole time, so that what was stored before a damage is looked at after it, each time.
losses() {
    grep -vxFf "$spared" "$heard" | sort -u >/mnt/said
    within 60 store_has_all
    stored_ticks >/mnt/kept
    unlike /mnt/said /mnt/kept
}

# Each tick by itself, however near to another.
stored_ticks() {
    cowbell export --db "$state/cowbell.db" --of vm --metric bo_kib_per_s --format json |
        jq -r "$ms select(.bo_kib_per_s != null) | \"\(.time | ms) \(.bo_kib_per_s)\""
}

store_has_all() {
    has_stored "$(last_tick)"
}

# trial KIND DAMAGE…
trial() {
    sleep 3
    "${@:2}"
    judge_trial "$1"
}

judge_trial() {
    local interrupted=0 lost
    within 90 works
    sleep 3
    works >/dev/null || interrupted=1
    losses >"$OUT/unlike"
    lost=$(wc -l <"$OUT/unlike")
    check "$1: ticks lost, and whether the job was interrupted" "0 0" "$lost $interrupted"
    head -n 3 "$OUT/unlike" | sed 's/^/info  said and kept: /'
    echo "$1|$lost|$interrupted" >>"$trials"
    cut -d ' ' -f 1,2 "$OUT/unlike" >>"$spared"    # counted once
}

print_trials() {
    awk -F '|' '
        !($1 in count) { order[++kinds] = $1 }
        { count[$1]++; lost[$1] += $2; cut[$1] += $3; trials++; all += $2; cuts += $3 }
        function row(kind, trials, lost, cut) { printf "figure %-42s %6s %10s %16s\n", kind, trials, lost, cut }
        END {
            row("trial", "trials", "ticks lost", "jobs interrupted")
            for (i = 1; i <= kinds; i++) row(order[i], count[order[i]], lost[order[i]], cut[order[i]])
            row("all", trials, all, cuts)
        }' "$trials"
    echo "figure ticks that were said: $(sort -u "$heard" | wc -l), of which $(sort -u "$spared" | wc -l) may be lost"
}

kill_web() {
    local pid
    pid=$(property MainPID)
    kill -9 "$pid"
    spare
    wait_until 120 "cowbell to come back" answers_as_another "$pid"
}

kill_reader() {
    local pid
    pid=$(property MainPID cowbell-reader)
    kill -9 "$pid"
    wait_until 120 "the reader to come back" is_another_reader "$pid"
}

is_another_reader() {
    local pid
    pid=$(property MainPID cowbell-reader)
    ((pid != 0 && pid != $1))
}

kill_both() {
    local pid
    pid=$(property MainPID)
    kill -9 "$pid" "$(property MainPID cowbell-reader)"
    spare
    wait_until 120 "cowbell to come back" answers_as_another "$pid"
}

stop_reader() {
    local pid
    pid=$(property MainPID cowbell-reader)
    kill -STOP "$pid"
    within 30 dm_says "has not answered"
    check "with a stopped reader" "cowbell-reader has not answered" "$(dm_error | sed 's/ for .*//')"
    sleep 3
    kill -CONT "$pid"
}

# What it says meanwhile is a figure: there may be room left in files that are there already.
fill_disk() {
    local size
    for size in 1M 4k 1k; do
        dd if=/dev/zero bs=$size oflag=append conv=notrunc,fsync of="$state/filler" status=none 2>/dev/null || true
    done
    check "bytes that are free" 0 "$(($(stat -f -c '%a * %S' "$state")))"
    sleep 20
    check "ticks go on while the disk is full" ok "$(curl -fs -m 5 "$here/healthz" >/dev/null && echo ok)"
    info "the store says" "$(store_error)"
    rm "$state/filler"
}

# step_clock SECONDS: and until ticks of the new time are committed, since "stored up to" is a time of the old clock before.
step_clock() {
    date -s "@$(($(date +%s) + $1))" >/dev/null
    sleep 12
}
