# What the tests with real programs share: a network and a folder of their own, checks, and waiting.
# They set `cowbell` and `limit`, the time limit for everything that a test waits for, in seconds.

wait_for() {
    local what=$1 end=$((SECONDS + limit))
    shift
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || { echo "WRONG no $what within $limit s"; wrong=$((wrong + 1)); return 0; }
        sleep 0.05
    done
}

# check WHAT EXPECTED FOUND
check() {
    if [[ $3 == "$2" ]]; then
        echo "ok    $1"
    else
        echo "WRONG $1: expected \"$2\", but found \"${3:0:600}\""
        wrong=$((wrong + 1))
    fi
}

# passes WHAT COMMAND…
passes() {
    local said
    said=$("${@:2}" 2>&1) && said=''
    check "$1" '' "$said"
}

clean_up() {
    ((${#started[@]} == 0)) || kill "${started[@]}" 2>/dev/null || true
    wait
    cd /
    rm -rf "$folder"
}

# begin PACKAGE[:PROGRAM]… -- ARGUMENT…: installs what is missing on Debian, and starts the test again in a network and a
# folder of its own.
begin() {
    local packages=()
    while [[ $1 != -- ]]; do
        type -P "${1##*:}" >/dev/null || packages+=("${1%%:*}")
        shift
    done
    shift
    [[ -x $cowbell ]] || { echo "fleet: $cowbell is missing: cargo build --release" >&2; exit 2; }
    ((EUID == 0)) || { echo 'fleet: expected root, which can make a network of its own' >&2; exit 2; }
    if [[ ${1:-} != inside ]]; then
        if ((${#packages[@]} > 0)); then
            apt-get update -q >/dev/null
            # Their services need not run.
            DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
                apt-get install -y -q --no-install-recommends "${packages[@]}" >/dev/null
        fi
        exec unshare --net "$0" inside "$@"
    fi
    folder=$(mktemp -d)
    cd "$folder"
    started=() wrong=0
    trap clean_up EXIT
    ip link set lo up
}

# unpack_newest FOLDER PACKAGE: of Debian's newest suite, beside what is installed. Only for programs without libraries.
unpack_newest() {
    [[ ! -d $1 ]] || return 0
    local mirror temporary apt
    temporary=$(mktemp -d)
    mkdir -p "$temporary"/lists/partial "$1.part"
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$temporary/sid.list"
    apt=(apt-get -qq -o Dir::Etc::SourceList="$temporary/sid.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::Lists="$temporary/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
        -o Acquire::Languages=none -o APT::Sandbox::User=root)
    "${apt[@]}" update
    (cd "$1.part" && "${apt[@]}" download "$2/sid" && dpkg -x "$2"_*.deb . && rm "$2"_*.deb)
    rm -r "$temporary"
    mv "$1.part" "$1"
}
