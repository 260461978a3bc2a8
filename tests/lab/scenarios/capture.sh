# Captures, verbatim, everything that a program could read of a machine with one
# volume of each kind: the fixtures of the tests that need no guest.
# They land in $OUT/machine; to renew tests/fixtures, look at them and copy.
# Nothing is judged here: volumes.sh makes the same machine and compares.
#
# Where lvm was not content, NAME.txt holds its exit status and what it said on
# standard error, NAME.json what it printed all the same.
#
# LAB_DISKS=3
source "$repo/tests/lab/guest/lab.sh"

machine=$OUT/machine

# As src/source/lvm.rs asks; a few fields more do no harm to its parser.
settings='global{wait_for_locks=0 units="b" suffix=0} report{compact_output=0 compact_output_cols="" binary_values_as_numeric=1 time_format="%s" mark_hidden_devices=0 list_item_separator=","} log{report_command_log=0 syslog=0 verbose=0 prefix=""} devices{ignore_suspended_devices=1}'
fields=(
    --configreport vg -o vg_name,vg_uuid,vg_size,vg_free,vg_extent_size,vg_missing_pv_count,vg_tags
    --configreport pv -o pv_name,pv_uuid,pv_size,pv_free,pv_major,pv_minor,pv_missing
    --configreport lv -o lv_name,lv_uuid,lv_attr,lv_size,origin,pool_lv,data_percent,metadata_percent,copy_percent,lv_health_status,lv_time,lv_tags,lv_when_full,lv_parent
    --configreport seg -o lv_uuid,segtype,seg_start_pe,seg_size_pe,stripes,stripe_size,chunk_size,seg_pe_ranges
    --configreport pvseg -o pv_uuid,pvseg_start,pvseg_size,lv_uuid
)
policies=(activation/monitoring
    activation/{snapshot,thin_pool}_autoextend_{threshold,percent})

# ask NAME FORMAT SETTINGS [AS…]: LVM's own report, by a program that begins with AS….
ask() {
    local file=$machine/$1 format=$2 settings=$3 status=0
    shift 3
    env -i PATH="$PATH" LC_ALL=C LVM_SUPPRESS_FD_WARNINGS=1 LVM_SYSTEM_DIR="$LVM_SYSTEM_DIR" "$@" \
        lvm fullreport -a --reportformat "$format" --config "$settings" "${fields[@]}" \
        >"$file.json" 2>"$TMPDIR/said" || status=$?
    [[ -s $file.json ]] || rm "$file.json"
    if ((status != 0)) || [[ -s $TMPDIR/said ]]; then
        { echo "exit $status"; cat "$TMPDIR/said"; } >"$file.txt"
    fi
}

# One line per file: its path, a tab, its content on one line.
# An entry of slaves/ or holders/ is a line too: its name is all that it says.
read_sysfs() {
    local block file content
    for block in /sys/block/*; do
        for file in "$block"/{dev,size,diskseq,removable,ro} "$block"/dm/{name,uuid,suspended} \
            "$block"/{slaves,holders}/* "$block"/*/partition "$block"/*/{dev,size} \
            "$block"/queue/{rotational,scheduler,iostats,logical_block_size,read_ahead_kb} \
            "$block"/device/{model,wwid}; do
            if [[ -f $file ]]; then
                content=
                read -r -d '' content <"$file" || true
                printf '%s\t%s\n' "$file" "${content//$'\n'/ }"
            elif [[ -L $file ]]; then
                printf '%s\t\n' "$file"
            fi
        done
    done
}

# What the volumes alone do not show: tags, a file system in use, a path with a blank, a bind.
use_them() {
    modules ext4
    vgchange -qq --addtag production vg0
    lvchange -qq --addtag nightly --addtag keep_7 vg0/data
    mkfs.ext4 -q /dev/vg0/striped
    mkdir "/mnt/back up" /mnt/part
    mount /dev/vg0/striped "/mnt/back up"
    mkdir "/mnt/back up/part"
    mount --bind "/mnt/back up/part" /mnt/part
}

capture_machine() {
    local file
    for file in diskstats vmstat stat uptime devices self/mountinfo; do
        cat "/proc/$file" >"$machine/${file##*/}"
    done
    dmsetup info -c --noheadings --separator $'\t' -o major,minor,name,uuid >"$machine/dmsetup-info"
    dmsetup status --noflush >"$machine/dmsetup-status"
    dmsetup table >"$machine/dmsetup-table"
    read_sysfs >"$machine/sysfs"
    lvs -o+uuid,data_percent,metadata_percent >"$machine/lvs"
    lvmconfig --type full "${policies[@]}" >"$machine/lvmconfig.txt"
    { uname -srm; lvm version; } >"$machine/versions"
}

# Five ticks, in which the origin is written to and its snapshot fills.
capture_recording() {
    if [[ ! -x $COWBELL ]]; then
        echo "no record.cowbell: $COWBELL is not there"
        return
    fi
    : >/mnt/cowbell.toml
    "$COWBELL" record --config /mnt/cowbell.toml --for 5s "$machine/record.cowbell" &
    local piece
    for piece in 1 2 3 4; do
        sleep 1
        dd if=/dev/urandom of=/dev/vg0/data bs=64k count=20 seek=$((400 + 20 * piece)) conv=fsync status=none
    done
    wait $! || { rm -f "$machine/record.cowbell"; echo "no record.cowbell: cowbell does not run here"; }
}

capture_refusals() {
    local lock
    ask refused-nonroot json "$settings" setpriv --reuid=nobody --regid=nogroup --clear-groups
    exec {lock}>/run/lock/lvm/V_vg0
    flock "$lock"
    ask refused-locked json "$settings"
    exec {lock}>&-
    lvm_sees_only '/dev/ubd[ac]'
    ask partial-fullreport json "$settings"
}

make_every_kind_of_volume
use_them
rm -rf "$machine"
mkdir -p "$machine"
capture_machine
ask fullreport json "$settings"
ask fullreport-std json_std "$settings"
ask fullreport-log json "${settings/report_command_log=0/report_command_log=1 command_log_selection=\"log_object_type=vg\"}"
capture_recording
capture_refusals

jq -e '.report | length == 2' "$machine/fullreport.json" >/dev/null || fail "fullreport.json does not tell of two VGs"
du -sb "$machine"/*
