//! Means and percentiles of one job, the rank correlation of two quantities, and the ratio of repeated runs.
//!
//! Every function takes finite numbers, and returns `None` if they are too few. A single run has no confidence interval.

mod relation;
mod repeats;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use relation::{Correlation, Relation, Trend, independent, rank_correlation, relation};
pub use repeats::{Bounds, Moments, Random, ratio_of_means};

/// Numbers in ascending order, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Sorted(Vec<f64>);

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Spread {
    pub n: usize,
    pub mean: f64,
    pub median: f64,
    pub p5: f64,
    pub p95: f64,
}

impl Sorted {
    /// `None` without any finite number.
    pub fn new(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut numbers: Vec<f64> = numbers.into_iter().filter(|number| number.is_finite()).collect();
        numbers.sort_unstable_by(f64::total_cmp);
        (!numbers.is_empty()).then_some(Self(numbers))
    }

    /// The number that a share from 0 to 1 of all numbers lies below.
    ///
    /// Definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50(4),
    /// 1996: the default of R, NumPy and spreadsheets, so an exported table gives the same.
    pub fn percentile(&self, share: f64) -> f64 {
        let place = share.clamp(0.0, 1.0) * (self.0.len() - 1) as f64;
        let (below, above) = (self.0[place.floor() as usize], self.0[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }

    pub fn median(&self) -> f64 {
        self.percentile(0.5)
    }

    pub fn most(&self) -> f64 {
        self.percentile(1.0)
    }

    pub fn numbers(&self) -> &[f64] {
        &self.0
    }

    /// The median distance from the median.
    pub fn median_deviation(&self) -> f64 {
        let median = self.median();
        Self::new(self.0.iter().map(|number| (number - median).abs())).map_or(0.0, |sorted| sorted.median())
    }

    /// With the given mean, which may be weighted.
    pub fn spread(&self, mean: f64) -> Spread {
        let [p5, p95] = [0.05, 0.95].map(|share| self.percentile(share));
        Spread { n: self.0.len(), mean, median: self.median(), p5, p95 }
    }
}

/// `None` of no numbers.
pub fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

#[cfg(test)]
mod tests;
