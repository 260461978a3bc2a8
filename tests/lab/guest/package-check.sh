#!/bin/bash
# Judges a package on a Debian with a running systemd, as root: installs it, looks whether the service comes up by itself
# and shows this host's LVM without any capability, backs up a real MariaDB by mylvmbackup, and then does damage: trials.sh.
# Run at each boot by tests/lab/service, in the folder that holds what it brought; one line `ok` or `WRONG` for each thing.
job=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
OUT=$(dirname "$job")
source "$job/lab.sh"
source "$job/state.sh"
source "$job/service.sh"
source "$job/trials.sh"
source "$job/database.sh"
hooks=/usr/share/mylvmbackup
all_phases='["flush","snapshot","mount","backup","cleanup"]'
export DEBIAN_FRONTEND=noninteractive

is_rpm() {
    [[ ! -e $job/earlier.deb ]]
}

# cowbell's state is on a small file system of its own, which can be filled.
make_state_disk() {
    truncate -s 32M /srv/state.img
    mkfs.ext4 -q /srv/state.img
    mkdir -p "$state"
    echo loop >/etc/modules-load.d/lab.conf
    echo "/srv/state.img $state ext4 loop 0 0" >>/etc/fstab
    modprobe loop
    systemctl daemon-reload
    mount "$state"
}

# This Debian's own packages are not in rpm's database.
install_first() {
    if is_rpm; then rpm --nodeps -i "$job"/*.rpm; else dpkg -i "$job/earlier.deb"; fi
}

# An .rpm is installed over itself, for which rpm runs the scripts of an upgrade.
upgrade() {
    local pid
    pid=$(property MainPID)
    if is_rpm; then rpm --nodeps -U --replacepkgs "$job"/*.rpm; else dpkg -i "$job"/cowbell_*.deb; fi >>"$OUT/install.log" 2>&1 ||
        fail "the upgrade: $(tail -n 3 "$OUT/install.log")"
    wait_until 120 "cowbell to come back after the upgrade" answers_as_another "$pid"
}

installs() {
    local ended=0
    took install_first >"$OUT/install.log" 2>&1 || ended=$?
    check "installs" 0 "$ended"
    info "took" "$took ms"
    check "prints the ssh line" 1 "$(grep -c 'ssh -L 2692:127.0.0.1:2692 .* http://127.0.0.1:2692/' "$OUT/install.log")"
    check "prints what check found" 1 "$(grep -c '^cowbell check: [0-9]* ok, [0-9]* missing, [0-9]* failed' "$OUT/install.log")"
    grep '^cowbell' "$OUT/install.log" | sed 's/^/info  /'
}

# The socket of the pages is optional.
comes_up_by_itself() {
    within 60 is_active
    check "$1: the service" "active enabled" "$(systemctl is-active cowbell) $(systemctl is-enabled cowbell)"
    check "$1: sockets that are not active" "" "$(cd /usr/lib/systemd/system && systemctl is-active cowbell-*.socket | grep -vx active || true)"
    check "$1: units that are enabled" "cowbell-reader.socket cowbell.service" \
        "$(systemctl list-unit-files --state=enabled --no-legend 'cowbell*' | awk '{ print $1 }' | sort | xargs)"
    check "$1: the reader" active "$(systemctl is-active cowbell-reader)"
    check "$1: restarts" "0 0" "$(property NRestarts) $(property NRestarts cowbell-reader)"
    check "$1: failed units" "" "$(systemctl list-units --failed --no-legend --plain 'cowbell*')"
}

has_no_capability() {
    local status
    status=/proc/$(property MainPID)/status
    check "$1: capabilities of the web process" "CapInh CapPrm CapEff CapBnd CapAmb: 0000000000000000" \
        "$(awk '/^Cap/ { names = names " " substr($1, 1, 6); values[$2] } END { for (value in values) all = all " " value; print substr(names, 2) ":" all }' "$status")"
    check "$1: its user" cowbell "$(stat -c %U "${status%/status}")"
    info "$1: capabilities of the reader" "$(awk '/^CapEff/ { print $2 }' "/proc/$(property MainPID cowbell-reader)/status")"
}

make_volumes() {
    new_group vg0 /dev/ubdb
    new_volume -L 100M -n data vg0
    mkfs.ext4 -q /dev/vg0/data
    new_volume -s -c 4k -L 48M -n data_snapshot vg0/data
    new_volume --type thin-pool -L 60M -n pool vg0
    new_volume -V 100M --thinpool vg0/pool -n thin
    dd if=/dev/urandom of=/dev/vg0/data bs=64k seek=400 count=222 conv=fsync status=none
    dd if=/dev/urandom of=/dev/vg0/thin bs=64k count=200 conv=fsync status=none
}

shows_real_lvm() {
    agrees_with_lvs
    check "the page shows the snapshot" yes "$([[ $(curl -fsS -m 20 "$here/") == *data_snapshot* ]] && echo yes)"
    within 60 is_one_job data_snapshot
    check "its job runs" "1 null" "$(jobs_of data_snapshot '"\(length) \(.[0].ended_at)"')"
}

# The database's files are on a volume, with what takes some time to compress.
install_backups() {
    dpkg -i /root/mylvmbackup_*.deb >>"$OUT/install.log" 2>&1 || fail "mylvmbackup: $(tail -n 3 "$OUT/install.log")"
    is_rpm && upgrade    # rpm has no triggers for Debian's packages
    check "mylvmbackup's hooks are linked" 10 "$(find "$hooks" -lname '/usr/share/cowbell/*' | wc -l)"
    new_volume -L 400M -n mysql vg0
    mkfs.ext4 -q /dev/vg0/mysql
    mkdir /mnt/mysql
    mount /dev/vg0/mysql /mnt/mysql
    systemctl start mariadb    # it makes its logs anew
    systemctl stop mariadb 2>>"$OUT/install.log"
    cp -a --sparse=never /var/lib/mysql/. /mnt/mysql    # see copy_database
    dd if=/dev/urandom of=/mnt/mysql/ballast bs=1M count="$ballast" conv=fsync status=none
    umount /mnt/mysql
    echo '/dev/vg0/mysql /var/lib/mysql ext4 nofail 0 0' >>/etc/fstab
    mount /var/lib/mysql
    systemctl start mariadb
    write_compressor
    backup_settings mysql 100M /usr/local/bin/compress
}

# An archive is not complete before the damage is done.
write_compressor() {
    cat >/usr/local/bin/compress <<-'END'
	#!/bin/sh
	gzip "$@"
	while [ -e /run/damage ]; do sleep 0.2; done
	END
    chmod +x /usr/local/bin/compress
}
ballast=60

backup() {
    rm -f /mnt/backup/*
    mylvmbackup --configfile=/mnt/mylvmbackup.conf >>"$OUT/mylvmbackup.log" 2>&1
}

# The newest run, as the API has it.
backup_job() {
    jobs_of mysql_snapshot "sort_by(.started_at) | last | $1"
}

is_read() {
    [[ $(backup_job '.ended_at == null and .phases[-1].phase == "backup"') == true ]]
}

# backup_goes_well WHAT [DAMAGE…]: which is done while the archive is made.
backup_goes_well() {
    local ended=0 backup
    touch /run/damage
    backup & backup=$!
    wait_until 120 "the archive to be made" is_read
    "${@:2}"
    within 60 works
    check "$1: is still being read" true "$(backup_job '.ended_at == null')"
    rm /run/damage
    wait "$backup" || ended=$?
    check "$1: exit status of mylvmbackup" 0 "$ended"
    within 30 eval '[[ $(backup_job .outcome) == succeeded ]]'
    check "$1: outcome and phases" "succeeded $all_phases" "$(backup_job '"\(.outcome) \([.phases[].phase])"')"
}

first_boot() {
    mkdir -p /var/log/journal    # of all boots
    journalctl --flush
    info "system" "$(. /etc/os-release && echo "$PRETTY_NAME"), $(systemctl --version | head -n 1), $(lvm version | awk '/LVM version/ { print "LVM " $3 }'), kernel $(uname -r)"
    make_state_disk
    installs
    comes_up_by_itself installed
    has_no_capability installed
    make_volumes
    shows_real_lvm
    sees_everything
    begin_trials
    install_backups
    backup_goes_well "a backup" :
    try_machine
    try_processes
    reboot_with systemctl reboot
}

try_processes() {
    local round
    for round in 1 2 3; do
        trial "kill -9 of web" kill_web
        trial "kill -9 of reader" kill_reader
        trial "kill -9 of both" kill_both
        trial "SIGSTOP of reader" stop_reader
    done
    trial "kill -9 of both, during a backup" backup_goes_well "kill -9 of both" kill_both
}

try_machine() {
    local round
    trial "upgrade, during a backup" backup_goes_well "an upgrade" upgrade
    comes_up_by_itself upgraded
    has_no_capability upgraded
    for round in 1 2; do
        trial "full state disk" fill_disk
        trial "clock 10 minutes forward" step_clock 600
        trial "clock 10 minutes back" step_clock -600
        trial "clock 2 minutes back" step_clock -120
        trial "clock 2 minutes forward" step_clock 120
    done
}

# reboot_with COMMAND…: the next boot goes on in `next_boot`.
reboot_with() {
    sleep 3
    echo "$failures $*" >"$OUT/rebooting"
    journalctl -b --no-pager >"$OUT/journal-$(cat /proc/sys/kernel/random/boot_id).log"
    "$@"
    sleep infinity
}

# At once, without stopping a service or writing anything.
cut_power() {
    spare
    sync -f "$OUT/heard"
    systemctl reboot -ff
}

next_boot() {
    local how
    read -r failures how <"$OUT/rebooting"
    go_on_with_trials
    comes_up_by_itself "after $how"
    has_no_capability "after $how"
    if [[ $how == cut_power ]]; then
        judge_trial "power cut"
        goes
    else
        judge_trial "reboot"
        reboot_with cut_power
    fi
}

goes() {
    print_trials
    local end=0
    if is_rpm; then rpm -e --nodeps cowbell; else dpkg --purge cowbell; fi >>"$OUT/install.log" 2>&1 || end=$?
    # The folder of its state is a mount point.
    check "removed: without an error" 0 "$end"
    check "removed: processes" "" "$(pgrep -x cowbell || true)"
    check "removed: units" "" "$(systemctl list-units --all --no-legend --plain 'cowbell*' | grep -v not-found || true)"
    check "removed: hooks" 0 "$(find "$hooks" -lname '/usr/share/cowbell/*' | wc -l)"
    finish
}

cd "$job"
if [[ -e $OUT/rebooting ]]; then next_boot; else first_boot; fi
