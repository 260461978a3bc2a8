//! Layers, identities and names: what each device is, which LVM volume it belongs to, and which bytes count once.
//!
//! A `Topology` is made anew when names, layers or LVM's report change, and holds for as long as they do not.

mod devices;
mod kind;
mod layout;
mod lvm_name;
mod states;
mod volumes;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::sample::Sample;
use crate::sample::diskstats::Number;
use crate::sample::lvm::Segment;
use crate::units::{Fill, Sectors};
pub use kind::VolumeKind;

/// Everything about this machine's devices that is not a counter.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// In the order of `/proc/diskstats`.
    pub devices: Vec<Device>,
    pub groups: Vec<Group>,
    /// Every volume that `lvs` without `-a` shows, in the order of group and name.
    pub volumes: Vec<Volume>,
}

/// A row of `/proc/diskstats`.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub number: Number,
    /// The kernel's name, such as `dm-3`.
    pub name: Arc<str>,
    /// What stays when number and name change: the device-mapper's UUID, WWID or serial number, else the name.
    pub identity: Arc<str>,
    /// Another number each time that the device is made, also under the same identity; `None` where nobody knows.
    pub life: Option<u64>,
    /// What a person calls it: `vg0/mysql`, `PV of vg0`, else the kernel's name.
    pub label: String,
    pub kind: DeviceKind,
    /// The volume group that it is a PV of or belongs to.
    pub vg: Option<String>,
    pub is_pv: bool,
    /// The kernel's names of the devices that it lies on.
    pub slaves: Vec<String>,
    pub size: Option<Sectors>,
    pub model: Option<String>,
    /// Of a disk: whether its heads must move, its I/O scheduler, and how far it reads ahead. A partition is as its disk.
    pub rotational: Option<bool>,
    pub scheduler: Option<String>,
    pub read_ahead_kib: Option<u64>,
    /// Whether its bytes are part of the host's total, in which each byte counts once.
    pub counts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    Disk,
    Partition,
    Loop,
    Md,
    Dm,
    Zram,
    Other,
}

/// A volume group. Sizes in bytes, `None` where only LVM's report would tell and there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub name: String,
    pub size: Option<u64>,
    pub free: Option<u64>,
    pub extent: Option<u64>,
    pub missing_pvs: u32,
    /// What is kept for repairing the metadata of its pools, in bytes; hidden, and nothing is ever written to it.
    pub spare: Option<u64>,
    pub tags: Vec<String>,
    /// The kernel's names of its PVs.
    pub pvs: Vec<String>,
}

/// A logical volume that people see.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    pub vg: String,
    pub lv: String,
    /// As `lvs -o lv_uuid` writes it.
    pub uuid: Arc<str>,
    /// Its device in [`Topology::devices`]; `None` while it is inactive.
    pub device: Option<usize>,
    pub kind: VolumeKind,
    /// The bare name of the volume that it is a snapshot of.
    pub origin: Option<String>,
    /// The bare name of the thin pool that it lives in.
    pub pool: Option<String>,
    pub size: Option<u64>,
    pub created_at: Option<Timestamp>,
    /// The kernel's names of the PVs that its own data lies on.
    pub pvs: Vec<String>,
    /// What LVM's report says about its health, where it says anything.
    pub health: Option<String>,
    pub tags: Vec<String>,
    /// What a full pool does with writes: `queue` or `error`.
    pub when_full: Option<String>,
    /// Its own segments, then those of its hidden parts; empty without LVM's report.
    pub layout: Vec<Part>,
    /// Of an origin of thick snapshots: the device below it that holds its data.
    pub real: Option<usize>,
    /// Of a thick snapshot: the device of its COW area.
    pub cow: Option<usize>,
    /// Where its device is mounted; `None` where mounts cannot be read.
    pub mounted_on: Option<Vec<String>>,
}

/// A volume, or a hidden part of one, as it is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The bare name, such as `pool_tdata`.
    pub lv: String,
    pub segments: Vec<Segment>,
}

impl Volume {
    /// `vg0/mysql`
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.vg, self.lv)
    }

    /// Whether it is a snapshot of another volume, thick or thin.
    pub fn is_snapshot(&self) -> bool {
        self.kind == VolumeKind::Snapshot || self.kind == VolumeKind::ThinSnapshot
    }
}

/// How a volume is at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeState {
    /// What `lvs` calls data: COW area, pool data, mapped part. `None` where it has none or nobody knows.
    pub fill: Option<Fill>,
    pub metadata: Option<Fill>,
    /// Of a mirror or RAID: how much of it is in step.
    pub sync: Option<Fill>,
    pub state: State,
}

impl VolumeState {
    fn only(state: State) -> Self {
        Self { fill: None, metadata: None, sync: None, state }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Ok,
    Inactive,
    Suspended,
    /// A snapshot that overflowed, or whose COW area could not be read or written. It is dead.
    Invalid,
    Merging,
    MergeFailed,
    ReadOnly,
    OutOfData,
    NeedsCheck,
    Failed,
    Unknown,
    /// A mirror or RAID with a dead leg.
    Degraded,
}

impl State {
    /// In the order in which the store numbers them: a new one comes last.
    pub const ALL: [Self; 12] = [
        Self::Ok,
        Self::Inactive,
        Self::Suspended,
        Self::Invalid,
        Self::Merging,
        Self::MergeFailed,
        Self::ReadOnly,
        Self::OutOfData,
        Self::NeedsCheck,
        Self::Failed,
        Self::Unknown,
        Self::Degraded,
    ];

    /// Whether data is lost or about to be.
    pub fn is_bad(self) -> bool {
        !matches!(self, Self::Ok | Self::Inactive | Self::Suspended | Self::Merging | Self::Unknown)
    }

    /// As it is written for people, and in the API.
    pub fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Inactive => "inactive",
            Self::Suspended => "suspended",
            Self::Invalid => "invalid",
            Self::Merging => "merging",
            Self::MergeFailed => "merge failed",
            Self::ReadOnly => "read only",
            Self::OutOfData => "out of data",
            Self::NeedsCheck => "needs check",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Degraded => "degraded",
        }
    }
}

impl Topology {
    /// Whether `sample` can be told of by the topology that was made for `before`.
    pub fn still_holds(before: &Sample, sample: &Sample) -> bool {
        Arc::ptr_eq(&before.names, &sample.names)
            && before.report.as_ref().map(Arc::as_ptr) == sample.report.as_ref().map(Arc::as_ptr)
            && before.mounts.as_ref().map(Arc::as_ptr) == sample.mounts.as_ref().map(Arc::as_ptr)
            && same_devices(before, sample)
            && Arc::ptr_eq(&before.dm_identities, &sample.dm_identities)
    }

    /// Makes the topology of a sample.
    pub fn of(sample: &Sample) -> Self {
        let lines = sample.devices.as_deref().unwrap_or_default();
        let mut devices = devices::of(lines, &sample.names, &sample.dm_identities);
        let lvm = volumes::Lvm::new(&devices, sample);
        let (groups, volumes) = (lvm.groups(), lvm.volumes());
        devices::name_by_lvm(&mut devices, &groups, &volumes);
        Self { devices, groups, volumes }
    }

    /// How each volume is, in the order of [`Topology::volumes`], by the device-mapper's word in `sample`, else LVM's.
    pub fn volume_states(&self, sample: &Sample) -> Vec<VolumeState> {
        let words = states::Words::of(sample);
        self.volumes.iter().map(|volume| words.state_of(self, volume)).collect()
    }

    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The device of this kernel name, label or identity.
    pub fn device(&self, name: &str) -> Option<&Device> {
        let is_named = |device: &&Device| *device.name == *name || *device.identity == *name;
        self.devices.iter().find(is_named).or_else(|| self.devices.iter().find(|device| device.label == name))
    }

    /// The volume of this `vg/lv` or UUID, with dashes or without.
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        self.volumes.iter().find(|volume| *volume.uuid == *name || volume.full_name() == name)
    }
}

fn same_devices(before: &Sample, sample: &Sample) -> bool {
    match (&before.devices, &sample.devices) {
        (Some(before), Some(now)) => {
            before.len() == now.len()
                && before.iter().zip(now).all(|(a, b)| a.number == b.number && a.name == b.name)
        }
        (None, None) => true,
        _ => false,
    }
}
