//! Subjects of series and their names in the API: `device:sda`, `volume:vg0/data`, `total` or `vm`, and a metric.

use super::catalog::Catalog;
use super::stream::{Kind, Stream};
use crate::series::quantity::{DeviceQuantity, HostQuantity, Quantity, ShareQuantity, VolumeQuantity, named};

/// The subject of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A device by identity, kernel name or label: the one that had the name last.
    Device(String),
    /// A volume by `vg/lv` or UUID. Its device has the quantities of I/O.
    Volume(String),
    /// The host's total, which counts each byte once.
    Total,
    Host,
}

/// One series that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesKey {
    pub subject: Subject,
    pub quantity: Quantity,
}

/// Words that name no subject, or a metric that it does not have: a sentence with those that it has.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

impl Subject {
    /// Understands the API's `of`.
    pub fn named(of: &str) -> Result<Self, NameError> {
        match of.split_once(':') {
            Some(("device", name)) => Ok(Self::Device(name.into())),
            Some(("volume", name)) => Ok(Self::Volume(name.into())),
            None if of == "total" => Ok(Self::Total),
            None if of == "vm" => Ok(Self::Host),
            _ => Err(NameError(format!(
                "expected `of` to be device:<name or uuid>, volume:<vg/lv or uuid>, total or vm, but found `{of}`"
            ))),
        }
    }

    /// Understands the API's `metric`.
    pub fn quantity(&self, metric: &str) -> Result<Quantity, NameError> {
        let device = || named::<DeviceQuantity>(metric).map(Quantity::Device);
        let share = || named::<ShareQuantity>(metric).map(Quantity::Share);
        let fill = || named::<VolumeQuantity>(metric).map(Quantity::Volume);
        let quantity = match self {
            Self::Device(_) => device().or_else(share),
            Self::Volume(_) => fill().or_else(device),
            Self::Total => device(),
            Self::Host => named::<HostQuantity>(metric).map(Quantity::Host),
        };
        let names = || self.metrics().join(", ");
        quantity.ok_or_else(|| {
            NameError(format!("expected `metric` to be one of {}, but found `{metric}`", names()))
        })
    }

    /// The stream of its own quantities; `None` if it was never seen.
    pub(super) fn stream(&self, catalog: &Catalog) -> Option<Stream> {
        match self {
            Self::Device(name) => Some(Stream::new(Kind::Device, catalog.device_named(name)?)),
            Self::Volume(name) => Some(Stream::new(Kind::Volume, catalog.volume_named(name)?)),
            Self::Total => Some(Stream::TOTAL),
            Self::Host => Some(Stream::HOST),
        }
    }

    /// The names of all that it has.
    fn metrics(&self) -> Vec<&'static str> {
        match self {
            Self::Device(_) => vec![DeviceQuantity::NAMES, ShareQuantity::NAMES],
            Self::Volume(_) => vec![VolumeQuantity::NAMES, DeviceQuantity::NAMES],
            Self::Total => vec![DeviceQuantity::NAMES],
            Self::Host => vec![HostQuantity::NAMES],
        }
    }
}

impl SeriesKey {
    /// Understands the API's `of` and `metric`.
    pub fn named(of: &str, metric: &str) -> Result<Self, NameError> {
        let subject = Subject::named(of)?;
        let quantity = subject.quantity(metric)?;
        Ok(Self { subject, quantity })
    }

    /// The stream that it is in; `None` if the subject was never seen or has no such quantity.
    pub(super) fn stream(&self, catalog: &Catalog) -> Option<Stream> {
        let (own, kind) = (self.subject.stream(catalog)?, self.quantity.into());
        match (own.kind, kind) {
            (Kind::Volume, Kind::Device) => Some(Stream::new(kind, catalog.device_of_volume(own.row)?)),
            (Kind::Device, Kind::Copying) if own != Stream::TOTAL => Some(Stream::new(kind, own.row)),
            _ => (own.kind == kind).then_some(own),
        }
    }
}
