//! Splits a series into runs of known points without gaps.

use crate::series::{Point, Range, Series};

/// A distance of more than this many usual distances is a gap.
///
/// Points of a downsampled series may alternate between one and two ticks, so twice the usual distance is not a gap.
const GAP: f64 = 2.5;
/// Distances on either side that determine the usual one; a series may mix roll-up levels.
const NEIGHBOURS: usize = 4;

/// A known point with finite values, and its seconds from the start of the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FinitePoint {
    pub at: f64,
    pub min: f64,
    pub avg: f64,
    pub max: f64,
}

/// Each with at least one point.
pub type Runs = Vec<Vec<FinitePoint>>;

/// The runs inside the range.
pub fn runs(series: &Series, range: Range) -> Runs {
    let inside: Vec<Point> = series
        .points
        .iter()
        .copied()
        .filter(|point| range.contains(point.t))
        .collect();
    let mut runs = Runs::new();
    let mut is_open = false;
    for (number, (point, follows_gap)) in inside.iter().zip(gaps(&inside)).enumerate() {
        is_open &= number > 0 && !follows_gap;
        match finite(point, range) {
            None => is_open = false,
            Some(point) => {
                match runs.last_mut().filter(|_| is_open) {
                    Some(run) => run.push(point),
                    None => runs.push(vec![point]),
                }
                is_open = true;
            }
        }
    }
    runs
}

fn finite(point: &Point, range: Range) -> Option<FinitePoint> {
    let avg = point.avg.filter(|value| value.is_finite())?;
    let min = point.min.filter(|value| value.is_finite()).unwrap_or(avg);
    let max = point.max.filter(|value| value.is_finite()).unwrap_or(avg);
    let at = Range {
        from: range.from,
        to: point.t,
    }
    .seconds();
    Some(FinitePoint {
        at,
        min: min.min(avg),
        avg,
        max: max.max(avg),
    })
}

/// For each point, whether data is missing before it or time went back.
fn gaps(points: &[Point]) -> Vec<bool> {
    let distances: Vec<f64> = points
        .windows(2)
        .map(|pair| {
            Range {
                from: pair[0].t,
                to: pair[1].t,
            }
            .seconds()
        })
        .collect();
    // No median is smaller than this.
    let shortest = distances.iter().copied().fold(f64::INFINITY, f64::min);
    let is_gap = |(number, distance): (usize, &f64)| {
        *distance < 0.0
            || *distance > GAP * shortest && *distance > GAP * median_distance(&distances, number)
    };
    std::iter::once(false)
        .chain(distances.iter().enumerate().map(is_gap))
        .collect()
}

/// The median of neighbouring distances.
fn median_distance(distances: &[f64], number: usize) -> f64 {
    let around = number.saturating_sub(NEIGHBOURS)..(number + NEIGHBOURS + 1).min(distances.len());
    let mut near = distances[around].to_vec();
    near.sort_by(f64::total_cmp);
    near[(near.len() - 1) / 2]
}
