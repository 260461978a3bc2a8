//! The bytes that a backup still has to read: up to the used space of the snapshot's file system, although a backup may
//! skip files. Without a mounted file system, up to the totals of earlier runs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::statistics::Sorted;
use super::words::size;
use super::{Job, Outcome};

/// Maximum number of earlier runs: two weeks of nights.
const MOST_RUNS: usize = 14;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RemainingReads {
    pub from: Basis,
    /// Read so far; `null` if not observed.
    pub read_bytes: Option<u64>,
    /// The expected total, the median of earlier runs; `null` if unknown.
    pub expected_bytes: Option<u64>,
    /// `null` if unknown.
    pub left_bytes: Option<u64>,
    /// The number of earlier runs.
    pub runs: usize,
    pub text: String,
    /// Amounts that may be left, each equally likely.
    #[serde(skip)]
    #[schema(ignore)]
    pub may_be: Vec<f64>,
}

/// The source of the expected total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The used space of the snapshot's file system.
    FileSystem,
    /// Earlier runs of the same origin.
    EarlierRuns,
    /// Neither is known.
    Nothing,
}

/// The bytes that earlier runs read in total.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PastRuns {
    pub totals: Vec<u64>,
    /// Whether their outcomes were not reported.
    pub is_unreported: bool,
}

impl RemainingReads {
    pub fn of(job: &Job, earlier: &PastRuns) -> Self {
        let read = job.bytes_read;
        let (from, totals) = match job.setup.file_system_bytes {
            Some(used) => (Basis::FileSystem, vec![used]),
            None if earlier.totals.is_empty() => (Basis::Nothing, Vec::new()),
            None => (Basis::EarlierRuns, earlier.totals.clone()),
        };
        // Excludes totals that this run has already exceeded.
        let left = |total: &u64| Some(total.checked_sub(read?)? as f64);
        let may_be: Vec<f64> = totals.iter().filter_map(left).collect();
        let left_bytes = Sorted::new(may_be.iter().copied()).map(|sorted| sorted.median() as u64);
        let totals = Sorted::new(totals.into_iter().map(|total| total as f64));
        let expected = match (from, &totals) {
            (Basis::FileSystem, Some(used)) => format!("Its file system uses {}", size(used.most())),
            (Basis::EarlierRuns, Some(totals)) => earlier.sentence(totals),
            _ => "No file system is mounted on it, and there is no earlier run of the same origin".into(),
        };
        let read_text = match read {
            None => "the bytes read so far are unknown".into(),
            Some(read) if left_bytes.is_some() => format!("{} are read", size(read as f64)),
            Some(read) => format!("{} are read, and the rest is unknown", size(read as f64)),
        };
        Self {
            from,
            read_bytes: read,
            expected_bytes: totals.map(|totals| totals.median() as u64),
            left_bytes,
            runs: if from == Basis::EarlierRuns { earlier.totals.len() } else { 0 },
            text: format!("{expected}; {read_text}."),
            may_be,
        }
    }
}

impl PastRuns {
    /// From jobs, the latest first: successful runs or, if there are none, those without a reported outcome.
    pub fn of<'a>(job: &Job, jobs: impl Iterator<Item = &'a Job>) -> Self {
        let alike: Vec<&Job> = jobs.filter(|other| other.is_alike(job)).collect();
        let totals = |outcome| -> Vec<u64> {
            let ended = alike.iter().filter(|other| other.outcome == Some(outcome));
            ended.filter_map(|other| other.bytes_read.filter(|bytes| *bytes > 0)).take(MOST_RUNS).collect()
        };
        match totals(Outcome::Succeeded) {
            none if none.is_empty() => Self { totals: totals(Outcome::Unknown), is_unreported: true },
            totals => Self { totals, is_unreported: false },
        }
    }

    /// `The last 3 runs of the same origin read 40.0 GiB (36.0 GiB to 44.0 GiB)`
    fn sentence(&self, totals: &Sorted) -> String {
        let (which, range) = match self.totals.len() {
            1 => ("run".to_string(), String::new()),
            runs => {
                let (least, most) = (size(totals.percentile(0.0)), size(totals.most()));
                (format!("{runs} runs"), format!(" ({least} to {most})"))
            }
        };
        let unreported = if self.is_unreported { ", whose outcomes were not reported," } else { "" };
        format!("The last {which} of the same origin{unreported} read {}{range}", size(totals.median()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobKind;
    use jiff::Timestamp;

    const GIB: u64 = 1 << 30;

    fn job(id: i64, read_gib: Option<u64>, outcome: Option<Outcome>) -> Job {
        let mut job = Job::new(id, JobKind::Snapshot, &id.to_string(), "snap", Timestamp::UNIX_EPOCH);
        (job.vg, job.origin) = (Some("vg0".into()), Some("data".into()));
        (job.bytes_read, job.outcome) = (read_gib.map(|gib| gib * GIB), outcome);
        job
    }

    fn check(
        file_system_gib: Option<u64>,
        read_gib: Option<u64>,
        totals_gib: &[u64],
        left_gib: Option<u64>,
        text: &str,
    ) {
        let mut job = job(1, read_gib, None);
        job.setup.file_system_bytes = file_system_gib.map(|gib| gib * GIB);
        let totals = totals_gib.iter().map(|gib| gib * GIB).collect();
        let left = RemainingReads::of(&job, &PastRuns { totals, is_unreported: false });
        assert_eq!((&*left.text, left.left_bytes), (text, left_gib.map(|gib| gib * GIB)));
    }

    #[test]
    fn the_rest_is_used_space_minus_reads() {
        check(Some(40), Some(12), &[99], Some(28), "Its file system uses 40.0 GiB; 12.0 GiB are read.");
        check(Some(40), None, &[], None, "Its file system uses 40.0 GiB; the bytes read so far are unknown.");
        let text = "Its file system uses 40.0 GiB; 41.0 GiB are read, and the rest is unknown.";
        check(Some(40), Some(41), &[50], None, text);
    }

    #[test]
    fn without_a_file_system_the_total_is_that_of_earlier_runs() {
        let text =
            "The last 3 runs of the same origin read 40.0 GiB (36.0 GiB to 44.0 GiB); 12.0 GiB are read.";
        check(None, Some(12), &[44, 36, 40], Some(28), text);
        let text =
            "The last 3 runs of the same origin read 40.0 GiB (36.0 GiB to 44.0 GiB); 38.0 GiB are read.";
        check(None, Some(38), &[44, 36, 40], Some(4), text);
        let text =
            "The last run of the same origin read 40.0 GiB; 41.0 GiB are read, and the rest is unknown.";
        check(None, Some(41), &[40], None, text);
    }

    #[test]
    fn an_unknown_total_is_reported() {
        let text = "No file system is mounted on it, and there is no earlier run of the same origin; 12.0 GiB are read, and \
                    the rest is unknown.";
        check(None, Some(12), &[], None, text);
    }

    #[test]
    fn only_successful_runs_count_or_else_unreported_ones() {
        let mut jobs = vec![
            job(2, Some(5), Some(Outcome::Succeeded)),
            job(3, Some(6), Some(Outcome::Unknown)),
            job(4, Some(7), Some(Outcome::Overflowed)),
            job(5, None, Some(Outcome::Succeeded)),
            job(6, Some(8), None),
        ];
        jobs.push(Job { origin: Some("other".into()), ..job(7, Some(9), Some(Outcome::Succeeded)) });
        jobs.push(Job { partly_seen: true, ..job(8, Some(9), Some(Outcome::Succeeded)) });
        let of = |jobs: &[Job]| PastRuns::of(&job(1, None, None), jobs.iter());
        assert_eq!(of(&jobs), PastRuns { totals: vec![5 * GIB], is_unreported: false });
        jobs.retain(|job| job.id != 2 && job.id != 5 && job.id < 7);
        assert_eq!(of(&jobs), PastRuns { totals: vec![6 * GIB], is_unreported: true });
    }
}
