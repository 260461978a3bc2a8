//! The layers, identities, names and LVM volumes of devices, and which bytes count once. A `Topology` is rebuilt only
//! if names, layers, mounts or LVM's report change.

mod devices;
mod kind;
pub mod lvm_name;
mod state;
mod states;
mod volumes;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::sample::Sample;
use crate::sample::diskstats::Number;
use crate::sample::lvm::{Autoextend, Policies, Segment};
use crate::units::{Fill, Sectors};
pub use kind::VolumeKind;
pub use state::State;

/// LVM's default.
const DEFAULT_EXTENT: u64 = 4 << 20;

/// The group of snapshots that another program than LVM created, so that their names are those below `/dev`. LVM gives no
/// group this name.
pub const OUTSIDE_LVM: &str = "mapper";

/// All properties of this machine's devices except counters.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// In the order of `/proc/diskstats`.
    pub devices: Vec<Device>,
    pub groups: Vec<Group>,
    /// The volumes that `lvs` shows without `-a`, sorted by group and name.
    pub volumes: Vec<Volume>,
    devices_by_name: HashMap<Arc<str>, usize>,
    volumes_by_name: HashMap<Arc<str>, usize>,
    /// The thick snapshots of each origin.
    snapshots: HashMap<usize, Vec<usize>>,
}

/// A row of `/proc/diskstats`.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    pub number: Number,
    /// The kernel's name, such as `dm-3`.
    pub name: Arc<str>,
    /// Survives changes of number and name: device-mapper UUID, WWID or serial number, otherwise the name.
    pub identity: Arc<str>,
    /// Changes when a device is recreated with the same identity; `None` if unknown.
    pub generation: Option<u64>,
    /// For display: `vg0/mysql`, `sda · PV of vg0`, otherwise the kernel's name.
    pub label: String,
    pub kind: DeviceKind,
    /// The volume group that it is a PV of or that its volume belongs to.
    pub vg: Option<String>,
    /// For a device of LVM, the volume that it is or belongs to.
    pub lv: Option<LvDevice>,
    pub is_pv: bool,
    /// Kernel names of the devices below.
    pub slaves: Vec<String>,
    /// For a disk of native NVMe multipath, and its partitions, the hidden paths that may count its I/O.
    pub paths: Vec<String>,
    pub size: Option<Sectors>,
    pub model: Option<String>,
    /// Queue attributes of a disk; a partition has those of its disk.
    pub rotational: Option<bool>,
    pub scheduler: Option<String>,
    pub read_ahead_kib: Option<u64>,
    /// Logical, in bytes.
    pub block_size: Option<u64>,
    /// Whether it is part of the host's total, which counts each byte once.
    pub counts: bool,
}

/// A logical volume, or a hidden layer of one.
#[derive(Clone, Debug, PartialEq)]
pub struct LvDevice {
    /// The name without group, such as `mysql` or `pool_tdata`.
    pub name: String,
    /// As printed by `lvs -a -o lv_uuid`.
    pub uuid: Arc<str>,
    /// `real`, `cow`, `tpool`…; `None` for the volume itself.
    pub layer: Option<String>,
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

impl DeviceKind {
    pub fn text(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Partition => "partition",
            Self::Loop => "loop device",
            Self::Md => "md array",
            Self::Dm => "device-mapper device",
            Self::Zram => "compressed memory",
            Self::Other => "device",
        }
    }
}

/// A volume group. Sizes are in bytes, and `None` without LVM's report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub name: String,
    pub size: Option<u64>,
    pub free: Option<u64>,
    pub extent: Option<u64>,
    pub missing_pvs: u32,
    /// Whether a missing PV has a part of a volume.
    pub misses_data: bool,
    /// The missing PVs that are there again. LVM changed the group without them, and does not use them by itself.
    pub returned_pvs: Vec<String>,
    /// A device below an active volume that LVM does not see, if PVs are missing.
    pub hidden_pv: Option<String>,
    /// The PVs that LVM may allocate from.
    pub room: Vec<PvRoom>,
    /// A PV with free space that LVM may not allocate from.
    pub not_allocatable: Option<String>,
    /// The largest PV that belongs to no group and that LVM would add to this one.
    pub free_pv: Option<String>,
    /// The letter of its allocation policy, as in `vg_attr`.
    pub allocation: Option<char>,
    /// The UUID of another group of this name.
    pub namesake: Option<String>,
    /// Whether that one lies inside a guest's disk.
    pub namesake_is_in_guest: bool,
    /// A PV of it, and another device with the same PV.
    pub twin: Option<[String; 2]>,
    /// Whether its volumes are active although LVM's report lacks it.
    pub is_unreported: bool,
    pub is_exported: bool,
    /// The host that it belongs to, by its system ID, if that is another one.
    pub foreign: Option<String>,
    pub is_shared: bool,
    /// Whether LVM may not change its metadata, by its permission or by `lvm.conf`.
    pub is_read_only: bool,
    /// Whether LVM refuses to add PVs.
    pub is_fixed: bool,
    /// Whether it has as many PVs as it may have.
    pub is_at_max_pvs: bool,
    /// As many volumes as it may have, if it has them.
    pub max_volumes: Option<u64>,
    /// What is to be done so that LVM can archive its metadata, which it does before each change. Without a full stop.
    pub archive_fault: Option<String>,
    /// Size of the hidden spare volume for repairing pool metadata, in bytes. It is never written to.
    pub spare: Option<u64>,
    pub tags: Vec<String>,
    /// Kernel names of its PVs.
    pub pvs: Vec<String>,
}

/// The free space of a PV.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PvRoom {
    /// `/dev/sdb`
    pub path: String,
    /// The kernel's name, as in [`Volume::pvs`].
    pub device: Option<String>,
    pub free: u64,
}

/// A visible logical volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volume {
    pub vg: String,
    pub lv: String,
    /// As printed by `lvs -o lv_uuid`.
    pub uuid: Arc<str>,
    /// Its index in [`Topology::devices`]; `None` while it is inactive.
    pub device: Option<usize>,
    pub kind: VolumeKind,
    /// For a snapshot, the name of its origin.
    pub origin: Option<String>,
    /// For a thin volume, the name of its pool.
    pub pool: Option<String>,
    pub size: Option<u64>,
    pub created_at: Option<Timestamp>,
    /// Kernel names of the PVs with its own data.
    pub pvs: Vec<String>,
    /// Health from LVM's report, unless empty.
    pub health: Option<String>,
    /// The leg of a RAID that `lvconvert --splitmirrors --trackchanges` has split off until it is merged.
    pub split_leg: Option<String>,
    /// Whether it waits to be merged into its origin, or is being merged.
    pub is_merging: bool,
    /// Whether one of its snapshots is.
    pub is_merged_into: bool,
    /// Whether a pvmove moves it.
    pub is_locked: bool,
    /// Whether a process, a mount or a device had it open at LVM's last report.
    pub is_open: bool,
    pub tags: Vec<String>,
    /// What a full pool does with writes: `queue` or `error`.
    pub when_full: Option<String>,
    /// Its own segments and those of its hidden parts; empty without LVM's report.
    pub layout: Vec<LvLayout>,
    /// For a thin pool, what its metadata profile says in place of `lvm.conf`.
    pub profile: Option<Autoextend>,
    /// For an origin of thick snapshots, the device below it with its data (`-real`).
    pub real: Option<usize>,
    /// For a thick snapshot, its COW area's device (`-cow`).
    pub cow: Option<usize>,
    /// The devices that lie on it and show its data, such as LUKS, or partitions by `kpartx`.
    pub on_top: Vec<usize>,
    /// Its mount points, and those of the devices on top; `None` if mounts cannot be read.
    pub mounted_on: Option<Vec<String>>,
    /// The mount points of other devices in these, or over them, the latest first.
    pub mounts_inside: Vec<String>,
}

/// The segments of a volume or of one of its hidden parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LvLayout {
    /// The name without group, such as `pool_tdata`.
    pub lv: String,
    /// The letter of its allocation policy, as in `lv_attr`.
    pub allocation: Option<char>,
    pub segments: Vec<Segment>,
}

impl LvLayout {
    pub fn extents(&self) -> u64 {
        self.segments.iter().map(|segment| segment.extents).sum()
    }
}

impl Group {
    /// Whether a PV is there that would give it more space.
    pub fn can_grow(&self) -> bool {
        self.not_allocatable.is_some() || self.free_pv.is_some()
    }

    /// LVM's default if unknown.
    pub fn extent_bytes(&self) -> u64 {
        extent_of(Some(self))
    }
}

/// The size of an extent in bytes; LVM's default if unknown.
pub fn extent_of(group: Option<&Group>) -> u64 {
    let extent = group.and_then(|group| group.extent);
    extent
        .filter(|extent| *extent > 0)
        .unwrap_or(DEFAULT_EXTENT)
}

impl Volume {
    /// `vg0/mysql`
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.vg, self.lv)
    }

    /// What writes to the volumes of a full pool do: `error_if_no_space` or `queue_if_no_space` in the kernel.
    pub fn writes_when_full(&self) -> &'static str {
        match self.when_full.as_deref() {
            Some("error") => "fail",
            _ => "wait for a minute, then fail",
        }
    }

    /// When LVM extends it by itself; `None` if it never does.
    pub fn autoextend(&self, policies: &Policies) -> Option<Autoextend> {
        match self.kind {
            VolumeKind::Snapshot => Some(policies.snapshot),
            VolumeKind::ThinPool => Some(policies.of_pool(self.profile)),
            _ => None,
        }
    }

    /// Whether dmeventd monitors it; `None` if unknown.
    pub fn is_monitored(&self) -> Option<bool> {
        let mut segments = self.layout.first()?.segments.iter();
        segments.find_map(|segment| segment.monitored)
    }

    /// Whether it is a volume of which snapshots are made.
    pub fn may_have_snapshots(&self) -> bool {
        self.kind.can_have_snapshots()
    }

    /// Whether LVM misses a PV with a part of it.
    pub fn is_partial(&self) -> bool {
        self.health.as_deref() == Some("partial")
    }

    /// Whether it is striped over PVs without redundancy, as LVM reports.
    fn is_raid0(&self) -> bool {
        let segments = self.layout.iter().flat_map(|part| &part.segments);
        segments
            .clone()
            .any(|segment| segment.kind.starts_with("raid0"))
    }

    /// Whether it is a thick or thin snapshot.
    pub fn is_snapshot(&self) -> bool {
        self.kind.is_snapshot()
    }
}

/// The state of a volume at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeState {
    /// `lvs`'s Data%: COW area, pool data or mapped part. `None` if unknown or not applicable.
    pub fill: Option<Fill>,
    pub metadata: Option<Fill>,
    /// `lvs`'s Cpy%Sync: sync progress of a mirror or RAID.
    pub sync: Option<Fill>,
    pub state: State,
    /// The device below that the state is of, as an index in [`Topology::devices`].
    pub below: Option<usize>,
}

impl VolumeState {
    pub fn only(state: State) -> Self {
        Self {
            fill: None,
            metadata: None,
            sync: None,
            state,
            below: None,
        }
    }
}

impl Topology {
    /// Whether the topology of `before` is valid for `sample`.
    pub fn is_unchanged(before: &Sample, sample: &Sample) -> bool {
        Arc::ptr_eq(&before.slow.names, &sample.slow.names)
            && before.slow.report.as_ref().map(Arc::as_ptr)
                == sample.slow.report.as_ref().map(Arc::as_ptr)
            && Arc::ptr_eq(&before.slow.reported_names, &sample.slow.reported_names)
            && before.slow.mounts.as_ref().map(Arc::as_ptr)
                == sample.slow.mounts.as_ref().map(Arc::as_ptr)
            && device_names(before).eq(device_names(sample))
            && Arc::ptr_eq(&before.slow.dm_identities, &sample.slow.dm_identities)
    }

    /// Builds the topology of a sample.
    pub fn of(sample: &Sample) -> Self {
        let lines = sample.devices.as_deref().unwrap_or_default();
        let mut devices = devices::of(lines, &sample.slow.names, &sample.slow.dm_identities);
        let lvm = volumes::LvmInputs::new(&devices, sample);
        let (groups, volumes) = (lvm.groups(), lvm.volumes());
        devices::label_by_lvm(&mut devices, &groups, &volumes);
        Self::new(devices, groups, volumes)
    }

    pub fn new(devices: Vec<Device>, groups: Vec<Group>, volumes: Vec<Volume>) -> Self {
        let mut topology = Self {
            devices_by_name: devices_by_name(&devices),
            volumes_by_name: volumes_by_name(&volumes),
            devices,
            groups,
            volumes,
            snapshots: HashMap::new(),
        };
        topology.snapshots = topology.snapshots_by_origin();
        topology
    }

    fn snapshots_by_origin(&self) -> HashMap<usize, Vec<usize>> {
        let mut snapshots: HashMap<usize, Vec<usize>> = HashMap::new();
        for (index, volume) in self.volumes.iter().enumerate() {
            if volume.kind.is_thick_snapshot()
                && let Some(origin) = self.origin_of(volume)
                && let Some(origin) = self.volume_index(&origin.full_name())
            {
                snapshots.entry(origin).or_default().push(index);
            }
        }
        snapshots
    }

    /// The state of each volume, in the order of [`Topology::volumes`], from the device-mapper or else from LVM.
    pub fn volume_states(&self, sample: &Sample) -> Vec<VolumeState> {
        let words = states::StateSources::of(self, sample);
        self.volumes
            .iter()
            .map(|volume| words.state_of(self, volume))
            .collect()
    }

    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Finds a device by identity, kernel name or label, in this order.
    pub fn device(&self, name: &str) -> Option<&Device> {
        Some(&self.devices[self.device_index(name)?])
    }

    pub fn device_index(&self, name: &str) -> Option<usize> {
        self.devices_by_name.get(name).copied()
    }

    /// The pool of a thin volume.
    pub fn pool_of(&self, volume: &Volume) -> Option<&Volume> {
        self.neighbour(volume, volume.pool.as_deref()?)
    }

    /// The origin of a snapshot.
    pub fn origin_of(&self, snapshot: &Volume) -> Option<&Volume> {
        self.neighbour(snapshot, snapshot.origin.as_deref()?)
    }

    pub fn thick_snapshots<'a>(&'a self, origin: &'a Volume) -> impl Iterator<Item = &'a Volume> {
        let index = self.volume_index(&origin.full_name());
        let snapshots = index.and_then(|index| self.snapshots.get(&index));
        let snapshots = snapshots.into_iter().flatten();
        snapshots.map(|index| &self.volumes[*index])
    }

    /// Another volume of the same group.
    fn neighbour(&self, volume: &Volume, lv: &str) -> Option<&Volume> {
        self.volume(&format!("{}/{lv}", volume.vg))
    }

    /// Finds a volume by `vg/lv` or UUID.
    pub fn volume(&self, name: &str) -> Option<&Volume> {
        Some(&self.volumes[self.volume_index(name)?])
    }

    pub fn volume_index(&self, name: &str) -> Option<usize> {
        self.volumes_by_name.get(name).copied()
    }
}

/// If several devices share a name, an identity goes before a kernel name, that before a label, and the first device
/// before others.
fn devices_by_name(devices: &[Device]) -> HashMap<Arc<str>, usize> {
    let mut by_name = HashMap::new();
    for (index, device) in devices.iter().enumerate() {
        by_name.entry(Arc::clone(&device.identity)).or_insert(index);
    }
    for (index, device) in devices.iter().enumerate() {
        by_name.entry(Arc::clone(&device.name)).or_insert(index);
    }
    for (index, device) in devices.iter().enumerate() {
        by_name.entry(device.label.as_str().into()).or_insert(index);
    }
    by_name
}

fn volumes_by_name(volumes: &[Volume]) -> HashMap<Arc<str>, usize> {
    let mut by_name = HashMap::new();
    for (index, volume) in volumes.iter().enumerate() {
        by_name.entry(Arc::clone(&volume.uuid)).or_insert(index);
        by_name.entry(volume.full_name().into()).or_insert(index);
    }
    by_name
}

fn device_names(sample: &Sample) -> impl Iterator<Item = (Number, &String)> {
    sample
        .devices
        .iter()
        .flatten()
        .map(|line| (line.number, &line.name))
}
