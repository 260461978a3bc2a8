//! The two text formats of metrics, and which one a client wants.
//!
//! Samples are the same in both. In Prometheus text 0.0.4, the description of a counter or info has the ending of its samples,
//! there are no units, and no end.

use std::fmt::Write;

use crate::forecast::{Eta, EtaBasis};
use crate::store::escaped_label;

/// The last word of a name, if it is a unit. Flags, states and properties have none.
const UNITS: [&str; 11] = [
    "pvs",
    "bytes",
    "seconds",
    "ratio",
    "requests",
    "ticks",
    "entries",
    "samples",
    "jobs",
    "reloads",
    "deliveries",
];

/// A format of `/metrics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpositionFormat {
    OpenMetrics,
    /// Prometheus text 0.0.4, which all understand.
    Classic,
}

impl ExpositionFormat {
    /// The format for a header `Accept`: OpenMetrics if it is wanted at least as much as other text.
    pub fn wanted(accept: &str) -> Self {
        let open = quality(accept, "application/openmetrics-text").unwrap_or(0.0);
        let classic = quality(accept, "text/plain").unwrap_or(0.0);
        if open > 0.0 && open >= classic {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// How much a client wants a kind, from 0 to 1; `None` if it does not name it.
fn quality(accept: &str, kind: &str) -> Option<f64> {
    let entries = accept
        .split(',')
        .map(|entry| entry.split(';').map(str::trim));
    let qualities = entries.filter_map(|mut entry| {
        let is_it = entry.next()?.eq_ignore_ascii_case(kind);
        let quality = entry.find_map(|parameter| parameter.strip_prefix("q=")?.parse().ok());
        is_it.then(|| quality.unwrap_or(1.0))
    });
    qualities.reduce(f64::max)
}

/// The labels of a subject, as text: `vg="vg0",lv="data"`. An empty value is left out, which means the same.
#[derive(Clone, Debug, Default)]
pub struct Labels(String);

impl Labels {
    pub fn of<const COUNT: usize>(labels: [(&str, &str); COUNT]) -> Self {
        Self::default().and(labels)
    }

    pub fn and<const COUNT: usize>(mut self, labels: [(&str, &str); COUNT]) -> Self {
        for (name, value) in labels {
            if !value.is_empty() {
                self = self.with(name, value);
            }
        }
        self
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        let comma = if self.0.is_empty() { "" } else { "," };
        self.0
            .extend([comma, name, "=\"", &*escaped_label(value), "\""]);
        self
    }
}

#[derive(Clone, Copy, PartialEq)]
enum FamilyKind {
    Counter,
    Gauge,
    /// States of which one is 1. The state is in a label of the metric's own name, as OpenMetrics wants it.
    StateSet,
    /// Properties as labels; the value is 1.
    Info,
}

impl FamilyKind {
    /// What the names of samples end in.
    fn ending(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::StateSet => "",
        }
    }

    fn word(self, format: ExpositionFormat) -> &'static str {
        match (self, format) {
            (Self::Counter, _) => "counter",
            (Self::StateSet, ExpositionFormat::OpenMetrics) => "stateset",
            (Self::Info, ExpositionFormat::OpenMetrics) => "info",
            (Self::Gauge | Self::StateSet | Self::Info, _) => "gauge",
        }
    }
}

/// The text of `/metrics`. A sample whose value is unknown is left out.
pub struct Exposition {
    format: ExpositionFormat,
    text: String,
}

impl Exposition {
    /// `size` is about how long the text will be.
    pub fn new(format: ExpositionFormat, size: usize) -> Self {
        Self {
            format,
            text: String::with_capacity(size),
        }
    }

    pub fn counter(&mut self, name: &str, help: &str, value: impl Into<Option<f64>>) {
        self.counters(name, help, [(&Labels::default(), value.into())]);
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: impl Into<Option<f64>>) {
        self.gauges(name, help, [(&Labels::default(), value.into())]);
    }

    pub fn counters<'l>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (&'l Labels, Option<f64>)>,
    ) {
        self.numbers(FamilyKind::Counter, name, help, rows);
    }

    pub fn gauges<'l>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (&'l Labels, Option<f64>)>,
    ) {
        self.numbers(FamilyKind::Gauge, name, help, rows);
    }

    fn numbers<'l>(
        &mut self,
        kind: FamilyKind,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (&'l Labels, Option<f64>)>,
    ) {
        self.describe(kind, name, help);
        for (labels, value) in rows {
            if let Some(value) = value {
                self.sample(kind, name, labels, value);
            }
        }
    }

    /// For each subject, its possible states and the current one.
    pub fn states<'l>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (&'l Labels, &'l [&'l str], &'l str)>,
    ) {
        self.describe(FamilyKind::StateSet, name, help);
        for (labels, states, current) in rows {
            for state in states {
                let labels = labels.clone().with(name, state);
                let value = if *state == current { 1.0 } else { 0.0 };
                self.sample(FamilyKind::StateSet, name, &labels, value);
            }
        }
    }

    /// Labels are those of the subject, and its properties.
    pub fn infos(&mut self, name: &str, help: &str, rows: impl IntoIterator<Item = Labels>) {
        self.describe(FamilyKind::Info, name, help);
        for labels in rows {
            self.sample(FamilyKind::Info, name, &labels, 1.0);
        }
    }

    /// Times until an event, with their ranges: three families, since no sum or mean over all three would mean anything.
    pub fn times<'l>(
        &mut self,
        name: &str,
        event: &str,
        help: &str,
        rows: impl IntoIterator<Item = (&'l Labels, Eta)>,
    ) {
        let with_basis = |(labels, eta): (&Labels, Eta)| {
            let basis = match eta.basis {
                EtaBasis::Tested => "tested",
                EtaBasis::RecentSpeed => "recent_speed",
            };
            (labels.clone().with("basis", basis), eta)
        };
        let rows: Vec<(Labels, Eta)> = rows.into_iter().map(with_basis).collect();
        let least = format!("Time until {event}: in 19 of 20 cases it takes longer.");
        let most = format!(
            "Time until {event}: in 19 of 20 cases it takes less. Absent if it may never be {event}."
        );
        let mut write = |suffix: &str, help: &str, time: fn(&Eta) -> Option<f64>| {
            let rows = rows.iter().map(|(labels, eta)| (labels, time(eta)));
            self.gauges(&format!("{name}{suffix}_seconds"), help, rows);
        };
        write("", help, |eta| eta.likely_s);
        write("_soonest", &least, |eta| Some(eta.soonest_s));
        write("_latest", &most, |eta| eta.latest_s);
    }

    pub fn finish(mut self) -> String {
        if self.format == ExpositionFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn describe(&mut self, kind: FamilyKind, name: &str, help: &str) {
        let ending = match self.format {
            ExpositionFormat::OpenMetrics => "",
            ExpositionFormat::Classic => kind.ending(),
        };
        let word = kind.word(self.format);
        let text = &mut self.text;
        let _ = writeln!(text, "# HELP {name}{ending} {help}");
        let _ = writeln!(text, "# TYPE {name}{ending} {word}");
        let last = name.rsplit('_').next().unwrap_or_default();
        if self.format == ExpositionFormat::OpenMetrics && UNITS.contains(&last) {
            let _ = writeln!(text, "# UNIT {name} {last}");
        }
    }

    fn sample(&mut self, kind: FamilyKind, name: &str, Labels(labels): &Labels, value: f64) {
        let _ = writeln!(self.text, "{name}{}{{{labels}}} {value}", kind.ending());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_clients_that_want_it() {
        const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
            version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, expected) in [
            (PROMETHEUS, ExpositionFormat::OpenMetrics),
            ("", ExpositionFormat::Classic),
            ("*/*", ExpositionFormat::Classic),
            ("text/plain", ExpositionFormat::Classic),
            (
                "text/plain, application/openmetrics-text; q=0.5",
                ExpositionFormat::Classic,
            ),
            (
                "application/openmetrics-text;q=0",
                ExpositionFormat::Classic,
            ),
            (
                "Application/OpenMetrics-Text",
                ExpositionFormat::OpenMetrics,
            ),
            (
                "application/openmetrics-text;q=x,,;",
                ExpositionFormat::OpenMetrics,
            ),
        ] {
            assert_eq!(ExpositionFormat::wanted(accept), expected, "{accept}");
        }
    }
}
