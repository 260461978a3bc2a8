//! The counters of each row of `/proc/diskstats`. A device of LVM has the labels of its volume and of the layer that it
//! is, so that `dm-3` needs no join.
//!
//! The kernel's milliseconds wrap at 2³². Prometheus takes that for a restart of the counter.

use std::fmt;

use super::family::{Families, Family, LabelFamily, Labels};
use crate::interval::Interval;
use crate::sample::diskstats::Counters;
use crate::source::variant_name;
use crate::topology::Device;

type DeviceCounter = (Family, fn(&Counters) -> f64);
const COUNTERS: [DeviceCounter; 8] = [
    (
        counter("cowbell_device_read", "bytes", "Bytes read."),
        |done| done.sectors_read.bytes() as f64,
    ),
    (
        counter("cowbell_device_written", "bytes", "Bytes written."),
        |done| done.sectors_written.bytes() as f64,
    ),
    (
        counter("cowbell_device_read", "requests", "Completed reads."),
        |done| done.reads as f64,
    ),
    (
        counter("cowbell_device_write", "requests", "Completed writes."),
        |done| done.writes as f64,
    ),
    (
        counter(
            "cowbell_device_read_time",
            "seconds",
            "Sum of the times of reads, with their time in the queue.",
        ),
        |done| seconds(done.read_ms),
    ),
    (
        counter(
            "cowbell_device_write_time",
            "seconds",
            "Sum of the times of writes, with their time in the queue.",
        ),
        |done| seconds(done.write_ms),
    ),
    (
        counter(
            "cowbell_device_busy",
            "seconds",
            "Time with at least one request in flight.",
        ),
        |done| seconds(done.busy_ms),
    ),
    (
        counter(
            "cowbell_device_queue",
            "seconds",
            "Sum of the times of all requests; its rate is the mean queue.",
        ),
        |done| seconds(done.queue_ms),
    ),
];
const SIZE: Family = Family {
    name: "cowbell_device_size",
    unit: "bytes",
    help: "Size of the device.",
};
const INFO: LabelFamily = LabelFamily {
    name: "cowbell_device",
    help: "Properties of the device: whether it is a PV, and whether its bytes count in the host's total.",
};

pub fn encode(interval: &Interval, families: &mut Families) -> fmt::Result {
    let devices = &interval.topology.devices;
    let labels: Vec<Labels> = devices.iter().map(labels).collect();
    for (family, value) in &COUNTERS {
        let counters = interval
            .devices
            .iter()
            .map(|done| done.counters.as_ref().map(value));
        families.counters(family, labels.iter().zip(counters))?;
    }
    let sizes = devices
        .iter()
        .map(|device| device.size.map(|size| size.bytes() as f64));
    families.gauges(&SIZE, labels.iter().zip(sizes))?;
    let kinds: Vec<String> = devices
        .iter()
        .map(|device| variant_name(device.kind))
        .collect();
    let properties = devices
        .iter()
        .zip(&kinds)
        .map(|(device, kind)| properties(device, kind));
    families.infos(&INFO, labels.iter().zip(properties))
}

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family { name, unit, help }
}

fn labels(device: &Device) -> Labels {
    let lv = device.lv.as_ref();
    Labels::of([
        ("device", &*device.name),
        ("vg", device.vg.as_deref().unwrap_or_default()),
        ("lv", lv.map_or("", |lv| &lv.name)),
        (
            "layer",
            lv.and_then(|lv| lv.layer.as_deref()).unwrap_or_default(),
        ),
        ("uuid", lv.map_or(&*device.identity, |lv| &*lv.uuid)),
    ])
}

fn properties<'a>(device: &'a Device, kind: &'a str) -> Labels {
    let text = |is: bool| if is { "true" } else { "false" };
    Labels::of([
        ("kind", kind),
        ("model", device.model.as_deref().unwrap_or_default()),
        ("rotational", device.rotational.map_or("", text)),
        ("scheduler", device.scheduler.as_deref().unwrap_or_default()),
        ("pv", text(device.is_pv)),
        ("counted", text(device.counts)),
    ])
}

fn seconds(milliseconds: u32) -> f64 {
    f64::from(milliseconds) / 1e3
}
