# Does cowbell mean the right group, volume and mount? A second group of the same name is there, and a group inside a
# guest's disk; a snapshot is made without LVM; partitions, LUKS and a loop device lie between a snapshot and its mount;
# volume and group are renamed. The queries of all that must write nothing below /etc/lvm.
#
# LAB_DISKS=4
source "$repo/tests/lab/guest/lab.sh"

# A field of a volume, by its UUID: of UUID FILTER.
of() {
    curl -fs "$api/volumes" | jq -r --arg uuid "$1" ".[] | select(.uuid == \$uuid) | $2"
}

names() {
    curl -fs "$api/volumes" | jq -r '[.[] | "\(.vg)/\(.lv)"] | sort | join(" ")'
}

says() {
    [[ $("${@:2}") == "$1" ]]
}

# expect SECONDS WHAT EXPECTED COMMAND…
expect() {
    in_time "$1" says "$3" "${@:4}"
    check "$2" "$3" "$("${@:4}")"
}

# A device that comes has LVM asked again.
something_changes() {
    dmsetup create "change$((++changes))" --table '0 8 zero'
}

# The open alerts about a volume.
sentences() {
    curl -fs "$api/alerts" | jq -r --arg lv "$1" '.[] | select(.lv == $lv and .cleared_at == null) | .sentence'
}

is_alerted() {
    [[ -n $(sentences "$1") ]]
}

free_of() {
    curl -fs http://127.0.0.1:2692/metrics | sed -n "s/^cowbell_group_free_bytes{vg=\"$1\"} //p"
}

below_etc() {
    (cd /mnt/lvm && find . -type f -exec md5sum {} + | sort)
}

two_groups_of_one_name() {
    local stranger command
    stranger=$(vgs --noheadings -o vg_uuid -S 'pv_name=/dev/ubda' 2>/dev/null | tr -d ' ')
    something_changes
    expect 20 "two groups: volumes" "vg0/data vg0/data_snapshot vg0@${stranger:0:6}/archive" names
    check "two groups: free space of the one in use" \
        "$(vgs --noheadings --units b --nosuffix -o vg_free -S 'pv_name=/dev/ubdb' 2>/dev/null | tr -d ' ')" "$(free_of vg0)"
    dd if=/dev/urandom of=/dev/vg0/data bs=64k count=860 oflag=direct status=none
    in_time 10 is_alerted data_snapshot
    check "two groups: no lvextend is advised" "" "$(sentences data_snapshot | grep -o lvextend || true)"
    command=$(sentences data_snapshot | grep -o 'vgrename [^`]*' | head -n 1)
    check "two groups: the other one is to be renamed" "vgrename $stranger vg0_other" "$command"
    check "two groups: LVM accepts it" 0 "$($command >>"$OUT/lvm.log" 2>&1; echo $?)"
    something_changes
    expect 20 "renamed: volumes" "vg0/data vg0/data_snapshot vg0_other/archive" names
    sleep 2
    command=$(sentences data_snapshot | grep -o 'lvextend [^`]*' | head -n 1)
    check "renamed: LVM accepts \"$command\"" 0 "$($command >>"$OUT/lvm.log" 2>&1; echo $?)"
}

group_in_a_guests_disk() {
    new_volume -L 60M -n vm vg0
    lvm_sees_only '/dev/ubd[ab]' '/dev/vg0/vm'
    sed -i 's/ use_devicesfile/ scan_lvs=1 use_devicesfile/' /mnt/lvm/lvmlocal.conf
    new_group guest /dev/vg0/vm
    new_volume -L 20M -n root guest
    vgchange -an guest >>"$OUT/lvm.log" 2>&1
    something_changes
    expect 20 "guest: volumes" "vg0/data vg0/data_snapshot vg0/vm vg0_other/archive" names
    sleep 5
    check "guest: volumes, later" "vg0/data vg0/data_snapshot vg0/vm vg0_other/archive" "$(names)"
    check "guest: its disk is no PV" "" "$(curl -fs "$api/devices" | jq -r '.[].label | select(contains("guest"))')"
}

layers_up_to_the_mount() {
    local snapshot sectors
    snapshot=$(lv_field vg0/data_snapshot lv_uuid)
    sectors=$(blockdev --getsz /dev/vg0/data)
    dmsetup create part --uuid "part1-LVM-$snapshot" --table "0 $((sectors - 2048)) linear /dev/vg0/data_snapshot 2048"
    dmsetup create luks --uuid "CRYPT-LUKS2-1" --table "0 $((sectors - 4096)) linear /dev/mapper/part 2048"
    mkfs.ext4 -q /dev/mapper/luks
    mkdir -p /mnt/b
    mount /dev/mapper/luks /mnt/b
    expect 10 "layers: the snapshot's mount" /mnt/b of "$snapshot" '.mounted_on | join(" ")'
    check "layers: the origin has none" "" "$(of "$(lv_field vg0/data lv_uuid)" '.mounted_on | join(" ")')"
    umount /mnt/b
    dmsetup remove luks
    dmsetup remove part
    losetup -o $((4096 * 512)) /dev/loop0 /dev/vg0/data_snapshot
    mount /dev/loop0 /mnt/b
    expect 10 "loop device: the snapshot's mount" /mnt/b of "$snapshot" '.mounted_on | join(" ")'
    umount /mnt/b
    losetup -d /dev/loop0
}

# The jobs of a snapshot that is gone have the present name of its origin.
origin_is_renamed() {
    new_volume -s -L 20M -n data_snapshot2 vg0/data
    expect 10 "rename: a job" '"data"' origin_of data_snapshot2
    lvremove -fy vg0/data_snapshot2 >>"$OUT/lvm.log" 2>&1
    expect 10 "rename: it ends" true ended data_snapshot2
    lvrename vg0 data moved >>"$OUT/lvm.log" 2>&1
    expect 10 "rename: the job's origin" '"moved"' origin_of data_snapshot2
    lvrename vg0 moved data >>"$OUT/lvm.log" 2>&1
    expect 10 "rename: the job's origin, back" '"data"' origin_of data_snapshot2
}

origin_of() {
    curl -fs "$api/jobs" | jq --arg lv "$1" '.[] | select(.lv == $lv) | .origin'
}

ended() {
    curl -fs "$api/jobs" | jq --arg lv "$1" '.[] | select(.lv == $lv) | .ended_at != null'
}

outside_lvm() {
    dmsetup create area --table '0 40960 linear /dev/ubdd 0'
    dmsetup create base --table '0 204800 snapshot-origin /dev/ubdc'
    dmsetup create outside --table '0 204800 snapshot /dev/ubdc /dev/mapper/area P 8'
    dd if=/dev/urandom of=/dev/mapper/outside bs=64k count=290 oflag=direct status=none
    expect 10 "outside: shown" "mapper snapshot base" of dm:outside '"\(.vg) \(.kind) \(.origin)"'
    in_time 10 is_alerted outside
    check "outside: said so" yes "$(sentences outside | grep -q 'outside LVM' && echo yes)"
    check "outside: no command of LVM" "" "$(sentences outside | grep -oE 'lvextend|vgextend|lvremove' || true)"
    dmsetup remove outside
    dmsetup remove base
    dmsetup remove area
}

renamed() {
    local snapshot
    snapshot=$(lv_field vg0/data_snapshot lv_uuid)
    lvrename vg0 data_snapshot moved >>"$OUT/lvm.log" 2>&1
    vgrename vg0 vg-1 >>"$OUT/lvm.log" 2>&1
    expect 10 "renamed: by its UUID" "vg-1/moved of data" of "$snapshot" '"\(.vg)/\(.lv) of \(.origin)"'
    check "renamed: its job goes on" "moved data null" "$(curl -fs "$api/jobs" |
        jq -r '.[] | select(.kind == "snapshot" and .lv == "moved") | "\(.name) \(.origin) \(.ended_at)"')"
}

changes=0
modules dm-snapshot dm-zero ext4 loop
lvm_sees_only /dev/ubda
new_group vg0 /dev/ubda
new_volume -L 40M -n archive vg0
vgchange -an vg0 >>"$OUT/lvm.log" 2>&1
lvm_sees_only /dev/ubdb
new_group vg0 /dev/ubdb
new_volume -L 100M -n data vg0
new_volume -s -L 60M -n data_snapshot vg0/data
: >/mnt/cowbell.toml
start_cowbell
lvm_sees_only '/dev/ubd[ab]'
two_groups_of_one_name
group_in_a_guests_disk
layers_up_to_the_mount
outside_lvm
origin_is_renamed
renamed
rm -rf /mnt/lvm/backup /mnt/lvm/archive
before=$(below_etc)
something_changes
sleep 8
check "files that cowbell's queries changed below /etc/lvm" "" "$(diff <(echo "$before") <(below_etc) || true)"
stop_cowbell
finish
