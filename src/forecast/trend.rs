//! How a sum will go on growing: several simple trends, each weighted by how well it would have forecast what came
//! since.
//!
//! A trend is a speed, and how much of it is lost with each byte: distinct chunks run out, so that growth decays, and a
//! fuller snapshot slows its reader. Speeds are means whose weights halve every 7, 14, 28 … seconds; the bent ones are
//! regressions of the speed on the bytes. At up to 60 past moments each trend is asked when as many bytes as now would be
//! gained. Its error is on a logarithmic scale, and what counts is by how much it exceeds that of the best trend: where
//! all missed, as before a lasting change, none was better. A weight is a high power of the mean, so a steady run trusts
//! long means, one that changes the last seconds, and one that decays the bent ones.

use std::f64::consts::LN_2;

use super::reads::Sums;

/// The half-lives of means double from here up to the time seen.
const SHORTEST_S: f64 = 7.0;
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
/// trends have to earn their weight.
const UNTESTED: f64 = 1.0;
const UNTESTED_ERROR: f64 = 0.3;
const VARIES_S: f64 = 10.0;
const UNTESTED_BENT_ERROR: f64 = 0.5;
/// A speed's variance is that of blocks of the time seen. A long run has long ones, so that its slow bursts are seen; in
/// shorter ones than this, neighbours are alike.
const MOST_BLOCKS: f64 = 24.0;
const SHORTEST_BLOCK_S: f64 = 5.0;
/// What a reader does from one second to the next shows whether its speed will change.
const SECOND_S: f64 = 1.0;
/// At first, half a block is assumed that is off by a third.
const ASSUMED: f64 = 0.5;
const ASSUMED_VARIANCE: f64 = 0.1;
/// A weight is this power of the mean error, which is at least so large.
const SELECTION: i32 = -8;
const LEAST_ERROR: f64 = 0.02;
/// Larger errors count as this: a factor of 2.7.
const MOST_ERROR: f64 = 1.0;
/// A test that even the best trend missed by so much shows nothing: which one missed less is chance.
const UNFORESEEN: f64 = 0.3;
/// Trends that are further apart than this factor count as this far.
const MOST_APART: f64 = 20.0;
/// Shorter times are not distinguished.
const LEAST_TIME_S: f64 = 0.5;

/// A speed that falls with each byte by so much a second. One that rises at most doubles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct SpeedTrend {
    speed: f64,
    loss_per_s: f64,
}

impl SpeedTrend {
    /// A speed that stays.
    fn straight(speed: f64) -> Self {
        Self {
            speed: speed.max(0.0),
            loss_per_s: 0.0,
        }
    }

    /// The seconds until `bytes` more; infinite if never.
    fn time(self, bytes: f64) -> f64 {
        let straight_s = bytes / self.speed;
        let bend = self.loss_per_s * straight_s;
        let doubled = -bend - 1.0;
        if bytes <= 0.0 {
            0.0
        } else if self.speed <= 0.0 || bend >= 1.0 {
            f64::INFINITY
        } else if bend.abs() < 1e-6 {
            straight_s
        } else if doubled > 0.0 {
            straight_s * (LN_2 + doubled / 2.0) / -bend
        } else {
            straight_s * -(-bend).ln_1p() / bend
        }
    }

    /// The bytes in so many seconds.
    fn gain(self, seconds: f64) -> f64 {
        let bend = self.loss_per_s * seconds;
        let doubled = -bend - LN_2;
        let share = if bend.abs() < 1e-6 {
            1.0
        } else if doubled > 0.0 {
            (1.0 + 2.0 * doubled) / -bend
        } else {
            -(-bend).exp_m1() / bend
        };
        self.speed * seconds * share
    }
}

/// What a trend would have said at each of the moments, the last of which is now.
struct Candidate {
    /// Its error before any test.
    untested: f64,
    at: Vec<SpeedTrend>,
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
    trends: Vec<(SpeedTrend, f64)>,
    /// The variance of a second's speed over the mean, if each second were independent of the others.
    variance: f64,
    /// The standard deviation of a second's speed over the mean.
    pub scatter: f64,
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
        let all = candidates(past, &moments, usual_speed);
        let mut times: Vec<f64> = all
            .iter()
            .map(|one| one.at[moments.len() - 1].time(bytes))
            .collect();
        times.sort_unstable_by(f64::total_cmp);
        let tests = tests(past, &moments, bytes, times[times.len() / 2]);
        let trends = all
            .iter()
            .zip(weights(&all, &tests))
            .map(|(one, weight)| (one.at[moments.len() - 1], weight));
        let block_s = (past.seen_s() / MOST_BLOCKS).max(SHORTEST_BLOCK_S);
        Some(Self {
            trends: trends.collect(),
            variance: block_s * variance(past, block_s, ASSUMED),
            scatter: variance(past, SECOND_S, 0.0).sqrt(),
            seen_s: past.seen_s(),
        })
    }

    /// The seconds until so many bytes more; infinite if never. From the mean of the speeds, so a trend that never reaches
    /// it counts as none.
    pub fn time(&self, bytes: f64) -> f64 {
        let speeds = self
            .trends
            .iter()
            .map(|(trend, weight)| (1.0 / trend.time(bytes), *weight));
        if bytes <= 0.0 {
            0.0
        } else {
            1.0 / middle(speeds.collect())
        }
    }

    /// The bytes in so many seconds.
    pub fn gain(&self, seconds: f64) -> f64 {
        middle(
            self.trends
                .iter()
                .map(|(trend, weight)| (trend.gain(seconds), *weight))
                .collect(),
        )
    }

    /// The standard error of the speed in so many seconds: that of what was seen, and of what comes.
    pub fn uncertainty(&self, seconds: f64) -> f64 {
        (self.variance / (self.seen_s + 1.0) + self.variance / seconds.max(SHORTEST_BLOCK_S)).sqrt()
    }

    /// How much sooner, and how much later, the trends have it than in so many seconds, on a logarithmic scale. An
    /// unlikely one counts more here than for the likely time.
    pub fn disagreement(&self, bytes: f64, seconds: f64) -> [f64; 2] {
        let apart = |side: f64| {
            let squares = self.trends.iter().map(|(trend, weight)| {
                let sooner = (seconds / trend.time(bytes))
                    .clamp(1.0 / MOST_APART, MOST_APART)
                    .ln();
                ((side * sooner).max(0.0).powi(2), weight.sqrt())
            });
            mean(squares).sqrt()
        };
        [apart(1.0), apart(-1.0)]
    }
}

fn candidates(past: &Sums, moments: &[usize], usual_speed: Option<f64>) -> Vec<Candidate> {
    let mut all = Vec::new();
    let mut add = |untested, at| all.push(Candidate { untested, at });
    for half_life_s in half_lives(past) {
        add(untested(half_life_s), line(past, half_life_s, moments));
    }
    for half_life_s in FITTED_S {
        add(untested(half_life_s), fitted(past, half_life_s, moments));
    }
    for half_life_s in BENT_S {
        add(UNTESTED_BENT_ERROR, bent(past, half_life_s, moments));
    }
    if let Some(speed) = usual_speed {
        add(
            UNTESTED_ERROR,
            vec![SpeedTrend::straight(speed); moments.len()],
        );
    }
    all
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
    all.take_while(move |half_life_s| *half_life_s < seen_s)
        .chain([f64::INFINITY])
}

/// The error of a line before it is tested: a shorter mean varies more.
fn untested(half_life_s: f64) -> f64 {
    UNTESTED_ERROR * (1.0 + VARIES_S / half_life_s)
}

/// The mean speed at each of the moments.
fn line(past: &Sums, half_life_s: f64, moments: &[usize]) -> Vec<SpeedTrend> {
    let mut seconds = 0.0;
    let mut bytes = 0.0;
    at_moments(past, half_life_s, moments, |kept, step_s, step, _| {
        seconds = seconds * kept + step_s;
        bytes = bytes * kept + step;
        SpeedTrend::straight(bytes / seconds)
    })
}

/// The sums of a regression of `y` on `x`, in which what is older counts less.
#[derive(Default)]
struct Regression([f64; 5]);

impl Regression {
    /// Adds a point; returns the means of `x`, of its square, of `y`, and of their product.
    fn add(&mut self, kept: f64, weight: f64, x: f64, y: f64) -> [f64; 4] {
        for (sum, term) in self.0.iter_mut().zip([1.0, x, x * x, y, x * y]) {
            *sum = *sum * kept + weight * term;
        }
        let [n, x, xx, y, xy] = self.0;
        [x, xx, y, xy].map(|sum| sum / n)
    }
}

/// A regression of the sum on the time: better than the mean speed if the sum only varies around a line.
fn fitted(past: &Sums, half_life_s: f64, moments: &[usize]) -> Vec<SpeedTrend> {
    let mut regression = Regression::default();
    let mut now_s = 0.0;
    at_moments(past, half_life_s, moments, |kept, step_s, _, gained| {
        now_s += step_s;
        let [x, xx, y, xy] = regression.add(kept, step_s, now_s, gained);
        let scatter = xx - x * x;
        if scatter > 0.0 {
            return SpeedTrend::straight((xy - x * y) / scatter);
        }
        SpeedTrend::straight(gained / now_s)
    })
}

/// A regression of the speed on the bytes so far.
fn bent(past: &Sums, half_life_s: f64, moments: &[usize]) -> Vec<SpeedTrend> {
    let mut regression = Regression::default();
    at_moments(past, half_life_s, moments, |kept, step_s, step, gained| {
        let middle = gained - step / 2.0;
        let [x, xx, y, xy] = regression.add(kept, step_s, middle, step / step_s);
        let scatter = xx - x * x;
        let mut slope = 0.0;
        if scatter > 1e-9 * x * x {
            slope = (xy - x * y) / scatter;
        }
        let loss_per_s = (-slope).max(-MOST_RISE * y / (gained + 1.0));
        SpeedTrend {
            speed: (y - loss_per_s * (gained - x)).max(0.0),
            loss_per_s,
        }
    })
}

/// Calls with the share that is kept of what was, the seconds and bytes of the step, and the bytes so far; returns what
/// it gave at the moments.
fn at_moments(
    past: &Sums,
    half_life_s: f64,
    moments: &[usize],
    mut trend: impl FnMut(f64, f64, f64, f64) -> SpeedTrend,
) -> Vec<SpeedTrend> {
    let mut found = Vec::with_capacity(moments.len());
    for index in 1..past.times.len() {
        let step_s = past.times[index] - past.times[index - 1];
        let step = past.sums[index] - past.sums[index - 1];
        let kept = (-step_s / half_life_s).exp2();
        let now = trend(kept, step_s, step, past.sums[index] - past.sums[0]);
        if moments.get(found.len()) == Some(&index) {
            found.push(now);
        }
    }
    found
}

/// What can be tested at the moments: as many bytes as now, or all that came since. Tests count more if they look far
/// ahead, though not further than now, and if they began and ended lately. `from` is the index of the moment.
fn tests(past: &Sums, moments: &[usize], bytes: f64, about_s: f64) -> Vec<Test> {
    let last = past.times.len() - 1;
    let mut tests = Vec::new();
    for (from, &moment) in moments.iter().enumerate() {
        let age_s = past.times[last] - past.times[moment];
        if age_s < LEAST_AGE_S {
            continue;
        }
        let bytes = bytes.min(past.sums[last] - past.sums[moment]);
        let is_open = bytes <= 0.0;
        let mut took_s = age_s;
        if !is_open {
            let Some(seconds) = past.time_of(moment, bytes) else {
                continue;
            };
            took_s = seconds;
        }
        let ended = (age_s - took_s) / END_HALF_LIFE_S;
        let began = age_s / (START_HALF_LIFE * past.seen_s());
        tests.push(Test {
            from,
            bytes,
            took_s,
            is_open,
            weight: (-ended - began).exp2(),
        });
    }
    let longest_s = tests.iter().map(|test| test.took_s).fold(0.0, f64::max);
    for test in &mut tests {
        test.weight *= (test.took_s / about_s.min(longest_s * FURTHER)).min(1.0);
    }
    tests
}

impl Test {
    /// How far the forecast was from what it took, on a logarithmic scale.
    fn error(&self, forecast_s: f64) -> f64 {
        let error = (self.took_s.max(LEAST_TIME_S) / forecast_s.max(LEAST_TIME_S)).ln();
        error
            .clamp(if self.is_open { 0.0 } else { -MOST_ERROR }, MOST_ERROR)
            .abs()
    }
}

/// Of each trend; their sum is 1.
fn weights(all: &[Candidate], tests: &[Test]) -> Vec<f64> {
    // By how much each trend missed more than the best one, with the weight of that test.
    let mut worse: Vec<Vec<(f64, f64)>> = vec![Vec::new(); all.len()];
    for test in tests {
        let errors = all
            .iter()
            .map(|one| test.error(one.at[test.from].time(test.bytes)));
        let errors: Vec<f64> = errors.collect();
        let least = errors.iter().copied().fold(f64::INFINITY, f64::min);
        let weight = test.weight * (1.0 - least / UNFORESEEN).max(0.0);
        for (worse, error) in worse.iter_mut().zip(errors) {
            worse.push((error - least, weight));
        }
    }
    let mut weights = Vec::new();
    for (one, worse) in all.iter().zip(worse) {
        let error = mean(worse.into_iter().chain([(one.untested, UNTESTED)]));
        weights.push((error + LEAST_ERROR).powi(SELECTION));
    }
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

/// Of the speeds of blocks over the mean, as if these were independent, and so many more blocks that are assumed.
fn variance(past: &Sums, block_s: f64, assumed: f64) -> f64 {
    let usual = past.gained() / past.seen_s();
    let mut squares = 0.0;
    let mut blocks = 0.0_f64;
    let mut from = 0;
    for to in 1..past.times.len() {
        let seconds = past.times[to] - past.times[from];
        if seconds >= block_s {
            squares += ((past.sums[to] - past.sums[from]) / seconds / usual - 1.0).powi(2);
            blocks += 1.0;
            from = to;
        }
    }
    (squares + assumed * ASSUMED_VARIANCE) / ((blocks - 1.0).max(0.0) + assumed).max(ASSUMED)
}

/// Of numbers with their weights.
fn mean(numbers: impl Iterator<Item = (f64, f64)>) -> f64 {
    let add = |(sum, weights), (number, weight)| (sum + number * weight, weights + weight);
    let (sum, weights) = numbers.fold((0.0, 0.0), add);
    sum / weights
}
