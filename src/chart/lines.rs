//! The lines of a chart: tints, strokes and dots, and what of them is above the axis.

use std::iter;

use super::plot::{ChartLayout, Plot};
use super::runs::{FinitePoint, Run};
use super::svg::{Across, Class, Down, Place, Svg, TENTHS};
use super::{Line, Side};

/// Values above this part of an axis are named; rounding alone is no cut.
const CUT: f64 = 1.000_001;
/// Distance of their labels, in tenths of a pixel.
const CUT_DISTANCE: i32 = 150 * TENTHS;

/// Tints lie below all strokes, and points that are in no stroke above them.
pub fn draw(layout: &ChartLayout, svg: &mut Svg) {
    for (number, (line, runs)) in layout.lines().enumerate() {
        let plot = layout.plot(line.side);
        for run in runs.iter().filter(|run| run.len() > 1) {
            if line.area {
                svg.area(class("area", line, number), &below(layout, plot, run));
            }
            let varies = |point: &FinitePoint| point.min < point.avg || point.max > point.avg;
            if run.iter().any(varies) || layout.columns(run).count() < run.len() {
                let outline = envelope(layout, plot, run);
                svg.tint(class("envelope", line, number), &outline);
            }
        }
    }
    for (number, (line, runs)) in layout.lines().enumerate() {
        let plot = layout.plot(line.side);
        for run in runs.iter().filter(|run| run.len() > 1) {
            svg.stroke(class("line", line, number), &means(layout, plot, run));
        }
    }
    for (number, (line, runs)) in layout.lines().enumerate() {
        let alone = runs.iter().filter(|run| run.len() == 1).flatten();
        let plot = layout.plot(line.side);
        let dots: Vec<Place> = alone.map(|point| plot.place(point.at, point.avg)).collect();
        svg.dots(class("dot", line, number), &dots);
    }
}

fn class(role: &'static str, line: &Line, number: usize) -> Class {
    Class {
        role,
        look: line.look.class(),
        line: Some(number),
    }
}

/// From the first point to the last one, through the mean of each column.
fn means(layout: &ChartLayout, plot: &Plot, run: &Run) -> Vec<Place> {
    let place = |point: &FinitePoint| plot.place(point.at, point.avg);
    let mean = |column: &[FinitePoint], value: fn(&FinitePoint) -> f64| {
        column.iter().map(value).sum::<f64>() / column.len() as f64
    };
    let columns = layout.columns(run);
    let inside = columns.map(|column| {
        plot.place(
            mean(column, |point| point.at),
            mean(column, |point| point.avg),
        )
    });
    let (first, last) = (place(&run[0]), place(&run[run.len() - 1]));
    iter::once(first).chain(inside).chain([last]).collect()
}

/// The outline of what is between a run and zero.
fn below(layout: &ChartLayout, plot: &Plot, run: &Run) -> Vec<Place> {
    let mut corners = means(layout, plot, run);
    corners.push(plot.place(run[run.len() - 1].at, 0.0));
    corners.push(plot.place(run[0].at, 0.0));
    corners
}

/// The outline along the largest values and back along the smallest, in columns.
fn envelope(layout: &ChartLayout, plot: &Plot, run: &Run) -> Vec<Place> {
    let mut upper = Vec::new();
    let mut lower = Vec::new();
    for column in layout.columns(run) {
        let largest = column
            .iter()
            .map(|point| point.max)
            .fold(f64::NEG_INFINITY, f64::max);
        let smallest = column
            .iter()
            .map(|point| point.min)
            .fold(f64::INFINITY, f64::min);
        let middle = (column[0].at + column[column.len() - 1].at) / 2.0;
        upper.push((middle, largest));
        lower.push((middle, smallest));
    }
    // The ends of the run, since its first and last column may reach beyond their middle.
    for outline in [&mut upper, &mut lower] {
        outline.insert(0, (run[0].at, outline[0].1));
        outline.push((run[run.len() - 1].at, outline[outline.len() - 1].1));
    }
    upper.extend(lower.into_iter().rev());
    plot.places(&upper)
}

/// Says where values lie above the axis, and how high.
pub fn cuts(layout: &ChartLayout, side: Side, svg: &mut Svg) {
    if layout.chart.axis(side).max.is_some() {
        return;
    }
    let plot = layout.plot(side);
    let lines = layout
        .lines()
        .filter(|(line, _)| layout.chart.side(line.side) == side);
    let points = lines.flat_map(|(_, runs)| runs).flatten();
    let (min, max) = (plot.scale.min, plot.scale.max);
    // Where they lie, and their value, which is negative below the axis.
    let mut cut: Vec<(f64, f64)> = Vec::new();
    for point in points {
        if point.max > max * CUT {
            cut.push((point.at, point.max));
        } else if min < 0.0 && point.min < min * CUT {
            cut.push((point.at, point.min));
        }
    }
    cut.sort_by(|(_, a), (_, b)| b.abs().total_cmp(&a.abs()));
    let mut taken: Vec<(i32, bool)> = Vec::new();
    for (at, value) in cut {
        let is_above = value > 0.0;
        let (x, y) = plot.place(at, value);
        let is_near =
            |(other, side): &(i32, bool)| *side == is_above && (x - other).abs() < CUT_DISTANCE;
        if taken.iter().any(is_near) {
            continue;
        }
        taken.push((x, is_above));
        let value = plot.scale.text(value.abs());
        let (sign, inside, down) = if is_above {
            ("▲", TENTHS, Down::Below)
        } else {
            ("▼", -TENTHS, Down::Above)
        };
        let (text, across) = if x < layout.size.width as i32 * TENTHS / 2 {
            (format!("{sign} {value}, axis cut"), Across::Left)
        } else {
            (format!("{value}, axis cut {sign}"), Across::Right)
        };
        svg.text("tick", (x, y + inside), (across, down), &text);
    }
}
