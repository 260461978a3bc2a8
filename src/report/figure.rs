//! The table of a job's figures: name, unit and value of each. Lists, comparisons, exports and the page of a job follow
//! from it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::figures::{EndMeans, Figures, OriginWork, PvWork};
use crate::job::statistics::{Correlation, Spread};
use crate::units::{bytes_text, duration_text, percent_text, speed_text, three_figures};

/// The figure that every ended job has.
pub const DURATION: &str = "duration";
/// Shorter times are shown with fractions of a second.
const MOST_WITH_FIGURES_S: f64 = 100.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FigureUnit {
    Seconds,
    Bytes,
    /// Bytes a second.
    Rate,
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
    pub unit: FigureUnit,
    pub value: Option<f64>,
}

impl FigureUnit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::Rate => "B/s",
            Self::KibPerS => "KiB/s",
            Self::PerS => "1/s",
            Self::Percent => "%",
            Self::Share | Self::Number => "1",
            Self::Ms => "ms",
        }
    }

    pub fn text(self, value: f64) -> String {
        match self {
            Self::Seconds if value.abs() < MOST_WITH_FIGURES_S => {
                format!("{} s", three_figures(value))
            }
            Self::Seconds => duration_text(value),
            Self::Bytes => bytes_text(value),
            Self::Rate => speed_text(value),
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

/// A row of the tables below: each figure is named here, and nowhere else.
pub struct FigureRow<V> {
    /// In lists, comparisons and exports.
    name: &'static str,
    pub unit: FigureUnit,
    pub value: V,
    /// On the page of a job, with a remark; empty if it is not there.
    pub title: &'static str,
    pub remark: &'static str,
    /// Tells whether the first value is that of a slower run.
    is_slower: Option<IsSlower>,
}

pub type IsSlower = fn(&f64, &f64) -> bool;

pub enum JobValue {
    One(fn(&Figures) -> Option<f64>),
    /// Over ticks, and at the beginning and the end.
    Spread(
        fn(&Figures) -> Option<Spread>,
        Option<fn(&Figures) -> Option<EndMeans>>,
    ),
    Correlation(fn(&Figures) -> Option<Correlation>),
}

pub enum PvValue {
    One(fn(&PvWork) -> Option<f64>),
    Ends(fn(&PvWork) -> Option<EndMeans>),
}

use FigureUnit::*;
use JobValue::{Correlation as Correlated, One, Spread as Spreading};

pub const JOB_FIGURES: &[FigureRow<JobValue>] = &[
    row(DURATION, Seconds, One(|of| of.seconds)).judged(f64::gt),
    row("bytes read", Bytes, One(|of| Some(of.read?.bytes))),
    row("time of reading", Seconds, One(|of| Some(of.read?.seconds)))
        .shown("Reading time", "without the first and last thousandth"),
    row(
        "read speed",
        Rate,
        Spreading(|of| Some(of.read?.speed), Some(|of| of.read?.ends)),
    )
    .shown("Read", "")
    .judged(f64::lt),
    row("bytes written", Bytes, One(|of| Some(of.written?.bytes))),
    row(
        "write speed",
        Rate,
        Spreading(|of| Some(of.written?.speed), Some(|of| of.written?.ends)),
    )
    .shown("Written", ""),
    row("bi", KibPerS, One(|of| Some(of.bi?.mean))),
    row("bo", KibPerS, One(|of| Some(of.bo?.mean))),
    row(
        "read speed by fill",
        Rate,
        Correlated(|of| of.read_by_fill.correlation()),
    ),
    row(
        "read speed by first writes",
        Number,
        Correlated(|of| of.read_by_first_writes.correlation()),
    ),
    row("peak fill", Percent, One(|of| Some(of.fill?.peak_percent))),
    row(
        "peak fill bytes",
        Bytes,
        One(|of| Some(of.fill?.peak_bytes? as f64)),
    )
    .shown("Peak fill", "of the COW area"),
    row(
        "first writes",
        Rate,
        Spreading(|of| of.copied.first_writes, None),
    )
    .shown("First writes", ""),
    row("chunks copied", PerS, One(|of| of.copied.chunks_per_s)).shown("Chunks copied", ""),
    row(
        "written to the COW area",
        Bytes,
        One(|of| of.copied.cow_bytes),
    )
    .shown("Written to the COW area", "copies and their metadata"),
    row(
        "bytes on disk per byte written",
        Number,
        One(|of| of.copied.write_cost),
    )
    .shown("Write cost", "bytes on disk for each byte written"),
];

/// How a figure follows from the work of the origin.
pub type OriginValue = fn(OriginWork) -> Option<f64>;

pub const ORIGIN_FIGURES: &[FigureRow<OriginValue>] = &[
    of_origin("read", Rate, |work| work.read_bytes_per_s).shown("Read", ""),
    of_origin("written", Rate, |work| work.written_bytes_per_s).shown("Written", ""),
    of_origin("writes", PerS, |work| work.writes_per_s).shown("Writes", ""),
    of_origin("write request", Bytes, |work| work.write_request_bytes).shown("Size of a write", ""),
    of_origin("write latency", Ms, |work| work.write_await_ms).shown("Time of a write", ""),
];

pub const PV_FIGURES: &[FigureRow<PvValue>] = &[
    row("busy", Share, PvValue::One(|pv| pv.utilisation)).shown("Busy", ""),
    row("read", Rate, PvValue::One(|pv| pv.read_bytes_per_s)).shown("Read", ""),
    row("written", Rate, PvValue::One(|pv| pv.written_bytes_per_s)).shown("Written", ""),
    row("read latency", Ms, PvValue::Ends(|pv| pv.read_await_ms))
        .shown("Time of a read, first and last tenth", ""),
    row(
        "read request",
        Bytes,
        PvValue::Ends(|pv| pv.read_request_bytes),
    )
    .shown("Size of a read, first and last tenth", ""),
];

pub const HOST_FIGURES: &[FigureRow<JobValue>] = &[
    row("user", Share, One(|of| of.host.user)).shown("User", "of the CPU time"),
    row("system", Share, One(|of| of.host.system)).shown("System", "of the CPU time"),
    row("iowait", Share, One(|of| of.host.iowait)).shown("Iowait", "of the CPU time"),
    row("pressure io", Share, One(|of| of.host.pressure_io))
        .shown("I/O pressure", "of the time some process waited"),
];

const fn row<V>(name: &'static str, unit: FigureUnit, value: V) -> FigureRow<V> {
    FigureRow {
        name,
        unit,
        value,
        title: "",
        remark: "",
        is_slower: None,
    }
}

const fn of_origin(
    name: &'static str,
    unit: FigureUnit,
    value: OriginValue,
) -> FigureRow<OriginValue> {
    row(name, unit, value)
}

impl<V> FigureRow<V> {
    const fn shown(mut self, title: &'static str, remark: &'static str) -> Self {
        self.title = title;
        self.remark = remark;
        self
    }

    const fn judged(mut self, is_slower: IsSlower) -> Self {
        self.is_slower = Some(is_slower);
        self
    }
}

/// The figures that are searched for outliers. If all figures were searched, some run would be an outlier by chance.
pub fn judged() -> impl Iterator<Item = (String, IsSlower)> {
    JOB_FIGURES.iter().filter_map(|row| {
        let name = match row.value {
            JobValue::Spread(..) => format!("{} mean", row.name),
            _ => row.name.into(),
        };
        Some((name, row.is_slower?))
    })
}

/// All figures of a job, always in the same order.
pub fn figures(of: &Figures) -> Vec<Figure> {
    let mut list = FigureList::default();
    list.add_job(JOB_FIGURES, of);
    for (phase, work) in [
        ("before", of.origin.before),
        ("during", of.origin.during),
        ("after", of.origin.after),
    ] {
        for row in ORIGIN_FIGURES {
            let name = format!("origin {} {phase}", row.name);
            list.add(&name, row.unit, (row.value)(work));
        }
    }
    for pv in &of.pvs {
        for row in PV_FIGURES {
            let name = format!("{} {}", pv.name, row.name);
            match row.value {
                PvValue::One(value) => list.add(&name, row.unit, value(pv)),
                PvValue::Ends(ends) => list.add_ends(&name, row.unit, ends(pv)),
            }
        }
    }
    list.add_job(HOST_FIGURES, of);
    list.0
}

#[derive(Default)]
struct FigureList(Vec<Figure>);

impl FigureList {
    fn add(&mut self, name: &str, unit: FigureUnit, value: Option<f64>) {
        self.0.push(Figure {
            name: name.into(),
            unit,
            value: value.filter(|value| value.is_finite()),
        });
    }

    fn add_ends(&mut self, name: &str, unit: FigureUnit, ends: Option<EndMeans>) {
        let (first, last) = ends.map(|ends| (ends.first, ends.last)).unzip();
        self.add(&format!("{name} at the beginning"), unit, first);
        self.add(&format!("{name} at the end"), unit, last);
    }

    fn add_job(&mut self, rows: &[FigureRow<JobValue>], of: &Figures) {
        for FigureRow {
            name, unit, value, ..
        } in rows
        {
            match value {
                JobValue::One(value) => self.add(name, *unit, value(of)),
                JobValue::Spread(spread, ends) => {
                    let spread = spread(of);
                    let mut add = |what: &str, value: fn(Spread) -> f64| {
                        self.add(&format!("{name} {what}"), *unit, spread.map(value));
                    };
                    add("mean", |spread| spread.mean);
                    add("median", |spread| spread.median);
                    add("5th percentile", |spread| spread.p5);
                    add("95th percentile", |spread| spread.p95);
                    if let Some(ends) = ends {
                        self.add_ends(name, *unit, ends(of));
                    }
                }
                JobValue::Correlation(known) => {
                    let (slope, rank) = known(of).map(|it| (it.slope, it.rank)).unzip();
                    self.add(&format!("{name} slope"), *unit, slope);
                    self.add(&format!("{name} rank correlation"), Number, rank);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::setup::Setup;
    use crate::job::tests::example::{MEASURES, PV_MEASURES};
    use crate::job::time_series::{JobTick, JobTimeSeries, TickColumns};

    fn time_series() -> JobTimeSeries {
        let ticks = (1..=40)
            .map(|second| JobTick {
                end_s: f64::from(second),
                seconds: 1.0,
            })
            .collect();
        let mut span = TickColumns::new(ticks).unwrap();
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
        JobTimeSeries {
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
        let list = figures(&Figures::of(&time_series(), &setup));
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
            (FigureUnit::Rate, 120e6, "114 MiB/s"),
            (FigureUnit::Bytes, 16384.0, "16.0 KiB"),
            (FigureUnit::Share, 0.984, "98.4 %"),
            (FigureUnit::Ms, 9.0, "9.00 ms"),
            (FigureUnit::Seconds, 39_600.0, "11 h 00 min"),
            (FigureUnit::Seconds, 1.2345, "1.23 s"),
        ] {
            assert_eq!(unit.text(value), text);
        }
    }
}
