//! Where things lie: the plot inside a picture, its vertical axes, and the runs of its lines.

use jiff::Timestamp;
use plotters::coord::CoordTranslate;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;

use super::runs::{self, FinitePoint, Run};
use super::scale::{Reach, Scale};
use super::svg::{Across, Down, Place, Svg, TENTHS};
use super::{Chart, Line, PictureSize, Side, Unit};

/// Margins for axis labels and, above, for units and job names, in pixels.
const TOP: i32 = 22;
const BOTTOM: i32 = 20;
const LEFT: i32 = 52;
const RIGHT_WITH_AXIS: i32 = 48;
const RIGHT: i32 = 14;
/// From this width on, charts with and without a right axis have the same margin, so stacked charts align.
const ALIGNED_FROM: u32 = 560;
/// Distance of labels from the plot, in tenths of a pixel.
pub const LABEL_DISTANCE: i32 = 6 * TENTHS;
/// Width in pixels of the columns that lines and bands are drawn by. In narrower ones, a line that varies from second to
/// second would be hatching.
const COLUMN: f64 = 4.0;

/// The edges of a plot in its picture, in tenths of a pixel.
#[derive(Clone, Copy)]
pub struct Edges {
    pub left: i32,
    pub top: i32,
    pub right: i32,
    pub bottom: i32,
}

impl Edges {
    /// The edges inside these margins, all in pixels.
    pub fn new(size: PictureSize, [top, right, bottom, left]: [i32; 4]) -> Self {
        Self {
            left: left * TENTHS,
            top: top * TENTHS,
            right: (size.width as i32 - right) * TENTHS,
            bottom: (size.height as i32 - bottom) * TENTHS,
        }
    }

    /// In pixels.
    pub fn width(self) -> f64 {
        f64::from((self.right - self.left) / TENTHS)
    }

    /// In pixels.
    pub fn height(self) -> f64 {
        f64::from((self.bottom - self.top) / TENTHS)
    }
}

/// A plot with a vertical axis: maps values to places.
pub struct Plot {
    pub edges: Edges,
    pub scale: Scale,
    /// The end of the horizontal axis, which starts at zero.
    end: f64,
    coordinates: Cartesian2d<RangedCoordf64, RangedCoordf64>,
}

impl Plot {
    pub fn new(edges: Edges, end: f64, scale: Scale) -> Self {
        let pixels = (edges.left..edges.right, edges.bottom..edges.top);
        Self {
            edges,
            scale,
            end,
            coordinates: Cartesian2d::new(
                0.0..end,
                scale.position(scale.min)..scale.position(scale.max),
                pixels,
            ),
        }
    }

    /// The place of a point. One beyond the plot, such as a peak above a cut axis, lies on its edge.
    pub fn place(&self, at: f64, value: f64) -> Place {
        let inside = (at.clamp(0.0, self.end), self.scale.position(value));
        self.coordinates.translate(&inside)
    }

    pub fn places(&self, points: &[(f64, f64)]) -> Vec<Place> {
        let known = points
            .iter()
            .filter(|(at, value)| at.is_finite() && value.is_finite());
        known.map(|(at, value)| self.place(*at, *value)).collect()
    }

    /// A horizontal line at each labelled value.
    pub fn grid(&self, svg: &mut Svg) {
        for (value, _) in self.scale.ticks() {
            let ends = [self.place(0.0, value), self.place(self.end, value)];
            let is_axis = value == self.scale.base();
            svg.stroke(if is_axis { "axis" } else { "grid" }, &ends);
        }
    }

    /// The labels of the vertical axis, with the unit above them.
    pub fn labels(&self, side: Side, svg: &mut Svg) {
        let (x, across) = match side {
            Side::Left => (self.edges.left - LABEL_DISTANCE, Across::Right),
            Side::Right => (self.edges.right + LABEL_DISTANCE, Across::Left),
        };
        for (value, label) in self.scale.ticks() {
            let (_, y) = self.place(0.0, value);
            svg.text("tick", (x, y), (across, Down::Middle), &label);
        }
        svg.text(
            "tick",
            (x, TENTHS),
            (across, Down::Below),
            self.scale.name(),
        );
    }
}

/// A chart with what its shapes, its legend and its numbers share.
pub struct ChartLayout<'a> {
    pub chart: &'a Chart,
    pub size: PictureSize,
    /// Of each line, what is drawn.
    pub runs: Vec<Vec<Run>>,
    pub left: Plot,
    pub right: Option<Plot>,
}

impl<'a> ChartLayout<'a> {
    pub fn new(chart: &'a Chart, size: PictureSize) -> Self {
        let has_margin = chart.right.is_some() || size.width >= ALIGNED_FROM;
        let right = if has_margin { RIGHT_WITH_AXIS } else { RIGHT };
        let edges = Edges::new(size, [TOP, right, BOTTOM, LEFT]);
        let runs = runs::runs_of_lines(chart);
        let plot = |side: Side| {
            let axis = chart.axis(side);
            let scale = Scale::new(axis, reach(chart, &runs, side), edges.height());
            Plot::new(edges, seconds(chart), scale)
        };
        Self {
            chart,
            size,
            left: plot(Side::Left),
            right: chart.right.map(|_| plot(Side::Right)),
            runs,
        }
    }

    /// The plot of the axis that something on this side has.
    pub fn plot(&self, side: Side) -> &Plot {
        match (side, &self.right) {
            (Side::Right, Some(right)) => right,
            _ => &self.left,
        }
    }

    pub fn lines(&self) -> impl Iterator<Item = (&'a Line, &[Run])> {
        self.chart
            .lines
            .iter()
            .zip(self.runs.iter().map(Vec::as_slice))
    }

    pub fn end(&self) -> f64 {
        seconds(self.chart)
    }

    /// Seconds from the start of the time axis.
    pub fn seconds_at(&self, at: Timestamp) -> f64 {
        runs::seconds(self.chart.range.from, at)
    }

    /// Where an instant lies across.
    pub fn x(&self, at: Timestamp) -> i32 {
        self.left.place(self.seconds_at(at), 0.0).0
    }

    /// The columns of a run, which are not empty. They stay where they are in time, so that nothing flickers when the chart
    /// moves on.
    pub fn columns<'run>(&self, run: &'run Run) -> impl Iterator<Item = &'run [FinitePoint]> {
        run.chunk_by(|a, b| self.column(a.at) == self.column(b.at))
    }

    fn column(&self, at: f64) -> i64 {
        let column_s = self.end() / self.left.edges.width() * COLUMN;
        let from_s = self.chart.range.from.as_millisecond() as f64 / 1000.0;
        ((from_s + at) / column_s).floor() as i64
    }
}

/// What the axis of a side has to hold.
fn reach(chart: &Chart, runs: &[Vec<Run>], side: Side) -> Reach {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for (line, runs) in chart.lines.iter().zip(runs) {
        if chart.side(line.side) == side {
            if line.is_below { &mut down } else { &mut up }.extend(runs);
        }
    }
    Reach {
        highest: runs::height(&up, |point| point.max),
        below: runs::height(&down, |point| -point.min).unwrap_or_default(),
        decades: (chart.axis(side).unit == Unit::Milliseconds)
            .then(|| runs::decades(&up))
            .flatten(),
    }
}

/// The length of the time axis; a range that is empty or goes back counts as one second.
fn seconds(chart: &Chart) -> f64 {
    let seconds = chart.range.seconds();
    if seconds > 0.0 { seconds } else { 1.0 }
}
