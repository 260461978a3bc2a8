//! Volumes and groups. Active volumes come from the device-mapper's layers, so they appear within one tick. LVM's
//! report adds inactive volumes, thin origins, free space and creation times.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::lvm_name::{self, DmUuid};
use super::{Device, Group, LvLayout, OUTSIDE_LVM, PvRoom, Volume, VolumeKind, kind};
use crate::sample::diskstats::Number;
use crate::sample::mounts::{self, Mount};
use crate::sample::{Sample, lvm};
use crate::units::{Sectors, natural_key};

/// What LVM keeps of a new PV for itself: the alignment of its first extent, in bytes.
const PV_METADATA: u64 = 1 << 20;

/// The devices of one LV by layer; `""` is the volume itself.
type Layers<'a> = BTreeMap<&'a str, usize>;

/// The inputs of a topology.
pub struct LvmInputs<'a> {
    devices: &'a [Device],
    by_name: HashMap<&'a str, usize>,
    /// The devices that lie on a device.
    above: HashMap<&'a str, Vec<usize>>,
    targets: HashMap<Number, &'a str>,
    report: Option<&'a lvm::Report>,
    /// The groups of LVM's report, but for those inside guests' disks: their volumes do not exist on this host.
    groups: Vec<&'a lvm::ReportedGroup>,
    /// The UUIDs of groups with active volumes, without dashes, and their names.
    active_groups: BTreeMap<&'a str, &'a str>,
    /// Names of groups by UUID without dashes.
    names: HashMap<String, String>,
    /// UUIDs without dashes of the groups that were active when LVM answered.
    asked: HashSet<&'a str>,
    metadata_is_read_only: bool,
    system_id: Option<&'a str>,
    mounts: Option<&'a [Mount]>,
    /// Layers by volume UUID without dashes.
    active: BTreeMap<&'a str, Layers<'a>>,
}

impl<'a> LvmInputs<'a> {
    pub fn new(devices: &'a [Device], sample: &'a Sample) -> Self {
        let mut active: BTreeMap<&str, Layers> = BTreeMap::new();
        let mut above: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut active_groups = BTreeMap::new();
        for (index, device) in devices.iter().enumerate() {
            for below in &device.slaves {
                above.entry(below).or_default().push(index);
            }
            if let Some(uuid) = DmUuid::parse(&device.identity) {
                active_groups.insert(uuid.group, device.vg.as_deref().unwrap_or_default());
                active
                    .entry(uuid.volume)
                    .or_default()
                    .insert(uuid.layer.unwrap_or_default(), index);
            }
        }
        let report = sample.slow.report.as_deref();
        let mut inputs = Self {
            devices,
            by_name: devices
                .iter()
                .enumerate()
                .map(|(index, device)| (&*device.name, index))
                .collect(),
            above,
            targets: sample
                .slow
                .dm_identities
                .iter()
                .filter_map(|identity| Some((identity.number, identity.kind()?)))
                .collect(),
            report,
            groups: Vec::new(),
            active_groups,
            names: HashMap::new(),
            asked: (sample.slow.reported_names.iter())
                .filter_map(|device| DmUuid::parse(device.dm_uuid.as_deref()?))
                .map(|uuid| uuid.group)
                .collect(),
            metadata_is_read_only: (sample.slow.policies)
                .is_some_and(|policies| policies.metadata_is_read_only),
            system_id: sample.slow.system_id.as_deref(),
            mounts: sample.slow.mounts.as_deref().map(Vec::as_slice),
            active,
        };
        let groups = report.iter().flat_map(|report| &report.groups);
        inputs.groups = groups.filter(|group| !inputs.is_in_guest(group)).collect();
        inputs.names = inputs.names();
        inputs
    }

    /// Whether a group lies inside a guest's disk: on volumes of other groups, and none of its own is active here.
    fn is_in_guest(&self, group: &lvm::ReportedGroup) -> bool {
        let mut pvs = group.pvs.iter().filter(|pv| pv.number.is_some()).peekable();
        let lies_on_volume = |pv: &lvm::Pv| {
            let mut devices = self.devices.iter();
            let device = devices.find(|device| Some(device.number) == pv.number);
            device.is_some_and(|device| self.is_on_volume(device))
        };
        !self.is_active(group) && pvs.peek().is_some() && pvs.all(lies_on_volume)
    }

    fn is_active(&self, group: &lvm::ReportedGroup) -> bool {
        self.active_groups.contains_key(&*plain(&group.uuid))
    }

    fn is_on_volume(&self, device: &Device) -> bool {
        let mut seen = HashSet::new();
        let mut next = vec![device];
        while let Some(device) = next.pop() {
            if DmUuid::parse(&device.identity).is_some() {
                return true;
            }
            if seen.insert(&*device.name) {
                next.extend(self.slaves(device).map(|index| &self.devices[index]));
            }
        }
        false
    }

    /// Of groups that share a name, the first with active volumes has it; others have a part of their UUID appended with
    /// an @, which LVM allows in no name. The device-mapper knows a new name before LVM's report does.
    fn names(&self) -> HashMap<String, String> {
        let mut uuids: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (uuid, name) in &self.active_groups {
            uuids.entry(name).or_default().push((*uuid).into());
        }
        for group in self.groups.iter().filter(|group| !self.is_active(group)) {
            let all = uuids.entry(&group.name).or_default();
            all.push(plain(&group.uuid));
        }
        let mut names = HashMap::new();
        for (name, uuids) in uuids {
            for (place, uuid) in uuids.into_iter().enumerate() {
                let unique = match uuid.get(..6) {
                    Some(start) if place > 0 => format!("{name}@{start}"),
                    _ => name.into(),
                };
                names.insert(uuid, unique);
            }
        }
        names
    }

    fn group_name(&self, uuid: &str, name: &str) -> String {
        let known = self.names.get(&plain(uuid));
        known.map_or_else(|| name.into(), String::clone)
    }

    /// All visible volumes, sorted by group and name.
    pub fn volumes(&self) -> Vec<Volume> {
        let mut volumes: Vec<Volume> = self
            .active
            .iter()
            .filter_map(|(uuid, layers)| self.active_volume(uuid, layers))
            .collect();
        for (group, reported) in self.reported() {
            let is_merged = reported.letter(1) == Some('S');
            let is_visible =
                reported.parent.is_none() && !is_merged && !lvm_name::is_hidden(&reported.name);
            if is_visible
                && reported.is_inactive()
                && !volumes.iter().any(|volume| *volume.uuid == *reported.uuid)
            {
                volumes.push(self.reported_volume(group, reported));
            }
        }
        volumes.extend(self.outside_lvm());
        volumes.sort_by_cached_key(|volume| (natural_key(&volume.vg), natural_key(&volume.lv)));
        volumes
    }

    /// All groups, from the report and from active devices.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for reported in &self.groups {
            let group = self.reported_group(reported);
            groups.insert(group.name.clone(), group);
        }
        for layers in self.active.values() {
            for device in layers.values().map(|index| &self.devices[*index]) {
                let uuid = DmUuid::parse(&device.identity);
                let Some((vg, uuid)) = device.vg.as_ref().zip(uuid) else {
                    continue;
                };
                let vg = self.group_name(uuid.group, vg);
                let group = groups.entry(vg.clone()).or_insert_with(|| Group {
                    name: vg.clone(),
                    is_unreported: self.asked.contains(uuid.group),
                    ..Group::default()
                });
                let pvs = self.pvs_below(device);
                if group.missing_pvs > 0 {
                    let hidden = pvs.iter().find(|pv| !group.pvs.contains(pv));
                    group.hidden_pv = hidden.cloned().or(group.hidden_pv.take());
                }
                group.pvs.extend(pvs);
            }
        }
        if self.outside_lvm().next().is_some() {
            let group = groups.entry(OUTSIDE_LVM.into()).or_default();
            group.name = OUTSIDE_LVM.into();
        }
        for group in groups.values_mut() {
            group.pvs.sort();
            group.pvs.dedup();
        }
        groups.into_values().collect()
    }

    fn reported(&self) -> impl Iterator<Item = (&'a lvm::ReportedGroup, &'a lvm::ReportedVolume)> {
        let groups = self.groups.iter().copied();
        groups.flat_map(|group| group.volumes.iter().map(move |volume| (group, volume)))
    }

    fn reported_group(&self, reported: &lvm::ReportedGroup) -> Group {
        let device_of = |pv: &lvm::Pv| {
            let mut devices = self.devices.iter();
            devices.find(|device| Some(device.number) == pv.number)
        };
        let name_of = |pv: &lvm::Pv| device_of(pv).map(|device| device.name.to_string());
        let spare = reported
            .volumes
            .iter()
            .find(|volume| lvm_name::is_spare(&volume.name));
        let mut groups = self.report.iter().flat_map(|report| &report.groups);
        let namesake = groups.find(|other| {
            let is_live = self.is_active(other) && !self.is_active(reported);
            other.name == reported.name && other.uuid != reported.uuid && !is_live
        });
        let (mut room, mut not_allocatable) = (Vec::new(), None);
        for pv in reported.pvs.iter().filter(|pv| !pv.is_missing) {
            match pv.free {
                Some(free) if pv.is_allocatable => room.push(PvRoom {
                    path: pv.name.clone(),
                    device: name_of(pv),
                    free,
                }),
                Some(1..) => not_allocatable = Some(pv.name.clone()),
                _ => {}
            }
        }
        // LVM refuses PVs with other logical blocks, or found twice. Of one that is smaller than an extent, it can use nothing.
        // One on a volume may be a guest's.
        let block_of = |pv: &lvm::Pv| device_of(pv)?.block_size;
        let block = reported.pvs.iter().find_map(block_of);
        let fits = |pv: &&lvm::Pv| {
            let has_other_blocks = block_of(pv)
                .zip(block)
                .is_some_and(|(its, ours)| its != ours);
            let room = pv.size.map(|size| size.saturating_sub(PV_METADATA));
            let is_too_small = room
                .zip(reported.extent)
                .is_some_and(|(room, extent)| room < extent);
            let is_on_volume = device_of(pv).is_some_and(|device| self.is_on_volume(device));
            !has_other_blocks && !is_too_small && !is_on_volume && pv.twin.is_none()
        };
        let free_pvs = self.report.iter().flat_map(|report| &report.free_pvs);
        let free_pv = free_pvs.filter(fits).max_by_key(|pv| pv.size);
        let misses_data = |pv: &lvm::Pv| pv.is_missing && pv.free != pv.size;
        let has_returned = |pv: &&lvm::Pv| pv.is_missing && pv.name.starts_with('/');
        let returned = reported.pvs.iter().filter(has_returned);
        let twin = |pv: &lvm::Pv| Some([pv.name.clone(), pv.twin.clone()?]);
        Group {
            misses_data: reported.pvs.iter().any(misses_data),
            returned_pvs: returned.map(|pv| pv.name.clone()).collect(),
            hidden_pv: None,
            room,
            not_allocatable,
            free_pv: free_pv.map(|pv| pv.name.clone()),
            allocation: reported.letter(5),
            namesake: namesake.map(|other| other.uuid.clone()),
            namesake_is_in_guest: namesake.is_some_and(|other| self.is_in_guest(other)),
            twin: reported.pvs.iter().find_map(twin),
            is_unreported: false,
            is_exported: reported.letter(3) == Some('x'),
            foreign: reported.system_id.clone().filter(|id| {
                let own = self.system_id;
                own.is_some_and(|own| own != id)
            }),
            is_shared: matches!(reported.letter(6), Some('s' | 'c')),
            is_read_only: reported.letter(1) == Some('r') || self.metadata_is_read_only,
            is_fixed: reported.letter(2) == Some('-'),
            max_volumes: Some(reported.max_volumes)
                .filter(|most| (1..=reported.volume_count).contains(most)),
            archive_fault: self.report.and_then(|report| report.archive_fault.clone()),
            is_at_max_pvs: (1..=reported.pvs.len()).contains(&reported.max_pvs),
            name: self.group_name(&reported.uuid, &reported.name),
            size: reported.size,
            free: reported.free,
            extent: reported.extent,
            missing_pvs: reported.missing_pvs,
            spare: spare.and_then(|volume| volume.size),
            tags: reported.tags.clone(),
            pvs: reported.pvs.iter().filter_map(name_of).collect(),
        }
    }

    fn active_volume(&self, uuid: &str, layers: &Layers) -> Option<Volume> {
        let index = *layers
            .get("")
            .or_else(|| layers.get("tpool"))
            .or_else(|| layers.get("vpool"))?;
        let device = &self.devices[index];
        let lv = self.bare_name(index)?;
        if lvm_name::is_hidden(&lv) || self.is_merged_away(layers) {
            return None;
        }
        let uuid = lvm_name::dashed(uuid);
        let found = self.reported().find(|(_, volume)| volume.uuid == uuid);
        let reported = found.map(|(_, volume)| volume);
        let volume = found
            .map(|(group, volume)| self.reported_volume(group, volume))
            .unwrap_or_default();
        let origin = self.thick_origin(device).or(volume.origin);
        // For an origin of thick snapshots, its data lies on the `-real` device.
        let below = layers
            .get("real")
            .map_or(device, |index| &self.devices[*index]);
        // A snapshot's size is that of its COW area, as in `lvs`.
        let sized = layers
            .get("cow")
            .map_or(device, |index| &self.devices[*index]);
        let on_top = self.on_top(index);
        Some(Volume {
            vg: self.group_name(DmUuid::parse(&device.identity)?.group, device.vg.as_ref()?),
            lv,
            kind: self.kind(device, layers, reported, origin.is_some()),
            device: Some(index),
            pool: self.pool_below(below).or(volume.pool),
            origin,
            // A device without a table has none.
            size: (sized.size.filter(|size| *size > Sectors(0)))
                .map_or(volume.size, |size| Some(size.bytes())),
            pvs: self.pvs_of(device, layers),
            real: layers.get("real").copied(),
            cow: layers.get("cow").copied(),
            mounted_on: self.mount_points(index, &on_top),
            mounts_inside: self.mounts_inside(index, &on_top),
            on_top,
            uuid: uuid.into(),
            ..volume
        })
    }

    /// An inactive volume.
    fn reported_volume(
        &self,
        group: &lvm::ReportedGroup,
        reported: &lvm::ReportedVolume,
    ) -> Volume {
        let origin = snapshot_origin(group, reported);
        Volume {
            vg: self.group_name(&group.uuid, &group.name),
            lv: reported.name.clone(),
            uuid: reported.uuid.as_str().into(),
            kind: kind::from_report(reported, origin.is_some()),
            origin,
            pool: reported.pool.clone(),
            size: reported.size,
            created_at: reported.created_at,
            health: reported.health.clone(),
            split_leg: split_leg(group, reported),
            is_merging: reported.letter(1) == Some('S'),
            is_merged_into: reported.letter(1) == Some('O'),
            is_locked: (reported.letter(3)).is_some_and(|policy| policy.is_ascii_uppercase()),
            is_open: reported.letter(6) == Some('o'),
            tags: reported.tags.clone(),
            when_full: reported.when_full.clone(),
            layout: layout(group, reported, &|part| self.is_visible(part)),
            profile: reported.profile,
            mounted_on: Some(Vec::new()),
            ..Volume::default()
        }
    }

    /// Snapshots that another program than LVM created.
    fn outside_lvm(&self) -> impl Iterator<Item = Volume> {
        let devices = self.devices.iter().enumerate();
        let outside = devices.filter(|(index, device)| {
            self.target(*index) == Some("snapshot") && DmUuid::parse(&device.identity).is_none()
        });
        outside.map(|(index, device)| {
            let on_top = self.on_top(index);
            Volume {
                vg: OUTSIDE_LVM.into(),
                lv: device.label.clone(),
                uuid: Arc::clone(&device.identity),
                device: Some(index),
                kind: VolumeKind::Snapshot,
                origin: self.origin_outside_lvm(index),
                pvs: self.pvs_below(device),
                mounted_on: self.mount_points(index, &on_top),
                on_top,
                ..Volume::default()
            }
        })
    }

    /// The device-mapper's name of the origin of a snapshot: both lie on the same device.
    fn origin_outside_lvm(&self, snapshot: usize) -> Option<String> {
        let below = &self.devices[snapshot].slaves;
        let mut names = below.iter().filter_map(|name| self.above.get(&**name));
        let origin = names.find_map(|above| {
            let mut above = above.iter();
            above.find(|index| self.target(**index) == Some("snapshot-origin"))
        })?;
        Some(self.devices[*origin].label.clone())
    }

    /// Whether LVM hides a snapshot because it is merging: its origin lies on its COW area, and its own device is invalid
    /// or has an error target.
    fn is_merged_away(&self, layers: &Layers) -> bool {
        let Some((cow, top)) = layers.get("cow").zip(layers.get("")) else {
            return false;
        };
        let cow = &*self.devices[*cow].name;
        let lies_on_it = |device: &Device| device.slaves.iter().any(|name| name == cow);
        let others = self
            .devices
            .iter()
            .enumerate()
            .filter(|(index, _)| index != top);
        self.target(*top) == Some("error")
            || others.into_iter().any(|(_, device)| lies_on_it(device))
    }

    /// Whether the kernel shows it as a volume of its own.
    fn is_visible(&self, volume: &lvm::ReportedVolume) -> bool {
        let uuid = volume.uuid.replace('-', "");
        self.active
            .get(uuid.as_str())
            .is_some_and(|layers| !self.is_merged_away(layers))
    }

    fn target(&self, index: usize) -> Option<&'a str> {
        self.targets.get(&self.devices[index].number).copied()
    }

    /// The volume's name without group.
    fn bare_name(&self, index: usize) -> Option<String> {
        Some(self.devices[index].lv.as_ref()?.name.clone())
    }

    fn slaves(&self, device: &Device) -> impl Iterator<Item = usize> {
        device
            .slaves
            .iter()
            .filter_map(|name| self.by_name.get(name.as_str()).copied())
    }

    /// The origin of a snapshot, which lies on its own COW area and on the origin's `-real` device.
    fn thick_origin(&self, device: &Device) -> Option<String> {
        let layer =
            |index: usize| DmUuid::parse(&self.devices[index].identity).and_then(|uuid| uuid.layer);
        let slaves: Vec<usize> = self.slaves(device).collect();
        let own_cow = slaves
            .iter()
            .any(|index| layer(*index) == Some("cow") && self.is_same_volume(*index, device));
        let real = slaves.iter().find(|index| layer(**index) == Some("real"))?;
        own_cow.then(|| self.bare_name(*real)).flatten()
    }

    /// The devices on top of a volume that show its data. Other volumes of its group do not, nor do snapshots of it.
    fn on_top(&self, volume: usize) -> Vec<usize> {
        let group = |index: usize| DmUuid::parse(&self.devices[index].identity).map(|it| it.group);
        let mut found = vec![volume];
        let mut place = 0;
        while let Some(below) = found.get(place) {
            let name = &*self.devices[*below].name;
            let lies_on_it = self.above.get(name).into_iter().flatten().copied();
            let shown = lies_on_it.filter(|index| {
                let is_volume = group(*index).is_some() && group(*index) == group(volume);
                !is_volume && self.target(*index) != Some("snapshot")
            });
            let new: Vec<usize> = shown.filter(|index| !found.contains(index)).collect();
            found.extend(new);
            place += 1;
        }
        found.split_off(1)
    }

    fn mount_points(&self, volume: usize, on_top: &[usize]) -> Option<Vec<String>> {
        let numbers = self.numbers(volume, on_top);
        let mounts = self.mounts?.iter();
        let own = mounts.filter(|mount| numbers.contains(&mount.number));
        Some(own.map(|mount| mount.point.clone()).collect())
    }

    fn mounts_inside(&self, volume: usize, on_top: &[usize]) -> Vec<String> {
        mounts::inside(
            self.mounts.unwrap_or_default(),
            &self.numbers(volume, on_top),
        )
    }

    fn numbers(&self, volume: usize, on_top: &[usize]) -> Vec<Number> {
        let devices = std::iter::once(&volume).chain(on_top);
        devices.map(|index| self.devices[*index].number).collect()
    }

    fn is_same_volume(&self, index: usize, device: &Device) -> bool {
        let volume =
            |device: &Device| DmUuid::parse(&device.identity).map(|uuid| uuid.volume.to_string());
        volume(&self.devices[index]) == volume(device)
    }

    fn pool_below(&self, device: &Device) -> Option<String> {
        let is_pool = |index: &usize| {
            let layer = DmUuid::parse(&self.devices[*index].identity).and_then(|uuid| uuid.layer);
            matches!(layer, Some("tpool" | "vpool")) && !self.is_same_volume(*index, device)
        };
        self.slaves(device)
            .find(is_pool)
            .and_then(|index| self.bare_name(index))
    }

    fn kind(
        &self,
        device: &Device,
        layers: &Layers,
        reported: Option<&lvm::ReportedVolume>,
        has_origin: bool,
    ) -> VolumeKind {
        if layers.contains_key("tpool") {
            return VolumeKind::ThinPool;
        }
        if layers.contains_key("vpool") {
            return VolumeKind::VdoPool;
        }
        if layers.contains_key("cow") {
            return VolumeKind::Snapshot;
        }
        if let Some(reported) = reported.filter(|volume| volume.segment_type().is_some()) {
            return kind::from_report(reported, has_origin);
        }
        // The kind of an origin is that of its `-real` device.
        let index = layers.get("real").or_else(|| layers.get("")).copied();
        let has_pool = self.pool_below(device).is_some();
        match index
            .and_then(|index| self.target(index))
            .unwrap_or_default()
        {
            "linear" if has_pool => VolumeKind::Vdo,
            "" if !has_pool => VolumeKind::Other,
            // Without the device-mapper, only the layers show the kind.
            "thin" | "" if has_origin => VolumeKind::ThinSnapshot,
            "thin" | "" => VolumeKind::Thin,
            target => VolumeKind::of_type(target),
        }
    }

    fn pvs_of(&self, device: &Device, layers: &Layers) -> Vec<String> {
        let own = layers
            .get("cow")
            .or_else(|| layers.get("real"))
            .map_or(device, |index| &self.devices[*index]);
        let mut pvs = self.pvs_below(own);
        pvs.sort();
        pvs.dedup();
        pvs
    }

    /// The first devices below that LVM did not create. Layers that were read while devices changed may contain cycles.
    fn pvs_below(&self, device: &Device) -> Vec<String> {
        let (mut pvs, mut seen) = (Vec::new(), HashSet::new());
        let mut next: Vec<usize> = self.slaves(device).collect();
        while let Some(index) = next.pop() {
            let below = &self.devices[index];
            match DmUuid::parse(&below.identity) {
                _ if !seen.insert(index) => {}
                Some(_) => next.extend(self.slaves(below)),
                None => pvs.push(below.name.to_string()),
            }
        }
        pvs
    }
}

/// A UUID without dashes.
fn plain(uuid: &str) -> String {
    uuid.replace('-', "")
}

/// The volume that it is a snapshot of. A thin volume with an external origin is not a snapshot: it is a volume in
/// production, whose unchanged blocks lie on a read-only volume.
fn snapshot_origin(group: &lvm::ReportedGroup, reported: &lvm::ReportedVolume) -> Option<String> {
    let origin = reported.origin.as_ref()?;
    let is_external = reported.pool.is_some()
        && group
            .volumes
            .iter()
            .any(|volume| volume.name == *origin && volume.pool.is_none());
    (!is_external).then(|| origin.clone())
}

/// The volume's segments, then those of its hidden parts, recursively, sorted by name. `is_visible` tells which volumes
/// the kernel shows as volumes of their own.
fn layout(
    group: &lvm::ReportedGroup,
    volume: &lvm::ReportedVolume,
    is_visible: &dyn Fn(&lvm::ReportedVolume) -> bool,
) -> Vec<LvLayout> {
    let mut parts = Vec::new();
    let mut next = vec![volume];
    while let Some(volume) = next.pop() {
        parts.push(LvLayout {
            lv: volume.name.clone(),
            allocation: volume.letter(3).map(|policy| policy.to_ascii_lowercase()),
            segments: volume.segments.clone(),
        });
        let is_part = |other: &&lvm::ReportedVolume| is_part(other, volume, is_visible);
        // Stops even if the report contains a cycle.
        if parts.len() <= group.volumes.len() {
            let mut below: Vec<&lvm::ReportedVolume> =
                group.volumes.iter().filter(is_part).collect();
            below.sort_by(|a, b| b.name.cmp(&a.name));
            next.extend(below);
        }
    }
    parts
}

/// A leg that belongs to no volume for a while, and is read-only.
fn split_leg(group: &lvm::ReportedGroup, raid: &lvm::ReportedVolume) -> Option<String> {
    let start = format!("{}_rimage_", raid.name);
    let mut parts = group.volumes.iter();
    let leg = parts.find(|part| {
        part.parent.is_none() && part.letter(2) == Some('r') && part.name.starts_with(&start)
    })?;
    Some(leg.name.clone())
}

/// Whether `part` is a hidden part of `volume`: its parent, or a cache's origin and pool, or a snapshot that is merging
/// into its origin. A snapshot whose merge has not started is still visible.
fn is_part(
    part: &lvm::ReportedVolume,
    volume: &lvm::ReportedVolume,
    is_visible: &dyn Fn(&lvm::ReportedVolume) -> bool,
) -> bool {
    let is_subvolume = [&volume.origin, &volume.pool].contains(&&Some(part.name.clone()));
    let is_merged = part.letter(1) == Some('S')
        && part.origin.as_ref() == Some(&volume.name)
        && !is_visible(part);
    part.parent.as_ref() == Some(&volume.name)
        || is_merged
        || (is_subvolume && lvm_name::is_hidden(&part.name))
}
