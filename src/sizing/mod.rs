//! How large a snapshot's COW area has to be, by the age that the snapshot reaches. Nothing else computes such a size.
//!
//! A snapshot copies each chunk of its origin at the first write after it was made. So a snapshot of age T needs the
//! chunks that were written at least once within T, however often. Two sources tell how many: finished snapshots of the
//! origin, and device-mapper statistics, which count the areas that were written; on a large volume, in a part of it. Functions
//! of their arguments.

mod advice;
mod hours;
mod measured;
mod needs;
#[cfg(test)]
mod tests;

pub use cowbell_touched::{Areas, CHUNKS, ChunkCurve, Curve, MappedVolume, cow_bytes};

pub use advice::{SizeAdvice, advise, next_snapshot};
pub use hours::{HourRow, Hours};
pub use measured::{Measured, MeasuredVolumes, Now, OLDEST_CURVE, Tracker};
pub use needs::{PlannedSize, SizePoint, SizeRisk, SizeRow};

use crate::interval::Interval;
use crate::job::growth::FinishedSnapshot;
use crate::job::{Job, MOST_EARLIER_RUNS};
use crate::topology::{Volume, extent_of};

/// What is known of an origin: its finished snapshots, what was measured, and the room that there is.
#[derive(Clone, Debug, Default)]
pub struct SizingRequest<'a> {
    /// Group and volume.
    pub vg: &'a str,
    pub lv: &'a str,
    pub is_thin: bool,
    pub origin_bytes: Option<u64>,
    pub extent: u64,
    /// Free bytes of the volume group, or of the thin pool.
    pub free: Option<u64>,
    /// Finished snapshots, the latest first.
    pub runs: Vec<FinishedSnapshot>,
    pub measured: Option<&'a Measured>,
    /// The size of the next snapshot, if the client plans one, or mylvmbackup does.
    pub planned_bytes: Option<u64>,
    pub configured_bytes: Option<u64>,
}

impl<'a> SizingRequest<'a> {
    /// From ended jobs, the latest first. `None` of a volume without snapshots.
    pub fn of_volume<'j>(
        volume: &'a Volume,
        interval: &Interval,
        measured: &'a MeasuredVolumes,
        ended: impl Iterator<Item = &'j Job>,
    ) -> Option<Self> {
        if !volume.may_have_snapshots() {
            return None;
        }
        let is_its = |job: &&Job| {
            job.vg.as_ref() == Some(&volume.vg) && job.origin.as_ref() == Some(&volume.lv)
        };
        let group = interval.topology.group(&volume.vg);
        let is_thin = volume.pool.is_some();
        let is_alike = |job: &&Job| job.setup.is_thick() != is_thin;
        Some(Self {
            vg: &volume.vg,
            lv: &volume.lv,
            is_thin,
            origin_bytes: volume.size,
            extent: extent_of(group),
            free: if is_thin {
                free_in_pool(volume, interval)
            } else {
                group.and_then(|group| group.free)
            },
            runs: ended
                .filter(is_its)
                .filter(is_alike)
                .filter_map(Job::finished_snapshot)
                .take(MOST_EARLIER_RUNS)
                .collect(),
            measured: measured.get(&volume.uuid),
            planned_bytes: None,
            configured_bytes: configured_bytes(volume, interval),
        })
    }

    /// `vg0/mysql`
    pub fn origin(&self) -> String {
        format!("{}/{}", self.vg, self.lv)
    }

    /// The program that makes its snapshots, as far as is known.
    pub fn tool(&self) -> Option<&str> {
        match self.configured_bytes {
            Some(_) => Some("mylvmbackup"),
            None => last(self, |_| true)?.tool.as_deref(),
        }
    }
}

/// Of the last backup, or else the last snapshot.
fn last<'a>(
    request: &'a SizingRequest,
    is_meant: fn(&&FinishedSnapshot) -> bool,
) -> Option<&'a FinishedSnapshot> {
    let mut runs = request.runs.iter().filter(is_meant);
    let of_backup = runs.clone().find(|run| run.is_backup);
    of_backup.or_else(|| runs.next())
}

/// The size that mylvmbackup will give to the snapshot of this volume.
fn configured_bytes(volume: &Volume, interval: &Interval) -> Option<u64> {
    let next = interval.next_snapshot.as_ref()?;
    (next.group == volume.vg && next.origin == volume.lv).then(|| next.bytes())?
}

fn free_in_pool(volume: &Volume, interval: &Interval) -> Option<u64> {
    let pool = interval.topology.pool_of(volume)?;
    let (_, state) = interval.volume(&pool.uuid)?;
    let fill = state.fill.filter(|fill| fill.unit > 0)?;
    Some(fill.total_bytes().saturating_sub(fill.used_bytes()))
}
