//! How a sum will go on growing: several simple trends, each weighted by how well it would have forecast what came
//! since.
//!
//! A trend is a speed, and how much of it is lost with each byte: distinct chunks run out, so that growth decays, and a
//! fuller snapshot slows its reader. Speeds are means whose weights halve every 5, 10, 20 … seconds; the bent ones are
//! regressions of the speed on the bytes. At up to 60 past moments each trend is asked when as many bytes as now would be
//! gained. Its error, on a logarithmic scale, is compared with what came. A weight is a high power of the mean error, so
//! a steady run trusts long means, one that changes the last seconds, and one that decays the bent ones.

use std::f64::consts::LN_2;

use super::curve::Sums;

/// The half-lives of means double from here up to the time seen.
const SHORTEST_S: f64 = 5.0;
const MOST_LINES: usize = 9;
/// The half-lives of the regressions of the sum on the time.
const FITTED_S: [f64; 3] = [10.0, 40.0, f64::INFINITY];
/// The half-lives of the regressions of the speed on the sum.
const BENT_S: [f64; 2] = [30.0, 120.0];
/// A regression may at most double its speed with as many bytes as it has seen.
const MOST_RISE: f64 = 1.0;
/// Past moments that are tested.
const MOST_TESTS: usize = 60;
/// Forecasts that are younger have not shown anything.
const LEAST_AGE_S: f64 = 3.0;
/// A test counts half if it ended so long ago, or began before so large a part of the time seen.
const END_HALF_LIFE_S: f64 = 120.0;
const START_HALF_LIFE: f64 = 0.5;
/// If the forecast looks further ahead than so many times the longest test, this many times that test is enough.
const FURTHER: f64 = 4.0;
/// A trend begins with one test that missed by so much. A short mean varies more: at this half-life, twice as much. Bent
/// trends have to earn their weight. Backups of the same origin are alike.
const UNTESTED: f64 = 1.0;
const UNTESTED_ERROR: f64 = 0.3;
const VARIES_S: f64 = 10.0;
const UNTESTED_BENT_ERROR: f64 = 0.5;
const UNTESTED_USUAL_ERROR: f64 = 0.2;
/// Of all trends, one more test missed by a factor of two. It has a tenth of a weight, so that it only counts at first.
const UNTESTED_MISS: (f64, f64) = (0.7, 0.1);
/// A weight is this power of the mean error, which is at least so large.
const SELECTION: i32 = -8;
const LEAST_ERROR: f64 = 0.02;
/// Larger errors count as this: a factor of 2.7.
const MOST_ERROR: f64 = 1.0;
/// Shorter times are not distinguished.
const LEAST_TIME_S: f64 = 0.5;

/// A speed that falls with each byte by so much a second. One that rises at most doubles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Trend {
    speed: f64,
    loss_per_s: f64,
}

impl Trend {
    /// The seconds until `bytes` more; infinite if never.
    fn time(self, bytes: f64) -> f64 {
        let straight_s = bytes / self.speed;
        let bend = self.loss_per_s * straight_s;
        let doubled = -bend - 1.0;
        match () {
            () if bytes <= 0.0 => 0.0,
            () if self.speed <= 0.0 || bend >= 1.0 => f64::INFINITY,
            () if bend.abs() < 1e-6 => straight_s,
            () if doubled > 0.0 => straight_s * (LN_2 + doubled / 2.0) / -bend,
            () => straight_s * -(-bend).ln_1p() / bend,
        }
    }

    /// The bytes in so many seconds.
    fn gain(self, seconds: f64) -> f64 {
        let bend = self.loss_per_s * seconds;
        let doubled = -bend - LN_2;
        let share = match () {
            () if bend.abs() < 1e-6 => 1.0,
            () if doubled > 0.0 => (1.0 + 2.0 * doubled) / -bend,
            () => -(-bend).exp_m1() / bend,
        };
        self.speed * seconds * share
    }
}

/// A moment of the past, and what came after it.
struct Test {
    from: usize,
    bytes: f64,
    took_s: f64,
    /// Nothing came: it takes at least so long.
    is_open: bool,
    weight: f64,
}

/// The forecast of a sum that grew.
#[derive(Debug)]
pub struct Prediction {
    /// The trends as of now, with their weights.
    trends: Vec<(Trend, f64)>,
    /// The error that nine of ten tests stayed below.
    pub missed: f64,
    /// The seconds since the first change.
    pub seen_s: f64,
}

impl Prediction {
    /// The forecast for gaining about `bytes`; `None` if there was no growth. `usual_speed` is that of earlier runs.
    pub fn of(past: &Sums, bytes: f64, usual_speed: Option<f64>) -> Option<Self> {
        let last = past.times.len() - 1;
        if last == 0 || past.gained() <= 0.0 {
            return None;
        }
        let step = (last / MOST_TESTS).max(1);
        let moments: Vec<usize> = (2..last).step_by(step).chain([last]).collect();
        let usual = usual_speed.map(|speed| vec![Trend { speed, loss_per_s: 0.0 }; moments.len()]);
        let all: Vec<(f64, Vec<Trend>)> = (half_lives(past).map(|s| (untested(s), line(past, s, &moments))))
            .chain(FITTED_S.map(|s| (untested(s), fitted(past, s, &moments))))
            .chain(BENT_S.map(|s| (UNTESTED_BENT_ERROR, bent(past, s, &moments))))
            .chain(usual.map(|trends| (UNTESTED_USUAL_ERROR, trends)))
            .collect();
        let now = moments.len() - 1;
        let mut times: Vec<f64> = all.iter().map(|(_, trends)| trends[now].time(bytes)).collect();
        times.sort_unstable_by(f64::total_cmp);
        let tests = tests(past, &moments, bytes, times[times.len() / 2]);
        let mut weights: Vec<f64> =
            all.iter().map(|(untested, trends)| weight(trends, &tests, *untested)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        let at = |moment: usize| -> Vec<(Trend, f64)> {
            all.iter().zip(&weights).map(|((_, trends), weight)| (trends[moment], *weight)).collect()
        };
        let errors =
            tests.iter().map(|test| (test.error(time(&at(test.from), test.bytes)).abs(), test.weight));
        Some(Self {
            missed: quantile(errors.chain([UNTESTED_MISS]).collect(), 0.9),
            trends: at(now),
            seen_s: past.seen_s(),
        })
    }

    /// The seconds until so many bytes more; infinite if never.
    pub fn time(&self, bytes: f64) -> f64 {
        time(&self.trends, bytes)
    }

    /// The bytes in so many seconds.
    pub fn gain(&self, seconds: f64) -> f64 {
        middle(self.trends.iter().map(|(trend, weight)| (trend.gain(seconds), *weight)).collect())
    }

    /// How far the trends are apart about a time, on a logarithmic scale.
    pub fn disagreement(&self, bytes: f64) -> f64 {
        let likely_s = self.time(bytes);
        let apart = |trend: &Trend| (likely_s / trend.time(bytes)).max(0.05).ln();
        self.trends.iter().map(|(trend, weight)| weight * apart(trend).powi(2)).sum::<f64>().sqrt()
    }
}

/// From the mean of the speeds, so a trend that never reaches it counts as none.
fn time(trends: &[(Trend, f64)], bytes: f64) -> f64 {
    let speeds = trends.iter().map(|(trend, weight)| (1.0 / trend.time(bytes), *weight));
    if bytes <= 0.0 { 0.0 } else { 1.0 / middle(speeds.collect()) }
}

/// The mean of the middle half of the weights: what is far off does not matter.
fn middle(mut numbers: Vec<(f64, f64)>) -> f64 {
    numbers.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut below = 0.0;
    let parts = numbers.into_iter().map(|(number, weight)| {
        let above = below + weight;
        let part = (above.min(0.75) - below.max(0.25)).max(0.0);
        below = above;
        number * part
    });
    2.0 * parts.sum::<f64>()
}

/// Those of the means, up to the time seen, and that of the mean of all.
fn half_lives(past: &Sums) -> impl Iterator<Item = f64> {
    let all = (0..MOST_LINES).map(|power| SHORTEST_S * f64::from(1 << power));
    let seen_s = past.seen_s().max(2.0 * SHORTEST_S);
    all.take_while(move |half_life_s| *half_life_s < seen_s).chain([f64::INFINITY])
}

/// The error of a line before it is tested: a shorter mean varies more.
fn untested(half_life_s: f64) -> f64 {
    UNTESTED_ERROR * (1.0 + VARIES_S / half_life_s)
}

/// The mean speed at each of the moments.
fn line(past: &Sums, half_life_s: f64, moments: &[usize]) -> Vec<Trend> {
    let [mut seconds, mut bytes] = [0.0; 2];
    at_moments(past, half_life_s, moments, |kept, step_s, step, _| {
        (seconds, bytes) = (seconds * kept + step_s, bytes * kept + step);
        Trend { speed: (bytes / seconds).max(0.0), loss_per_s: 0.0 }
    })
}

/// A regression of the sum on the time: better than the mean speed if the sum only varies around a line.
fn fitted(past: &Sums, half_life_s: f64, moments: &[usize]) -> Vec<Trend> {
    let mut sums = [0.0, 0.0, 0.0, 0.0, 0.0];
    let mut now_s = 0.0;
    at_moments(past, half_life_s, moments, |kept, step_s, _, gained| {
        now_s += step_s;
        for (sum, term) in sums.iter_mut().zip([1.0, now_s, now_s * now_s, gained, gained * now_s]) {
            *sum = *sum * kept + step_s * term;
        }
        let [x, xx, y, xy] = [sums[1], sums[2], sums[3], sums[4]].map(|sum| sum / sums[0]);
        let scatter = xx - x * x;
        let speed = if scatter > 0.0 { (xy - x * y) / scatter } else { gained / now_s };
        Trend { speed: speed.max(0.0), loss_per_s: 0.0 }
    })
}

/// A regression of the speed on the bytes so far.
fn bent(past: &Sums, half_life_s: f64, moments: &[usize]) -> Vec<Trend> {
    let mut sums = [0.0; 5];
    at_moments(past, half_life_s, moments, |kept, step_s, step, gained| {
        let (middle, speed) = (gained - step / 2.0, step / step_s);
        let terms = [1.0, middle, middle * middle, speed, middle * speed];
        for (sum, term) in sums.iter_mut().zip(terms) {
            *sum = *sum * kept + step_s * term;
        }
        let [x, xx, y, xy] = [sums[1], sums[2], sums[3], sums[4]].map(|sum| sum / sums[0]);
        let (scatter, together) = (xx - x * x, xy - x * y);
        let slope = if scatter > 1e-9 * x * x { together / scatter } else { 0.0 };
        let loss_per_s = (-slope).max(-MOST_RISE * y / (gained + 1.0));
        Trend { speed: (y - loss_per_s * (gained - x)).max(0.0), loss_per_s }
    })
}

/// Calls with the share that is kept of what was, the seconds and bytes of the step, and the bytes so far; returns what
/// it gave at the moments.
fn at_moments(
    past: &Sums,
    half_life_s: f64,
    moments: &[usize],
    mut trend: impl FnMut(f64, f64, f64, f64) -> Trend,
) -> Vec<Trend> {
    let (mut wanted, mut found) = (moments.iter().peekable(), Vec::with_capacity(moments.len()));
    for (index, (times, sums)) in past.times.windows(2).zip(past.sums.windows(2)).enumerate() {
        let step_s = times[1] - times[0];
        let now = trend((-step_s / half_life_s).exp2(), step_s, sums[1] - sums[0], sums[1] - past.sums[0]);
        if wanted.next_if_eq(&&(index + 1)).is_some() {
            found.push(now);
        }
    }
    found
}

/// What can be tested at the moments: as many bytes as now, or all that came since. Tests count more if they look far
/// ahead, though not further than now, and if they began and ended lately. `from` is the index of the moment.
fn tests(past: &Sums, moments: &[usize], bytes: f64, about_s: f64) -> Vec<Test> {
    let last = past.times.len() - 1;
    let test = |(from, &moment): (usize, &usize)| {
        let age_s = past.times[last] - past.times[moment];
        let bytes = bytes.min(past.sums[last] - past.sums[moment]);
        let is_open = bytes <= 0.0;
        let took_s = if is_open { age_s } else { past.time_of(moment, bytes)? };
        let weight = (-(age_s - took_s) / END_HALF_LIFE_S - age_s / (START_HALF_LIFE * past.seen_s())).exp2();
        (age_s >= LEAST_AGE_S).then_some(Test { from, bytes, took_s, is_open, weight })
    };
    let mut tests: Vec<Test> = moments.iter().enumerate().filter_map(test).collect();
    let longest_s = tests.iter().map(|test| test.took_s).fold(0.0, f64::max);
    tests
        .iter_mut()
        .for_each(|test| test.weight *= (test.took_s / about_s.min(longest_s * FURTHER)).min(1.0));
    tests
}

impl Test {
    /// The logarithm of the time that it took over the time that was forecast.
    fn error(&self, forecast_s: f64) -> f64 {
        let error = (self.took_s.max(LEAST_TIME_S) / forecast_s.max(LEAST_TIME_S)).ln();
        error.clamp(if self.is_open { 0.0 } else { -MOST_ERROR }, MOST_ERROR)
    }
}

/// `untested` is the error before any test.
fn weight(trends: &[Trend], tests: &[Test], untested: f64) -> f64 {
    let (mut errors, mut count) = (untested * UNTESTED, UNTESTED);
    for test in tests {
        errors += test.weight * test.error(trends[test.from].time(test.bytes)).abs();
        count += test.weight;
    }
    (errors / count + LEAST_ERROR).powi(SELECTION)
}

/// The number that a share of the weights lies at or below; 0 of none.
fn quantile(mut numbers: Vec<(f64, f64)>, share: f64) -> f64 {
    numbers.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut rest = share * numbers.iter().map(|(_, weight)| weight).sum::<f64>();
    let found = numbers.iter().find(|(_, weight)| {
        rest -= weight;
        rest <= 0.0
    });
    found.map_or(0.0, |(number, _)| *number)
}
