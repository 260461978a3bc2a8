//! A volume in the API: usage, layout, and cost of snapshots.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::interval::copying::Copying;
use crate::present::Present;
use crate::quantity::per_second;
use crate::topology::{State, Volume, VolumeKind, VolumeState};
use crate::units::Fill;
use crate::verdict::Verdict;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeBody {
    pub vg: String,
    pub lv: String,
    /// As `lvs -o lv_uuid` writes it.
    pub uuid: String,
    /// The kernel's name; `null` while the volume is inactive.
    pub device: Option<String>,
    pub kind: VolumeKind,
    /// For snapshots: the name of the origin, without VG.
    pub origin: Option<String>,
    pub pool: Option<String>,
    pub size_bytes: Option<u64>,
    pub used_bytes: Option<u64>,
    /// As `data_percent` of `lvs`; `null` for an invalid snapshot.
    pub fill_percent: Option<f64>,
    pub metadata_percent: Option<f64>,
    pub state: State,
    /// When cowbell found the snapshot invalid.
    pub invalid_since: Option<Timestamp>,
    /// As `copy_percent` of `lvs`: the part of a mirror or RAID that is in sync.
    pub sync_percent: Option<f64>,
    /// Writes to a full pool: `queue` or `error`.
    pub when_full: Option<String>,
    /// Mount points; `null` if mounts cannot be read.
    pub mounted_on: Option<Vec<String>>,
    pub tags: Vec<String>,
    pub created_at: Option<Timestamp>,
    /// For thick snapshots and their origins: the current cost.
    pub copying: Option<CopyingBody>,
    /// Kernel names of the PVs with its data.
    pub pvs: Vec<String>,
    /// As `lvs -a --segments` shows it: its own segments, then those of hidden volumes. Empty without LVM's report.
    pub layout: Vec<SegmentBody>,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The current cost of the thick snapshots of an origin.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct CopyingBody {
    /// Copied from the origin into COW areas.
    pub copied_bytes_per_s: f64,
    /// Written to COW areas: copies, metadata, and writes to the snapshots.
    pub cow_written_bytes_per_s: f64,
    /// The part of that which is written to the snapshots themselves.
    pub into_snapshots_bytes_per_s: f64,
    /// Bytes written to disks for each byte written to the origin; `null` without writes.
    pub write_cost: Option<f64>,
}

/// A segment of a volume or of its hidden volumes.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SegmentBody {
    pub lv: String,
    /// LVM's segment type, such as `linear`, `striped` or `thin-pool`.
    #[serde(rename = "type")]
    pub kind: String,
    pub stripes: Option<u32>,
    pub stripe_bytes: Option<u64>,
    pub chunk_bytes: Option<u64>,
    pub extents: u64,
    pub pvs: Vec<ExtentsBody>,
}

/// Extents of a segment on one PV.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExtentsBody {
    /// LVM's name, such as `/dev/sda2`.
    pub pv: String,
    pub extents: u64,
}

impl CopyingBody {
    fn new(copying: &Copying, elapsed_us: u64) -> Option<Self> {
        let per_second = |bytes| per_second(bytes, elapsed_us);
        Some(Self {
            copied_bytes_per_s: per_second(copying.copied_bytes())?,
            cow_written_bytes_per_s: per_second(copying.cow_written)?,
            into_snapshots_bytes_per_s: per_second(copying.into_snapshots)?,
            write_cost: copying.write_cost(),
        })
    }
}

fn layout(volume: &Volume) -> Vec<SegmentBody> {
    let rows = volume
        .layout
        .iter()
        .flat_map(|part| part.segments.iter().map(move |segment| (part, segment)));
    let on = |(pv, extents): &(String, u64)| ExtentsBody {
        pv: pv.clone(),
        extents: *extents,
    };
    rows.map(|(part, segment)| SegmentBody {
        lv: part.lv.clone(),
        kind: segment.kind.clone(),
        stripes: segment.stripes,
        stripe_bytes: segment.stripe_size,
        chunk_bytes: segment.chunk_size,
        extents: segment.extents,
        pvs: segment.pv_extents.iter().map(on).collect(),
    })
    .collect()
}

impl VolumeBody {
    pub fn all(present: &Present) -> Vec<Self> {
        present
            .interval
            .volumes()
            .map(|(volume, state)| Self::new(present, volume, state))
            .collect()
    }

    fn new(present: &Present, volume: &Volume, state: &VolumeState) -> Self {
        let interval = &present.interval;
        let job = present.job_of(volume);
        let device = volume
            .device
            .map(|index| interval.topology.devices[index].name.to_string());
        Self {
            vg: volume.vg.clone(),
            lv: volume.lv.clone(),
            uuid: volume.uuid.to_string(),
            device,
            kind: volume.kind,
            origin: volume.origin.clone(),
            pool: volume.pool.clone(),
            size_bytes: volume.size,
            // The bytes of a pool are unknown without its chunk size.
            used_bytes: state
                .fill
                .filter(|fill| fill.unit > 0)
                .map(Fill::used_bytes),
            fill_percent: state.fill.map(Fill::percent),
            metadata_percent: state.metadata.map(Fill::percent),
            state: state.state,
            invalid_since: job.and_then(|job| job.died_at),
            sync_percent: state.sync.map(Fill::percent),
            when_full: volume.when_full.clone(),
            mounted_on: volume.mounted_on.clone(),
            tags: volume.tags.clone(),
            created_at: volume.created_at,
            copying: interval
                .copying(volume)
                .and_then(|copying| CopyingBody::new(&copying, interval.elapsed_us)),
            pvs: volume.pvs.clone(),
            layout: layout(volume),
            verdict: Verdict::of_volume(present, volume, state),
        }
    }
}
