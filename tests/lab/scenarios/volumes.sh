# Does cowbell show of every volume what `lvs` shows, to the hundredth?
# Makes one volume of each kind, asks both at the same moment, prints a line for
# every comparison, then changes the machine and asks again.
# Compared: which volumes there are, uuid, origin, pool, lv_size, fill, metadata
# fill, state. Not compared, since lvs has no such words: kind, device.
# LVM's settings for reports are odd, for cowbell alone.
# `volumes lvs` does the part that needs no binary; `volumes source-lvs` has cowbell ask LVM alone.
#
# LAB_DISKS=3
source "$repo/tests/lab/guest/lab.sh"

patience=15    # s that cowbell may take to see a change

# Both speak as lines of "VG/LV<TAB>FIELD<TAB>VALUE", sorted; a value that is not there is "null".
# An lv_attr's letters say the state: see lvs(8).
of_lvs() {
    lvs --reportformat json --units b --nosuffix \
        --config 'report { compact_output=0 binary_values_as_numeric=1 mark_hidden_devices=0 }' \
        -o vg_name,lv_name,lv_uuid,origin,pool_lv,lv_size,data_percent,metadata_percent,lv_attr |
        jq -r '
            def known: if . == "" then "null" else . end;
            def hundredths: if . == "" then "null" else tonumber * 100 | round end;
            def state: .[0:1] as $type | .[4:5] as $state | .[8:9] as $health
                | if $state == "I" or $state == "S" then "invalid"
                  elif $state == "m" or $state == "M" then "merge_failed"
                  elif $health == "F" then "failed"
                  elif $health == "D" then "out_of_data"
                  elif $health == "M" then "read_only"
                  elif $state == "c" or $state == "C" then "needs_check"
                  elif $state == "X" or $health == "X" then "unknown"
                  elif $state == "-" or $state == "i" or $state == "d" then "inactive"
                  elif $state == "s" then "suspended"
                  elif $type == "O" or $type == "S" then "merging"
                  else "ok" end;
            .report[0].lv[] | (.vg_name + "/" + .lv_name) as $name | (.lv_attr | state) as $state
            | { uuid: (.lv_uuid | gsub("-"; "")), origin: (.origin | known), pool: (.pool_lv | known),
                size_bytes: .lv_size, state: $state,
                fill_hundredths: (if $state == "invalid" then "null" else .data_percent | hundredths end),
                metadata_hundredths: (.metadata_percent | hundredths) }
            | to_entries[] | [$name, .key, .value] | @tsv' | sort
}

of_cowbell() {
    curl -fs http://127.0.0.1:2692/api/v1/volumes |
        jq -r '
            def known: if . == null then "null" else . end;
            def hundredths: if . == null then "null" else . * 100 | round end;
            .[] | (.vg + "/" + .lv) as $name
            | { uuid: (.uuid | gsub("-"; "")), origin: (.origin | known), pool: (.pool | known),
                size_bytes: .size_bytes, state: .state,
                fill_hundredths: (.fill_percent | hundredths),
                metadata_hundredths: (.metadata_percent | hundredths) }
            | to_entries[] | [$name, .key, .value] | @tsv' | sort
}

take_both() {
    of_lvs >"$OUT/$1.lvs"
    of_cowbell >"$OUT/$1.cowbell"
    cmp -s "$OUT/$1.lvs" "$OUT/$1.cowbell"
}

# compare WHEN: gives cowbell its time, then prints all, the equal as well.
compare() {
    local volume field lvs cowbell
    in_time "$patience" take_both "$1"
    while IFS=$'\t' read -r volume field lvs cowbell; do
        check "$1: $volume $field" "$lvs" "$cowbell"
    done < <(side_by_side "$OUT/$1.lvs" "$OUT/$1.cowbell")
    check_used "$1"
}

# "VG/LV, FIELD, OF-LVS, OF-COWBELL"; what only one of them knows is "(absent)" at the other.
side_by_side() {
    awk -F'\t' -v OFS='\t' '
        { key = $1 OFS $2; keys[key] }
        FILENAME == ARGV[1] { lvs[key] = $3; next }
        { cowbell[key] = $3 }
        END { for (key in keys)
            print key, (key in lvs ? lvs[key] : "(absent)"), (key in cowbell ? cowbell[key] : "(absent)") }
    ' "$1" "$2" | sort
}

# Where there is a fill, used_bytes must say the same; a thin volume's share is of whole pool chunks.
# A volume in use lies on some PV, and only on PVs that pvs knows in its VG.
check_used() {
    local pvs volumes
    volumes=$(curl -fs http://127.0.0.1:2692/api/v1/volumes)
    check "$1: used_bytes and fill_percent disagree" "" "$(jq -r '.[]
        | select(.fill_percent != null)
        | select(.used_bytes == null or ((100 * .used_bytes / .size_bytes - .fill_percent) | fabs) > 0.02)
        | .vg + "/" + .lv' <<<"$volumes")"
    pvs=$(pvs --reportformat json -o pv_name,vg_name | jq -c '[.report[0].pv[] | .vg_name + " " + (.pv_name | ltrimstr("/dev/"))]')
    check "$1: on no PV, or on none of its VG" "" "$(jq -r --argjson known "$pvs" '.[]
        | select(.state != "inactive")
        | select(.pvs == [] or any(.vg + " " + (.pvs[] | ltrimstr("/dev/")); IN($known[]) | not))
        | .vg + "/" + .lv' <<<"$volumes")"
}

change_the_machine() {
    dd if=/dev/urandom of=/dev/vg0/data bs=64k count=200 seek=400 conv=fsync status=none
    dd if=/dev/urandom of=/dev/vg0/thin bs=64k count=40 seek=500 conv=fsync status=none
    lvremove -qq -f vg0/data_overfilled
    lvchange -ay vg0/asleep
    lvchange -ay -K vg0/thin_skipped
    new_volume -s -L 16M -n linear_late vg0/linear
    dmsetup suspend --noflush vg0-striped
    sync
    sleep 2    # thin metadata is committed within a second
}

make_every_kind_of_volume
if [[ ${1:-} == lvs ]]; then
    of_lvs
    change_the_machine
    of_lvs | awk -F'\t' '$2 == "state"'
    exit
fi
if [[ ${1:-} == source-lvs ]]; then
    printf '[lvm]\nsource = "lvs"\n' >/mnt/cowbell.toml
    patience=30    # LVM is asked every 10 s
else
    : >/mnt/cowbell.toml
fi
# What an administrator's lvm.conf may say of reports.
cp -a /mnt/lvm /mnt/odd
cat >>/mnt/odd/lvmlocal.conf <<-'END'
	report { headings=0 binary_values_as_numeric=0 prefixes=1 quoted=0 list_item_separator=";" compact_output=1 time_format="%F" buffered=0 aligned=0 columns_as_rows=1 separator="|" }
	global { units="s" suffix=1 si_unit_consistency=0 }
	log { command_names=1 prefix="lvm: " verbose=3 silent=1 }
	END
LVM_SYSTEM_DIR=/mnt/odd start_cowbell
compare "at first"
change_the_machine
compare "changed"
dmsetup resume vg0-striped
compare "resumed"
stop_cowbell
finish
