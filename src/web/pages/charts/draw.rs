//! Sketches into charts. All series are read in one pass; gaps are explained below the first chart.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::marks::{gone, marks, resumed};
use super::view::{Nearest, nearest};
use super::{Sketch, Trace, axis};
use crate::alert::Pace;
use crate::chart::{
    self, Band, Chart, EventMark, Forecast, LegendEntry, Line, Picture, PictureSize, Side,
    TimeLabels, Unit,
};
use crate::forecast::Eta;
use crate::job::Job;
use crate::present::Present;
use crate::quantity::Quantity;
use crate::series::{Range, Series, saturating_add_seconds};
use crate::store::{SeriesKey, Subject};
use crate::units::count_text;
use crate::web::Site;
use crate::web::answer::{Partial, Problem};
use crate::web::pages::PageRequest;
use crate::web::pages::text::{moment, zoned_moment};
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
    pub figures: Vec<ChartFigure>,
    /// `None` if time counts from the start of jobs.
    pub window: Option<ChartWindow>,
    /// Where there is data, if this range has none.
    pub nearest: Option<Nearest>,
    /// The same range in Grafana.
    pub grafana: Option<String>,
    /// Of a snapshot, below its fill and read speed.
    pub relation: Option<RelationView>,
}

/// The range that was requested and the last tick, in milliseconds since 1970.
pub struct ChartWindow {
    pub from: i64,
    pub to: i64,
    pub now: i64,
}

impl From<Vec<ChartFigure>> for Charts {
    fn from(figures: Vec<ChartFigure>) -> Self {
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
pub struct ChartFigure {
    pub title: String,
    pub legend: Vec<LegendEntry>,
    pub svg: String,
    /// Reasons of gaps; the first chart of a page has them for all charts.
    pub gaps: Vec<String>,
    /// Of a stacked chart, the sum of each line's points.
    pub sums: Vec<f64>,
}

/// How fast snapshots and pools fill, by UUID.
type Paces = HashMap<Arc<str>, Pace>;

/// What all charts of a page share.
struct ChartContext<'a> {
    width: u32,
    /// At least.
    height: u32,
    /// With the time that a forecast adds.
    range: Range,
    bands: Vec<Band>,
    marks: Vec<EventMark>,
    /// Of the host, to see which devices are gone.
    host: Series,
    paces: &'a Paces,
}

/// Reads all series in one pass and draws the charts, with forecasts if the range ends with this present. Sketches without
/// traces are left out.
pub async fn draw(
    request: &PageRequest,
    range: Range,
    jobs: &[Job],
    mut sketches: Vec<Sketch>,
) -> Result<Charts, Problem> {
    let PageRequest { site, present, .. } = request;
    sketches.retain(|sketch| !sketch.traces.is_empty());
    let now = present.interval.at;
    let traces = sketches.iter().flat_map(|sketch| &sketch.traces);
    let mut wanted: Vec<SeriesKey> = traces.map(|trace| trace.wanted.clone()).collect();
    wanted.push(SeriesKey {
        subject: Subject::Total,
        quantity: Quantity::ReadBytes,
    });
    let points = request.view.points();
    let stored = site.store.series(&wanted, range, points).await;
    let in_memory = || site.store.series_in_memory(&wanted, range, points);
    let Partial { mut found, missing } =
        Partial::or_from_memory(stored, in_memory, "only the last minutes are drawn")?;
    let host = found.pop().flatten().unwrap_or_default();
    wanted.pop();
    let nearest = nearest(site, present, &wanted, range, &found).await;
    if range.contains(now) {
        // Lines and legends end with the last tick, not with the mean of the last point.
        let last = site
            .store
            .series_in_memory(&wanted, Range::new(now, now), 1);
        for (series, last) in found.iter_mut().zip(last) {
            let point = series.as_mut().and_then(|series| series.points.last_mut());
            let tick = last.and_then(|last| last.points.last().copied());
            if let (Some(point), Some(tick)) = (point, tick)
                && point.t == tick.t
            {
                point.avg = tick.avg;
            }
        }
    }
    let traces = sketches.iter().flat_map(|sketch| &sketch.traces);
    read_earlier(site, traces, range, points, &mut found).await?;
    let mut marks = marks(site, present, range, jobs).await;
    marks.extend(resumed(&host));
    let no_paces = Paces::new();
    let is_live = range.contains(now) || range.to == now;
    let paces = if is_live { &present.paces } else { &no_paces };
    let context = ChartContext {
        width: request.view.width(),
        height: request.view.height.unwrap_or_default(),
        range: with_future(range, &wanted, paces),
        bands: jobs.iter().map(|job| band(job, now)).collect(),
        marks,
        host,
        paces,
    };
    let mut series = found.into_iter();
    let mut figures = Vec::new();
    for sketch in sketches {
        figures.push(context.figure(sketch, &mut series));
    }
    if let Some(first) = figures.first_mut() {
        first.gaps = missing.into_iter().chain(gaps(present, range)).collect();
    }
    let window = ChartWindow {
        from: range.from.as_millisecond(),
        to: range.to.as_millisecond(),
        now: now.as_millisecond(),
    };
    let grafana = site.grafana.as_ref();
    Ok(Charts {
        figures,
        grafana: grafana.map(|board| board.at(window.from, window.to)),
        window: Some(window),
        nearest,
        relation: None,
    })
}

/// Replaces what was found of an earlier run, which is of today, with what was measured then, moved to now. What cannot be
/// read is not drawn.
async fn read_earlier(
    site: &Site,
    traces: impl Iterator<Item = &Trace>,
    range: Range,
    points: usize,
    found: &mut [Option<Series>],
) -> Result<(), Problem> {
    let (mut places, mut wanted, mut moved_s) = (Vec::new(), Vec::new(), 0.0);
    for (place, trace) in traces.enumerate() {
        if let Some(by_s) = trace.moved_s {
            places.push(place);
            wanted.push(trace.wanted.clone());
            moved_s = by_s;
        }
    }
    if places.is_empty() {
        return Ok(());
    }
    let then = range.moved(-moved_s);
    let stored = site.store.series(&wanted, then, points).await;
    let mut read = Partial::or_from_memory(stored, Vec::new, "")?
        .found
        .into_iter();
    for place in places {
        let series = read.next().flatten();
        found[place] = series.map(|series| series.moved(moved_s));
    }
    Ok(())
}

impl ChartContext<'_> {
    /// Takes the series of its traces.
    fn figure(
        &self,
        sketch: Sketch,
        series: &mut impl Iterator<Item = Option<Series>>,
    ) -> ChartFigure {
        let (left, right) = (sketch.axis(Side::Left), sketch.axis(Side::Right));
        let (mut lines, mut forecasts) = (Vec::new(), Vec::new());
        let own = sketch.traces.iter().filter(|trace| trace.moved_s.is_none());
        let own = own.count();
        for trace in sketch.traces {
            let line = Line {
                label: trace.label,
                series: series.next().flatten().unwrap_or_default(),
                side: trace.side,
                look: trace.look,
                area: trace.area,
                is_below: trace.is_below,
            };
            if let Some(eta) = time_until_full(&trace.wanted, self.paces) {
                forecasts.extend(forecast(eta, &line));
            }
            lines.push(line);
        }
        let mut sums = Vec::new();
        if sketch.stacked {
            sums = label_shares(&mut lines);
        }
        let named = lines[..own].iter().map(|line| (&*line.label, &line.series));
        let mut marks = gone(&self.host, named);
        marks.extend(self.marks.iter().cloned());
        let chart = Chart {
            title: sketch.title,
            range: self.range,
            time_labels: TimeLabels::Clock(zone::current()),
            size: PictureSize {
                width: self.width,
                height: sketch.height.max(self.height),
            },
            left: left.unwrap_or(axis(Unit::Count)),
            right,
            lines,
            stacked: sketch.stacked,
            bands: self.bands.clone(),
            marks,
            thresholds: sketch.thresholds,
            forecasts,
        };
        let Picture { svg, legend } = chart::draw(&chart);
        ChartFigure {
            title: chart.title,
            legend,
            svg,
            gaps: Vec::new(),
            sums,
        }
    }
}

/// Appends its share to the label of each line, and returns the sum of each.
fn label_shares(lines: &mut [Line]) -> Vec<f64> {
    let known = |series: &Series| -> f64 {
        let points = series.points.iter();
        points.filter_map(|point| point.avg).sum()
    };
    let sums: Vec<f64> = lines.iter().map(|line| known(&line.series)).collect();
    let all: f64 = sums.iter().sum();
    if all > 0.0 {
        for (line, sum) in lines.iter_mut().zip(&sums) {
            line.label += &format!(" ({:.0} %)", sum / all * 100.0);
        }
    }
    sums
}

/// The gaps of the range.
fn gaps(present: &Present, range: Range) -> Vec<String> {
    let at = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
    let now = present.interval.at;
    let mut sentences = Vec::new();
    for gap in &present.store.stock.gaps {
        let (from, to) = (at(gap.from_ms), at(gap.to_ms));
        if from <= range.to && range.from <= to {
            let (from, to) = (moment(from, now), zoned_moment(to, now));
            let ticks = count_text(gap.ticks, "tick", "ticks");
            sentences.push(format!(
                "From {from} to {to}, {ticks} could not be stored: {}.",
                gap.reason
            ));
        }
    }
    sentences
}

/// The time until a volume is full, for the line of its fill.
fn time_until_full(key: &SeriesKey, paces: &Paces) -> Option<Eta> {
    match (&key.subject, key.quantity) {
        (Subject::Volume(uuid), Quantity::FillPercent) => paces.get(&**uuid)?.full,
        _ => None,
    }
}

/// The range, and what follows until the first volume of these charts is full, as far as that fits.
fn with_future(range: Range, wanted: &[SeriesKey], paces: &Paces) -> Range {
    let etas = wanted.iter().filter_map(|key| time_until_full(key, paces));
    let likely = etas.map(|eta| eta.likely_s.unwrap_or(eta.soonest_s));
    let Some(soonest_s) = likely.reduce(f64::min) else {
        return range;
    };
    let seconds = range.seconds();
    // In steps, so that the axis does not move at each tick.
    let parts = (soonest_s * FUTURE_MARGIN / seconds / FUTURE_STEP).ceil() * FUTURE_STEP;
    Range {
        to: saturating_add_seconds(range.to, seconds * parts.clamp(FUTURE_STEP, MOST_FUTURE)),
        ..range
    }
}

fn forecast(eta: Eta, line: &Line) -> Option<Forecast> {
    let last = line.series.points.last()?;
    Some(Forecast {
        from: (last.t, last.avg?),
        value: FULL_PERCENT,
        soonest: saturating_add_seconds(last.t, eta.soonest_s),
        likely: eta
            .likely_s
            .map(|likely_s| saturating_add_seconds(last.t, likely_s)),
        latest: eta
            .latest_s
            .map(|latest_s| saturating_add_seconds(last.t, latest_s)),
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
