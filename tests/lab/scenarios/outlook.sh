# Will the backup be done before its snapshot overflows? Three run at once, each reads a file system that is written to
# meanwhile: one has room, the second one's snapshot overflows first, and the third one's is extended as advised. What is said of them in the middle is compared with
# what comes: within its own bounds, or a quarter of the time. What a file system uses is compared with df.
#
# LAB_TIMEOUT=600
source "$repo/tests/lab/guest/lab.sh"

slack=3    # seconds, on either side: what is asked five times a second is seen late on a slow machine

# origin NAME MIB COW: a file system with one file of so many MiB, and its snapshot, mounted.
origin() {
    new_volume -L "$(($2 + 40))M" -n "$1" vg0
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "/dev/vg0/$1"
    mkdir -p "/mnt/$1" "/mnt/$1.snap"
    mount "/dev/vg0/$1" "/mnt/$1"
    dd if=/dev/zero of="/mnt/$1/file" bs=1M count="$2" conv=fsync status=none
    new_volume -s -c 16k -L "$3" -n "$1_snapshot" "vg0/$1"
    mount -o ro,noload "/dev/vg0/$1_snapshot" "/mnt/$1.snap"
}

# paced FILE RATE MODE: reads (<) or writes over (+<) a file, 128 KiB at a time, so many bytes a second; one process, since
# in the guest each new one is dear. It ends with the file, or where that gives an error.
paced() {
    perl -MFcntl -MTime::HiRes=time,sleep -e '
        my ($file, $rate, $mode) = @ARGV;
        sysopen my $handle, $file, $mode eq "<" ? O_RDONLY : O_WRONLY | O_SYNC or die "$file: $!";
        my ($began, $done, $block, $size) = (time, 0, "x" x 131072, -s $handle);
        while ($done < $size) {
            my $moved = $mode eq "<" ? sysread $handle, $block, 131072 : syswrite $handle, $block;
            last unless $moved;
            $done += $moved;
            my $ahead = $began + $done / $rate - time;
            sleep $ahead if $ahead > 0;
        }' "$@" 2>>"$OUT/paced.log"
    date +%s.%N >"/mnt/ended.$(basename "$(dirname "$1")")"
}

job() {
    curl -fs "$api/jobs" | jq -r --arg lv "$1_snapshot" ".[] | select(.lv == \$lv) | $2"
}

outlook() {
    curl -fs "$api/jobs/$(job "$1" .id)/outlook"
}

# is_half_way NAME FILTER: and something is said.
is_half_way() {
    [[ $(outlook "$1" | jq "(.done != null or .full != null) and $2") == true ]]
}

is_dead() {
    [[ $(job "$1" '.died_at != null') == true ]]
}

# came_as_said WHAT SAID-AT EXPECTED CAME-AT
came_as_said() {
    local verdict
    verdict=$(jq -rn --argjson at "$2" --argjson expected "$3" --argjson came "$4" --argjson slack "$slack" '
        ($came - $at) as $took
        | if $expected == null then "nothing was said"
          elif ($took >= $expected.soonest_s - $slack and $took <= ($expected.latest_s // infinite) + $slack)
              or (($took - $expected.likely_s | fabs) <= $took / 4) then "yes"
          else "after \($took | round) s, but said were \($expected)" end')
    check "$1" yes "$verdict"
    echo "figure $1: said $(jq -c 'if . then map_values(if type == "number" then round else . end) else . end' <<<"$3"), came after $(jq -n "$4 - $2 | round") s"
}

modules dm-snapshot ext4
new_group vg0 /dev/ubda /dev/ubdb
origin roomy 70 200M
origin tight 250 48M
origin short 70 16M
echo 'interval = "500ms"' >/mnt/cowbell.toml
start_cowbell
await_ticks 3
for name in roomy tight; do
    check "what the file system of $name uses" "$(df -B1 --output=used "/mnt/$name.snap" | tail -n 1 | tr -d ' ')" \
        "$(outlook "$name" | jq .left.expected_bytes)"
done

paced /mnt/roomy.snap/file 1000000 "<" & readers=($!)
paced /mnt/roomy/file 400000 "+<" & writers=($!)
paced /mnt/tight.snap/file 1000000 "<" & readers+=($!)
paced /mnt/tight/file 600000 "+<" & writers+=($!)

paced /mnt/short.snap/file 1000000 "<" & short=$!
paced /mnt/short/file 400000 "+<" & writers+=($!)

wait_until 60 "short to be expected to overflow" is_half_way short '.verdict == "full_first" and .remedy.command'
remedy=$(outlook short | jq .remedy)
echo "figure advice: $(outlook short | jq -r .text)"
check "the advised command is enough" true "$(jq .is_enough <<<"$remedy")"
$(jq -r .command <<<"$remedy") >>"$OUT/lvm.log" 2>&1
wait_until 120 "half of roomy to be read" is_half_way roomy '.left.left_bytes * 2 < .left.expected_bytes'
roomy_at=$(date +%s.%N)
roomy=$(outlook roomy)
wait_until 120 "tight to be half full" is_half_way tight '.free_bytes < 25000000'
tight_at=$(date +%s.%N)
tight=$(outlook tight)
check "roomy will be done first" done_first "$(jq -r .verdict <<<"$roomy")"
check "tight will overflow first" full_first "$(jq -r .verdict <<<"$tight")"
check "tight is said to overflow" "snapshot vg0/tight_snapshot" "$(jq -r .overflows <<<"$tight")"
status=$("$COWBELL" status --config /mnt/cowbell.toml) || true
check "status says it" yes "$([[ $status == *"The backup needs about "*" more and will be lost."* ]] && echo yes || echo "$status")"

wait "$short"
check "short lives until it is read" false "$(is_dead short && echo true || echo false)"
echo "figure short: $(jq .added_bytes <<<"$remedy") bytes were added, peak $(job short .peak_fill_percent) %"
wait_until 200 "tight to overflow" is_dead tight
came_as_said "tight overflows" "$tight_at" "$(jq -c .full <<<"$tight")" "$(date -d "$(job tight .died_at)" +%s.%N)"
check "of a dead snapshot nothing is expected" null "$(outlook tight)"
wait "${readers[0]}"
came_as_said "roomy is done" "$roomy_at" "$(jq -c .done <<<"$roomy")" "$(cat /mnt/ended.roomy.snap)"
check "roomy lives" false "$(is_dead roomy && echo true || echo false)"
kill "${writers[@]}" "${readers[1]}" 2>/dev/null || true
wait "${writers[@]}" "${readers[1]}" 2>/dev/null || true
umount /mnt/roomy.snap /mnt/short.snap
lvremove -qq -f vg0/roomy_snapshot >>"$OUT/lvm.log" 2>&1
in_time 2 eval '[[ $(outlook roomy) == null ]]'
check "of one that is over nothing is expected" null "$(outlook roomy)"
stop_cowbell
finish
