//! A volume's line: what it is, how full, how it is laid out, and what its snapshots cost.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::interval::copying::Copying;
use crate::present::Present;
use crate::series::Observation;
use crate::topology::{State, Volume, VolumeKind, VolumeState};
use crate::units::Fill;

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VolumeBody {
    pub vg: String,
    pub lv: String,
    /// As `lvs -o lv_uuid` writes it.
    pub uuid: String,
    /// The kernel's name; `null` while the volume is inactive.
    pub device: Option<String>,
    pub kind: VolumeKind,
    /// The bare name of the volume that this is a snapshot of.
    pub origin: Option<String>,
    pub pool: Option<String>,
    pub size_bytes: Option<u64>,
    pub used_bytes: Option<u64>,
    /// As `data_percent` of `lvs`; `null` where that is blank, and for an invalid snapshot.
    pub fill_percent: Option<f64>,
    pub metadata_percent: Option<f64>,
    pub state: State,
    /// When a snapshot was seen to be invalid.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub invalid_since: Option<Timestamp>,
    /// As `copy_percent` of `lvs`: how much of a mirror or RAID is in step.
    pub sync_percent: Option<f64>,
    /// What a full pool does with writes: `queue` or `error`.
    pub when_full: Option<String>,
    /// Folders on which it is mounted; `null` where mounts cannot be read.
    pub mounted_on: Option<Vec<String>>,
    pub tags: Vec<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub created_at: Option<Timestamp>,
    /// Of an origin of thick snapshots, and of those: what the snapshots cost at the moment.
    pub copying: Option<CopyingBody>,
    /// The kernel's names of the PVs that its data lies on.
    pub pvs: Vec<String>,
    /// As `lvs -a --segments` has it: its own segments, then those of its hidden parts. Empty without LVM's report.
    pub layout: Vec<SegmentBody>,
}

/// What the thick snapshots of one origin cost at the moment.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct CopyingBody {
    /// Copied from the origin into COW areas.
    pub copied_bytes_per_s: f64,
    /// Written to COW areas: copies, the snapshots' metadata, and what is written into the snapshots.
    pub cow_written_bytes_per_s: f64,
    /// Of that, what is written into the snapshots themselves.
    pub into_snapshots_bytes_per_s: f64,
    /// Bytes written to disks for each byte written to the origin; `null` while nothing is written to it.
    pub write_cost: Option<f64>,
}

/// One segment of a volume, or of a hidden part of it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SegmentBody {
    pub lv: String,
    /// LVM's word, such as `linear`, `striped` or `thin-pool`.
    #[serde(rename = "type")]
    pub kind: String,
    pub stripes: Option<u32>,
    pub stripe_bytes: Option<u64>,
    pub chunk_bytes: Option<u64>,
    pub extents: u64,
    pub pvs: Vec<ExtentsBody>,
}

/// How many extents of a segment lie on one PV.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExtentsBody {
    /// As LVM names it, such as `/dev/sda2`.
    pub pv: String,
    pub extents: u64,
}

impl CopyingBody {
    fn new(copying: &Copying, elapsed_us: u64) -> Option<Self> {
        let per_second = |bytes: u64| Some(Observation::per_second(bytes, elapsed_us, 1.0)?.value());
        Some(Self {
            copied_bytes_per_s: per_second(copying.copied_bytes())?,
            cow_written_bytes_per_s: per_second(copying.cow_written)?,
            into_snapshots_bytes_per_s: per_second(copying.into_snapshots)?,
            write_cost: copying.write_cost(),
        })
    }
}

fn layout(volume: &Volume) -> Vec<SegmentBody> {
    let rows = volume.layout.iter().flat_map(|part| part.segments.iter().map(move |segment| (part, segment)));
    rows.map(|(part, segment)| SegmentBody {
        lv: part.lv.clone(),
        kind: segment.kind.clone(),
        stripes: segment.stripes,
        stripe_bytes: segment.stripe_size,
        chunk_bytes: segment.chunk_size,
        extents: segment.extents,
        pvs: segment
            .pv_extents
            .iter()
            .map(|(pv, extents)| ExtentsBody { pv: pv.clone(), extents: *extents })
            .collect(),
    })
    .collect()
}

impl VolumeBody {
    pub fn all(present: &Present) -> Vec<Self> {
        present.interval.volumes().map(|(volume, state)| Self::new(present, volume, state)).collect()
    }

    fn new(present: &Present, volume: &Volume, state: &VolumeState) -> Self {
        let interval = &present.interval;
        let job = present.job_of(volume);
        let device = volume.device.map(|index| interval.topology.devices[index].name.to_string());
        Self {
            vg: volume.vg.clone(),
            lv: volume.lv.clone(),
            uuid: volume.uuid.to_string(),
            device,
            kind: volume.kind,
            origin: volume.origin.clone(),
            pool: volume.pool.clone(),
            size_bytes: volume.size,
            // Without the length of a pool's chunk its bytes are not known.
            used_bytes: state.fill.filter(|fill| fill.unit > 0).map(Fill::used_bytes),
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
        }
    }
}
