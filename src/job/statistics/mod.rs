//! Means and percentiles of one job, the rank correlation of two quantities, and the ratio of repeated runs. Every
//! function takes finite numbers, and returns `None` if they are too few.

mod relation;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use relation::{Correlation, Relation, Trend, independent, rank_correlation, relation};

/// With 500 resamples the standard error is right to 3 %.
const RESAMPLES: usize = 500;
/// Fixed, so that the same runs always have the same interval.
const SEED: u64 = 0x9E37_79B9_7F4A_7C15;
/// 2.5 % of a normal distribution lie above this many standard deviations.
const NORMAL_975: f64 = 1.959_963_984_540_054;

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
        let mut numbers: Vec<f64> = numbers
            .into_iter()
            .filter(|number| number.is_finite())
            .collect();
        numbers.sort_unstable_by(f64::total_cmp);
        (!numbers.is_empty()).then_some(Self(numbers))
    }

    /// The number that a share from 0 to 1 of all numbers lies below.
    ///
    /// Definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50(4),
    /// 1996: the default of R, NumPy and spreadsheets, so an exported table gives the same.
    pub fn percentile(&self, share: f64) -> f64 {
        let place = share.clamp(0.0, 1.0) * (self.0.len() - 1) as f64;
        let (below, above) = (
            self.0[place.floor() as usize],
            self.0[place.ceil() as usize],
        );
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
        Self::new(self.0.iter().map(|number| (number - median).abs()))
            .map_or(0.0, |sorted| sorted.median())
    }

    /// With the given mean, which may be weighted.
    pub fn spread(&self, mean: f64) -> Spread {
        let [p5, p95] = [0.05, 0.95].map(|share| self.percentile(share));
        Spread {
            n: self.0.len(),
            mean,
            median: self.median(),
            p5,
            p95,
        }
    }
}

/// `None` without numbers.
pub fn mean(numbers: &[f64]) -> Option<f64> {
    (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
}

/// Mean and standard deviation of independent numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Moments {
    pub n: usize,
    pub mean: f64,
    /// The sample's, with n - 1; `None` for a single number.
    pub sd: Option<f64>,
}

/// A 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bounds {
    pub low: f64,
    pub high: f64,
}

/// A generator with a fixed seed: xorshift64*, Vigna, "An experimental exploration of Marsaglia's xorshift generators,
/// scrambled", ACM Transactions on Mathematical Software 42(4), 2016.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Self(SEED)
    }
}

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let drawn = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D);
        ((u128::from(drawn) * n as u128) >> 64) as usize
    }
}

impl Moments {
    /// `None` without numbers.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let mean = mean(numbers)?;
        let n = numbers.len();
        // A second pass: squares of large numbers would swallow small differences.
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        Some(Self {
            n,
            mean,
            sd: (n > 1).then(|| (squares / (n - 1) as f64).sqrt()),
        })
    }
}

/// The ratio of the mean of `these` to that of `those`, with its interval. `None` if a mean is not above 0. A single run
/// has no interval.
///
/// The standard error of each mean is bootstrapped on a logarithmic scale, where a ratio and its inverse are alike. The
/// interval is Student's t with Welch's degrees of freedom: bare percentiles of a bootstrap are too narrow for a handful
/// of runs (Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69(4), 2015).
pub fn ratio_of_means(these: &[f64], those: &[f64]) -> Option<(f64, Option<Bounds>)> {
    let positive = |numbers: &[f64]| mean(numbers).filter(|mean| *mean > 0.0);
    let ratio = positive(these)? / positive(those)?;
    let bounds = log_error(these).zip(log_error(those)).map(|(a, b)| {
        let reach = student_975(welch_freedom([(a, these.len()), (b, those.len())])) * a.hypot(b);
        Bounds {
            low: (ratio.ln() - reach).exp(),
            high: (ratio.ln() + reach).exp(),
        }
    });
    Some((ratio, bounds))
}

/// The standard error of the mean's logarithm; `None` for a single number. Corrected by n / (n - 1), since resamples vary
/// too little.
fn log_error(numbers: &[f64]) -> Option<f64> {
    let n = numbers.len();
    if n < 2 {
        return None;
    }
    let mut random = Random::default();
    let log_mean = |_| ((0..n).map(|_| numbers[random.below(n)]).sum::<f64>() / n as f64).ln();
    let logs: Vec<f64> = (0..RESAMPLES)
        .map(log_mean)
        .filter(|log| log.is_finite())
        .collect();
    Some(Moments::of(&logs)?.sd? * (n as f64 / (n - 1) as f64).sqrt())
}

/// Welch, "The Generalization of 'Student's' Problem when Several Different Population Variances are Involved",
/// Biometrika 34, 1947; from standard errors and the numbers of values that they come from.
fn welch_freedom(errors: [(f64, usize); 2]) -> f64 {
    let all: f64 = errors.iter().map(|(error, _)| error.powi(2)).sum();
    let parts: f64 = errors
        .iter()
        .map(|(error, n)| error.powi(4) / (n - 1) as f64)
        .sum();
    if parts > 0.0 {
        all.powi(2) / parts
    } else {
        f64::INFINITY
    }
}

/// The number of standard errors above which 2.5 % of Student's t lie, for these degrees of freedom.
///
/// Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5; right to 0.004 from three degrees on. For fewer,
/// the expansion does not hold. The table's value for the next lower whole number is used, which is never too small.
pub fn student_975(freedom: f64) -> f64 {
    let (z, v) = (NORMAL_975, freedom);
    if v < 3.0 {
        return if v < 2.0 { 12.706 } else { 4.303 };
    }
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    let fourth = (79.0 * z.powi(9) + 776.0 * z.powi(7) + 1482.0 * z.powi(5)
        - 1920.0 * z.powi(3)
        - 945.0 * z)
        / 92_160.0;
    z + first / v + second / v.powi(2) + third / v.powi(3) + fourth / v.powi(4)
}

#[cfg(test)]
mod tests;
