# Does anything stay suspended when `lvextend` and the guard are killed at any moment (`guard-kills 300`: so many)?
#
# LAB_DISKS=4
# LAB_DISK_SIZE=1G
# LAB_TIMEOUT=3500
# LAB_PACKAGES=fio
source "$repo/tests/lab/guest/lab.sh"
source "$repo/tests/lab/guest/guard.sh"

kills=${1:-40}
volumes=(vg0/data vg1/other vg1/last)
pools=(pool more)

# Three backups, each with a reader and 60 MiB that are copied, and two pools that fill: something is extended every few
# seconds.
begin() {
    local each
    for each in "${volumes[@]}"; do
        snapshot "${each%/*}" "${each#*/}" 12
        load write "/mnt/${each#*/}/written" --bs=16k --rate=640k --size=60m
        load read "/mnt/${each#*/}_snapshot/content" --bs=256k --rate=2500k --size=240m
    done
    for each in "${pools[@]}"; do
        new_volume -L 16M -V 1G -T "vg0/$each" -n "of_$each"
        load write "/dev/vg0/of_$each" --bs=64k --rate=1m --size=250m
    done
}

# load write|read FILE RATE…
load() {
    fio --name=load --rw="$1" --filename="$2" --direct=1 "${@:3}" >>"$OUT/fio.log" 2>&1 &
}

end() {
    local each
    pkill -x fio || true
    wait_until 60 "the end of fio" eval '! pgrep -x fio >/dev/null'
    for each in "${volumes[@]}"; do drop "${each%/*}" "${each#*/}"; done
    for each in "${pools[@]}"; do lvremove -qy "vg0/$each" >>"$OUT/lvm.log" 2>&1; done
}

lvextend_runs() {
    local file name
    for file in /proc/[0-9]*/comm; do
        { read -r name <"$file"; } 2>/dev/null || continue
        [[ $name != lvextend ]] || return 0
    done
    return 1
}

# kill_something: lvextend at a random moment, or as soon as it has suspended something; the guard too, or alone.
kill_something() {
    local kind=$((RANDOM % 4)) end=$((SECONDS + 4))
    until lvextend_runs || ((SECONDS >= end)); do sleep 0.02; done
    end=$((SECONDS + 2))
    case $kind in
    0) sleep "$(printf '0.%03d' $((RANDOM % 1000)))" ;;
    1) sleep "$(printf '0.%03d' $((RANDOM % 700)))" ;;
    *) while nothing_is_suspended && lvextend_runs && ((SECONDS < end)); do :; done ;;
    esac
    if ((kind > 0)); then
        ! pkill -KILL -x lvextend || hits=$((hits + 1))
    fi
    if ((kind == 0 || RANDOM % 2)); then
        kill -KILL "$guard" 2>/dev/null || true
        wait "$guard" 2>/dev/null || true
        start_guard
    fi
}

guarded_groups
origin vg1 last
slow_disks 1
per_day="1 TiB" guard_configuration on
start_guard

longest_suspended=0
hits=0
suspensions=0
number=0
while ((number < kills)); do
    begin
    began=$SECONDS
    while ((SECONDS - began < 90 && number < kills)); do
        kill_something
        number=$((number + 1))
        # What lvextend itself suspended, it resumes.
        since=$SECONDS
        while lvextend_runs && ((SECONDS - since < 20)); do sleep 0.1; done
        since=$SECONDS
        nothing_is_suspended || suspensions=$((suspensions + 1))
        until nothing_is_suspended || ((SECONDS - since > 20)); do
            ((SECONDS - since != 9)) || dmsetup info -c -o name,suspended,tables_loaded >"$OUT/suspended-$number"
            sleep 0.1
        done
        ((SECONDS - since <= longest_suspended)) || longest_suspended=$((SECONDS - since))
    done
    echo "killed $number, $hits while lvextend ran, $suspensions left a volume suspended, longest $longest_suspended s"
    end
done
echo "figure kills: $number, of these $hits while lvextend ran and $suspensions that left a volume suspended," \
    "longest suspended $longest_suspended s"
check "nothing stays suspended for more than 10 s" yes "$(holds "longest_suspended <= 10")"
check "limits held" yes "$(holds "$(free_mib vg0) >= 100")"
stop_guard
finish
