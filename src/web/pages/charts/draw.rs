//! Sketches into charts. All series are read in one pass; gaps are explained below the first chart.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::marks::{gone, marks, resumed};
use super::nearest::{Nearest, later, nearest};
use super::{Sketch, Trace, View};
use crate::alert::Pace;
use crate::chart::{self, Band, Chart, Forecast, LegendEntry, Line, Picture, Size, TimeLabels};
use crate::forecast::Eta;
use crate::job::Job;
use crate::present::Present;
use crate::quantity::Quantity;
use crate::series::{Range, Series};
use crate::store::{Gap, SeriesKey, Subject};
use crate::units::count_text;
use crate::web::Site;
use crate::web::answer::{Partial, Problem};
use crate::web::pages::{moment, zoned_moment};
use crate::web::zone;

/// The part of the range that a forecast may add, and in which steps.
const MOST_FUTURE: f64 = 0.4;
const FUTURE_STEP: f64 = 0.1;
/// So much of the time until full is shown, to see where it ends.
const FUTURE_MARGIN: f64 = 1.2;
const FULL_PERCENT: f64 = 100.0;

/// The charts of a page, all over the same range.
#[derive(Default)]
pub struct Charts {
    pub figures: Vec<Figure>,
    /// `None` if time counts from the start of jobs.
    pub window: Option<Window>,
    /// Where there is data, if this range has none.
    pub nearest: Option<Nearest>,
    /// The same range in Grafana.
    pub grafana: Option<String>,
    /// Of a snapshot, below its fill and read speed.
    pub relation: Option<RelationView>,
}

/// The range that was requested and the last tick, in milliseconds since 1970.
pub struct Window {
    pub from: i64,
    pub to: i64,
    pub now: i64,
}

impl From<Vec<Figure>> for Charts {
    fn from(figures: Vec<Figure>) -> Self {
        Self {
            figures,
            ..Self::default()
        }
    }
}

/// Read speed against fill.
pub struct RelationView {
    pub sentence: String,
    pub svg: String,
}

/// A chart with its legend.
pub struct Figure {
    pub title: String,
    pub legend: Vec<LegendEntry>,
    pub svg: String,
    /// Reasons of gaps; the first chart of a page has them for all charts.
    pub gaps: Vec<String>,
    /// Of a stacked chart, the sum of each line's points.
    pub sums: Vec<f64>,
}

/// Reads all series in one pass and draws the charts, with forecasts if the range ends with this present. Sketches without traces are left out.
pub async fn draw(
    site: &Site,
    present: &Present,
    view: &View,
    range: Range,
    jobs: &[Job],
    sketches: Vec<Sketch>,
) -> Result<Charts, Problem> {
    let sketches: Vec<Sketch> = sketches
        .into_iter()
        .filter(|sketch| !sketch.traces.is_empty())
        .collect();
    let traces = sketches.iter().flat_map(|sketch| &sketch.traces);
    let mut wanted: Vec<SeriesKey> = traces.map(|trace| trace.wanted.clone()).collect();
    // Of the host, to see which devices are gone.
    let host = Quantity::ReadBytes;
    wanted.push(SeriesKey {
        subject: Subject::Total,
        quantity: host,
    });
    let stored = site.store.series(&wanted, range, view.points()).await;
    let in_memory = || site.store.series_in_memory(&wanted, range, view.points());
    let Partial { mut found, missing } =
        Partial::or_from_memory(stored, in_memory, "only the last minutes are drawn")?;
    let host = found.pop().flatten().unwrap_or_default();
    wanted.pop();
    let nearest = nearest(site, present, &wanted, range, &found).await;
    let common_marks = marks(site, present, range).await;
    let window = Window {
        from: range.from.as_millisecond(),
        to: range.to.as_millisecond(),
        now: present.interval.at.as_millisecond(),
    };
    let mut series = found.into_iter();
    let is_live = range.contains(present.interval.at) || range.to == present.interval.at;
    let paces = if is_live {
        present.paces.clone()
    } else {
        HashMap::new()
    };
    let range = with_future(range, &sketches, &paces);
    let figures = sketches.into_iter().map(|sketch| {
        let line = |(
            Trace {
                label,
                side,
                look,
                area,
                ..
            },
            series,
        ): (Trace, Option<Series>)| Line {
            label,
            series: series.unwrap_or_default(),
            side,
            look,
            area,
        };
        let keys: Vec<SeriesKey> = sketch
            .traces
            .iter()
            .map(|trace| trace.wanted.clone())
            .collect();
        let mut lines: Vec<Line> = sketch
            .traces
            .into_iter()
            .zip(series.by_ref())
            .map(line)
            .collect();
        let sums = if sketch.stacked {
            label_shares(&mut lines)
        } else {
            Vec::new()
        };
        let forecasts = keys
            .iter()
            .zip(&lines)
            .filter_map(|(key, line)| forecast(pace(key, &paces)?.full?, line));
        let mut marks = gone(&host, lines.iter().map(|line| (&*line.label, &line.series)));
        marks.extend(common_marks.iter().cloned().chain(resumed(&host)));
        let chart = Chart {
            forecasts: forecasts.collect(),
            title: sketch.title,
            range,
            time_labels: TimeLabels::Clock(zone::current()),
            size: Size {
                width: view.width(),
                height: sketch.height,
            },
            left: sketch.left,
            right: sketch.right,
            lines,
            bands: jobs
                .iter()
                .map(|job| band(job, present.interval.at))
                .collect(),
            marks,
            stacked: sketch.stacked,
            thresholds: sketch.thresholds,
        };
        let Picture { svg, legend } = chart::draw(&chart);
        Figure {
            legend,
            svg,
            title: chart.title,
            gaps: Vec::new(),
            sums,
        }
    });
    let mut figures: Vec<Figure> = figures.collect();
    if let Some(first) = figures.first_mut() {
        first.gaps = missing.into_iter().chain(gaps(present, range)).collect();
    }
    let grafana = site
        .grafana
        .as_ref()
        .map(|board| board.at(window.from, window.to));
    Ok(Charts {
        figures,
        window: Some(window),
        nearest,
        grafana,
        relation: None,
    })
}

/// Appends its share to the label of each line, and returns the sum of each.
fn label_shares(lines: &mut [Line]) -> Vec<f64> {
    let sum = |line: &Line| {
        line.series
            .points
            .iter()
            .filter_map(|point| point.avg)
            .sum::<f64>()
    };
    let sums: Vec<f64> = lines.iter().map(sum).collect();
    let all: f64 = sums.iter().sum();
    for (line, sum) in lines.iter_mut().zip(&sums).filter(|_| all > 0.0) {
        line.label = format!("{} ({:.0} %)", line.label, sum / all * 100.0);
    }
    sums
}

/// The gaps of the range.
fn gaps(present: &Present, range: Range) -> Vec<String> {
    let at = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
    let shown = |gap: &&Gap| at(gap.from_ms) <= range.to && range.from <= at(gap.to_ms);
    let gaps = present.store.stock.gaps.iter().filter(shown);
    gaps.map(|gap| {
        let (from, to) = (
            moment(at(gap.from_ms), present.interval.at),
            zoned_moment(at(gap.to_ms), present.interval.at),
        );
        format!(
            "From {from} to {to}, {} could not be stored: {}.",
            count_text(gap.ticks, "tick", "ticks"),
            gap.reason
        )
    })
    .collect()
}

/// How fast the volume of a fill's line fills.
fn pace<'a>(key: &SeriesKey, paces: &'a HashMap<Arc<str>, Pace>) -> Option<&'a Pace> {
    match (&key.subject, key.quantity) {
        (Subject::Volume(uuid), Quantity::FillPercent) => paces.get(&**uuid),
        _ => None,
    }
}

/// The range, and what follows until the first volume of these charts is full, as far as that fits.
fn with_future(range: Range, sketches: &[Sketch], paces: &HashMap<Arc<str>, Pace>) -> Range {
    let keys = sketches
        .iter()
        .flat_map(|sketch| &sketch.traces)
        .map(|trace| &trace.wanted);
    let etas = keys.filter_map(|key| pace(key, paces)?.full);
    let Some(soonest_s) = etas
        .map(|eta| eta.likely_s.unwrap_or(eta.soonest_s))
        .reduce(f64::min)
    else {
        return range;
    };
    let seconds = range.seconds();
    // In steps, so that the axis does not move at each tick.
    let parts = (soonest_s * FUTURE_MARGIN / seconds / FUTURE_STEP).ceil() * FUTURE_STEP;
    Range {
        to: later(range.to, seconds * parts.clamp(FUTURE_STEP, MOST_FUTURE)),
        ..range
    }
}

fn forecast(eta: Eta, line: &Line) -> Option<Forecast> {
    let last = line.series.points.last()?;
    Some(Forecast {
        from: (last.t, last.avg?),
        value: FULL_PERCENT,
        soonest: later(last.t, eta.soonest_s),
        likely: eta.likely_s.map(|likely_s| later(last.t, likely_s)),
        latest: eta.latest_s.map(|latest_s| later(last.t, latest_s)),
        side: line.side,
        look: line.look,
    })
}

fn band(job: &Job, now: Timestamp) -> Band {
    Band {
        from: job.started_at,
        to: job.ended_at.or(Some(now)),
        label: job.name.clone(),
        href: Some(format!("/jobs/{}", job.id)),
    }
}
