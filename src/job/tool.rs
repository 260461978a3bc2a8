//! Which tool created a snapshot, by its usual name; used if the program was not observed. A name proves nothing:
//! mylvmbackup and holland use the same one.

use super::maker::{MakerState, ReadShare};
use super::{Job, JobKind};
use crate::sample::processes::is_wrapper;

const MYLVMBACKUP: &str = "mylvmbackup";

/// The first that fits counts. `@` is the origin's name; at the end, `#` is a number and `*` is anything.
///
/// Sources: mylvmbackup 0.15; holland's mysql-lvm; borgmatic's LVM hook; rsnapshot.conf; snapper; snapm; wyng; pve-container; names of
/// guests' volumes in Proxmox; names that scripts often use.
const NAMES: [(&str, &str); 21] = [
    ("@_snapshot", "mylvmbackup or holland"),
    ("@_borgmatic-#", "borgmatic"),
    ("rsnapshot", "rsnapshot"),
    ("@-snapshot#", "snapper"),
    ("@-snapset_*", "snapm"),
    ("@.tick", "wyng"),
    ("@.tock", "wyng"),
    ("snap_@_vzdump", "vzdump"),
    ("snap_vm-*", "Proxmox VE"),
    ("snap_subvol-*", "Proxmox VE"),
    ("snap_base-*", "Proxmox VE"),
    ("vzsnap-*", "vzdump"),
    ("@-snap", "a backup script"),
    ("@_snap", "a backup script"),
    ("@snap", "a backup script"),
    ("@-snapshot", "a backup script"),
    ("@_backup", "a backup script"),
    ("@-backup", "a backup script"),
    ("snap_@", "a backup script"),
    ("snap-@", "a backup script"),
    ("backup_@", "a backup script"),
];

fn fits(pattern: &str, name: &str, origin: &str) -> bool {
    let rest = match pattern.split_once('@') {
        Some((start, end)) => name
            .strip_prefix(start)
            .and_then(|rest| rest.strip_prefix(origin))
            .map(|rest| (rest, end)),
        None => Some((name, pattern)),
    };
    let Some((rest, end)) = rest else {
        return false;
    };
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    match end.strip_suffix(['#', '*']) {
        Some(end_text) if end.ends_with('#') => rest.strip_prefix(end_text).is_some_and(is_number),
        Some(end_text) => rest.starts_with(end_text),
        None => rest == end,
    }
}

/// The tool that usually gives a snapshot of this origin this name.
pub fn usual_tool(name: &str, origin: &str) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|(pattern, _)| fits(pattern, name, origin))
        .map(|(_, tool)| *tool)
}

/// What a program does in a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// It copies all files or blocks, or runs what does.
    Whole,
    /// It copies only what has changed, the blocks in use, or what a server reads that runs on the snapshot. So nothing says
    /// how much is to be read.
    Changes,
    /// It packs or encrypts what another one reads.
    Packs,
    /// Its status is an answer, or that of another program.
    Answers,
}

/// Programs, what they do, and whether they do nothing but backups. At the end, `*` is anything.
const PROGRAMS: [(&str, Work, bool); 7] = [
    (
        "tar gtar bsdtar star cpio cp dd 7z 7za 7zr",
        Work::Whole,
        false,
    ),
    (
        "mylvmbackup holland borgmatic vzdump wyng mariabackup mariadb-backup xtrabackup innobackupex pg_basebackup \
         pgbackrest barman",
        Work::Whole,
        true,
    ),
    (
        "rsync rsnap bup e2image ntfsclone fsarchiver xfsdump dump partclone.*",
        Work::Changes,
        false,
    ),
    (
        "restic borg kopia rsnapshot duplicity zbackup rdiff-backup",
        Work::Changes,
        true,
    ),
    (
        "pg_dump pg_dumpall mysqldump mariadb-dump mydumper mongodump",
        Work::Changes,
        true,
    ),
    (
        "gzip pigz zstd pzstd xz pixz bzip2 pbzip2 lbzip2 lzop lz4 lzma openssl gpg",
        Work::Packs,
        false,
    ),
    (
        "grep egrep fgrep diff cmp find sh bash dash test fuser lsof pgrep pidof",
        Work::Answers,
        false,
    ),
];

fn program(name: &str) -> Option<(Work, bool)> {
    let fits_name = |pattern: &str| fits(pattern, name, "");
    let row = PROGRAMS
        .iter()
        .find(|(names, ..)| names.split(' ').any(fits_name))?;
    Some((row.1, row.2))
}

/// What a process of this name does in a backup; `None` if that is not known.
pub(super) fn work(name: &str) -> Option<Work> {
    program(name).map(|(work, _)| work)
}

/// Whether a process of this name reads or packs the data of a backup.
pub(super) fn is_reader(name: &str) -> bool {
    work(name).is_some_and(|work| work != Work::Answers)
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

/// Programs whose snapshots are kept for other purposes.
const NO_BACKUPS: [&str; 8] = [
    "snapper",
    "snapperd",
    "snapm",
    "Proxmox VE",
    "qm",
    "pct",
    "e2scrub",
    "xfs_scrub",
];

/// Whether the snapshot is for a backup, as far as is known from the processes that created it, from its name, or since it
/// was read through.
pub fn is_for_backup(job: &Job) -> bool {
    let program = above_lvcreate(job);
    // A name says less than what is seen.
    if job.program.is_none() && job.in_use_on.is_some()
        || program.is_some_and(|program| NO_BACKUPS.contains(&program))
    {
        return false;
    }
    let read = job.read_share();
    match job.maker_state() {
        MakerState::Runs => program.is_some() || read != ReadShare::Nothing,
        MakerState::HandedOver => read != ReadShare::Nothing,
        MakerState::Ended(_) => true,
        MakerState::Gone if job.maker.is_some() => read == ReadShare::All || job.is_routine,
        MakerState::Gone => program.is_some() || read == ReadShare::All,
    }
}

/// The program whose configuration decides about its snapshots, as far as is known.
pub fn configured_by(job: &Job) -> Option<&str> {
    match job.kind {
        JobKind::Snapshot => above_lvcreate(job),
        JobKind::Command => Some(&job.name),
        JobKind::Mark => None,
    }
}

/// Whether advice for it can name mylvmbackup's configuration file. Of snapshots with the name that mylvmbackup gives
/// them, it can, unless another program was seen to create them.
pub fn is_by_mylvmbackup(job: &Job) -> bool {
    configured_by(job).is_some_and(|tool| tool.starts_with(MYLVMBACKUP))
}

/// The program that created a snapshot: from hooks, as observed, or by the name. `None` if unknown, or if lvcreate was
/// typed.
pub fn above_lvcreate(job: &Job) -> Option<&str> {
    if job.kind != JobKind::Snapshot {
        return None;
    }
    let from_hooks = job.backup_run.as_ref().map(|_| MYLVMBACKUP);
    let by_name = || usual_tool(job.lv.as_deref()?, job.origin.as_deref()?);
    let found = from_hooks.or(job.program.as_deref()).or_else(by_name);
    found.filter(|program| !matches!(*program, "lvcreate" | "lvm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_of_a_person_or_of_snapper_are_no_backups() {
        let mut job = Job::new(
            1,
            JobKind::Snapshot,
            "uuid",
            "data_snapshot",
            jiff::Timestamp::UNIX_EPOCH,
        );
        (job.lv, job.origin) = (Some("data_snapshot".into()), Some("data".into()));
        for (program, expected) in [
            (None, true),
            (Some("holland"), true),
            (Some("lvcreate"), false),
            (Some("snapperd"), false),
        ] {
            job.program = program.map(String::from);
            assert_eq!(is_for_backup(&job), expected, "{program:?}");
        }
    }

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
            (&["grep", "mysqldump"], false),
            (&["sh", "/usr/local/bin/nightly"], false),
        ] {
            let found = runs_backup_tool(command[0], command[1..].iter().copied());
            assert_eq!(found, expected, "{command:?}");
        }
    }

    #[test]
    fn tools_are_known_by_the_names_that_they_give() {
        for (name, origin, expected) in [
            ("data_snapshot", "data", Some("mylvmbackup or holland")),
            ("data_borgmatic-1234", "data", Some("borgmatic")),
            ("data-snapshot12", "data", Some("snapper")),
            ("data-snapset_before_1700000000_root", "data", Some("snapm")),
            ("data.tick", "data", Some("wyng")),
            ("snap_vm-101-disk-0_vzdump", "vm-101-disk-0", Some("vzdump")),
            ("vzsnap-host-0", "data", Some("vzdump")),
            (
                "snap_vm-101-disk-0_before",
                "vm-101-disk-0",
                Some("Proxmox VE"),
            ),
            ("data-snap", "data", Some("a backup script")),
            ("data_snap", "data", Some("a backup script")),
            ("snap_data", "data", Some("a backup script")),
            ("datasnap", "data", Some("a backup script")),
            ("data_snapshot", "other", None),
            ("data_borgmatic-", "data", None),
            ("data", "data", None),
            ("nightly", "data", None),
            ("", "", None),
        ] {
            assert_eq!(usual_tool(name, origin), expected, "{name} of {origin}");
        }
    }
}
