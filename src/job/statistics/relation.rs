//! How one quantity went with another: the slope, the rank correlation, and how sure both are.
//!
//! Pairs stay in the order of time, since neighbours are alike and blocks of them are drawn. That two quantities went
//! together does not say that one caused the other; whoever words it has to say so.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::bootstrap::{block_length, block_reach};
use super::{Bounds, mean};

/// Below so many pairs nothing is said: a line through a dozen points that grow with time is always there.
pub const LEAST_PAIRS: usize = 20;

/// How one quantity followed another over a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum Relation {
    /// Too few pairs to say, or too few of them are independent.
    TooFew {
        n: usize,
    },
    /// One of the two did not change.
    Unvaried {
        n: usize,
    },
    Known(Correlation),
}

/// What pairs say of how `y` went with `x`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Correlation {
    pub n: usize,
    /// How much `y` grew for each one of `x`.
    pub slope: f64,
    pub slope_bounds: Bounds,
    /// Spearman's, from -1 to 1: whether one grew when the other did, however much.
    pub rank: f64,
    pub rank_bounds: Bounds,
    /// Over so many pairs neighbours were taken to be alike.
    pub block: usize,
}

impl Relation {
    pub fn known(self) -> Option<Correlation> {
        match self {
            Self::Known(correlation) => Some(correlation),
            Self::TooFew { .. } | Self::Unvaried { .. } => None,
        }
    }
}

impl Correlation {
    /// Whether more than chance is to be seen in both, and in the same direction.
    pub fn is_seen(&self) -> bool {
        let away = |bounds: Bounds| !bounds.contains(0.0);
        away(self.slope_bounds) && away(self.rank_bounds) && self.slope * self.rank > 0.0
    }
}

/// How `y` went with `x`, of pairs in the order of time.
pub fn relation(x: &[f64], y: &[f64]) -> Relation {
    let n = x.len().min(y.len());
    if n < LEAST_PAIRS {
        return Relation::TooFew { n };
    }
    let (x, y) = (&x[..n], &y[..n]);
    let Some((slope, rank)) = least_squares_slope(x, y).zip(rank_correlation(x, y)) else {
        return Relation::Unvaried { n };
    };
    let block = block_of(x, y, slope);
    match slope_reach(x, y, block).zip(rank_bounds(x, y, rank, block)) {
        Some((reach, rank_bounds)) => {
            let slope_bounds = Bounds::around(slope, reach);
            Relation::Known(Correlation { n, slope, slope_bounds, rank, rank_bounds, block })
        }
        None => Relation::TooFew { n },
    }
}

/// `None` where `x` does not change, or `y` does not.
pub fn least_squares_slope(x: &[f64], y: &[f64]) -> Option<f64> {
    let products = Products::of(x.iter().zip(y).map(|(x, y)| (*x, *y)), mean(x)?, mean(y)?);
    let slope = (products.xx > 0.0 && products.yy > 0.0).then(|| products.xy / products.xx);
    slope.filter(|slope| slope.is_finite())
}

/// Spearman's: the correlation of ranks, where equal numbers share the mean of theirs. `None` where one does not change.
pub fn rank_correlation(x: &[f64], y: &[f64]) -> Option<f64> {
    let (x, y) = (Ranking::new(x), Ranking::new(y));
    let once = vec![1; x.order.len()];
    let (mut x_ranks, mut y_ranks) = (Vec::new(), Vec::new());
    x.rank(&once, &mut x_ranks);
    y.rank(&once, &mut y_ranks);
    correlation_of_ranks(&x_ranks, &y_ranks, &once)
}

/// Sums of products of what is off the mean.
struct Products {
    xx: f64,
    yy: f64,
    xy: f64,
}

impl Products {
    fn of(pairs: impl Iterator<Item = (f64, f64)>, x_mean: f64, y_mean: f64) -> Self {
        pairs.fold(Self { xx: 0.0, yy: 0.0, xy: 0.0 }, |sums, (x, y)| {
            let (x, y) = (x - x_mean, y - y_mean);
            Self { xx: sums.xx + x * x, yy: sums.yy + y * y, xy: sums.xy + x * y }
        })
    }
}

/// Neighbours are alike in what the slope leaves over, and in what each pair does to the slope: the longer of the two.
pub(super) fn block_of(x: &[f64], y: &[f64], slope: f64) -> usize {
    let (x_mean, y_mean) = (mean(x).unwrap_or_default(), mean(y).unwrap_or_default());
    let left_over: Vec<f64> = x.iter().zip(y).map(|(x, y)| y - y_mean - slope * (x - x_mean)).collect();
    let weighed: Vec<f64> = x.iter().zip(&left_over).map(|(x, left)| (x - x_mean) * left).collect();
    block_length(&left_over).max(block_length(&weighed))
}

pub(super) fn slope_reach(x: &[f64], y: &[f64], block: usize) -> Option<f64> {
    block_reach(x.len(), block, |places| {
        let n = places.len() as f64;
        let (x_sum, y_sum) =
            places.iter().fold((0.0, 0.0), |sums, place| (sums.0 + x[*place], sums.1 + y[*place]));
        let pairs = places.iter().map(|place| (x[*place], y[*place]));
        let products = Products::of(pairs, x_sum / n, y_sum / n);
        let slope = (products.xx > 0.0).then(|| products.xy / products.xx);
        slope.filter(|slope| slope.is_finite())
    })
}

/// On Fisher's scale, where a correlation near 1 does not crowd: bounds stay within -1 and 1.
pub(super) fn rank_bounds(x: &[f64], y: &[f64], rank: f64, block: usize) -> Option<Bounds> {
    // A perfect correlation would be infinite there.
    let scaled = |rank: f64| rank.clamp(-0.999_999, 0.999_999).atanh();
    let (x, y) = (Ranking::new(x), Ranking::new(y));
    let mut times = vec![0_u32; x.order.len()];
    let (mut x_ranks, mut y_ranks) = (Vec::new(), Vec::new());
    let reach = block_reach(times.len(), block, |places| {
        times.fill(0);
        places.iter().for_each(|place| times[*place] += 1);
        x.rank(&times, &mut x_ranks);
        y.rank(&times, &mut y_ranks);
        correlation_of_ranks(&x_ranks, &y_ranks, &times).map(scaled)
    })?;
    Some(Bounds::around(scaled(rank), reach).map(f64::tanh))
}

/// The order of numbers, sorted once for all drawings.
struct Ranking {
    /// Places of the numbers, from the smallest number to the largest.
    order: Vec<usize>,
    /// Of each in that order, whether its number equals the one before.
    equals_last: Vec<bool>,
}

impl Ranking {
    fn new(numbers: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
        let equals = |index: usize| index > 0 && numbers[order[index]] == numbers[order[index - 1]];
        let equals_last = (0..order.len()).map(equals).collect();
        Self { order, equals_last }
    }

    /// Writes the rank of each number where each is there so many times.
    fn rank(&self, times: &[u32], ranks: &mut Vec<f64>) {
        ranks.resize(self.order.len(), 0.0);
        let (mut start, mut before) = (0, 0.0);
        while start < self.order.len() {
            let more = self.equals_last[start + 1..].iter().take_while(|equals| **equals).count();
            let equal = &self.order[start..=start + more];
            let count: f64 = equal.iter().map(|place| f64::from(times[*place])).sum();
            equal.iter().for_each(|place| ranks[*place] = before + (count + 1.0) / 2.0);
            (start, before) = (start + more + 1, before + count);
        }
    }
}

fn correlation_of_ranks(x: &[f64], y: &[f64], times: &[u32]) -> Option<f64> {
    let n: f64 = times.iter().map(|times| f64::from(*times)).sum();
    let middle = (n + 1.0) / 2.0;
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (place, times) in times.iter().enumerate() {
        let (x, y, times) = (x[place] - middle, y[place] - middle, f64::from(*times));
        xx += times * x * x;
        yy += times * y * y;
        xy += times * x * y;
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}
