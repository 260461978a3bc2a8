//! The height of an axis: the largest value, but a few points far above the rest do not flatten it.

use super::runs::FinitePoint;

/// With fewer points, no height counts as usual.
const LEAST_POINTS: usize = 20;
/// Points on either side that a value has to outlast.
const NEIGHBOURS: usize = 2;
/// A largest value of more than this many lasting ones is cut, to so many lasting ones.
const FAR: f64 = 3.0;
const ROOM: f64 = 1.5;
/// At most two points, or one in this many, are cut; more are a pattern.
const RARE: usize = 100;

/// The value that an axis has to hold.
pub fn height<'a>(runs: impl Iterator<Item = &'a Vec<FinitePoint>> + Clone) -> Option<f64> {
    let highs = || runs.clone().flatten().map(|point| point.max);
    let largest = highs().reduce(f64::max)?;
    let (count, half) = (highs().count(), largest / 2.0);
    let most_cut = (count / RARE).max(NEIGHBOURS);
    // What is cut ends below half of the largest value.
    if count < LEAST_POINTS || highs().filter(|high| *high > half).count() > most_cut {
        return Some(largest);
    }
    let lasting = runs
        .clone()
        .flat_map(|run| lasting(run))
        .fold(0.0, f64::max);
    let ceiling = lasting * ROOM;
    let cut = highs().filter(|high| *high > ceiling).count();
    let is_cut = lasting > 0.0 && largest > FAR * lasting && cut <= most_cut;
    Some(if is_cut { ceiling } else { largest })
}

/// The median of each whole neighbourhood. A point alone outlasts nothing.
fn lasting(run: &[FinitePoint]) -> impl Iterator<Item = f64> {
    run.windows(2 * NEIGHBOURS + 1).map(|window| {
        let mut highs: Vec<f64> = window.iter().map(|point| point.max).collect();
        highs.sort_by(f64::total_cmp);
        highs[highs.len() / 2]
    })
}
