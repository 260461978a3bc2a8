//! `/jobs/compare`: jobs laid over each other by elapsed time, every figure with its ratio, and what differs besides.
//! Without jobs in its address, the page on which they are chosen.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Html;
use jiff::Timestamp;

use super::charts::{BYTES, Figure};
use super::rows::{JobTable, outcome};
use super::{Answer, Content, Prefix, Refresh, framed, job_list, moment, shown};
use crate::chart::{self, Axis, Chart, LegendEntry, Line, Look, Side, Size, TimeLabels, Unit};
use crate::job::{Job, JobKind};
use crate::report::outline::OutlinePoint;
use crate::report::text::{basis, besides, figures as figure_table, sentence};
use crate::series::{Point, Range, Series};
use crate::store::JobQuery;
use crate::table::{Cell, Column as Head, Table};
use crate::web::Site;
use crate::web::answer::{ParsedQuery, Problem};
use crate::web::compare::{Choice, Column, ComparisonData, MOST_COMPARED, sets};
use crate::web::costs::Cost;

const TITLE: &str = "Jobs side by side";
/// The width of a chart where nobody has said how wide it is shown.
pub const WIDTH: u32 = 1_000;
const HEIGHT: u32 = 190;
/// Looks that the eye tells apart in one chart, also without colours.
const LOOKS: [Look; 8] = [
    Look::Read,
    Look::Write,
    Look::Other(0),
    Look::Other(1),
    Look::Other(2),
    Look::Other(3),
    Look::Other(4),
    Look::Other(5),
];
/// Jobs among which some are chosen on the page.
const MOST_OFFERED: usize = 200;

#[derive(Template)]
#[template(path = "compare.html")]
struct SideBySide {
    title: String,
    columns: Vec<ColumnRow>,
    has_repeats: bool,
    figures: Vec<Figure>,
    remarks: Vec<String>,
    /// What differs besides, and every figure.
    tables: [Table; 2],
    basis: Option<String>,
    command: String,
}

/// What is compared, with the key of its lines.
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
        let tools = String::new();
        return framed(&site, Content { title: "Compare jobs", place: "/jobs", refresh: None, tools, now });
    }
    let now = now(&site, &choice, &query).await?;
    let refresh = Some(Refresh::once(super::fragment_url("/jobs/compare/now", &choice.query())));
    framed(&site, Content { title: TITLE, place: "/jobs", refresh, tools: String::new(), now })
}

pub async fn fragment(State(site): State<Site>, ParsedQuery(query): ParsedQuery<Pairs>) -> Answer {
    now(&site, &Choice::of(&query)?, &query).await.map(Html)
}

async fn now(site: &Site, choice: &Choice, query: &Pairs) -> Result<String, Problem> {
    let width = query.iter().find(|(key, _)| key == "width").and_then(|(_, width)| width.parse().ok());
    let compared = site.compared(choice).await?;
    section(&compared, choice, site.present()?.interval.at, width.unwrap_or(WIDTH))
}

async fn chooser(site: &Site) -> Result<String, Problem> {
    let present = site.present()?;
    let ever = Range { from: Timestamp::UNIX_EPOCH, to: Timestamp::MAX };
    let jobs = job_list(site, &present, &JobQuery::of(ever), MOST_OFFERED).await?;
    let link = |(name, runs): (String, usize)| {
        let href = format!("/jobs/compare?set={}", super::escaped(&name));
        vec![Cell::link(name, href), runs.to_string().into()]
    };
    let columns = [Head::name("Set"), Head::number("Runs")];
    shown(&Chooser {
        sets: Table::new("Sets of runs", columns, sets(site).await?.into_iter().map(link)).class("sets"),
        jobs: JobTable::of_choices(&jobs, present.interval.at),
        most: MOST_COMPARED,
    })
}

/// The comparison, as HTML.
pub fn section(
    compared: &ComparisonData,
    choice: &Choice,
    now: Timestamp,
    width: u32,
) -> Result<String, Problem> {
    let ComparisonData { columns, comparison, of_all } = compared;
    shown(&SideBySide {
        title: choice.set().unwrap_or(TITLE).into(),
        columns: columns.iter().enumerate().map(|(place, column)| column_row(place, column, now)).collect(),
        has_repeats: columns.iter().any(|column| column.runs.len() > 1),
        figures: figures(columns, width),
        remarks: of_all.iter().cloned().chain(comparison.remarks.iter().map(sentence)).collect(),
        tables: [besides(comparison), figure_table(comparison, Prefix::default())],
        basis: basis(comparison),
        command: format!("cowbell job compare {}", choice.words()),
    })
}

fn column_row(place: usize, column: &Column, now: Timestamp) -> ColumnRow {
    let run = |(job, _): &(Job, _)| {
        let (outcome, grade) = outcome(job);
        RunLink {
            href: format!("/jobs/{}", job.id),
            text: format!("job {}, {}", job.id, moment(job.started_at, now)),
            outcome,
            grade,
        }
    };
    ColumnRow {
        name: column.name.clone(),
        class: look(place).class(),
        runs: column.runs.iter().map(run).collect(),
    }
}

fn look(place: usize) -> Look {
    LOOKS[place % LOOKS.len()]
}

/// A single job, by the seconds since it began.
pub fn alone(job: &Job, cost: Arc<Cost>, width: u32) -> Vec<Figure> {
    figures(&[Column { name: job.name.clone(), runs: vec![(job.clone(), cost)] }], width)
}

/// The jobs over each other, by the seconds since each began.
fn figures(columns: &[Column], width: u32) -> Vec<Figure> {
    let runs = || columns.iter().flat_map(|column| &column.runs);
    let is_snapshot = |kind: JobKind| kind == JobKind::Snapshot;
    let read =
        match (runs().any(|(job, _)| is_snapshot(job.kind)), runs().any(|(job, _)| !is_snapshot(job.kind))) {
            (true, false) => "Read from the snapshot",
            (false, _) => "Read from all disks",
            (true, true) => "Read from the snapshot, or from all disks",
        };
    let percent = Axis { unit: Unit::Percent, max: None };
    let sketches: [(&str, Axis, Value); 3] = [
        (read, BYTES, |point| point.read),
        ("Fill", percent, |point| point.fill_percent),
        ("Written to all disks", BYTES, |point| point.written),
    ];
    let is_known = |value: Value| runs().any(|(_, cost)| cost.outline.has(value));
    let known = sketches.into_iter().filter(|(_, _, value)| is_known(*value));
    known.map(|(title, axis, value)| figure(title, axis, value, columns, width)).collect()
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
            most = series.points.iter().filter_map(|point| point.avg).chain(most).reduce(f64::max);
            let label = column.name.clone();
            lines.push(Line { label, series, side: Side::Left, look: look(place), area: false });
        }
        let last = most.map(|most| format!("{} at most", axis.unit.value_text(most)));
        legend.push(LegendEntry { label: column.name.clone(), class: look(place).class(), last });
    }
    let chart = Chart {
        title: format!("{title}, by elapsed time"),
        range: Range { from: Timestamp::UNIX_EPOCH, to: elapsed(longest) },
        time_labels: TimeLabels::Elapsed,
        size: Size { width, height: HEIGHT },
        left: axis,
        right: None,
        lines,
        bands: Vec::new(),
        thresholds: Vec::new(),
    };
    Figure { legend, svg: chart::draw(&chart), title: title.into(), gaps: Vec::new() }
}

fn series(points: &[OutlinePoint], value: Value) -> Series {
    let point = |point: &OutlinePoint| {
        let avg = value(point);
        Point { t: elapsed(point.end_s), min: avg, avg, max: avg }
    };
    Series { points: points.iter().map(point).collect() }
}

fn elapsed(seconds: f64) -> Timestamp {
    Timestamp::from_millisecond((seconds * 1000.0) as i64).unwrap_or_default()
}
