//! What is known of an origin: its finished snapshots, what was measured, and the room that there is.

use super::{Measured, MeasuredVolumes};
use crate::interval::Interval;
use crate::job::growth::Run;
use crate::job::sizing::DEFAULT_EXTENT;
use crate::job::{Job, MOST_EARLIER_RUNS};
use crate::topology::Volume;

#[derive(Clone, Debug, Default)]
pub struct Question<'a> {
    /// Group and volume.
    pub vg: &'a str,
    pub lv: &'a str,
    pub is_thin: bool,
    pub origin_bytes: Option<u64>,
    pub extent: u64,
    /// Free bytes of the volume group, or of the thin pool.
    pub free: Option<u64>,
    /// Finished snapshots, the latest first.
    pub runs: Vec<Run>,
    pub measured: Option<&'a Measured>,
    /// The size of the next snapshot, if the client plans one, or mylvmbackup does.
    pub planned_bytes: Option<u64>,
    pub configured_bytes: Option<u64>,
}

impl<'a> Question<'a> {
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
            extent: group
                .and_then(|group| group.extent)
                .unwrap_or(DEFAULT_EXTENT),
            free: if is_thin {
                free_in_pool(volume, interval)
            } else {
                group.and_then(|group| group.free)
            },
            runs: ended
                .filter(is_its)
                .filter(is_alike)
                .filter_map(Job::run)
                .take(MOST_EARLIER_RUNS)
                .collect(),
            measured: measured.get(&volume.uuid),
            planned_bytes: None,
            configured_bytes: configured_bytes(volume, interval),
        })
    }
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
