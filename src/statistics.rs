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
mod tests {
    //! Known values, empty and flat series, and how often chance is taken for more.

    use super::*;

    fn close(found: f64, expected: f64, within: f64) {
        assert!(
            (found - expected).abs() <= within,
            "expected {expected}, but found {found}"
        );
    }

    fn sorted(numbers: &[f64]) -> Sorted {
        Sorted::new(numbers.iter().copied()).unwrap()
    }

    /// 7.2.6.2 of the NIST/SEMATECH e-Handbook of Statistical Methods; by hand, place 0.9 * 11 = 9.9 from 0.
    #[test]
    fn percentiles_are_those_of_definition_seven() {
        let gauge = [
            95.1772, 95.1567, 95.1937, 95.1959, 95.1442, 95.0610, 95.1591, 95.1195, 95.1065,
            95.0925, 95.1990, 95.1682,
        ];
        close(
            sorted(&gauge).percentile(0.9),
            95.1937 + 0.9 * (95.1959 - 95.1937),
            1e-9,
        );
        // As R's quantile(1:10) has it.
        let ten = sorted(&[10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| ten.percentile(share)),
            [1.0, 3.25, 5.5, 7.75, 10.0]
        );
        assert_eq!(sorted(&[7.0]).percentile(0.95), 7.0);
    }

    /// NIST's Statistical Reference Datasets: NumAcc1, and NumAcc4, which has 1,001 numbers.
    #[test]
    fn small_differences_of_large_numbers_are_kept() {
        let first = Moments::of(&[10_000_001.0, 10_000_003.0, 10_000_002.0]).unwrap();
        assert_eq!((first.mean, first.sd), (10_000_002.0, Some(1.0)));
        let turn = |index: usize| {
            if index % 2 == 1 {
                10_000_000.1
            } else {
                10_000_000.3
            }
        };
        let numbers: Vec<f64> = std::iter::once(10_000_000.2)
            .chain((1..=1000).map(turn))
            .collect();
        let fourth = Moments::of(&numbers).unwrap();
        close(fourth.mean, 10_000_000.2, 1e-7);
        close(fourth.sd.unwrap(), 0.1, 1e-8);
    }

    /// NIST's Statistical Reference Datasets: Norris, slope 1.00211681802045.
    #[test]
    fn the_slope_is_that_of_a_certified_regression() {
        #[rustfmt::skip]
    let pairs = [
        (0.2, 0.1),
        (337.4, 338.8),
        (118.2, 118.1),
        (884.6, 888.0),
        (10.1, 9.2),
        (226.5, 228.1),
        (666.3, 668.5),
        (996.3, 998.5),
        (448.6, 449.1),
        (777.0, 778.9),
        (558.2, 559.2),
        (0.4, 0.3),
        (0.6, 0.1),
        (775.5, 778.1),
        (666.9, 668.8),
        (338.0, 339.3),
        (447.5, 448.9),
        (11.6, 10.8),
        (556.0, 557.7),
        (228.1, 228.3),
        (995.8, 998.0),
        (887.6, 888.8),
        (120.2, 119.6),
        (0.3, 0.3),
        (0.3, 0.6),
        (556.8, 557.6),
        (339.1, 339.3),
        (887.2, 888.0),
        (999.0, 998.5),
        (779.0, 778.9),
        (11.1, 10.2),
        (118.3, 117.6),
        (229.2, 228.9),
        (669.1, 668.4),
        (448.9, 449.2),
        (0.5, 0.2),
    ];
        let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        close(slope(&x, &y).unwrap(), 1.002_116_818_020_45, 1e-12);
    }

    /// By hand: the sum of squared differences of ranks is 194, so 1 - 6 * 194 / 990. The numbers are those of the worked
    /// example in Wikipedia's article on Spearman's coefficient.
    #[test]
    fn the_rank_correlation_is_that_of_a_worked_example() {
        let iq = [
            106.0, 100.0, 86.0, 101.0, 99.0, 103.0, 97.0, 113.0, 112.0, 110.0,
        ];
        let hours = [7.0, 27.0, 2.0, 50.0, 28.0, 29.0, 20.0, 12.0, 6.0, 17.0];
        close(rank_correlation(&iq, &hours).unwrap(), -29.0 / 165.0, 1e-12);
    }

    /// By hand: ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4 give 4.5 / sqrt(4.5 * 5).
    #[test]
    fn equal_numbers_share_the_mean_of_their_ranks() {
        let rank = rank_correlation(&[1.0, 2.0, 2.0, 3.0], &[1.0, 3.0, 2.0, 4.0]).unwrap();
        close(rank, 4.5 / 22.5_f64.sqrt(), 1e-12);
    }

    /// The tables' values: t(0.975; 1, 2, 3, 4, 10, 30, infinite).
    #[test]
    fn students_t_agrees_with_the_table() {
        for (freedom, expected) in [
            (1.0, 12.706),
            (2.0, 4.303),
            (3.0, 3.182),
            (4.0, 2.776),
            (10.0, 2.228),
            (30.0, 2.042),
            (1e9, 1.960),
        ] {
            close(student_975(freedom), expected, 0.005);
        }
        assert!(student_975(f64::INFINITY).is_finite());
    }

    #[test]
    fn empty_input_has_no_result() {
        assert_eq!(Sorted::new([]), None);
        assert_eq!(Sorted::new([f64::NAN, f64::INFINITY]), None);
        assert_eq!((Moments::of(&[]), mean(&[])), (None, None));
        assert_eq!(
            Moments::of(&[3.0]),
            Some(Moments {
                n: 1,
                mean: 3.0,
                sd: None
            })
        );
        assert_eq!((slope(&[], &[]), rank_correlation(&[], &[])), (None, None));
        assert_eq!(relation(&[], &[]), Relation::TooFew { n: 0 });
        assert_eq!(
            (
                independent(&[]),
                independent(&[1.0]),
                independent(&[2.0; 50])
            ),
            (0.0, 1.0, 50.0)
        );
        assert_eq!(
            (ratio_of_means(&[], &[1.0]), ratio_of_means(&[1.0], &[0.0])),
            (None, None)
        );
    }

    #[test]
    fn few_and_constant_pairs_have_no_correlation() {
        let rising: Vec<f64> = (0..40).map(f64::from).collect();
        assert_eq!(
            relation(&rising[..19], &rising[..19]),
            Relation::TooFew { n: 19 }
        );
        assert_eq!(relation(&rising, &[5.0; 40]), Relation::Unvaried { n: 40 });
        assert_eq!(relation(&[5.0; 40], &rising), Relation::Unvaried { n: 40 });
    }

    #[test]
    fn a_straight_line_has_rank_correlation_one() {
        let x: Vec<f64> = (0..100).map(f64::from).collect();
        let y: Vec<f64> = x.iter().map(|x| 120.0 - 2.0 * x).collect();
        let found = relation(&x, &y).correlation().unwrap();
        close(found.slope, -2.0, 1e-9);
        close(found.rank, -1.0, 1e-12);
        assert_eq!(found.trend, Trend::Falling);
    }

    /// The number of independent values that a series is worth for its mean.
    fn independent(series: &[f64]) -> f64 {
        let offsets = offsets(series);
        worth(series.len(), |lag| autocorrelation(&offsets, lag))
    }

    #[test]
    fn similar_neighbours_are_worth_fewer_independent_ones() {
        let mut normal = Normal::default();
        let mut worth = |likeness: f64| {
            let found = (0..20).map(|_| independent(&normal.alike(480, likeness)));
            found.sum::<f64>() / 20.0
        };
        // Of an infinite series each keeping a share r of the one before: (1 - r) / (1 + r).
        for (likeness, share) in [(0.0, 1.0), (0.6, 0.25), (0.9, 0.0526)] {
            let found = worth(likeness);
            assert!(
                (0.75..1.6).contains(&(found / (480.0 * share))),
                "{likeness}: {found}"
            );
        }
    }

    /// In how many of so many simulated jobs something holds.
    fn share_of(jobs: usize, mut holds: impl FnMut(&mut Normal) -> bool) -> f64 {
        let mut normal = Normal::default();
        (0..jobs).filter(|_| holds(&mut normal)).count() as f64 / jobs as f64
    }

    fn is_seen(x: &[f64], y: &[f64]) -> bool {
        relation(x, y).correlation().unwrap().trend != Trend::Unclear
    }

    #[test]
    fn chance_rarely_looks_like_a_trend() {
        let straight: Vec<f64> = (0..200).map(f64::from).collect();
        for likeness in [0.0, 0.6, 0.9] {
            let both = share_of(300, |normal| {
                is_seen(&normal.alike(200, likeness), &normal.alike(200, likeness))
            });
            let fill = share_of(300, |normal| {
                is_seen(&straight, &normal.alike(200, likeness))
            });
            assert!(both <= 0.1 && fill <= 0.1, "{likeness}: {both} {fill}");
        }
        // A slow drift below the noise of each tick.
        let drift = share_of(300, |normal| {
            let noise = normal.alike(200, 0.0);
            let slow = normal.alike(200, 0.98);
            is_seen(
                &straight,
                &noise
                    .iter()
                    .zip(slow)
                    .map(|(noise, slow)| 5.0 * noise + slow)
                    .collect::<Vec<_>>(),
            )
        });
        assert!(drift <= 0.15, "{drift}");
    }

    #[test]
    fn a_correlation_is_detected() {
        let straight: Vec<f64> = (0..200).map(f64::from).collect();
        let slowing = share_of(300, |normal| {
            let noise = normal.alike(200, 0.6);
            is_seen(
                &straight,
                &noise
                    .iter()
                    .zip(&straight)
                    .map(|(noise, x)| noise - x / 40.0)
                    .collect::<Vec<_>>(),
            )
        });
        let rate = share_of(300, |normal| {
            let (x, noise) = (normal.alike(200, 0.5), normal.alike(200, 0.5));
            is_seen(
                &x,
                &x.iter()
                    .zip(noise)
                    .map(|(x, noise)| 0.8 * noise - 0.6 * x)
                    .collect::<Vec<_>>(),
            )
        });
        assert!(slowing > 0.9 && rate > 0.9, "{slowing} {rate}");
    }

    #[test]
    fn bounds_of_a_ratio_of_five_runs_hold_19_times_in_20() {
        let found = share_of(300, |normal| {
            let mut runs = |mean: f64, sd: f64| {
                (0..5)
                    .map(|_| mean + sd * normal.next())
                    .collect::<Vec<f64>>()
            };
            let (these, those) = (runs(120.0, 12.0), runs(100.0, 6.0));
            let bounds = ratio_of_means(&these, &those).unwrap().1.unwrap();
            (bounds.low..=bounds.high).contains(&1.2)
        });
        assert!((0.92..=0.985).contains(&found), "{found}");
    }

    #[test]
    fn one_run_each_has_a_ratio_and_no_bounds() {
        assert_eq!(ratio_of_means(&[3.0], &[2.0]), Some((1.5, None)));
        let (ratio, bounds) = ratio_of_means(&[3.0, 3.0], &[2.0, 2.0]).unwrap();
        close(ratio, 1.5, 1e-12);
        close(bounds.unwrap().low, 1.5, 1e-12);
    }

    #[test]
    fn the_same_runs_have_the_same_interval() {
        let runs = [[3.0, 3.5, 2.9], [2.0, 2.1, 2.2]];
        assert_eq!(
            ratio_of_means(&runs[0], &runs[1]),
            ratio_of_means(&runs[0], &runs[1])
        );
    }

    /// Numbers of the standard normal distribution.
    #[derive(Default)]
    struct Normal(Random);

    impl Normal {
        fn next(&mut self) -> f64 {
            let mut unit = || (self.0.below(1 << 52) as f64 + 0.5) / (1_u64 << 52) as f64;
            let (radius, angle) = (unit(), unit());
            (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
        }

        /// Each number keeps `likeness` of the one before.
        fn alike(&mut self, n: usize, likeness: f64) -> Vec<f64> {
            let mut last = self.next() / (1.0 - likeness * likeness).sqrt();
            let mut step = || {
                last = likeness * last + self.next();
                last
            };
            (0..n).map(|_| step()).collect()
        }
    }
}
