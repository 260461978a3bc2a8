systemctl is-system-running --wait; systemctl --failed --no-pager; cat /proc/cgroups; mount; ls -la /dev/mapper; lsmod; systemd-analyze; cat /sys/fs/cgroup/cgroup.controllers
