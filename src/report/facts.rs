//! Facts about a job besides its figures, so that a comparison shows which differ. A fact differs if two known values
//! differ.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::setup::{Disk, Layout};
use crate::job::setup::{Setup, SnapshotKind};
use crate::job::{Job, Outcome};
use crate::units::size_text;

/// One property of a job; `None` if unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub name: &'static str,
    pub value: Option<String>,
}

/// A fact that is not the same in all runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextDiff {
    pub fact: String,
    /// For each set, the different values of its runs; empty if unknown.
    pub values: Vec<Vec<String>>,
}

/// All facts, always in the same order.
pub fn facts(job: &Job, setup: &Setup) -> Vec<Fact> {
    let ended = job.outcome.map_or("it runs", Outcome::text).to_string();
    let mut facts = vec![Fact {
        name: "how it ended",
        value: Some(ended),
    }];
    facts.extend(surroundings(job, setup));
    facts
}

/// The facts that were so before it ended: host, disks and snapshot.
pub fn surroundings(job: &Job, setup: &Setup) -> Vec<Fact> {
    let size = |bytes: Option<u64>| bytes.map(size_text);
    let kib = |kib: Option<u64>| size(kib.map(|kib| kib.saturating_mul(1024)));
    let layout = |layout: &Option<Layout>| layout.as_ref().map(Layout::text);
    let names = |names: &Option<Vec<String>>| names.as_ref().map(|names| names.join(", "));
    let disks = |value: fn(&Disk) -> Option<String>| {
        of_disks(setup.disks.as_deref().unwrap_or_default(), value)
    };
    let list = [
        ("host", setup.host.clone()),
        ("kernel", setup.kernel.clone()),
        ("snapshot of", job.origin_name()),
        ("made by", job.program.clone()),
        ("kind of snapshot", setup.kind.map(kind_text)),
        (
            "snapshots of the origin",
            setup.snapshots.map(|count| count.to_string()),
        ),
        ("chunk size", size(setup.chunk_bytes)),
        ("size of the COW area", size(setup.cow_bytes)),
        ("size of the origin", size(setup.origin_bytes)),
        (
            "layout of the COW area or the pool",
            layout(&setup.cow_layout),
        ),
        ("layout of the origin", layout(&setup.origin_layout)),
        ("PVs of the COW area", names(&setup.cow_pvs)),
        ("PVs of the origin", names(&setup.origin_pvs)),
        ("read-ahead of the snapshot", kib(setup.read_ahead_kib)),
        ("models of the disks", disks(|disk| disk.model.clone())),
        (
            "disks turn",
            disks(|disk| {
                disk.rotational
                    .map(|turns| if turns { "yes" } else { "no" }.into())
            }),
        ),
        (
            "scheduler of the disks",
            disks(|disk| disk.scheduler.clone()),
        ),
        (
            "read-ahead of the disks",
            disks(|disk| disk.read_ahead_kib.map(|kib| format!("{kib} KiB"))),
        ),
        (
            "processors",
            setup.processors.map(|count| count.to_string()),
        ),
    ];
    list.into_iter()
        .map(|(name, value)| Fact { name, value })
        .collect()
}

/// Facts with two different known values in these sets.
pub fn context_diffs(sets: &[Vec<&Fact>]) -> Vec<ContextDiff> {
    let mut found: Vec<ContextDiff> = Vec::new();
    for (place, set) in sets.iter().enumerate() {
        for fact in set {
            let index = found
                .iter()
                .position(|other| other.fact == fact.name)
                .unwrap_or_else(|| {
                    found.push(ContextDiff {
                        fact: fact.name.into(),
                        values: vec![Vec::new(); sets.len()],
                    });
                    found.len() - 1
                });
            let values = &mut found[index].values[place];
            if let Some(value) = fact.value.as_ref().filter(|value| !values.contains(value)) {
                values.push(value.clone());
            }
        }
    }
    let differs = |diff: &ContextDiff| {
        let mut known = diff.values.iter().flatten();
        known
            .next()
            .is_some_and(|first| known.any(|other| other != first))
    };
    found.retain(differs);
    found
}

fn kind_text(kind: SnapshotKind) -> String {
    match kind {
        SnapshotKind::Thick => "thick".into(),
        SnapshotKind::Thin => "thin".into(),
    }
}

/// The different values of the disks; `None` if unknown.
fn of_disks(disks: &[Disk], value: fn(&Disk) -> Option<String>) -> Option<String> {
    let mut values: Vec<String> = disks.iter().filter_map(value).collect();
    values.sort();
    values.dedup();
    (!values.is_empty()).then(|| values.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a fact that differs, by set.
    fn differing(sets: &[&[Option<&str>]]) -> Vec<Vec<String>> {
        let fact = |value: &Option<&str>| Fact {
            name: "chunk size",
            value: value.map(String::from),
        };
        let sets: Vec<Vec<Fact>> = sets
            .iter()
            .map(|values| values.iter().map(fact).collect())
            .collect();
        let sets: Vec<Vec<&Fact>> = sets.iter().map(|facts| facts.iter().collect()).collect();
        context_diffs(&sets)
            .pop()
            .map(|diff| diff.values)
            .unwrap_or_default()
    }

    #[test]
    fn different_values_are_listed_by_set() {
        let sets: [&[_]; 2] = [&[Some("4 KiB"), Some("4 KiB")], &[Some("64 KiB"), None]];
        assert_eq!(differing(&sets), [["4 KiB"], ["64 KiB"]]);
    }

    #[test]
    fn different_values_within_a_set_are_listed() {
        assert_eq!(
            differing(&[&[Some("4 KiB"), Some("64 KiB")]]),
            [["4 KiB", "64 KiB"]]
        );
    }

    #[test]
    fn unknown_and_equal_values_are_no_difference() {
        let none: [Vec<String>; 0] = [];
        assert_eq!(differing(&[&[Some("4 KiB")], &[None]]), none);
        assert_eq!(differing(&[&[Some("4 KiB")], &[Some("4 KiB")]]), none);
    }
}
