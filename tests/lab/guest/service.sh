# What the checks of a service under systemd share; they source this after lab.sh.
# Here are the words for asking systemd and cowbell. What is judged stands in service-check.sh and package-check.sh.

here=http://127.0.0.1:2692
state=/var/lib/cowbell

info() {
    printf 'info  %s: %s\n' "$1" "$2"
}

# check_that WHAT COMMAND…: the command succeeds.
check_that() {
    local what=$1 said
    shift
    if said=$("$@" 2>&1); then check "$what" yes yes; else check "$what" yes "no: $said"; fi
}

# within SECONDS COMMAND…: as wait_until, but goes on when it was in vain: what follows will say so.
within() {
    local limit=$1 start=$SECONDS
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS - start < limit)) || return 0
        sleep 0.2
    done
}

api() {
    curl -fsS -m 5 "$here/api/v1/$1"
}

# property NAME [UNIT]
property() {
    systemctl show -P "$1" "${2:-cowbell}"
}

is_active() {
    [[ $(property ActiveState) == active ]]
}

milliseconds() {
    local now=${EPOCHREALTIME/./}
    echo $((now / 1000))
}

# took COMMAND…: sets `took` to how many milliseconds it needed.
took() {
    local start
    start=$(milliseconds)
    "$@"
    took=$(($(milliseconds) - start))
}

answers_as_another() {
    is_active && [[ $(property MainPID) != "$1" ]] && curl -fsS -m 2 -o /dev/null "$here/healthz"
}

sees_everything() {
    local part
    for part in diskstats vmstat stat sysfs dm lvm store; do
        within 75 part_is_ok "$part"    # LVM is asked again after a minute, if somebody held its lock
        check "part $part" "true" "$(api status | jq -r --arg name "$part" '.parts[] | select(.name == $name) | if .ok then "true" else .error end')"
    done
    info "pressure" "$(api status | jq -r '.parts[] | select(.name == "pressure") | if .ok then "ok" else .error end')"
}

part_is_ok() {
    api status | jq -e --arg name "$1" '.parts[] | select(.name == $name) | .ok'
}

# One line for each volume: name, uuid, fill and metadata in hundredths of a percent.
volumes_by_lvs() {
    lvs --reportformat json -o vg_name,lv_name,lv_uuid,data_percent,metadata_percent 2>/dev/null |
        jq -r "$hundredths"'.report[].lv[] | "\(.vg_name)/\(.lv_name) \(.lv_uuid) \(.data_percent | hundredths) \(.metadata_percent | hundredths)"' | sort
}

volumes_by_cowbell() {
    api volumes | jq -r "$hundredths"'.[] | "\(.vg)/\(.lv) \(.uuid) \(.fill_percent | hundredths) \(.metadata_percent | hundredths)"' | sort
}
hundredths='def hundredths: if . == null or . == "" then "-" else tonumber * 100 | round end; '

volumes_agree() {
    diff <(volumes_by_lvs) <(volumes_by_cowbell)
}

agrees_with_lvs() {
    within 60 volumes_agree
    check_that "volumes agree with lvs" volumes_agree
    volumes_by_lvs | sed 's/^/info  /'
}

# jobs_of VOLUME FILTER: what jq says of the snapshot jobs of a volume.
jobs_of() {
    api jobs | jq -r --arg lv "$1" "[.[] | select(.kind == \"snapshot\" and .lv == \$lv)] | $2"
}

is_one_job() {
    [[ $(jobs_of "$1" length) == 1 ]]
}

has_ended() {
    [[ $(jobs_of "$1" 'map(.ended_at != null) | all') == true ]]
}

dm_error() {
    api status | jq -r '.parts[] | select(.name == "dm") | .error // "none"'
}

dm_says() {
    [[ $(dm_error) == *"$1"* ]]
}
