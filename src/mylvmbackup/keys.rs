//! mylvmbackup's configuration keys: sections and defaults.

/// Sections of version 0.15 with their keys and defaults, which contain no blanks.
const SECTIONS: [(&str, &str); 8] = [
    (
        "mysql",
        "user=root password= host= port= socket= mysqld_safe=mysqld_safe mycnf=/etc/mysql/my.cnf",
    ),
    ("lvm", "vgname=mysql lvname=data lvsize=5G backuplv="),
    (
        "fs",
        "xfs=0 mountdir=/var/cache/mylvmbackup/mnt/ backupdir=/var/cache/mylvmbackup/backup/ relpath=",
    ),
    (
        "tools",
        "lvcreate=lvcreate lvremove=lvremove lvs=lvs mount=mount umount=umount tar=tar compress=gzip \
         rsync=rsync rsnap=rsnap",
    ),
    ("zbackup", "zbackup=zbackup zbackuparg=--non-encrypted"),
    (
        "misc",
        "backuptype=tar backupretention=0 prefix=backup suffix=_mysql tararg=cf tarsuffixarg= \
         tarfilesuffix=.tar.gz compressarg= rsyncarg= rsnaparg= rsnaprsyncarg= datefmt= innodb_recover=0 \
         recoveryopts= pidfile= skip_flush_tables=0 extra_flush_tables=0 skip_mycnf=0 \
         hooksdir=/usr/share/mylvmbackup skip_hooks=0 keep_snapshot=0 keep_mount=0 thin=0 quiet=0",
    ),
    (
        "logging",
        "log_method= syslog_socktype= syslog_facility= syslog_remotehost=",
    ),
    (
        "reporting",
        "mail_report_on= mail_from= mail_to= mail_subject=",
    ),
];

/// Section, key and default of each key.
fn keys() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    SECTIONS.into_iter().flat_map(|(section, keys)| {
        keys.split(' ').filter_map(move |key| {
            key.split_once('=')
                .map(|(key, default)| (section, key, default))
        })
    })
}

/// The section and default of a key; `None` if mylvmbackup does not know the key.
pub(super) fn known(key: &str) -> Option<(&'static str, &'static str)> {
    keys()
        .find(|(_, name, _)| *name == key)
        .map(|(section, _, default)| (section, default))
}

pub(super) fn is_known(section: &str, key: &str) -> bool {
    keys().any(|(of, name, _)| of == section && name == key)
}
