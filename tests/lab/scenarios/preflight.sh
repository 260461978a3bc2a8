# Does `cowbell check` say by day what would stop tonight's mylvmbackup? Each thing is made wrong once on a host whose
# volumes, mounts and programs are real, and said in its own sentence; where all is well nothing is missing.
# Does it say which hooks are not linked, and whether they would be heard? Needs the package mylvmbackup.
source "$repo/tests/lab/guest/lab.sh"

conf=/mnt/mylvmbackup.conf

# What it says is left in $said.
look() {
    status=0
    said=$("$COWBELL" check --config /mnt/cowbell.toml --db /mnt/state/cowbell.db 2>&1) || status=$?
    printf '%s\n\n' "$said" >>"$OUT/said.log"
}

# says WHAT WORDS: a line of it has these words.
says() {
    look
    check "$1" yes "$(grep -qF -- "$2" <<<"$said" && echo yes || echo "$said")"
}

# of_backup: what is missing for tonight's backup, without what the guest itself lacks.
of_backup() {
    grep '^missing' <<<"$said" | grep -vE 'proc/pressure|hooks' || true
}

# configure [SED]: the usual configuration, changed.
configure() {
    sed "${1:-}" >"$conf" <<-END
	[mysql]
	user=root
	password=geheim-4711
	[lvm]
	vgname=vg0
	lvname=data
	lvsize=100M
	[fs]
	mountdir=/mnt/snap/
	backupdir=/mnt/backup/
	[tools]
	compress=gzip
	[misc]
	skip_mycnf=1
	END
}

make_host() {
    modules dm-snapshot dm-thin-pool dm-raid raid1 dm-integrity ext4
    new_group vg0 /dev/ubda /dev/ubdb
    new_volume -L 300M -n data vg0
    new_volume -L 60M -n spare vg0
    new_volume --type thin-pool -L 200M -n pool vg0
    new_volume -V 300M --thinpool vg0/pool -n thin
    mkfs.ext4 -q /dev/vg0/data
    mkfs.ext4 -q /dev/vg0/spare
    mkdir -p /mnt/data /mnt/spare /mnt/backup /mnt/snap
    mount /dev/vg0/data /mnt/data
    mount /dev/vg0/spare /mnt/spare
    # The file is the guest's own, at the place where mylvmbackup looks.
    : >"$conf"
    mount --bind "$conf" /etc/mylvmbackup.conf
}

all_is_well() {
    configure
    says "all is well" "nothing here would stop mylvmbackup tonight"
    check "exit status" 0 "$status"
    check "what is missing" "" "$(of_backup)"
    says "room in the group" "free, and mylvmbackup's snapshot of vg0/data takes 100 MiB"
}

snapshot_cannot_be_made() {
    configure 's/100M/50%ORIGIN/'
    says "a percentage" '`lvsize` is "50%ORIGIN"'
    configure 's/=vg0/=vg7/'
    says "no group" "there is no volume group vg7"
    configure 's/=data/=dat/'
    says "no origin" "there is no volume vg0/dat:"
    configure
    new_volume -l 100%FREE -n ballast vg0
    says "no room" "vg0 has 0 B free, and the snapshot of vg0/data takes 100 MiB"
    lvremove -qq -f vg0/ballast
    pvchange -qq -x n /dev/ubda /dev/ubdb
    says "no PV to allocate from" "vg0 has 0 B free, and the snapshot of vg0/data takes 100 MiB"
    pvchange -qq -x y /dev/ubda /dev/ubdb
    lvm_sees_only /dev/ubda
    says "a missing PV" "a PV of VG vg0 is missing: if /dev/ubdb works, allow it in LVM's devices file or filter, and if not, attach it again"
    lvm_sees_only '/dev/ubd.*'
    vgchange -qq -l 4 vg0
    says "as many volumes as the group may have" 'VG vg0 has as many volumes as it may have, 4: allow more with `vgchange -l 0 vg0`'
    vgchange -qq -l 0 vg0
    fill_archive
    says "no room for LVM's archive" "free space in the file system of $LVM_SYSTEM_DIR/archive, which is full"
    umount "$LVM_SYSTEM_DIR/archive"
    new_volume -s -L 20M -n merged vg0/data
    lvconvert -qq --merge vg0/merged
    says "a merge that waits" "a snapshot waits to be merged into vg0/data, and LVM makes no other one until then"
    umount /mnt/data
    lvchange -an vg0/data
    lvchange -ay vg0/data
    wait_until 20 "the merge" eval '! lvs -a vg0/merged'
    mount /dev/vg0/data /mnt/data
    new_volume --type raid1 -m 1 --raidintegrity y -L 20M -n sums vg0
    configure 's/=data/=pool/'
    says "a thin pool" "vg0/pool is a thin pool, of which LVM makes no snapshot"
    configure 's/=data/=sums/'
    says "a RAID with integrity" "vg0/sums is a RAID with integrity, of which LVM makes no snapshot"
    lvremove -qq -f vg0/sums
    configure
    new_volume -s -L 20M -n data_snapshot vg0/data
    says "left behind" "vg0/data_snapshot already exists"
    lvremove -qq -f vg0/data_snapshot
    check "in the end all is well" "" "$(look; of_backup)"
}

thin_snapshots() {
    configure 's/skip_mycnf=1/&\nthin=1/'
    says "thin, but the origin is not" "vg0/data is no thin volume"
    configure 's/=data/=thin/'
    says "not thin, but the origin is" 'vg0/thin is a thin volume, but `thin` is off'
    configure 's/=data/=thin/;s/skip_mycnf=1/&\nthin=1/'
    says "activation is skipped" "LVM creates thin snapshots inactive"
    configure 's/=data/=thin/;s/skip_mycnf=1/&\nthin=1/;s/compress=/lvcreate=lvcreate -kn\n&/'
    look
    check "activation is asked for" "" "$(of_backup)"
    echo 'activation/auto_set_activation_skip=0' >>/mnt/lvm/lvmlocal.conf
    configure 's/=data/=thin/;s/skip_mycnf=1/&\nthin=1/'
    look
    check "activation is not skipped" "" "$(of_backup)"
    dd if=/dev/urandom of=/dev/vg0/thin bs=1M count=120 oflag=direct status=none
    echo 'activation/thin_pool_autoextend_threshold=50' >>/mnt/lvm/lvmlocal.conf
    says "a pool too full for a snapshot" "The data of thin pool vg0/pool is 60.00 % full, and from 50.00 % on LVM creates no snapshot in the pool"
}

places_and_programs() {
    configure 's#/mnt/snap/#/mnt/none/#'
    says "no mountdir" '`mountdir` "/mnt/none" does not exist'
    mkdir /mnt/snap/backup
    touch /mnt/snap/backup/ibdata1
    configure
    says "mountdir is not empty" '"/mnt/snap/backup" is not empty'
    rm -r /mnt/snap/backup
    configure 's#/mnt/backup/#/mnt/none/#'
    says "no backupdir" '`backupdir` "/mnt/none" does not exist'
    configure 's#/mnt/backup/#/mnt/data/backup#'
    mkdir /mnt/data/backup
    says "backupdir on the origin" "lies on vg0/data, the volume to be backed up"
    configure 's#/mnt/backup/#/mnt/spare#'
    dd if=/dev/urandom of=/mnt/spare/backup-1_mysql.tar.gz bs=1M count=30 status=none
    says "no room for another" "the largest of the last 1 backups has 30.0 MiB: tonight's would not fit"
    rm /mnt/spare/backup-1_mysql.tar.gz
    dd if=/dev/urandom of=/mnt/data/ballast bs=1M count=100 status=none
    says "no backup yet" "it is unknown whether the compressed one fits"
    rm /mnt/data/ballast
    configure 's/=gzip/=pigz-that-is-not-there/'
    says "no compressor" '`compress`: "pigz-that-is-not-there" does not exist'
    : >/mnt/gzip
    configure 's#=gzip#=/mnt/gzip -9#'
    says "a compressor that is no program" '`compress`: "/mnt/gzip" is not executable'
}

the_file_itself() {
    configure '$a geheim-4711'
    says "a syntax error" "line 15 of /etc/mylvmbackup.conf is neither a comment"
    check "no secret is shown" 0 "$(grep -c geheim "$OUT/said.log")"
    configure 's/lvsize=.*/&\n&/'
    says "a duplicate key" '`lvsize` appears more than once'
    configure '/skip_mycnf/d;s/password=.*/&\nmycnf=\/mnt\/geheim/'
    says "no my.cnf" 'the file that `mycnf` names does not exist'
    configure
    chmod 600 "$conf"
    chmod 711 /mnt /mnt/state
    mkdir -m 777 /mnt/nobody
    said=$(setpriv --reuid=65534 --regid=65534 --clear-groups "$COWBELL" check --db /mnt/nobody/cowbell.db 2>&1) || true
    check "not root" yes "$(grep -q 'cannot read /etc/mylvmbackup.conf: .*as root' <<<"$said" && echo yes || echo "$said")"
    check "no secret is shown" 0 "$(grep -c geheim "$OUT/said.log")"
}

# A disk that does not answer: it is stopped below the folder's file system, of which nothing is in memory.
a_folder_that_hangs() {
    mkdir /mnt/spare/backup
    for number in {1..2000}; do : >"/mnt/spare/backup/some-long-name-that-takes-room-$number"; done
    configure 's#/mnt/backup/#/mnt/spare/backup#'
    sync
    umount /mnt/spare
    mount /dev/vg0/spare /mnt/spare
    dmsetup suspend --noflush --nolockfs vg0-spare
    : >/mnt/hung
    "$COWBELL" check --config /mnt/cowbell.toml --db /mnt/state/cowbell.db >/mnt/hung 2>&1 &
    hung=$!
    in=0
    until grep -q "did not answer for 2 s" /mnt/hung || ((++in > 100)); do sleep 0.2; done
    check "a folder that hangs" yes "$(grep -q '/mnt/spare/backup did not answer for 2 s' /mnt/hung && echo yes || cat /mnt/hung)"
    dmsetup resume vg0-spare
    wait "$hung" || true
}

hooks_are_linked_and_heard() {
    mkdir /mnt/hooks
    configure 's/skip_mycnf=1/&\nhooksdir=\/mnt\/hooks/'
    says "no hook is linked" "hooks are not linked for these steps: preconnect, preflush, "
    says "no listener" "no process listens for hooks at /run/cowbell/hooks"
    ln -s "$repo"/systemd/mylvmbackup/[pb]* /mnt/hooks
    says "all hooks are linked" "all ten hooks of mylvmbackup in /mnt/hooks call cowbell"
    rm /mnt/hooks/premount
    says "one is missing" "these steps: premount; run"
    start_cowbell
    says "cowbell listens elsewhere" "cowbell runs, but no process listens at /run/cowbell/hooks"
    stop_cowbell
    mkdir -p -m 700 /run/cowbell
    printf '[hooks]\nsocket = "/run/cowbell/hooks"\n' >/mnt/cowbell.toml
    start_cowbell
    says "hooks are received" "cowbell receives backup hooks at /run/cowbell/hooks"
    check "exit status" 0 "$status"
    stop_cowbell
}

: >/mnt/cowbell.toml
[[ -f /etc/mylvmbackup.conf ]] || fail "needs mylvmbackup: apt-get install mylvmbackup"
make_host
all_is_well
snapshot_cannot_be_made
thin_snapshots
places_and_programs
the_file_itself
hooks_are_linked_and_heard
a_folder_that_hangs
finish
