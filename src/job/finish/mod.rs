//! Whether a backup that runs will be done before its snapshot overflows.
//!
//! From what is left to read, what is free, and the two speeds of late, drawn again together: what slows the reading
//! may be what fills the snapshot. It holds if both go on as they did; a backup that comes to other files may not.

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

/// Sure enough to be said: 19 times in 20.
const SURE: f64 = 0.95;

/// What can be expected of a backup that runs. Times are from now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Outlook {
    pub left: RemainingReads,
    /// What overflows: the snapshot itself, or the pool of a thin one; `null` where nobody says how full it is.
    pub overflows: Option<String>,
    pub free_bytes: Option<u64>,
    /// Ticks that were seen since it began to read, of the last ten minutes.
    pub ticks: usize,
    /// The speeds are those of so many seconds until now; `null` while it is too early.
    pub seen_s: Option<f64>,
    /// `null` while nothing is read, or where it is not known.
    pub done: Option<Expected>,
    /// `null` while it does not fill, or where it is not known.
    pub full: Option<Expected>,
    pub verdict: Verdict,
    pub text: String,
}

/// An instant, in seconds from now: 9 times in 10 between the two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Expected {
    pub likely_s: f64,
    pub soonest_s: f64,
    /// `null` where it may never be.
    pub latest_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    DoneFirst,
    FullFirst,
    /// Either may come first, or neither.
    Open,
    /// There were too few ticks to say, or too few that are independent.
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

/// What to expect, from ticks of late in the order of time.
pub fn outlook(left: RemainingReads, room: Option<Room>, recent: &[Rates]) -> Outlook {
    // Where it is not known how full it is, reading tells all the same when it is done.
    let is_known = |pace: &&Rates| {
        let growth = room.as_ref().map_or(Some(0.0), |_| pace.growth_bytes_per_s);
        [Some(pace.read_bytes_per_s), growth, Some(pace.seconds)]
            .iter()
            .all(|it| it.is_some_and(f64::is_finite))
    };
    let known: Vec<Rates> = since_reading(recent.iter().filter(is_known).copied().collect());
    let speeds = Speeds::latest(&known);
    let (done_s, full_s) = match &speeds {
        Some(speeds) => speeds.futures(&left.may_be, room.as_ref().map(|room| room.free_bytes as f64)),
        None => Default::default(),
    };
    let verdict = speeds.as_ref().map_or(Verdict::TooEarly, |_| verdict(&done_s, &full_s));
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

fn verdict(done_s: &[f64], full_s: &[f64]) -> Verdict {
    let share = |is: fn(&f64, &f64) -> bool| {
        done_s.iter().zip(full_s).filter(|(done, full)| is(done, full)).count() as f64 / done_s.len() as f64
    };
    match () {
        () if share(|done, full| done < full) >= SURE => Verdict::DoneFirst,
        () if share(|done, full| full < done) >= SURE => Verdict::FullFirst,
        () => Verdict::Open,
    }
}

impl Expected {
    /// `None` where it is not to be expected at all.
    fn of(likely_s: f64, drawn: &[f64]) -> Option<Self> {
        if !likely_s.is_finite() {
            return None;
        }
        let never = drawn.iter().filter(|seconds| seconds.is_infinite()).count() as f64;
        let sorted = Sorted::new(drawn.iter().copied())?;
        let may_never_be = never / drawn.len() as f64 > 1.0 - SURE;
        let latest_s = (!may_never_be).then(|| sorted.percentile(0.95).max(likely_s));
        Some(Self { likely_s, soonest_s: sorted.percentile(0.05).min(likely_s), latest_s })
    }
}
