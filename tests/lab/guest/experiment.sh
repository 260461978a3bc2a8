# What experiments share; each begins with `source` of lab.sh and of this.
# A run is a command under `cowbell run`, as a job of a set with a variant. What comes out is a comparison that cowbell
# makes of the set: it goes to $OUT/experiment.md, and `tests/lab/experiments` puts those together.

# ext4 without what it does later in the background, so that a run's writes are the run's.
make_file_system() {
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 -O ^metadata_csum "$1"
    mkdir -p "$2"
    mount -o noatime "$1" "$2"
}

# start_experiment [LINE]: with this line of configuration.
start_experiment() {
    echo "${1:-}" >/mnt/cowbell.toml
    : >"$OUT/experiment.md"
    start_cowbell
    await_ticks 2
}

# run_as SET VARIANT COMMAND…: one run, with an empty page cache, when the disks have come to rest.
run_as() {
    sync
    "$COWBELL" run --name "$2" --set "$1" --variant "$2" --settle 2s --drop-caches -- "${@:3}" >>"$OUT/runs.log" 2>&1 ||
        fail "a run of \"$1\", variant \"$2\", failed: $(tail -n 3 "$OUT/runs.log")"
}

# note TEXT…: a paragraph of the outcome.
note() {
    printf '%s\n' "$@" '' >>"$OUT/experiment.md"
}

# compare HEADING SET FIGURE…: cowbell's table of these figures, its remarks, and what else differs; and once a report.
compare() {
    local heading=$1 set=$2 only=() report
    report=$OUT/${2//[^a-z0-9]/-}.html
    shift 2
    for figure; do only+=(--figure "$figure"); done
    await_ticks 2
    {
        printf '#### %s\n\n' "$heading"
        "$COWBELL" job compare --set "$set" --markdown "${only[@]}"
        echo
    } >>"$OUT/experiment.md" || fail "cowbell does not compare \"$set\""
    [[ -e $report ]] || "$COWBELL" job report --set "$set" -o "$report" || fail "cowbell makes no report of \"$set\""
}

# as_many SET VARIANT COUNT: the set has so many runs of that variant, and all of them succeeded.
as_many() {
    check "runs of $2 that succeeded" "$3" \
        "$(curl -fs "$api/jobs" | jq --arg set "$1" --arg variant "$2" '[.[] | select(.label.set == $set and .label.variant == $variant and .outcome == "succeeded")] | length')"
}

# of_comparison SET VARIANT FIGURE FILTER: whether what jq finds of that cell of the comparison is so.
of_comparison() {
    "$COWBELL" job compare --set "$1" --json | jq -r --arg variant "$2" --arg figure "$3" \
        '.comparison as $all | ($all.sets | map(.name) | index($variant)) as $place
            | $all.rows[] | select(.figure == $figure) | .cells[$place] | if ('"$4"') then "yes" else "no" end'
}

finish_experiment() {
    local took
    took=$(curl -fs "$api/status" | jq -r '"p50 \(.ticks.took_us.p50) µs, p99 \(.ticks.took_us.p99) µs, \(.ticks.missed) missed"')
    echo "info  ticks: $took"
    stop_cowbell
    finish
}
