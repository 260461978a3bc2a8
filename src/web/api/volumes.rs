//! Devices and volumes in the last tick, and how large a snapshot has to be.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::alert::Pace;
use crate::forecast::Eta;
use crate::interval::copying::Copying;
use crate::interval::{DeviceInterval, Interval, Work};
use crate::present::Present;
use crate::quantity::{Quantity, RowKind, per_second};
use crate::sizing::SizeAdvice;
use crate::topology::{Device, DeviceKind, State as WorkingState, Volume, VolumeKind, VolumeState};
use crate::units::Fill;
use crate::verdict::Verdict;
use crate::web::SharedSite;
use crate::web::answer::{ParsedQuery, Problem, ProblemBody};

/// All devices of `/proc/diskstats` in the last tick.
#[utoipa::path(get, path = "/api/v1/devices", tag = "now", responses((status = 200, body = Vec<DeviceBody>)))]
pub async fn devices(State(site): State<SharedSite>) -> Result<Json<Vec<DeviceBody>>, Problem> {
    Ok(Json(DeviceBody::all(&site.present()?.interval)))
}

/// All volumes that `lvs` shows without `-a`.
#[utoipa::path(get, path = "/api/v1/volumes", tag = "now", responses((status = 200, body = Vec<VolumeBody>)))]
pub async fn volumes(State(site): State<SharedSite>) -> Result<Json<Vec<VolumeBody>>, Problem> {
    Ok(Json(VolumeBody::all(&*site.present()?)))
}

/// The query of a size.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SizeQuery {
    /// The bytes of the next snapshot, if they are not those of the last one
    planned: Option<u64>,
}

/// How large a snapshot of this volume has to be, by age and chunk size.
#[utoipa::path(get, path = "/api/v1/volumes/{vg}/{lv}/size", tag = "now",
    params(("vg" = String, Path, description = "The volume group"), ("lv" = String, Path, description = "The volume"), SizeQuery),
    responses((status = 200, body = SizeAdvice), (status = 404, description = "There is no such volume, or nothing is known of its snapshots", body = ProblemBody)))]
pub async fn size(
    State(site): State<SharedSite>,
    Path((vg, lv)): Path<(String, String)>,
    ParsedQuery(query): ParsedQuery<SizeQuery>,
) -> Result<Json<SizeAdvice>, Problem> {
    let present = site.present()?;
    let volume = present.interval.topology.volume(&format!("{vg}/{lv}"));
    let volume = volume.ok_or_else(|| {
        Problem::NotFound(format!(
            "there is no volume {vg}/{lv}; `lvs` lists all volumes"
        ))
    })?;
    if !volume.may_have_snapshots() {
        return Err(Problem::NotFound(format!(
            "{vg}/{lv} is a {}: expected a volume of which snapshots are made",
            volume.kind.text()
        )));
    }
    let advice = present.size_advice(volume, query.planned);
    Ok(Json(advice.ok_or_else(|| {
        let measured = present.measured.get(&volume.uuid).and_then(|measured| measured.now.as_ref());
        let what_to_do = match measured.map(|now| now.is_estimated) {
            Some(false) => {
                "its writes are measured, so wait a few minutes; minutes with discards do not count".into()
            }
            Some(true) => {
                "its writes are measured, and the first estimate takes two hours; hours with discards do not count".into()
            }
            None => format!(
                "wait until one has ended, or measure its writes with `cowbell size {vg}/{lv} --watch on`"
            ),
        };
        Problem::NotFound(format!("nothing is known of snapshots of {vg}/{lv}: {what_to_do}"))
    })?))
}

#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DeviceBody {
    /// The kernel's name, such as `dm-3`.
    pub device: String,
    /// An identity independent of the name: device-mapper UUID, WWID or serial number.
    pub uuid: String,
    /// The displayed name: `vg0/mysql`, `sda · PV of vg0`.
    pub label: String,
    pub kind: DeviceKind,
    pub vg: Option<String>,
    #[serde(flatten)]
    pub values: DeviceValues,
    /// For PVs: the part of the throughput that is COW copying; `null` if the copied volumes span several PVs.
    pub copying: Option<ShareBody>,
    pub model: Option<String>,
    pub rotational: Option<bool>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    pub read_ahead_bytes: Option<u64>,
}

/// What a device did in the last tick, by [`DeviceValues::key`].
#[derive(Clone, Debug, Serialize)]
pub struct DeviceValues(BTreeMap<String, Option<f64>>);

impl DeviceValues {
    fn new(work: &Work, elapsed_us: u64) -> Self {
        let mut values = BTreeMap::new();
        for quantity in RowKind::Device.quantities() {
            values.insert(Self::key(*quantity), quantity.of_work(work, elapsed_us));
        }
        Self(values)
    }

    /// The name of the quantity. That of a rate says so: `read_bytes_per_s`, beside `queue_depth`.
    fn key(quantity: Quantity) -> String {
        let per_s = if quantity.unit().is_rate() {
            "_per_s"
        } else {
            ""
        };
        format!("{}{per_s}", quantity.name())
    }
}

impl ToSchema for DeviceValues {}

impl PartialSchema for DeviceValues {
    fn schema() -> RefOr<Schema> {
        let mut object = ObjectBuilder::new();
        for quantity in RowKind::Device.quantities() {
            let value = ObjectBuilder::new()
                .schema_type(SchemaType::from_iter([Type::Number, Type::Null]))
                .description(Some(quantity.title()));
            object = object.property(Self::key(*quantity), value);
        }
        object.into()
    }
}

/// COW copying of a PV: reads of chunks before they are overwritten, and writes to COW areas.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct ShareBody {
    pub read_bytes_per_s: f64,
    pub written_bytes_per_s: f64,
}

impl DeviceBody {
    pub fn all(interval: &Interval) -> Vec<Self> {
        let devices = interval.topology.devices.iter().zip(&interval.devices);
        devices
            .map(|(device, done)| Self::new(interval, device, done))
            .collect()
    }

    fn new(interval: &Interval, device: &Device, done: &DeviceInterval) -> Self {
        let per_second = |bytes| per_second(bytes, interval.elapsed_us);
        let share = device.is_pv.then(|| interval.share(device)).flatten();
        Self {
            device: device.name.to_string(),
            uuid: device.identity.to_string(),
            label: device.label.clone(),
            kind: device.kind,
            vg: device.vg.clone(),
            values: DeviceValues::new(&done.work, interval.elapsed_us),
            copying: share.and_then(|share| {
                Some(ShareBody {
                    read_bytes_per_s: per_second(share.read)?,
                    written_bytes_per_s: per_second(share.written)?,
                })
            }),
            model: device.model.clone(),
            rotational: device.rotational,
            scheduler: device.scheduler.clone(),
            read_ahead_bytes: device.read_ahead_kib.map(|kib| kib * 1024),
        }
    }
}

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
    /// Of alerts about the fill; `null` for what has none, or if they are off.
    pub thresholds: Option<ThresholdsBody>,
    pub metadata_percent: Option<f64>,
    /// `null` unless it grows, or did so in the last five minutes.
    pub growth: Option<GrowthBody>,
    pub state: WorkingState,
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

/// In percent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct ThresholdsBody {
    pub warning: f64,
    pub critical: f64,
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

/// How fast a snapshot or pool fills.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GrowthBody {
    /// The mean until it is full as forecast. Without a forecast, that of the last 10 to 20 seconds.
    pub bytes_per_s: f64,
    pub full: Option<Eta>,
    /// Why there is no forecast, such as `growth stopped`.
    pub why_not: Option<String>,
}

impl GrowthBody {
    fn new(pace: &Pace) -> Self {
        Self {
            bytes_per_s: pace.bytes_per_s,
            full: pace.full,
            why_not: pace.full.is_none().then(|| pace.why_not.into()),
        }
    }
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
        let interval = &present.interval;
        // Computed once for an origin with all its snapshots.
        let mut copying_by_origin = HashMap::new();
        let mut bodies = Vec::with_capacity(interval.volumes.len());
        for (volume, state) in interval.volumes() {
            let copying = interval.copied_origin(volume).and_then(|origin| {
                let copying = copying_by_origin.entry(&origin.uuid);
                *copying.or_insert_with(|| interval.copying(origin))
            });
            bodies.push(Self::new(present, volume, state, copying));
        }
        bodies
    }

    fn new(
        present: &Present,
        volume: &Volume,
        state: &VolumeState,
        copying: Option<Copying>,
    ) -> Self {
        let interval = &present.interval;
        let job = present.job_of(volume);
        let device = volume
            .device
            .map(|index| interval.topology.devices[index].name.to_string());
        let rule = volume.kind.fill_rule();
        let thresholds = rule.and_then(|rule| present.thresholds.of(rule, &volume.vg, &volume.lv));
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
            thresholds: thresholds.map(|it| ThresholdsBody {
                warning: it.warning,
                critical: it.critical,
            }),
            metadata_percent: state.metadata.map(Fill::percent),
            growth: present.paces.get(&volume.uuid).map(GrowthBody::new),
            state: state.state,
            invalid_since: job.and_then(|job| job.died_at),
            sync_percent: state.sync.map(Fill::percent),
            when_full: volume.when_full.clone(),
            mounted_on: volume.mounted_on.clone(),
            tags: volume.tags.clone(),
            created_at: volume.created_at,
            copying: copying.and_then(|copying| CopyingBody::new(&copying, interval.elapsed_us)),
            pvs: volume.pvs.clone(),
            layout: layout(volume),
            verdict: Verdict::of_volume(present, volume, state),
        }
    }
}
