//! The figures of a job by name and unit, as rows of tables.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::figures::{EndMeans, Figures, OriginWork, PvWork};
use crate::job::statistics::{Correlation, Spread};
use crate::units::{Prefix, bytes_text, duration_text, percent_text, three_figures};

/// The figure that every ended job has.
pub const DURATION: &str = "duration";
/// Shorter times are shown with fractions of a second.
const MOST_WITH_FIGURES_S: f64 = 100.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    Seconds,
    Bytes,
    /// Bytes a second.
    Rate,
    /// A size of requests, in powers of two.
    Size,
    KibPerS,
    PerS,
    Percent,
    /// From 0 to 1.
    Share,
    Ms,
    Number,
}

/// One figure of a job; `None` if unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figure {
    pub name: String,
    pub unit: Unit,
    pub value: Option<f64>,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes | Self::Size => "B",
            Self::Rate => "B/s",
            Self::KibPerS => "KiB/s",
            Self::PerS => "1/s",
            Self::Percent => "%",
            Self::Share | Self::Number => "1",
            Self::Ms => "ms",
        }
    }

    pub fn text(self, value: f64, prefix: Prefix) -> String {
        match self {
            Self::Seconds if value.abs() < MOST_WITH_FIGURES_S => {
                format!("{} s", three_figures(value))
            }
            Self::Seconds => duration_text(value),
            Self::Bytes => bytes_text(value, prefix),
            Self::Size => bytes_text(value, Prefix::Binary),
            Self::Rate => format!("{}/s", bytes_text(value, prefix)),
            Self::Share => format!("{} %", three_figures(value * 100.0)),
            Self::Number => three_figures(value),
            // As lists write it: 99.99 % is not full yet.
            Self::Percent => percent_text(value),
            Self::KibPerS | Self::PerS | Self::Ms => {
                format!("{} {}", three_figures(value), self.name())
            }
        }
    }
}

/// All figures of a job, always in the same order.
pub fn figures(of: &Figures) -> Vec<Figure> {
    let mut list = List::default();
    list.push(DURATION, Unit::Seconds, of.seconds);
    list.reading(of);
    list.filling(of);
    for (phase, work) in [
        ("before", of.origin.before),
        ("during", of.origin.during),
        ("after", of.origin.after),
    ] {
        list.origin(phase, work);
    }
    of.pvs.iter().for_each(|pv| list.pv(pv));
    list.push("user", Unit::Share, of.host.user);
    list.push("system", Unit::Share, of.host.system);
    list.push("iowait", Unit::Share, of.host.iowait);
    list.push("pressure io", Unit::Share, of.host.pressure_io);
    list.0
}

#[derive(Default)]
struct List(Vec<Figure>);

impl List {
    fn push(&mut self, name: &str, unit: Unit, value: Option<f64>) {
        self.0.push(Figure {
            name: name.into(),
            unit,
            value: value.filter(|value| value.is_finite()),
        });
    }

    fn spread(&mut self, name: &str, unit: Unit, spread: Option<Spread>) {
        self.push(
            &format!("{name} mean"),
            unit,
            spread.map(|spread| spread.mean),
        );
        self.push(
            &format!("{name} median"),
            unit,
            spread.map(|spread| spread.median),
        );
        self.push(
            &format!("{name} 5th percentile"),
            unit,
            spread.map(|spread| spread.p5),
        );
        self.push(
            &format!("{name} 95th percentile"),
            unit,
            spread.map(|spread| spread.p95),
        );
    }

    fn ends(&mut self, name: &str, unit: Unit, ends: Option<EndMeans>) {
        self.push(
            &format!("{name} at the beginning"),
            unit,
            ends.map(|ends| ends.first),
        );
        self.push(
            &format!("{name} at the end"),
            unit,
            ends.map(|ends| ends.last),
        );
    }

    fn relation(&mut self, name: &str, unit: Unit, known: Option<Correlation>) {
        self.push(
            &format!("{name} slope"),
            unit,
            known.map(|known| known.slope),
        );
        self.push(
            &format!("{name} rank correlation"),
            Unit::Number,
            known.map(|known| known.rank),
        );
    }

    fn reading(&mut self, of: &Figures) {
        self.push("bytes read", Unit::Bytes, of.read.map(|read| read.bytes));
        self.push(
            "time of reading",
            Unit::Seconds,
            of.read.map(|read| read.seconds),
        );
        self.spread("read speed", Unit::Rate, of.read.map(|read| read.speed));
        self.ends("read speed", Unit::Rate, of.read.and_then(|read| read.ends));
        self.push(
            "bytes written",
            Unit::Bytes,
            of.written.map(|written| written.bytes),
        );
        self.spread(
            "write speed",
            Unit::Rate,
            of.written.map(|written| written.speed),
        );
        self.ends(
            "write speed",
            Unit::Rate,
            of.written.and_then(|written| written.ends),
        );
        self.push("bi", Unit::KibPerS, of.bi.map(|bi| bi.mean));
        self.push("bo", Unit::KibPerS, of.bo.map(|bo| bo.mean));
        self.relation(
            "read speed by fill",
            Unit::Rate,
            of.read_by_fill.correlation(),
        );
        self.relation(
            "read speed by first writes",
            Unit::Number,
            of.read_by_first_writes.correlation(),
        );
    }

    fn filling(&mut self, of: &Figures) {
        self.push(
            "peak fill",
            Unit::Percent,
            of.fill.map(|fill| fill.peak_percent),
        );
        self.push(
            "peak fill bytes",
            Unit::Bytes,
            of.fill.and_then(|fill| Some(fill.peak_bytes? as f64)),
        );
        self.spread("first writes", Unit::Rate, of.copied.first_writes);
        self.push("chunks copied", Unit::PerS, of.copied.chunks_per_s);
        self.push("written to the COW area", Unit::Bytes, of.copied.cow_bytes);
        self.push(
            "bytes on disk per byte written",
            Unit::Number,
            of.copied.write_cost,
        );
    }

    fn origin(&mut self, phase: &str, work: OriginWork) {
        self.push(
            &format!("origin read {phase}"),
            Unit::Rate,
            work.read_bytes_per_s,
        );
        self.push(
            &format!("origin written {phase}"),
            Unit::Rate,
            work.written_bytes_per_s,
        );
        self.push(
            &format!("origin writes {phase}"),
            Unit::PerS,
            work.writes_per_s,
        );
        self.push(
            &format!("origin write request {phase}"),
            Unit::Size,
            work.write_request_bytes,
        );
        self.push(
            &format!("origin write latency {phase}"),
            Unit::Ms,
            work.write_await_ms,
        );
    }

    fn pv(&mut self, pv: &PvWork) {
        let name = &pv.name;
        self.push(&format!("{name} read"), Unit::Rate, pv.read_bytes_per_s);
        self.push(
            &format!("{name} written"),
            Unit::Rate,
            pv.written_bytes_per_s,
        );
        self.push(&format!("{name} busy"), Unit::Share, pv.utilisation);
        self.ends(&format!("{name} read latency"), Unit::Ms, pv.read_await_ms);
        self.ends(
            &format!("{name} read request"),
            Unit::Size,
            pv.read_request_bytes,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::course::{Course, Span, Tick};
    use crate::job::setup::Setup;
    use crate::job::tests::example::{MEASURES, PV_MEASURES};

    fn course() -> Course {
        let ticks = (1..=40)
            .map(|second| Tick {
                end_s: f64::from(second),
                seconds: 1.0,
            })
            .collect();
        let mut span = Span::new(ticks).unwrap();
        for measure in MEASURES {
            span = span
                .with(
                    measure,
                    (0..40).map(|value| Some(f64::from(value) / 40.0)).collect(),
                )
                .unwrap();
        }
        for measure in PV_MEASURES {
            span = span.with_pv("sda", measure, vec![Some(0.5); 40]).unwrap();
        }
        Course {
            before: Some(span.clone()),
            after: Some(span.clone()),
            during: span,
            took_s: None,
        }
    }

    #[test]
    fn every_figure_has_a_unique_name_and_a_value() {
        let setup = Setup {
            chunk_bytes: Some(4096),
            cow_bytes: Some(1 << 30),
            peak_bytes: Some(1 << 29),
            ..Setup::default()
        };
        let list = figures(&Figures::of(&course(), &setup));
        let unknown: Vec<&Figure> = list
            .iter()
            .filter(|figure| figure.value.is_none())
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        let mut names: Vec<&str> = list.iter().map(|figure| &*figure.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), list.len());
    }

    #[test]
    fn figures_are_shown_in_their_units() {
        for (unit, value, text) in [
            (Unit::Rate, 120e6, "120 MB/s"),
            (Unit::Size, 16384.0, "16.0 KiB"),
            (Unit::Share, 0.984, "98.4 %"),
            (Unit::Ms, 9.0, "9.00 ms"),
            (Unit::Seconds, 39_600.0, "11 h 00 min"),
            (Unit::Seconds, 1.2345, "1.23 s"),
        ] {
            assert_eq!(unit.text(value, Prefix::Decimal), text);
        }
    }
}
