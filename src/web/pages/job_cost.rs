//! What a job cost, under its charts: what the figures say, what would help, and the figures themselves.
//!
//! A table, a row or a figure is there only where something of it is known.

use askama::Template;

use super::device::KeyFigure;
use super::shown;
use super::text::{or_dash, with_commands};
use crate::job::Job;
use crate::job::figures::{EndMeans, Figures, OriginPhases, OriginWork, PvWork};
use crate::job::statistics::Spread;
use crate::report::figure::Unit;
use crate::units::Prefix;
use crate::web::Site;
use crate::web::answer::Problem;
use crate::web::costs::Cost;

#[derive(Template)]
#[template(path = "job_cost.html")]
struct JobCost {
    sentences: Vec<String>,
    helps: Vec<Help>,
    tables: Vec<Table>,
    key_figures: Vec<KeyFigure>,
}

/// Something to do, with its reason; plain parts and commands in turn.
struct Help {
    text: Vec<(bool, String)>,
    reason: String,
    setting: Option<String>,
}

/// A row has a value for each column, and the class of a column says on how narrow a screen it goes.
struct Table {
    caption: &'static str,
    subject: &'static str,
    columns: Vec<(&'static str, &'static str)>,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    values: Vec<String>,
}

/// The section, as HTML; nothing of a job of which nothing is known, or nothing can be told now: the charts say why.
pub async fn section(site: &Site, job: &Job) -> Result<String, Problem> {
    let cost = match site.cost(job).await {
        Err(Problem::Unavailable(_)) => return Ok(String::new()),
        cost => cost?,
    };
    let section = JobCost::new(&cost);
    if section.tables.is_empty() && section.key_figures.is_empty() {
        return Ok(String::new());
    }
    shown(&section)
}

impl JobCost {
    fn new(cost: &Cost) -> Self {
        let figures = &cost.report.figures;
        let tables = [reading(figures), origin(&figures.origin), pvs(&figures.pvs)];
        Self {
            sentences: cost.report.sentences.iter().map(|sentence| sentence.text.clone()).collect(),
            helps: helps(cost),
            tables: tables.into_iter().filter(|table| !table.rows.is_empty()).collect(),
            key_figures: all_else(figures),
        }
    }
}

fn helps(cost: &Cost) -> Vec<Help> {
    let advice = cost.report.advice.iter().map(|advice| Help {
        text: with_commands(&advice.text),
        reason: advice.reason.clone(),
        setting: advice.setting.clone(),
    });
    let sizing = cost.report.sizing.iter().map(|sizing| Help {
        text: with_commands("Size the next COW area by what was needed."),
        reason: sizing.text.clone(),
        setting: Some(sizing.setting.clone()),
    });
    advice.chain(sizing).collect()
}

impl Table {
    /// Nothing that has no value is a row.
    fn add(&mut self, name: impl Into<String>, values: Vec<Option<String>>) {
        if values.iter().any(Option::is_some) {
            self.rows.push(Row { name: name.into(), values: values.into_iter().map(or_dash).collect() });
        }
    }

    fn spread(&mut self, name: &str, unit: Unit, spread: Option<Spread>, ends: Option<EndMeans>) {
        let of = |value: fn(Spread) -> f64| text(unit, spread.map(value));
        let values = vec![
            of(|spread| spread.mean),
            text(unit, ends.map(|ends| ends.first)),
            text(unit, ends.map(|ends| ends.last)),
            of(|spread| spread.median),
            of(|spread| spread.p5),
            of(|spread| spread.p95),
        ];
        self.add(name, values);
    }
}

fn text(unit: Unit, value: Option<f64>) -> Option<String> {
    value.filter(|value| value.is_finite()).map(|value| unit.text(value, Prefix::default()))
}

fn reading(figures: &Figures) -> Table {
    let mut table = Table {
        caption: if figures.written.is_some() { "While it ran" } else { "While it was read" },
        subject: "Speed",
        columns: vec![
            ("Mean", ""),
            ("First tenth", ""),
            ("Last tenth", ""),
            ("Median", "least"),
            ("5th percentile", "less"),
            ("95th percentile", "less"),
        ],
        rows: Vec::new(),
    };
    let read = figures.read;
    table.spread("Read", Unit::Rate, read.map(|read| read.speed), read.and_then(|read| read.ends));
    let written = figures.written;
    table.spread("Written", Unit::Rate, written.map(|it| it.speed), written.and_then(|it| it.ends));
    table.spread("First writes", Unit::Rate, figures.copied.first_writes, None);
    table.spread("bi", Unit::KibPerS, figures.bi, None);
    table.spread("bo", Unit::KibPerS, figures.bo, None);
    table
}

fn origin(phases: &OriginPhases) -> Table {
    let mut table = Table {
        caption: "The origin",
        subject: "Work",
        columns: vec![("Before", ""), ("During", ""), ("After", "")],
        rows: Vec::new(),
    };
    let mut add = |name: &str, unit, value: fn(OriginWork) -> Option<f64>| {
        let of = |work| text(unit, value(work));
        table.add(name, vec![of(phases.before), of(phases.during), of(phases.after)]);
    };
    add("Read", Unit::Rate, |work| work.read_bytes_per_s);
    add("Written", Unit::Rate, |work| work.written_bytes_per_s);
    add("Writes", Unit::PerS, |work| work.writes_per_s);
    add("A write's size", Unit::Size, |work| work.write_request_bytes);
    add("A write took", Unit::Ms, |work| work.write_await_ms);
    table
}

fn pvs(pvs: &[PvWork]) -> Table {
    let mut table = Table {
        caption: "PVs",
        subject: "PV",
        columns: vec![
            ("Busy", ""),
            ("Read", "least"),
            ("Written", "least"),
            ("A read took, first and last tenth", ""),
            ("A read's size, first and last tenth", "less"),
        ],
        rows: Vec::new(),
    };
    for pv in pvs {
        let values = vec![
            text(Unit::Share, pv.utilisation),
            text(Unit::Rate, pv.read_bytes_per_s),
            text(Unit::Rate, pv.written_bytes_per_s),
            both(Unit::Ms, pv.read_await_ms),
            both(Unit::Size, pv.read_request_bytes),
        ];
        table.add(format!("{}{}", pv.name, carries(pv)), values);
    }
    table
}

fn carries(pv: &PvWork) -> &'static str {
    match (pv.carries_origin, pv.carries_cow) {
        (Some(true), Some(true)) => " (origin, COW area)",
        (Some(true), _) => " (origin)",
        (_, Some(true)) => " (COW area)",
        _ => "",
    }
}

fn both(unit: Unit, ends: Option<EndMeans>) -> Option<String> {
    let text = |value| unit.text(value, Prefix::default());
    ends.map(|ends| format!("{}, {}", text(ends.first), text(ends.last)))
}

fn all_else(figures: &Figures) -> Vec<KeyFigure> {
    let (copied, host) = (figures.copied, figures.host);
    let fill = figures.fill;
    let known = [
        (
            "Time of reading",
            Unit::Seconds,
            figures.read.map(|read| read.seconds),
            "its first and last thousandth left out",
        ),
        ("Peak fill", Unit::Bytes, fill.and_then(|fill| Some(fill.peak_bytes? as f64)), "of the COW area"),
        ("Growth of fill", Unit::PercentPerHour, fill.and_then(|fill| fill.growth_percent_per_hour), ""),
        ("Chunks copied", Unit::PerS, copied.chunks_per_s, ""),
        ("Written to the COW area", Unit::Bytes, copied.cow_bytes, "copies and their metadata"),
        ("Write cost", Unit::Number, copied.write_cost, "bytes on disk for each byte written"),
        ("Programs", Unit::Share, host.user, "of the processors' time"),
        ("Kernel", Unit::Share, host.system, "of the processors' time"),
        ("Waiting for disks", Unit::Share, host.iowait, "of the processors' time"),
        ("I/O pressure", Unit::Share, host.pressure_io, "of the time something waited"),
    ];
    let figure = |(name, unit, value, detail)| Some(KeyFigure::new(name, text(unit, value)?, detail));
    known.into_iter().filter_map(figure).collect()
}
