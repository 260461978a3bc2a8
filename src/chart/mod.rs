//! Series → SVG: a chart is a function from its description to text.
//!
//! The picture names classes where others write colours, so one text serves the light and the dark theme; the style
//! sheet gives them their look. Whatever the description holds, an SVG comes out: unknown values are gaps, labels are
//! escaped, sizes are limited. Legends are HTML and made from the same description.

mod band;
mod ink;
mod paint;
mod runs;
mod scale;
mod svg;
#[cfg(test)]
mod tests;
mod time_axis;
mod unit;

use jiff::Timestamp;

use crate::series::{Range, Series};
pub use ink::Look;
pub use unit::Unit;

/// Width and height in pixels, smallest to largest that is drawn; what is outside is brought inside.
pub const WIDTHS: std::ops::RangeInclusive<u32> = 240..=4_000;
pub const HEIGHTS: std::ops::RangeInclusive<u32> = 80..=2_000;

/// Everything a chart shows. Labels may hold any text.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What a screen reader says of the picture.
    pub title: String,
    pub range: Range,
    /// What the labels of the time axis say.
    pub times: Times,
    pub size: Size,
    pub left: Axis,
    pub right: Option<Axis>,
    pub lines: Vec<Line>,
    pub bands: Vec<Band>,
    pub levels: Vec<Level>,
}

/// What a time axis counts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// The time of day, in UTC.
    #[default]
    Clock,
    /// Hours, minutes and seconds since 1970 began: for lines that are laid over each other by their starts.
    Elapsed,
}

/// In pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub width: u32,
    pub height: u32,
}

/// A vertical axis; it starts at zero.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub unit: Unit,
    /// The fixed upper end; without it the largest value decides. Values above it are drawn at the upper edge.
    pub most: Option<f64>,
}

/// One quantity, in the unit of the axis on its side.
#[derive(Clone, Debug)]
pub struct Line {
    pub label: String,
    pub series: Series,
    pub side: Side,
    pub look: Look,
    /// Whether the space below the line is tinted.
    pub area: bool,
}

/// The axis that a value belongs to. Without an axis on the right everything belongs to the left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// A span of time behind the lines: a job.
#[derive(Clone, Debug)]
pub struct Band {
    pub from: Timestamp,
    /// `None` while it goes on.
    pub to: Option<Timestamp>,
    pub label: String,
    /// A path on this site; anything else is not linked. For the pointer only: the page must link it elsewhere too.
    pub href: Option<String>,
}

/// A horizontal line that must not be crossed; not drawn where it lies above the axis.
#[derive(Clone, Debug)]
pub struct Level {
    pub value: f64,
    pub side: Side,
    pub label: String,
    pub grade: Grade,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    Warning,
    Critical,
}

/// What the legend says of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegendEntry {
    pub label: String,
    /// The class that gives the key its colour and dash, as in the picture.
    pub class: &'static str,
    /// The value of the last point, with its unit; `None` where it is unknown.
    pub last: Option<String>,
}

/// The chart as one `<svg>` element.
pub fn draw(chart: &Chart) -> String {
    let size = Size {
        width: chart.size.width.clamp(*WIDTHS.start(), *WIDTHS.end()),
        height: chart.size.height.clamp(*HEIGHTS.start(), *HEIGHTS.end()),
    };
    let mut picture = svg::opening(&chart.title, size);
    // Writing to memory cannot fail, and a picture with a part missing still says more than none.
    paint::paint(chart, size, &mut picture).ok();
    picture.push_str("</svg>");
    picture
}

/// One entry per line, in the same order.
pub fn legend(chart: &Chart) -> Vec<LegendEntry> {
    chart.lines.iter().map(|line| line.legend_entry(chart.axis(line.side).unit)).collect()
}

impl Chart {
    fn axis(&self, side: Side) -> Axis {
        match (side, self.right) {
            (Side::Right, Some(right)) => right,
            _ => self.left,
        }
    }

    /// The side on which something is drawn.
    fn side(&self, wished: Side) -> Side {
        if self.right.is_some() { wished } else { Side::Left }
    }
}

impl Line {
    fn legend_entry(&self, unit: Unit) -> LegendEntry {
        let last = self.series.points.last().and_then(|point| point.avg).filter(|value| value.is_finite());
        LegendEntry {
            label: self.label.clone(),
            class: self.look.class(),
            last: last.map(|value| unit.value_text(value)),
        }
    }
}
