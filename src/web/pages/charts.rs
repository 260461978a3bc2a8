//! Figures: which series make which chart, over which span, at which width.

use jiff::Timestamp;
use serde::Deserialize;

use super::{Refresh, Site, is_moving, moment};
use crate::chart::{self, Axis, Band, Chart, Grade, LegendEntry, Level, Line, Look, Side, Size, Times, Unit};
use crate::config::Thresholds;
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::series::quantity::{
    DeviceQuantity, EstimateQuantity, HostQuantity, Quantity, ShareQuantity, VolumeQuantity,
};
use crate::series::when::Span;
use crate::series::{Range, Series};
use crate::store::{Gap, Subject, Wanted};
use crate::topology::{Device, Volume, VolumeKind};
use crate::units::Prefix;
use crate::web::answer::{Partly, Problem};

/// The width of a chart where the browser has not said how wide it shows it.
const WIDTH: u32 = 1_000;
const HEIGHT: u32 = 170;
/// Two pixels a point: more is not seen.
const PIXELS_PER_POINT: usize = 2;
/// Spans that are one click away.
const SPANS: [(&str, &str); 7] = [
    ("5 m", "-5m"),
    ("15 m", "-15m"),
    ("1 h", "-1h"),
    ("6 h", "-6h"),
    ("24 h", "-24h"),
    ("7 d", "-7d"),
    ("30 d", "-30d"),
];
const DEFAULT_SPAN: &str = "-15m";
/// Soon after the start a quarter of an hour would be mostly empty.
const FIRST_SPAN: &str = "-5m";
const FIRST_SECONDS: f64 = 300.0;

/// What is shown when no span was asked for.
fn default_span(present: &Present) -> &'static str {
    let watched = Range { from: present.started_at, to: present.interval.at };
    if watched.seconds() < FIRST_SECONDS { FIRST_SPAN } else { DEFAULT_SPAN }
}

/// What an address of a page with charts may say.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct View {
    pub from: Option<String>,
    pub to: Option<String>,
    width: Option<u32>,
}

impl View {
    pub fn span(&self) -> Span {
        Span { from: self.from.clone(), to: self.to.clone() }
    }

    pub fn range(&self, present: &Present) -> Result<Range, Problem> {
        Ok(self.span().range(present.interval.at, default_span(present))?)
    }

    /// The same with another start where none is given.
    pub fn or_from(&self, default: &str) -> Self {
        Self { from: self.from.clone().or_else(|| Some(default.into())), ..self.clone() }
    }

    /// The query that asks for the same span again.
    pub fn query(&self) -> String {
        let pairs = [("from", &self.from), ("to", &self.to)];
        let pairs = pairs.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?)));
        pairs
            .map(|(key, value)| format!("{key}={}", super::text::escaped(value)))
            .collect::<Vec<_>>()
            .join("&")
    }

    /// How the changing part is asked for again.
    pub fn refresh(&self, path: &str, range: Range) -> Option<Refresh> {
        let url = super::fragment_url(path, &self.query());
        Some(if is_moving(&self.span()) { Refresh::of_range(url, range) } else { Refresh::once(url) })
    }

    pub fn ranges(&self, present: &Present) -> Vec<RangeLink> {
        let current = self.from.as_deref().unwrap_or(default_span(present));
        let link = |(name, from): (&'static str, &str)| RangeLink {
            name,
            href: format!("?from={from}"),
            is_current: self.to.is_none() && from == current,
        };
        SPANS.into_iter().map(link).collect()
    }

    pub fn width(&self) -> u32 {
        self.width.unwrap_or(WIDTH).clamp(*chart::WIDTHS.start(), *chart::WIDTHS.end())
    }

    fn points(&self) -> usize {
        self.width() as usize / PIXELS_PER_POINT
    }
}

/// A span that is one click away.
pub struct RangeLink {
    pub name: &'static str,
    pub href: String,
    pub is_current: bool,
}

/// A chart with its legend.
pub struct Figure {
    pub title: String,
    pub legend: Vec<LegendEntry>,
    pub svg: String,
    /// Why there are gaps, in sentences; under the first chart of a page, for all of them.
    pub gaps: Vec<String>,
}

/// A line before its series is read.
pub struct Trace {
    pub label: String,
    pub wanted: Wanted,
    pub look: Look,
    pub side: Side,
    pub area: bool,
}

/// A chart before its series are read.
pub struct Sketch {
    pub title: String,
    pub left: Axis,
    pub right: Option<Axis>,
    pub traces: Vec<Trace>,
    pub levels: Vec<Level>,
}

/// Reads all series in one pass and draws the charts. Sketches without traces are left out.
pub async fn draw(
    site: &Site,
    view: &View,
    range: Range,
    jobs: &[Job],
    sketches: Vec<Sketch>,
) -> Result<Vec<Figure>, Problem> {
    let sketches: Vec<Sketch> = sketches.into_iter().filter(|sketch| !sketch.traces.is_empty()).collect();
    let wanted: Vec<Wanted> =
        sketches.iter().flat_map(|sketch| &sketch.traces).map(|trace| trace.wanted.clone()).collect();
    let kept = site.archive.series(&wanted, range, view.points()).await;
    let in_memory = || site.archive.series_in_memory(&wanted, range, view.points());
    let Partly { found, missing } =
        Partly::or_from_memory(kept, in_memory, "only the last minutes, which are in memory, are drawn")?;
    let mut series = found.into_iter();
    let figures = sketches.into_iter().map(|sketch| {
        let lines = sketch.traces.into_iter().zip(series.by_ref()).map(|(trace, series)| line(trace, series));
        figure(Chart {
            title: sketch.title,
            range,
            times: Times::Clock,
            size: Size { width: view.width(), height: HEIGHT },
            left: sketch.left,
            right: sketch.right,
            lines: lines.collect(),
            bands: jobs.iter().map(band).collect(),
            levels: sketch.levels,
        })
    });
    let mut figures: Vec<Figure> = figures.collect();
    if let Some(first) = figures.first_mut() {
        first.gaps = missing.into_iter().chain(gaps(&*site.present()?, range)).collect();
    }
    Ok(figures)
}

/// The times in the range of which ticks could not be kept.
fn gaps(present: &Present, range: Range) -> Vec<String> {
    let at = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
    let shown = |gap: &&Gap| at(gap.from_ms) <= range.to && range.from <= at(gap.to_ms);
    let gaps = present.store.stock.gaps.iter().filter(shown);
    gaps.map(|gap| {
        let (from, to) =
            (moment(at(gap.from_ms), present.interval.at), moment(at(gap.to_ms), present.interval.at));
        format!("From {from} to {to} UTC {} ticks could not be kept: {}.", gap.ticks, gap.reason)
    })
    .collect()
}

fn line(trace: Trace, series: Option<Series>) -> Line {
    let series = series.unwrap_or_default();
    Line { label: trace.label, series, side: trace.side, look: trace.look, area: trace.area }
}

fn figure(chart: Chart) -> Figure {
    Figure { legend: chart::legend(&chart), svg: chart::draw(&chart), title: chart.title, gaps: Vec::new() }
}

fn band(job: &Job) -> Band {
    Band {
        from: job.started_at,
        to: job.ended_at,
        label: job.name.clone(),
        href: Some(format!("/jobs/{}", job.id)),
    }
}

pub const BYTES: Axis = Axis { unit: Unit::BytesPerSecond(Prefix::Binary), most: None };
const PERCENT: Axis = Axis { unit: Unit::Percent, most: Some(100.0) };

pub fn trace(label: impl Into<String>, subject: &Subject, quantity: Quantity, look: Look) -> Trace {
    let wanted = Wanted { subject: subject.clone(), quantity };
    Trace { label: label.into(), wanted, look, side: Side::Left, area: false }
}

/// Reading and writing of one subject.
pub fn throughput(title: &str, subject: &Subject) -> Sketch {
    let read = trace("read", subject, Quantity::Device(DeviceQuantity::ReadBytes), Look::Read);
    let written = trace("written", subject, Quantity::Device(DeviceQuantity::WrittenBytes), Look::Write);
    Sketch {
        title: title.into(),
        left: BYTES,
        right: None,
        traces: vec![Trace { area: true, ..read }, written],
        levels: Vec::new(),
    }
}

/// Whether anything may have been copied aside in what is shown: there is a thick snapshot, or there was.
pub fn may_copy(present: &Present, jobs: &[Job]) -> bool {
    let is_snapshot = |volume: &Volume| volume.kind == VolumeKind::Snapshot;
    present.interval.topology.volumes.iter().any(is_snapshot)
        || jobs.iter().any(|job| job.kind == JobKind::Snapshot)
}

/// What PVs did for thick snapshots: reading what is about to be overwritten, and writing COW areas.
pub fn copying<'a>(pvs: impl Iterator<Item = &'a Device>) -> Sketch {
    let traces = pvs.zip(0_u8..).flat_map(|(pv, number)| {
        let subject = Subject::Device(pv.identity.to_string());
        let looks = disk_looks(number);
        let trace = |what: &str, quantity, look| {
            trace(format!("{} {what}", pv.name), &subject, Quantity::Share(quantity), look)
        };
        [
            trace("copied from", ShareQuantity::CopyReadBytes, looks[0]),
            trace("COW written", ShareQuantity::CopyWrittenBytes, looks[1]),
        ]
    });
    Sketch {
        title: "Of that, COW copying".into(),
        left: BYTES,
        right: None,
        traces: traces.collect(),
        levels: Vec::new(),
    }
}

/// The colours of reading and writing of the n-th disk in a chart.
pub fn disk_looks(number: u8) -> [Look; 2] {
    match number {
        0 => [Look::Read, Look::Write],
        number => [Look::Other(2 * number - 2), Look::Other(2 * number - 1)],
    }
}

/// How full a snapshot probably was, where nobody may ask.
pub fn estimate_traces(subject: &Subject) -> Vec<Trace> {
    let trace = |label: &str, quantity, look| trace(label, subject, Quantity::Estimate(quantity), look);
    vec![
        trace("estimated", EstimateQuantity::EstimatedPercent, Look::Fill),
        trace("at least", EstimateQuantity::EstimatedLowPercent, Look::Other(0)),
        trace("at most", EstimateQuantity::EstimatedHighPercent, Look::Other(1)),
    ]
}

pub fn latency(subject: &Subject) -> Sketch {
    let traces = vec![
        trace("read", subject, Quantity::Device(DeviceQuantity::ReadAwaitMs), Look::Read),
        trace("written", subject, Quantity::Device(DeviceQuantity::WriteAwaitMs), Look::Write),
    ];
    let left = Axis { unit: Unit::Milliseconds, most: None };
    Sketch { title: "Latency (await)".into(), left, right: None, traces, levels: Vec::new() }
}

pub fn utilisation(subject: &Subject) -> Sketch {
    let busy = trace("busy", subject, Quantity::Device(DeviceQuantity::Utilisation), Look::Other(0));
    let queue = trace("queue depth", subject, Quantity::Device(DeviceQuantity::QueueDepth), Look::Other(1));
    Sketch {
        title: "Busy and queue depth".into(),
        left: Axis { unit: Unit::Share, most: Some(1.0) },
        right: Some(Axis { unit: Unit::Count, most: None }),
        traces: vec![Trace { area: true, ..busy }, Trace { side: Side::Right, ..queue }],
        levels: Vec::new(),
    }
}

/// `vmstat`'s bi and bo.
pub fn paging() -> Sketch {
    let traces = vec![
        trace("bi", &Subject::Host, Quantity::Host(HostQuantity::BiKibPerS), Look::Read),
        trace("bo", &Subject::Host, Quantity::Host(HostQuantity::BoKibPerS), Look::Write),
    ];
    let left = Axis { unit: Unit::KibPerSecond, most: None };
    Sketch {
        title: "Paged in and out (vmstat's bi and bo)".into(),
        left,
        right: None,
        traces,
        levels: Vec::new(),
    }
}

/// Fills, with the levels at which an alert is raised.
pub fn fills(traces: Vec<Trace>, thresholds: Thresholds) -> Sketch {
    Sketch {
        title: "Fill".into(),
        left: PERCENT,
        right: None,
        traces,
        levels: levels(thresholds, Side::Left),
    }
}

/// The picture that this program exists for: how full the snapshot was, and how fast it could be read.
pub fn fill_and_read_speed(subject: &Subject, thresholds: Thresholds) -> Sketch {
    let read = trace("read speed", subject, Quantity::Device(DeviceQuantity::ReadBytes), Look::Read);
    let fill = trace("fill", subject, Quantity::Volume(VolumeQuantity::FillPercent), Look::Fill);
    Sketch {
        title: "Fill and read speed".into(),
        left: BYTES,
        right: Some(PERCENT),
        traces: vec![Trace { area: true, ..read }, Trace { side: Side::Right, ..fill }],
        levels: levels(thresholds, Side::Right),
    }
}

fn levels(thresholds: Thresholds, side: Side) -> Vec<Level> {
    let level =
        |value: f64, word: &str, grade| Level { value, side, label: format!("{word} {value} %"), grade };
    vec![
        level(thresholds.warning, "warning", Grade::Warning),
        level(thresholds.critical, "critical", Grade::Critical),
    ]
}

/// Fill of a volume, and of its metadata where it has any.
pub fn fill_traces(name: &str, subject: &Subject, has_metadata: bool, number: u8) -> Vec<Trace> {
    let look = if number == 0 { Look::Fill } else { Look::Other(number - 1) };
    let mut traces = vec![trace(name, subject, Quantity::Volume(VolumeQuantity::FillPercent), look)];
    if has_metadata {
        let quantity = Quantity::Volume(VolumeQuantity::MetadataPercent);
        traces.push(trace(format!("{name} metadata"), subject, quantity, Look::Other(number + 2)));
    }
    traces
}
