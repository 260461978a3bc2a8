//! How much of its data a backup has read. A compressor at the end of a pipe hides that `tar` was killed, so a reported
//! success does not prove that the backup is complete. In measurements, complete runs read at least 87 % of the used space
//! of their file system, and broken runs a third.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::words::size;
use super::{Job, MOST_EARLIER_RUNS};

/// Without an earlier run, a backup that read this share of its file system is complete. A good one of a small database
/// read 87 %, since space that was preallocated and never written is used but not read.
const WHOLE: f64 = 0.80;
/// Without an earlier run, a backup that read less than this is incomplete. In between, it may leave files out on purpose.
const BROKEN: f64 = 0.35;
/// A backup is complete if it read this share of what the least complete earlier run read. Files come and go.
const AS_BEFORE: f64 = 0.90;
/// The same without a file system, where the amount of data itself may change.
const AS_MUCH_AS_BEFORE: f64 = 0.75;

/// The bytes that a backup read, compared with those that it should have read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Completeness {
    pub read_bytes: u64,
    /// The used space of its file system, or the fewest bytes that an earlier good run read.
    pub expected_bytes: u64,
    pub basis: CompletenessBasis,
    /// The number of earlier good runs; 0 if it was only compared with its file system.
    pub runs: usize,
    pub coverage: Coverage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletenessBasis {
    /// The used space of its file system.
    FileSystem,
    /// The bytes that earlier good runs read.
    EarlierRuns,
    /// The size of the origin, if there is no file system and no earlier run.
    Origin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    Complete,
    Incomplete,
    /// It read little, but without an earlier run to compare it with, it may leave files out on purpose.
    Unclear,
}

impl Completeness {
    /// Compares a backup with earlier good backups of the same origin, which come latest first. `None` if the bytes read
    /// are unknown, or if there is nothing to compare them with.
    pub fn of<'a>(job: &Job, good: impl Iterator<Item = &'a Job>) -> Option<Self> {
        let read = job.bytes_read?;
        let used = |job: &Job| job.setup.file_system_bytes.filter(|bytes| *bytes > 0);
        if let Some(used_bytes) = used(job) {
            let share = |other: &Job| Some(other.bytes_read? as f64 / used(other)? as f64);
            let shares: Vec<f64> = good.filter_map(share).take(MOST_EARLIER_RUNS).collect();
            let least = shares.iter().copied().reduce(f64::min);
            let own = read as f64 / used_bytes as f64;
            let coverage = match least {
                Some(least) if own >= least.min(1.0) * AS_BEFORE => Coverage::Complete,
                None if own >= WHOLE => Coverage::Complete,
                None if own >= BROKEN => Coverage::Unclear,
                _ => Coverage::Incomplete,
            };
            let (basis, runs) = (CompletenessBasis::FileSystem, shares.len());
            return Some(Self { read_bytes: read, expected_bytes: used_bytes, basis, runs, coverage });
        }
        let totals: Vec<u64> = good.filter_map(|other| other.bytes_read).take(MOST_EARLIER_RUNS).collect();
        let (expected_bytes, basis, whole) = match totals.iter().min() {
            Some(least) => (*least, CompletenessBasis::EarlierRuns, AS_MUCH_AS_BEFORE),
            None => (job.setup.origin_bytes?, CompletenessBasis::Origin, WHOLE),
        };
        let is_broken =
            basis == CompletenessBasis::EarlierRuns && (read as f64) < expected_bytes as f64 * BROKEN;
        let coverage = match read as f64 >= expected_bytes as f64 * whole {
            true => Coverage::Complete,
            false if is_broken => Coverage::Incomplete,
            false => Coverage::Unclear,
        };
        Some(Self { read_bytes: read, expected_bytes, basis, runs: totals.len(), coverage })
    }

    /// `47 MiB were read, and its file system uses 169 MiB`
    pub fn text(&self) -> String {
        let (read, expected) = (size(self.read_bytes as f64), size(self.expected_bytes as f64));
        match self.basis {
            CompletenessBasis::FileSystem => {
                format!("{read} were read, and its file system uses {expected}")
            }
            CompletenessBasis::EarlierRuns => {
                format!("{read} were read, and good runs before it read {expected}")
            }
            CompletenessBasis::Origin => format!("{read} were read of an origin of {expected}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobKind;
    use jiff::Timestamp;

    /// A run of `vg0/data` that read this many MiB of a file system with this many.
    fn run(id: i64, read: u64, used: Option<u64>) -> Job {
        let mut job = Job::new(id, JobKind::Snapshot, &id.to_string(), "snap", Timestamp::UNIX_EPOCH);
        (job.vg, job.origin) = (Some("vg0".into()), Some("data".into()));
        job.bytes_read = Some(read << 20);
        job.setup.file_system_bytes = used.map(|used| used << 20);
        job.setup.origin_bytes = Some(1000 << 20);
        job
    }

    fn check(before: &[(u64, Option<u64>)], read: u64, used: Option<u64>, expected: Coverage) {
        let good: Vec<Job> = (2..).zip(before).map(|(id, (read, used))| run(id, *read, *used)).collect();
        let found = Completeness::of(&run(1, read, used), good.iter()).unwrap();
        assert_eq!(found.coverage, expected, "{before:?}, {read} of {used:?}: {}", found.text());
    }

    #[test]
    fn the_first_run_is_compared_with_its_file_system() {
        check(&[], 147, Some(169), Coverage::Complete);
        check(&[], 130, Some(169), Coverage::Unclear);
        check(&[], 200, Some(169), Coverage::Complete);
        check(&[], 68, Some(169), Coverage::Unclear);
        check(&[], 47, Some(169), Coverage::Incomplete);
        check(&[], 0, Some(169), Coverage::Incomplete);
    }

    #[test]
    fn runs_that_leave_files_out_are_known_by_those_before_them() {
        let before = [(68, Some(169)), (70, Some(170))];
        check(&before, 67, Some(169), Coverage::Complete);
        check(&before, 40, Some(169), Coverage::Incomplete);
        check(&[(169, Some(169))], 120, Some(169), Coverage::Incomplete);
        // The volume has grown.
        check(&[(169, Some(169))], 169, Some(300), Coverage::Incomplete);
        check(&[(169, Some(169))], 290, Some(300), Coverage::Complete);
    }

    #[test]
    fn without_a_file_system_only_earlier_runs_count() {
        check(&[(500, None), (400, None)], 380, None, Coverage::Complete);
        check(&[(500, None), (400, None)], 200, None, Coverage::Unclear);
        check(&[(500, None), (400, None)], 100, None, Coverage::Incomplete);
        check(&[], 1000, None, Coverage::Complete);
        check(&[], 300, None, Coverage::Unclear);
    }

    #[test]
    fn unknown_reads_are_not_judged() {
        let job = Job { bytes_read: None, ..run(1, 0, Some(169)) };
        assert_eq!(Completeness::of(&job, std::iter::empty()), None);
    }
}
