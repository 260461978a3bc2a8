#!/usr/bin/env bash
# All tests of cowbell, in the order of their cost.
#
#   tests/run.sh [--all]
#
# As root on Debian it installs what is missing. As another user it says what is missing, and exits with 2.
# Only root can run the lab, a real LVM host in a virtual machine. --all runs all of its scenarios, attacks the
# release build, and builds and tests the packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PATH:/usr/sbin:/sbin CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}

# One line for each thing that has to be there: a command or a file, and Debian's package of it.
needed() {
    cat <<-END
	cc gcc
	strace strace
	chromium chromium
	/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf fonts-dejavu-core
	node nodejs
	npm npm
	systemd-analyze systemd
	END
    ((EUID != 0)) || needed_by_the_lab
    [[ $mode != --all ]] || needed_by_all
}

needed_by_the_lab() {
    cat <<-END
	linux.uml user-mode-linux
	lvs lvm2
	dmsetup dmsetup
	dmeventd dmeventd
	kpartx kpartx
	thin_check thin-provisioning-tools
	modprobe kmod
	mkfs.xfs xfsprogs
	mkfs.ext4 e2fsprogs
	free procps
	ip iproute2
	halt systemd-sysv
	curl curl
	jq jq
	sqlite3 sqlite3
	fio fio
	debootstrap debootstrap
	mylvmbackup mylvmbackup
	mariadbd mariadb-server
	rsync rsync
	restic restic
	borg borgbackup
	rsnapshot rsnapshot
	partclone.ext4 partclone
	duplicity duplicity
	snapper snapper
	python3 python3-venv
	END
}

needed_by_all() {
    cat <<-END
	go golang-go
	cpio cpio
	dar dar
	zbackup zbackup
	fsarchiver fsarchiver
	rear rear
	rdiff-backup rdiff-backup
	bup bup
	qemu-img qemu-utils
	mariabackup mariadb-backup
	/usr/lib/postgresql postgresql
	debootstrap debootstrap
	readelf binutils
	zstd zstd
	rpm rpm
	lintian lintian
	rpmlint rpmlint
	apt-ftparchive apt-utils
	podman podman
	runc runc
	END
}

missing_packages() {
    local thing package
    while read -r thing package; do
        [[ -e $thing ]] || type -P "$thing" >/dev/null || echo "$package"
    done < <(needed)
}

install_what_is_missing() {
    local missing
    mapfile -t missing < <(missing_packages)
    if ! type -P cargo >/dev/null; then
        echo "run.sh: cargo is missing: install Rust with rustfmt and clippy" >&2
        exit 2
    fi
    ((${#missing[@]} > 0)) || return 0
    if ((EUID != 0)); then
        echo "run.sh: missing here: ${missing[*]}; as root: apt-get install -y --no-install-recommends ${missing[*]}" >&2
        exit 2
    fi
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
}

# step HEADING COMMAND…: the first one that fails ends the run.
step() {
    local start=$SECONDS
    current=$1
    echo "== $1"
    "${@:2}"
    echo "== $1: $((SECONDS - start)) s"
}

# The unit names the place where the README puts the program; here it is where it was built.
verify_unit() {
    local folder
    folder=$(mktemp -d)
    cp systemd/*.service systemd/*.socket "$folder"
    sed -i "s|^\(Exec[A-Za-z]*\)=[^ ]*/cowbell|\1=$PWD/target/release/cowbell|" "$folder"/*.service
    systemd-analyze verify --man=no "$folder"/*
    rm -r "$folder"
}

browser_tests() {
    (
        cd tests/browser
        npm ci --no-audit --no-fund --loglevel=error
        COWBELL=$OLDPWD/target/release/cowbell node --test --test-reporter=spec .
    )
}

dependencies() {
    cargo install -q --locked --root target/tools cargo-deny@0.20.2
    target/tools/bin/cargo-deny check licenses bans sources
}

boards_against_schema() {
    (cd tests/fleet/schema && go run . ../../../systemd/grafana/*.json)
}

packages_under_systemd() {
    tests/lab/service --package target/package/cowbell_*.deb --release bookworm
    tests/lab/service --package target/package/cowbell_*.deb --release trixie
    tests/lab/service --package target/package/cowbell-*.rpm --release bookworm
}

(($# == 0)) || [[ $* == --all ]] || { echo "run.sh: expected nothing or --all, but found \"$*\"" >&2; exit 2; }
mode=${1:-}
# As root no test has a reason to be skipped.
((EUID != 0)) || export CI=${CI:-true}
current='what the tests need'
trap 'code=$?; ((code == 0)) || echo "FAILED: $current" >&2' EXIT

step 'what the tests need' install_what_is_missing
step 'formatting' cargo fmt --all --check
step 'clippy' cargo clippy --locked --workspace --all-targets -- -D warnings
RUSTDOCFLAGS=-Dwarnings step 'documentation' cargo doc --locked --workspace --no-deps
step 'unit and integration tests' cargo test --locked --workspace
step 'release build' cargo build --locked --release
step 'systemd unit' verify_unit
step 'browser tests' browser_tests
[[ $mode != --all ]] || step 'dependencies: licences, bans and sources' dependencies
[[ $mode != --all ]] || ((EUID != 0)) || step 'API: schemathesis for five minutes' tests/fleet/api
[[ $mode != --all ]] || step 'proxies: nginx and Caddy' tests/proxies
[[ $mode != --all ]] || ((EUID != 0)) || step 'receivers: Alertmanager, Exim and a command' tests/receivers
((EUID != 0)) || step 'fleet: metrics, rules and history for promtool' tests/fleet/run
((EUID != 0)) || step 'fleet: the page of all servers' tests/fleet/servers
((EUID != 0)) || step 'fleet: HTTPS with curl, Prometheus and Chromium' tests/fleet/tls
[[ $mode != --all ]] || step 'fleet: boards against the schema of Grafana' boards_against_schema
[[ $mode != --all ]] || ((EUID != 0)) || step 'fleet: three hosts with Prometheus and Alertmanager' tests/fleet/hosts
[[ $mode != --all ]] || ((EUID != 0)) || step 'fleet: remote write' tests/fleet/remote
if ((EUID == 0)); then
    step 'lab: scenarios on real LVM hosts' tests/lab/all "$@"
else
    echo '== lab: left out, it needs root'
fi
if [[ $mode == --all ]]; then
    step 'attacks' tests/attack/run
    step 'build of the packages' systemd/package/build x86_64
    step 'build of the image' systemd/package/build oci x86_64
    if ((EUID == 0)); then
        step 'packages' tests/packages
        step 'lab: the packages under systemd' packages_under_systemd
    fi
fi
echo "All passed, in $((SECONDS / 60)) min $((SECONDS % 60)) s."
