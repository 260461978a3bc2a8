//! What numbers say together: means, percentiles, how far they spread, and how surely.
//!
//! Every function takes known, finite numbers and gives `None` where they are too few to say anything. Chance is drawn
//! from a generator with a fixed seed, so that the same job has the same figures each time somebody looks.

mod bootstrap;
mod relation;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use bootstrap::{Dice, Likeness, block_length, block_means, likeness, ratio_of_means, widening};
pub use relation::{Correlation, Relation, least_squares_slope, rank_correlation, relation};

/// The normal distribution leaves 2.5 % above so many standard deviations.
const NORMAL_975: f64 = 1.959_963_984_540_054;

/// Numbers in ascending order, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Sorted(Vec<f64>);

/// Where numbers lie: their mean, and how far they spread around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Spread {
    pub n: usize,
    pub mean: f64,
    pub median: f64,
    /// One in twenty lies below.
    pub p5: f64,
    /// One in twenty lies above.
    pub p95: f64,
}

/// Mean and standard deviation of numbers that are independent of one another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Moments {
    pub n: usize,
    pub mean: f64,
    /// Of the sample, with n - 1; `None` of a single number.
    pub sd: Option<f64>,
}

/// Between these lies what is looked for, 19 times in 20.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bounds {
    pub low: f64,
    pub high: f64,
}

impl Sorted {
    /// `None` where there is no number.
    pub fn new(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut numbers: Vec<f64> = numbers.into_iter().filter(|number| number.is_finite()).collect();
        numbers.sort_unstable_by(f64::total_cmp);
        (!numbers.is_empty()).then_some(Self(numbers))
    }

    /// The number below which a share from 0 to 1 of all numbers lies.
    ///
    /// Definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50(4),
    /// 1996: R, NumPy and spreadsheets use it unless told otherwise, so an exported table gives the same.
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

    /// The median of how far numbers lie from the median.
    pub fn median_deviation(&self) -> f64 {
        let median = self.median();
        Self::new(self.0.iter().map(|number| (number - median).abs())).map_or(0.0, |sorted| sorted.median())
    }

    /// With the mean given, which may weigh the numbers.
    pub fn spread(&self, mean: f64) -> Spread {
        let [p5, p95] = [0.05, 0.95].map(|share| self.percentile(share));
        Spread { n: self.0.len(), mean, median: self.median(), p5, p95 }
    }
}

impl Moments {
    /// `None` where there is no number.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let mean = mean(numbers)?;
        let n = numbers.len();
        // A second pass: squares of large numbers would swallow small differences.
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        Some(Self { n, mean, sd: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()) })
    }
}

impl Bounds {
    pub fn around(middle: f64, reach: f64) -> Self {
        Self { low: middle - reach.abs(), high: middle + reach.abs() }
    }

    pub fn contains(self, number: f64) -> bool {
        self.low <= number && number <= self.high
    }

    /// The same on another scale; the scale must keep the order.
    pub fn map(self, scale: impl Fn(f64) -> f64) -> Self {
        Self { low: scale(self.low), high: scale(self.high) }
    }
}

/// `None` of no numbers.
pub fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// Student's t leaves 2.5 % above so many standard errors, where so many numbers are free.
///
/// Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5; right to 0.004 from three on. Below, where the
/// expansion does not hold, the table's value of the whole number below is taken, which is never too small.
pub fn student_975(freedom: f64) -> f64 {
    let (z, v) = (NORMAL_975, freedom);
    if v < 3.0 {
        return if v < 2.0 { 12.706 } else { 4.303 };
    }
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    let fourth = (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5) - 1920.0 * z.powi(3) - 945.0 * z)
        / 92_160.0;
    z + first / v + second / v.powi(2) + third / v.powi(3) + fourth / v.powi(4)
}

#[cfg(test)]
mod tests;
