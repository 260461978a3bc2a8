//! A device in the API, with its work in the last tick.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::interval::{DeviceInterval, Interval};
use crate::quantity::Quantity;
use crate::quantity::per_second;
use crate::topology::{Device, DeviceKind};

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeviceBody {
    /// The kernel's name, such as `dm-3`.
    pub device: String,
    /// An identity independent of the name: device-mapper UUID, WWID or serial number.
    pub uuid: String,
    /// The displayed name: `vg0/mysql`, `sda · PV of vg0`.
    pub label: String,
    pub kind: DeviceKind,
    pub vg: Option<String>,
    pub read_bytes_per_s: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
    pub reads_per_s: Option<f64>,
    pub writes_per_s: Option<f64>,
    /// `null` without reads.
    pub read_await_ms: Option<f64>,
    pub write_await_ms: Option<f64>,
    pub queue_depth: Option<f64>,
    /// From 0 to 1.
    pub utilisation: Option<f64>,
    /// For PVs: the part of the throughput that is COW copying; `null` if the copied volumes span several PVs.
    pub copying: Option<ShareBody>,
    pub model: Option<String>,
    pub rotational: Option<bool>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    pub read_ahead_bytes: Option<u64>,
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
        let value = |quantity: Quantity| quantity.of_work(&done.work, interval.elapsed_us);
        let per_second = |bytes| per_second(bytes, interval.elapsed_us);
        let share = device.is_pv.then(|| interval.share(device)).flatten();
        Self {
            device: device.name.to_string(),
            uuid: device.identity.to_string(),
            label: device.label.clone(),
            kind: device.kind,
            vg: device.vg.clone(),
            read_bytes_per_s: value(Quantity::ReadBytes),
            written_bytes_per_s: value(Quantity::WrittenBytes),
            reads_per_s: value(Quantity::Reads),
            writes_per_s: value(Quantity::Writes),
            read_await_ms: value(Quantity::ReadAwaitMs),
            write_await_ms: value(Quantity::WriteAwaitMs),
            queue_depth: value(Quantity::QueueDepth),
            utilisation: value(Quantity::Utilisation),
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
