# How a backup went, by the tool that took it: seven good nights, and each fault. Only dumps, and runs without a snapshot, are
# below `cowbell run`; there are no hooks. Each script ends with status 0, whatever its tool did. What a good night wrote is
# restored and compared with the source.
#
#   tests/lab/run tools [all | TOOL [CELL…]]
#
# Without arguments: ten minutes of it, three nights each.
# Each cell is one line `cell TOOL CELL | outcome | alerts | right`, from which docs/tools.md is made.
#
# LAB_DISKS=2
# LAB_MEM=1000M
# LAB_TIMEOUT=11000
# LAB_COUNTS_CPU=yes
# LAB_PACKAGES=rsync restic borg rsnapshot duplicity partclone.ext4 snapper
# LAB_PYTHON=borgmatic==2.1.10
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/database.sh"
PATH=$repo/target/lab-python/bin:$PATH

every_tool="tar shell cron perl dd rsync partclone.ext4 restic borg borgmatic rsnapshot duplicity vzdump cp cpio dar zbackup e2image fsarchiver qemu-img rdiff-backup bup"
faults="killed_early killed_late destination_full overflow maker_killed hung cowbell_killed no_snapshot not_mounted"
# They make no snapshot.
dumps="mysqldump mariabackup pg_basebackup rear"
mib=48
nights=7

make_host() {
    modules dm-snapshot dm-thin-pool dm-delay ext4 loop
    sed -i 's/^activation {/activation { auto_set_activation_skip=0/' /mnt/lvm/lvmlocal.conf
    slow_disks 0
    new_group vg0 /dev/mapper/slow*
    new_volume -L 120M -n data vg0
    new_volume --type thin-pool -L 300M -n pool vg0
    new_volume -V 120M --thinpool vg0/pool -n vm-101-disk-0
    for volume in data vm-101-disk-0; do
        mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "/dev/vg0/$volume"
        mkdir -p "/mnt/$volume"
        mount "/dev/vg0/$volume" "/mnt/$volume"
        for number in 1 2 3 4; do
            dd if=/dev/urandom of="/mnt/$volume/file$number" bs=1M count=$((mib / 4)) status=none
        done
    done
    sync
    # Only reads are slow: about 10 MB/s.
    for disk in /dev/mapper/slow*; do
        dmsetup reload "$disk" --table "$(dmsetup table "$disk" | awk '{ print $1, $2, $3, $4, $5, 5, $4, $5, 0 }')"
        dmsetup suspend "$disk"
        dmsetup resume "$disk"
    done
    mkdir -p /mnt/s /mnt/out
}

# script NAME INTERPRETER: how the tools below are called; the tool's own command comes from standard input.
script() {
    {
        echo "$2"
        echo 'lvcreate -qq -y -s -L ${SIZE:-40M} -n data_bk vg0/data; mount -o ro /dev/vg0/data_bk /mnt/s'
        cat
        echo 'umount /mnt/s; lvremove -qq -fy vg0/data_bk; true'
    } >"/mnt/$1.sh"
    chmod +x "/mnt/$1.sh"
}

# unmounted NAME: the same for a tool that reads the device.
unmounted() {
    {
        printf '%s\n' '#!/bin/sh' 'lvcreate -qq -y -s -L ${SIZE:-40M} -n data_bk vg0/data'
        cat
        echo 'lvremove -qq -fy vg0/data_bk; true'
    } >"/mnt/$1.sh"
}

make_scripts() {
    export RESTIC_PASSWORD=x RESTIC_CACHE_DIR=/mnt/tmp/restic BORG_BASE_DIR=/mnt/tmp/borg BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes
    script tar '#!/bin/bash' <<<'tar -C /mnt/s -cf - . | gzip -1 >/mnt/out/data.gz'
    script timed '#!/bin/bash' <<<'timeout 1000 tar -C /mnt/s -cf - . | gzip -1 >/mnt/out/data.gz'
    script rsync '#!/bin/sh' <<<'rsync -a --delete /mnt/s/ /mnt/out/data/'
    script restic '#!/bin/sh' <<<'cd /mnt/s && restic -q -r /mnt/out/repo backup . ; cd /mnt'
    script borg '#!/bin/sh' <<<'cd /mnt/s && borg create /mnt/out/repo::$(date +%s%N) . ; cd /mnt'
    script duplicity '#!/bin/sh' <<<'duplicity --no-encryption --num-retries 1 --archive-dir /mnt/tmp/duplicity /mnt/s file:///mnt/out/repo'
    # A program that cowbell does not know.
    cp "$(command -v cp)" /mnt/mirror
    script mirror '#!/bin/bash' <<<'/mnt/mirror -au /mnt/s/. /mnt/out/data/'
    script listed '#!/bin/bash' <<<'tar -C /mnt/s -g /mnt/out/list -cf - . | gzip -1 >/mnt/out/$(date +%s%N).gz'
    # Two folders, of which one has no destination.
    script folders '#!/bin/bash' <<<'rsync -a /mnt/s/file1 /mnt/missing/too/; rsync -a /mnt/s/ /mnt/out/'
    mkdir -p /mnt/tmp/run
    printf '%s\n' 'source_directories: [/mnt/data]' 'repositories: [{path: /mnt/out/repo}]' 'lvm: {snapshot_size: 40MB}' \
        'user_runtime_directory: /mnt/tmp/run' 'borg_base_directory: /mnt/tmp/borg' >/mnt/borgmatic.yaml
    cat >/mnt/dd.sh <<-'END'
	#!/bin/bash
	lvcreate -qq -y -s -L ${SIZE:-40M} -n data_bk vg0/data
	dd if=/dev/vg0/data_bk bs=1M status=none | gzip -1 >/mnt/out/data.gz
	lvremove -qq -fy vg0/data_bk; true
	END
    script cp '#!/bin/sh' <<<'cp -a /mnt/s/. /mnt/out/data/'
    script cpio '#!/bin/sh' <<<'cd /mnt/s && find . -depth -print0 | cpio --quiet -0 -o >/mnt/out/data.cpio; cd /mnt'
    script dar '#!/bin/sh' <<<'dar -Q -q -w -c /mnt/out/data -R /mnt/s'
    script zbackup '#!/bin/sh' <<<'tar -C /mnt/s -cf - . | zbackup --silent --non-encrypted -o bundle.compression_method=lzo backup /mnt/out/repo/backups/$(date +%s%N)'
    unmounted e2image <<<'e2image -r -a /dev/vg0/data_bk /mnt/out/data.img'
    # It mounts the snapshot itself, and leaves it so if it is killed.
    unmounted fsarchiver <<<'fsarchiver savefs -o -A -j1 -Z1 /mnt/out/data.fsa /dev/vg0/data_bk'
    script rdiff-backup '#!/bin/sh' <<<'rdiff-backup --force /mnt/s /mnt/out/rdiff'
    script bup '#!/bin/sh' <<<'cd /mnt/s && bup -d /mnt/out/bup index . && bup -d /mnt/out/bup save -q -n data --strip . ; cd /mnt'
    unmounted qemu-img <<<'qemu-img convert -f raw -O qcow2 /dev/vg0/data_bk /mnt/out/data.qcow2'
    unmounted partclone.ext4 <<<'partclone.ext4 -q -c -L /mnt/tmp/partclone.log -s /dev/vg0/data_bk -O /mnt/out/data.pcl'
    cat >/mnt/perl.sh <<-'END'
	#!/usr/bin/perl
	system("lvcreate -qq -y -s -L " . ($ENV{SIZE} || "40M") . " -n data_bk vg0/data");
	system("mount -o ro /dev/vg0/data_bk /mnt/s");
	system("tar -C /mnt/s -cf - . | gzip -1 >/mnt/out/data.gz");
	system("umount /mnt/s; lvremove -qq -fy vg0/data_bk");
	END
    cat >/mnt/vzdump.sh <<-'END'
	#!/usr/bin/perl
	system("lvcreate -qq -y -s -kn -n snap_vm-101-disk-0_vzdump vg0/vm-101-disk-0");
	# Only LVM's report tells that a thin volume is a snapshot, and on a busy machine that takes seconds.
	sleep 4;
	system("mount -o ro /dev/vg0/snap_vm-101-disk-0_vzdump /mnt/s");
	system("bash", "-c", "set -o pipefail; tar -C /mnt/s -cf - . | gzip -1 >/mnt/out/data.gz");
	system("umount /mnt/s; lvremove -qq -fy vg0/snap_vm-101-disk-0_vzdump");
	END
    printf '%s\t%s\n' config_version 1.2 snapshot_root /mnt/out/ no_create_root 1 cmd_rsync /usr/bin/rsync cmd_cp /bin/cp \
        cmd_rm /bin/rm retain 'daily	7' linux_lvm_cmd_lvcreate /sbin/lvcreate linux_lvm_cmd_lvremove /sbin/lvremove \
        linux_lvm_cmd_mount /bin/mount linux_lvm_cmd_umount /bin/umount linux_lvm_snapshotsize 40M \
        linux_lvm_snapshotname rsnapshot linux_lvm_vgpath /dev linux_lvm_mountpath /mnt/s \
        backup 'lvm://vg0/data/	data/' >/mnt/rsnapshot.conf
    chmod +x /mnt/*.sh
}

# How each is started, and the process that reads.
start() {
    case $tool in
        shell) bash /mnt/tar.sh ;;
        cron) sh -c "$(tail -n +2 /mnt/tar.sh)" ;;
        rsnapshot) sed -i "s/^linux_lvm_snapshotsize.*/linux_lvm_snapshotsize\t${SIZE:-40M}/" /mnt/rsnapshot.conf; rsnapshot -c /mnt/rsnapshot.conf daily ;;
        borgmatic) sed -i "s/snapshot_size:.*/snapshot_size: ${SIZE:-40M}B}/" /mnt/borgmatic.yaml; borgmatic -c /mnt/borgmatic.yaml create ;;
        *) "/mnt/$tool.sh" ;;
    esac >>"$OUT/tools.log" 2>&1 || true
}

reader() {
    case $tool in
        shell | cron | perl | timed | vzdump | zbackup | listed) echo tar ;;
        rsnapshot | folders) echo rsync ;;
        borgmatic) echo borg ;;
        *) echo "$tool" ;;
    esac
}

# An empty destination, so that the next run reads everything.
fresh() {
    rm -rf /mnt/out/* /mnt/tmp/restic /mnt/tmp/duplicity
    case $tool in
        restic) restic -q -r /mnt/out/repo init ;;
        zbackup) zbackup init --non-encrypted /mnt/out/repo ;;
        cp | mirror) mkdir /mnt/out/data ;;
        bup) bup -d /mnt/out/bup init ;;
        # Else it wants 500 MiB of free space for its next segment.
        borg | borgmatic) borg init -e none /mnt/out/repo && borg config /mnt/out/repo max_segment_size 8388608 ;;
    esac >>"$OUT/tools.log" 2>&1 || true
}

source_folder() { [[ $tool == vzdump ]] && echo /mnt/vm-101-disk-0 || echo /mnt/data; }

is_restored() {
    rm -rf /mnt/restored
    mkdir /mnt/restored
    case $tool in
        dd) zcat /mnt/out/data.gz >/mnt/restored.img ;;
        partclone.ext4) partclone.restore -q -C -L /mnt/tmp/partclone.log --restore_raw_file -s /mnt/out/data.pcl -O /mnt/restored.img ;;
        rsync | cp) cp -a /mnt/out/data/. /mnt/restored ;;
        rdiff-backup) rdiff-backup -r now --force /mnt/out/rdiff /mnt/restored ;;
        bup) bup -d /mnt/out/bup restore -q -C /mnt/restored data/latest/. ;;
        cpio) (cd /mnt/restored && cpio --quiet -i -d </mnt/out/data.cpio) ;;
        dar) dar -Q -q -x /mnt/out/data -R /mnt/restored ;;
        zbackup) zbackup --silent --non-encrypted restore "$(ls -d /mnt/out/repo/backups/* | tail -n 1)" | tar -C /mnt/restored -x ;;
        fsarchiver)
            truncate -s 120M /mnt/restored.img
            losetup /dev/loop5 /mnt/restored.img
            fsarchiver restfs /mnt/out/data.fsa id=0,dest=/dev/loop5
            losetup -d /dev/loop5
            ;;
        e2image) cp --sparse=always /mnt/out/data.img /mnt/restored.img ;;
        qemu-img) qemu-img convert -O raw /mnt/out/data.qcow2 /mnt/restored.img ;;
        rsnapshot) cp -a /mnt/out/daily.0/data/. /mnt/restored ;;
        restic) restic -q -r /mnt/out/repo restore latest --target /mnt/restored ;;
        borg | borgmatic) (cd /mnt/restored && borg extract "/mnt/out/repo::$(borg list --short --last 1 /mnt/out/repo)") ;;
        duplicity) duplicity restore --no-encryption --archive-dir /mnt/tmp/duplicity --force file:///mnt/out/repo /mnt/restored ;;
        *) tar -C /mnt/restored -xzf /mnt/out/data.gz ;;
    esac >>"$OUT/tools.log" 2>&1
    case $tool in dd | partclone.ext4 | e2image | fsarchiver | qemu-img) debugfs -R 'rdump / /mnt/restored' /mnt/restored.img ;; esac >>"$OUT/tools.log" 2>&1
    rm -f /mnt/restored.img
    (cd "$(source_folder)" && sha256sum file*) | (cd "$(find /mnt/restored -name file1 -printf %h)" && sha256sum --quiet -c)
}

newest_job() { curl -fs "$api/jobs" | jq '[.[].id] | max // 0'; }
job() { curl -fs "$api/jobs" | jq -r --argjson before "$before" "[.[] | select(.kind == \"snapshot\" and .id > \$before)] | $1"; }
open_alerts() { curl -fs "$api/alerts" | jq -r '[.[] | select(.cleared_at == null) | .rule] | join(" ")'; }
has_ended() { [[ $(job 'map(.outcome) | all(. != null) and length > 0') == true && $(job '.[0].outcome') != unknown ]]; }
is_quiet() { [[ -z $(open_alerts) ]]; }
rings() { [[ " $(open_alerts) " == *" $1 "* ]]; }

# The most that a reader has read, in bytes.
has_read() {
    local pid most=0 bytes
    for pid in $(pgrep -x "$(reader)"); do
        bytes=$(awk '/^rchar/ { print $2 }' "/proc/$pid/io" 2>/dev/null || true)
        ((${bytes:-0} <= most)) || most=$bytes
    done
    ((most >= $1 * mib * 10486))
}
when_read() {
    local start=$SECONDS
    until has_read "$1"; do
        ((SECONDS - start < 60)) || return 0
        sleep 0.02
    done
}

run() {
    before=$(newest_job)
    start &
    runs=$!
}

# cell NAME OUTCOME RIGHT: prints the line of the table.
cell() {
    local verdict=right
    ((cells += 1))
    [[ $3 == yes ]] || { verdict=WRONG; failures=$((failures + 1)); }
    echo "cell $tool $1 | $2 | $(open_alerts) | $verdict"
    [[ $3 == yes ]] || { curl -fs "$api/jobs" | jq -c '.[:3]'; curl -fs "$api/alerts" | jq -c '.[:2]'; }
}
cells=0 false_good=0 silent=0 false_alerts=0

good_night() {
    run
    wait "$runs"
    in_time 20 has_ended
}

nights() {
    local night outcome restored=0 good=0 rang=""
    fresh
    for ((night = 1; night <= nights; night++)); do
        good_night
        outcome=$(job '[length, .[0].is_backup, .[0].outcome] | join(" ")')
        if [[ $outcome == "1 true succeeded" ]]; then good=$((good + 1)); else echo "night $night: $outcome: $(job ".[0] | \"\(.program): \(.sentence)\"")"; fi
        if is_restored; then restored=$((restored + 1)); fi
        rang+=$(open_alerts)
        dd if=/dev/urandom of="$(source_folder)/file$((night % 4 + 1))" bs=1M count=$((night % 3 + 1)) conv=notrunc status=none
        sync
    done
    [[ -z $rang ]] || false_alerts=$((false_alerts + 1))
    cell nights "$good of $nights succeeded, $restored restored, last: $outcome" "$([[ $good == "$nights" && $restored == "$nights" && -z $rang ]] && echo yes)"
}

# ended_badly CELL: no success, and an alert within 90 s; the next good night clears it.
ended_badly() {
    wait "$runs" 2>/dev/null || true
    in_time 20 has_ended
    in_time 90 rings backup_failed
    local outcome right=yes
    outcome=$(job '.[0].outcome')
    [[ $outcome != succeeded ]] || { false_good=$((false_good + 1)); right=no; }
    rings backup_failed || { silent=$((silent + 1)); right=no; }
    cell "$1" "$outcome" "$right"
    tidy
    fresh
    good_night
    in_time 10 is_quiet
    is_quiet || cell "$1, the good night after" "$(job '.[0].outcome')" no
}

tidy() {
    pkill -KILL -x "$(reader)" || true
    wait_until 20 "the snapshot to be free" eval '! grep -q " /mnt/s " /proc/mounts || umount /mnt/s'
    local point left
    for point in $(awk '/lvm_snapshots|tmp.fsa/ { print $2 }' /proc/mounts); do umount "$point"; done
    for left in $(lvs --noheadings -o lv_name -S 'origin != ""' vg0); do
        wait_until 20 "$left to go" eval "! lvs vg0/$left || lvremove -qq -f vg0/$left"
    done
    rm -f /mnt/out/rsnapshot.pid /var/run/rsnapshot.pid
}

# Stops the reader. Fails if it has ended: such a process can be signalled until somebody waits for it, but not stopped.
stop_reader() {
    pkill -STOP -x "$(reader)" || return 1
    until pgrep -r T -x "$(reader)" >/dev/null; do
        pgrep -r D,R,S,T -x "$(reader)" >/dev/null || return 1
        sleep 0.05
    done
}
# kill_when_read PERCENT: whether the reader was alive then, and is killed. From 20 % on it runs for moments only, since a
# busy machine would look too late.
kill_when_read() {
    when_read 20
    while stop_reader; do
        if has_read "$1"; then
            if [[ $tool == timed ]]; then kill_as_timeout; else pkill -KILL -x "$(reader)"; fi
            return
        fi
        pkill -CONT -x "$(reader)" || true
    done
    pkill -CONT -x "$(reader)" || true
    return 1
}

# As `timeout -s KILL` ends what it runs, and itself: the kernel then says that the reader's parent is 1.
kill_as_timeout() {
    local reader
    reader=$(pgrep -x "$(reader)")
    kill -KILL "$(awk '/^PPid/ { print $2 }' "/proc/$reader/status")" "$reader"
}

# kill_reader PERCENT NAME: when so much is read. On a busy machine it may have ended by then: then it is run again.
kill_reader() {
    local attempt
    for attempt in 1 2 3 4 5; do
        fresh
        run
        if kill_when_read "$1"; then
            ended_badly "$2"
            return
        fi
        echo "the reader of attempt $attempt had ended before it could be killed"
        wait "$runs" || true
        in_time 20 has_ended
    done
    fail "$tool: its reader had ended each time before it could be killed"
}

kill_below() {
    local child
    for child in $(pgrep -P "$1"); do kill_below "$child"; done
    kill -KILL "$1" 2>/dev/null || true
}

killed_early() { kill_reader 25 killed_early; }
killed_late() { kill_reader 85 killed_late; }
destination_full() {
    mount -t tmpfs -o size=16M small /mnt/out
    fresh
    run
    wait "$runs"
    pkill -KILL -x "$(reader)" || true
    umount /mnt/out
    ended_badly destination_full
}
overflow() {
    # A thin snapshot overflows with its pool, which `pool` fills.
    [[ $tool != vzdump ]] || return 0
    fresh
    export SIZE=8M
    run
    when_read 25
    dd if=/dev/urandom of="$(source_folder)/file4" bs=1M count=11 conv=notrunc,fsync status=none
    unset SIZE
    ended_badly overflow
}
maker_killed() { fresh; run; when_read 25; kill_below "$runs"; ended_badly maker_killed; }
# take WHAT: adds to `WHAT_cpu` what the guest takes in 20 s, in units of 10 ms, and to `WHAT_ticks` cowbell's ticks in that time.
take() {
    local cpu ticks
    sleep 2
    cpu=$(cat "$(dirname "$LAB_JOB")/cpu")
    [[ $1 == stopped ]] || ticks=$(ticks_taken)
    sleep 20
    (($1_cpu += $(cat "$(dirname "$LAB_JOB")/cpu") - cpu))
    [[ $1 == stopped ]] || (($1_ticks += $(ticks_taken) - ticks))
}

# Backups in turn with nothing, so that both are measured on a machine that is as fast.
cost() {
    local round idle_cpu=0 idle_ticks=0 busy_cpu=0 busy_ticks=0 stopped_cpu=0 idle busy
    stop_cowbell
    sed -i '1i interval = "200ms"' /mnt/cowbell.toml
    start_cowbell
    await_ticks 50
    for round in 1 2 3 4 5; do
        fresh
        take idle
        run
        when_read 25
        pkill -STOP -x "$(reader)" || fail "$tool: its reader had ended before it could be stopped"
        take busy
        kill -STOP "$cowbell"
        take stopped
        kill -CONT "$cowbell"
        pkill -CONT -x "$(reader)"
        wait "$runs"
        await_ticks 20
    done
    idle=$(((idle_cpu - stopped_cpu) * 1000 / idle_ticks))
    busy=$(((busy_cpu - stopped_cpu) * 1000 / busy_ticks))
    echo "figure CPU per tick: $idle idle, $busy with a running backup, in 0.01 ms"
    ((busy * 10 <= idle * 13)) || failures=$((failures + 1))
    stop_cowbell
    sed -i 1d /mnt/cowbell.toml
    start_cowbell
    await_ticks 2
}

hung() {
    fresh
    run
    when_read 25
    pkill -STOP -x "$(reader)" || fail "$tool: its reader had ended before it could be stopped"
    in_time 100 rings backup_slow
    local rang=no
    if rings backup_slow; then rang=yes; else silent=$((silent + 1)); fi
    cell hung "$(job '.[0].outcome')" "$rang"
    pkill -CONT -x "$(reader)" || true
    wait "$runs"
    in_time 20 has_ended
    in_time 10 is_quiet
    cell "hung, then goes on" "$(job '.[0].outcome')" "$([[ $(job '.[0].outcome') == succeeded ]] && is_quiet && echo yes)"
}
cowbell_killed() {
    fresh
    run
    when_read 25
    kill -KILL "$cowbell"
    wait "$cowbell" 2>/dev/null || true
    start_cowbell
    wait "$runs"
    in_time 20 has_ended
    local outcome
    outcome=$(job '.[-1].outcome')
    [[ $outcome == succeeded ]] || false_alerts=$((false_alerts + 1))
    cell cowbell_killed "$outcome" "$([[ $outcome == succeeded || $outcome == unknown ]] && is_quiet && echo yes)"
}
# Another script begins at the same moment, and fails.
at_once() {
    local other outcomes status
    mkdir -p /mnt/s2
    for status in 3 0; do
        fresh
        printf '%s\n' '#!/bin/bash' 'lvcreate -qq -y -s -kn -n vm_bk vg0/vm-101-disk-0; mount -o ro /dev/vg0/vm_bk /mnt/s2' \
            'tar -C /mnt/s2 -cf - . | gzip -1 >/mnt/out/vm.gz; umount /mnt/s2; lvremove -qq -fy vg0/vm_bk' "exit $status" >/mnt/other.sh
        chmod +x /mnt/other.sh
        run
        /mnt/other.sh >>"$OUT/tools.log" 2>&1 &
        other=$!
        wait "$runs"
        wait "$other" || true
        in_time 20 has_ended
        outcomes=$(job 'map(select(.is_backup)) | sort_by(.lv) | map(.outcome) | join(" ")')
        if ((status == 3)); then
            in_time 10 rings backup_failed
            cell at_once "$outcomes" "$([[ $outcomes == "succeeded failed" ]] && rings backup_failed && echo yes)"
        fi
    done
    in_time 10 is_quiet
    is_quiet || cell "at_once, the good night after" "$outcomes" no
}
# Whether its latest job raised the alert.
rings_for_it() {
    curl -fs "$api/alerts" | jq -e --argjson job "$(job '.[0].id')" 'any(.rule == "backup_failed" and .job == $job and .cleared_at == null)'
} >/dev/null
# A script that ends well and leaves the snapshot, while a program of its own goes on; and one that reads a part, for another
# program to read the rest. Before that both once without: the reader is killed, or there is none.
left_to_others() {
    local night outcome
    printf '%s\n' '#!/bin/bash' 'lvcreate -qq -y -s -L 40M -n data_bk vg0/data; mount -o ro /dev/vg0/data_bk /mnt/s' \
        '(tar -C /mnt/s -cf - . | gzip -1 >/mnt/out/data.gz) >/dev/null 2>&1 &' 'sleep 2' >/mnt/going.sh
    printf '%s\n' '#!/bin/bash' 'lvcreate -qq -y -s -L 40M -n data_bk vg0/data; mount -o ro /dev/vg0/data_bk /mnt/s' \
        'cat /mnt/s/file1 >/dev/null' >/mnt/before.sh
    chmod +x /mnt/going.sh /mnt/before.sh
    for night in going_killed before_alone going before; do
        fresh
        before=$(newest_job)
        setsid -w "/mnt/${night%_*}.sh"
        case $night in
            before) sleep 2; tar -C /mnt/s -cf - . | gzip -1 >/mnt/out/data.gz ;;
            going_killed) pkill -KILL -x tar ;;
            before_alone) in_time 90 has_ended ;;
        esac
        wait_until 60 "tar to end" eval '! pgrep -x tar'
        sleep 2
        setsid -f sh -c 'umount /mnt/s; lvremove -qq -fy vg0/data_bk'
        in_time 20 has_ended
        outcome=$(job '.[0].outcome')
        case $night in
            going | before) cell "left to others, $night" "$outcome" "$(in_time 10 is_quiet; [[ $outcome == succeeded ]] && is_restored && is_quiet && echo yes)" ;;
            *) cell "left to others, $night" "$outcome" "$(in_time 10 rings_for_it; [[ $outcome != succeeded ]] && rings_for_it && echo yes)" ;;
        esac
    done
    killed_service
    sessions
}
# Each step is a session of its own, as where a backup server calls them by ssh.
sessions() {
    local night outcome nights=""
    for night in good good killed; do
        fresh
        before=$(newest_job)
        setsid -w lvcreate -qq -y -s -L 40M -n data_bk vg0/data
        setsid -w mount -o ro /dev/vg0/data_bk /mnt/s
        setsid -w bash -c 'tar -C /mnt/s -cf - . | gzip -1 >/mnt/out/data.gz; true' &
        runs=$!
        [[ $night == good ]] || { when_read 25; pkill -KILL -x tar; }
        wait "$runs"
        setsid -w sh -c 'umount /mnt/s; lvremove -qq -fy vg0/data_bk'
        in_time 20 eval '[[ $(job ".[0].outcome") != null ]]'
        outcome=$(job '.[0].outcome')
        nights+="$outcome "
        [[ $night == killed ]] || is_quiet || nights+="with an alert "
    done
    in_time 20 rings_for_it
    cell "left to others, killed in a session of its own" "$nights" "$([[ $nights == "unknown unknown incomplete " ]] && rings_for_it && echo yes)"
    fresh
    good_night
    in_time 10 is_quiet
}
# A service runs a script before each backup. How the service ends, some other day, says nothing of the backup; how the
# program ends that it runs to read the snapshot does.
killed_service() {
    local outcome
    printf '%s\n' '#!/bin/sh' 'lvcreate -qq -y -s -L 40M -n data_bk vg0/data; mount -o ro /dev/vg0/data_bk /mnt/s' >/mnt/prepare.sh
    chmod +x /mnt/prepare.sh
    cp "$(command -v bash)" /mnt/bacula-fd
    serve_backup
    in_time 60 eval '[[ $(job ".[0].outcome") == unknown ]]'
    pkill -KILL -x bacula-fd
    await_ticks 5
    outcome=$(job '.[0].outcome')
    cell "left to others, service killed" "$outcome" "$([[ $outcome == unknown ]] && is_restored && is_quiet && echo yes)"
    serve_backup
    when_read 25
    pkill -KILL -x tar
    in_time 20 rings_for_it
    outcome=$(job '.[0].outcome')
    cell "left to others, reader of a service killed" "$outcome" "$([[ $outcome == failed ]] && rings_for_it && echo yes)"
    pkill -KILL -x bacula-fd
    fresh
    good_night
    in_time 10 is_quiet
}
serve_backup() {
    fresh
    before=$(newest_job)
    setsid /mnt/bacula-fd -c '/mnt/prepare.sh; tar -C /mnt/s -cf - . | gzip -1 >/mnt/out/data.gz; umount /mnt/s
        lvremove -qq -fy vg0/data_bk; sleep 1000; true' >>"$OUT/tools.log" 2>&1 &
}
# What copies only what has changed, though its name does not tell. A person accepts that once.
declared() {
    local night outcome good=0 rang=""
    fresh
    for night in 1 2 3 4 5 6 7; do
        good_night
        outcome=$(job '.[0].outcome')
        if ((night == 2)); then
            in_time 10 rings_for_it
            rings_for_it || silent=$((silent + 1))
            "$COWBELL" job accept "$(job '.[0].id')" >>"$OUT/tools.log"
            outcome=$(job '.[0].outcome')
        fi
        in_time 10 is_quiet
        rang+=$(open_alerts)
        if [[ $outcome == succeeded ]]; then good=$((good + 1)); else echo "night $night: $outcome: $(job ".[0] | \"\(.program): \(.sentence)\"")"; fi
        for ((changed = 0; changed <= night % 3; changed++)); do
            dd if=/dev/urandom of="/mnt/data/file$((changed + 1))" bs=1M count=2 conv=notrunc status=none
        done
        sync
    done
    cell "accepted once" "$good of 7 succeeded" "$([[ $good == 7 && -z $rang ]] && echo yes)"
    kill_reader 25 "accepted, then killed"
}
# What makes no snapshot is known by the earlier runs of the same command.
no_snapshot() {
    local night command=("/mnt/$tool.sh")
    case $tool in
        shell) command=(bash /mnt/tar.sh) ;;
        cron) command=(sh -c "$(tail -n +2 /mnt/tar.sh)") ;;
        rsnapshot) command=(rsnapshot -c /mnt/rsnapshot.conf daily) ;;
        borgmatic) command=(borgmatic -c /mnt/borgmatic.yaml create) ;;
    esac
    for night in 1 2 3; do
        ((night < 3)) || new_volume -l 100%FREE -n filler vg0
        ((night < 3)) || [[ $tool != vzdump ]] || return 0
        fresh
        before=$(newest_job)
        "$COWBELL" run --name "nightly-$tool" -- "${command[@]}" >>"$OUT/tools.log" 2>&1 || true
        sleep 2
    done
    in_time 30 rings backup_failed
    local outcome
    outcome=$(curl -fs "$api/jobs" | jq -r '[.[] | select(.kind == "command")][0].outcome')
    cell no_snapshot "$outcome" "$([[ $outcome == failed ]] && rings backup_failed && echo yes)"
    lvremove -qq -f vg0/filler >>"$OUT/lvm.log" 2>&1
    fresh
    good_night
    in_time 10 is_quiet
}

# A program fails at once, and the same one then ends well.
one_of_two() {
    fresh
    run
    wait "$runs"
    mkdir -p /mnt/missing/too
    ended_badly one_of_two
}

# A script makes a snapshot again, since it could not use the first.
spare() {
    local found
    printf '%s\n' '#!/bin/bash' 'lvcreate -qq -y -s -L 40M -n data_bk vg0/data; sleep 2; lvremove -qq -fy vg0/data_bk' \
        'source /mnt/tar.sh' >/mnt/twice.sh
    chmod +x /mnt/twice.sh
    fresh
    before=$(newest_job)
    /mnt/twice.sh >>"$OUT/tools.log" 2>&1 || true
    in_time 20 has_ended
    await_ticks 3
    found=$(job 'map("\(.is_backup) \(.outcome)") | join(" ")')
    cell spare "$found" "$([[ $found == "true succeeded false unknown" ]] && is_quiet && echo yes)"
}

# As XFS refuses a snapshot beside its origin, without `nouuid`. The tool then finds an empty folder, and ends well.
not_mounted() {
    grep -q 'mount -o ro' "/mnt/$tool.sh" || return 0
    fresh
    sed -i 's/mount -o ro/mount -t xfs -o ro/' "/mnt/$tool.sh"
    run
    wait "$runs"
    sed -i 's/mount -t xfs -o ro/mount -o ro/' "/mnt/$tool.sh"
    ended_badly not_mounted
}

# What keeps snapshots, or merges them, is no backup.
no_backups() {
    local night jobs rang=""
    for ((night = 1; night <= nights; night++)); do
        before=$(newest_job)
        "$1" "$night" >>"$OUT/tools.log" 2>&1 || fail "$1: $(tail -n 2 "$OUT/tools.log")"
        sleep 3
        jobs+=$(job '.[] | select(.is_backup) | .outcome')
        rang+=$(open_alerts)
    done
    [[ -z $rang ]] || false_alerts=$((false_alerts + 1))
    cell nights "$nights without backups: ${jobs:-right}" "$([[ -z $jobs$rang ]] && echo yes)"
}

keep_with_snapper() {
    local at=/mnt/vm-101-disk-0
    if (($1 == 1)); then
        mkdir -p /mnt/snapper/configs
        cp -r /etc/snapper/. /mnt/snapper
        mount --bind /mnt/snapper /etc/snapper
        echo 'SNAPPER_CONFIGS=""' >/mnt/snapper/default
        [[ -e /etc/default/snapper ]] && mount --bind /mnt/snapper/default /etc/default/snapper
        mount -t tmpfs log /var/log
        snapper --no-dbus -c thin create-config --fstype='lvm(ext4)' "$at"
    fi
    snapper --no-dbus -c thin create -d "night $1"
    date >"$at/night"
}

# As Debian's timer of every week does, and as scripts of one's own do.
scrub() {
    if (($1 == 1)); then
        # It asks udev, which the guest lacks.
        printf '#!/bin/sh\necho ext4\n' >/mnt/lsblk
        chmod 755 /mnt/lsblk
        mount --bind /mnt/lsblk "$(command -v lsblk)"
    fi
    e2scrub /dev/vg0/data
}

check_by_script() {
    cat >/mnt/lvcheck <<-'END'
	#!/bin/bash
	lvcreate -qy -s -L 40M -n data-check vg0/data
	sleep 2
	e2fsck -fy /dev/vg0/data-check
	lvremove -qf vg0/data-check
	END
    bash /mnt/lvcheck
}

merge_back() {
    umount /mnt/data
    new_volume -s -L 40M -n data_before_upgrade vg0/data
    lvconvert -y --merge vg0/data_before_upgrade
    wait_until 30 "the merge" eval '! lvs vg0/data_before_upgrade'
    mount /dev/vg0/data /mnt/data
}

start_server() {
    case $tool in
        pg_basebackup) postgres pg_ctl -w -D /mnt/pg -o '-k /mnt/pg -c listen_addresses= -c shared_buffers=16MB' start ;;
        rear) umount /mnt/out ;;
        *) start_database /mnt/maria --innodb-log-file-size=16M ;;
    esac >>"$OUT/tools.log" 2>&1
}

stop_server() {
    case $tool in
        pg_basebackup) postgres pg_ctl -w -D /mnt/pg -m fast stop ;;
        # It has no server: its destination is full instead.
        rear) mount -t tmpfs -o size=16M small /mnt/out ;;
        *) stop_database ;;
    esac >>"$OUT/tools.log" 2>&1
}

postgres() { (cd /mnt/pg && runuser -u postgres -- "/usr/lib/postgresql/$(ls /usr/lib/postgresql | tail -n 1)/bin/$1" "${@:2}"); }

make_server() {
    if [[ $tool == rear ]]; then
        # It takes the machine's name for its folder.
        echo lab >/proc/sys/kernel/hostname
        mkdir -p /mnt/rear
        for folder in /var/lib/rear /var/log/rear /var/tmp; do mount -t tmpfs rear "$folder"; done
        printf '%s\n' OUTPUT=RAMDISK KERNEL_FILE=/bin/true BOOTLOADER=GRUB BACKUP=NETFS BACKUP_URL=file:///mnt/out \
            BACKUP_ONLY_INCLUDE=yes "BACKUP_PROG_INCLUDE=( '/mnt/data/*' )" >/mnt/rear/local.conf
        return
    fi
    if [[ $tool == pg_basebackup ]]; then
        mkdir -p -m 700 /mnt/pg
        chown postgres /mnt/pg
        postgres initdb -D /mnt/pg >>"$OUT/tools.log" 2>&1
        start_server
        return
    fi
    [[ -d /mnt/maria ]] || install_database /mnt/maria
    start_server
    mariadb --no-defaults -e 'CREATE DATABASE IF NOT EXISTS shop; USE shop; CREATE OR REPLACE TABLE t AS SELECT seq, md5(seq) AS word FROM seq_1_to_20000'
}

# As its manual says, and below `cowbell run`.
dump() {
    rm -rf /mnt/out/*
    local command=(mysqldump --no-defaults --result-file=/mnt/out/shop.sql shop)
    case $tool in
        mariabackup) command=(mariabackup --no-defaults --backup --target-dir=/mnt/out/maria --datadir=/mnt/maria) ;;
        rear) command=(rear -c /mnt/rear mkbackuponly) ;;
        pg_basebackup) command=(runuser -u postgres -- pg_basebackup -h /mnt/pg -D /mnt/out/pg) ;;
    esac
    chmod 777 /mnt/out
    before=$(newest_job)
    (cd /mnt/out && "$COWBELL" run --name "nightly-$tool" -- "${command[@]}") >>"$OUT/tools.log" 2>&1 || true
    sleep 2
}

is_dump_restored() {
    local sum=/mnt/restored.sum
    case $tool in
        pg_basebackup) postgres pg_verifybackup /mnt/out/pg ;;
        rear) tar -d -C / --wildcards -zf "$(find /mnt/out -name backup.tar.gz)" 'mnt/data/*' ;;
        mysqldump)
            mariadb --no-defaults -e 'CREATE OR REPLACE DATABASE back' && mariadb --no-defaults back </mnt/out/shop.sql
            [[ $(mariadb --no-defaults -Ne 'CHECKSUM TABLE shop.t' | cut -f 2) == "$(mariadb --no-defaults -Ne 'CHECKSUM TABLE back.t' | cut -f 2)" ]]
            ;;
        mariabackup)
            mariadb --no-defaults -Ne 'CHECKSUM TABLE shop.t' >"$sum"
            mariabackup --prepare --target-dir=/mnt/out/maria
            stop_server
            start_database /mnt/out/maria
            mariadb --no-defaults -Ne 'CHECKSUM TABLE shop.t' | cmp - "$sum"
            local same=$?
            stop_server
            start_server
            return "$same"
            ;;
    esac >>"$OUT/tools.log" 2>&1
}

of_command() { curl -fs "$api/jobs" | jq -r --argjson before "$before" '[.[] | select(.id > $before)] | map(.outcome) | join(" ")'; }

dumps() {
    local night good=0 restored=0 rang="" fault="server stopped"
    [[ $tool != rear ]] || fault="destination full"
    make_server
    for ((night = 1; night <= nights; night++)); do
        dump
        [[ $(of_command) != succeeded ]] || good=$((good + 1))
        if is_dump_restored; then restored=$((restored + 1)); fi
        rang+=$(open_alerts)
    done
    [[ -z $rang ]] || false_alerts=$((false_alerts + 1))
    cell nights "$good of $nights succeeded, $restored restored" "$([[ $good == "$nights" && $restored == "$nights" && -z $rang ]] && echo yes)"
    stop_server
    dump
    in_time 30 rings backup_failed
    rings backup_failed || silent=$((silent + 1))
    [[ $(of_command) != succeeded ]] || false_good=$((false_good + 1))
    cell "$fault" "$(of_command)" "$([[ $(of_command) == failed ]] && rings backup_failed && echo yes)"
    start_server
    dump
    in_time 10 is_quiet
    is_quiet || cell "the good night after" "$(of_command)" no
    # What follows needs the whole destination.
    [[ $tool == rear ]] || stop_server
}

# A shell hides how a program before the last one of a pipe failed.
piped() {
    local night outcomes="" rang=""
    make_server
    for night in good lost good; do
        [[ $night == good ]] || stop_server
        rm -rf /mnt/out/*
        before=$(newest_job)
        "$COWBELL" run --name piped -- sh -c 'mysqldump --no-defaults shop | gzip >/mnt/out/shop.gz' >>"$OUT/tools.log" 2>&1 || true
        sleep 2
        outcomes+="$(of_command) "
        rang+="$(open_alerts) "
        [[ $night == good ]] || start_server
    done
    stop_server
    [[ $outcomes == *failed* ]] || { false_good=$((false_good + 1)); silent=$((silent + 1)); }
    cell piped "$outcomes" "$([[ $outcomes == "succeeded failed succeeded " && $rang == " backup_failed  " ]] && echo yes)"
}

kept() { no_backups keep_with_snapper; }
merged() { no_backups merge_back; }
scrubbed() { no_backups scrub; }
checked() { no_backups check_by_script; }

make_host
make_scripts
cat >/mnt/cowbell.toml <<-END
	[alerts]
	snapshot_left_over = "off"
	time_until_full = "off"
	full_before_done = "off"
	snapshot_fill = "off"
	snapshot_invalid = "off"
	snapshot_small = "off"
END
start_cowbell
await_ticks 2
case ${1:-} in
    '')
        nights=3
        plan=("tar nights killed_early overflow maker_killed hung cowbell_killed no_snapshot left_to_others" "timed killed_late" "rsync not_mounted" "mysqldump piped" "borgmatic nights killed_late" "vzdump nights")
        ;;
    all)
        plan=()
        for tool in $every_tool; do plan+=("$tool nights $faults"); done
        for tool in $dumps; do plan+=("$tool dumps"); done
        plan+=("mysqldump piped" "snapper kept" "merge merged" "e2scrub scrubbed" "e2fsck checked" "timed killed_late" "mirror declared" "listed declared" "folders one_of_two" "tar spare at_once left_to_others cost")
        ;;
    *) plan=("$1 ${*:2}"); (($# > 1)) || plan=("$1 nights $faults") ;;
esac
for line in "${plan[@]}"; do
    read -ra words <<<"$line"
    tool=${words[0]}
    for one in "${words[@]:1}"; do "$one"; done
done
echo "figure tools: $cells cells, $false_good false good, $silent silent, $false_alerts false alerts"
stop_cowbell
finish
