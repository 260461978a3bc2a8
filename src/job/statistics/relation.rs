//! The rank correlation of two quantities over a job, and whether it is more than chance. A correlation does not show
//! that one quantity caused the other.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{mean, student_975};

/// Fewer pairs are not enough: a dozen points that grow with time always lie near a line.
const LEAST_PAIRS: usize = 20;
/// Autocorrelations at lags above this share of a series are too uncertain to count.
const LONGEST_LAG: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum Relation {
    /// There are too few pairs.
    TooFew { n: usize },
    /// One of the two is constant.
    Unvaried { n: usize },
    #[serde(rename = "known")]
    Correlation(Correlation),
}

/// The relation of `y` to `x`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Correlation {
    pub n: usize,
    /// The increase of `y` per unit of `x`, by least squares.
    pub slope: f64,
    /// `y` at an `x` of 0, on the same line.
    #[serde(default)]
    pub intercept: f64,
    /// The share of the variance of `y` that the line explains (R²).
    #[serde(default)]
    pub explained: f64,
    /// Spearman's rank correlation, from -1 to 1.
    pub rank: f64,
    /// The number of independent pairs that these are worth, since neighbours are alike.
    pub independent: f64,
    pub trend: Trend,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// `y` was larger when `x` was.
    Rising,
    /// `y` was smaller when `x` was larger.
    Falling,
    /// It may be chance.
    Unclear,
}

impl Relation {
    pub fn correlation(self) -> Option<Correlation> {
        match self {
            Self::Correlation(correlation) => Some(correlation),
            Self::TooFew { .. } | Self::Unvaried { .. } => None,
        }
    }

    /// The correlation if `y` was smaller when `x` was larger.
    pub fn falling(self) -> Option<Correlation> {
        self.correlation()
            .filter(|found| found.trend == Trend::Falling)
    }
}

impl Trend {
    /// Unclear if independent quantities correlate as strongly in one of twenty jobs.
    fn of(rank: f64, slope: f64, independent: f64) -> Self {
        let freedom = independent - 2.0;
        let student = rank.abs() * (freedom / (1.0 - rank * rank)).sqrt();
        match freedom >= 1.0 && student > student_975(freedom) && rank * slope > 0.0 {
            true if rank > 0.0 => Self::Rising,
            true => Self::Falling,
            false => Self::Unclear,
        }
    }
}

/// The relation of `y` to `x`, from pairs in order of time.
pub fn relation(x: &[f64], y: &[f64]) -> Relation {
    let n = x.len();
    if n < LEAST_PAIRS {
        return Relation::TooFew { n };
    }
    let Some((slope, rank)) = slope(x, y).zip(rank_correlation(x, y)) else {
        return Relation::Unvaried { n };
    };
    let intercept = mean(y).unwrap_or_default() - slope * mean(x).unwrap_or_default();
    let (by_x, by_y) = (offsets(x), offsets(y));
    let explained = slope * product(&by_x, &by_y) / product(&by_y, &by_y);
    let (x, y) = (ranks(x), ranks(y));
    let independent = worth(n, |lag| autocorrelation(&x, lag) * autocorrelation(&y, lag));
    Relation::Correlation(Correlation {
        n,
        slope,
        intercept,
        explained,
        rank,
        independent,
        trend: Trend::of(rank, slope, independent),
    })
}

/// Spearman's rank correlation; `None` if `x` or `y` is constant.
pub fn rank_correlation(x: &[f64], y: &[f64]) -> Option<f64> {
    let (x, y) = (ranks(x), ranks(y));
    let (xx, yy) = (product(&x, &x), product(&y, &y));
    (xx > 0.0 && yy > 0.0).then(|| (product(&x, &y) / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

/// The number of independent values that a series is worth for its mean.
pub fn independent(series: &[f64]) -> f64 {
    let offsets = offsets(series);
    worth(series.len(), |lag| autocorrelation(&offsets, lag))
}

/// The number of independent observations that `n` autocorrelated ones are worth.
///
/// Pyper and Peterman, "Comparison of methods to account for autocorrelation in correlation analyses of fish data",
/// Canadian Journal of Fisheries and Aquatic Sciences 55(9), 1998; summed up to the first lag without correlation. With
/// simulated independent series of 60 to 480 points, 2 to 8 of 100 correlations appear to be more than chance; 19 of 100
/// at worst.
fn worth(n: usize, at_lag: impl Fn(usize) -> f64) -> f64 {
    let lags = 1..=(n as f64 * LONGEST_LAG) as usize;
    n as f64
        / (1.0
            + 2.0
                * lags
                    .map(at_lag)
                    .take_while(|alike| *alike > 0.0)
                    .sum::<f64>())
}

/// Of numbers around 0; 0 if they are constant.
fn autocorrelation(offsets: &[f64], lag: usize) -> f64 {
    let all = product(offsets, offsets);
    if all > 0.0 {
        product(&offsets[lag..], offsets) / all
    } else {
        0.0
    }
}

/// Least squares; `None` if `x` or `y` is constant.
pub(super) fn slope(x: &[f64], y: &[f64]) -> Option<f64> {
    let (x, y) = (offsets(x), offsets(y));
    let xx = product(&x, &x);
    (xx > 0.0 && product(&y, &y) > 0.0)
        .then(|| product(&x, &y) / xx)
        .filter(|slope| slope.is_finite())
}

/// Ranks around 0; equal numbers share the mean of their ranks.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
    let (middle, mut before) = ((numbers.len() as f64 - 1.0) / 2.0, 0);
    let mut ranks = vec![0.0; numbers.len()];
    for equal in order.chunk_by(|a, b| numbers[*a] == numbers[*b]) {
        let rank = before as f64 + (equal.len() - 1) as f64 / 2.0 - middle;
        equal.iter().for_each(|place| ranks[*place] = rank);
        before += equal.len();
    }
    ranks
}

fn offsets(numbers: &[f64]) -> Vec<f64> {
    let mean = mean(numbers).unwrap_or_default();
    numbers.iter().map(|number| number - mean).collect()
}

fn product(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
