//! A chart with the scales of its axes, which its shapes, its legend and its numbers share.

use super::runs::{Runs, runs};
use super::scale::Scale;
use super::{Chart, Line, Side, Size, frame, peak, stack};

pub struct Scaled<'a> {
    pub chart: &'a Chart,
    pub size: Size,
    /// Of each line, what is drawn.
    pub runs: Vec<Runs>,
    pub left: Scale,
    pub right: Option<Scale>,
}

impl<'a> Scaled<'a> {
    pub fn new(chart: &'a Chart, size: Size) -> Self {
        let runs: Vec<Runs> = stack::drawn(chart)
            .iter()
            .map(|series| runs(series, chart.range))
            .collect();
        let scale = |side| {
            let is_here = |line: &Line| chart.side(line.side) == side;
            let lines = chart
                .lines
                .iter()
                .zip(&runs)
                .filter(|(line, _)| is_here(line));
            let axis = chart.axis(side);
            Scale::new(
                axis.unit,
                axis.max,
                peak::height(lines.flat_map(|(_, runs)| runs)),
                frame::height(size).into(),
            )
        };
        let (left, right) = (scale(Side::Left), chart.right.map(|_| scale(Side::Right)));
        Self {
            chart,
            size,
            runs,
            left,
            right,
        }
    }

    /// The scale of the axis that something on this side has.
    pub fn side(&self, side: Side) -> Scale {
        match (side, self.right) {
            (Side::Right, Some(right)) => right,
            _ => self.left,
        }
    }
}
