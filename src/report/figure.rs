//! The table of a job's figures: name, unit and value of each. Lists, comparisons, exports and the page of a job follow
//! from it. Phases have figures of their own, and tables: one of the phases, the other of the PVs in each.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::figures::{EndMeans, Figures, OriginWork, PvWork};
use crate::job::phases::{PhasePv, PhaseWork};
use crate::statistics::{Correlation, Spread};
use crate::table::{Cell, Column, Table};
use crate::units::{
    bytes_text, duration_text, ms_text, number_text, percent_text, share_text, speed_text,
    three_figures,
};

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
            Self::KibPerS => format!("{} KiB/s", three_figures(value)),
            Self::PerS => format!("{}/s", number_text(value)),
            Self::Ms => ms_text(value),
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

pub const OF_WHOLE_TICKS: &str =
    "Only ticks that lie entirely inside a phase count. A dash means too few of them.";

/// The figures of these phases, with the phase in their names.
pub fn phase_figures(phases: &[PhaseWork], of: &[String]) -> Vec<Figure> {
    let mut list = FigureList::default();
    for (name, phase) in unique_names(phases).iter().zip(phases) {
        if !of.contains(name) {
            continue;
        }
        list.add(&format!("{name}: duration"), Seconds, phase.seconds);
        list.add(
            &format!("{name}: read speed mean"),
            Rate,
            phase.read_bytes_per_s,
        );
        list.add(
            &format!("{name}: write speed mean"),
            Rate,
            phase.written_bytes_per_s,
        );
        for pv in &phase.pvs {
            list.add(&format!("{name}: {} busy", pv.name), Share, pv.utilisation);
        }
    }
    list.0
}

/// The names of the phases that all jobs have, in the order of the first job.
pub fn shared_phases<'a>(jobs: impl IntoIterator<Item = &'a [PhaseWork]>) -> Vec<String> {
    let mut jobs = jobs.into_iter().map(unique_names);
    let mut shared = jobs.next().unwrap_or_default();
    for names in jobs {
        shared.retain(|name| names.contains(name));
    }
    shared
}

/// Unique names: a phase that returns gets a number.
fn unique_names(phases: &[PhaseWork]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(phases.len());
    for PhaseWork { name, .. } in phases {
        let mut unique = name.clone();
        let mut number = 1;
        while names.contains(&unique) {
            number += 1;
            unique = format!("{name} ({number})");
        }
        names.push(unique);
    }
    names
}

/// Tables of the phases, and of their PVs if any is known; empty for a job without phases.
pub fn phase_tables(phases: &[PhaseWork]) -> Vec<Table> {
    if phases.is_empty() {
        return Vec::new();
    }
    let columns = [
        Column::name("Phase"),
        Column::number("Began"),
        Column::number("Took"),
        Column::number("Read"),
        Column::number("Read speed"),
        Column::number("Written"),
        Column::number("Write speed"),
    ];
    let mut tables = vec![Table::new("", columns, phases.iter().map(phase_row))];
    let names = known_pvs(phases);
    if !names.is_empty() {
        let mut columns = vec![Column::name("Phase, busy PVs")];
        columns.extend(names.iter().map(|name| Column::number(*name)));
        let rows = phases.iter().map(|phase| {
            let mut cells = vec![phase.name.clone().into()];
            cells.extend(names.iter().map(|name| pv_cell(phase.pv(name))));
            cells
        });
        tables.push(Table::new("", columns, rows));
    }
    tables
}

/// The PVs with known values in any phase.
pub fn known_pvs(phases: &[PhaseWork]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for pv in phases.iter().flat_map(|phase| &phase.pvs) {
        let is_known = pv.utilisation.is_some() || pv.bytes_per_s().is_some();
        if is_known && !names.contains(&&*pv.name) {
            names.push(&pv.name);
        }
    }
    names
}

fn phase_row(phase: &PhaseWork) -> Vec<Cell> {
    let text =
        |unit: FigureUnit, value: Option<f64>| Cell::known(value.map(|value| unit.text(value)));
    vec![
        phase.name.clone().into(),
        text(Seconds, Some(phase.began_s)),
        text(Seconds, phase.seconds),
        text(Bytes, phase.read_bytes),
        text(Rate, phase.read_bytes_per_s),
        text(Bytes, phase.written_bytes),
        text(Rate, phase.written_bytes_per_s),
    ]
}

/// `98 %, 5.80 MiB/s`
fn pv_cell(pv: Option<&PhasePv>) -> Cell {
    let busy = pv.and_then(|pv| pv.utilisation).map(share_text);
    let speed = pv.and_then(PhasePv::bytes_per_s).map(speed_text);
    let known: Vec<String> = busy.into_iter().chain(speed).collect();
    Cell::known((!known.is_empty()).then(|| known.join(", ")))
}

#[cfg(test)]
mod tests {
    //! The names and values of figures, and the tables of phases.

    use super::*;
    use crate::job::setup::Setup;
    use crate::job::tests::example::{MEASURES, PV_MEASURES};
    use crate::job::time_series::{JobTick, JobTimeSeries, TickColumns};
    use crate::table::Style;

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
                    (0..40).map(|value| Some(f64::from(value))).collect(),
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

    const MIB: f64 = 1024.0 * 1024.0;

    fn phase(name: &str, began_s: f64, busy: Option<f64>) -> PhaseWork {
        let pv = |name: &str, share: f64| PhasePv {
            name: name.into(),
            utilisation: busy.map(|busy| busy * share),
            read_bytes_per_s: busy.map(|_| 0.0),
            written_bytes_per_s: busy.map(|busy| busy * share * 6.0 * MIB),
        };
        PhaseWork {
            name: name.into(),
            began_s,
            seconds: Some(8.0),
            seen_seconds: busy.map_or(0.0, |_| 8.0),
            read_bytes: busy.map(|_| 0.0),
            read_bytes_per_s: busy.map(|_| 0.0),
            written_bytes: busy.map(|busy| busy * 48.0 * MIB),
            written_bytes_per_s: busy.map(|busy| busy * 6.0 * MIB),
            pvs: vec![pv("sda", 1.0), pv("sdb", 0.0)],
        }
    }

    #[test]
    fn phases_are_rows_of_tables() {
        let phases = [
            phase("writing", 0.5, Some(1.0)),
            phase("se|ek\u{1b}ing", 3_700.0, None),
        ];
        let written = phase_tables(&phases)
            .into_iter()
            .map(|table| table.write(Style::Plain));
        assert_eq!(
            written.collect::<Vec<_>>(),
            [
                "Phase           Began    Took  Read  Read speed   Written  Write speed\n\
             writing        0.50 s  8.00 s   0 B       0 B/s  48.0 MiB   6.00 MiB/s\n\
             se|ek ing  1 h 01 min  8.00 s     -           -         -            -\n",
                "Phase, busy PVs                sda         sdb\n\
             writing          100 %, 6.00 MiB/s  0 %, 0 B/s\n\
             se|ek ing                        -           -\n",
            ]
        );
        assert!(phase_tables(&[]).is_empty());
    }

    #[test]
    fn figures_have_the_name_of_their_phase() {
        let phases = [
            phase("writing", 0.0, Some(0.5)),
            phase("writing", 8.0, None),
            phase("idle", 16.0, None),
        ];
        let of = shared_phases([&phases[..], &phases[..2]]);
        assert_eq!(of, ["writing", "writing (2)"]);
        let found: Vec<_> = phase_figures(&phases, &of)
            .into_iter()
            .map(|figure| (figure.name, figure.value))
            .collect();
        let expected = [
            ("writing: duration", Some(8.0)),
            ("writing: read speed mean", Some(0.0)),
            ("writing: write speed mean", Some(3.0 * MIB)),
            ("writing: sda busy", Some(0.5)),
            ("writing: sdb busy", Some(0.0)),
            ("writing (2): duration", Some(8.0)),
            ("writing (2): read speed mean", None),
            ("writing (2): write speed mean", None),
            ("writing (2): sda busy", None),
            ("writing (2): sdb busy", None),
        ];
        assert_eq!(
            found,
            expected.map(|(name, value)| (name.to_string(), value))
        );
    }

    #[test]
    fn names_of_phases_are_unique() {
        let phases = ["a", "a (2)", "b", "a", "a"].map(|name| phase(name, 0.0, None));
        assert_eq!(
            shared_phases([&phases[..]]),
            ["a", "a (2)", "b", "a (3)", "a (4)"]
        );
    }

    #[test]
    fn shared_phases_are_those_of_all_jobs() {
        let of = |names: &[&str]| {
            names
                .iter()
                .map(|name| phase(name, 0.0, None))
                .collect::<Vec<_>>()
        };
        let (one, other) = (of(&["a", "b", "c"]), of(&["c", "d", "b"]));
        assert_eq!(shared_phases([&one[..], &other[..]]), ["b", "c"]);
        assert!(shared_phases([&one[..], &[][..]]).is_empty() && shared_phases([]).is_empty());
    }
}
