# Does anything stay suspended when `lvextend` and the guard are killed at any moment (`guard-kills 300`: so many)?
#
# LAB_DISKS=4
# LAB_DISK_SIZE=1G
# LAB_TIMEOUT=3500
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/guard.sh"

kills=${1:-40}

# kill_something: at a random moment of the next extension, or after five seconds.
kill_something() {
    local tries
    for ((tries = 0; tries < 100; tries++)); do
        ! pgrep -x lvextend >/dev/null || break
        sleep 0.05
    done
    sleep "0.$((RANDOM % 6))"
    if ((RANDOM % 3)); then
        ! pkill -KILL -x lvextend || hits=$((hits + 1))
    fi
    if ((RANDOM % 2)); then
        kill -KILL "$guard" 2>/dev/null || true
        wait "$guard" 2>/dev/null || true
        start_guard
    fi
}

guarded_groups
per_day="1 TiB" guard_configuration on
start_guard

longest_suspended=0
hits=0
number=0
while ((number < kills)); do
    snapshot vg0 data 24
    reads /mnt/data_snapshot 120 /mnt/read & reader=$!
    # 60 MiB, which is all that can be copied.
    writes /mnt/data 256 24 & writer=$!
    for ((round = 0; round < 4; round++, number++)); do
        kill_something
        since=$SECONDS
        until nothing_is_suspended; do
            if ((SECONDS - since > 20)); then break; fi
            sleep 0.1
        done
        ((SECONDS - since <= longest_suspended)) || longest_suspended=$((SECONDS - since))
        ! is_invalid vg0/data_snapshot || break
    done
    kill "$writer" "$reader" 2>/dev/null || true
    wait "$writer" "$reader" 2>/dev/null || true
    drop vg0 data
done
echo "figure kills: $number, of these $hits while lvextend ran, longest suspended $longest_suspended s"
check "nothing stays suspended for more than 10 s" yes "$(holds "longest_suspended <= 10")"
check "limits held" yes "$(holds "$(free_mib vg0) >= 100")"
stop_guard
finish
