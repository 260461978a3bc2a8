//! Whether the snapshot can be made: group, origin, names, room, and what an earlier run left behind.

use super::super::Finding;
use super::{Facts, bytes, missing, named, quoted};
use crate::sample::lvm::{Group, Volume};
use crate::sample::mylvmbackup::{BackupPlan, size_bytes};
use crate::source::backup::CONFIGURATION;

/// lvcreate's default, which mylvmbackup does not change.
const CHUNK: u64 = 4096;
/// Bytes that tell of one chunk within a COW area.
const ENTRY: u64 = 16;

/// All that is to be said of the snapshot.
pub fn judge(plan: &BackupPlan, facts: &Facts) -> Vec<Finding> {
    if let Some(finding) = misnamed(plan) {
        return vec![finding];
    }
    let Some(report) = &facts.report else {
        return vec![missing(format!(
            "whether {} can be made is not known, since LVM gave no report: run `cowbell check` as root",
            named(plan, &plan.snapshot)
        ))];
    };
    let Some(group) = report.groups.iter().find(|group| group.name == plan.group) else {
        return vec![missing(format!(
            "there is no volume group {}: lvcreate would fail while the database is locked; set `vgname` in {CONFIGURATION}",
            plan.group
        ))];
    };
    let mut findings: Vec<Finding> = left_behind(plan, group).into_iter().collect();
    match group.volumes.iter().find(|volume| volume.name == plan.origin) {
        None => findings.push(missing(format!(
            "there is no volume {}: lvcreate would fail while the database is locked; set `lvname` in {CONFIGURATION}",
            named(plan, &plan.origin)
        ))),
        Some(origin) => {
            findings.extend(thin(plan, facts, origin));
            if !plan.is_thin {
                findings.push(room_in_group(plan, group, origin));
            }
        }
    }
    findings
}

/// The first of the names that LVM does not take.
fn misnamed(plan: &BackupPlan) -> Option<Finding> {
    let names = [("vgname", &plan.group), ("lvname", &plan.origin), ("backuplv", &plan.snapshot)];
    let (key, name) = names.into_iter().find(|(key, name)| !is_name(name, *key == "backuplv"))?;
    Some(missing(format!(
        "`{key}` is {}: expected a name as LVM has it, without blanks, quotes or a comment behind it, or lvcreate \
         fails; correct it in {CONFIGURATION}",
        quoted(name)
    )))
}

/// A snapshot of the same name, or of the same pattern where its name has the time in it.
fn left_behind(plan: &BackupPlan, group: &Group) -> Option<Finding> {
    let is_it = |volume: &&Volume| match plan.snapshot.split_once('%') {
        None => volume.name == plan.snapshot,
        Some((start, _)) => {
            !start.is_empty()
                && volume.origin.as_ref() == Some(&plan.origin)
                && volume.name.starts_with(start)
        }
    };
    let found = group.volumes.iter().find(is_it)?;
    let name = named(plan, &found.name);
    let harm = match found.name == plan.snapshot {
        true => "tonight's lvcreate would fail",
        false => "it slows the origin's writes and fills up",
    };
    Some(missing(format!(
        "{name} is there already, left behind by an earlier run unless a backup is under way: {harm}; when nobody uses \
         it, `umount` it and run `lvremove {name}`"
    )))
}

fn thin(plan: &BackupPlan, facts: &Facts, origin: &Volume) -> Option<Finding> {
    let name = named(plan, &origin.name);
    let sentence = match (plan.is_thin, is_thin(origin)) {
        (true, false) => format!(
            "`thin` is on, but {name} is no thin volume: lvcreate is given no size and fails while the database is \
             locked; set `thin=0` in {CONFIGURATION}"
        ),
        (false, true) => format!(
            "{name} is a thin volume, but `thin` is off: its snapshot would be a thick one beside the pool, which copies \
             each first write and can overflow; set `thin=1` under [misc] and `lvcreate=lvcreate -kn` under [tools]"
        ),
        (true, true) if facts.skips_activation == Some(true) && !plan.activates_snapshot() => format!(
            "LVM leaves new thin snapshots inactive, so mylvmbackup would make one of {name} and fail to mount it; set \
             `lvcreate=lvcreate -kn` under [tools] in {CONFIGURATION}"
        ),
        (true, true) if facts.skips_activation.is_none() && !plan.activates_snapshot() => format!(
            "whether LVM leaves new thin snapshots inactive is not known, and one of {name} that is could not be \
             mounted; set `lvcreate=lvcreate -kn` under [tools] in {CONFIGURATION}, which is right in any case"
        ),
        _ => return None,
    };
    Some(missing(sentence))
}

fn room_in_group(plan: &BackupPlan, group: &Group, origin: &Volume) -> Finding {
    let Some(asked) = size_bytes(&plan.size) else {
        return missing(format!(
            "`lvsize` is {}: expected a number with a unit such as 5G, and no percentage, or lvcreate fails while the \
             database is locked; correct it in {CONFIGURATION}",
            quoted(&plan.size)
        ));
    };
    let needed = taken(asked, group, origin);
    let origin = named(plan, &origin.name);
    match group.free {
        None => missing(format!(
            "how much {} has free is not known: whether a snapshot of {} fits must be seen with `vgs`",
            group.name,
            bytes(needed)
        )),
        Some(free) if free < needed => missing(format!(
            "{} has {} free, and the snapshot of {origin} takes {}: lvcreate would fail while the database is locked; \
             make room, add a disk with `vgextend`, or set a smaller `lvsize` in {CONFIGURATION}",
            group.name,
            bytes(free),
            bytes(needed)
        )),
        Some(free) => Finding::Good(format!(
            "{} has {} free, and mylvmbackup's snapshot of {origin} takes {}",
            group.name,
            bytes(free),
            bytes(needed)
        )),
    }
}

/// What a COW area takes of its group: whole extents, and no more than can ever be used.
fn taken(asked: u64, group: &Group, origin: &Volume) -> u64 {
    let extent = group.extent.unwrap_or(1);
    let whole = |bytes: u64| bytes.div_ceil(extent).saturating_mul(extent);
    match origin.size {
        Some(size) => whole(asked).min(whole(most_used(size))),
        None => whole(asked),
    }
}

/// Every chunk of the origin once, what tells of them, and a header.
fn most_used(origin: u64) -> u64 {
    let chunks = origin.div_ceil(CHUNK);
    let tables = chunks / (CHUNK / ENTRY) + 1;
    (1 + chunks).saturating_add(tables).saturating_mul(CHUNK)
}

fn is_thin(volume: &Volume) -> bool {
    volume.segment_type() == Some("thin") || volume.attributes.starts_with('V')
}

fn is_name(name: &str, may_have_codes: bool) -> bool {
    let may_have = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c) || (c == '%' && may_have_codes);
    !name.is_empty() && !name.starts_with('-') && name.chars().all(may_have)
}
