//! Subjects of series and their names in the API: `device:sda`, `volume:vg0/data`, `total` or `vm`, and a metric.

use anyhow::{Context, bail};

use super::address::{Kind, Stream};
use super::catalog::Catalog;
use crate::quantity::Quantity;

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

/// One requested series.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesKey {
    pub subject: Subject,
    pub quantity: Quantity,
}

impl Subject {
    /// Understands the API's `of`.
    pub fn named(of: &str) -> anyhow::Result<Self> {
        match of.split_once(':') {
            Some(("device", name)) => Ok(Self::Device(name.into())),
            Some(("volume", name)) => Ok(Self::Volume(name.into())),
            None if of == "total" => Ok(Self::Total),
            None if of == "vm" => Ok(Self::Host),
            _ => bail!(
                "expected `of` to be device:<name or uuid>, volume:<vg/lv or uuid>, total or vm, but found `{of}`"
            ),
        }
    }

    /// Understands the API's `metric`. The error names those that it has.
    pub fn quantity(&self, metric: &str) -> anyhow::Result<Quantity> {
        let all = || {
            self.kinds()
                .iter()
                .flat_map(|kind| kind.quantities())
                .copied()
        };
        all()
            .find(|quantity| quantity.name() == metric)
            .with_context(|| {
                let names: Vec<&str> = all().map(Quantity::name).collect();
                format!(
                    "expected `metric` to be one of {}, but found `{metric}`",
                    names.join(", ")
                )
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

    /// The kinds of its quantities.
    fn kinds(&self) -> &'static [Kind] {
        match self {
            Self::Device(_) => &[Kind::Device, Kind::Copying],
            Self::Volume(_) => &[Kind::Volume, Kind::Device],
            Self::Total => &[Kind::Device],
            Self::Host => &[Kind::Host],
        }
    }
}

impl SeriesKey {
    /// Understands the API's `of` and `metric`.
    pub fn named(of: &str, metric: &str) -> anyhow::Result<Self> {
        let subject = Subject::named(of)?;
        let quantity = subject.quantity(metric)?;
        Ok(Self { subject, quantity })
    }

    /// The stream that it is in; `None` if the subject was never seen or has no such quantity.
    pub(super) fn stream(&self, catalog: &Catalog) -> Option<Stream> {
        let own = self.subject.stream(catalog)?;
        let kind = self.quantity.kind();
        match (own.kind, kind) {
            (Kind::Volume, Kind::Device) => {
                Some(Stream::new(kind, catalog.device_of_volume(own.row)?))
            }
            (Kind::Device, Kind::Copying) if own != Stream::TOTAL => {
                Some(Stream::new(kind, own.row))
            }
            _ => (own.kind == kind).then_some(own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Quantity;

    #[test]
    fn api_names_parse() {
        let quantity = |of: &str, metric: &str| SeriesKey::named(of, metric).unwrap().quantity;
        assert_eq!(quantity("total", "read_bytes"), Quantity::ReadBytes);
        assert_eq!(
            quantity("device:sda", "copy_read_bytes"),
            Quantity::CopyReadBytes
        );
        assert_eq!(
            quantity("volume:vg0/data", "used_bytes"),
            Quantity::UsedBytes
        );
        for kind in Kind::ALL {
            let subject = match kind {
                Kind::Host => "vm",
                Kind::Device | Kind::Copying => "device:sda",
                Kind::Volume => "volume:vg0/data",
            };
            for known in kind.quantities() {
                assert_eq!(quantity(subject, known.name()), *known);
            }
        }
    }

    #[test]
    fn what_is_no_name_is_refused_with_the_names_that_there_are() {
        let refused =
            |of: &str, metric: &str| SeriesKey::named(of, metric).unwrap_err().to_string();
        assert_eq!(
            refused("vm", "bogus"),
            "expected `metric` to be one of bi_kib_per_s, bo_kib_per_s, user, system, iowait, blocked, \
             pressure_io_some, but found `bogus`"
        );
        assert_eq!(
            refused("volume:vg0/data", "copy_read_bytes"),
            "expected `metric` to be one of fill_percent, used_bytes, metadata_percent, read_bytes, \
             written_bytes, reads, writes, read_await_ms, write_await_ms, read_request_bytes, \
             write_request_bytes, queue_depth, utilisation, but found `copy_read_bytes`"
        );
        assert!(refused("sda", "reads").starts_with("expected `of` to be device:<name or uuid>, "));
    }
}
