//! The sets of a comparison: which jobs are repeats of one another, and the facts about them besides their figures.
//!
//! Jobs of the same set, variant and host are repeats, and have one column. Other jobs have a column each. A fact differs
//! if two known values differ.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::commands::JobLabel;
use crate::job::setup::{Disk, Layout, Setup};
use crate::job::{Job, Outcome};
use crate::source::variant_name;
use crate::units::size_text;

/// A column of a comparison: jobs in the order of their repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct JobGroup {
    pub name: String,
    pub jobs: Vec<Job>,
}

/// Columns in the order of their first jobs.
pub fn grouped(jobs: Vec<Job>) -> Vec<JobGroup> {
    let mut groups: Vec<Vec<Job>> = Vec::new();
    for job in jobs {
        let is_same =
            |group: &&mut Vec<Job>| job.label.is_some() && column(&group[0]) == column(&job);
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(job),
            None => groups.push(vec![job]),
        }
    }
    let set = |job: &Job| job.label.as_ref().map(|label| label.set.clone());
    let all = || groups.iter().flatten();
    let is_one_set = all().all(|job| all().next().map(set) == Some(set(job)));
    let mut named = Vec::new();
    for mut jobs in groups {
        jobs.sort_by_key(|job| {
            let repeat = job.label.as_ref().and_then(|label| label.repeat);
            (repeat, job.started_at, job.id)
        });
        named.push(JobGroup {
            name: name(&jobs[0], is_one_set),
            jobs,
        });
    }
    named
}

/// The name of a run within its column: its number, and the job's id.
pub fn run_name(place: usize, job: &Job) -> String {
    let repeat = job.label.as_ref().and_then(|label| label.repeat);
    let number = repeat.map_or(place + 1, |repeat| repeat as usize);
    format!("{number} (job {})", job.id)
}

/// The column's name, with the host of an imported job.
fn name(job: &Job, is_one_set: bool) -> String {
    let name = match &job.label {
        None => format!("{} (job {})", job.name, job.id),
        Some(JobLabel {
            variant: Some(variant),
            ..
        }) if is_one_set => variant.clone(),
        Some(JobLabel {
            set,
            variant: Some(variant),
            ..
        }) => format!("{set}: {variant}"),
        Some(JobLabel { set, .. }) => set.clone(),
    };
    if !job.is_imported() {
        return name;
    }
    format!("{name} ({})", job.imported_from().unwrap_or("another host"))
}

/// Set, variant and host; `None` for a job without a set.
fn column(job: &Job) -> Option<(&String, Option<&String>, bool, Option<&str>)> {
    let label = job.label.as_ref()?;
    Some((
        &label.set,
        label.variant.as_ref(),
        job.is_imported(),
        job.imported_from(),
    ))
}

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
        ("kind of snapshot", setup.kind.map(variant_name)),
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
            let known = found.iter().position(|other| other.fact == fact.name);
            let index = known.unwrap_or(found.len());
            if known.is_none() {
                found.push(ContextDiff {
                    fact: fact.name.into(),
                    values: vec![Vec::new(); sets.len()],
                });
            }
            let values = &mut found[index].values[place];
            if let Some(value) = &fact.value
                && !values.contains(value)
            {
                values.push(value.clone());
            }
        }
    }
    found.retain(|diff| {
        let known: Vec<&String> = diff.values.iter().flatten().collect();
        known.iter().any(|value| *value != known[0])
    });
    found
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
    use jiff::Timestamp;

    use super::*;
    use crate::job::JobKind;

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

    fn job(id: i64, label: Option<(&str, Option<&str>, Option<u32>)>) -> Job {
        let at = Timestamp::from_second(id).unwrap();
        let mut job = Job::new(id, JobKind::Command, "key", "dd", at);
        job.label = label.map(|(set, variant, repeat)| JobLabel {
            set: set.into(),
            variant: variant.map(String::from),
            repeat,
        });
        job
    }

    fn check_groups(jobs: Vec<Job>, expected: &[(&str, &[i64])]) {
        let found = grouped(jobs);
        let found: Vec<(&str, Vec<i64>)> = found
            .iter()
            .map(|group| (&*group.name, group.jobs.iter().map(|job| job.id).collect()))
            .collect();
        let expected: Vec<(&str, Vec<i64>)> = expected
            .iter()
            .map(|(name, ids)| (*name, ids.to_vec()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn runs_of_a_variant_are_repeats() {
        let run = |id, variant, repeat| job(id, Some(("chunks", Some(variant), Some(repeat))));
        check_groups(
            vec![run(1, "64k", 2), run(2, "4k", 1), run(3, "64k", 1)],
            &[("64k", &[3, 1]), ("4k", &[2])],
        );
    }

    #[test]
    fn runs_of_another_host_have_their_own_column() {
        let run = |id| job(id, Some(("levels", Some("level3"), None)));
        let of = |id, host: &str| {
            let mut job = Job {
                key: format!("{}{id}", crate::job::IMPORTED),
                ..run(id)
            };
            job.setup.host = Some(host.into());
            job
        };
        let jobs = vec![run(1), of(2, "twin"), run(3), of(4, "lab"), of(5, "twin")];
        check_groups(
            jobs,
            &[
                ("level3", &[1, 3]),
                ("level3 (twin)", &[2, 5]),
                ("level3 (lab)", &[4]),
            ],
        );
    }

    #[test]
    fn jobs_without_a_set_have_a_column_each() {
        check_groups(
            vec![job(2, None), job(1, None)],
            &[("dd (job 2)", &[2]), ("dd (job 1)", &[1])],
        );
        check_groups(
            vec![job(1, Some(("chunks", Some("4k"), None))), job(2, None)],
            &[("chunks: 4k", &[1]), ("dd (job 2)", &[2])],
        );
        check_groups(
            vec![
                job(1, Some(("nights", None, None))),
                job(2, Some(("nights", None, None))),
            ],
            &[("nights", &[1, 2])],
        );
        check_groups(Vec::new(), &[]);
    }
}
