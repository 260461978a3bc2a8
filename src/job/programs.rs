//! The programs that backups run, and what each does with the data.

use crate::sample::processes::{ExitStatus, is_wrapper};

/// What a program does with the data of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramKind {
    /// It copies all files or blocks, or runs what does.
    Whole,
    /// It copies only what has changed, or the blocks in use. So nothing says how much is to be read.
    Changes,
    /// It copies what a server holds, which may run on the snapshot, so nothing says how much is to be read either. Another
    /// run may be of another database, so its success does not undo a failure.
    Dumps,
    /// It packs or encrypts what another one reads.
    Packs,
    /// It passes on what another one reads. It may also fail at something else, such as `ssh host mkdir`.
    Moves,
    /// It reads the data to check it, and copies nothing.
    Checks,
    /// Its status is an answer, or that of another program.
    Answers,
}

/// Programs, what they do, and whether they do nothing but backups. At the end, `*` is anything.
const PROGRAMS: [(&str, ProgramKind, bool); 9] = [
    (
        "tar gtar bsdtar star cpio cp dd ddrescue 7z 7za 7zr",
        ProgramKind::Whole,
        false,
    ),
    (
        "mylvmbackup holland borgmatic vzdump wyng mariabackup mariadb-backup xtrabackup innobackupex pg_basebackup \
         pgbackrest barman rear amdump",
        ProgramKind::Whole,
        true,
    ),
    (
        "rsync rclone unison rsnap bup casync desync e2image ntfsclone fsarchiver xfsdump dump partclone.*",
        ProgramKind::Changes,
        false,
    ),
    (
        "restic rustic borg kopia rsnapshot duplicity duplicacy duplicati-cli zbackup rdiff-backup storeBackup tarsnap attic \
         burp bacula-fd bareos-fd proxmox-backup* dsmc avtar bpbkar backupninja dirvish wal-g",
        ProgramKind::Changes,
        true,
    ),
    (
        "pg_dump pg_dumpall mysqldump mariadb-dump mysqlpump mydumper mongodump slapcat automysqlbackup autopostgresqlbackup",
        ProgramKind::Dumps,
        true,
    ),
    (
        "gzip pigz zstd pzstd xz pixz bzip2 pbzip2 lbzip2 lzop lz4 lzma openssl gpg",
        ProgramKind::Packs,
        false,
    ),
    (
        "cat tee split mbuffer pv ssh scp sftp nc ncat netcat socat curl wget aws s3cmd lftp",
        ProgramKind::Moves,
        false,
    ),
    (
        "e2fsck fsck fsck.* xfs_repair xfs_scrub mysqlcheck innochecksum clamscan clamdscan",
        ProgramKind::Checks,
        false,
    ),
    (
        "grep egrep fgrep diff cmp find sh bash dash test fuser lsof pgrep pidof",
        ProgramKind::Answers,
        false,
    ),
];

/// Of programs that copy files while others write to them: the status that says that a file has changed or gone meanwhile.
const FILES_CHANGED: [(&str, u32); 5] = [
    ("tar", 1),
    ("gtar", 1),
    ("rsync", 24),
    ("borg", 1),
    ("dar", 11),
];

/// Whether a program ended so since files had changed while it copied them, and has copied the rest.
pub(super) fn has_only_met_changes(name: &str, status: ExitStatus) -> bool {
    FILES_CHANGED
        .iter()
        .any(|(other, number)| *other == name && status == ExitStatus::Status(*number))
}

fn program(name: &str) -> Option<(ProgramKind, bool)> {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    let row = PROGRAMS
        .iter()
        .find(|(names, ..)| names.split(' ').any(fits))?;
    Some((row.1, row.2))
}

/// What a process of this name does in a backup; `None` if that is not known.
pub(super) fn kind(name: &str) -> Option<ProgramKind> {
    program(name).map(|(kind, _)| kind)
}

/// Whether a process of this name reads or packs the data of a backup.
pub(super) fn is_reader(name: &str) -> bool {
    use ProgramKind::{Changes, Dumps, Packs, Whole};
    matches!(kind(name), Some(Whole | Changes | Dumps | Packs))
}

/// Whether a backup tool copies what has changed into a repository of its own.
pub(super) fn has_repository(name: &str) -> bool {
    program(name) == Some((ProgramKind::Changes, true))
}

/// Whether a command of this name is a backup.
pub fn is_backup_tool(name: &str) -> bool {
    program(name).is_some_and(|(_, is_tool)| is_tool)
}

/// Whether a command is a backup tool, or runs one by a shell or such a program as `sudo`.
pub fn runs_backup_tool<'a>(program: &'a str, arguments: impl Iterator<Item = &'a str>) -> bool {
    let name = |path: &'a str| path.rsplit('/').next().unwrap_or_default();
    let mut words = arguments.flat_map(str::split_ascii_whitespace);
    is_backup_tool(name(program))
        || is_wrapper(name(program)) && words.any(|word| is_backup_tool(name(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_runs_a_backup_tool_itself_or_by_another_program() {
        for (command, expected) in [
            (&["/usr/bin/mysqldump", "shop"][..], true),
            (
                &["sudo", "-u", "postgres", "/usr/bin/pg_dump", "shop"],
                true,
            ),
            (
                &["sh", "-c", "cd /backup && mysqldump shop | gzip >shop"],
                true,
            ),
            (&["timeout", "2h", "nice", "borgmatic"], true),
            (&["/usr/sbin/rear", "mkbackup"], true),
            (&["grep", "mysqldump"], false),
            (&["sh", "/usr/local/bin/nightly"], false),
        ] {
            let found = runs_backup_tool(command[0], command[1..].iter().copied());
            assert_eq!(found, expected, "{command:?}");
        }
    }
}
