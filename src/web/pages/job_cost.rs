//! The end of a job's page: diagnosis, advice, figures, and facts about host, disks and snapshot.
//!
//! Unknown values are left out.

use askama::Template;

use super::device::KeyFigure;
use super::shown;
use crate::job::Job;
use crate::job::advice::Advice;
use crate::job::figures::{EndMeans, Figures, OriginPhases, OriginWork, PvWork};
use crate::job::setup::Setup;
use crate::job::statistics::Spread;
use crate::report::facts::facts;
use crate::report::figure::Unit;
use crate::sizing::SizeAdvice;
use crate::table::{Cell, Column, Table};
use crate::units::Prefix;
use crate::web::Site;
use crate::web::answer::Problem;

#[derive(Template)]
#[template(path = "job_cost.html")]
struct JobCost {
    sentences: Vec<String>,
    advice: Vec<Advice>,
    tables: Vec<Table>,
    key_figures: Vec<KeyFigure>,
}

/// Facts of a job, folded.
#[derive(Template)]
#[template(path = "facts.html")]
struct Facts {
    table: Table,
}

/// The sections as HTML. If the store does not answer, the charts say why.
pub async fn sections(site: &Site, job: &Job) -> Result<String, Problem> {
    let cost = match site.cost(job).await {
        Err(Problem::Unavailable(_)) => return facts_section(job, &job.setup),
        cost => cost?,
    };
    let figures = &cost.figures;
    let size = site.present()?.size_advice_for(job);
    let mut advice = cost.advice.clone();
    advice.extend(size.as_ref().and_then(SizeAdvice::for_job));
    let tables = [reading(figures), origin(&figures.origin), pvs(&figures.pvs)];
    let section = JobCost {
        sentences: cost
            .findings
            .iter()
            .map(|sentence| sentence.text.clone())
            .collect(),
        advice,
        tables: tables
            .into_iter()
            .filter(|table| !table.is_empty())
            .collect(),
        key_figures: all_else(figures),
    };
    let is_empty = section.tables.is_empty() && section.key_figures.is_empty();
    let costs = if is_empty {
        String::new()
    } else {
        shown(&section)?
    };
    Ok(costs + &facts_section(job, &cost.setup)?)
}

fn facts_section(job: &Job, setup: &Setup) -> Result<String, Problem> {
    let known = facts(job, setup)
        .into_iter()
        .filter(|fact| fact.name != "how it ended");
    let rows = known.filter_map(|fact| Some(vec![fact.name.into(), fact.value?.into()]));
    let columns = [Column::name(""), Column::text("").class("says")];
    let table = Table::new("", columns, rows);
    if table.is_empty() {
        Ok(String::new())
    } else {
        shown(&Facts { table })
    }
}

/// `None` if all values are unknown.
fn row(
    name: impl Into<Cell>,
    values: impl IntoIterator<Item = Option<String>>,
) -> Option<Vec<Cell>> {
    let values: Vec<Option<String>> = values.into_iter().collect();
    let is_known = values.iter().any(Option::is_some);
    is_known.then(|| {
        std::iter::once(name.into())
            .chain(values.into_iter().map(Cell::known))
            .collect()
    })
}

fn spread(
    name: &str,
    unit: Unit,
    spread: Option<Spread>,
    ends: Option<EndMeans>,
) -> Option<Vec<Cell>> {
    let of = |value: fn(Spread) -> f64| text(unit, spread.map(value));
    let values = [
        of(|spread| spread.mean),
        text(unit, ends.map(|ends| ends.first)),
        text(unit, ends.map(|ends| ends.last)),
        of(|spread| spread.median),
        of(|spread| spread.p5),
        of(|spread| spread.p95),
    ];
    row(name, values)
}

fn text(unit: Unit, value: Option<f64>) -> Option<String> {
    value
        .filter(|value| value.is_finite())
        .map(|value| unit.text(value, Prefix::default()))
}

fn reading(figures: &Figures) -> Table {
    let (read, written) = (figures.read, figures.written);
    let rows = [
        spread(
            "Read",
            Unit::Rate,
            read.map(|read| read.speed),
            read.and_then(|read| read.ends),
        ),
        spread(
            "Written",
            Unit::Rate,
            written.map(|it| it.speed),
            written.and_then(|it| it.ends),
        ),
        spread(
            "First writes",
            Unit::Rate,
            figures.copied.first_writes,
            None,
        ),
    ];
    let columns = [
        Column::name("Speed"),
        Column::number("Mean"),
        Column::number("First tenth"),
        Column::number("Last tenth"),
        Column::number("Median").class("least"),
        Column::number("5th percentile").class("less"),
        Column::number("95th percentile").class("less"),
    ];
    let caption = if written.is_some() {
        "While it ran"
    } else {
        "While it was read"
    };
    Table::new(caption, columns, rows.into_iter().flatten())
}

fn origin(phases: &OriginPhases) -> Table {
    let row = |name: &str, unit, value: fn(OriginWork) -> Option<f64>| {
        row(
            name,
            [phases.before, phases.during, phases.after].map(|work| text(unit, value(work))),
        )
    };
    let rows = [
        row("Read", Unit::Rate, |work| work.read_bytes_per_s),
        row("Written", Unit::Rate, |work| work.written_bytes_per_s),
        row("Writes", Unit::PerS, |work| work.writes_per_s),
        row("Size of a write", Unit::Size, |work| {
            work.write_request_bytes
        }),
        row("Time of a write", Unit::Ms, |work| work.write_await_ms),
    ];
    let columns = [
        Column::name("Work"),
        Column::number("Before"),
        Column::number("During"),
        Column::number("After"),
    ];
    Table::new("The origin", columns, rows.into_iter().flatten())
}

fn pvs(pvs: &[PvWork]) -> Table {
    let columns = [
        Column::name("PV"),
        Column::number("Busy"),
        Column::number("Read").class("least"),
        Column::number("Written").class("least"),
        Column::number("Time of a read, first and last tenth"),
        Column::number("Size of a read, first and last tenth").class("less"),
    ];
    let row = |pv: &PvWork| {
        let values = [
            text(Unit::Share, pv.utilisation),
            text(Unit::Rate, pv.read_bytes_per_s),
            text(Unit::Rate, pv.written_bytes_per_s),
            both(Unit::Ms, pv.read_await_ms),
            both(Unit::Size, pv.read_request_bytes),
        ];
        row(format!("{}{}", pv.name, carries(pv)), values)
    };
    Table::new("PVs", columns, pvs.iter().filter_map(row))
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
    let (fill, read_s) = (figures.fill, figures.read.map(|read| read.seconds));
    let known = [
        (
            "Reading time",
            Unit::Seconds,
            read_s,
            "without the first and last thousandth",
        ),
        (
            "Peak fill",
            Unit::Bytes,
            fill.and_then(|fill| Some(fill.peak_bytes? as f64)),
            "of the COW area",
        ),
        ("Chunks copied", Unit::PerS, copied.chunks_per_s, ""),
        (
            "Written to the COW area",
            Unit::Bytes,
            copied.cow_bytes,
            "copies and their metadata",
        ),
        (
            "Write cost",
            Unit::Number,
            copied.write_cost,
            "bytes on disk for each byte written",
        ),
        ("User", Unit::Share, host.user, "of the CPU time"),
        ("System", Unit::Share, host.system, "of the CPU time"),
        ("Iowait", Unit::Share, host.iowait, "of the CPU time"),
        (
            "I/O pressure",
            Unit::Share,
            host.pressure_io,
            "of the time some process waited",
        ),
    ];
    let figure =
        |(name, unit, value, detail)| Some(KeyFigure::new(name, text(unit, value)?, detail));
    known.into_iter().filter_map(figure).collect()
}
