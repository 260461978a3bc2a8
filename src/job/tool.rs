//! Which tool a snapshot is of, by the name that the tool usually gives it; used where nobody saw who made it.
//!
//! A name is no proof: mylvmbackup and holland use the same one.

use super::{Job, JobKind};

/// How a name is made of its origin's.
enum Pattern {
    /// Before it, and behind it.
    Around(&'static str, &'static str),
    /// Before it and a dash, and behind it a number.
    Numbered(&'static str),
    /// Behind it, and then anything.
    Begins(&'static str),
}

/// Sources: mylvmbackup 0.15; holland's mysql-lvm; borgmatic's LVM hook; snapper; snapm; wyng; pve-container; and names
/// that scripts are often written with.
const NAMES: [(Pattern, &str); 16] = [
    (Pattern::Around("", "_snapshot"), "mylvmbackup or holland"),
    (Pattern::Numbered("_borgmatic-"), "borgmatic"),
    (Pattern::Numbered("-snapshot"), "snapper"),
    (Pattern::Begins("-snapset_"), "snapm"),
    (Pattern::Around("", ".tick"), "wyng"),
    (Pattern::Around("", ".tock"), "wyng"),
    (Pattern::Around("snap_", "_vzdump"), "vzdump"),
    (Pattern::Around("", "-snap"), SCRIPT),
    (Pattern::Around("", "_snap"), SCRIPT),
    (Pattern::Around("", "snap"), SCRIPT),
    (Pattern::Around("", "-snapshot"), SCRIPT),
    (Pattern::Around("", "_backup"), SCRIPT),
    (Pattern::Around("", "-backup"), SCRIPT),
    (Pattern::Around("snap_", ""), SCRIPT),
    (Pattern::Around("snap-", ""), SCRIPT),
    (Pattern::Around("backup_", ""), SCRIPT),
];
const SCRIPT: &str = "a backup script";

/// Guests' volumes, of which Proxmox makes snapshots that people name.
const PROXMOX: [&str; 3] = ["snap_vm-", "snap_subvol-", "snap_base-"];

impl Pattern {
    fn fits(&self, name: &str, origin: &str) -> bool {
        let behind = |start: &str| name.strip_prefix(start)?.strip_prefix(origin);
        match self {
            Self::Around(start, end) => behind(start) == Some(*end),
            Self::Numbered(word) => {
                behind("").and_then(|rest| rest.strip_prefix(word)).is_some_and(is_number)
            }
            Self::Begins(word) => behind("").is_some_and(|rest| rest.starts_with(word)),
        }
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The tool whose usual name this is of a snapshot of that origin.
pub fn usual_tool(name: &str, origin: &str) -> Option<&'static str> {
    let found = NAMES.iter().find(|(pattern, _)| pattern.fits(name, origin)).map(|(_, tool)| *tool);
    let of_a_guest = || PROXMOX.iter().any(|start| name.starts_with(start)).then_some("Proxmox VE");
    let of_vzdump = || name.starts_with("vzsnap-").then_some("vzdump");
    match found {
        Some(SCRIPT) | None => of_a_guest().or_else(of_vzdump).or(found),
        found => found,
    }
}

/// Which program a snapshot is of: the one whose hooks told of it, the one that was seen to make it, or the one whose
/// name it has. `None` where it is not known, or somebody ran lvcreate by hand.
pub fn above_lvcreate(job: &Job) -> Option<&str> {
    if job.kind != JobKind::Snapshot {
        return None;
    }
    let heard = job.heard.as_ref().map(|_| "mylvmbackup");
    let by_name = || usual_tool(job.lv.as_deref()?, job.origin.as_deref()?);
    let found = heard.or(job.program.as_deref()).or_else(by_name);
    found.filter(|program| !matches!(*program, "lvcreate" | "lvm"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("snap_vm-101-disk-0_before", "vm-101-disk-0", Some("Proxmox VE")),
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
