//! The quantities of series, and how to derive them from an interval.

use serde::{Deserialize, Serialize};

use super::Observation;
use crate::interval::copying::Share;
use crate::interval::{Host, Work};
use crate::topology::VolumeState;
use crate::units::{Fill, SECTOR};

/// Durations are in microseconds.
const PER_SECOND: f64 = 1e6;

/// Quantities of a device, named as in the API's `metric`.
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

/// Quantities of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeQuantity {
    FillPercent,
    UsedBytes,
    MetadataPercent,
}

/// Copying for snapshots as a part of a PV's I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShareQuantity {
    CopyReadBytes,
    CopyWrittenBytes,
}

/// Quantities of the host.
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
    /// The quantity in one tick; per-request quantities are `None` without requests.
    pub fn observe(self, work: &Work, elapsed_us: u64) -> Option<Observation> {
        let (amount, over) = match self {
            Self::ReadBytes => (work.sectors_read.0, elapsed_us),
            Self::WrittenBytes => (work.sectors_written.0, elapsed_us),
            Self::Reads => (work.reads, elapsed_us),
            Self::Writes => (work.writes, elapsed_us),
            Self::ReadAwaitMs => (work.read_ms.into(), work.reads),
            Self::WriteAwaitMs => (work.write_ms.into(), work.writes),
            Self::ReadRequestBytes => (work.sectors_read.0, work.reads),
            Self::WriteRequestBytes => (work.sectors_written.0, work.writes),
            Self::QueueDepth => (work.queue_ms.into(), elapsed_us),
            // The kernel counts busy time in clock ticks and can exceed the elapsed time slightly.
            Self::Utilisation => ((u64::from(work.busy_ms) * 1000).min(elapsed_us), elapsed_us),
        };
        Observation::ratio(amount, over, self.scale())
    }

    /// The value in one tick.
    pub fn value(self, work: Option<Work>, elapsed_us: u64) -> Option<f64> {
        self.observe(&work?, elapsed_us).map(Observation::value)
    }

    /// Converts counted units to the quantity's unit.
    pub fn scale(self) -> f64 {
        match self {
            Self::ReadBytes | Self::WrittenBytes => SECTOR as f64 * PER_SECOND,
            Self::Reads | Self::Writes => PER_SECOND,
            Self::ReadRequestBytes | Self::WriteRequestBytes => SECTOR as f64,
            Self::QueueDepth => PER_SECOND / 1e3,
            Self::ReadAwaitMs | Self::WriteAwaitMs | Self::Utilisation => 1.0,
        }
    }
}

impl VolumeQuantity {
    pub fn observe(self, volume: &VolumeState) -> Option<Observation> {
        Some(match self {
            Self::FillPercent => percent(volume.fill?),
            Self::UsedBytes => {
                Observation::gauge(volume.fill.filter(|fill| fill.unit > 0)?.used_bytes())
            }
            Self::MetadataPercent => percent(volume.metadata?),
        })
    }
}

/// To the hundredth, as in `lvs`.
fn percent(fill: Fill) -> Observation {
    Observation {
        amount: (fill.percent() * 100.0).round() as u64,
        over: 100,
        scale: 1.0,
    }
}

impl ShareQuantity {
    pub fn observe(self, share: &Share, elapsed_us: u64) -> Option<Observation> {
        let bytes = match self {
            Self::CopyReadBytes => share.read,
            Self::CopyWrittenBytes => share.written,
        };
        Observation::ratio(bytes, elapsed_us, PER_SECOND)
    }
}

impl HostQuantity {
    pub fn observe(self, host: &Host, elapsed_us: u64) -> Option<Observation> {
        let share = |part: u64, total: u64| Observation::ratio(part, total, 1.0);
        match self {
            Self::BiKibPerS => Observation::ratio(host.paged_kib?.0, elapsed_us, self.scale()),
            Self::BoKibPerS => Observation::ratio(host.paged_kib?.1, elapsed_us, self.scale()),
            Self::User => share(host.cpu?.user, host.cpu?.total),
            Self::System => share(host.cpu?.system, host.cpu?.total),
            Self::Iowait => share(host.cpu?.iowait, host.cpu?.total),
            Self::Blocked => Some(Observation::gauge(host.blocked?.into())),
            Self::PressureIoSome => share(host.pressure_us?.min(elapsed_us), elapsed_us),
        }
    }

    /// The value in one tick.
    pub fn value(self, host: &Host, elapsed_us: u64) -> Option<f64> {
        self.observe(host, elapsed_us).map(Observation::value)
    }

    /// Converts counted units to the quantity's unit.
    pub fn scale(self) -> f64 {
        match self {
            Self::BiKibPerS | Self::BoKibPerS => PER_SECOND,
            _ => 1.0,
        }
    }
}

/// Any quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Quantity {
    Device(DeviceQuantity),
    Share(ShareQuantity),
    Volume(VolumeQuantity),
    Host(HostQuantity),
}

impl Quantity {
    /// The name in the API's `metric`.
    pub fn name(self) -> String {
        crate::source::variant_name(self)
    }

    /// Converts counted units to the quantity's unit.
    pub fn scale(self) -> f64 {
        match self {
            Self::Device(quantity) => quantity.scale(),
            Self::Host(quantity) => quantity.scale(),
            Self::Share(_) => PER_SECOND,
            Self::Volume(_) => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Sectors;

    #[test]
    fn quantities_match_iostat() {
        let work = Work {
            reads: 100,
            sectors_read: Sectors(20_480),
            read_ms: 250,
            writes: 0,
            busy_ms: 1_010,
            queue_ms: 3_000,
            ..Work::default()
        };
        let value =
            |quantity: DeviceQuantity| quantity.observe(&work, 1_000_000).map(Observation::value);
        assert_eq!(value(DeviceQuantity::ReadBytes), Some(10_485_760.0));
        assert_eq!(value(DeviceQuantity::ReadAwaitMs), Some(2.5));
        assert_eq!(
            value(DeviceQuantity::WriteAwaitMs),
            None,
            "no write was made"
        );
        assert_eq!(value(DeviceQuantity::Writes), Some(0.0));
        assert_eq!(value(DeviceQuantity::QueueDepth), Some(3.0));
        assert_eq!(value(DeviceQuantity::Utilisation), Some(1.0));
    }

    #[test]
    fn rates_without_time_are_unknown() {
        assert_eq!(DeviceQuantity::ReadBytes.observe(&Work::default(), 0), None);
    }
}
