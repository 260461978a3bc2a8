//! Means and percentiles, the rank correlation of two quantities over time, and the ratio of repeated runs. Every function
//! takes finite numbers, and returns `None` if they are too few. A correlation does not show that one quantity caused the
//! other.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
        let finite = numbers.into_iter().filter(|number| number.is_finite());
        let mut numbers: Vec<f64> = finite.collect();
        numbers.sort_unstable_by(f64::total_cmp);
        (!numbers.is_empty()).then_some(Self(numbers))
    }

    /// The number that a share from 0 to 1 of all numbers lies below.
    ///
    /// Definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50(4),
    /// 1996: the default of R, NumPy and spreadsheets, so an exported table gives the same.
    pub fn percentile(&self, share: f64) -> f64 {
        let place = share.clamp(0.0, 1.0) * (self.0.len() - 1) as f64;
        let below = self.0[place.floor() as usize];
        let above = self.0[place.ceil() as usize];
        below + (above - below) * place.fract()
    }

    pub fn median(&self) -> f64 {
        self.percentile(0.5)
    }

    pub fn least(&self) -> f64 {
        self.percentile(0.0)
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
    let logs = (0..RESAMPLES).map(log_mean);
    let logs: Vec<f64> = logs.filter(|log| log.is_finite()).collect();
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
    /// `x` changed too little for a slope.
    Narrow { n: usize },
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
            Self::TooFew { .. } | Self::Unvaried { .. } | Self::Narrow { .. } => None,
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
        if freedom < 1.0 || student <= student_975(freedom) || rank * slope <= 0.0 {
            return Self::Unclear;
        }
        if rank > 0.0 {
            return Self::Rising;
        }
        Self::Falling
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
    let alike = lags.map(at_lag).take_while(|alike| *alike > 0.0);
    n as f64 / (1.0 + 2.0 * alike.sum::<f64>())
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
fn slope(x: &[f64], y: &[f64]) -> Option<f64> {
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
    let middle = (numbers.len() as f64 - 1.0) / 2.0;
    let mut before = 0;
    let mut ranks = vec![0.0; numbers.len()];
    for equal in order.chunk_by(|a, b| numbers[*a] == numbers[*b]) {
        let rank = before as f64 + (equal.len() - 1) as f64 / 2.0 - middle;
        for place in equal {
            ranks[*place] = rank;
        }
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

#[cfg(test)]
mod tests;
