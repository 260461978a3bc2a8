//! Whether tonight's backup by mylvmbackup can work: evaluates its plan against facts about the machine.
//!
//! Reads nothing itself. Unknown facts are reported as unknown, never as good.

mod snapshot;

use super::CheckLine;
use crate::mylvmbackup::{BackupPlan, BackupType, Configuration, Tool};
use crate::sample::lvm::{Policies, Report};
use crate::sentence::Sentence;
use crate::source::backup::{CONFIGURATION, Directory, ProgramState};
use crate::units::size_text;

/// Quoted words are truncated to this length.
const MAX_QUOTED: usize = 60;
/// Ignored keys that are listed.
const MAX_IGNORED_KEYS: usize = 5;

/// A directory; `None` if it does not exist, or an error.
pub type DirectoryLookup = Result<Option<Directory>, String>;

/// BackupFacts about the machine.
pub struct BackupFacts {
    pub is_installed: bool,
    pub report: Option<Report>,
    /// Why LVM would refuse a snapshot in its group.
    pub refusal: Option<Sentence>,
    /// LVM's settings.
    pub policies: Policies,
    /// Whether LVM creates thin snapshots inactive; `None` if unknown.
    pub skips_activation: Option<bool>,
    /// Programs that cannot run.
    pub tools: Vec<(Tool, ProgramState)>,
    pub mountdir: DirectoryLookup,
    /// The directory in `mountdir` for the snapshot, which must be empty.
    pub mount_point: DirectoryLookup,
    pub backupdir: DirectoryLookup,
    /// Whether `backupdir` lies on the volume to be backed up; `None` if unknown.
    pub backupdir_is_on_origin: Option<bool>,
    /// Used bytes of the origin's file system, if mounted.
    pub origin_used: Option<u64>,
    pub has_mycnf: bool,
}

/// Evaluates the configuration file.
pub fn of_configuration(written: &Configuration) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    if let Some(first) = written.invalid_lines.first() {
        let more = match written.invalid_lines.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        lines.push(CheckLine::missing(format!(
            "line {first} of {CONFIGURATION}{more} is neither a comment nor [section] nor key=value: mylvmbackup exits at \
             once; fix or remove it"
        )));
    } else if written.is_empty {
        lines.push(CheckLine::missing(format!(
            "{CONFIGURATION} has no section: mylvmbackup exits at once; rewrite or remove it"
        )));
    }
    for key in &written.duplicate_keys {
        lines.push(CheckLine::missing(format!(
            "`{key}` appears more than once in {CONFIGURATION}: mylvmbackup joins the values with line breaks, which no command \
             accepts; keep one"
        )));
    }
    if !written.ignored_keys.is_empty() {
        let first = written.ignored_keys.len().min(MAX_IGNORED_KEYS);
        lines.push(CheckLine::missing(format!(
            "{CONFIGURATION} has keys that mylvmbackup ignores: {}; correct or remove them",
            written.ignored_keys[..first].join(", ")
        )));
    }
    lines
}

/// Evaluates the planned backup.
pub fn judge(plan: &BackupPlan, facts: &BackupFacts) -> Vec<CheckLine> {
    let mut lines = Vec::new();
    if !facts.is_installed {
        lines.push(CheckLine::missing(format!(
            "{CONFIGURATION} exists, but mylvmbackup is not in root's PATH: nothing would be backed up; install it, or remove the \
             file"
        )));
    }
    if let BackupType::Unknown(word) = &plan.backup_type {
        lines.push(CheckLine::missing(format!(
            "`backuptype` is {}, which mylvmbackup does not know: it takes no backup but reports success; set it to tar, rsync, \
             rsnap, zbackup or none",
            quoted(word)
        )));
    }
    lines.extend(snapshot::judge(plan, facts));
    lines.extend(tools(plan, facts));
    lines.extend(mountdir(plan, facts));
    lines.extend(backup_room(plan, facts));
    if plan.mycnf.is_some() && !facts.has_mycnf {
        lines.push(CheckLine::missing(
            "the file that `mycnf` names does not exist: mylvmbackup exits at once; name the database's configuration, or set \
             `skip_mycnf=1`",
        ));
    }
    lines
}

/// The programs that cannot run, or all if each can.
fn tools(plan: &BackupPlan, facts: &BackupFacts) -> Vec<CheckLine> {
    if facts.tools.is_empty() {
        let programs: Vec<&str> = plan.tools.iter().map(program).collect();
        return vec![CheckLine::Good(format!(
            "mylvmbackup's programs are installed: {}",
            programs.join(", ")
        ))];
    }
    let mut lines = Vec::new();
    for (tool, state) in &facts.tools {
        let (wrong, remedy) = match (state, tool.key) {
            (ProgramState::NotExecutable, _) => {
                ("is not executable", "make it executable, or name another")
            }
            (_, "compress") => (
                "does not exist",
                "install it, name another, or leave it empty for no compression",
            ),
            _ => (
                "does not exist",
                "install it, or name it with its absolute path",
            ),
        };
        let program = if tool.is_secret {
            "its program".to_string()
        } else {
            quoted(&tool.program)
        };
        lines.push(CheckLine::missing(format!(
            "`{}`: {program} {wrong}, but mylvmbackup needs it; {remedy}",
            tool.key
        )));
    }
    lines
}

/// As configured; a program that must not be shown goes by its key.
fn program(tool: &Tool) -> &str {
    if tool.is_secret {
        tool.key
    } else {
        &tool.program
    }
}

fn mountdir(plan: &BackupPlan, facts: &BackupFacts) -> Option<CheckLine> {
    let sentence = match (&facts.mountdir, &facts.mount_point) {
        (Err(why), _) | (_, Err(why)) => format!(
            "{why}: cannot tell whether the snapshot can be mounted, and mylvmbackup may hang; check what `mountdir` lies on"
        ),
        (Ok(None), _) => format!(
            "`mountdir` {} does not exist: mylvmbackup would try to create it; check the name, and run `mkdir -p` on it",
            quoted(&plan.mountdir)
        ),
        (_, Ok(Some(folder))) if folder.files.iter().any(|file| !file.name.starts_with('.')) => {
            format!(
                "{} is not empty, so mylvmbackup would exit at once: an earlier run left it, unless a backup is running; `umount` it, \
             or empty it",
                quoted(&format!("{}/{}", plan.mountdir, plan.prefix))
            )
        }
        _ => return None,
    };
    Some(CheckLine::missing(sentence))
}

fn named(plan: &BackupPlan, volume: &str) -> String {
    format!("{}/{volume}", plan.group)
}

fn quoted(word: &str) -> String {
    let start: String = word.chars().take(MAX_QUOTED).collect();
    format!("{start:?}")
}

/// The number of recent backups that predict the size of the next.
const LAST_BACKUPS: usize = 5;

/// Evaluates `backupdir`.
fn backup_room(plan: &BackupPlan, facts: &BackupFacts) -> Vec<CheckLine> {
    if plan.is_remote() {
        let sentence = "backups go to another machine, whose free space cannot be checked here";
        return vec![CheckLine::Good(sentence.into())];
    }
    if !plan.writes_here() {
        return Vec::new();
    }
    let place = format!("`backupdir` {}", quoted(&plan.backupdir));
    let folder = match &facts.backupdir {
        Err(why) => {
            return vec![CheckLine::missing(format!(
                "{why}: cannot tell whether there is room for the backup, and mylvmbackup may hang; check what `backupdir` lies on"
            ))];
        }
        Ok(None) => {
            return vec![CheckLine::missing(format!(
                "{place} does not exist: mylvmbackup would create it on the file system that is mounted there then; mount the \
                 backup disk, or run `mkdir -p` on it"
            ))];
        }
        Ok(Some(folder)) => folder,
    };
    let mut lines = Vec::new();
    if facts.backupdir_is_on_origin == Some(true) {
        let kind = if plan.is_thin {
            "the pool"
        } else {
            "its own snapshot"
        };
        lines.push(CheckLine::missing(format!(
            "{place} lies on {}, the volume to be backed up: the backup would fill {kind} while it reads it; choose a \
             directory on another volume",
            named(plan, &plan.origin)
        )));
    }
    lines.push(room_in_folder(plan, facts, folder));
    lines
}

/// Predicts the size from recent backups, or else from the origin's used space.
fn room_in_folder(plan: &BackupPlan, facts: &BackupFacts, folder: &Directory) -> CheckLine {
    let place = format!("`backupdir` {}", quoted(&plan.backupdir));
    let Some(free) = folder.free else {
        return CheckLine::missing(format!(
            "the free space of {place} is unknown: check with `df` that a backup fits"
        ));
    };
    let place = format!("{place} has {} free", size_text(free));
    if let Some((count, largest)) = last_backups(plan, folder) {
        let known = format!(
            "{place}, and the largest of the last {count} backups has {}",
            size_text(largest)
        );
        if free >= largest {
            return CheckLine::Good(known);
        }
        return CheckLine::missing(format!(
            "{known}: tonight's would not fit; remove old ones, or make room"
        ));
    }
    let why = match (&plan.backup_type, facts.origin_used) {
        (BackupType::Rsync | BackupType::Tar, Some(used)) => {
            return first_backup(plan, &place, free, used);
        }
        (BackupType::Rsync | BackupType::Tar, None) => {
            "there is no earlier one and the used space of the origin is unknown"
        }
        _ => "only changes are copied",
    };
    CheckLine::Good(format!(
        "{place}; the size of a backup is unknown, since {why}"
    ))
}

/// Without an earlier backup, the origin's used space is the most that is known.
fn first_backup(plan: &BackupPlan, place: &str, free: u64, used: u64) -> CheckLine {
    let origin = named(plan, &plan.origin);
    let known = format!("{place}, and {origin} holds {}", size_text(used));
    if free >= used {
        CheckLine::Good(known)
    } else if plan.is_compressed {
        CheckLine::missing(format!(
            "{known}: without an earlier backup it is unknown whether the compressed one fits; watch the first one, or make \
             room"
        ))
    } else {
        CheckLine::missing(format!(
            "{known}, uncompressed: the backup would not fit; make room"
        ))
    }
}

/// The number of recent backups whose size is known, and the largest of these sizes.
fn last_backups(plan: &BackupPlan, folder: &Directory) -> Option<(usize, u64)> {
    if plan.backup_type != BackupType::Tar {
        return None;
    }
    let start = format!("{}-", plan.prefix);
    let is_backup = |name: &str| name.starts_with(&start) && name.ends_with(&plan.archive_end);
    let mut backups: Vec<_> = folder
        .files
        .iter()
        .filter(|file| is_backup(&file.name) && file.size.is_some())
        .collect();
    backups.sort_by_key(|file| std::cmp::Reverse(file.changed_at));
    backups.truncate(LAST_BACKUPS);
    let largest = backups.iter().filter_map(|file| file.size).max()?;
    Some((backups.len(), largest))
}

#[cfg(test)]
mod tests {
    //! Each finding about tonight's backup, and none on a good machine.

    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::mylvmbackup;
    use crate::sample::lvm::{Policies, Pv, ReportedGroup, ReportedVolume, Segment};
    use crate::source::backup::FileEntry;
    use crate::units::Fill;

    const MIB: u64 = 1 << 20;
    const CONF: &str = "[lvm]\nvgname=vg0\nlvname=data\nlvsize=50M\n[fs]\nmountdir=/mnt/snap\nbackupdir=/mnt/backup\n\
    [misc]\nskip_mycnf=1\n";

    fn volume(name: &str, kind: &str) -> ReportedVolume {
        let segments = vec![Segment {
            kind: kind.into(),
            ..Segment::default()
        }];
        ReportedVolume {
            name: name.into(),
            uuid: "d-1".into(),
            size: Some(100 * MIB),
            segments,
            ..ReportedVolume::default()
        }
    }

    fn store(name: &str, mib: u64, age: u64) -> FileEntry {
        let changed_at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age);
        FileEntry {
            name: name.into(),
            size: Some(mib * MIB),
            changed_at,
        }
    }

    fn group(volumes: Vec<ReportedVolume>, free_mib: u64) -> ReportedGroup {
        let (name, uuid, extent) = ("vg0".into(), "g-1".into(), Some(4 * MIB));
        ReportedGroup {
            name,
            uuid,
            extent,
            free: Some(free_mib * MIB),
            volumes,
            ..ReportedGroup::default()
        }
    }

    /// A machine without problems.
    fn facts() -> BackupFacts {
        let folder = Directory {
            path: "/mnt/backup".into(),
            free: Some(500 * MIB),
            ..Directory::default()
        };
        BackupFacts {
            is_installed: true,
            report: Some(Report {
                groups: vec![group(vec![volume("data", "linear")], 80)],
                ..Report::default()
            }),
            refusal: None,
            policies: Policies::default(),
            skips_activation: Some(true),
            tools: Vec::new(),
            mountdir: Ok(Some(Directory::default())),
            mount_point: Ok(None),
            backupdir: Ok(Some(folder)),
            backupdir_is_on_origin: Some(false),
            origin_used: Some(60 * MIB),
            has_mycnf: false,
        }
    }

    fn has(facts: &mut BackupFacts) -> &mut ReportedGroup {
        &mut facts.report.as_mut().unwrap().groups[0]
    }

    fn lines(conf: &str, change: impl FnOnce(&mut BackupFacts)) -> Vec<String> {
        let mut facts = facts();
        change(&mut facts);
        judge(&BackupPlan::of(&mylvmbackup::parse(conf)), &facts)
            .iter()
            .map(CheckLine::text)
            .collect()
    }

    /// Expects exactly one problem, with this text.
    fn wrong(conf: &str, change: impl FnOnce(&mut BackupFacts), expected: &str) {
        let lines = lines(conf, change);
        let wrong: Vec<&String> = lines
            .iter()
            .filter(|line| line.starts_with("missing"))
            .collect();
        assert!(
            wrong.len() == 1 && wrong[0].contains(expected),
            "expected only {expected:?} in {lines:#?}"
        );
    }

    fn well(conf: &str, change: impl FnOnce(&mut BackupFacts), expected: &str) {
        let lines = lines(conf, change);
        let is_well = lines.iter().all(|line| line.starts_with("ok"));
        assert!(
            is_well && lines.iter().any(|line| line.contains(expected)),
            "expected {expected:?} in {lines:#?}"
        );
    }

    fn with(line: &str) -> String {
        format!("{CONF}{line}\n")
    }

    #[test]
    fn a_good_machine_gets_its_free_space() {
        well(
            CONF,
            |_| {},
            "vg0 has 80.0 MiB free, and mylvmbackup's snapshot of vg0/data takes 52.0 MiB",
        );
        well(
            CONF,
            |_| {},
            "`backupdir` \"/mnt/backup\" has 500 MiB free, and vg0/data holds 60.0 MiB",
        );
    }

    #[test]
    fn a_group_needs_whole_extents_and_no_more_than_a_snapshot_can_use() {
        wrong(
            CONF,
            |facts| has(facts).free = Some(51 * MIB),
            "vg0 has 51.0 MiB free, and the snapshot of vg0/data takes 52.0",
        );
        well(
            &CONF.replace("50M", "5G"),
            |facts| has(facts).free = Some(104 * MIB),
            "takes 104 MiB",
        );
        wrong(
            &CONF.replace("50M", "5G"),
            |facts| has(facts).free = Some(100 * MIB),
            "takes 104 MiB: lvcreate would fail",
        );
        wrong(
            CONF,
            |facts| has(facts).free = None,
            "the free space of vg0 is unknown",
        );
        wrong(
            &CONF.replace("50M", "10%ORIGIN"),
            |_| {},
            "`lvsize` is \"10%ORIGIN\": expected a number with a unit",
        );
    }

    #[test]
    fn what_lvm_would_refuse_is_told() {
        wrong(
            CONF,
            |facts| facts.refusal = Some("a PV of VG vg0 is missing".into()),
            "a PV of VG vg0 is missing; until then lvcreate would fail",
        );
        let closed = |facts: &mut BackupFacts| {
            has(facts).pvs.push(Pv {
                free: Some(60 * MIB),
                ..Pv::default()
            });
        };
        wrong(CONF, closed, "vg0 has 20.0 MiB free, and the snapshot");
        let fill = |used| {
            Some(Fill {
                used,
                total: 10_000,
                unit: 0,
            })
        };
        let pool = |metadata_mib, metadata, data| {
            move |facts: &mut BackupFacts| {
                let mut origin = volume("data", "thin");
                origin.pool = Some("pool".into());
                let mut pool = volume("pool", "thin-pool");
                (pool.data, pool.metadata) = (fill(data), fill(metadata));
                let mut tmeta = volume("pool_tmeta", "linear");
                tmeta.size = Some(metadata_mib * MIB);
                has(facts).volumes = vec![origin, pool, tmeta];
                facts.skips_activation = Some(false);
                facts.policies.pool.threshold = 90;
            }
        };
        let full = "The metadata of thin pool vg0/pool is 80.00 % full, and from 75.00 % on";
        wrong(&with("thin=1"), pool(4, 8_000, 100), full);
        let full = "The data of thin pool vg0/pool is 91.00 % full, and from 90.00 % on";
        wrong(&with("thin=1"), pool(4, 100, 9_100), full);
        // A quarter or 4 MiB has to be free.
        well(
            &with("thin=1"),
            pool(100, 8_000, 100),
            "programs are installed",
        );
    }

    #[test]
    fn missing_things_are_named() {
        wrong(
            &CONF.replace("vg0", "vg1"),
            |_| {},
            "there is no volume group vg1",
        );
        wrong(
            &CONF.replace("=data", "=dat"),
            |_| {},
            "there is no volume vg0/dat:",
        );
        wrong(
            &CONF.replace("=data", "=data # the database"),
            |_| {},
            "`lvname` is \"data # the database\": expected an LVM name",
        );
        wrong(
            CONF,
            |facts| facts.report = None,
            "cannot tell whether vg0/data_snapshot can be created",
        );
        wrong(
            CONF,
            |facts| facts.is_installed = false,
            "mylvmbackup is not in root's PATH",
        );
        wrong(
            CONF,
            |facts| facts.mountdir = Ok(None),
            "`mountdir` \"/mnt/snap\" does not exist",
        );
        wrong(
            CONF,
            |facts| facts.backupdir = Ok(None),
            "`backupdir` \"/mnt/backup\" does not exist",
        );
        wrong(
            &CONF.replace("skip_mycnf=1", ""),
            |_| {},
            "the file that `mycnf` names does not exist",
        );
        well(
            &CONF.replace("skip_mycnf=1", ""),
            |facts| facts.has_mycnf = true,
            "vg0 has",
        );
    }

    #[test]
    fn a_leftover_snapshot_is_found_by_name_or_pattern() {
        let left = |name: &str| {
            let mut snapshot = volume(name, "linear");
            snapshot.origin = Some("data".into());
            move |facts: &mut BackupFacts| has(facts).volumes.push(snapshot)
        };
        wrong(
            CONF,
            left("data_snapshot"),
            "vg0/data_snapshot already exists",
        );
        wrong(
            &CONF.replace("lvsize", "backuplv=nightly_%Y%m%d\nlvsize"),
            left("nightly_20261120"),
            "vg0/nightly_20261120",
        );
        well(
            &CONF.replace("lvsize", "backuplv=other\nlvsize"),
            left("data_snapshot"),
            "vg0 has",
        );
    }

    #[test]
    fn thin_and_thick_must_match_the_configuration() {
        let is_thin = |facts: &mut BackupFacts| has(facts).volumes = vec![volume("data", "thin")];
        wrong(&with("thin=1"), |_| {}, "vg0/data is no thin volume");
        wrong(CONF, is_thin, "is a thin volume, but `thin` is off");
        wrong(
            &with("thin=1"),
            is_thin,
            "LVM creates thin snapshots inactive, so",
        );
        let unknown = |facts: &mut BackupFacts| {
            is_thin(facts);
            facts.skips_activation = None;
        };
        wrong(
            &with("thin=1"),
            unknown,
            "cannot tell whether LVM creates thin snapshots inactive",
        );
        let is_active = |facts: &mut BackupFacts| {
            is_thin(facts);
            facts.skips_activation = Some(false);
        };
        well(&with("thin=1"), is_active, "programs are installed");
        well(
            &with("thin=1\n[tools]\nlvcreate=lvcreate -kn"),
            is_thin,
            "programs are installed",
        );
    }

    #[test]
    fn recent_backups_predict_the_next() {
        let last = |sizes: &'static [u64]| {
            move |facts: &mut BackupFacts| {
                let folder = facts.backupdir.as_mut().unwrap().as_mut().unwrap();
                let named = |(age, mib): (usize, &u64)| {
                    store(&format!("backup-{age}_mysql.tar.gz"), *mib, age as u64)
                };
                folder.files = sizes.iter().enumerate().map(named).collect();
                folder
                    .files
                    .push(store("backup-1_mysql.tar.gz.INCOMPLETE-abc", 9000, 0));
            }
        };
        wrong(
            CONF,
            last(&[400, 600]),
            "has 500 MiB free, and the largest of the last 2 backups has 600 MiB: tonight's",
        );
        well(
            CONF,
            last(&[400, 450, 1, 1, 1, 600]),
            "the largest of the last 5 backups has 450 MiB",
        );
        well(CONF, last(&[]), "vg0/data holds 60.0 MiB");
    }

    #[test]
    fn the_first_backups_size_is_unknown() {
        let holds = |used: Option<u64>| move |facts: &mut BackupFacts| facts.origin_used = used;
        wrong(
            CONF,
            holds(Some(600 * MIB)),
            "it is unknown whether the compressed one fits",
        );
        wrong(
            &with("backuptype=rsync"),
            holds(Some(600 * MIB)),
            "the backup would not fit",
        );
        well(
            CONF,
            holds(None),
            "unknown, since there is no earlier one and the used space of the origin is unknown",
        );
        well(
            &with("backuptype=rsnap"),
            holds(None),
            "only changes are copied",
        );
        well(
            &CONF
                .replace("/mnt/backup", "nas:/b")
                .replace("[misc]", "[misc]\nbackuptype=rsync"),
            |_| {},
            "another machine",
        );
        let hangs = |facts: &mut BackupFacts| {
            facts.backupdir = Err("/mnt/backup gave no answer for 2 s".into())
        };
        wrong(
            CONF,
            hangs,
            "gave no answer for 2 s: cannot tell whether there is room for the backup",
        );
    }

    #[test]
    fn a_directory_on_the_origin_or_with_leftovers_is_reported() {
        wrong(
            CONF,
            |facts| facts.backupdir_is_on_origin = Some(true),
            "would fill its own snapshot while it reads it",
        );
        let left = Directory {
            files: vec![store("ibdata1", 1, 0)],
            ..Directory::default()
        };
        wrong(
            CONF,
            |facts| facts.mount_point = Ok(Some(left)),
            "\"/mnt/snap/backup\" is not empty",
        );
    }

    #[test]
    fn an_unknown_backup_type_is_reported() {
        wrong(
            &with("backuptype=Tar"),
            |_| {},
            "takes no backup but reports success",
        );
    }

    #[test]
    fn a_missing_program_is_named_unless_it_is_secret() {
        let tool = |key, program: &str, is_secret| Tool {
            key,
            program: program.into(),
            is_secret,
        };
        let cannot =
            |tool: Tool, state| move |facts: &mut BackupFacts| facts.tools = vec![(tool, state)];
        wrong(
            CONF,
            cannot(tool("compress", "pigz", false), ProgramState::Missing),
            "`compress`: \"pigz\" does not exist",
        );
        wrong(
            CONF,
            cannot(tool("tar", "/opt/tar", false), ProgramState::NotExecutable),
            "\"/opt/tar\" is not executable",
        );
        well(
            CONF,
            |_| {},
            "installed: lvcreate, lvremove, lvs, mount, umount, tar, gzip",
        );
        let lines = lines(
            CONF,
            cannot(tool("mysqld_safe", "hunter2", true), ProgramState::Missing),
        );
        assert!(!lines.concat().contains("hunter2"), "{lines:?}");
    }

    #[test]
    fn configuration_errors_quote_no_secrets() {
        let said = |text: &str| {
            of_configuration(&mylvmbackup::parse(text))
                .iter()
                .map(CheckLine::text)
                .collect::<String>()
        };
        assert!(said("[mysql]\nhunter2\nhunter3").contains(
        "line 2 of /etc/mylvmbackup.conf (and 1 more) is neither a comment nor [section] nor key=value"
    ));
        assert!(!said("[mysql]\nhunter2\npassword\nhunter3=hunter4").contains("hunter"));
        assert!(said("").contains("has no section"));
        assert!(said("[lvm]\nlvsize=1\nlvsize=2").contains("`lvsize` appears more than once"));
        assert!(said("[lvm]\nthin=1").contains("`thin` in line 2, which belongs under [misc]"));
        assert_eq!(said("[lvm]\nlvsize=1"), "");
    }
}
