//! How large a snapshot's COW area has to be, by the age that the snapshot reaches. Nothing else computes such a size.
//!
//! A snapshot copies each chunk of its origin at the first write after it was made. So a snapshot of age T needs the
//! chunks that were written at least once within T, however often. Two sources tell how many: finished snapshots of the
//! origin, and device-mapper statistics, which count the areas that were written; on a large volume, in a part of it. Functions
//! of their arguments.

mod advice;
mod measured;
mod needs;
#[cfg(test)]
mod tests;

pub use cowbell_touched::{Areas, CHUNKS, ChunkCurve, Curve, MappedVolume, cow_bytes};

pub use advice::{HourRow, Hours, SizeAdvice, advise, next_snapshot};
pub use measured::{Measured, MeasuredVolumes, Now, OLDEST_CURVE, Tracker};
pub use needs::{PlannedSize, SizePoint, SizeRisk, SizeRow};

use crate::interval::Interval;
use crate::job::growth::{FinishedSnapshot, StoredNeed};
use crate::job::{Job, MOST_EARLIER_RUNS};
use crate::statistics::Sorted;
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
    /// What any stored snapshot needed.
    pub stored: Vec<StoredNeed>,
    pub measured: Option<&'a Measured>,
    /// The size of the next snapshot, if the client plans one, or mylvmbackup does.
    pub planned_bytes: Option<u64>,
    pub configured_bytes: Option<u64>,
}

impl<'a> SizingRequest<'a> {
    /// From jobs, the latest first. `None` of a volume without snapshots.
    pub fn of_volume<'j>(
        volume: &'a Volume,
        interval: &Interval,
        measured: &'a MeasuredVolumes,
        jobs: impl Iterator<Item = &'j Job>,
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
        let jobs: Vec<&Job> = jobs.filter(is_its).filter(is_alike).collect();
        let runs = jobs.iter().filter_map(|job| job.finished_snapshot());
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
            runs: runs.take(MOST_EARLIER_RUNS).collect(),
            stored: jobs.iter().filter_map(|job| job.stored_need()).collect(),
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

    /// The size with which the last snapshot was made.
    fn made_bytes(&self) -> Option<u64> {
        last(self, |run| run.made_bytes.is_some())?.made_bytes
    }

    /// The size that a smaller one has to be shown to be enough for.
    fn present_bytes(&self) -> Option<u64> {
        let sizes = [self.planned_bytes, self.configured_bytes, self.made_bytes()];
        sizes.into_iter().max()?
    }

    /// The chunk size of its last backup's snapshot, or else of its last snapshot.
    fn main_chunk(&self) -> Option<u64> {
        last(self, |_| true).map(|run| run.chunk)
    }

    /// The median length of its good backups; otherwise of other snapshots. A snapshot that overflowed tells only that a
    /// whole backup takes longer.
    fn usual_s(&self) -> Option<f64> {
        let whole = || self.runs.iter().filter(|run| !run.overflowed);
        let good = whole().filter(|run| run.is_backup && run.is_good);
        let others = whole().filter(|run| !run.is_backup);
        let lengths = Sorted::new(good.map(|run| run.seconds))
            .or_else(|| Sorted::new(others.map(|run| run.seconds)))?;
        Some(lengths.median()).filter(|length| *length > 0.0)
    }

    /// The usual length or, if all overflowed, the longest one.
    fn suggested_s(&self) -> Option<f64> {
        let overflowed = || self.runs.iter().filter(|run| run.overflowed);
        let longest = || overflowed().map(|run| run.seconds).reduce(f64::max);
        self.usual_s()
            .or_else(|| longest().filter(|length| *length > 0.0))
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
