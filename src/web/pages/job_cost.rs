//! The end of a job's page: its phases, diagnosis, advice, figures, and facts about host, disks and snapshot.
//!
//! Unknown values are left out.

use askama::Template;
use jiff::Timestamp;

use super::text::moment;
use super::{KeyFigure, shown};
use crate::job::figures::{EndMeans, Figures, PvWork};
use crate::job::phases::{PhasePv, PhaseWork};
use crate::job::setup::Setup;
use crate::job::{Job, PhaseSpan};
use crate::report::figure::known_pvs;
use crate::report::figure::{
    FigureUnit, HOST_FIGURES, JOB_FIGURES, JobValue, ORIGIN_FIGURES, PV_FIGURES, PvValue,
};
use crate::report::sets::surroundings;
use crate::sentence::Sentence;
use crate::series::Range;
use crate::sizing::SizeAdvice;
use crate::table::{Bar, Cell, Column, Table};
use crate::web::Site;
use crate::web::answer::Problem;
use crate::web::costs::Cost;

#[derive(Template)]
#[template(path = "job_cost.html")]
struct CostSection {
    sentences: Vec<String>,
    advice: Vec<AdviceLine>,
    key_figures: Vec<KeyFigure>,
    tables: Vec<Table>,
}

/// Facts of a job, folded.
#[derive(Template)]
#[template(path = "facts.html")]
struct FactsSection {
    table: Table,
}

/// Advice with its reason.
struct AdviceLine {
    text: Sentence,
    reason: Sentence,
    setting: Option<String>,
}

/// The sections as HTML. If the store does not answer, the charts say why.
pub async fn sections(site: &Site, job: &Job) -> Result<String, Problem> {
    let cost = match site.cost(job).await {
        Err(Problem::Unavailable(_)) => return facts_section(job, &job.setup),
        cost => cost?,
    };
    let figures = &cost.figures;
    let mut tables = vec![speeds(figures), origin(figures), pvs(&figures.pvs)];
    tables.retain(|table| !table.is_empty());
    let key_figures = single_figures(figures);
    let facts = facts_section(job, &cost.setup)?;
    if tables.is_empty() && key_figures.is_empty() {
        return Ok(facts);
    }
    let size = site.present()?.size_advice_for(job);
    let costs = shown(&CostSection {
        sentences: cost.findings.iter().map(|it| it.text.clone()).collect(),
        advice: advice(&cost, size.as_ref()),
        key_figures,
        tables,
    })?;
    Ok(costs + &facts)
}

fn facts_section(job: &Job, setup: &Setup) -> Result<String, Problem> {
    let known = surroundings(job, setup)
        .into_iter()
        .filter_map(|fact| Some((fact.name, fact.value?)));
    let table = Table::of("", known)
        .column(Column::name(""), |(name, _)| *name)
        .column(Column::text("").class("says"), |(_, value)| value.clone())
        .done();
    if table.is_empty() {
        return Ok(String::new());
    }
    shown(&FactsSection { table })
}

fn advice(cost: &Cost, size: Option<&SizeAdvice>) -> Vec<AdviceLine> {
    let mut lines = Vec::new();
    for advice in cost.advice_with(size) {
        lines.push(AdviceLine {
            text: Sentence::with_commands(&advice.text),
            reason: Sentence::with_commands(&advice.reason),
            setting: advice.setting,
        });
    }
    lines
}

fn known(unit: FigureUnit, value: Option<f64>) -> Cell {
    let finite = value.filter(|value| value.is_finite());
    Cell::known(finite.map(|value| unit.text(value)))
}

/// The first and the last tenth.
fn both_ends(unit: FigureUnit, ends: Option<EndMeans>) -> Cell {
    let text = |value| unit.text(value);
    Cell::known(ends.map(|ends| format!("{}, {}", text(ends.first), text(ends.last))))
}

/// Speeds while it ran, over its time.
fn speeds(figures: &Figures) -> Table {
    let caption = if figures.written.is_some() {
        "While it ran"
    } else {
        "While it was read"
    };
    let mut rows = Vec::new();
    for figure in JOB_FIGURES {
        if let JobValue::Spread(spread, ends) = figure.value {
            let ends = ends.and_then(|ends| ends(figures));
            rows.push((figure, spread(figures), ends));
        }
    }
    Table::of(caption, rows)
        .column(Column::name("Speed"), |(figure, ..)| figure.title)
        .column(Column::number("Mean"), |(figure, of, _)| {
            known(figure.unit, of.map(|it| it.mean))
        })
        .column(Column::number("First tenth"), |(figure, _, ends)| {
            known(figure.unit, ends.map(|it| it.first))
        })
        .column(Column::number("Last tenth"), |(figure, _, ends)| {
            known(figure.unit, ends.map(|it| it.last))
        })
        .column(
            Column::number("Median").class("least"),
            |(figure, of, _)| known(figure.unit, of.map(|it| it.median)),
        )
        .column(
            Column::number("5th percentile").class("less"),
            |(figure, of, _)| known(figure.unit, of.map(|it| it.p5)),
        )
        .column(
            Column::number("95th percentile").class("less"),
            |(figure, of, _)| known(figure.unit, of.map(|it| it.p95)),
        )
        .done()
        .without_unknown_rows()
}

fn origin(figures: &Figures) -> Table {
    let phases = &figures.origin;
    Table::of("The origin", ORIGIN_FIGURES)
        .column(Column::name("Work"), |figure| figure.title)
        .column(Column::number("Before"), |figure| {
            known(figure.unit, (figure.value)(phases.before))
        })
        .column(Column::number("During"), |figure| {
            known(figure.unit, (figure.value)(phases.during))
        })
        .column(Column::number("After"), |figure| {
            known(figure.unit, (figure.value)(phases.after))
        })
        .done()
        .without_unknown_rows()
}

fn pvs(pvs: &[PvWork]) -> Table {
    let mut table = Table::of("PVs", pvs).column(Column::name("PV"), |pv| {
        format!("{}{}", pv.name, carries(pv))
    });
    // On narrow screens, how busy it was and how long reads took are enough.
    let classes = ["", "least", "least", "", "less"];
    for (figure, class) in PV_FIGURES.iter().zip(classes) {
        let column = Column::number(figure.title).class(class);
        table = table.column(column, |pv| match figure.value {
            PvValue::One(value) => known(figure.unit, value(pv)),
            PvValue::Ends(ends) => both_ends(figure.unit, ends(pv)),
        });
    }
    table.done().without_unknown_rows()
}

fn carries(pv: &PvWork) -> &'static str {
    match (pv.carries_origin, pv.carries_cow) {
        (Some(true), Some(true)) => " (origin, COW area)",
        (Some(true), _) => " (origin)",
        (_, Some(true)) => " (COW area)",
        _ => "",
    }
}

/// The single figures that the page shows.
fn single_figures(figures: &Figures) -> Vec<KeyFigure> {
    let mut found = Vec::new();
    for figure in JOB_FIGURES.iter().chain(HOST_FIGURES) {
        if let JobValue::One(value) = figure.value
            && !figure.title.is_empty()
            && let Some(value) = value(figures).filter(|value| value.is_finite())
        {
            let text = figure.unit.text(value);
            found.push(KeyFigure::new(figure.title, text, figure.remark));
        }
    }
    found
}

/// The phases of a job, with a column for each PV. `work` is empty until it is computed, and may be older than the last
/// phase; columns without values are left out.
pub fn phases(job: &Job, work: &[PhaseWork], now: Timestamp) -> Table {
    let whole_s = job.seconds(now).max(f64::MIN_POSITIVE);
    let percent = |seconds: f64| (seconds / whole_s * 100.0).clamp(0.0, 100.0);
    let began_s = |span: &PhaseSpan| Range::new(job.started_at, span.began_at).seconds();
    let seconds = |span: &PhaseSpan| {
        let took = Range::new(span.began_at, span.ended_at.unwrap_or(now));
        took.seconds().max(0.0)
    };
    let mut rows = Vec::new();
    for (place, span) in job.phases().into_iter().enumerate() {
        let work = work.get(place).filter(|work| work.name == span.name);
        rows.push((span, work));
    }
    let mut table = Table::of("Phases", rows)
        .column(Column::name("Phase"), |(span, _)| span.name)
        .column(Column::number("Started"), |(span, _)| {
            known(FigureUnit::Seconds, Some(began_s(span))).small(moment(span.began_at, now))
        })
        .column(Column::number("Took"), |(span, _)| {
            known(FigureUnit::Seconds, Some(seconds(span)))
        })
        .column(Column::text("Share").class("less"), |(span, _)| {
            Cell::default().bar(Bar {
                from: percent(began_s(span)),
                width: percent(seconds(span)),
                class: "used",
                mark: None,
            })
        });
    if work.iter().any(|work| work.read_bytes.is_some()) {
        table = table.column(Column::number("Read"), |(_, work)| {
            let speed = work.and_then(|work| work.read_bytes_per_s);
            with_amount(speed, work.and_then(|work| work.read_bytes))
        });
    }
    if work.iter().any(|work| work.written_bytes.is_some()) {
        table = table.column(Column::number("Written"), |(_, work)| {
            let speed = work.and_then(|work| work.written_bytes_per_s);
            with_amount(speed, work.and_then(|work| work.written_bytes))
        });
    }
    for name in known_pvs(work) {
        table = table.column(Column::number(format!("{name} busy")), |(_, work)| {
            busy(work.and_then(|work| work.pv(name)))
        });
    }
    table.done().class("phases")
}

fn with_amount(speed: Option<f64>, amount: Option<f64>) -> Cell {
    let amount = amount.map(|bytes| FigureUnit::Bytes.text(bytes));
    known(FigureUnit::Rate, speed).small(amount.unwrap_or_default())
}

/// How busy a PV was, and how fast.
fn busy(pv: Option<&PhasePv>) -> Cell {
    let percent = pv.and_then(|pv| pv.utilisation).map(|share| share * 100.0);
    let mut cell = Cell::known(percent.map(|percent| format!("{percent:.0} %")));
    if let Some(percent) = percent {
        cell = cell.bar(Bar {
            width: percent.clamp(0.0, 100.0),
            class: "used",
            ..Bar::default()
        });
    }
    let speed = pv.and_then(PhasePv::bytes_per_s);
    let speed = speed.map(|speed| FigureUnit::Rate.text(speed));
    cell.small(speed.unwrap_or_default())
}
