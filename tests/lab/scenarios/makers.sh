# Which program made a snapshot: is it seen of a shell script, a Perl script, a wrapper, a thin snapshot, and by hand? Is
# no word of a command line anywhere in what is kept, recorded or logged?
source "$repo/tests/lab/guest/lab.sh"

marker=geheim-4711

make_host() {
    modules dm-snapshot dm-thin-pool
    # As on real disks, lvcreate takes a while.
    slow_disks 5
    new_group vg0 /dev/mapper/slow*
    new_volume -L 100M -n data vg0
    new_volume --type thin-pool -L 100M -n pool vg0
    new_volume -V 100M --thinpool vg0/pool -n thin
}

# The kernel keeps fifteen bytes of a name: the first script's has more.
make_scripts() {
    cat >/mnt/nightly-backup.sh <<-'END'
	#!/bin/bash
	lvcreate -qq -y -s -L 12M -n "$1" vg0/data
	true
	END
    cat >/mnt/by-perl.pl <<-'END'
	#!/usr/bin/perl
	system("lvcreate -qq -y -s -L 12M -n $ARGV[0] /dev/vg0/data 2>&1");
	END
    cat >/mnt/thin.sh <<-'END'
	#!/bin/sh
	timeout 60 nice lvcreate -qq -y -s -kn -n "$1" vg0/thin
	true
	END
    chmod +x /mnt/*.sh /mnt/*.pl
}

# program LV: of the job of that snapshot.
program() {
    curl -fs "$api/jobs" | jq -r "[.[] | select(.lv == \"$1\")][0].program"
}

program_is() {
    [[ $(program "$1") == "$2" ]]
}

# made WHAT LV EXPECTED COMMAND…: a snapshot by that command; who does cowbell say it was?
made() {
    "${@:4}" >>"$OUT/lvm.log" 2>&1 || fail "$1: $(tail -n 3 "$OUT/lvm.log")"
    in_time "${patience:-3}" program_is "$2" "$3"
    check "$1" "$3" "$(program "$2")"
    in_time 2 page_has "$2" "Made by $3"
    check "its page" yes "$(page_has "$2" "Made by $3" && echo yes)"
    lvremove -qq -f "vg0/$2" >>"$OUT/lvm.log" 2>&1
}

page_has() {
    local id
    id=$(curl -fs "$api/jobs" | jq "[.[] | select(.lv == \"$1\")][0].id")
    curl -fs "http://127.0.0.1:2692/jobs/$id" | grep -F -- "$2" >/dev/null
}

make_host
make_scripts
: >/mnt/cowbell.toml
start_cowbell
await_ticks 2
made "by a script" one "nightly-backup." /mnt/nightly-backup.sh one "$marker"
made "by a Perl script" two by-perl.pl /mnt/by-perl.pl two "$marker"
made "by hand" three lvcreate lvcreate -qq -y -s -L 12M -n three --addtag "t" vg0/data
made "by lvm" four lvm lvm lvcreate -qq -y -s -L 12M -n four vg0/data
# That it is a snapshot is known when LVM has said so.
patience=20 made "a thin one, by wrappers in a script" five thin.sh /mnt/thin.sh five "$marker"
for number in 1 2 3 4; do
    lvcreate -qq -y -s -L 12M -n "quick$number" vg0/data >>"$OUT/lvm.log" 2>&1
    lvremove -qq -f "vg0/quick$number" >>"$OUT/lvm.log" 2>&1
done
await_ticks 2
curl -fs "$api/jobs" | jq -c '[.[] | [.lv, .program]]' >"$OUT/programs"
echo "figure of 4 quick ones the program was seen: $(curl -fs "$api/jobs" | jq '[.[] | select(.lv | startswith("quick")) | select(.program == "lvcreate")] | length'), of $(curl -fs "$api/jobs" | jq '[.[] | select(.lv | startswith("quick"))] | length') that were seen"
stop_cowbell
"$COWBELL" record --config /mnt/cowbell.toml /mnt/recording >/dev/null 2>&1 &
recorder=$!
sleep 4
/mnt/by-perl.pl six "$marker"
sleep 2
kill -TERM "$recorder"
wait "$recorder" || true
check "the database has the program" yes "$(strings -a /mnt/state/* | grep by-perl.pl >/dev/null && echo yes)"
check "the recording has the program" yes "$(zcat /mnt/recording | grep -F '(by-perl.pl)' >/dev/null && echo yes)"
check "a word of a command line is in the database" "" "$(strings -a /mnt/state/* | grep -F "$marker" || true)"
check "a word of a command line is in the recording" "" "$(zcat /mnt/recording | grep -F "$marker" || true)"
check "a word of a command line is in the log" "" "$(grep -F "$marker" "$OUT/cowbell.log" || true)"
finish
