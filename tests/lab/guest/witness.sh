# A witness of what the disks did, that shares nothing with cowbell: five times a second or so,
# the kernel's counters of each device, with its diskseq, which no two devices share, be
# their number, name and uuid the same. Then cowbell's rates are held against it, tick by tick.
# Both are left in $OUT. Scenarios source this after lab.sh.

# Where the guest stood still, as it does on a busy machine, the witness did not look either: both are more by so much.
slack=200    # ms by which both may have looked apart from the time that they say, when the guest is busy
jitter=100   # ms by which the length of a tick may differ from what its times say
pause=150    # ms from one look to the next

# Lines of "STARTED ENDED DISKSEQ ID READ WRITTEN": ms, ms, bytes, bytes. ID is the device-mapper's
# uuid, else the name. Within a folder of sysfs all files are of one device, or cannot be read.
witness() {
    local folder started sequence uuid id stat entry silence
    declare -A ids
    exec {silence}<> <(:)
    while true; do
        for folder in /sys/block/dm-* /sys/block/ubd[a-z] /sys/block/sd[a-z]; do
            started=$((${EPOCHREALTIME/./} / 1000))
            { cd "$folder" && read -r sequence <diskseq && read -ra stat <stat; } 2>/dev/null || continue
            id=${ids[$sequence]:-}
            if [[ -z $id ]]; then
                id=${folder##*/}
                uuid=
                [[ $id != dm-* ]] || { read -r uuid <dm/uuid; } 2>/dev/null || true
                id=${uuid:-$id}
                [[ $id == dm-* ]] || ids[$sequence]=$id
            fi
            echo "$started $((${EPOCHREALTIME/./} / 1000)) $sequence $id $((stat[2] * 512)) $((stat[6] * 512))"
        done
        read -rt "0.$pause" -u "$silence" entry || true
    done
}

start_witness() {
    witness >"$OUT/witness" &
    witness=$!
}

stop_witness() {
    kill "$witness"
    wait "$witness" || true
}

# Asks cowbell for the ticks of each device that was witnessed: lines of "ID WHAT TICK RATE", ms and
# bytes a second; "-" is a gap. Only the time in which a device was there is asked for.
rates_of_cowbell() {
    local id first last what
    awk '{ if (!($4 in first)) first[$4] = $1; last[$4] = $2 }
        END { for (id in first) print id, int(first[id] / 1000) - 2, int(last[id] / 1000) + 3 }' "$OUT/witness" |
        while read -r id first last; do
            for what in read written; do
                printf '%s\t%s\turl = "http://127.0.0.1:2692/api/v1/series?of=device:%s&metric=%s_bytes&points=10000&from=%(%FT%TZ)T&to=%(%FT%TZ)T"\n' \
                    "$id" "$what" "$id" "$what" "$first" "$last"
            done
        done >/mnt/asked
    cut -f 3 /mnt/asked | curl -s -K - | jq -rn --rawfile asked <(cut -f 1,2 /mnt/asked) '
        def ms: capture("(?<s>[^.Z]+)(?<f>\\.[0-9]+)?Z") | (.s + "Z" | fromdate) * 1000 + ("0" + (.f // "") | tonumber * 1000 | round);
        ($asked | split("\n")) as $asked
        | foreach inputs as $answer (-1; . + 1; . as $number | select($answer | type == "array")
            | $answer[] | "\($asked[$number] | gsub("\t"; " ")) \(.t | ms) \(.avg // "-")")'
}

# judge_rates DISK…: holds cowbell's ticks against the witness, and prints a line for each that cannot be:
# above what all DISKs did in that time and a little longer; above or below what the device did itself; or a rate
# although the device at its end is another than at its beginning. Figures go to standard error.
judge_rates() {
    rates_of_cowbell >"$OUT/rates"
    awk -v usual_slack="$slack" -v usual_jitter="$jitter" -v pause="$pause" -v disks="$*" '
        # The last row of id that ended by `at`, and the first that started at it or later; 0 where there is none.
        function before(id, at,  low, high, middle) {
            for (high = rows[id] + 1; high - low > 1;) {
                middle = int((low + high) / 2)
                if (ended[id, middle] <= at) low = middle; else high = middle
            }
            return low + 0
        }
        function after(id, at,  row) {
            for (row = before(id, at) + 1; row <= rows[id] && started[id, row] < at; row++);
            return row <= rows[id] ? row : 0
        }
        function is_same(id, a, b) { return a && b && sequence[id, a] == sequence[id, b] }
        function grown(id, what, a, b) { return bytes[id, what, b] - bytes[id, what, a] }
        # Notes a time in which nothing was seen, longer than it should be.
        function note_stillness(from, to, usual,  second) {
            if (to - from - usual <= usual_jitter) return
            for (second = int(from / 1000); second <= int(to / 1000); second++)
                if (still[second] < to - from - usual) still[second] = to - from - usual
        }
        function longest_stillness(from, to,  second, longest) {
            for (second = int(from / 1000); second <= int(to / 1000); second++) if (longest < still[second]) longest = still[second]
            return longest + 0
        }
        function wrong(why, limit) {
            printf "%s %s at %s: %.0f bytes/s for %d ms, %s (%.0f bytes)\n", $1, $2, $3, $4, $3 - from, why, limit
        }
        BEGIN { count = split(disks, disk, " ") }
        FILENAME == ARGV[1] {
            if (looked) note_stillness(looked, $1, pause)
            note_stillness($1, looked = $2, 0)
            row = ++rows[$4]
            started[$4, row] = $1; ended[$4, row] = $2; sequence[$4, row] = $3
            bytes[$4, "read", row] = $5; bytes[$4, "written", row] = $6
            next
        }
        { from = last[$1, $2]; last[$1, $2] = $3; ids[$1] }
        $4 == "-" { gaps++; next }
        !from { next }
        {
            ticks++
            stood = longest_stillness(from - usual_slack, $3 + usual_slack)
            stills += stood > 0
            slack = usual_slack + stood
            jitter = usual_jitter + stood
            least = $4 * ($3 - from - jitter) / 1000
            most = $4 * ($3 - from + jitter) / 1000
            if ($4 < 0) wrong("negative", 0)
            limit = 0
            for (i = 1; i <= count; i++) {
                a = before(disk[i], from - slack); b = after(disk[i], $3 + slack)
                limit += a && b ? grown(disk[i], $2, a, b) : 1e18
            }
            if (least > limit) wrong("more than the disks", limit)
            a = before($1, from - slack); b = after($1, $3 + slack)
            if (is_same($1, a, b)) {
                upper++
                if (least > grown($1, $2, a, b)) wrong("more than it did", grown($1, $2, a, b))
            } else if (is_same($1, before($1, from), after($1, from)) && is_same($1, before($1, $3), after($1, $3)) \
                && !is_same($1, before($1, from), before($1, $3))) wrong("another device than before", 0)
            a = after($1, from + slack); b = before($1, $3 - slack)
            if (is_same($1, a, b) && b > a) {
                lower++
                if (most < grown($1, $2, a, b)) wrong("less than it did", grown($1, $2, a, b))
            }
        }
        END {
            for (id in ids) devices++
            printf "figure rates judged: %d of %d devices, %d bounded above and %d below by the device'"'"'s own counters, %d more loosely, as the guest stood still; %d gaps\n",
                ticks, devices, upper, lower, stills, gaps >"/dev/stderr"
        }' "$OUT/witness" "$OUT/rates"
}

# check_rates DISK…: no tick may be wrong; the first that are, are printed.
check_rates() {
    judge_rates "$@" >"$OUT/wrong-rates"
    check "wrong rates (see wrong-rates)" 0 "$(wc -l <"$OUT/wrong-rates")"
    head -n 4 "$OUT/wrong-rates" | sed 's/^/info  /'
}
