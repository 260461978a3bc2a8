//! Which jobs are repeats of one another: those of the same set and variant, on the same host. Any other
//! stands for itself.

use crate::job::Job;
use crate::source::Label;

/// Jobs that are one column of a comparison, in the order of their repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub name: String,
    pub jobs: Vec<Job>,
}

/// Jobs as columns, in the order in which the first of each is given.
pub fn grouped(jobs: Vec<Job>) -> Vec<Group> {
    let mut groups: Vec<Vec<Job>> = Vec::new();
    for job in jobs {
        let is_its = |group: &&mut Vec<Job>| {
            job.label.is_some() && variant(&group[0]) == variant(&job) && host(&group[0]) == host(&job)
        };
        match groups.iter_mut().find(is_its) {
            Some(group) => group.push(job),
            None => groups.push(vec![job]),
        }
    }
    let is_one_set = groups.iter().flatten().all(|job| set(job) == set(&groups[0][0]));
    let named = |mut jobs: Vec<Job>| {
        jobs.sort_by_key(|job| (job.label.as_ref().and_then(|label| label.repeat), job.started_at, job.id));
        Group { name: name(&jobs[0], is_one_set), jobs }
    };
    groups.into_iter().map(named).collect()
}

/// What a run is called within its column: its place, and the job's number.
pub fn run_name(place: usize, job: &Job) -> String {
    let repeat = job.label.as_ref().and_then(|label| label.repeat);
    format!("{} (job {})", repeat.map_or(place + 1, |repeat| repeat as usize), job.id)
}

/// With the host of jobs that were brought here.
fn name(job: &Job, is_one_set: bool) -> String {
    let name = name_here(job, is_one_set);
    match job.is_imported() {
        true => format!("{name} ({})", job.imported_from().unwrap_or("another host")),
        false => name,
    }
}

fn name_here(job: &Job, is_one_set: bool) -> String {
    match &job.label {
        None => format!("{} (job {})", job.name, job.id),
        Some(Label { variant: Some(variant), .. }) if is_one_set => variant.clone(),
        Some(Label { set, variant: Some(variant), .. }) => format!("{set}: {variant}"),
        Some(Label { set, .. }) => set.clone(),
    }
}

fn set(job: &Job) -> Option<&String> {
    job.label.as_ref().map(|label| &label.set)
}

fn variant(job: &Job) -> Option<(&String, Option<&String>)> {
    job.label.as_ref().map(|label| (&label.set, label.variant.as_ref()))
}

/// Whether it ran elsewhere, and where.
fn host(job: &Job) -> (bool, Option<&str>) {
    (job.is_imported(), job.imported_from())
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
        let found: Vec<(&str, Vec<i64>)> =
            found.iter().map(|group| (&*group.name, group.jobs.iter().map(|job| job.id).collect())).collect();
        let expected: Vec<(&str, Vec<i64>)> =
            expected.iter().map(|(name, ids)| (*name, ids.to_vec())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn runs_of_a_variant_are_repeats_in_their_order() {
        let run = |id, variant, repeat| job(id, Some(("chunks", Some(variant), Some(repeat))));
        check(vec![run(1, "64k", 2), run(2, "4k", 1), run(3, "64k", 1)], &[("64k", &[3, 1]), ("4k", &[2])]);
    }

    #[test]
    fn runs_of_another_host_are_a_column_of_their_own() {
        let run = |id| job(id, Some(("levels", Some("level3"), None)));
        let of = |id, host: &str| {
            let mut job = Job { key: format!("{}{id}", crate::job::IMPORTED), ..run(id) };
            job.setup.host = Some(host.into());
            job
        };
        let jobs = vec![run(1), of(2, "twin"), run(3), of(4, "lab"), of(5, "twin")];
        check(jobs, &[("level3", &[1, 3]), ("level3 (twin)", &[2, 5]), ("level3 (lab)", &[4])]);
    }

    #[test]
    fn what_belongs_to_no_set_stands_for_itself() {
        check(vec![job(2, None), job(1, None)], &[("dd (job 2)", &[2]), ("dd (job 1)", &[1])]);
        check(
            vec![job(1, Some(("chunks", Some("4k"), None))), job(2, None)],
            &[("chunks: 4k", &[1]), ("dd (job 2)", &[2])],
        );
        check(
            vec![job(1, Some(("nights", None, None))), job(2, Some(("nights", None, None)))],
            &[("nights", &[1, 2])],
        );
        check(Vec::new(), &[]);
    }
}
