# A real MariaDB, backed up by a real mylvmbackup with our hooks, for scenarios that source lab.sh first.
# Needs the packages mylvmbackup and mariadb-server.

hooks=/mnt/hooks

need() {
    local command
    for command; do type -P "$command" >/dev/null || fail "needs $command: apt-get install mylvmbackup mariadb-server pbzip2"; done
}

# install_database FOLDER: makes its tables.
install_database() {
    mkdir -p /run/mysqld
    mariadb-install-db $(mariadb_options "$1") --auth-root-authentication-method=normal >"$OUT/mariadb.log" 2>&1 ||
        fail "mariadb-install-db: $(tail -n 3 "$OUT/mariadb.log")"
}

# Without a limit it reserves more addresses than the guest has.
mariadb_options() {
    echo "--no-defaults --user=root --datadir=$1 --innodb-use-native-aio=0 --innodb-buffer-pool-size-max=64M" \
        "--innodb-buffer-pool-size=32M --innodb-log-file-size=16M"
}

# copy_database FOLDER TO: its files are preallocated. The copies have no unwritten extents, which a file system counts as
# used, but no backup reads.
copy_database() {
    cp -a --sparse=never "$1" "$2"
}

# Its temporary space would be preallocated as well.
elsewhere="--innodb-data-home-dir= --innodb-temp-data-file-path=/mnt/tmp/ibtmp1:12M:autoextend"

# start_database FOLDER [OPTION…]
start_database() {
    mariadbd $(mariadb_options "$1") --socket=/run/mysqld/mysqld.sock --skip-networking --tmpdir=/mnt/tmp "${@:2}" \
        >>"$OUT/mariadb.log" 2>&1 &
    mariadb=$!
    wait_until 60 "MariaDB" mariadb --no-defaults -e 'SELECT 1'
}

stop_database() {
    kill "$mariadb"
    wait "$mariadb" || true
}

# The packaged Perl hooks stay where they are, and win over scripts of their name.
link_hooks() {
    rm -rf "$hooks"
    mkdir "$hooks"
    cp /usr/share/mylvmbackup/*.pm "$hooks"
    ln -s "$repo"/systemd/mylvmbackup/[pb]* "$hooks"
}

# With the socket that the hooks speak to.
start_cowbell_with_hooks() {
    mkdir -p -m 700 /run/cowbell
    printf '[hooks]\nsocket = "/run/cowbell/hooks"\n' >/mnt/cowbell.toml
    start_cowbell
}

# backup_settings LV SIZE [COMPRESSOR [MORE…]]: /mnt/mylvmbackup.conf, with more lines for its last section.
backup_settings() {
    mkdir -p /mnt/backup /mnt/snap
    cat >/mnt/mylvmbackup.conf <<-END
	[mysql]
	user=root
	password=
	socket=/run/mysqld/mysqld.sock
	mycnf=
	[lvm]
	vgname=vg0
	lvname=$1
	lvsize=$2
	[fs]
	mountdir=/mnt/snap/
	backupdir=/mnt/backup/
	[tools]
	compress=${3:-gzip}
	[misc]
	compressarg=${4:---stdout --fast}
	skip_mycnf=1
	hooksdir=$hooks
	END
}
