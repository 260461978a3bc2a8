//! The names, units and labels of stored quantities as metrics: what OpenMetrics files and remote write share.

use super::topics::Topic;
use crate::series::quantity::{
    DeviceQuantity, HostQuantity, Quantity, ShareQuantity, VolumeQuantity,
};

/// A quantity as a gauge in its base unit.
pub struct Metric {
    /// The whole name.
    pub family: String,
    pub unit: &'static str,
    /// How many of the quantity's own units make one of these.
    pub scale: f64,
}

impl Metric {
    pub fn of(topic: &Topic, quantity: Quantity) -> Self {
        let (name, unit, scale) = family(quantity);
        Self {
            family: format!("{}_{name}_{unit}", prefix(topic)),
            unit,
            scale,
        }
    }
}

/// The labels of a subject.
pub fn labels(topic: &Topic) -> Vec<(&'static str, &str)> {
    let id = topic.id.as_deref().unwrap_or_default();
    match (topic.word(), topic.name.split_once('/')) {
        ("volume", Some((vg, lv))) => vec![("vg", vg), ("lv", lv), ("uuid", id)],
        ("device", _) => vec![("name", &topic.name), ("uuid", id)],
        _ => Vec::new(),
    }
}

/// The name, the base unit, and how many of the quantity's own units make one.
fn family(quantity: Quantity) -> (&'static str, &'static str, f64) {
    use DeviceQuantity as Device;
    use HostQuantity as Host;
    match quantity {
        Quantity::Device(Device::ReadBytes) => ("read", "bytes_per_second", 1.0),
        Quantity::Device(Device::WrittenBytes) => ("written", "bytes_per_second", 1.0),
        Quantity::Device(Device::Reads) => ("read", "requests_per_second", 1.0),
        Quantity::Device(Device::Writes) => ("write", "requests_per_second", 1.0),
        Quantity::Device(Device::ReadAwaitMs) => ("read_await", "seconds", 1e3),
        Quantity::Device(Device::WriteAwaitMs) => ("write_await", "seconds", 1e3),
        Quantity::Device(Device::ReadRequestBytes) => ("read_request", "bytes", 1.0),
        Quantity::Device(Device::WriteRequestBytes) => ("write_request", "bytes", 1.0),
        Quantity::Device(Device::QueueDepth) => ("queued", "requests", 1.0),
        Quantity::Device(Device::Utilisation) => ("utilisation", "ratio", 1.0),
        Quantity::Share(ShareQuantity::CopyReadBytes) => ("copy_read", "bytes_per_second", 1.0),
        Quantity::Share(ShareQuantity::CopyWrittenBytes) => {
            ("copy_written", "bytes_per_second", 1.0)
        }
        Quantity::Volume(VolumeQuantity::FillPercent) => ("fill", "ratio", 100.0),
        Quantity::Volume(VolumeQuantity::UsedBytes) => ("used", "bytes", 1.0),
        Quantity::Volume(VolumeQuantity::MetadataPercent) => ("metadata_fill", "ratio", 100.0),
        Quantity::Host(Host::BiKibPerS) => ("paged_in", "bytes_per_second", 1.0 / 1024.0),
        Quantity::Host(Host::BoKibPerS) => ("paged_out", "bytes_per_second", 1.0 / 1024.0),
        Quantity::Host(Host::User) => ("user", "ratio", 1.0),
        Quantity::Host(Host::System) => ("system", "ratio", 1.0),
        Quantity::Host(Host::Iowait) => ("iowait", "ratio", 1.0),
        Quantity::Host(Host::Blocked) => ("blocked", "processes", 1.0),
        Quantity::Host(Host::PressureIoSome) => ("io_pressure", "ratio", 1.0),
    }
}

/// The total has names of its own, so that no sum counts it too.
fn prefix(topic: &Topic) -> &'static str {
    match topic.word() {
        "device" => "cowbell_device",
        "volume" => "cowbell_volume",
        "total" => "cowbell_total",
        _ => "cowbell_host",
    }
}
