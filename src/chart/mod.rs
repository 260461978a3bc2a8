//! Series → SVG: a chart is a function from its description to text.
//!
//! The SVG uses CSS classes instead of colours, so one text serves the light and the dark theme. Any description yields
//! an SVG: unknown values are gaps, labels are escaped, sizes are limited. It carries its numbers, and nothing in it can
//! be clicked: legends and links are HTML from the same description.

mod annotations;
mod lines;
mod numbers;
mod plot;
mod runs;
mod scale;
mod scatter;
mod svg;
#[cfg(test)]
mod tests;
mod time_axis;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::alert::Severity;
use crate::series::{Range, Series};
use plot::ChartLayout;
use svg::Svg;

pub use crate::quantity::Unit;
pub use scatter::{Scatter, scatter};

/// Limits of width and height in pixels; values outside are clamped.
pub const WIDTHS: std::ops::RangeInclusive<u32> = 240..=4_000;
pub const HEIGHTS: std::ops::RangeInclusive<u32> = 80..=2_000;

/// The description of a chart. Labels may hold any text.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The label for screen readers.
    pub title: String,
    pub range: Range,
    /// The labels of the time axis.
    pub time_labels: TimeLabels,
    pub size: PictureSize,
    pub left: Axis,
    pub right: Option<Axis>,
    pub lines: Vec<Line>,
    /// Whether the lines lie on each other, so that the uppermost is their sum. All use the left axis.
    pub stacked: bool,
    pub bands: Vec<Band>,
    pub marks: Vec<EventMark>,
    pub thresholds: Vec<Threshold>,
    pub forecasts: Vec<Forecast>,
}

/// How a line goes on until it reaches a value: dashed, with its range shaded.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The last point of the line.
    pub from: (Timestamp, f64),
    pub value: f64,
    pub soonest: Timestamp,
    /// `None` if it is not expected.
    pub likely: Option<Timestamp>,
    /// `None` if it may never happen.
    pub latest: Option<Timestamp>,
    pub side: Side,
    pub look: Look,
}

/// The labels of a time axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeLabels {
    /// Date and time of day in a zone.
    Clock(TimeZone),
    /// Time since 1970 as a duration, for lines that are aligned by their start.
    Elapsed,
}

/// In pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PictureSize {
    pub width: u32,
    pub height: u32,
}

/// A vertical axis; it starts at zero. Durations that are decades apart make it logarithmic.
#[derive(Clone, Copy, Debug, Default)]
pub struct Axis {
    pub unit: Unit,
    /// A fixed upper end; otherwise the largest value decides. Larger values are drawn at the upper edge.
    pub max: Option<f64>,
}

/// One quantity, in the unit of the axis on its side.
#[derive(Clone, Debug)]
pub struct Line {
    pub label: String,
    pub series: Series,
    pub side: Side,
    pub look: Look,
    /// Whether the space between the line and the axis is tinted.
    pub area: bool,
    /// Whether the line is drawn downwards, as writes below reads.
    pub is_below: bool,
}

/// Colour and dash of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Read,
    Write,
    /// Usage.
    Fill,
    /// One of six further looks, by number modulo six.
    Other(u8),
}

impl Look {
    /// Of the same quantity in an earlier run.
    pub fn of_earlier(self) -> Self {
        match self {
            Self::Fill => Self::Other(4),
            _ => Self::Other(5),
        }
    }

    /// The class in the style sheet.
    pub fn class(self) -> &'static str {
        const OTHERS: [&str; 6] = ["k3", "k4", "k5", "k6", "k7", "k8"];
        match self {
            Self::Read => "k1",
            Self::Write => "k2",
            Self::Fill => "kf",
            Self::Other(number) => OTHERS[usize::from(number) % OTHERS.len()],
        }
    }
}

/// The axis of a value. Without a right axis, all values use the left one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// A job's time range, drawn behind the lines.
#[derive(Clone, Debug)]
pub struct Band {
    pub from: Timestamp,
    /// `None` while the job runs.
    pub to: Option<Timestamp>,
    pub label: String,
    /// A path on this site; other values are ignored.
    pub href: Option<String>,
}

/// An instant at which something happened, such as an alert.
#[derive(Clone, Debug)]
pub struct EventMark {
    pub at: Timestamp,
    pub text: String,
    pub kind: EventKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// An alert was raised or became worse.
    Raised(Severity),
    /// An alert ended.
    Cleared,
    /// cowbell or the host started, or a device disappeared.
    Change,
}

/// A horizontal line at an alert threshold; omitted if above the axis.
#[derive(Clone, Debug)]
pub struct Threshold {
    pub value: f64,
    pub side: Side,
    pub label: String,
    pub severity: Severity,
}

/// A line's entry in the legend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegendEntry {
    pub label: String,
    /// The CSS class for the line's colour and dash.
    pub class: &'static str,
    /// The value of the last point, with unit; `None` if unknown.
    pub last: Option<String>,
}

/// A chart as it is shown.
pub struct Picture {
    /// One `<svg>` element.
    pub svg: String,
    /// One entry per line, in the same order, in the units of the axes.
    pub legend: Vec<LegendEntry>,
}

/// Draws a chart, layer upon layer.
pub fn draw(chart: &Chart) -> Picture {
    let layout = ChartLayout::new(chart, clamped(chart.size));
    let mut svg = Svg::new(&chart.title, layout.size);
    annotations::bands(&layout, &mut svg);
    annotations::marks(&layout, &mut svg);
    layout.left.grid(&mut svg);
    lines::draw(&layout, &mut svg);
    annotations::forecasts(&layout, &mut svg);
    annotations::thresholds(&layout, &mut svg);
    for side in chart.sides() {
        lines::cuts(&layout, side, &mut svg);
        layout.plot(side).labels(side, &mut svg);
    }
    time_axis::draw(&layout, &mut svg);
    svg.metadata(&numbers::json(&layout));
    Picture {
        svg: svg.finish(),
        legend: legend(&layout),
    }
}

fn legend(layout: &ChartLayout) -> Vec<LegendEntry> {
    let mut legend = Vec::new();
    for line in &layout.chart.lines {
        let last = line.series.points.last().and_then(|point| point.avg);
        let last = last.filter(|value| value.is_finite());
        legend.push(LegendEntry {
            label: line.label.clone(),
            class: line.look.class(),
            last: last.map(|value| layout.plot(line.side).scale.text(value)),
        });
    }
    legend
}

fn clamped(size: PictureSize) -> PictureSize {
    PictureSize {
        width: size.width.clamp(*WIDTHS.start(), *WIDTHS.end()),
        height: size.height.clamp(*HEIGHTS.start(), *HEIGHTS.end()),
    }
}

impl Chart {
    fn axis(&self, side: Side) -> Axis {
        match (side, self.right) {
            (Side::Right, Some(right)) => right,
            _ => self.left,
        }
    }

    /// The sides with an axis.
    fn sides(&self) -> Vec<Side> {
        match self.right {
            Some(_) => vec![Side::Left, Side::Right],
            None => vec![Side::Left],
        }
    }

    /// The side that something is drawn on.
    fn side(&self, preferred: Side) -> Side {
        if self.right.is_some() {
            preferred
        } else {
            Side::Left
        }
    }
}
