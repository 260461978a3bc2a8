//! A series as runs: stretches of known points without a gap between them.

use crate::series::{Point, Range, Series};

/// Neighbours further apart than this many usual distances have a gap between them.
///
/// A thinned series alternates between, say, one and two ticks per point, so twice is still usual.
const GAP: f64 = 2.5;
/// Distances on either side that say what is usual here; roll-ups of different fineness may share a series.
const NEIGHBOURS: usize = 4;

/// A known point: seconds from the start of the range, and finite values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub at: f64,
    pub min: f64,
    pub avg: f64,
    pub max: f64,
}

/// The runs inside the range, each with one point or more.
pub fn runs(series: &Series, range: Range) -> Vec<Vec<Seen>> {
    let inside: Vec<Point> = series.points.iter().copied().filter(|point| range.contains(point.t)).collect();
    let mut runs: Vec<Vec<Seen>> = Vec::new();
    let mut is_open = false;
    for (number, (point, follows_gap)) in inside.iter().zip(gaps(&inside)).enumerate() {
        is_open &= number > 0 && !follows_gap;
        match seen(point, range) {
            None => is_open = false,
            Some(seen) => {
                match runs.last_mut().filter(|_| is_open) {
                    Some(run) => run.push(seen),
                    None => runs.push(vec![seen]),
                }
                is_open = true;
            }
        }
    }
    runs
}

fn seen(point: &Point, range: Range) -> Option<Seen> {
    let avg = point.avg.filter(|value| value.is_finite())?;
    let min = point.min.filter(|value| value.is_finite()).unwrap_or(avg);
    let max = point.max.filter(|value| value.is_finite()).unwrap_or(avg);
    let at = Range { from: range.from, to: point.t }.seconds();
    Some(Seen { at, min: min.min(avg), avg, max: max.max(avg) })
}

/// For each point whether something is missing before it, or time went back.
fn gaps(points: &[Point]) -> Vec<bool> {
    let distances: Vec<f64> =
        points.windows(2).map(|pair| Range { from: pair[0].t, to: pair[1].t }.seconds()).collect();
    let is_gap =
        |(number, distance): (usize, &f64)| *distance < 0.0 || *distance > GAP * usual(&distances, number);
    std::iter::once(false).chain(distances.iter().enumerate().map(is_gap)).collect()
}

/// The median of the distances around one of them.
fn usual(distances: &[f64], number: usize) -> f64 {
    let around = number.saturating_sub(NEIGHBOURS)..(number + NEIGHBOURS + 1).min(distances.len());
    let mut near = distances[around].to_vec();
    near.sort_by(f64::total_cmp);
    near[(near.len() - 1) / 2]
}
