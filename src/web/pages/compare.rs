//! `/jobs/compare`: jobs over elapsed time, their figures with ratios, and what else differs.
//!
//! Without jobs in its address, it is the page on which they are selected.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use jiff::Timestamp;

use super::charts::{self, ChartFigure, Charts};
use super::jobs::{JOB_FILTER, JobTable, below_jobs, job_class};
use super::text::moment;
use super::{Content, ListTools, PageResult, Refresh, shown};
use crate::chart::{
    self, Axis, Chart, LegendEntry, Line, Look, PictureSize, Side, TimeLabels, Unit,
};
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::report::text::{basis, figures as figure_table, other_differences, sentence};
use crate::report::time_series::TimelinePoint;
use crate::series::{Point, Range, Series, saturating_add_seconds};
use crate::store::JobQuery;
use crate::table::{Cell, Column, Table};
use crate::web::answer::{ParsedQuery, Problem, QueryPairs};
use crate::web::compare::{Choice, ComparedColumn, ComparisonData, EVER, MOST_COMPARED};
use crate::web::costs::Cost;
use crate::web::{SharedSite, Site, escaped};

const TITLE: &str = "Jobs compared";
/// The default width of a chart.
const WIDTH: u32 = 1_000;
const HEIGHT: u32 = 190;
/// Jobs that the page offers for selection.
const MOST_OFFERED: usize = 200;

#[derive(Template)]
#[template(path = "compare.html")]
struct ComparisonSection {
    title: String,
    columns: Vec<ColumnLegend>,
    has_repeats: bool,
    charts: Charts,
    remarks: Vec<String>,
    /// Other differences, and all figures.
    tables: [Table; 2],
    basis: Option<String>,
    command: String,
}

/// A compared column, with the look of its lines.
struct ColumnLegend {
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
struct JobChooser {
    sets: Table,
    jobs: JobTable,
    most: usize,
}

pub async fn page(
    State(site): State<SharedSite>,
    ParsedQuery(query): ParsedQuery<QueryPairs>,
) -> PageResult {
    let choice = Choice::or_nothing(&query)?;
    if choice.is_empty() {
        let filter = query.iter().find(|(key, _)| key == "filter");
        let filter = filter.map(|(_, filter)| filter.clone());
        let filter = filter.unwrap_or_default();
        let chooser = chooser(&site, &filter).await?;
        let content = Content::new("Compare jobs", "/backups", None, &chooser)?;
        return below_jobs(content).with_list_tools(ListTools {
            placeholder: JOB_FILTER,
            filter,
            ..ListTools::default()
        });
    }
    let width = query.iter().find(|(key, _)| key == "width");
    let width = width.and_then(|(_, width)| width.parse().ok());
    let compared = site.compared(&choice).await?;
    let present = site.present()?;
    let section = section(&compared, &choice, &present, width.unwrap_or(WIDTH));
    Content::new(TITLE, "/backups", Refresh::Once, &section).map(below_jobs)
}

async fn chooser(site: &Site, filter: &str) -> Result<JobChooser, Problem> {
    let jobs = site.job_list(&JobQuery::of(EVER), MOST_OFFERED).await?;
    let sets = Table::of("Sets of runs", site.sets().await?)
        .column(Column::name("Set"), |(name, _)| {
            Cell::link(name, format!("/jobs/compare?set={}", escaped(name)))
        })
        .column(Column::number("Runs"), |(_, runs)| runs.to_string())
        .done();
    let mut jobs = JobTable::of_choices(&jobs, &*site.present()?);
    jobs.table = jobs.table.filtered(filter);
    Ok(JobChooser {
        sets: sets.class("sets"),
        jobs,
        most: MOST_COMPARED,
    })
}

/// The comparison as HTML.
pub fn html(
    compared: &ComparisonData,
    choice: &Choice,
    present: &Present,
) -> Result<String, Problem> {
    shown(&section(compared, choice, present, WIDTH))
}

fn section(
    compared: &ComparisonData,
    choice: &Choice,
    present: &Present,
    width: u32,
) -> ComparisonSection {
    let ComparisonData {
        columns,
        comparison,
        of_all,
    } = compared;
    let mut telling = comparison.clone();
    telling.drop_zeros();
    let mut remarks = of_all.clone();
    remarks.extend(comparison.remarks.iter().map(sentence));
    let mut legend = Vec::new();
    for (place, column) in columns.iter().enumerate() {
        legend.push(ColumnLegend {
            name: column.name.clone(),
            class: look(place).class(),
            runs: column
                .runs
                .iter()
                .map(|(job, _)| run_link(job, present))
                .collect(),
        });
    }
    ComparisonSection {
        title: choice.set().unwrap_or(TITLE).into(),
        columns: legend,
        has_repeats: columns.iter().any(|column| column.runs.len() > 1),
        charts: figures(columns, width).into(),
        remarks,
        tables: [other_differences(comparison), figure_table(&telling)],
        basis: basis(comparison),
        command: format!("cowbell job compare {}", choice.arguments()),
    }
}

fn run_link(job: &Job, present: &Present) -> RunLink {
    let began = moment(job.started_at, present.interval.at);
    RunLink {
        href: format!("/jobs/{}", job.id),
        text: format!("job {}, {began}", job.id),
        outcome: job.judgement().word(),
        grade: job_class(present, job),
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
pub fn alone(job: &Job, cost: Arc<Cost>, width: u32) -> Vec<ChartFigure> {
    let column = ComparedColumn {
        name: job.name.clone(),
        runs: vec![(job.clone(), cost)],
    };
    figures(&[column], width)
}

type OfPoint = fn(&TimelinePoint) -> Option<f64>;

/// The jobs over elapsed time. Charts without a known value are left out.
fn figures(columns: &[ComparedColumn], width: u32) -> Vec<ChartFigure> {
    let runs = || columns.iter().flat_map(|column| &column.runs);
    let is_snapshot = |(job, _): &(Job, Arc<Cost>)| job.kind == JobKind::Snapshot;
    let read = match (runs().any(is_snapshot), runs().all(is_snapshot)) {
        (true, true) => "Read from the snapshot",
        (true, false) => "Read from the snapshot, or from all disks",
        (false, _) => "Read from all disks",
    };
    let charts: [(&str, Axis, OfPoint); 3] = [
        (read, charts::BYTES, |point| point.read),
        ("Fill", charts::axis(Unit::Percent), |point| {
            point.fill_percent
        }),
        ("Written to all disks", charts::BYTES, |point| point.written),
    ];
    let mut figures = Vec::new();
    for (title, axis, value) in charts {
        if runs().any(|(_, cost)| cost.timeline.has(value)) {
            figures.push(figure(title, axis, value, columns, width));
        }
    }
    figures
}

fn figure(
    title: &str,
    axis: Axis,
    value: OfPoint,
    columns: &[ComparedColumn],
    width: u32,
) -> ChartFigure {
    let mut lines = Vec::new();
    let mut legend = Vec::new();
    let mut longest_s: f64 = 1.0;
    for (place, column) in columns.iter().enumerate() {
        let (label, look) = (&column.name, look(place));
        let mut most: Option<f64> = None;
        for (_, cost) in &column.runs {
            longest_s = longest_s.max(cost.timeline.seconds);
            let series = series(&cost.timeline.points, value);
            let known = series.points.iter().filter_map(|point| point.avg);
            most = known.chain(most).reduce(f64::max);
            lines.push(Line {
                label: label.clone(),
                series,
                side: Side::Left,
                look,
                area: false,
                is_below: false,
            });
        }
        legend.push(LegendEntry {
            label: label.clone(),
            class: look.class(),
            last: most.map(|most| format!("max. {}", axis.unit.value_text(most))),
        });
    }
    let chart = Chart {
        title: format!("{title}, by elapsed time"),
        range: Range::new(elapsed(0.0), elapsed(longest_s)),
        time_labels: TimeLabels::Elapsed,
        size: PictureSize {
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
    ChartFigure {
        legend,
        svg: chart::draw(&chart).svg,
        title: title.into(),
        gaps: Vec::new(),
        sums: Vec::new(),
    }
}

fn series(points: &[TimelinePoint], value: OfPoint) -> Series {
    let mut series = Series::default();
    for point in points {
        let avg = value(point);
        series.points.push(Point {
            t: elapsed(point.end_s),
            min: avg,
            avg,
            max: avg,
        });
    }
    series
}

fn elapsed(seconds: f64) -> Timestamp {
    saturating_add_seconds(Timestamp::UNIX_EPOCH, seconds)
}
