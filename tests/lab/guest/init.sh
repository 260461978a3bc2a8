#!/bin/bash
# The guest's first process: makes a machine out of a kernel (proc, sys, dev,
# LVM without udev), runs the scenario named in $LAB_JOB, writes down how it
# ended and halts. The root is the host's own tree: everything that must not
# stay behind goes to /run or /mnt, which are in memory.
# Nothing here knows what a scenario does; what scenarios share is in lab.sh.

mount_system() {
    mountpoint -q /proc || mount -t proc proc /proc
    mountpoint -q /sys || mount -t sysfs sys /sys
    mountpoint -q /dev || mount -t devtmpfs dev /dev
    mkdir -p /dev/pts /dev/shm
    [[ -e /dev/fd ]] || ln -s /proc/self/fd /dev/fd
    mount -t devpts devpts /dev/pts
    mount -t tmpfs tmpfs /dev/shm
    mount -t tmpfs tmpfs /run
    mount -t tmpfs tmpfs /mnt
    mkdir -p /run/lock/lvm /mnt/tmp /mnt/state /mnt/mod/lib
    ln -s /usr/lib/uml/modules /mnt/mod/lib/modules
    ip link set lo up
}

# No udev runs, so LVM makes its own nodes; its configuration, archive and locks are the guest's own.
# Without checks, an older LVM does not remark on a setting that it does not know.
set_up_lvm() {
    cp -r /etc/lvm /mnt/lvm
    rm -rf /mnt/lvm/archive /mnt/lvm/backup
    cat >/mnt/lvm/lvmlocal.conf <<-END
	activation { udev_sync=0 udev_rules=0 verify_udev_operations=0 monitoring=0 }
	devices { filter=["a|/dev/ubd.*|","r|.*|"] use_devicesfile=0 }
	config { checks=0 }
	END
}

run_scenario() {
    set -euo pipefail
    cd /mnt
    exec >"$OUT/output.log" 2>&1
    bash "$scenario" "${arguments[@]}"
}

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/mnt LC_ALL=C.UTF-8
export DM_DISABLE_UDEV=1 LVM_SYSTEM_DIR=/mnt/lvm TMPDIR=/mnt/tmp
mount_system
set_up_lvm
source "$LAB_JOB"
export repo name OUT COWBELL LAB_DISKS

(run_scenario)
echo $? >"$(dirname "$LAB_JOB")/status"
sync
halt -f
