//! The two speeds of late, and when each would come to its end if they went on.
//!
//! How much of the past tells anything is decided here: as much as is of one kind.

use super::Expected;
use crate::job::rates::Rates;
use crate::job::statistics::{block_means, likeness, mean, widening};

/// A minute at one tick a second: before, a single pause decides.
pub(super) const LEAST_TICKS: usize = 60;
/// Where neighbours are so alike that less than so many independent ones were seen, that may have been one wave's crest.
const LEAST_INDEPENDENT: f64 = 15.0;
/// Of which nothing was read for so long, nothing is being read, whatever was before.
const IDLE_S: f64 = 60.0;
const IDLE_TICKS: usize = 3;

/// The two speeds of late, tick by tick.
pub(super) struct Speeds {
    reads: Vec<f64>,
    growths: Vec<f64>,
    block: usize,
    pub(super) seen_s: f64,
}

impl Speeds {
    /// Of as much of the past as is of one kind: when the writer of the origin begins, the speeds become others, and what
    /// was before tells nothing any more. `None` where even the last minute rises or falls all along.
    pub(super) fn latest(known: &[Rates]) -> Option<Self> {
        let shorter = |ticks: &usize| (*ticks > LEAST_TICKS).then(|| (ticks * 3 / 4).max(LEAST_TICKS));
        let mut lengths = std::iter::successors(Some(known.len()), shorter);
        lengths.find_map(|ticks| Self::of(&known[known.len() - ticks..]))
    }

    /// `None` where they tell too little.
    fn of(known: &[Rates]) -> Option<Self> {
        let is_idle = is_idle(known);
        let read = |pace: &Rates| if is_idle { 0.0 } else { pace.read_bytes_per_s.max(0.0) };
        let reads: Vec<f64> = known.iter().map(read).collect();
        let growth = |pace: &Rates| pace.growth_bytes_per_s.unwrap_or_default().max(0.0);
        let growths: Vec<f64> = known.iter().map(growth).collect();
        let likeness = [likeness(&reads), likeness(&growths)];
        let is_enough = likeness.iter().all(|likeness| likeness.independent >= LEAST_INDEPENDENT);
        let block = likeness[0].block.max(likeness[1].block);
        let seen_s = known.iter().map(|pace| pace.seconds).sum();
        (known.len() >= LEAST_TICKS && is_enough).then_some(Self { reads, growths, block, seen_s })
    }

    fn means(&self) -> [f64; 2] {
        [&self.reads, &self.growths].map(|speeds| mean(speeds).unwrap_or_default())
    }

    pub(super) fn done(&self, left: u64, drawn: &[f64]) -> Option<Expected> {
        Expected::of(time(left as f64, self.means()[0]), drawn)
    }

    pub(super) fn full(&self, free: u64, drawn: &[f64]) -> Option<Expected> {
        Expected::of(time(free as f64, self.means()[1]), drawn)
    }

    /// When it is done and when it is full, in each of many drawings; what is left is each in turn that it may be.
    pub(super) fn futures(&self, may_be_left: &[f64], free: Option<f64>) -> (Vec<f64>, Vec<f64>) {
        let means = self.means();
        let left = may_be_left.iter().sum::<f64>() / may_be_left.len().max(1) as f64;
        let wider = |bytes: f64, mean: f64| {
            // Not only was what was seen a draw of what there is: what comes is another, and differs the more the
            // shorter it is.
            let to_come = (1.0 + self.seen_s / time(bytes, mean).max(1.0)).sqrt();
            to_come * widening(self.reads.len(), self.block).unwrap_or(1.0)
        };
        let widest = wider(left, means[0]).max(free.map_or(0.0, |free| wider(free, means[1])));
        let widen = |drawn: f64, mean: f64| (mean + (drawn - mean) * widest).max(0.0);
        let drawn = block_means([&self.reads[..], &self.growths[..]], self.block);
        let lefts = may_be_left.iter().cycle();
        let done = drawn.iter().zip(lefts).map(|(drawn, left)| time(*left, widen(drawn[0], means[0])));
        let full = free.map(|free| drawn.iter().map(move |drawn| time(free, widen(drawn[1], means[1]))));
        (done.collect(), full.into_iter().flatten().collect())
    }
}

/// Without what was before anything was read: a snapshot is made and mounted first, which tells nothing of the speeds.
pub(super) fn since_reading(mut known: Vec<Rates>) -> Vec<Rates> {
    let first = known.iter().position(|pace| pace.read_bytes_per_s > 0.0);
    known.drain(..first.unwrap_or_default());
    known
}

/// Whether the last minute, or a few ticks that are longer, brought nothing.
fn is_idle(known: &[Rates]) -> bool {
    let idle: Vec<&Rates> = known.iter().rev().take_while(|pace| pace.read_bytes_per_s <= 0.0).collect();
    idle.len() >= IDLE_TICKS && idle.iter().map(|pace| pace.seconds).sum::<f64>() >= IDLE_S
}

/// Infinite where nothing moves; nothing to do takes no time.
fn time(bytes: f64, speed: f64) -> f64 {
    match bytes > 0.0 {
        true if speed > 0.0 => bytes / speed,
        true => f64::INFINITY,
        false => 0.0,
    }
}
