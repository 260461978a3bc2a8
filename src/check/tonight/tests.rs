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
