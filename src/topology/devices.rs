//! Devices: kinds, identities and labels, and which of them count in the host's total. An identity is the device-
//! mapper's UUID, a WWID or a serial number. Numbers are reused, and names change.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::lvm_name::{self, DmUuid};
use super::{Device, DeviceKind, Group, LvDevice, Volume};
use crate::sample::diskstats::DeviceLine;
use crate::sample::sysfs::BlockDevice;
use cowbell_device_mapper::status::DmDevice;

/// Name prefixes of devices that are not disks: floppies, optical drives, RAM disks, and stacked devices.
const OTHERS: [&str; 6] = ["ram", "fd", "sr", "drbd", "zd", "bcache"];

/// Combines `/proc/diskstats` with sysfs and the device-mapper.
pub fn of(lines: &[DeviceLine], names: &[BlockDevice], dm_devices: &[DmDevice]) -> Vec<Device> {
    let by_name: HashMap<&str, &BlockDevice> = names
        .iter()
        .map(|block| (block.name.as_str(), block))
        .collect();
    let by_number: HashMap<_, _> = dm_devices.iter().map(|dm| (dm.number, dm)).collect();
    let unknown = BlockDevice::default();
    let mut devices: Vec<Device> = lines
        .iter()
        .map(|line| {
            let block = by_name.get(line.name.as_str()).copied().unwrap_or(&unknown);
            (line, block, by_number.get(&line.number).copied())
        })
        // A device that vanished between the reads has no identity.
        .filter(|(line, block, dm)| {
            !line.name.starts_with("dm-")
                || names.is_empty()
                || block.dm_name.is_some()
                || dm.is_some()
        })
        .map(|(line, block, dm)| {
            let disk = block
                .partition
                .as_ref()
                .and_then(|(disk, _)| by_name.get(disk.as_str()).copied());
            device(line, block, disk.unwrap_or(block), dm)
        })
        .collect();
    find_hidden_paths(&mut devices, &by_name);
    make_unique(&mut devices);
    choose_counted(&mut devices, &by_name);
    devices
}

/// Labels devices after their volume or volume group.
pub fn label_by_lvm(devices: &mut [Device], groups: &[Group], volumes: &[Volume]) {
    for group in groups {
        for device in devices
            .iter_mut()
            .filter(|device| group.pvs.iter().any(|pv| **pv == *device.name))
        {
            device.label = format!("{} · PV of {}", device.name, group.name);
            device.vg = Some(group.name.clone());
            device.is_pv = true;
        }
    }
    for volume in volumes {
        if let Some(device) = volume.device.and_then(|index| devices.get_mut(index)) {
            device.label = volume.full_name();
            device.vg = Some(volume.vg.clone());
        }
    }
}

/// `disk` is the disk of a partition, or the device itself.
fn device(
    line: &DeviceLine,
    block: &BlockDevice,
    disk: &BlockDevice,
    dm: Option<&DmDevice>,
) -> Device {
    let dm_uuid = dm
        .map(|dm| dm.uuid.as_str())
        .filter(|uuid| !uuid.is_empty())
        .or(block.dm_uuid.as_deref());
    let dm_name = dm.map(|dm| dm.name.as_str()).or(block.dm_name.as_deref());
    let kind = kind(&line.name, block);
    let lvm = dm_uuid
        .and_then(DmUuid::parse)
        .zip(dm_name.and_then(lvm_name::split));
    let label = match &lvm {
        Some((
            DmUuid {
                layer: Some(layer), ..
            },
            name,
        )) => format!("{}/{} ({layer})", name.vg, name.lv),
        Some((_, name)) => format!("{}/{}", name.vg, name.lv),
        None => dm_name.unwrap_or(&line.name).to_string(),
    };
    Device {
        number: line.number,
        name: line.name.as_str().into(),
        generation: block.inode,
        identity: identity(&line.name, block, dm_uuid, dm_name),
        label,
        kind,
        vg: lvm.as_ref().map(|(_, name)| name.vg.clone()),
        lv: lvm.map(|(uuid, name)| LvDevice {
            name: name.lv,
            uuid: lvm_name::dashed(uuid.volume).into(),
            layer: uuid.layer.map(String::from),
        }),
        is_pv: false,
        slaves: block.slaves.clone(),
        paths: Vec::new(),
        size: block.size,
        model: disk.model.clone(),
        rotational: disk.rotational,
        scheduler: disk.scheduler.clone(),
        read_ahead_kib: disk.read_ahead_kib,
        block_size: disk.block_size,
        counts: false,
    }
}

fn identity(
    name: &str,
    block: &BlockDevice,
    dm_uuid: Option<&str>,
    dm_name: Option<&str>,
) -> Arc<str> {
    if let Some(uuid) = dm_uuid {
        return uuid.into();
    }
    if let Some(dm_name) = dm_name {
        return format!("dm:{dm_name}").into();
    }
    match (&block.serial, &block.partition) {
        (_, Some((parent, number))) => format!("{parent}-part{number}").into(),
        (Some(serial), None) => serial.as_str().into(),
        (None, None) => format!("name:{name}").into(),
    }
}

/// Makes identities unique: appends the name to shared ones, such as multipath paths; derives those of partitions.
fn make_unique(devices: &mut [Device]) {
    let paths = paths(devices);
    for device in devices
        .iter_mut()
        .filter(|device| paths.contains(&*device.name))
    {
        device.identity = format!("{}:{}", device.identity, device.name).into();
    }
    let disks: HashMap<Arc<str>, Arc<str>> = devices
        .iter()
        .map(|device| (Arc::clone(&device.name), Arc::clone(&device.identity)))
        .collect();
    for device in devices
        .iter_mut()
        .filter(|device| device.kind == DeviceKind::Partition)
    {
        let parent = device
            .identity
            .rsplit_once("-part")
            .and_then(|(parent, number)| {
                disks
                    .get(parent)
                    .map(|identity| format!("{identity}-part{number}"))
            });
        if let Some(identity) = parent {
            device.identity = identity.into();
        }
    }
    let mut seen = HashSet::new();
    let shared: HashSet<Arc<str>> = devices
        .iter()
        .filter(|device| !seen.insert(Arc::clone(&device.identity)))
        .map(|device| Arc::clone(&device.identity))
        .collect();
    for device in devices
        .iter_mut()
        .filter(|device| shared.contains(&device.identity))
    {
        device.identity = format!("{}:{}", device.identity, device.name).into();
    }
}

fn kind(name: &str, block: &BlockDevice) -> DeviceKind {
    let is_numbered = |prefix: &str| {
        name.strip_prefix(prefix)
            .is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
    };
    match name {
        _ if block.partition.is_some() => DeviceKind::Partition,
        _ if name.starts_with("dm-") => DeviceKind::Dm,
        _ if name.starts_with("loop") => DeviceKind::Loop,
        _ if name.starts_with("zram") => DeviceKind::Zram,
        _ if is_numbered("md") || name.starts_with("md_") => DeviceKind::Md,
        _ if block.is_hidden || head_of(name).is_some() || OTHERS.into_iter().any(is_numbered) => {
            DeviceKind::Other
        }
        _ => DeviceKind::Disk,
    }
}

/// Name prefixes of devices that pass requests on.
const WITHOUT_QUEUE: [&str; 5] = ["dm-", "md", "zram", "drbd", "bcache"];

impl Device {
    /// Whether it has no request queue of its own, so that the kernel's version decides when it counts a request.
    pub fn counts_without_queue(&self) -> bool {
        let is_stacked = WITHOUT_QUEUE
            .iter()
            .any(|prefix| self.name.starts_with(prefix));
        (is_stacked && !is_multipath(self)) || !self.paths.is_empty()
    }
}

fn is_multipath(device: &Device) -> bool {
    device.identity.starts_with("mpath-")
}

/// Names of the devices that are paths of a multipath device.
fn paths(devices: &[Device]) -> HashSet<String> {
    let mut paths = HashSet::new();
    for device in devices {
        if is_multipath(device) {
            paths.extend(device.slaves.iter().cloned());
        }
        paths.extend(device.paths.iter().cloned());
    }
    paths
}

/// The disk of native NVMe multipath that a hidden path belongs to: `nvme0n1` of `nvme0c2n1`, by controller 2.
fn head_of(path: &str) -> Option<String> {
    let (subsystem, rest) = path.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    for number in [subsystem, controller, namespace] {
        number.parse::<u32>().ok()?;
    }
    Some(format!("nvme{subsystem}n{namespace}"))
}

/// Tells each disk of native NVMe multipath, and its partitions, their paths. Paths share the number 0:0 and the disk's
/// WWID, and have no link to it, so their names tell.
fn find_hidden_paths(devices: &mut [Device], names: &HashMap<&str, &BlockDevice>) {
    let mut paths: HashMap<String, BTreeSet<String>> = HashMap::new();
    let listed = devices.iter().map(|device| &*device.name);
    for name in listed.chain(names.keys().copied()) {
        if let Some(head) = head_of(name) {
            paths.entry(head).or_default().insert(name.into());
        }
    }
    for device in devices {
        let block = names.get(&*device.name);
        let disk = block.and_then(|block| block.partition.as_ref());
        let disk = disk.map_or(&*device.name, |(disk, _)| disk);
        if let Some(paths) = paths.get(disk) {
            device.paths = paths.iter().cloned().collect();
        }
    }
}

/// Counts each byte once: on disks, not on layers above; on a multipath device, not on its paths. A partition or a hidden
/// path counts if its disk is not listed.
fn choose_counted(devices: &mut [Device], names: &HashMap<&str, &BlockDevice>) {
    let paths = paths(devices);
    let present: HashSet<Arc<str>> = devices
        .iter()
        .map(|device| Arc::clone(&device.name))
        .collect();
    for device in devices {
        let disk = names
            .get(&*device.name)
            .and_then(|block| block.partition.as_ref())
            .map(|(disk, _)| disk);
        device.counts = match device.kind {
            DeviceKind::Disk => device.slaves.is_empty() && !paths.contains(&*device.name),
            DeviceKind::Partition => disk.is_some_and(|disk| !present.contains(disk.as_str())),
            DeviceKind::Dm => is_multipath(device),
            DeviceKind::Other => {
                head_of(&device.name).is_some_and(|disk| !present.contains(disk.as_str()))
            }
            DeviceKind::Loop | DeviceKind::Md | DeviceKind::Zram => false,
        };
    }
}
