//! Whether the snapshot can be created: group, origin, names, free space, and leftovers of an earlier run.

use super::super::CheckLine;
use super::{BackupFacts, named, quoted};
use crate::advice::{PoolRefusal, never_overflows};
use crate::mylvmbackup::{BackupPlan, is_lvm_name};
use crate::sample::lvm::{ReportedGroup, ReportedVolume};
use crate::source::backup::CONFIGURATION;
use crate::units::{Fill, size_text};

/// Evaluates the snapshot.
pub fn judge(plan: &BackupPlan, facts: &BackupFacts) -> Vec<CheckLine> {
    if let Some(line) = misnamed(plan) {
        return vec![line];
    }
    let Some(report) = &facts.report else {
        return vec![CheckLine::missing(format!(
            "cannot tell whether {} can be created, since LVM's report is unavailable; run `cowbell check` as root",
            named(plan, &plan.snapshot)
        ))];
    };
    let Some(group) = report.groups.iter().find(|group| group.name == plan.group) else {
        return vec![CheckLine::missing(format!(
            "there is no volume group {}: lvcreate would fail while the database is locked; set `vgname` in {CONFIGURATION}",
            plan.group
        ))];
    };
    let mut lines: Vec<CheckLine> = left_behind(plan, group).into_iter().collect();
    if let Some(refusal) = &facts.refusal {
        lines.push(CheckLine::missing(format!(
            "{refusal}; until then lvcreate would fail while the database is locked"
        )));
        return lines;
    }
    match group.volumes.iter().find(|volume| volume.name == plan.origin) {
        None => lines.push(CheckLine::missing(format!(
            "there is no volume {}: lvcreate would fail while the database is locked; set `lvname` in {CONFIGURATION}",
            named(plan, &plan.origin)
        ))),
        Some(origin) => {
            lines.extend(thin(plan, facts, origin));
            if !plan.is_thin {
                lines.push(room_in_group(plan, group, origin));
            } else if let Some(found) = pool_refusal(facts, group, origin) {
                lines.push(CheckLine::missing(format!(
                    "{}: lvcreate would fail while the database is locked; extend it, with the command that `cowbell status` shows",
                    found.text(named(plan, origin.pool.as_deref().unwrap_or_default()))
                )));
            }
        }
    }
    lines
}

/// The first name that is invalid in LVM.
fn misnamed(plan: &BackupPlan) -> Option<CheckLine> {
    let names = [
        ("vgname", &plan.group),
        ("lvname", &plan.origin),
        ("backuplv", &plan.snapshot),
    ];
    let (key, name) = names
        .into_iter()
        .find(|(key, name)| !is_name(name, *key == "backuplv"))?;
    Some(CheckLine::missing(format!(
        "`{key}` is {}: expected an LVM name, without spaces, quotes or a comment, or lvcreate fails; correct it in \
         {CONFIGURATION}",
        quoted(name)
    )))
}

/// An existing snapshot with the planned name, or one that matches the name's pattern.
fn left_behind(plan: &BackupPlan, group: &ReportedGroup) -> Option<CheckLine> {
    let is_it = |volume: &&ReportedVolume| match plan.snapshot.split_once('%') {
        None => volume.name == plan.snapshot,
        Some((start, _)) => {
            !start.is_empty()
                && volume.origin.as_ref() == Some(&plan.origin)
                && volume.name.starts_with(start)
        }
    };
    let found = group.volumes.iter().find(is_it)?;
    let name = named(plan, &found.name);
    let harm = if found.name == plan.snapshot {
        "tonight's lvcreate would fail"
    } else {
        "it slows the origin's writes and fills up"
    };
    Some(CheckLine::missing(format!(
        "{name} already exists, left by an earlier run unless a backup is running: {harm}; if it is unused, unmount and \
         remove it"
    )))
}

fn thin(plan: &BackupPlan, facts: &BackupFacts, origin: &ReportedVolume) -> Option<CheckLine> {
    let name = named(plan, &origin.name);
    let sentence = match (plan.is_thin, is_thin(origin)) {
        (true, false) => format!(
            "`thin` is on, but {name} is no thin volume: lvcreate would get no size and fail while the database is locked; set \
             `thin=0` in {CONFIGURATION}"
        ),
        (false, true) => format!(
            "{name} is a thin volume, but `thin` is off: its snapshot would be a thick one outside the pool, which copies each \
             first write and can overflow; set `thin=1` under [misc] and `lvcreate=lvcreate -kn` under [tools]"
        ),
        (true, true) if facts.skips_activation == Some(true) && !plan.activates_snapshot() => {
            format!(
                "LVM creates thin snapshots inactive, so mylvmbackup could not mount its snapshot of {name}; set `lvcreate=lvcreate -kn` \
             under [tools] in {CONFIGURATION}"
            )
        }
        (true, true) if facts.skips_activation.is_none() && !plan.activates_snapshot() => format!(
            "cannot tell whether LVM creates thin snapshots inactive; mylvmbackup could not mount such a snapshot of {name}. Set \
             `lvcreate=lvcreate -kn` under [tools] in {CONFIGURATION}, which works in either case"
        ),
        _ => return None,
    };
    Some(CheckLine::missing(sentence))
}

/// Whether the pool of the thin origin is too full for a snapshot.
fn pool_refusal(
    facts: &BackupFacts,
    group: &ReportedGroup,
    origin: &ReportedVolume,
) -> Option<PoolRefusal> {
    let of = |name: &str| group.volumes.iter().find(|volume| volume.name == name);
    let name = origin.pool.as_deref()?;
    let pool = of(name)?;
    let metadata = Fill {
        unit: of(&format!("{name}_tmeta"))?.size? / 10_000,
        ..pool.metadata?
    };
    let threshold = facts.policies.of_pool(pool.profile).threshold;
    PoolRefusal::of(metadata, pool.data?, threshold)
}

fn room_in_group(plan: &BackupPlan, group: &ReportedGroup, origin: &ReportedVolume) -> CheckLine {
    let Some(asked) = plan.size_bytes() else {
        return CheckLine::missing(format!(
            "`lvsize` is {}: expected a number with a unit such as 5G, and no percentage, or lvcreate fails while the database is \
             locked; correct it in {CONFIGURATION}",
            quoted(&plan.size)
        ));
    };
    let needed = taken(asked, group, origin);
    let size = size_text(needed);
    let origin = named(plan, &origin.name);
    let free = group
        .free
        .map(|free| free.saturating_sub(not_allocatable(group)));
    let group = &group.name;
    match free {
        None => CheckLine::missing(format!(
            "the free space of {group} is unknown: check with `vgs` that a snapshot of {size} fits"
        )),
        Some(free) if free < needed => CheckLine::missing(format!(
            "{group} has {} free, and the snapshot of {origin} takes {size}: lvcreate would fail while the database is \
             locked; free space, add a disk with `vgextend`, or reduce `lvsize` in {CONFIGURATION}",
            size_text(free)
        )),
        Some(free) => CheckLine::Good(format!(
            "{group} has {} free, and mylvmbackup's snapshot of {origin} takes {size}",
            size_text(free)
        )),
    }
}

/// The free bytes of PVs that LVM may not allocate from.
fn not_allocatable(group: &ReportedGroup) -> u64 {
    let closed = group.pvs.iter().filter(|pv| !pv.is_allocatable);
    closed.filter_map(|pv| pv.free).sum()
}

/// The size of a COW area: whole extents, and at most what it can ever use.
fn taken(asked: u64, group: &ReportedGroup, origin: &ReportedVolume) -> u64 {
    let extent = group.extent.unwrap_or(1);
    let whole = |bytes: u64| bytes.div_ceil(extent).saturating_mul(extent);
    match origin.size {
        // mylvmbackup makes it with the default chunk.
        Some(size) => whole(asked).min(whole(never_overflows(size, None))),
        None => whole(asked),
    }
}

fn is_thin(volume: &ReportedVolume) -> bool {
    volume.segment_type() == Some("thin") || volume.attributes.starts_with('V')
}

fn is_name(name: &str, may_have_codes: bool) -> bool {
    is_lvm_name(&if may_have_codes {
        name.replace('%', "_")
    } else {
        name.into()
    })
}
