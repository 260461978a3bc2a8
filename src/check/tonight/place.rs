//! The volume that a directory lies on, from mounts and layers of block devices.

use std::path::Path;

use crate::sample::diskstats::Number;
use crate::sample::lvm::{ReportedGroup, ReportedVolume};
use crate::sample::mounts::Mount;
use crate::sample::sysfs::BlockDevice;

/// The block device of the mount that contains a directory; `None` if there is none or it is unknown.
pub fn device_of<'a>(
    folder: &Path,
    mounts: &[Mount],
    devices: &'a [BlockDevice],
) -> Option<&'a BlockDevice> {
    let around = mounts
        .iter()
        .filter(|mount| folder.starts_with(&mount.point));
    // The last mount on a directory hides the others.
    let mount = around.max_by_key(|mount| Path::new(&mount.point).components().count())?;
    devices
        .iter()
        .find(|device| device.number == Some(mount.number))
}

/// Whether a device is this volume or lies on it.
pub fn is_on(device: &BlockDevice, uuid: &str, devices: &[BlockDevice]) -> bool {
    let is_it = |device: &BlockDevice| {
        let rest = device
            .dm_uuid
            .as_deref()
            .and_then(|found| found.strip_prefix(uuid));
        rest.is_some_and(|layer| layer.is_empty() || layer.starts_with('-'))
    };
    let (mut next, mut seen) = (vec![device], Vec::new());
    while let Some(device) = next.pop() {
        if is_it(device) {
            return true;
        }
        if !seen.contains(&&device.name) {
            seen.push(&device.name);
            let below = device
                .slaves
                .iter()
                .chain(device.partition.as_ref().map(|(disk, _)| disk));
            next.extend(below.filter_map(|name| devices.iter().find(|other| other.name == *name)));
        }
    }
    false
}

/// A volume's UUID in the device-mapper.
pub fn dm_uuid(group: &ReportedGroup, volume: &ReportedVolume) -> String {
    format!(
        "LVM-{}",
        [&*group.uuid, &*volume.uuid].concat().replace('-', "")
    )
}

/// The number of a volume's own device.
pub fn number_of(uuid: &str, devices: &[BlockDevice]) -> Option<Number> {
    devices
        .iter()
        .find(|device| device.dm_uuid.as_deref() == Some(uuid))?
        .number
}
