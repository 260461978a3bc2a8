# Captures, verbatim, everything that a program could read of a machine with one
# volume of each kind: the fixtures of the tests that need no guest.
# They land in $OUT/machine; to renew tests/fixtures, look at them and copy.
# Nothing is judged here: volumes.sh makes the same machine and compares.
#
# LAB_DISKS=3
source "$repo/tests/lab/guest/lab.sh"

machine=$OUT/machine

# One line per file: its path, a tab, its content on one line.
# An entry of slaves/ or holders/ is a line too: its name is all that it says.
read_sysfs() {
    local block file content
    for block in /sys/block/*; do
        for file in "$block"/{dev,size,diskseq,removable,ro} "$block"/dm/{name,uuid,suspended} \
            "$block"/{slaves,holders}/* "$block"/*/partition "$block"/*/{dev,size} \
            "$block"/queue/{rotational,iostats,logical_block_size,read_ahead_kb} \
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

# Without -a it leaves out the hidden volumes, whose uuids pvseg and seg name all the same.
read_fullreport() {
    lvm fullreport "$@" --reportformat json \
        --config 'global{wait_for_locks=0 units="b" suffix=0} report{compact_output=0 compact_output_cols="" binary_values_as_numeric=1 time_format="%s" mark_hidden_devices=0 list_item_separator=","} log{report_command_log=0 syslog=0 verbose=0 prefix=""} devices{ignore_suspended_devices=1}' \
        --configreport vg -o vg_name,vg_uuid,vg_attr,vg_size,vg_free,vg_extent_size,vg_free_count,vg_seqno,vg_missing_pv_count \
        --configreport pv -o pv_name,pv_uuid,pv_size,pv_free,pv_major,pv_minor,pv_missing,vg_name \
        --configreport lv -o vg_name,lv_name,lv_uuid,lv_attr,lv_size,origin,origin_uuid,origin_size,pool_lv,data_percent,metadata_percent,lv_snapshot_invalid,lv_merge_failed,lv_check_needed,lv_when_full,lv_health_status,lv_time,lv_tags,lv_role,lv_layout,lv_kernel_major,lv_kernel_minor \
        --configreport pvseg -o pv_uuid,pvseg_start,pvseg_size,lv_uuid \
        --configreport seg -o lv_uuid,segtype,stripes,stripe_size,chunk_size
}

make_every_kind_of_volume
mkdir -p "$machine"
for file in diskstats vmstat stat uptime devices mounts; do
    cat "/proc/$file" >"$machine/$file"
done
dmsetup info -c --noheadings --separator $'\t' -o major,minor,name,uuid >"$machine/dmsetup-info"
dmsetup status --noflush >"$machine/dmsetup-status"
dmsetup table >"$machine/dmsetup-table"
read_sysfs >"$machine/sysfs"
lvs -o+uuid,data_percent,metadata_percent >"$machine/lvs"
read_fullreport >"$machine/fullreport.json"
read_fullreport -a >"$machine/fullreport-all.json"
{ uname -srm; lvm version; } >"$machine/versions"

jq -e '.report | length == 2' "$machine/fullreport.json" >/dev/null || fail "fullreport.json does not tell of two VGs"
du -sb "$machine"/*
