//! Properties of a job's snapshot, its origin and the machine. They are recorded while the snapshot exists, since LVM
//! does not know it afterwards.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::interval::{HostColumn, Interval};
use crate::topology::{Device, Topology, Volume, VolumeKind};
use crate::units::{Fill, size_text};

/// The kernel counts processor time in hundredths of a second on every machine that LVM runs on.
const MICROSECONDS_OF_A_CLOCK_TICK: f64 = 10_000.0;
/// In a shorter tick, the last clock tick of each processor matters too much.
const LEAST_TO_COUNT_PROCESSORS_US: u64 = 900_000;
/// Maximum depth of layers; a recording may contain a cycle.
const DEEPEST: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotKind {
    /// It has a COW area of fixed size.
    Thick,
    /// It shares a pool with its origin.
    Thin,
}

/// The last known properties; `None` if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Setup {
    pub kind: Option<SnapshotKind>,
    pub chunk_bytes: Option<u64>,
    /// The size of the COW area.
    pub cow_bytes: Option<u64>,
    /// The size with which it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made_bytes: Option<u64>,
    /// The most that was used of it. Its size may have changed since.
    pub peak_bytes: Option<u64>,
    pub origin_bytes: Option<u64>,
    /// The origin's thick snapshots, including this one; 0 for a run that created none.
    pub snapshots: Option<u32>,
    pub origin_pvs: Option<Vec<String>>,
    pub cow_pvs: Option<Vec<String>>,
    pub processors: Option<u32>,
    pub host: Option<String>,
    /// As in `uname -r`.
    pub kernel: Option<String>,
    pub origin_layout: Option<Layout>,
    /// For a thin snapshot, the layout of its pool's data.
    pub cow_layout: Option<Layout>,
    /// Of the snapshot's own device.
    pub read_ahead_kib: Option<u64>,
    /// The disks of origin and COW area; for a job without a snapshot, all disks.
    pub disks: Option<Vec<Disk>>,
    /// Used space of its file system, if the snapshot is mounted.
    pub file_system_bytes: Option<u64>,
}

/// The layout of a volume's first segment, as LVM reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Layout {
    /// LVM's word, such as `linear` or `striped`.
    pub kind: String,
    pub stripes: Option<u32>,
    pub stripe_bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Disk {
    /// The kernel's name, such as `sda`.
    pub name: String,
    pub model: Option<String>,
    pub rotational: Option<bool>,
    pub scheduler: Option<String>,
    pub read_ahead_kib: Option<u64>,
}

impl Setup {
    /// Records the properties of a snapshot and its origin. Properties that are no longer known stay.
    pub fn update(&mut self, interval: &Interval, snapshot: &Volume, fill: Option<Fill>) {
        let topology = &*interval.topology;
        self.kind = SnapshotKind::of(snapshot.kind).or(self.kind);
        self.chunk_bytes = chunk_bytes(topology, snapshot).or(self.chunk_bytes);
        if snapshot.kind.is_thick_snapshot() {
            self.cow_bytes = snapshot.size.or(self.cow_bytes);
            self.made_bytes = self.made_bytes.or(snapshot.size);
            let used = fill.filter(|fill| fill.unit > 0).map(Fill::used_bytes);
            self.peak_bytes = self.peak_bytes.max(used);
            replace(&mut self.cow_pvs, &snapshot.pvs);
        }
        self.cow_layout = Layout::of(snapshot, topology).or(self.cow_layout.take());
        let device = snapshot
            .device
            .and_then(|index| topology.devices.get(index));
        self.read_ahead_kib = device
            .and_then(|it| it.read_ahead_kib)
            .or(self.read_ahead_kib);
        if let Some(origin) = topology.origin_of(snapshot) {
            self.origin_bytes = origin.size.or(self.origin_bytes);
            let snapshots = topology.thick_snapshots(origin).count() as u32;
            if snapshots > 0 {
                self.snapshots = self.snapshots.max(Some(snapshots));
            }
            replace(&mut self.origin_pvs, &origin.pvs);
            self.origin_layout = Layout::of(origin, topology).or(self.origin_layout.take());
        }
        let pvs = self.origin_pvs.iter().chain(&self.cow_pvs).flatten();
        let disks = disks_below(topology, pvs);
        replace(&mut self.disks, &disks);
        self.processors = processors(interval).or(self.processors);
        self.file_system_bytes = interval.used_bytes_on(snapshot).or(self.file_system_bytes);
    }

    /// Records the properties of the host, for a job without a snapshot.
    pub fn update_host(&mut self, interval: &Interval) {
        replace(&mut self.disks, &all_disks(&interval.topology));
        self.processors = processors(interval).or(self.processors);
    }

    pub fn is_thick(&self) -> bool {
        self.kind == Some(SnapshotKind::Thick)
    }

    pub fn made_no_snapshot(&self) -> bool {
        self.snapshots == Some(0)
    }

    /// Whether the origin and the COW area lie on this PV; `None` if unknown.
    pub fn carries(&self, pv: &str) -> (Option<bool>, Option<bool>) {
        let is_among = |pvs: &Option<Vec<String>>| Some(pvs.as_ref()?.iter().any(|it| it == pv));
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

impl Layout {
    /// For a thin volume, the layout of its pool's data. `None` without LVM's report.
    pub fn of(volume: &Volume, topology: &Topology) -> Option<Self> {
        let mut parts = volume.layout.iter();
        let part = if volume.kind.is_thin() {
            let pool = topology.pool_of(volume)?;
            let data = format!("{}_tdata", pool.lv);
            parts = pool.layout.iter();
            parts.find(|part| part.lv == data)?
        } else {
            parts.next()?
        };
        let segment = part.segments.first()?;
        Some(Self {
            kind: segment.kind.clone(),
            stripes: segment.stripes,
            stripe_bytes: segment.stripe_size,
        })
    }

    /// Such as `striped, 2 stripes of 64.0 KiB`.
    pub fn text(&self) -> String {
        let kind = &self.kind;
        match (self.stripes, self.stripe_bytes) {
            (None | Some(0 | 1), _) => kind.clone(),
            (Some(stripes), None | Some(0)) => format!("{kind}, {stripes} stripes"),
            (Some(stripes), Some(bytes)) => {
                format!("{kind}, {stripes} stripes of {}", size_text(bytes))
            }
        }
    }
}

impl From<&Device> for Disk {
    fn from(device: &Device) -> Self {
        Self {
            name: device.name.to_string(),
            model: device.model.clone(),
            rotational: device.rotational,
            scheduler: device.scheduler.clone(),
            read_ahead_kib: device.read_ahead_kib,
        }
    }
}

/// The disks below these PVs.
pub fn disks_below<'a>(topology: &Topology, pvs: impl Iterator<Item = &'a String>) -> Vec<Disk> {
    let mut names: Vec<String> = pvs.cloned().collect();
    for _ in 0..DEEPEST {
        let below = names.into_iter().flat_map(|name| below(topology, name));
        names = below.collect();
    }
    let mut disks: Vec<Disk> = Vec::new();
    for device in names.iter().filter_map(|name| topology.device(name)) {
        if disks.iter().all(|disk| *disk.name != *device.name) {
            disks.push(device.into());
        }
    }
    disks
}

/// The disks of the host's total.
pub fn all_disks(topology: &Topology) -> Vec<Disk> {
    let counted = topology.devices.iter().filter(|device| device.counts);
    counted.map(Disk::from).collect()
}

fn below(topology: &Topology, name: String) -> Vec<String> {
    match topology.device(&name) {
        Some(device) if !device.slaves.is_empty() => device.slaves.clone(),
        _ => vec![name],
    }
}

/// The chunk size of a thick snapshot, or of a thin one's pool.
fn chunk_bytes(topology: &Topology, snapshot: &Volume) -> Option<u64> {
    let copier = if snapshot.kind.is_thick_snapshot() {
        snapshot
    } else {
        topology.pool_of(snapshot)?
    };
    let mut segments = copier.layout.first()?.segments.iter();
    segments.find_map(|segment| segment.chunk_size)
}

/// Replaces a list unless the new one is empty.
fn replace<T: Clone + PartialEq>(list: &mut Option<Vec<T>>, new: &[T]) {
    if !new.is_empty() && list.as_deref() != Some(new) {
        *list = Some(new.to_vec());
    }
}

/// The number of processors: the sum of their time divided by the elapsed time.
fn processors(interval: &Interval) -> Option<u32> {
    let time = interval.host[HostColumn::AllCpu]? as f64 * MICROSECONDS_OF_A_CLOCK_TICK;
    let count = (time / interval.elapsed_us as f64).round();
    (interval.elapsed_us >= LEAST_TO_COUNT_PROCESSORS_US && count >= 1.0).then_some(count as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(kind: &str, stripes: Option<u32>, stripe_bytes: Option<u64>) -> Layout {
        Layout {
            kind: kind.into(),
            stripes,
            stripe_bytes,
        }
    }

    #[test]
    fn a_layout_shows_several_stripes() {
        assert_eq!(layout("linear", Some(1), Some(0)).text(), "linear");
        assert_eq!(
            layout("striped", Some(2), Some(65_536)).text(),
            "striped, 2 stripes of 64.0 KiB"
        );
        assert_eq!(layout("raid1", Some(2), None).text(), "raid1, 2 stripes");
    }
}
