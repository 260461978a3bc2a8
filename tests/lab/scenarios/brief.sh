# Is a snapshot seen that lives for less than a second while cowbell looks once a minute?
# The device-mapper tells of it, so it is looked at out of turn. Each of some short lives
# must become a job whose beginning and end are those of lvcreate and lvremove; and a
# machine on which nothing happens must not be looked at out of turn at all.
#
source "$repo/tests/lab/guest/lab.sh"

slack=400    # ms between what happens and the tick that sees it; or as long as LVM took for it, on a slow machine

now() {
    echo $((${EPOCHREALTIME/./} / 1000))
}

# live NAME SECONDS: one line "NAME BEFORE-LVCREATE AFTER-IT BEFORE-LVREMOVE AFTER-IT" in /mnt/lives.
live() {
    local times
    times=$(now)
    new_volume -s -L 12M -n "$1" vg0/data
    times+=" $(now)"
    sleep "$2"
    times+=" $(now)"
    lvremove -qq -f "vg0/$1" >>"$OUT/lvm.log" 2>&1
    echo "$1 $times $(now)" >>/mnt/lives
    in_time 2 has_ended "$1"
}

# "STARTED ENDED ORIGIN" of the jobs of that name; ms.
jobs_of() {
    curl -fs "$api/jobs" | jq -r --arg lv "$1" '
        def ms: if . == null then null else capture("(?<s>[^.Z]+)(?<f>\\.[0-9]+)?Z")
            | (.s + "Z" | fromdate) * 1000 + ("0" + (.f // "") | tonumber * 1000 | round) end;
        .[] | select(.kind == "snapshot" and .lv == $lv) | "\(.started_at | ms) \(.ended_at | ms) \(.origin)"'
}

has_ended() {
    [[ $(jobs_of "$1") != *null* ]]
}

# is_between WHAT EARLIEST LATEST FOUND, in ms
is_between() {
    if (($4 >= $2 && $4 <= $3)); then check "$1" yes yes; else check "$1" "$2 to $3" "$4"; fi
}

judge() {
    local name creating created removing removed started ended origin jobs
    while read -r name creating created removing removed; do
        jobs=$(jobs_of "$name")
        check "$name: jobs in the history" 1 "$(grep -c . <<<"$jobs" || true)"
        [[ -n $jobs ]] || continue
        read -r started ended origin <<<"$jobs"
        echo "figure $name: lvcreate to lvremove, both included: $((removed - creating)) ms; seen for $((ended - started)) ms"
        check "$name: origin" data "$origin"
        is_between "$name: began while lvcreate ran" "$creating" $((created + (slack > created - creating ? slack : created - creating))) "$started"
        is_between "$name: ended while lvremove ran" "$removing" $((removed + (slack > removed - removing ? slack : removed - removing))) "$ended"
    done </mnt/lives
}

modules dm-snapshot
new_group vg0 /dev/ubda /dev/ubdb
new_volume -L 200M -n data vg0
echo 'interval = "60s"' >/mnt/cowbell.toml
start_cowbell
check "interval in ms" 60000 "$(curl -fs "$api/status" | jq .ticks.interval_ms)"
sleep 3
quiet=$(ticks_taken)
sleep 6
check "ticks out of turn while nothing happens" 0 "$(($(ticks_taken) - quiet))"
live for-0.3s 0.3
live for-0.5s 0.5
live for-2s 2
judge
echo "figure ticks out of turn for 3 lives: $(($(ticks_taken) - quiet))"
stop_cowbell
finish
