//! What was read from each active snapshot, and how far its COW area or pool filled. The curves are in memory, so they
//! are known while the database does not answer.

use std::collections::HashMap;

use super::{Job, JobKind};
use crate::forecast::{ReadPoint, ReadProgress};
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
        let snapshots = running
            .iter()
            .rev()
            .filter(|job| job.kind == JobKind::Snapshot);
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
fn next_point(interval: &Interval, uuid: &str, last: Option<ReadPoint>) -> Option<ReadPoint> {
    let (volume, _) = interval.volume(uuid)?;
    let fill = overflows(interval, volume)
        .and_then(|(_, state)| state.fill)
        .filter(|fill| fill.unit > 0);
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
