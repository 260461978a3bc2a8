//! The layers of a chart: grid, bands, tints, lines, thresholds, labels.

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::types::RangedCoordf64;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::element::{PathElement, Polygon, Text};
use plotters::prelude::{DrawingArea, IntoDrawingArea};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, TextStyle};

use crate::alert::Severity;

use super::band::{self, Edges};
use super::grid::Grid;
use super::ink::{self, Role};
use super::label::{Area, Place};
use super::runs::{FinitePoint, Runs};
use super::scale::Scale;
use super::scaled::Scaled;
use super::svg::{ClassSvg, TENTHS};
use super::time_axis::LABEL_DISTANCE;
use super::{Chart, Forecast, Line, Side, Size, Threshold, ahead, frame, mark, time_axis};

/// The approximate size of a label's text, in tenths of a pixel.
const CHARACTER: i32 = 62;
const LABEL_HEIGHT: i32 = 12 * TENTHS;
/// Values above this part of an axis are named; rounding alone is no cut.
const CUT: f64 = 1.000_001;
/// Distance of their labels, in tenths of a pixel.
const CUT_DISTANCE: i32 = 150 * TENTHS;

type DrawResult = Result<(), DrawingAreaErrorKind<std::convert::Infallible>>;
type Canvas<'a> = DrawingArea<ClassSvg<'a>, Shift>;
type Plot<'a> = DrawingArea<ClassSvg<'a>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// A chart in progress: plots take seconds and values, the canvas takes labels.
struct Painter<'a> {
    chart: &'a Chart,
    size: Size,
    canvas: Canvas<'a>,
    grid: Grid,
    /// Of each line, what is drawn.
    runs: Vec<Runs>,
    left: (Scale, Plot<'a>),
    right: Option<(Scale, Plot<'a>)>,
}

/// Appends the shapes of a chart to `out`.
pub fn paint(scaled: &Scaled, out: &mut String) -> DrawResult {
    let Scaled { chart, size, .. } = *scaled;
    let [left, top, right, bottom] = frame::edges(chart, size).map(|pixels| pixels * TENTHS);
    let edges = Edges {
        left,
        right,
        top,
        bottom,
    };
    band::draw(&chart.bands, chart.range, &edges, out);
    mark::draw(&chart.marks, chart.range, &edges, out);
    let painter = Painter::new(scaled, out);
    painter.grid()?;
    painter.lines(Painter::tints)?;
    painter.lines(Painter::strokes)?;
    painter.dots()?;
    chart
        .forecasts
        .iter()
        .try_for_each(|forecast| painter.forecast(forecast))?;
    chart
        .thresholds
        .iter()
        .try_for_each(|threshold| painter.threshold(threshold))?;
    painter.cuts(Side::Left)?;
    painter.cuts(Side::Right)?;
    painter.values(Side::Left)?;
    painter.values(Side::Right)?;
    let grid = painter.grid;
    drop(painter);
    time_axis::draw(scaled, &edges, grid, out);
    Ok(())
}

impl<'a> Painter<'a> {
    fn new(scaled: &Scaled<'a>, out: &'a mut String) -> Self {
        let Scaled { chart, size, .. } = *scaled;
        let canvas = ClassSvg::new(out, size).into_drawing_area();
        let side = |scale: Scale| (scale, plot(&canvas, chart, size, scale.max));
        let (left, right) = (side(scaled.left), scaled.right.map(side));
        let grid = Grid::new(
            chart.range,
            seconds(chart) / f64::from(frame::width(chart, size)),
        );
        let mut runs = scaled.runs.clone();
        runs.iter_mut()
            .flatten()
            .flatten()
            .for_each(|point| point.at = grid.nearest(point.at));
        Self {
            chart,
            size,
            canvas,
            grid,
            runs,
            left,
            right,
        }
    }

    fn side(&self, side: Side) -> &(Scale, Plot<'a>) {
        match (side, &self.right) {
            (Side::Right, Some(right)) => right,
            _ => &self.left,
        }
    }

    fn grid(&self) -> DrawResult {
        let (scale, plot) = &self.left;
        let seconds = seconds(self.chart);
        for (value, _) in scale.ticks() {
            let role = if value == 0.0 { Role::Axis } else { Role::Grid };
            plot.draw(&PathElement::new(
                vec![(0.0, value), (seconds, value)],
                ink::plain(role),
            ))?;
        }
        Ok(())
    }

    fn lines(
        &self,
        draw: impl Fn(&Plot<'a>, (usize, &Line), &[FinitePoint], Grid) -> DrawResult,
    ) -> DrawResult {
        for (number, (line, runs)) in self.chart.lines.iter().zip(&self.runs).enumerate() {
            let (scale, plot) = self.side(line.side);
            for run in runs {
                draw(plot, (number, line), &clamped(run, scale.max), self.grid)?;
            }
        }
        Ok(())
    }

    /// The area below a line, and the envelope from minimum to maximum.
    fn tints(
        plot: &Plot<'a>,
        (number, line): (usize, &Line),
        run: &[FinitePoint],
        grid: Grid,
    ) -> DrawResult {
        if run.len() < 2 {
            return Ok(());
        }
        if line.area {
            let mut corners: Vec<(f64, f64)> =
                run.iter().map(|point| (point.at, point.avg)).collect();
            corners.extend([(run[run.len() - 1].at, 0.0), (run[0].at, 0.0)]);
            plot.draw(&Polygon::new(
                corners,
                ink::line(Role::Area, line.look, number).filled(),
            ))?;
        }
        if run
            .iter()
            .any(|point| point.min < point.avg || point.max > point.avg)
        {
            let corners = envelope(run, grid);
            plot.draw(&Polygon::new(
                corners,
                ink::line(Role::Envelope, line.look, number).filled(),
            ))?;
        }
        Ok(())
    }

    fn strokes(
        plot: &Plot<'a>,
        (number, line): (usize, &Line),
        run: &[FinitePoint],
        _: Grid,
    ) -> DrawResult {
        if run.len() < 2 {
            return Ok(());
        }
        let points: Vec<(f64, f64)> = run.iter().map(|point| (point.at, point.avg)).collect();
        plot.draw(&PathElement::new(
            points,
            ink::line(Role::Line, line.look, number),
        ))
    }

    /// The points that are in no line.
    fn dots(&self) -> DrawResult {
        for (number, (line, runs)) in self.chart.lines.iter().zip(&self.runs).enumerate() {
            let (scale, plot) = self.side(line.side);
            let alone = runs
                .iter()
                .filter(|run| run.len() == 1)
                .flat_map(|run| clamped(run, scale.max));
            let points: Vec<(f64, f64)> = alone.map(|point| (point.at, point.avg)).collect();
            if !points.is_empty() {
                plot.draw(&PathElement::new(
                    points,
                    ink::line(Role::Dot, line.look, number),
                ))?;
            }
        }
        Ok(())
    }

    fn forecast(&self, forecast: &Forecast) -> DrawResult {
        let (range, (scale, plot)) = (self.chart.range, self.side(forecast.side));
        if !(range.from..range.to).contains(&forecast.from.0) {
            return Ok(());
        }
        let inside = |(at_s, value): (f64, f64)| {
            let is_known = at_s.is_finite() && value.is_finite();
            is_known.then(|| {
                (
                    at_s.clamp(0.0, seconds(self.chart)),
                    value.clamp(0.0, scale.max),
                )
            })
        };
        let inside =
            |places: Vec<(f64, f64)>| places.into_iter().filter_map(inside).collect::<Vec<_>>();
        let (area, line) = (
            inside(ahead::area(forecast, range)),
            inside(ahead::line(forecast, range)),
        );
        plot.draw(&Polygon::new(
            area,
            ink::forecast(Role::Envelope, forecast.look).filled(),
        ))?;
        if line.is_empty() {
            return Ok(());
        }
        plot.draw(&PathElement::new(
            line,
            ink::forecast(Role::Ahead, forecast.look),
        ))
    }

    fn threshold(&self, threshold: &Threshold) -> DrawResult {
        let (scale, plot) = self.side(threshold.side);
        if !(0.0..=scale.max).contains(&threshold.value) {
            return Ok(());
        }
        let (end, ink) = (seconds(self.chart), ink::threshold(threshold.severity));
        plot.draw(&PathElement::new(
            vec![(0.0, threshold.value), (end, threshold.value)],
            ink,
        ))?;
        let [(left, y), (right, _)] =
            [0.0, end].map(|at| plot.map_coordinate(&(at, threshold.value)));
        // On different sides, since two thresholds may be close to each other.
        let (away, anchor) = match threshold.severity {
            Severity::Warning => (LABEL_DISTANCE / 2, VPos::Top),
            Severity::Critical => (-LABEL_DISTANCE / 2, VPos::Bottom),
        };
        let width = threshold.label.len() as i32 * CHARACTER;
        let (above, below) = if away < 0 {
            (LABEL_HEIGHT, 0)
        } else {
            (0, LABEL_HEIGHT)
        };
        let courses = self.courses();
        let hidden = |left| {
            let area = Area {
                left,
                right: left + width,
                top: y + away - above,
                bottom: y + away + below,
            };
            area.hidden(&courses)
        };
        let (left, right) = (left + LABEL_DISTANCE / 2, right - LABEL_DISTANCE / 2);
        let (x, across) = match hidden(left) < hidden(right - width) {
            true => (left, HPos::Left),
            false => (right, HPos::Right),
        };
        self.text(&threshold.label, (x, y + away), ink, across, anchor)
    }

    /// What labels should not lie on: lines and forecasts.
    fn courses(&self) -> Vec<Vec<Place>> {
        let (range, end) = (self.chart.range, seconds(self.chart));
        let mapped = |side: Side, course: Vec<(f64, f64)>| -> Vec<Place> {
            let (scale, plot) = self.side(side);
            let known = course
                .into_iter()
                .filter(|(at, value)| at.is_finite() && value.is_finite());
            let inside = known.map(|(at, value)| (at.clamp(0.0, end), value.clamp(0.0, scale.max)));
            inside.map(|place| plot.map_coordinate(&place)).collect()
        };
        let lines = self.chart.lines.iter().zip(&self.runs);
        let lines = lines.flat_map(|(line, runs)| runs.iter().map(move |run| (line.side, run)));
        let lines = lines.map(|(side, run)| {
            (
                side,
                run.iter().map(|point| (point.at, point.avg)).collect(),
            )
        });
        let forecasts = self.chart.forecasts.iter();
        let forecasts = forecasts.map(|forecast| (forecast.side, ahead::area(forecast, range)));
        lines
            .chain(forecasts)
            .map(|(side, course)| mapped(side, course))
            .collect()
    }

    /// Says where values lie above the axis, and how high.
    fn cuts(&self, side: Side) -> DrawResult {
        if self.chart.axis(side).max.is_some() || (side == Side::Right && self.right.is_none()) {
            return Ok(());
        }
        let (scale, plot) = self.side(side);
        let lines = self.chart.lines.iter().zip(&self.runs);
        let points = lines
            .filter(|(line, _)| self.chart.side(line.side) == side)
            .flat_map(|(_, runs)| runs);
        let mut cut: Vec<&FinitePoint> = points
            .flatten()
            .filter(|point| point.max > scale.max * CUT)
            .collect();
        cut.sort_by(|a, b| b.max.total_cmp(&a.max));
        let mut taken: Vec<i32> = Vec::new();
        for point in cut {
            let (x, y) = plot.map_coordinate(&(point.at, scale.max));
            if taken.iter().any(|other| (x - other).abs() < CUT_DISTANCE) {
                continue;
            }
            let is_left = x < self.size.width as i32 * TENTHS / 2;
            let (text, across) = (
                scale.text(point.max),
                if is_left { HPos::Left } else { HPos::Right },
            );
            let text = if is_left {
                format!("▲ {text}, axis cut")
            } else {
                format!("{text}, axis cut ▲")
            };
            self.text(
                &text,
                (x, y + TENTHS),
                ink::plain(Role::Tick),
                across,
                VPos::Top,
            )?;
            taken.push(x);
        }
        Ok(())
    }

    /// The labels of a vertical axis, with the unit above them.
    fn values(&self, side: Side) -> DrawResult {
        if side == Side::Right && self.right.is_none() {
            return Ok(());
        }
        let (scale, plot) = self.side(side);
        let (at, away, anchor) = match side {
            Side::Left => (0.0, -LABEL_DISTANCE, HPos::Right),
            Side::Right => (seconds(self.chart), LABEL_DISTANCE, HPos::Left),
        };
        let ink = ink::plain(Role::Tick);
        for (value, label) in scale.ticks() {
            let (x, y) = plot.map_coordinate(&(at, value));
            self.text(&label, (x + away, y), ink, anchor, VPos::Center)?;
        }
        let (x, _) = plot.map_coordinate(&(at, 0.0));
        self.text(scale.name(), (x + away, TENTHS), ink, anchor, VPos::Top)
    }

    fn text(
        &self,
        text: &str,
        at: (i32, i32),
        ink: RGBColor,
        across: HPos,
        down: VPos,
    ) -> DrawResult {
        let style = TextStyle::from(("sans-serif", 11).into_font())
            .color(&ink)
            .pos(Pos::new(across, down));
        self.canvas.draw(&Text::new(text.to_owned(), at, style))
    }
}

/// The length of the time axis; a range that is empty or goes back counts as one second.
fn seconds(chart: &Chart) -> f64 {
    let seconds = chart.range.seconds();
    if seconds > 0.0 { seconds } else { 1.0 }
}

fn plot<'a>(canvas: &Canvas<'a>, chart: &Chart, size: Size, max: f64) -> Plot<'a> {
    let [top, bottom, left, right] = frame::margins(chart, size).map(|pixels| pixels * TENTHS);
    let inner = canvas.margin(top, bottom, left, right);
    let (across, down) = inner.get_pixel_range();
    let axes = Cartesian2d::new(
        0.0..seconds(chart),
        0.0..max,
        (across, down.end..down.start),
    );
    inner.apply_coord_spec(axes)
}

fn clamped(run: &[FinitePoint], most: f64) -> Vec<FinitePoint> {
    let inside = |&FinitePoint { at, min, avg, max }: &FinitePoint| {
        let [min, avg, max] = [min, avg, max].map(|value: f64| value.clamp(0.0, most));
        FinitePoint { at, min, avg, max }
    };
    run.iter().map(inside).collect()
}

/// The outline along the largest values and back along the smallest, in columns.
fn envelope(run: &[FinitePoint], grid: Grid) -> Vec<(f64, f64)> {
    let columns: Vec<&[FinitePoint]> = run
        .chunk_by(|a, b| grid.column(a.at) == grid.column(b.at))
        .collect();
    let largest = |point: &[FinitePoint]| point.iter().map(|point| point.max).fold(0.0, f64::max);
    let smallest = |point: &[FinitePoint]| {
        point
            .iter()
            .map(|point| point.min)
            .fold(f64::INFINITY, f64::min)
    };
    let last = run.len() - 1;
    let mut corners = vec![(run[0].at, largest(columns[0]))];
    corners.extend(columns.iter().map(|point| (middle(point), largest(point))));
    corners.push((run[last].at, largest(columns[columns.len() - 1])));
    corners.push((run[last].at, smallest(columns[columns.len() - 1])));
    corners.extend(
        columns
            .iter()
            .rev()
            .map(|point| (middle(point), smallest(point))),
    );
    corners.push((run[0].at, smallest(columns[0])));
    corners
}

fn middle(point: &[FinitePoint]) -> f64 {
    (point[0].at + point[point.len() - 1].at) / 2.0
}
