//! The two speeds of the last minutes, and when the backup is done and the snapshot full if they continue.
//!
//! Only the time since the last lasting change of speed counts.

use super::Eta;
use crate::job::rates::Rates;
use crate::job::statistics::{independent, mean};

/// A minute at one tick a second; with fewer, a single pause would decide.
pub(super) const LEAST_TICKS: usize = 60;
/// With fewer independent ticks, the speed may be rising or falling.
const LEAST_INDEPENDENT: f64 = 15.0;
/// A window is at most a fourth of the past, so that there are several.
const LONGEST_WINDOW: usize = 4;
/// Reading has stopped after this long without a read.
const IDLE_S: f64 = 60.0;
const IDLE_TICKS: usize = 3;

/// Both speeds of each tick.
pub(super) struct Speeds {
    reads: Vec<f64>,
    growths: Vec<f64>,
    pub(super) seen_s: f64,
}

impl Speeds {
    /// The speeds since the last lasting change, such as a new writer on the origin. `None` if even the last minute rises or
    /// falls throughout.
    pub(super) fn latest(known: &[Rates]) -> Option<Self> {
        let shorter = |ticks: &usize| (*ticks > LEAST_TICKS).then(|| (ticks * 3 / 4).max(LEAST_TICKS));
        let mut lengths = std::iter::successors(Some(known.len()), shorter);
        lengths.find_map(|ticks| Self::of(&known[known.len() - ticks..]))
    }

    /// `None` with too few independent ticks.
    fn of(known: &[Rates]) -> Option<Self> {
        let is_idle = is_idle(known);
        let read = |rates: &Rates| if is_idle { 0.0 } else { rates.read_bytes_per_s.max(0.0) };
        let growth = |rates: &Rates| rates.growth_bytes_per_s.unwrap_or_default().max(0.0);
        let (reads, growths): (Vec<f64>, Vec<f64>) =
            known.iter().map(|rates| (read(rates), growth(rates))).unzip();
        let is_enough = [&reads, &growths].iter().all(|speeds| independent(speeds) >= LEAST_INDEPENDENT);
        let seen_s = known.iter().map(|rates| rates.seconds).sum();
        (known.len() >= LEAST_TICKS && is_enough).then_some(Self { reads, growths, seen_s })
    }

    pub(super) fn done(&self, left: u64, futures: &[f64]) -> Option<Eta> {
        Eta::of(time(left as f64, mean(&self.reads)?), futures)
    }

    pub(super) fn full(&self, free: u64, futures: &[f64]) -> Option<Eta> {
        Eta::of(time(free as f64, mean(&self.growths)?), futures)
    }

    /// When it would be done and full at the speeds of each window, for each amount that may be left. A window is as long as
    /// the time until the first of the two.
    pub(super) fn futures(&self, may_be_left: &[f64], free: Option<f64>) -> (Vec<f64>, Vec<f64>) {
        let times = [
            mean(may_be_left).zip(mean(&self.reads)).map(|(left, speed)| time(left, speed)),
            free.zip(mean(&self.growths)).map(|(free, speed)| time(free, speed)),
        ];
        let soonest_s = times.into_iter().flatten().fold(f64::INFINITY, f64::min);
        let ticks = self.reads.len();
        let window = (soonest_s / self.seen_s * ticks as f64) as usize;
        let window = window.clamp(1, (ticks / LONGEST_WINDOW).max(1));
        let speeds = |speeds: &[f64]| -> Vec<f64> { speeds.windows(window).filter_map(mean).collect() };
        let (reads, growths) = (speeds(&self.reads), speeds(&self.growths));
        let done = reads.iter().flat_map(|speed| may_be_left.iter().map(|left| time(*left, *speed)));
        // One for each amount, so that both lists have the same windows.
        let full =
            |free| growths.iter().flat_map(move |speed| vec![time(free, *speed); may_be_left.len().max(1)]);
        (done.collect(), free.into_iter().flat_map(full).collect())
    }
}

/// Removes the time before the first read, when the snapshot was created and mounted.
pub(super) fn since_reading(mut known: Vec<Rates>) -> Vec<Rates> {
    let first = known.iter().position(|rates| rates.read_bytes_per_s > 0.0);
    known.drain(..first.unwrap_or_default());
    known
}

/// Whether reading has stopped for a minute, or for a few longer ticks.
fn is_idle(known: &[Rates]) -> bool {
    let idle: Vec<&Rates> = known.iter().rev().take_while(|rates| rates.read_bytes_per_s <= 0.0).collect();
    idle.len() >= IDLE_TICKS && idle.iter().map(|rates| rates.seconds).sum::<f64>() >= IDLE_S
}

/// Seconds; infinite at speed 0, and 0 without bytes.
fn time(bytes: f64, speed: f64) -> f64 {
    match bytes > 0.0 {
        true if speed > 0.0 => bytes / speed,
        true => f64::INFINITY,
        false => 0.0,
    }
}
