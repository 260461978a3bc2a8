//! `/jobs/compare`: jobs over elapsed time, their figures with ratios, and what else differs.
//!
//! Without jobs in its address, it is the page on which they are selected.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use jiff::Timestamp;

use super::charts::{BYTES, Charts, Figure};
use super::rows::{self, JobTable};
use super::{Answer, Content, Refresh, moment, shown};
use crate::chart::{self, Axis, Chart, LegendEntry, Line, Look, Side, Size, TimeLabels, Unit};
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::report::outline::OutlinePoint;
use crate::report::text::{basis, figures as figure_table, other_differences, sentence};
use crate::series::{Point, Range, Series};
use crate::store::JobQuery;
use crate::table::{Cell, Column as Head, Table};
use crate::web::Site;
use crate::web::answer::{ParsedQuery, Problem};
use crate::web::compare::{Choice, Column, ComparisonData, EVER, MOST_COMPARED};
use crate::web::costs::Cost;

const TITLE: &str = "Jobs compared";
/// The default width of a chart.
pub const WIDTH: u32 = 1_000;
const HEIGHT: u32 = 190;
/// Jobs that the page offers for selection.
const MOST_OFFERED: usize = 200;

#[derive(Template)]
#[template(path = "compare.html")]
struct SideBySide {
    title: String,
    columns: Vec<ColumnRow>,
    has_repeats: bool,
    charts: Charts,
    remarks: Vec<String>,
    /// Other differences, and all figures.
    tables: [Table; 2],
    basis: Option<String>,
    command: String,
}

/// A compared column, with the look of its lines.
struct ColumnRow {
    name: String,
    class: &'static str,
    runs: Vec<RunLink>,
}

struct RunLink {
    href: String,
    text: String,
    outcome: &'static str,
    grade: &'static str,
}

#[derive(Template)]
#[template(path = "choose.html")]
struct Chooser {
    sets: Table,
    jobs: JobTable,
    most: usize,
}

type Pairs = Vec<(String, String)>;

pub async fn page(State(site): State<Site>, ParsedQuery(query): ParsedQuery<Pairs>) -> Answer {
    let choice = Choice::or_nothing(&query)?;
    if choice.is_empty() {
        let now = chooser(&site).await?;
        return Ok(Content {
            title: "Compare jobs".into(),
            place: "/jobs",
            now,
            ..Content::default()
        });
    }
    let width = query
        .iter()
        .find(|(key, _)| key == "width")
        .and_then(|(_, width)| width.parse().ok());
    let compared = site.compared(&choice).await?;
    let now = section(
        &compared,
        &choice,
        &*site.present()?,
        width.unwrap_or(WIDTH),
    )?;
    let refresh = Some(Refresh::once(super::fragment_url(
        "/jobs/compare/now",
        &choice.query(),
    )));
    Ok(Content {
        title: TITLE.into(),
        place: "/jobs",
        refresh,
        now,
        ..Content::default()
    })
}

async fn chooser(site: &Site) -> Result<String, Problem> {
    let jobs = site.job_list(&JobQuery::of(EVER), MOST_OFFERED).await?;
    let link = |(name, runs): (String, usize)| {
        let href = format!("/jobs/compare?set={}", crate::web::escaped(&name));
        vec![Cell::link(name, href), runs.to_string().into()]
    };
    let columns = [Head::name("Set"), Head::number("Runs")];
    shown(&Chooser {
        sets: Table::new(
            "Sets of runs",
            columns,
            site.sets().await?.into_iter().map(link),
        )
        .class("sets"),
        jobs: JobTable::of_choices(&jobs, &*site.present()?),
        most: MOST_COMPARED,
    })
}

/// The comparison as HTML.
pub fn section(
    compared: &ComparisonData,
    choice: &Choice,
    present: &Present,
    width: u32,
) -> Result<String, Problem> {
    let ComparisonData {
        columns,
        comparison,
        of_all,
    } = compared;
    let mut telling = comparison.clone();
    telling.drop_zeros();
    shown(&SideBySide {
        title: choice.set().unwrap_or(TITLE).into(),
        columns: columns
            .iter()
            .enumerate()
            .map(|(place, column)| column_row(place, column, present))
            .collect(),
        has_repeats: columns.iter().any(|column| column.runs.len() > 1),
        charts: figures(columns, width).into(),
        remarks: of_all
            .iter()
            .cloned()
            .chain(comparison.remarks.iter().map(sentence))
            .collect(),
        tables: [other_differences(comparison), figure_table(&telling)],
        basis: basis(comparison),
        command: format!("cowbell job compare {}", choice.arguments()),
    })
}

fn column_row(place: usize, column: &Column, present: &Present) -> ColumnRow {
    let run = |(job, _): &(Job, _)| RunLink {
        href: format!("/jobs/{}", job.id),
        text: format!(
            "job {}, {}",
            job.id,
            moment(job.started_at, present.interval.at)
        ),
        outcome: job.judgement().word(),
        grade: rows::job_class(present, job),
    };
    ColumnRow {
        name: column.name.clone(),
        class: look(place).class(),
        runs: column.runs.iter().map(run).collect(),
    }
}

/// Looks that can be distinguished in one chart, also without colours.
fn look(place: usize) -> Look {
    match place % 8 {
        0 => Look::Read,
        1 => Look::Write,
        other => Look::Other(other as u8 - 2),
    }
}

/// A single job over elapsed time.
pub fn alone(job: &Job, cost: Arc<Cost>, width: u32) -> Vec<Figure> {
    figures(
        &[Column {
            name: job.name.clone(),
            runs: vec![(job.clone(), cost)],
        }],
        width,
    )
}

/// The jobs over elapsed time.
fn figures(columns: &[Column], width: u32) -> Vec<Figure> {
    let runs = || columns.iter().flat_map(|column| &column.runs);
    let is_snapshot = |kind: JobKind| kind == JobKind::Snapshot;
    let read = match (
        runs().any(|(job, _)| is_snapshot(job.kind)),
        runs().any(|(job, _)| !is_snapshot(job.kind)),
    ) {
        (true, false) => "Read from the snapshot",
        (false, _) => "Read from all disks",
        (true, true) => "Read from the snapshot, or from all disks",
    };
    let percent = Axis {
        unit: Unit::Percent,
        max: None,
    };
    let sketches: [(&str, Axis, Value); 3] = [
        (read, BYTES, |point| point.read),
        ("Fill", percent, |point| point.fill_percent),
        ("Written to all disks", BYTES, |point| point.written),
    ];
    let is_known = |value: Value| runs().any(|(_, cost)| cost.outline.has(value));
    let known = sketches
        .into_iter()
        .filter(|(_, _, value)| is_known(*value));
    known
        .map(|(title, axis, value)| figure(title, axis, value, columns, width))
        .collect()
}

type Value = fn(&OutlinePoint) -> Option<f64>;

fn figure(title: &str, axis: Axis, value: Value, columns: &[Column], width: u32) -> Figure {
    let mut lines = Vec::new();
    let mut legend = Vec::new();
    let mut longest: f64 = 1.0;
    for (place, column) in columns.iter().enumerate() {
        let mut most: Option<f64> = None;
        for (_, cost) in &column.runs {
            let series = series(&cost.outline.points, value);
            longest = longest.max(cost.outline.seconds);
            most = series
                .points
                .iter()
                .filter_map(|point| point.avg)
                .chain(most)
                .reduce(f64::max);
            let label = column.name.clone();
            lines.push(Line {
                label,
                series,
                side: Side::Left,
                look: look(place),
                area: false,
            });
        }
        let last = most.map(|most| format!("max. {}", axis.unit.value_text(most)));
        legend.push(LegendEntry {
            label: column.name.clone(),
            class: look(place).class(),
            last,
        });
    }
    let chart = Chart {
        title: format!("{title}, by elapsed time"),
        range: Range {
            from: Timestamp::UNIX_EPOCH,
            to: elapsed(longest),
        },
        time_labels: TimeLabels::Elapsed,
        size: Size {
            width,
            height: HEIGHT,
        },
        left: axis,
        right: None,
        lines,
        bands: Vec::new(),
        marks: Vec::new(),
        stacked: false,
        thresholds: Vec::new(),
        forecasts: Vec::new(),
    };
    Figure {
        legend,
        svg: chart::draw(&chart).svg,
        title: title.into(),
        gaps: Vec::new(),
        sums: Vec::new(),
    }
}

fn series(points: &[OutlinePoint], value: Value) -> Series {
    let point = |point: &OutlinePoint| {
        let avg = value(point);
        Point {
            t: elapsed(point.end_s),
            min: avg,
            avg,
            max: avg,
        }
    };
    Series {
        points: points.iter().map(point).collect(),
    }
}

fn elapsed(seconds: f64) -> Timestamp {
    Timestamp::from_millisecond((seconds * 1000.0) as i64).unwrap_or_default()
}
