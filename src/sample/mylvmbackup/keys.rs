//! mylvmbackup's configuration keys: sections and defaults.

/// Sections, keys and defaults of version 0.15.
const KEYS: [(&str, &[(&str, &str)]); 8] = [
    (
        "mysql",
        &[
            ("user", "root"),
            ("password", ""),
            ("host", ""),
            ("port", ""),
            ("socket", ""),
            ("mysqld_safe", "mysqld_safe"),
            ("mycnf", "/etc/mysql/my.cnf"),
        ],
    ),
    ("lvm", &[("vgname", "mysql"), ("lvname", "data"), ("lvsize", "5G"), ("backuplv", "")]),
    (
        "fs",
        &[
            ("xfs", "0"),
            ("mountdir", "/var/cache/mylvmbackup/mnt/"),
            ("backupdir", "/var/cache/mylvmbackup/backup/"),
            ("relpath", ""),
        ],
    ),
    (
        "tools",
        &[
            ("lvcreate", "lvcreate"),
            ("lvremove", "lvremove"),
            ("lvs", "lvs"),
            ("mount", "mount"),
            ("umount", "umount"),
            ("tar", "tar"),
            ("compress", "gzip"),
            ("rsync", "rsync"),
            ("rsnap", "rsnap"),
        ],
    ),
    ("zbackup", &[("zbackup", "zbackup"), ("zbackuparg", "--non-encrypted")]),
    (
        "misc",
        &[
            ("backuptype", "tar"),
            ("backupretention", "0"),
            ("prefix", "backup"),
            ("suffix", "_mysql"),
            ("tararg", "cf"),
            ("tarsuffixarg", ""),
            ("tarfilesuffix", ".tar.gz"),
            ("compressarg", ""),
            ("rsyncarg", ""),
            ("rsnaparg", ""),
            ("rsnaprsyncarg", ""),
            ("datefmt", ""),
            ("innodb_recover", "0"),
            ("recoveryopts", ""),
            ("pidfile", ""),
            ("skip_flush_tables", "0"),
            ("extra_flush_tables", "0"),
            ("skip_mycnf", "0"),
            ("hooksdir", "/usr/share/mylvmbackup"),
            ("skip_hooks", "0"),
            ("keep_snapshot", "0"),
            ("keep_mount", "0"),
            ("thin", "0"),
            ("quiet", "0"),
        ],
    ),
    (
        "logging",
        &[("log_method", ""), ("syslog_socktype", ""), ("syslog_facility", ""), ("syslog_remotehost", "")],
    ),
    ("reporting", &[("mail_report_on", ""), ("mail_from", ""), ("mail_to", ""), ("mail_subject", "")]),
];

/// The section and default of a key; `None` if mylvmbackup does not know the key.
pub(super) fn known(key: &str) -> Option<(&'static str, &'static str)> {
    KEYS.iter().find_map(|(section, keys)| {
        keys.iter().find(|(name, _)| *name == key).map(|(_, default)| (*section, *default))
    })
}

pub(super) fn is_known(section: &str, key: &str) -> bool {
    KEYS.iter().any(|(name, keys)| *name == section && keys.iter().any(|(name, _)| *name == key))
}
