//! Groups jobs into columns of a comparison: jobs of the same set, variant and host are repeats. Other jobs have a column
//! each.

use crate::commands::Label;
use crate::job::Job;

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
    let is_one_set = groups
        .iter()
        .flatten()
        .all(|job| set(job) == set(&groups[0][0]));
    let named = |mut jobs: Vec<Job>| {
        jobs.sort_by_key(|job| {
            (
                job.label.as_ref().and_then(|label| label.repeat),
                job.started_at,
                job.id,
            )
        });
        JobGroup {
            name: name(&jobs[0], is_one_set),
            jobs,
        }
    };
    groups.into_iter().map(named).collect()
}

/// The name of a run within its column: its number, and the job's id.
pub fn run_name(place: usize, job: &Job) -> String {
    let repeat = job.label.as_ref().and_then(|label| label.repeat);
    format!(
        "{} (job {})",
        repeat.map_or(place + 1, |repeat| repeat as usize),
        job.id
    )
}

/// The column's name, with the host of an imported job.
fn name(job: &Job, is_one_set: bool) -> String {
    let name = match &job.label {
        None => format!("{} (job {})", job.name, job.id),
        Some(Label {
            variant: Some(variant),
            ..
        }) if is_one_set => variant.clone(),
        Some(Label {
            set,
            variant: Some(variant),
            ..
        }) => format!("{set}: {variant}"),
        Some(Label { set, .. }) => set.clone(),
    };
    match job.is_imported() {
        true => format!("{name} ({})", job.imported_from().unwrap_or("another host")),
        false => name,
    }
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::job::JobKind;

    fn job(id: i64, label: Option<(&str, Option<&str>, Option<u32>)>) -> Job {
        let at = Timestamp::from_second(id).unwrap();
        let mut job = Job::new(id, JobKind::Command, "key", "dd", at);
        job.label = label.map(|(set, variant, repeat)| Label {
            set: set.into(),
            variant: variant.map(String::from),
            repeat,
        });
        job
    }

    fn check(jobs: Vec<Job>, expected: &[(&str, &[i64])]) {
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
        check(
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
        check(
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
        check(
            vec![job(2, None), job(1, None)],
            &[("dd (job 2)", &[2]), ("dd (job 1)", &[1])],
        );
        check(
            vec![job(1, Some(("chunks", Some("4k"), None))), job(2, None)],
            &[("chunks: 4k", &[1]), ("dd (job 2)", &[2])],
        );
        check(
            vec![
                job(1, Some(("nights", None, None))),
                job(2, Some(("nights", None, None))),
            ],
            &[("nights", &[1, 2])],
        );
        check(Vec::new(), &[]);
    }
}
