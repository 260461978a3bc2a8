//! What a job's snapshot, its origin and the machine were like: what does not change while it runs.
//!
//! It is recorded while the snapshot exists, since LVM does not know it afterwards.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::layout::{Disk, Layout, all_disks, disks_below};
use crate::interval::Interval;
use crate::topology::{Topology, Volume, VolumeKind};

/// The kernel counts processor time in hundredths of a second on every machine that LVM runs on.
const MICROSECONDS_OF_A_CLOCK_TICK: f64 = 10_000.0;
/// In a shorter tick each processor's last clock tick weighs too much.
const LEAST_TO_COUNT_PROCESSORS_US: u64 = 900_000;

/// How a snapshot keeps what is overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotKind {
    /// Copies it into a COW area of its own, of fixed size.
    Thick,
    /// Shares a pool with its origin.
    Thin,
}

/// What is known of a job besides its course. The default knows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Setup {
    pub kind: Option<SnapshotKind>,
    /// What is copied at once.
    pub chunk_bytes: Option<u64>,
    /// Of the COW area.
    pub cow_bytes: Option<u64>,
    pub origin_bytes: Option<u64>,
    /// Thick snapshots that the origin had in that time, this one too; 0 of a run that made none.
    pub snapshots: Option<u32>,
    /// On which the origin lies.
    pub origin_pvs: Option<Vec<String>>,
    /// On which the COW area lies.
    pub cow_pvs: Option<Vec<String>>,
    pub processors: Option<u32>,
    pub host: Option<String>,
    /// As `uname -r` says it.
    pub kernel: Option<String>,
    pub origin_layout: Option<Layout>,
    /// Of the COW area; of a thin snapshot, of its pool's data.
    pub cow_layout: Option<Layout>,
    /// Of the snapshot's own device.
    pub read_ahead_kib: Option<u64>,
    /// On which origin and COW area lie; of a job without a snapshot, all of the host.
    pub disks: Option<Vec<Disk>>,
    /// What its file system uses, where the snapshot is mounted.
    pub file_system_bytes: Option<u64>,
}

impl Setup {
    /// Learns what a tick shows of a snapshot and its origin; what is no longer known was true before.
    pub fn see(&mut self, interval: &Interval, snapshot: &Volume) {
        let topology = &*interval.topology;
        self.kind = SnapshotKind::of(snapshot.kind).or(self.kind);
        self.chunk_bytes = chunk_bytes(topology, snapshot).or(self.chunk_bytes);
        if snapshot.kind == VolumeKind::Snapshot {
            self.cow_bytes = snapshot.size.or(self.cow_bytes);
            learn(&mut self.cow_pvs, &snapshot.pvs);
        }
        self.cow_layout = Layout::of(snapshot, topology).or(self.cow_layout.take());
        let own = snapshot.device.and_then(|index| topology.devices.get(index));
        self.read_ahead_kib = own.and_then(|device| device.read_ahead_kib).or(self.read_ahead_kib);
        let of_origin =
            |other: &&Volume| other.vg == snapshot.vg && Some(&other.lv) == snapshot.origin.as_ref();
        if let Some(origin) = topology.volumes.iter().find(of_origin) {
            self.origin_bytes = origin.size.or(self.origin_bytes);
            self.snapshots = self.snapshots.max(thick_snapshots(topology, origin));
            learn(&mut self.origin_pvs, &origin.pvs);
            self.origin_layout = Layout::of(origin, topology).or(self.origin_layout.take());
        }
        let pvs = self.origin_pvs.iter().chain(&self.cow_pvs).flatten();
        let disks = disks_below(topology, pvs);
        learn(&mut self.disks, &disks);
        self.processors = processors(interval).or(self.processors);
        self.file_system_bytes = interval.used_bytes_on(snapshot).or(self.file_system_bytes);
    }

    /// Learns what a tick shows of the host, for a job that has no snapshot.
    pub fn see_host(&mut self, interval: &Interval) {
        learn(&mut self.disks, &all_disks(&interval.topology));
        self.processors = processors(interval).or(self.processors);
    }

    pub fn is_thick(&self) -> bool {
        self.kind == Some(SnapshotKind::Thick)
    }

    /// Whether the origin, and whether the COW area, lies on this PV; `None` where that is not known.
    pub fn carries(&self, pv: &str) -> (Option<bool>, Option<bool>) {
        let is_among = |pvs: &Option<Vec<String>>| pvs.as_ref().map(|pvs| pvs.iter().any(|name| name == pv));
        (is_among(&self.origin_pvs), is_among(&self.cow_pvs))
    }
}

impl SnapshotKind {
    fn of(kind: VolumeKind) -> Option<Self> {
        match kind {
            VolumeKind::Snapshot => Some(Self::Thick),
            VolumeKind::ThinSnapshot => Some(Self::Thin),
            _ => None,
        }
    }
}

/// A thick snapshot's own, a thin one's pool's.
fn chunk_bytes(topology: &Topology, snapshot: &Volume) -> Option<u64> {
    let is_pool = |other: &&Volume| other.vg == snapshot.vg && Some(&other.lv) == snapshot.pool.as_ref();
    let copier = match snapshot.kind {
        VolumeKind::Snapshot => snapshot,
        _ => topology.volumes.iter().find(is_pool)?,
    };
    copier.layout.first()?.segments.iter().find_map(|segment| segment.chunk_size)
}

/// `None` where there is none.
fn thick_snapshots(topology: &Topology, origin: &Volume) -> Option<u32> {
    let is_one = |other: &&Volume| {
        other.kind == VolumeKind::Snapshot
            && other.vg == origin.vg
            && other.origin.as_ref() == Some(&origin.lv)
    };
    u32::try_from(topology.volumes.iter().filter(is_one).count()).ok().filter(|count| *count > 0)
}

fn learn<T: Clone + PartialEq>(known: &mut Option<Vec<T>>, seen: &[T]) {
    if !seen.is_empty() && known.as_deref() != Some(seen) {
        *known = Some(seen.to_vec());
    }
}

/// All their time together, in the time that passed.
fn processors(interval: &Interval) -> Option<u32> {
    let time = interval.host.cpu?.total as f64 * MICROSECONDS_OF_A_CLOCK_TICK;
    let count = (time / interval.elapsed_us as f64).round();
    (interval.elapsed_us >= LEAST_TO_COUNT_PROCESSORS_US && count >= 1.0).then_some(count as u32)
}
