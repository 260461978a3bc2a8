# Does cowbell show each state of a thin pool within two seconds, and as lvs has it: data full while writes wait, then
# while they fail, extended in time and too late, metadata nearly full, full and extended, a pool that needs a check, and
# one that failed? Does it log each such state within seconds, and say that a pool cannot be extended by dmeventd, because
# its group has nothing left? And which volume each thin snapshot, and each snapshot of one, was made of?
#
# LAB_DISKS=3
# LAB_PACKAGES=dmeventd
source "$repo/tests/lab/guest/lab.sh"

# disk_gives data, write-errors or errors: what the third disk gives behind its first 4 MiB, in which LVM's own metadata is.
disk_gives() {
    local rest
    rest=$(($(blockdev --getsz /dev/ubdc) - 8192))
    echo "0 8192 linear /dev/ubdc 0" >/mnt/table
    case $1 in
        data) echo "8192 $rest linear /dev/ubdc 8192" ;;
        write-errors) echo "8192 $rest flakey /dev/ubdc 8192 0 3600 1 error_writes" ;;
        errors) echo "8192 $rest error" ;;
    esac >>/mnt/table
    if [[ ! -e /dev/mapper/ill ]]; then
        dmsetup create ill </mnt/table
        return
    fi
    dmsetup reload ill </mnt/table
    dmsetup suspend --nolockfs --noflush ill
    dmsetup resume ill
}

make_volumes() {
    modules dm-snapshot dm-thin-pool dm-flakey
    disk_gives data
    lvm_sees_only '/dev/ubd[ab]' /dev/mapper/ill
    new_group -s 1M vg0 /dev/ubda /dev/ubdb
    new_group -s 1M --dataalignment 8M vg-ill /dev/mapper/ill
    lvm_does <<-END
	lvcreate --type thin-pool -c 64k -L 16M --poolmetadatasize 2M -n full vg0
	lvcreate -V 96M --thinpool vg0/full -n thin
	lvcreate -s -kn -n child vg0/thin
	lvcreate -s -kn -n grandchild vg0/child
	lvcreate --type thin-pool -Zn -c 64k -L 704M --poolmetadatasize 2M -n crowded vg0
	lvcreate -V 640M --thinpool vg0/crowded -n many
	lvcreate --type thin-pool -Zn -c 64k -L 16M --poolmetadatasize 2M -n ill vg-ill
	lvcreate -V 64M --thinpool vg-ill/ill -n patient
	END
}

# of LV FIELD: what jq finds of the volume.
of() {
    curl -fs "$api/volumes" | jq -r --arg lv "$1" ".[] | select(.lv == \$lv) | $2"
}

is() {
    [[ $(of "$1" "$2") == "$3" ]]
}

# The fifth and ninth letter of lv_attr: see lvs(8).
state_of_attr() {
    case ${1:4:1}${1:8:1} in
        [cC]?) echo needs_check ;;
        ?D) echo out_of_data ;;
        ?M) echo read_only ;;
        ?F) echo failed ;;
        a-) echo ok ;;
        *) echo "$1" ;;
    esac
}

# says DEVICE PATTERN: if the kernel's line does not have it, it turns so later than now.
says() {
    local now=${EPOCHREALTIME/./}
    dmsetup status --noflush "$1" | grep -q "$2" || { not_before=$now; false; }
}

# turns VG/LV STATE PATTERN WHAT: as soon as the kernel's line of the pool has the pattern, cowbell has two ticks. Then
# lvs is asked for the state and, as nothing moves any more, for both fills.
turns() {
    local device=${1/-/--} lv=${1#*/} start field attr
    device=${device/\//-}-tpool
    wait_until 120 "the kernel to say $3" says "$device" "$3"
    start=${EPOCHREALTIME/./}
    in_time 2 is "$lv" .state "$2"
    echo "figure $4, said after: $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
    attr=$(lv_field "$1" lv_attr)
    check "$4: state, by lvs $attr" "$(state_of_attr "$attr")" "$(of "$lv" .state)"
    check "$4: what it was to be" "$2" "$(of "$lv" .state)"
    for field in fill:data metadata:metadata; do shows_percent "$4" "$1" "${field%:*}" "$(lv_field "$1" "${field#*:}_percent")"; done
}

shows_percent() {
    local expected=null question=".${3}_percent | if . then . * 100 | round else . end"
    [[ -z $4 ]] || expected=$((10#${4/./}))
    in_time 3 is "${2#*/}" "$question" "$expected"
    check "$1: $3, hundredths" "$expected" "$(of "${2#*/}" "$question")"
}

# logs WHAT LEVEL PATTERN: the log has such a line, at most three seconds after the kernel may have said so.
logs() {
    local line late
    in_time 3 grep -q " $2 .*$3" "$OUT/cowbell.log"
    line=$(grep " $2 .*$3" "$OUT/cowbell.log" | tail -n 1)
    late=$(awk -v seen="$(date -d "${line%% *}" +%s.%N)" -v since="$not_before" 'BEGIN { printf "%.2f", seen - since / 1e6 }')
    echo "figure $1, logged after at most: $late s"
    check "$1: logged within 3 s" yes "$(awk -v late="$late" 'BEGIN { print (late <= 3 ? "yes" : late) }')"
}

# The open alerts of a volume. How fast it fills depends on the machine, so neither the forecast nor what follows after 30 s is
# among them.
open_alerts() {
    curl -fs "$api/alerts" | jq -r --arg lv "$1" '[.[] | select(.lv == $lv and .cleared_at == null and .rule != "time_until_full" and .rule != "next_snapshot_blocked") | "\(.rule) \(.severity)"] | sort | join(", ")'
}

# For how many seconds writes wait, if a pool becomes full from now on.
writes_wait() {
    echo "$1" >/sys/module/dm_thin_pool/parameters/no_space_timeout
}

writer() {
    dd if=/dev/zero of=/dev/vg0/thin bs=1M count="$1" oflag=direct status=none 2>>"$OUT/writer.log" &
    writer=$!
}

writer_ended() {
    local status=0
    wait "$writer" || status=$?
    check "$1" "$2" "$status"
}

data_full() {
    local status=0
    writes_wait 60
    not_before=${EPOCHREALTIME/./}
    writer 20
    turns vg0/full out_of_data 'out_of_data_space .*queue_if_no_space' "data full, writes wait"
    check "data full: what it does with writes" "$(lv_field vg0/full lv_when_full)" "$(of full .when_full)"
    logs "data full" ERROR 'Thin pool vg0/full is out of data space: writes to its volumes wait'
    check "data full: open alerts" "pool_data critical, pool_state critical" "$(open_alerts full)"
    check "data full: time until full" 0 "$(time_until_full full)"
    "$COWBELL" status --config /mnt/cowbell.toml >"$OUT/status" || status=$?
    check "data full: exit status of \`cowbell status\`" 2 "$status"
    check "data full: \`cowbell status\` says so" 1 "$(grep -c '^thin pool vg0/full: .*out of data$' "$OUT/status")"
    lvextend -L +16M vg0/full >>"$OUT/lvm.log" 2>&1
    turns vg0/full ok ' rw ' "extended while writes waited"
    writer_ended "the writer that waited" 0
    shows_percent "written on" vg0/full fill "$(lv_field vg0/full data_percent)"
    check "extended: open alerts" "" "$(open_alerts full)"
    check "extended: the end of the alert" 1 "$(grep -c 'over: Thin pool vg0/full works again. Writes that failed' "$OUT/cowbell.log")"
    writes_wait 10
    writer 40
    turns vg0/full out_of_data 'out_of_data_space .*queue_if_no_space' "data full again"
    turns vg0/full out_of_data 'out_of_data_space .*error_if_no_space' "data full, writes fail"
    writer_ended "the writer that waited in vain" 1
    lvextend -L +32M vg0/full >>"$OUT/lvm.log" 2>&1
    turns vg0/full ok ' rw ' "extended too late"
}

metadata_full() {
    dd if=/dev/zero of=/dev/vg0/many bs=1M count=640 oflag=direct status=none
    crowd vg0-crowded-tpool 8
    turns vg0/crowded ok ' rw ' "metadata nearly full"
    check "metadata nearly full: open alerts" "pool_data critical, pool_metadata critical" "$(open_alerts crowded)"
    until says vg0-crowded-tpool ' ro '; do crowd vg0-crowded-tpool 1 2>>"$OUT/writer.log" || true; done
    turns vg0/crowded read_only ' ro ' "metadata full"
    logs "metadata full" ERROR 'Thin pool vg0/crowded is read-only: its metadata is full.*--poolmetadatasize'
    check "metadata full: open alerts" "pool_data critical, pool_metadata critical, pool_state critical" "$(open_alerts crowded)"
    lvextend --poolmetadatasize +4M vg0/crowded >>"$OUT/lvm.log" 2>&1
    turns vg0/crowded ok ' rw ' "metadata extended"
    check "metadata extended: open alerts" "pool_data critical" "$(open_alerts crowded)"
}

# Metadata that cannot be written leaves the pool to be checked; that cannot be read either, it fails.
disk_ill() {
    dd if=/dev/zero of=/dev/vg-ill/patient bs=1M count=4 oflag=direct status=none
    disk_gives write-errors
    not_before=${EPOCHREALTIME/./}
    ! dd if=/dev/zero of=/dev/vg-ill/patient bs=1M seek=4 count=4 conv=fsync status=none 2>>"$OUT/writer.log"
    turns vg-ill/ill needs_check needs_check "metadata not written"
    logs "metadata not written" ERROR 'The metadata of thin pool vg-ill/ill needs a check'
    disk_gives data
    vgchange -qq -an vg-ill
    await_ticks 2
    check "deactivated to be checked: open alerts" "pool_state critical" "$(open_alerts ill)"
    vgchange -qq -ay --config 'global { thin_check_options=["-q", "--clear-needs-check-flag"] }' vg-ill
    turns vg-ill/ill ok ' rw ' "checked"
    check "checked: open alerts" "" "$(open_alerts ill)"
    disk_gives errors
    not_before=${EPOCHREALTIME/./}
    ! dd if=/dev/zero of=/dev/vg-ill/patient bs=1M seek=8 count=4 conv=fsync status=none 2>>"$OUT/writer.log"
    turns vg-ill/ill failed Fail "metadata neither written nor read"
    logs "metadata neither written nor read" ERROR 'Thin pool vg-ill/ill has failed: its metadata is damaged'
}

time_until_full() {
    curl -fs "$api/alerts" | jq -r --arg lv "$1" '.[] | select(.lv == $lv and .cleared_at == null and .rule == "time_until_full") | .value'
}

has_open() {
    [[ $(open_alerts "$1") == "$2" ]]
}

# dmeventd extends pools from 70 % on, but another volume takes all the space of the group.
nothing_left() {
    sed -i 's/monitoring=0/monitoring=1 thin_pool_autoextend_threshold=70 thin_pool_autoextend_percent=20/' /mnt/lvm/lvmlocal.conf
    dmeventd -f >"$OUT/dmeventd.log" 2>&1 &
    dmeventd=$!
    wait_until 60 "dmeventd" test -p /run/dmeventd-client
    new_volume --type thin-pool -Zn -c 64k -L 16M --poolmetadatasize 2M -n grows vg0
    new_volume -V 64M --thinpool vg0/grows -n inner
    new_volume -l 100%FREE -n rest vg0
    in_time 70 has_open grows "autoextend_blocked warning"
    check "nothing left: open alerts" "autoextend_blocked warning" "$(open_alerts grows)"
    not_before=${EPOCHREALTIME/./}
    dd if=/dev/zero of=/dev/vg0/inner bs=1M count=12 oflag=direct status=none
    logs "nothing left at 75 %" ERROR 'Thin pool vg0/grows cannot be extended by LVM: from 70 % on'
    check "nothing left at 75 %: open alerts" "autoextend_blocked critical, pool_data warning" "$(open_alerts grows)"
    lvremove -qq -f vg0/rest
    in_time 70 has_open grows ""
    check "space again, and dmeventd has extended it: open alerts" "" "$(open_alerts grows)"
    kill "$dmeventd"
}

# As lvs has them; only LVM knows of what a thin volume is a snapshot.
snapshots_of_snapshots() {
    local lv
    in_time 30 is grandchild .origin child
    for lv in thin child grandchild; do
        check "$lv: origin" "$(lv_field "vg0/$lv" origin)" "$(of $lv '.origin // ""')"
        check "$lv: pool" "$(lv_field "vg0/$lv" pool_lv)" "$(of $lv .pool)"
        shows_percent "$lv" "vg0/$lv" fill "$(lv_field "vg0/$lv" data_percent)"
    done
}

: >/mnt/cowbell.toml
make_volumes
start_cowbell
data_full
snapshots_of_snapshots
metadata_full
disk_ill
nothing_left
stop_cowbell
finish
