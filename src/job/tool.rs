//! Which tool created a snapshot, by its usual name; used if the program was not observed. A name proves nothing:
//! mylvmbackup and holland use the same one.

use super::maker::{MakerState, ReadShare};
use super::{Job, JobKind};

const MYLVMBACKUP: &str = "mylvmbackup";

/// The first that fits counts. `@` is the origin's name; at the end, `#` is a number and `*` is anything.
///
/// Sources: mylvmbackup 0.15; holland's mysql-lvm; borgmatic's LVM hook; rsnapshot.conf; snapper; snapm; e2scrub; wyng; pve-container; names of
/// guests' volumes in Proxmox; names that scripts often use.
const NAMES: [(&str, &str); 22] = [
    ("@_snapshot", "mylvmbackup or holland"),
    ("@_borgmatic-#", "borgmatic"),
    ("rsnapshot", "rsnapshot"),
    ("@-snapshot#", "snapper"),
    ("@-snapset_*", "snapm"),
    ("@.e2scrub", "e2scrub"),
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
        || job.is_check
        || job.is_spare
        || program.is_some_and(|program| NO_BACKUPS.contains(&program))
    {
        return false;
    }
    let read = job.read_share();
    match job.maker_state() {
        MakerState::Runs => program.is_some() || read != ReadShare::Nothing,
        MakerState::HandedOver => read != ReadShare::Nothing,
        MakerState::Ended(_) => true,
        MakerState::Gone => {
            let was_read = read == ReadShare::All || job.is_routine;
            was_read || job.failed_reader().is_some() || job.maker.is_none() && program.is_some()
        }
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
