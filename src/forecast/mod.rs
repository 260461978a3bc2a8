//! Forecasts whether a running backup will finish before its snapshot overflows.
//!
//! `reads` holds what was read and how far it filled, and what is left. `trend` continues both sums, and says how uncertain their speeds
//! are. `eta` turns that into times with an honest range, and the bytes that are still needed. Here they are compared.
//! A verdict is given only if both 90 % ranges do not overlap.

mod eta;
mod reads;
#[cfg(test)]
mod tests;
mod text;
mod trend;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use eta::{Eta, EtaBasis, GrowthForecast};
pub use reads::{
    Basis, MOST_POINTS, PastRun, PastRuns, ReadPoint, ReadProgress, RemainingReads, Sums,
};
pub use text::Remedy;

use crate::advice::Extensible;
use crate::sentence::Sentence;

/// Earlier, there is no verdict: mounting and the first writes are unlike the rest.
const LEAST_SEEN_S: f64 = 10.0;
/// Half a 90 % range in standard deviations, and the distance at which one in ten is on the other side.
const RANGE_DEVIATIONS: f64 = 1.645;
const RACE_DEVIATIONS: f64 = 1.282;
/// If there is room, an extension is for so many times the growth of the upper end: reads may become slower and writes
/// more after it. In `web/demo.cowbell` 1.1 times are needed.
const RESERVE: f64 = 1.25;
/// Seen for less, or for less than is left, speeds make no race and need no command: mounting and the first writes are unlike the rest.
const RACE_SEEN_S: f64 = 60.0;

/// The forecast of a running backup. Times are from now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Outlook {
    pub left: RemainingReads,
    /// The snapshot, or a thin snapshot's pool; `null` if its usage is unknown.
    pub overflows: Option<String>,
    pub free_bytes: Option<u64>,
    /// Whether it is large enough for a copy of every chunk of its origin.
    pub cannot_overflow: bool,
    /// `null` before the first read, if it is unknown what is left, or if nothing was read for a minute.
    pub done: Option<Eta>,
    /// `null` before it first grew, or if its usage is unknown.
    pub full: Option<Eta>,
    /// `null` if either time is unknown.
    pub growth: Option<GrowthForecast>,
    pub verdict: OutlookVerdict,
    pub risk: Risk,
    /// What makes it large enough; `null` if it is, or if it is unknown how much is needed.
    pub remedy: Option<Remedy>,
    /// What `cowbell guard` will do so that it does not overflow; `null` if it will not. Then neither `full` nor `growth`
    /// endangers the backup.
    pub guard: Option<String>,
    #[schema(value_type = String)]
    pub text: Sentence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutlookVerdict {
    DoneFirst,
    FullFirst,
    /// The ranges overlap, one of the times is unknown, or both are known for some seconds only.
    Open,
    /// Neither time is known.
    TooEarly,
}

/// How likely it is that the backup is lost, or the pool full, before the backup is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Less than one in ten, or unknown.
    Low,
    /// At least one in ten, at speeds that were seen for a minute: a race.
    Race,
    /// Likelier than not.
    High,
}

/// The volume that overflows, and its free bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Room {
    pub is_pool: bool,
    pub free_bytes: u64,
    /// How much it can grow at most, until every chunk of its origin is copied; `None` for a pool or if unknown.
    pub most_bytes: Option<u64>,
    pub volume: Extensible,
    /// What the guard will do in time.
    pub guard: Option<String>,
}

impl Room {
    /// With so many bytes more.
    fn cannot_overflow(&self, more: u64) -> bool {
        self.most_bytes
            .is_some_and(|most| most <= self.free_bytes.saturating_add(more))
    }

    /// `snapshot vg0/data_snapshot` or `thin pool vg0/pool`
    fn name(&self) -> String {
        let kind = if self.is_pool {
            "thin pool"
        } else {
            "snapshot"
        };
        format!("{kind} {}", self.volume.name)
    }
}

/// The forecast, from what was seen of this run and of earlier ones.
pub fn outlook(
    left: RemainingReads,
    room: Option<Room>,
    curve: &ReadProgress,
    earlier: &PastRuns,
) -> Outlook {
    let reads = curve.reads();
    let idle_s = reads.as_ref().and_then(Sums::stopped_for_s);
    let mut outlook = Outlook {
        overflows: room.as_ref().map(Room::name),
        free_bytes: room.as_ref().map(|room| room.free_bytes),
        cannot_overflow: room.as_ref().is_some_and(|room| room.cannot_overflow(0)),
        left,
        done: None,
        full: None,
        growth: None,
        verdict: OutlookVerdict::TooEarly,
        risk: Risk::Low,
        remedy: None,
        guard: None,
        text: Sentence::default(),
    };
    // A reader that stopped does not tell when it will be done.
    if let Some(reads) = reads
        && (idle_s.is_none() || outlook.left.left_bytes == Some(0))
    {
        outlook.done = Eta::done(&reads, &outlook.left, earlier.read_speed());
    }
    let usage = curve.usage().filter(|_| room.is_some());
    if let (Some(room), Some(usage)) = (&room, &usage) {
        let growth_speed = earlier.growth_speed();
        let free = room.free_bytes as f64;
        let full_with = |more: u64| {
            if room.cannot_overflow(more) {
                return None;
            }
            Eta::full(usage, free + more as f64, growth_speed)
        };
        if let Some(done) = outlook.done {
            let growth = GrowthForecast::until(done, usage, free, growth_speed);
            outlook.growth = growth.map(|growth| growth.at_most(room.most_bytes, free));
        }
        outlook.full = full_with(0);
        outlook.verdict = verdict(&outlook, usage.quiet_s);
        outlook.risk = risk(&outlook);
        let is_due = outlook.risk == Risk::High || was_seen_for_long(&outlook);
        let add = outlook.growth.and_then(|growth| growth.add_bytes);
        if let Some(add) = add.filter(|add| *add > 0 && is_due)
            && outlook.verdict != OutlookVerdict::DoneFirst
        {
            let upper = outlook.growth.and_then(|growth| growth.upper_bytes);
            let reserve = (upper.unwrap_or_default() as f64 * RESERVE) as u64;
            let most = reserve.min(room.most_bytes.unwrap_or(u64::MAX));
            let wanted = most.saturating_sub(room.free_bytes);
            outlook.remedy = Some(Remedy::of(&room.volume, add, wanted, full_with));
        }
    } else {
        outlook.verdict = verdict(&outlook, 0.0);
        outlook.risk = risk(&outlook);
    }
    let quiet_s = usage.as_ref().and_then(Sums::stopped_for_s);
    let is_pool = room.as_ref().is_some_and(|room| room.is_pool);
    if let Some(guard) = room.and_then(|room| room.guard)
        && outlook.verdict != OutlookVerdict::DoneFirst
    {
        outlook.verdict = OutlookVerdict::Open;
        outlook.risk = Risk::Low;
        outlook.remedy = None;
        outlook.guard = Some(guard);
    }
    outlook.text = text::sentences(&outlook, is_pool, idle_s, quiet_s);
    outlook
}

/// `quiet_s` is for how long the volume was seen without growing.
fn verdict(outlook: &Outlook, quiet_s: f64) -> OutlookVerdict {
    if outlook.cannot_overflow {
        return OutlookVerdict::DoneFirst;
    }
    let is_before = |one: Eta, other: Eta| {
        let latest_s = one.latest_s;
        latest_s.is_some_and(|latest_s| latest_s < other.soonest_s)
    };
    match (outlook.done, outlook.full) {
        (None, None) => OutlookVerdict::TooEarly,
        (Some(done), Some(full)) if done.seen_s.min(full.seen_s) >= LEAST_SEEN_S => {
            if is_before(done, full) {
                OutlookVerdict::DoneFirst
            } else if is_before(full, done) {
                OutlookVerdict::FullFirst
            } else {
                OutlookVerdict::Open
            }
        }
        // If it stayed empty for as long as the backup will take, it will rarely fill in that time.
        (Some(done), None) if done.latest_s.is_some_and(|latest_s| quiet_s > latest_s) => {
            OutlookVerdict::DoneFirst
        }
        _ => OutlookVerdict::Open,
    }
}

fn risk(outlook: &Outlook) -> Risk {
    match outlook.verdict {
        OutlookVerdict::FullFirst => Risk::High,
        OutlookVerdict::Open => match lead(outlook) {
            Some(lead) if lead <= 0.0 => Risk::High,
            Some(lead) if lead < RACE_DEVIATIONS && was_seen_for_long(outlook) => Risk::Race,
            _ => Risk::Low,
        },
        OutlookVerdict::DoneFirst | OutlookVerdict::TooEarly => Risk::Low,
    }
}

fn was_seen_for_long(outlook: &Outlook) -> bool {
    let left_s = outlook.done.and_then(|done| done.likely_s);
    let needed_s = RACE_SEEN_S.min(left_s.unwrap_or(f64::INFINITY));
    [outlook.done, outlook.full]
        .into_iter()
        .flatten()
        .all(|eta| eta.seen_s >= needed_s)
}

/// By how many standard deviations the backup is done first, of two times that are normal on a logarithmic scale. The
/// side of each range that faces the other time counts.
fn lead(outlook: &Outlook) -> Option<f64> {
    let (done, full) = (outlook.done?, outlook.full?);
    let (done_s, full_s) = (done.likely_s?, full.likely_s?);
    let lead = (full_s / done_s).ln();
    let apart = if lead > 0.0 {
        let done_late = (done.latest_s? / done_s).ln();
        done_late.hypot((full_s / full.soonest_s).ln())
    } else {
        let full_late = (full.latest_s? / full_s).ln();
        full_late.hypot((done_s / done.soonest_s).ln())
    };
    Some(lead / (apart / RANGE_DEVIATIONS))
}
