//! The end of a job's page: diagnosis, advice, figures, and facts about host, disks and snapshot.
//!
//! Unknown values are left out.

use askama::Template;

use super::device::KeyFigure;
use super::shown;
use crate::job::Job;
use crate::job::advice::Advice;
use crate::job::figures::{Figures, OriginPhases, PvWork};
use crate::job::setup::Setup;
use crate::report::facts::facts;
use crate::report::figure::{
    FigureUnit, HOST_FIGURES, JOB_FIGURES, JobValue, ORIGIN_FIGURES, PV_FIGURES, PvValue,
};
use crate::table::{Cell, Column, Table};
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

/// The facts of a job, folded.
#[derive(Template)]
#[template(path = "facts.html")]
struct FactsSection {
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
    let tables = [speeds(figures), origin(&figures.origin), pvs(&figures.pvs)];
    let section = JobCost {
        sentences: cost
            .findings
            .iter()
            .map(|sentence| sentence.text.clone())
            .collect(),
        advice: cost.advice_with(size.as_ref()),
        tables: tables
            .into_iter()
            .filter(|table| !table.is_empty())
            .collect(),
        key_figures: key_figures(figures),
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
        shown(&FactsSection { table })
    }
}

/// `None` if all values are unknown.
fn row(name: impl Into<Cell>, values: Vec<Option<String>>) -> Option<Vec<Cell>> {
    if values.iter().all(Option::is_none) {
        return None;
    }
    let mut cells = vec![name.into()];
    cells.extend(values.into_iter().map(Cell::known));
    Some(cells)
}

fn text(unit: FigureUnit, value: Option<f64>) -> Option<String> {
    let value = value.filter(|value| value.is_finite())?;
    Some(unit.text(value))
}

fn speeds(figures: &Figures) -> Table {
    let rows = JOB_FIGURES.iter().filter_map(|figure| {
        let JobValue::Spread(spread, ends) = figure.value else {
            return None;
        };
        let spread = spread(figures);
        let ends = ends.and_then(|ends| ends(figures));
        let values = [
            spread.map(|spread| spread.mean),
            ends.map(|ends| ends.first),
            ends.map(|ends| ends.last),
            spread.map(|spread| spread.median),
            spread.map(|spread| spread.p5),
            spread.map(|spread| spread.p95),
        ];
        row(figure.title, values.map(|it| text(figure.unit, it)).into())
    });
    let columns = [
        Column::name("Speed"),
        Column::number("Mean"),
        Column::number("First tenth"),
        Column::number("Last tenth"),
        Column::number("Median").class("least"),
        Column::number("5th percentile").class("less"),
        Column::number("95th percentile").class("less"),
    ];
    let caption = if figures.written.is_some() {
        "While it ran"
    } else {
        "While it was read"
    };
    Table::new(caption, columns, rows)
}

fn origin(phases: &OriginPhases) -> Table {
    let rows = ORIGIN_FIGURES.iter().filter_map(|figure| {
        let works = [phases.before, phases.during, phases.after];
        let values = works.map(|work| text(figure.unit, (figure.value)(work)));
        row(figure.title, values.into())
    });
    let columns = [
        Column::name("Work"),
        Column::number("Before"),
        Column::number("During"),
        Column::number("After"),
    ];
    Table::new("The origin", columns, rows)
}

fn pvs(pvs: &[PvWork]) -> Table {
    // On narrow screens, how busy it was and how long reads took are enough.
    let classes = ["", "least", "least", "", "less"];
    let mut columns = vec![Column::name("PV")];
    for (figure, class) in PV_FIGURES.iter().zip(classes) {
        columns.push(Column::number(figure.title).class(class));
    }
    let rows = pvs.iter().filter_map(|pv| {
        let values = PV_FIGURES.iter().map(|figure| match figure.value {
            PvValue::One(value) => text(figure.unit, value(pv)),
            PvValue::Ends(ends) => {
                let ends = ends(pv)?;
                let first = text(figure.unit, Some(ends.first))?;
                Some(format!("{first}, {}", text(figure.unit, Some(ends.last))?))
            }
        });
        row(format!("{}{}", pv.name, carries(pv)), values.collect())
    });
    Table::new("PVs", columns, rows)
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
fn key_figures(figures: &Figures) -> Vec<KeyFigure> {
    let mut found = Vec::new();
    for figure in JOB_FIGURES.iter().chain(HOST_FIGURES) {
        if let JobValue::One(value) = figure.value
            && !figure.title.is_empty()
            && let Some(text) = text(figure.unit, value(figures))
        {
            found.push(KeyFigure::new(figure.title, text, figure.remark));
        }
    }
    found
}
