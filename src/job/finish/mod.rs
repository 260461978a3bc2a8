//! Forecasts whether a running backup will finish before its snapshot overflows.
//!
//! The forecast follows from the bytes left to read, the free bytes, and both speeds of the last minutes. Both are taken
//! from the same windows, since writes that fill the snapshot also slow the reading. It assumes that both continue.

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

/// The verdict requires that 19 of 20 windows agree.
const SURE: f64 = 0.95;

/// The forecast of a running backup. Times are from now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Outlook {
    pub left: RemainingReads,
    /// The snapshot, or a thin snapshot's pool; `null` if its usage is unknown.
    pub overflows: Option<String>,
    pub free_bytes: Option<u64>,
    /// Ticks of the last ten minutes since it began to read.
    pub ticks: usize,
    /// The seconds that the speeds are from; `null` while it is too early.
    pub seen_s: Option<f64>,
    /// `null` while nothing is read, or if unknown.
    pub done: Option<Eta>,
    /// `null` while it does not fill, or if unknown.
    pub full: Option<Eta>,
    pub verdict: OutlookVerdict,
    pub text: String,
}

/// A time in seconds from now, with the 5th and 95th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Eta {
    pub likely_s: f64,
    pub soonest_s: f64,
    /// `null` if it may never happen.
    pub latest_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutlookVerdict {
    DoneFirst,
    FullFirst,
    /// Either may come first, or neither.
    Open,
    /// There are too few ticks, or too few independent ones.
    TooEarly,
}

/// The volume that overflows, and its free bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    /// `snapshot vg0/data_snapshot` or `thin pool vg0/pool`
    pub name: String,
    pub is_pool: bool,
    pub free_bytes: u64,
}

/// The forecast, from the last ticks in order of time.
pub fn outlook(left: RemainingReads, room: Option<Room>, recent: &[Rates]) -> Outlook {
    // Without a known usage, the forecast is of the reading only.
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
    /// `None` if it will not happen.
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
