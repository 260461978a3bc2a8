//! What a forecast of a running backup is made from: how much was read from its snapshot and how far that filled, and
//! earlier backups of the same origin. It is in memory, so it is known while the database does not answer.

use std::collections::HashMap;

use super::{Job, JobKind, MOST_EARLIER_RUNS, Outcome};
use crate::forecast::{PastRun, PastRuns, ReadPoint, ReadProgress};
use crate::interval::Interval;
use crate::topology::{Volume, VolumeState};

/// Maximum number of snapshots, the latest first: each takes up to 20 KiB.
const MOST_SNAPSHOTS: usize = 100;

/// The curve of each active snapshot, by its job's id.
#[derive(Clone, Debug, Default)]
pub struct Curves(HashMap<i64, ReadProgress>);

impl Curves {
    /// Adds a tick.
    pub fn advance(&mut self, interval: &Interval, running: &[Job]) {
        let jobs = running.iter().rev();
        let snapshots = jobs.filter(|job| job.kind == JobKind::Snapshot);
        let snapshots: Vec<&Job> = snapshots.take(MOST_SNAPSHOTS).collect();
        self.0
            .retain(|id, _| snapshots.iter().any(|job| job.id == *id));
        for job in snapshots {
            let curve = self.0.entry(job.id).or_default();
            if let Some(point) = next_point(interval, &job.key, curve.last()) {
                curve.push(point);
            }
        }
    }

    pub fn of(&self, job: i64) -> Option<&ReadProgress> {
        self.0.get(&job)
    }
}

/// The point at the end of an interval; `None` if it is not known what was read in it.
pub fn next_point(interval: &Interval, uuid: &str, last: Option<ReadPoint>) -> Option<ReadPoint> {
    let (volume, _) = interval.volume(uuid)?;
    let fill = overflows(interval, volume).and_then(|(_, state)| state.fill);
    let fill = fill.filter(|fill| fill.unit > 0);
    let used = fill.map(|fill| fill.used_bytes() as f64);
    let Some(last) = last else {
        return Some(ReadPoint {
            at_s: 0.0,
            read: 0.0,
            used,
        });
    };
    let read = interval.work_of_volume(volume).read_bytes()? as f64;
    let seconds = interval.elapsed_us as f64 / 1e6;
    (seconds > 0.0).then_some(ReadPoint {
        at_s: last.at_s + seconds,
        read: last.read + read,
        used,
    })
}

/// The volume that is full when a snapshot overflows: a thick snapshot itself, or the pool of a thin one.
pub fn overflows<'a>(
    interval: &'a Interval,
    snapshot: &'a Volume,
) -> Option<(&'a Volume, &'a VolumeState)> {
    let full = if snapshot.kind.is_thin() {
        interval.topology.pool_of(snapshot)?
    } else {
        snapshot
    };
    interval.volume(&full.uuid)
}

/// From jobs, the latest first: successful runs or, if there are none, those without a reported outcome.
pub fn past_runs<'a>(job: &Job, jobs: impl Iterator<Item = &'a Job>) -> PastRuns {
    let alike: Vec<&Job> = jobs.filter(|other| other.is_alike(job)).collect();
    let runs = |outcome| -> Vec<PastRun> {
        let ended = alike.iter().filter(|other| other.outcome == Some(outcome));
        let known = ended.filter_map(|other| past_run(other));
        known.take(MOST_EARLIER_RUNS).collect()
    };
    let succeeded = runs(Outcome::Succeeded);
    let is_unreported = succeeded.is_empty();
    PastRuns {
        runs: if is_unreported {
            runs(Outcome::Unknown)
        } else {
            succeeded
        },
        is_unreported,
    }
}

fn past_run(job: &Job) -> Option<PastRun> {
    Some(PastRun {
        read_bytes: job.bytes_read.filter(|bytes| *bytes > 0)?,
        seconds: job.seconds(job.ended_at?),
        file_system_bytes: job.setup.file_system_bytes,
        grown_bytes: job.setup.peak_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobKind;
    use jiff::Timestamp;

    const GIB: u64 = 1 << 30;

    fn job(id: i64, read_gib: Option<u64>, outcome: Option<Outcome>) -> Job {
        let mut job = Job::new(
            id,
            JobKind::Snapshot,
            &id.to_string(),
            "snap",
            Timestamp::UNIX_EPOCH,
        );
        (job.vg, job.origin) = (Some("vg0".into()), Some("data".into()));
        (job.bytes_read, job.outcome) = (read_gib.map(|gib| gib * GIB), outcome);
        job.ended_at = Some(Timestamp::from_second(100).unwrap());
        job
    }

    fn totals_gib(runs: &PastRuns) -> Vec<u64> {
        runs.runs.iter().map(|run| run.read_bytes / GIB).collect()
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
        jobs.push(Job {
            origin: Some("other".into()),
            ..job(7, Some(9), Some(Outcome::Succeeded))
        });
        jobs.push(Job {
            partly_seen: true,
            ..job(8, Some(9), Some(Outcome::Succeeded))
        });
        let of = |jobs: &[Job]| past_runs(&job(1, None, None), jobs.iter());
        assert_eq!(
            (totals_gib(&of(&jobs)), of(&jobs).is_unreported),
            (vec![5], false)
        );
        jobs.retain(|job| job.id != 2 && job.id != 5 && job.id < 7);
        assert_eq!(
            (totals_gib(&of(&jobs)), of(&jobs).is_unreported),
            (vec![6], true)
        );
    }

    #[test]
    fn speeds_are_those_of_the_whole_run() {
        let mut before = job(2, Some(5), Some(Outcome::Succeeded));
        before.setup.peak_bytes = Some(GIB);
        let runs = past_runs(&job(1, None, None), [before].iter());
        assert_eq!(runs.read_speed(), Some(5.0 * GIB as f64 / 100.0));
        assert_eq!(runs.growth_speed(), Some(GIB as f64 / 100.0));
    }
}
