//! Families of metrics, and how their rows are written. A row whose value is unknown is left out.
//!
//! What the families are stands in the modules of what they are about.

use std::fmt;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, LabelSetEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use crate::store::escaped_label;

/// A name and its value.
type Label<'a> = (&'static str, &'a str);

/// The labels of a subject, as text up to the last name, and the last value: a subject has many rows. An empty value is
/// left out, which means the same.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    head: String,
    last: String,
}

impl Labels {
    pub fn of<const COUNT: usize>(labels: [Label; COUNT]) -> Self {
        let known = labels.into_iter().filter(|(_, value)| !value.is_empty());
        known.fold(Self::default(), |labels, label| labels.with(label))
    }

    pub fn with(mut self, (name, value): Label) -> Self {
        if !self.head.is_empty() {
            self.head.extend(["=\"", &escaped_label(&self.last), "\","]);
        }
        self.head.push_str(name);
        self.last = value.into();
        self
    }
}

impl EncodeLabelSet for &Labels {
    fn encode(&self, encoder: &mut LabelSetEncoder) -> fmt::Result {
        if self.head.is_empty() {
            return Ok(());
        }
        (&*self.head, &*self.last).encode(encoder.encode_label())
    }
}

/// Numbers of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Without unit and `_total`.
    pub name: &'static str,
    /// The base unit; empty for a number that has none.
    pub unit: &'static str,
    pub help: &'static str,
}

/// States of which one is true, or properties as labels.
#[derive(Clone, Copy, Debug)]
pub struct LabelFamily {
    pub name: &'static str,
    pub help: &'static str,
}

/// Writes families.
pub struct Families<'a>(DescriptorEncoder<'a>);

impl<'a> Families<'a> {
    pub fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    pub fn counters<'r>(
        &mut self,
        family: &Family,
        rows: impl Iterator<Item = (&'r Labels, Option<f64>)>,
    ) -> fmt::Result {
        self.numbers(family, MetricType::Counter, rows, |row, value| {
            row.encode_counter::<NoLabelSet, f64, f64>(&value, None)
        })
    }

    pub fn gauges<'r>(
        &mut self,
        family: &Family,
        rows: impl Iterator<Item = (&'r Labels, Option<f64>)>,
    ) -> fmt::Result {
        self.numbers(family, MetricType::Gauge, rows, |row, value| {
            row.encode_gauge(&value)
        })
    }

    fn numbers<'r>(
        &mut self,
        family: &Family,
        kind: MetricType,
        rows: impl Iterator<Item = (&'r Labels, Option<f64>)>,
        write: impl Fn(&mut MetricEncoder, f64) -> fmt::Result,
    ) -> fmt::Result {
        let unit = Some(Unit::Other(family.unit.into())).filter(|_| !family.unit.is_empty());
        let mut encoder =
            self.0
                .encode_descriptor(family.name, family.help, unit.as_ref(), kind)?;
        for (labels, value) in rows {
            if let Some(value) = value {
                write(&mut encoder.encode_family(&labels)?, value)?;
            }
        }
        Ok(())
    }

    /// A row for each state, of which the current one is 1.
    pub fn states<'r>(
        &mut self,
        family: &LabelFamily,
        rows: impl Iterator<Item = (&'r Labels, &'r [&'r str], &'r str)>,
    ) -> fmt::Result {
        // The crate has no type for state sets; see `exposition`.
        let mut encoder =
            self.0
                .encode_descriptor(family.name, family.help, None, MetricType::Unknown)?;
        for (labels, states, current) in rows {
            for state in states {
                encoder
                    .encode_family(&(labels, [(family.name, *state)]))?
                    .encode_gauge(&u32::from(*state == current))?;
            }
        }
        Ok(())
    }

    /// A row of properties for each subject.
    pub fn infos<'r>(
        &mut self,
        family: &LabelFamily,
        rows: impl Iterator<Item = (&'r Labels, Labels)>,
    ) -> fmt::Result {
        let mut encoder =
            self.0
                .encode_descriptor(family.name, family.help, None, MetricType::Info)?;
        for (labels, properties) in rows {
            encoder.encode_info(&(labels, &properties))?;
        }
        Ok(())
    }
}
