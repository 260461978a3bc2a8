//! What a job ran on, fact by fact, so that a comparison says what differs besides.
//!
//! A fact differs where two values are known and are not the same: of what is unknown nobody can say so.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::compare::Set;
use crate::job::layout::{Disk, Layout};
use crate::job::setup::{Setup, SnapshotKind};
use crate::job::{Job, Outcome};
use crate::units::{Prefix, bytes_text};

/// Something that is true of a job besides its figures; `None` where it is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub name: &'static str,
    pub value: Option<String>,
}

/// A fact that is not the same in all runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextDiff {
    pub fact: String,
    /// As many as there are sets: the values that its runs have, each once; empty where none is known.
    pub values: Vec<Vec<String>>,
}

/// Always the same facts, in the same order.
pub fn facts(job: &Job, setup: &Setup) -> Vec<Fact> {
    let size = |bytes: Option<u64>| bytes.map(|bytes| bytes_text(bytes as f64, Prefix::Binary));
    let kib = |kib: Option<u64>| size(kib.map(|kib| kib.saturating_mul(1024)));
    let layout = |layout: &Option<Layout>| layout.as_ref().map(Layout::text);
    let names = |names: &Option<Vec<String>>| names.as_ref().map(|names| names.join(", "));
    let disks =
        |value: fn(&Disk) -> Option<String>| of_disks(setup.disks.as_deref().unwrap_or_default(), value);
    let origin = job.vg.as_ref().zip(job.origin.as_ref()).map(|(vg, origin)| format!("{vg}/{origin}"));
    let list = [
        ("how it ended", Some(job.outcome.map_or("it runs", Outcome::text).to_string())),
        ("host", setup.host.clone()),
        ("kernel", setup.kernel.clone()),
        ("snapshot of", origin),
        ("made by", job.program.clone()),
        ("kind of snapshot", setup.kind.map(kind_text)),
        ("snapshots of the origin", setup.snapshots.map(|count| count.to_string())),
        ("chunk size", size(setup.chunk_bytes)),
        ("size of the COW area", size(setup.cow_bytes)),
        ("size of the origin", size(setup.origin_bytes)),
        ("layout of the COW area or the pool", layout(&setup.cow_layout)),
        ("layout of the origin", layout(&setup.origin_layout)),
        ("PVs of the COW area", names(&setup.cow_pvs)),
        ("PVs of the origin", names(&setup.origin_pvs)),
        ("read-ahead of the snapshot", kib(setup.read_ahead_kib)),
        ("models of the disks", disks(|disk| disk.model.clone())),
        ("disks turn", disks(|disk| disk.rotational.map(|turns| if turns { "yes" } else { "no" }.into()))),
        ("scheduler of the disks", disks(|disk| disk.scheduler.clone())),
        ("read-ahead of the disks", disks(|disk| disk.read_ahead_kib.map(|kib| format!("{kib} KiB")))),
        ("processors", setup.processors.map(|count| count.to_string())),
    ];
    list.into_iter().map(|(name, value)| Fact { name, value }).collect()
}

/// Facts of which two values are known in these sets.
pub fn besides(sets: &[Set]) -> Vec<ContextDiff> {
    let mut found: Vec<ContextDiff> = Vec::new();
    for (place, set) in sets.iter().enumerate() {
        for fact in set.runs.iter().flat_map(|run| &run.facts) {
            let index = found.iter().position(|other| other.fact == fact.name).unwrap_or_else(|| {
                found.push(ContextDiff { fact: fact.name.into(), values: vec![Vec::new(); sets.len()] });
                found.len() - 1
            });
            let values = &mut found[index].values[place];
            if let Some(value) = fact.value.as_ref().filter(|value| !values.contains(value)) {
                values.push(value.clone());
            }
        }
    }
    let differs = |besides: &ContextDiff| {
        let mut known = besides.values.iter().flatten();
        known.next().is_some_and(|first| known.any(|other| other != first))
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

/// What the disks have, each value once; `None` where it is known of none.
fn of_disks(disks: &[Disk], value: fn(&Disk) -> Option<String>) -> Option<String> {
    let mut values: Vec<String> = disks.iter().filter_map(value).collect();
    values.sort();
    values.dedup();
    (!values.is_empty()).then(|| values.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::compare::Run;

    fn set(name: &str, values: &[Option<&str>]) -> Set {
        let run = |value: &Option<&str>| Run {
            name: String::new(),
            figures: Vec::new(),
            facts: vec![Fact { name: "chunk size", value: value.map(String::from) }],
        };
        Set { name: name.into(), runs: values.iter().map(run).collect() }
    }

    fn values(sets: &[Set]) -> Vec<Vec<String>> {
        besides(sets).pop().map(|besides| besides.values).unwrap_or_default()
    }

    #[test]
    fn what_is_known_to_be_another_is_named_for_each_set() {
        let sets = [set("a", &[Some("4 KiB"), Some("4 KiB")]), set("b", &[Some("64 KiB"), None])];
        assert_eq!(values(&sets), [["4 KiB"], ["64 KiB"]]);
    }

    #[test]
    fn what_differs_within_a_set_is_named_too() {
        assert_eq!(values(&[set("a", &[Some("4 KiB"), Some("64 KiB")])]), [["4 KiB", "64 KiB"]]);
    }

    #[test]
    fn of_what_is_unknown_nothing_is_said() {
        let unknown: [Vec<String>; 0] = [];
        assert_eq!(values(&[set("a", &[Some("4 KiB")]), set("b", &[None])]), unknown);
        assert_eq!(values(&[set("a", &[Some("4 KiB")]), set("b", &[Some("4 KiB")])]), unknown);
    }
}
