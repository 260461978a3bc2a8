//! What is drawn of a series: runs of known points without gaps, and how high they are.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Chart;
use crate::series::{Point, Range};

/// A distance of more than this many usual distances is a gap.
///
/// Points of a downsampled series may alternate between one and two ticks, so twice the usual distance is not a gap.
const GAP: f64 = 2.5;
/// Distances on either side that determine the usual one; a series may mix roll-up levels.
const NEAR_DISTANCES: usize = 4;

/// With fewer points, no height counts as usual.
const LEAST_POINTS: usize = 20;
/// Points on either side that a value has to outlast.
const NEAR_POINTS: usize = 2;
/// A largest value of more than this many lasting ones is cut, to so many lasting ones.
const FAR: f64 = 3.0;
const ROOM: f64 = 1.5;
/// At most two points, or one in this many, are cut; more are a pattern.
const RARE: usize = 100;
/// Durations whose largest is so many times a usual small one are shown on a logarithmic axis.
const DECADES: f64 = 100.0;
/// The usual small value: one value in so many is smaller.
const SMALL: usize = 20;
/// Axes do not begin below this.
const LEAST_DECADE: f64 = 1e-3;

/// A known point with finite values, and its seconds from the start of the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinitePoint {
    pub at: f64,
    pub min: f64,
    pub avg: f64,
    pub max: f64,
}

impl FinitePoint {
    fn negate(&mut self) {
        (self.min, self.max) = (-self.max, -self.min);
        self.avg = -self.avg;
    }
}

/// At least one point.
pub type Run = Vec<FinitePoint>;

/// The runs of each line. Those that are drawn downwards are negative. In a stacked chart a point reaches from the sum of
/// the lines before (`min`) to the sum with its own line (`avg` and `max`).
pub fn runs_of_lines(chart: &Chart) -> Vec<Vec<Run>> {
    let mut sums: BTreeMap<Timestamp, f64> = BTreeMap::new();
    let mut all = Vec::new();
    for line in &chart.lines {
        if !chart.stacked {
            let mut runs = runs(&line.series.points, chart.range);
            if line.is_below {
                runs.iter_mut().flatten().for_each(FinitePoint::negate);
            }
            all.push(runs);
            continue;
        }
        let mut layer = line.series.points.clone();
        for point in &mut layer {
            let sum = sums.entry(point.t).or_default();
            let below = *sum;
            point.avg = point.avg.filter(|value| value.is_finite());
            *sum += point.avg.unwrap_or_default();
            point.min = point.avg.map(|_| below);
            point.avg = point.avg.map(|_| *sum);
            point.max = point.avg;
        }
        all.push(runs(&layer, chart.range));
    }
    all
}

fn runs(points: &[Point], range: Range) -> Vec<Run> {
    let inside: Vec<&Point> = points
        .iter()
        .filter(|point| range.contains(point.t))
        .collect();
    let distances: Vec<f64> = inside
        .windows(2)
        .map(|pair| seconds(pair[0].t, pair[1].t))
        .collect();
    // No median is smaller, and most distances are not longer: then no median is needed.
    let shortest = distances.iter().copied().fold(f64::INFINITY, f64::min);
    let is_gap = |number: usize| {
        let distance = distances[number];
        distance < 0.0
            || (distance > GAP * shortest && distance > GAP * median_around(&distances, number))
    };
    let mut runs = Vec::new();
    let mut run = Run::new();
    for (number, point) in inside.iter().enumerate() {
        let known = known_point(point, range.from);
        if known.is_none() || (number > 0 && is_gap(number - 1)) {
            runs.push(std::mem::take(&mut run));
        }
        run.extend(known);
    }
    runs.push(run);
    runs.retain(|run| !run.is_empty());
    runs
}

fn known_point(point: &Point, from: Timestamp) -> Option<FinitePoint> {
    let avg = point.avg.filter(|value| value.is_finite())?;
    let min = point.min.filter(|value| value.is_finite()).unwrap_or(avg);
    let max = point.max.filter(|value| value.is_finite()).unwrap_or(avg);
    Some(FinitePoint {
        at: seconds(from, point.t),
        min: min.min(avg),
        avg,
        max: max.max(avg),
    })
}

fn median_around(distances: &[f64], number: usize) -> f64 {
    let end = (number + NEAR_DISTANCES + 1).min(distances.len());
    let mut near = distances[number.saturating_sub(NEAR_DISTANCES)..end].to_vec();
    near.sort_by(f64::total_cmp);
    near[(near.len() - 1) / 2]
}

/// The value that an axis has to hold: the largest `high`, but a few points far above the rest do not flatten it.
pub fn height(runs: &[&Run], high: impl Fn(&FinitePoint) -> f64) -> Option<f64> {
    let highs: Vec<f64> = runs.iter().copied().flatten().map(&high).collect();
    let count_above = |limit: f64| highs.iter().filter(|high| **high > limit).count();
    let largest = highs.iter().copied().reduce(f64::max)?;
    let most_cut = (highs.len() / RARE).max(NEAR_POINTS);
    // What is cut ends below half of the largest value.
    if highs.len() < LEAST_POINTS || count_above(largest / 2.0) > most_cut {
        return Some(largest);
    }
    let lasting = runs
        .iter()
        .map(|run| lasting(run, &high))
        .fold(0.0, f64::max);
    let ceiling = lasting * ROOM;
    let is_cut = lasting > 0.0 && largest > FAR * lasting && count_above(ceiling) <= most_cut;
    Some(if is_cut { ceiling } else { largest })
}

/// The largest median of a whole neighbourhood. A point alone outlasts nothing.
fn lasting(run: &Run, high: impl Fn(&FinitePoint) -> f64) -> f64 {
    let mut largest: f64 = 0.0;
    for window in run.windows(2 * NEAR_POINTS + 1) {
        let mut highs: Vec<f64> = window.iter().map(&high).collect();
        highs.sort_by(f64::total_cmp);
        largest = largest.max(highs[highs.len() / 2]);
    }
    largest
}

/// A usual small value and the largest, if they are decades apart.
pub fn decades(runs: &[&Run]) -> Option<(f64, f64)> {
    let points = runs.iter().copied().flatten();
    let mut known: Vec<f64> = points
        .map(|point| point.avg)
        .filter(|value| *value > 0.0)
        .collect();
    known.sort_by(f64::total_cmp);
    let small = known.get(known.len() / SMALL)?.max(LEAST_DECADE);
    let largest = *known.last()?;
    (largest >= DECADES * small).then_some((small, largest))
}

pub fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    Range { from, to }.seconds()
}
