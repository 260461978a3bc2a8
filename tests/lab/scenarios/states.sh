# Does each state that is worse than full have one grade everywhere: in the volume's verdict, an open alert, `cowbell status`,
# and the volume's page? And is a volume that is not at risk never unknown?
#
# LAB_DISKS=4
source "$repo/tests/lab/guest/lab.sh"

make_volumes() {
    modules dm-snapshot dm-thin-pool dm-raid raid1 dm-mirror
    echo "0 $(blockdev --getsz /dev/ubdc) linear /dev/ubdc 0" | dmsetup create pvc
    lvm_sees_only '/dev/ubd[abd]' /dev/mapper/pvc
    new_group -s 1M vg0 /dev/ubda /dev/ubdb
    new_group -s 1M vg1 /dev/mapper/pvc
    new_group -s 1M away /dev/ubdd
    lvm_does <<-END
	lvcreate -L 32M -n mysql vg0 /dev/ubda
	lvcreate -s -L 8M -n mysql_snapshot vg0/mysql /dev/ubda
	lvcreate -L 32M -n cut vg0 /dev/ubda
	lvcreate -s -L 24M -n cut_snapshot vg0/cut /dev/ubda
	lvcreate --type raid1 -m 1 -L 16M -n mirrored vg0 /dev/ubda /dev/ubdb
	lvcreate -L 16M -n asleep vg0 /dev/ubda
	lvcreate --type thin-pool -Zn -c 64k -L 704M --poolmetadatasize 2M -n pool vg0 /dev/ubdb
	lvcreate -V 640M --thinpool vg0/pool -n thin
	lvcreate -s -n thin_kept vg0/thin
	lvcreate -L 16M -n below vg1
	lvcreate -L 16M -n exported away
	END
    lvchange -an vg0/asleep
    vgchange -an away >>"$OUT/lvm.log" 2>&1
    vgexport away >>"$OUT/lvm.log" 2>&1
    printf '[lvm]\nvgname=vg0\nlvname=mysql\n' >/mnt/mylvmbackup.conf
    wait_until 60 "the mirror to be in sync" in_sync vg0/mirrored
}

# The grade and the word of VG/LV, and its worst open alert of a state.
told_of() {
    curl -fs "$api/volumes" | jq -r --arg name "$1" '.[] | select("\(.vg)/\(.lv)" == $name) | "\(.state) \(.grade)"'
    curl -fs "$api/alerts" | jq -r --arg name "$1" '[.[] | select("\(.vg)/\(.lv)" == $name and .cleared_at == null) | "\(.rule) \(.severity)"] | sort | join(", ")'
}

tells() {
    [[ $(told_of "$1" | paste -sd ' ') == "$2" ]]
}

# agree WHAT VG/LV EXPECTED [SECONDS]: verdict and alert of the volume, then that `status` and the page say the same.
agree() {
    in_time "${4:-20}" tells "$2" "$3"
    check "$1" "$3" "$(told_of "$2" | paste -sd ' ')"
    local status=0 grade=${3#* }
    grade=${grade%% *}
    "$COWBELL" status >"$OUT/status" 2>&1 || status=$?
    check "$1: status ends with" "$(case $grade in critical) echo 2 ;; warning) echo 1 ;; *) echo 0 ;; esac)" "$status"
    curl -fs "http://127.0.0.1:2692/volumes/$2" >"$OUT/page.html"
    check "$1: the page's grade" "$grade" "$(grep -o 'class="verdict [a-z]*' "$OUT/page.html" | head -n 1 | sed 's/.* //')"
    curl -fs "$api/alerts" | jq -r '.[] | select(.cleared_at == null) | "      \(.sentence)"'
}

not_at_risk() {
    local lv
    for lv in vg0/asleep vg0/thin_kept away/exported; do
        check "inactive $lv" "inactive ok " "$(told_of "$lv" | paste -sd ' ')"
    done
    local status=0
    "$COWBELL" status >"$OUT/status" || status=$?
    check "nothing is at risk: status" "0 COWBELL OK" "$status $(head -c 10 "$OUT/status")"
    check "no job of a kept snapshot" "" "$(jobs_of thin_kept)"
    lvchange -ay -K vg0/thin_kept
    in_time 20 tells vg0/thin_kept "ok ok "
    await_ticks 5
    check "kept, active and idle" "ok ok " "$(told_of vg0/thin_kept | paste -sd ' ')"
    check "no job of it" "" "$(jobs_of thin_kept)"
    dd if=/dev/vg0/thin_kept of=/dev/null bs=1M count=64 iflag=direct status=none
    in_time 10 eval '[[ -n $(jobs_of thin_kept) ]]'
    check "a job of it while it is read" null "$(jobs_of thin_kept)"
    lvchange -an vg0/thin_kept
}

# The ends of the jobs of a snapshot.
jobs_of() {
    curl -fs "$api/jobs" | jq -r --arg lv "$1" '.[] | select(.lv == $lv) | .ended_at'
}

# A group with the system ID of another host, of which volumes are active all the same.
foreign() {
    vgimport away >>"$OUT/lvm.log" 2>&1
    printf 'global { system_id_source="lvmlocal" }\nlocal { system_id="here" }\n' >>/mnt/lvm/lvmlocal.conf
    lvm_does <<-END
	vgchange --systemid here away
	vgchange -ay away
	lvcreate -s -L 8M -n exported_snapshot away/exported
	END
    sed -i 's/"here"/"there"/' /mnt/lvm/lvmlocal.conf
    dd if=/dev/urandom of=/dev/away/exported bs=64k count=112 oflag=direct status=none
    agree "in a group of another host" away/exported_snapshot "ok critical snapshot_fill critical"
    in_time 90 is_said "VG away has the system ID of another host, here: change it on that host"
    check "in a group of another host: no command" "" \
        "$(curl -fs "$api/alerts" | jq -r '.[] | select(.vg == "away") | .sentence' | grep -oE 'lvextend|lvremove|vgextend' || true)"
    lvextend -L +4M away/exported_snapshot >>"$OUT/lvm.log" 2>&1 && accepted=yes || accepted=no
    check "LVM accepts lvextend there" no "$accepted"
    vgchange -an away >>"$OUT/lvm.log" 2>&1
    in_time 10 eval '! curl -fs "$api/alerts" | jq -e "any(.[]; .vg == \"away\" and .cleared_at == null)"'
    check "inactive in a group of another host: status" 0 "$("$COWBELL" status >/dev/null; echo $?)"
}

is_said() {
    curl -fs "$api/alerts" | jq -r '.[].sentence' | grep -F "$1"
}

suspended() {
    dmsetup suspend vg0-mysql
    agree "suspended origin" vg0/mysql "suspended critical volume_state critical"
    dmsetup resume vg0-mysql
    agree "resumed origin" vg0/mysql "ok ok "
    dmsetup suspend vg0-pool-tpool
    agree "suspended pool" vg0/pool "suspended critical volume_state critical"
    check "a volume in it" "suspended critical " "$(told_of vg0/thin | paste -sd ' ')"
    dmsetup resume vg0-pool-tpool
    agree "resumed pool" vg0/pool "ok ok "
    dmsetup suspend pvc
    agree "suspended PV" vg1/below "suspended critical volume_state critical"
    dmsetup resume pvc
    agree "resumed PV" vg1/below "ok ok "
}

cut() {
    dd if=/dev/urandom of=/dev/vg0/cut bs=1M count=16 oflag=direct status=none
    lvresize -f -y -L 8M vg0/cut_snapshot >>"$OUT/lvm.log" 2>&1
    agree "COW area cut" vg0/cut_snapshot "cut_short critical snapshot_invalid critical"
    lvremove -fy vg0/cut_snapshot >>"$OUT/lvm.log" 2>&1
}

too_full() {
    dd if=/dev/zero of=/dev/vg0/thin bs=1M oflag=direct status=none 2>/dev/null || true
    while awk -v used="$(lv_field vg0/pool metadata_percent)" 'BEGIN { exit used >= 75 }' && ((crowded < 20)); do
        crowd vg0-pool-tpool 1
    done
    agree "pool too full for a snapshot" vg0/pool "ok critical $(fills_alerts)"
    check "LVM refuses one" refused "$(lvcreate -qq -s -n one_more vg0/thin >>"$OUT/lvm.log" 2>&1 && echo made || echo refused)"
}

# How full it gets is by chance; what is judged here is that the snapshot is refused.
fills_alerts() {
    in_time 40 is_blocked
    curl -fs "$api/alerts" | jq -r '[.[] | select(.lv == "pool" and .cleared_at == null) | "\(.rule) \(.severity)"] | sort | join(", ")'
}

is_blocked() {
    curl -fs "$api/alerts" | jq -e 'any(.[]; .lv == "pool" and .cleared_at == null and .rule == "next_snapshot_blocked")'
}

missing() {
    lvm_sees_only /dev/ubda
    agree "RAID without a leg's PV" vg0/mirrored "degraded critical volume_state critical" 100    # LVM is asked each minute
    check "its group" "group_state critical" "$(curl -fs "$api/alerts" | jq -r '.[] | select(.vg == "vg0" and .lv == "" and .cleared_at == null) | "\(.rule) \(.severity)"')"
}

partial() {
    echo "0 $(blockdev --getsz /dev/ubdc) error" | dmsetup reload pvc
    dmsetup suspend --noflush --nolockfs pvc
    dmsetup resume pvc
    agree "PV that gives only errors" vg1/below "partial critical volume_state critical"
}

name_taken() {
    mount --bind /mnt/mylvmbackup.conf /etc/mylvmbackup.conf
    agree "the next snapshot's name is taken" vg0/mysql_snapshot "ok critical next_snapshot_blocked critical" 110    # read each minute, and held
    lvremove -fy vg0/mysql_snapshot >>"$OUT/lvm.log" 2>&1
}

make_volumes
# What a busy machine does is not judged here.
printf '[alerts]\nticks_missed = "off"\npart_failed = "off"\n' >/mnt/cowbell.toml
start_cowbell
await_ticks 5
not_at_risk
foreign
suspended
cut
too_full
[[ ! -e /etc/mylvmbackup.conf ]] || name_taken
partial
missing
finish
