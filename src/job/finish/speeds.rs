//! The two speeds of the last minutes, and when each would come to its end if they went on.
//!
//! Only the part of the past in which the speeds did not change for good says anything.

use super::Eta;
use crate::job::rates::Rates;
use crate::job::statistics::{independent, mean};

/// A minute at one tick a second: in less, a single pause decides.
pub(super) const LEAST_TICKS: usize = 60;
/// Ticks that are worth fewer independent ones may show half a wave only, or a speed that rises or falls.
const LEAST_INDEPENDENT: f64 = 15.0;
/// A window of the past is at most this share of it: fewer than four are no choice.
const LONGEST_WINDOW: usize = 4;
/// After so long without a read nothing is being read, whatever was before.
const IDLE_S: f64 = 60.0;
const IDLE_TICKS: usize = 3;

/// The two speeds, tick by tick.
pub(super) struct Speeds {
    reads: Vec<f64>,
    growths: Vec<f64>,
    pub(super) seen_s: f64,
}

impl Speeds {
    /// Of as much of the past as is of one kind: a change of speed, as when a writer of the origin begins, makes what was
    /// before it useless. `None` if even the last minute rises or falls throughout.
    pub(super) fn latest(known: &[Rates]) -> Option<Self> {
        let shorter = |ticks: &usize| (*ticks > LEAST_TICKS).then(|| (ticks * 3 / 4).max(LEAST_TICKS));
        let mut lengths = std::iter::successors(Some(known.len()), shorter);
        lengths.find_map(|ticks| Self::of(&known[known.len() - ticks..]))
    }

    /// `None` if there is too little to go by.
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

    /// When it would be done and when full, if it went on as in each window of the past, with each amount that may be
    /// left. A window is as long as it takes until the first of the two, so it varies as much as what comes.
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
        // One for each amount that may be left, so that both are of the same window.
        let full =
            |free| growths.iter().flat_map(move |speed| vec![time(free, *speed); may_be_left.len().max(1)]);
        (done.collect(), free.into_iter().flat_map(full).collect())
    }
}

/// Without what was before the first read: making and mounting the snapshot says nothing about the speeds.
pub(super) fn since_reading(mut known: Vec<Rates>) -> Vec<Rates> {
    let first = known.iter().position(|rates| rates.read_bytes_per_s > 0.0);
    known.drain(..first.unwrap_or_default());
    known
}

/// Whether nothing was read in the last minute, or in a few longer ticks.
fn is_idle(known: &[Rates]) -> bool {
    let idle: Vec<&Rates> = known.iter().rev().take_while(|rates| rates.read_bytes_per_s <= 0.0).collect();
    idle.len() >= IDLE_TICKS && idle.iter().map(|rates| rates.seconds).sum::<f64>() >= IDLE_S
}

/// Infinite if nothing moves; nothing to do takes no time.
fn time(bytes: f64, speed: f64) -> f64 {
    match bytes > 0.0 {
        true if speed > 0.0 => bytes / speed,
        true => f64::INFINITY,
        false => 0.0,
    }
}
