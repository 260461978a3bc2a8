# Linear or striped over eight PVs, and which of them work? Asked in 2014 with bonnie++: a linear volume kept one PV of
# eight busy; 455/239/510 MB/s writing, rewriting and reading against 1181/836/1983 striped. Here: disks that serve one
# request of up to 64 KiB at a time, each in 10 ms. A run is a job, and the phases of bonnie++ are its phases; two ticks a
# second, since the shortest takes two seconds. Once more without cowbell, to show what watching costs.
# `experiment-striped REPEATS`.
#
# LAB_DISKS=1
# LAB_MEM=2600M
# LAB_TIMEOUT=7200
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/experiment.sh"

repeats=${1:-3}
size=48    # MiB; bonnie++ is told that the memory is half of that

make_machine() {
    mechanical_disks 128 8
    modules dm-mod ext4
    new_group vg0 /dev/sd[a-h]
    new_volume -L 96M -n linear vg0 /dev/sda
    new_volume -L 96M -i 8 -I 64k -n striped vg0
    make_file_system /dev/vg0/linear /mnt/linear
    make_file_system /dev/vg0/striped /mnt/striped
    disk_ticks 1
}

bonnie() {
    bonnie++ -d "/mnt/$1" -u root -D -f -n 0 -s "$size:1048576" -r $((size / 2)) -m "$1"
}

# phase_named WORDS PHASE: what bonnie++ says as it begins a phase after this one; what it says else is no phase. When
# it has read it sleeps, so that those who will seek are there.
phase_named() {
    case $1 in
    'Writing intelligently') echo writing ;;
    Rewriting) echo rewriting ;;
    'Reading intelligently') echo reading ;;
    done) [[ $2 != reading ]] || echo sleeping ;;
    "start 'em") echo seeking ;;
    esac
}

# phases watched|unwatched VARIANT: by what bonnie++ says on standard input while it runs: each a phase of its job, if
# cowbell watches. It began when it was said, however long telling it takes.
phases() {
    local letter said= name phase=
    while IFS= read -r -N 1 letter; do
        [[ $letter == [.$'\n'] ]] || { said+=$letter; continue; }
        name=$(phase_named "$said" "$phase")
        said=
        [[ -n $name ]] || continue
        phase=$name
        [[ $name != seeking ]] || touch /mnt/seeking
        [[ $1 == unwatched ]] || "$COWBELL" job phase "bonnie++ $2" "$name" --at "$(now)" >>"$OUT/runs.log" 2>&1
    done
    rm -f /mnt/seeking
}

now() {
    local at=$EPOCHREALTIME
    TZ=UTC printf '%(%FT%T)T.%sZ' "${at%.*}" "${at#*.}"
}

# run_bonnie watched|unwatched VARIANT, the former under `cowbell run`; what it says is heard to the end.
run_bonnie() {
    local words hearing command=(bonnie "$2")
    sync
    exec {words}> >(tee -a "$OUT/bonnie.log" | phases "$1" "$2")
    hearing=$!
    [[ $1 == unwatched ]] || command=("$COWBELL" run --name "bonnie++ $2" --set 'bonnie++' --variant "$2" --settle 2s
        --drop-caches -- bash -c "$(declare -f bonnie); size=$size; bonnie $2")
    [[ $1 == watched ]] || { echo 3 >/proc/sys/vm/drop_caches; sleep 2; }
    "${command[@]}" 2>&"$words" >>"$OUT/$1-$2.csv"
    exec {words}>&-
    wait "$hearing"
}

# bonnie++'s own figures, in KiB/s: writing, rewriting, reading.
means() {
    awk -F, 'NF > 20 { n++; w += $12; r += $14; i += $18 } END { printf "%.0f | %.0f | %.0f", w / n, r / n, i / n }' "$1"
}

# first_of VARIANT: the number of its first run.
first_of() {
    curl -fs "$api/jobs" | jq --arg variant "$1" '[.[] | select(.label.variant == $variant)] | last.id'
}

# phases_of JOB: both of cowbell's tables.
phases_of() {
    "$COWBELL" job show "$1" --markdown | awk '/^\| Phase/ { if (n++) print ""; table = 1 } !NF { table = 0 } table'
}

# Only its writing is direct: what it read is forgotten at once, so that no cache answers; but while it seeks, which is not
# asked here, and would take minutes.
forget_what_was_read() {
    while sleep 0.2; do
        [[ -e /mnt/seeking ]] || echo 1 >/proc/sys/vm/drop_caches
    done
}

type -P bonnie++ >/dev/null || fail "needs bonnie++: apt-get install bonnie++"
make_machine
forget_what_was_read &
for ((repeat = 0; repeat < repeats; repeat++)); do
    for variant in linear striped; do run_bonnie unwatched "$variant"; done
done
start_experiment 'interval = "500ms"'
for ((repeat = 0; repeat < repeats; repeat++)); do
    for variant in linear striped; do run_bonnie watched "$variant"; done
done
for variant in linear striped; do as_many 'bonnie++' "$variant" "$repeats"; done
pvs=()
for disk in sd{a..h}; do pvs+=("$disk busy"); done
for phase in writing rewriting reading; do
    compare "${phase^}" 'bonnie++' "$phase: duration" "$phase: read speed mean" "$phase: write speed mean" \
        "${pvs[@]/#/$phase: }"
done
compare 'The whole run' 'bonnie++' duration 'bytes read' 'bytes written' "${pvs[@]}"
for variant in linear striped; do
    note "#### What each phase of the first $variant run did"
    note "$(phases_of "$(first_of "$variant")")"
done
note '#### bonnie++'\''s own figures in KiB/s, with and without cowbell'
note "| | writing | rewriting | reading |
|---|--:|--:|--:|
| linear, without cowbell | $(means "$OUT/unwatched-linear.csv") |
| linear, with cowbell | $(means "$OUT/watched-linear.csv") |
| striped, without cowbell | $(means "$OUT/unwatched-striped.csv") |
| striped, with cowbell | $(means "$OUT/watched-striped.csv") |"
finish_experiment
