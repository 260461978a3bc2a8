//! How much of its data a backup has read. A compressor at the end of a pipe hides that `tar` was killed, so a reported
//! success does not prove that the backup is complete. In measurements, complete runs read at least 87 % of the used space
//! of their file system, and broken runs a third.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Job, MOST_EARLIER_RUNS};
use crate::units::size_text;

/// Without an earlier run, a backup that read this share of its file system is complete. A good one of a small database
/// read 87 %, since space that was preallocated and never written is used but not read.
const WHOLE: f64 = 0.80;
/// Without an earlier run, a backup that read less than this is incomplete. In between, it may leave files out on purpose.
const BROKEN: f64 = 0.35;
/// A backup is complete if it read this share of what earlier runs usually read. Files come and go.
const AS_BEFORE: f64 = 0.90;
/// A backup is also complete if it read about as much as those that a person accepted: no less than above of the least, and no
/// more than this of the most. So accepting a run of 5 % does not make one of 30 % complete.
const AS_ACCEPTED: f64 = 1.10;

/// The bytes that a backup read, compared with those that it should have read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Completeness {
    pub read_bytes: u64,
    /// The used space of its file system, or the bytes that earlier good runs usually read.
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
        let read_bytes = job.bytes_read?;
        if let Some(used) = used_bytes(job) {
            let before = Earlier::of(good, share);
            return Some(Self {
                read_bytes,
                expected_bytes: used,
                basis: CompletenessBasis::FileSystem,
                runs: before.all.len(),
                coverage: before.coverage_of_share(read_bytes as f64 / used as f64),
            });
        }
        let good = good.filter(|other| reads_alike(job, other));
        let before = Earlier::of(good, |other| Some(other.bytes_read? as f64));
        let (basis, expected_bytes) = match before.usual() {
            Some(usual) => (CompletenessBasis::EarlierRuns, usual as u64),
            None => (CompletenessBasis::Origin, job.setup.origin_bytes?),
        };
        Some(Self {
            read_bytes,
            expected_bytes,
            basis,
            runs: before.all.len(),
            coverage: before.coverage_of_bytes(read_bytes as f64, expected_bytes as f64),
        })
    }

    /// `47 MiB were read, and its file system uses 169 MiB`
    pub fn text(&self) -> String {
        let read = size_text(self.read_bytes);
        let than = match self.basis {
            CompletenessBasis::FileSystem => ", and its file system uses",
            CompletenessBasis::EarlierRuns => ", and good runs before it read",
            CompletenessBasis::Origin => " of an origin of",
        };
        format!("{read} were read{than} {}", size_text(self.expected_bytes))
    }
}

/// Whether a backup that read so much of so many bytes has read all, as far as is known without an earlier run.
pub fn is_whole(read_bytes: u64, all_bytes: u64) -> bool {
    read_bytes as f64 >= all_bytes as f64 * WHOLE
}

/// Whether one backup read a smaller share of its file system than another.
pub fn is_less(job: &Job, other: &Job) -> bool {
    let shares = share(job).zip(share(other));
    shares.is_some_and(|(own, other)| own < other * AS_BEFORE)
}

/// Whether both read files, or both the volume, which is more. A mount of a moment may not be seen.
fn reads_alike(job: &Job, other: &Job) -> bool {
    let is_same_program = job.program.is_some() && job.program == other.program;
    job.mounted_on.is_some() == other.mounted_on.is_some()
        || job.mounted_on.is_none() && is_same_program
}

fn used_bytes(job: &Job) -> Option<u64> {
    job.setup.file_system_bytes.filter(|bytes| *bytes > 0)
}

/// Which share of its file system a backup read; at most 1.
fn share(job: &Job) -> Option<f64> {
    let share = job.bytes_read? as f64 / used_bytes(job)? as f64;
    Some(share.min(1.0))
}

/// What earlier good runs read.
struct Earlier {
    /// In ascending order.
    all: Vec<f64>,
    accepted: Vec<f64>,
}

impl Earlier {
    fn of<'a>(good: impl Iterator<Item = &'a Job>, amount: impl Fn(&Job) -> Option<f64>) -> Self {
        let (mut all, mut accepted) = (Vec::new(), Vec::new());
        for job in good {
            let Some(amount) = amount(job) else { continue };
            all.push(amount);
            if job.accepted_at.is_some() {
                accepted.push(amount);
            }
            if all.len() == MOST_EARLIER_RUNS {
                break;
            }
        }
        all.sort_by(f64::total_cmp);
        Self { all, accepted }
    }

    /// The median, of two the larger one. A single run that read less does not lower it: most runs have to.
    fn usual(&self) -> Option<f64> {
        self.all.get(self.all.len() / 2).copied()
    }

    fn is_as_before(&self, own: f64) -> bool {
        let least = self.accepted.iter().copied().reduce(f64::min);
        let most = self.accepted.iter().copied().reduce(f64::max);
        self.usual().is_some_and(|usual| own >= usual * AS_BEFORE)
            || least.zip(most).is_some_and(|(least, most)| {
                (least * AS_BEFORE..=most * AS_ACCEPTED).contains(&own)
            })
    }

    fn coverage_of_share(&self, own: f64) -> Coverage {
        match self.usual() {
            Some(_) if self.is_as_before(own) => Coverage::Complete,
            None if own >= WHOLE => Coverage::Complete,
            None if own >= BROKEN => Coverage::Unclear,
            _ => Coverage::Incomplete,
        }
    }

    /// Without a file system, the amount of data itself may change.
    fn coverage_of_bytes(&self, own: f64, expected: f64) -> Coverage {
        match self.usual() {
            Some(_) if self.is_as_before(own) => Coverage::Complete,
            Some(_) if own < expected * BROKEN => Coverage::Incomplete,
            None if own >= expected * WHOLE => Coverage::Complete,
            _ => Coverage::Unclear,
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
        let mut job = Job::new(
            id,
            JobKind::Snapshot,
            &id.to_string(),
            "snap",
            Timestamp::UNIX_EPOCH,
        );
        (job.vg, job.origin) = (Some("vg0".into()), Some("data".into()));
        job.bytes_read = Some(read << 20);
        job.setup.file_system_bytes = used.map(|used| used << 20);
        job.setup.origin_bytes = Some(1000 << 20);
        job
    }

    fn check(before: &[(u64, Option<u64>)], read: u64, used: Option<u64>, expected: Coverage) {
        let good: Vec<Job> = (2..)
            .zip(before)
            .map(|(id, (read, used))| run(id, *read, *used))
            .collect();
        let found = Completeness::of(&run(1, read, used), good.iter()).unwrap();
        assert_eq!(
            found.coverage,
            expected,
            "{before:?}, {read} of {used:?}: {}",
            found.text()
        );
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
        check(&[(500, None), (400, None)], 460, None, Coverage::Complete);
        check(&[(500, None), (400, None)], 380, None, Coverage::Unclear);
        check(&[(500, None), (400, None)], 200, None, Coverage::Unclear);
        check(&[(500, None), (400, None)], 100, None, Coverage::Incomplete);
        check(&[], 1000, None, Coverage::Complete);
        check(&[], 300, None, Coverage::Unclear);
    }

    #[test]
    fn files_of_earlier_runs_say_nothing_of_a_volume_that_is_read_itself() {
        let mut files = run(2, 500, Some(500));
        files.mounted_on = Some("/mnt/snap".into());
        let mut volume = run(1, 600, None);
        let found = Completeness::of(&volume, std::iter::once(&files)).unwrap();
        assert_eq!(found.coverage, Coverage::Unclear);
        // The same program reads files again, though its mount was not seen.
        files.program = Some("nightly.sh".into());
        volume.program.clone_from(&files.program);
        let found = Completeness::of(&volume, std::iter::once(&files)).unwrap();
        assert_eq!(found.coverage, Coverage::Complete);
    }

    #[test]
    fn runs_that_read_less_and_less_are_not_complete() {
        let mut before = vec![(81, Some(100))];
        for (read, expected) in [
            (74, Coverage::Complete),
            (67, Coverage::Incomplete),
            (73, Coverage::Complete),
            (61, Coverage::Incomplete),
        ] {
            check(&before, read, Some(100), expected);
            if expected == Coverage::Complete {
                before.insert(0, (read, Some(100)));
            }
        }
    }

    /// Earlier runs in percent of the file system, of which those below 80 were accepted.
    fn check_accepted(before: &[u64], read: u64, expected: Coverage) {
        let good = (2..).zip(before).map(|(id, read)| Job {
            accepted_at: (*read < 80).then_some(Timestamp::UNIX_EPOCH),
            ..run(id, *read, Some(100))
        });
        let good: Vec<Job> = good.collect();
        let found = Completeness::of(&run(1, read, Some(100)), good.iter()).unwrap();
        assert_eq!(found.coverage, expected, "{before:?}, {read}");
    }

    #[test]
    fn accepted_runs_make_only_similar_runs_complete() {
        check_accepted(&[40], 37, Coverage::Complete);
        check_accepted(&[40], 35, Coverage::Incomplete);
        for (read, expected) in [
            (40, Coverage::Complete),
            (37, Coverage::Complete),
            (30, Coverage::Incomplete),
            (60, Coverage::Incomplete),
            (90, Coverage::Complete),
        ] {
            check_accepted(&[40, 97, 97], read, expected);
        }
        check_accepted(&[5, 97, 97], 5, Coverage::Complete);
        check_accepted(&[5, 97, 97], 30, Coverage::Incomplete);
        check_accepted(&[40, 5, 97, 97, 97], 30, Coverage::Complete);
        check_accepted(&[40, 5, 97, 97, 97], 3, Coverage::Incomplete);
    }

    #[test]
    fn unknown_reads_are_not_judged() {
        let job = Job {
            bytes_read: None,
            ..run(1, 0, Some(169))
        };
        assert_eq!(Completeness::of(&job, std::iter::empty()), None);
    }
}
