//! The quantities that a series can be of, and how each is read off an interval.

use serde::{Deserialize, Serialize};

use super::Observation;
use crate::interval::copying::Share;
use crate::interval::estimate::Estimate;
use crate::interval::{Host, Work};
use crate::topology::VolumeState;

/// What a device does. Names are those of the API's `metric`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceQuantity {
    ReadBytes,
    WrittenBytes,
    Reads,
    Writes,
    ReadAwaitMs,
    WriteAwaitMs,
    ReadRequestBytes,
    WriteRequestBytes,
    QueueDepth,
    Utilisation,
}

/// How full a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeQuantity {
    FillPercent,
    UsedBytes,
    MetadataPercent,
}

/// The part of a PV's work that is copying for snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareQuantity {
    CopyReadBytes,
    CopyWrittenBytes,
}

/// How full a thick snapshot probably is, where nobody may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EstimateQuantity {
    EstimatedPercent,
    EstimatedLowPercent,
    EstimatedHighPercent,
}

/// What the host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostQuantity {
    BiKibPerS,
    BoKibPerS,
    User,
    System,
    Iowait,
    Blocked,
    PressureIoSome,
}

impl DeviceQuantity {
    pub const NAMES: &str = "read_bytes, written_bytes, reads, writes, read_await_ms, write_await_ms, \
        read_request_bytes, write_request_bytes, queue_depth, utilisation";

    /// One tick's word; `None` where no request was made, for what is said per request.
    pub fn observe(self, work: &Work, elapsed_us: u64) -> Option<Observation> {
        let seconds = elapsed_us as f64 / 1e6;
        let per_second = |amount: u64| Observation::ratio(amount as f64, seconds);
        let per_request = |amount: f64, requests: u64| Observation::ratio(amount, requests as f64);
        match self {
            Self::ReadBytes => per_second(work.sectors_read.bytes()),
            Self::WrittenBytes => per_second(work.sectors_written.bytes()),
            Self::Reads => per_second(work.reads),
            Self::Writes => per_second(work.writes),
            Self::ReadAwaitMs => per_request(f64::from(work.read_ms), work.reads),
            Self::WriteAwaitMs => per_request(f64::from(work.write_ms), work.writes),
            Self::ReadRequestBytes => per_request(work.sectors_read.bytes() as f64, work.reads),
            Self::WriteRequestBytes => per_request(work.sectors_written.bytes() as f64, work.writes),
            Self::QueueDepth => Observation::ratio(f64::from(work.queue_ms), seconds * 1e3),
            // The kernel counts in steps of its clock and may say a little more than there was.
            Self::Utilisation => {
                Observation::ratio(f64::from(work.busy_ms).min(seconds * 1e3), seconds * 1e3)
            }
        }
    }
}

impl VolumeQuantity {
    pub const NAMES: &str = "fill_percent, used_bytes, metadata_percent";

    pub fn observe(self, volume: &VolumeState) -> Option<Observation> {
        let value = match self {
            Self::FillPercent => volume.fill?.percent(),
            Self::UsedBytes => volume.fill.filter(|fill| fill.unit > 0)?.used_bytes() as f64,
            Self::MetadataPercent => volume.metadata?.percent(),
        };
        Some(Observation::gauge(value))
    }
}

impl ShareQuantity {
    pub const NAMES: &str = "copy_read_bytes, copy_written_bytes";

    pub fn observe(self, share: &Share, elapsed_us: u64) -> Option<Observation> {
        let bytes = match self {
            Self::CopyReadBytes => share.read,
            Self::CopyWrittenBytes => share.written,
        };
        Observation::ratio(bytes as f64, elapsed_us as f64 / 1e6)
    }
}

impl EstimateQuantity {
    pub const NAMES: &str = "estimated_percent, estimated_low_percent, estimated_high_percent";

    pub fn observe(self, estimate: &Estimate) -> Observation {
        Observation::gauge(match self {
            Self::EstimatedPercent => estimate.likely.percent(),
            Self::EstimatedLowPercent => estimate.low.percent(),
            Self::EstimatedHighPercent => estimate.high.percent(),
        })
    }
}

impl HostQuantity {
    pub const NAMES: &str = "bi_kib_per_s, bo_kib_per_s, user, system, iowait, blocked, pressure_io_some";

    pub fn observe(self, host: &Host, elapsed_us: u64) -> Option<Observation> {
        let per_second = |amount: u64| Observation::ratio(amount as f64, elapsed_us as f64 / 1e6);
        let share = |part: u64, total: u64| Observation::ratio(part as f64, total as f64);
        match self {
            Self::BiKibPerS => per_second(host.paged_kib?.0),
            Self::BoKibPerS => per_second(host.paged_kib?.1),
            Self::User => share(host.cpu?.user, host.cpu?.total),
            Self::System => share(host.cpu?.system, host.cpu?.total),
            Self::Iowait => share(host.cpu?.iowait, host.cpu?.total),
            Self::Blocked => Some(Observation::gauge(f64::from(host.blocked?))),
            Self::PressureIoSome => {
                Observation::ratio(host.pressure_us?.min(elapsed_us) as f64, elapsed_us as f64)
            }
        }
    }
}

/// Anything that a series can be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    Device(DeviceQuantity),
    Share(ShareQuantity),
    Estimate(EstimateQuantity),
    Volume(VolumeQuantity),
    Host(HostQuantity),
}

/// Understands the name of a quantity, as serde spells it.
pub fn named<'a, Q: Deserialize<'a>>(name: &'a str) -> Option<Q> {
    let name: serde::de::value::StrDeserializer<'a, serde::de::value::Error> =
        serde::de::IntoDeserializer::into_deserializer(name);
    Q::deserialize(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Sectors;

    #[test]
    fn quantities_are_what_iostat_says() {
        let work = Work {
            reads: 100,
            sectors_read: Sectors(20_480),
            read_ms: 250,
            writes: 0,
            busy_ms: 1_010,
            queue_ms: 3_000,
            ..Work::default()
        };
        let value = |quantity: DeviceQuantity| quantity.observe(&work, 1_000_000).map(Observation::value);
        assert_eq!(value(DeviceQuantity::ReadBytes), Some(10_485_760.0));
        assert_eq!(value(DeviceQuantity::ReadAwaitMs), Some(2.5));
        assert_eq!(value(DeviceQuantity::WriteAwaitMs), None, "no write was made");
        assert_eq!(value(DeviceQuantity::Writes), Some(0.0));
        assert_eq!(value(DeviceQuantity::QueueDepth), Some(3.0));
        assert_eq!(value(DeviceQuantity::Utilisation), Some(1.0));
    }

    #[test]
    fn nothing_is_known_of_no_time() {
        assert_eq!(DeviceQuantity::ReadBytes.observe(&Work::default(), 0), None);
    }

    #[test]
    fn names_are_those_of_the_api() {
        assert_eq!(named("read_bytes"), Some(DeviceQuantity::ReadBytes));
        assert_eq!(named::<HostQuantity>("bogus"), None);
        for name in DeviceQuantity::NAMES.split(", ") {
            assert!(named::<DeviceQuantity>(name).is_some(), "{name}");
        }
        for name in ShareQuantity::NAMES.split(", ") {
            assert!(named::<ShareQuantity>(name).is_some(), "{name}");
        }
        for name in EstimateQuantity::NAMES.split(", ") {
            assert!(named::<EstimateQuantity>(name).is_some(), "{name}");
        }
        for name in HostQuantity::NAMES.split(", ") {
            assert!(named::<HostQuantity>(name).is_some(), "{name}");
        }
    }
}
