//! Whether a running backup will finish before its snapshot overflows.
//!
//! It follows from what is left to read, what is free, and the two speeds of the last minutes. The speeds are taken
//! together, since what slows the reading may be what fills the snapshot. The outlook assumes that both go on as they did.

mod sentence;
mod speeds;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rates::Rates;
use super::remaining::RemainingReads;
use super::statistics::Sorted;
use speeds::{Speeds, since_reading};

/// Sure enough to say so: 19 of 20 windows agree.
const SURE: f64 = 0.95;

/// What to expect of a running backup. Times are from now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Outlook {
    pub left: RemainingReads,
    /// What overflows: the snapshot itself, or the pool of a thin one; `null` if its usage is not known.
    pub overflows: Option<String>,
    pub free_bytes: Option<u64>,
    /// Ticks since it began to read, of the last ten minutes.
    pub ticks: usize,
    /// The speeds are those of the last so many seconds; `null` while it is too early.
    pub seen_s: Option<f64>,
    /// `null` while nothing is read, or if it is not known.
    pub done: Option<Eta>,
    /// `null` while it does not fill, or if it is not known.
    pub full: Option<Eta>,
    pub verdict: OutlookVerdict,
    pub text: String,
}

/// A time of arrival, in seconds from now, with the 5th and 95th percentile of how it may go on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Eta {
    pub likely_s: f64,
    pub soonest_s: f64,
    /// `null` if it may never come.
    pub latest_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutlookVerdict {
    DoneFirst,
    FullFirst,
    /// Either may come first, or neither.
    Open,
    /// There were too few ticks, or too few that are independent.
    TooEarly,
}

/// What overflows, and how much is free in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    /// `snapshot vg0/data_snapshot` or `thin pool vg0/pool`
    pub name: String,
    pub is_pool: bool,
    pub free_bytes: u64,
}

/// What to expect, from the last ticks in the order of time.
pub fn outlook(left: RemainingReads, room: Option<Room>, recent: &[Rates]) -> Outlook {
    // If its usage is not known, reading alone says when it is done.
    let is_known = |rates: &&Rates| {
        let growth = room.as_ref().map_or(Some(0.0), |_| rates.growth_bytes_per_s);
        [Some(rates.read_bytes_per_s), growth, Some(rates.seconds)]
            .iter()
            .all(|it| it.is_some_and(f64::is_finite))
    };
    let known: Vec<Rates> = since_reading(recent.iter().filter(is_known).copied().collect());
    let speeds = Speeds::latest(&known);
    let (done_s, full_s) = match &speeds {
        Some(speeds) => speeds.futures(&left.may_be, room.as_ref().map(|room| room.free_bytes as f64)),
        None => Default::default(),
    };
    let verdict = speeds.as_ref().map_or(OutlookVerdict::TooEarly, |_| verdict(&done_s, &full_s));
    let mut outlook = Outlook {
        done: speeds.as_ref().and_then(|speeds| speeds.done(left.left_bytes?, &done_s)),
        full: speeds.as_ref().and_then(|speeds| speeds.full(room.as_ref()?.free_bytes, &full_s)),
        overflows: room.as_ref().map(|room| room.name.clone()),
        free_bytes: room.as_ref().map(|room| room.free_bytes),
        left,
        ticks: known.len(),
        seen_s: speeds.as_ref().map(|speeds| speeds.seen_s),
        verdict,
        text: String::new(),
    };
    outlook.text = outlook.sentence(room.is_some_and(|room| room.is_pool));
    outlook
}

fn verdict(done_s: &[f64], full_s: &[f64]) -> OutlookVerdict {
    let share = |is: fn(&f64, &f64) -> bool| {
        done_s.iter().zip(full_s).filter(|(done, full)| is(done, full)).count() as f64 / done_s.len() as f64
    };
    match () {
        () if share(|done, full| done < full) >= SURE => OutlookVerdict::DoneFirst,
        () if share(|done, full| full < done) >= SURE => OutlookVerdict::FullFirst,
        () => OutlookVerdict::Open,
    }
}

impl Eta {
    /// `None` if it is not to be expected at all.
    fn of(likely_s: f64, futures: &[f64]) -> Option<Self> {
        if !likely_s.is_finite() {
            return None;
        }
        let never = futures.iter().filter(|seconds| seconds.is_infinite()).count() as f64;
        let sorted = Sorted::new(futures.iter().copied())?;
        let may_never_be = never / futures.len() as f64 > 1.0 - SURE;
        let latest_s = (!may_never_be).then(|| sorted.percentile(0.95).max(likely_s));
        Some(Self { likely_s, soonest_s: sorted.percentile(0.05).min(likely_s), latest_s })
    }
}
