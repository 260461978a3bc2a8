//! The counters of each row of `/proc/diskstats`. A device of LVM has the labels of its volume and of the layer that it
//! is, so that `dm-3` needs no join.
//!
//! The kernel's milliseconds wrap at 2³². Prometheus takes that for a restart of the counter.

use std::fmt;

use super::family::{Families, Family, LabelFamily, Labels};
use crate::interval::Interval;
use crate::sample::diskstats::{Counted, Counter};
use crate::source::variant_name;
use crate::topology::Device;
use crate::units::Sectors;

const COUNTERS: [(Counter, Family); 8] = [
    (
        Counter::SectorsRead,
        counter("cowbell_device_read", "bytes", "Bytes read."),
    ),
    (
        Counter::SectorsWritten,
        counter("cowbell_device_written", "bytes", "Bytes written."),
    ),
    (
        Counter::Reads,
        counter("cowbell_device_read", "requests", "Completed reads."),
    ),
    (
        Counter::Writes,
        counter("cowbell_device_write", "requests", "Completed writes."),
    ),
    (
        Counter::ReadMs,
        counter(
            "cowbell_device_read_time",
            "seconds",
            "Sum of the times of reads, with their time in the queue.",
        ),
    ),
    (
        Counter::WriteMs,
        counter(
            "cowbell_device_write_time",
            "seconds",
            "Sum of the times of writes, with their time in the queue.",
        ),
    ),
    (
        Counter::BusyMs,
        counter(
            "cowbell_device_busy",
            "seconds",
            "Time with at least one request in flight.",
        ),
    ),
    (
        Counter::QueueMs,
        counter(
            "cowbell_device_queue",
            "seconds",
            "Sum of the times of all requests; its rate is the mean queue.",
        ),
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
    for (counter, family) in &COUNTERS {
        let counters = interval
            .devices
            .iter()
            .map(|done| in_base_unit(*counter, done.counters?[*counter]?));
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

fn in_base_unit(counter: Counter, count: u64) -> Option<f64> {
    Some(match counter.counted() {
        Counted::Requests => count as f64,
        Counted::Sectors => Sectors(count).bytes() as f64,
        Counted::Milliseconds => count as f64 / 1e3,
    })
}
