//! Forecasts whether a running backup will finish before its snapshot overflows.
//!
//! The forecast follows from the bytes left to read, the free bytes, and both speeds of the last minutes. Both are taken
//! from the same windows, since writes that fill the snapshot also slow the reading. It assumes that both continue.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::rates::Rates;
use super::remaining::RemainingReads;
use super::statistics::{Sorted, independent, mean};
use crate::units::duration_text;

/// The verdict requires that 19 of 20 windows agree.
const SURE: f64 = 0.95;
/// A minute at one tick a second; with fewer, a single pause would decide.
const LEAST_TICKS: usize = 60;
/// With fewer independent ticks, the speed may be rising or falling.
const LEAST_INDEPENDENT: f64 = 15.0;
/// A window is at most a fourth of the past, so that there are several.
const LONGEST_WINDOW: usize = 4;
/// Reading has stopped after this long without a read.
const IDLE_S: f64 = 60.0;
const IDLE_TICKS: usize = 3;

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
    pub fn text(self) -> String {
        let (likely, bounds) = (duration_text(self.likely_s), self.bounds_text());
        let is_one = bounds == format!("{likely} to {likely}");
        if is_one { likely } else { format!("{likely} ({bounds})") }
    }

    /// `10 min to 14 min`
    pub fn bounds_text(self) -> String {
        let soonest = duration_text(self.soonest_s);
        match self.latest_s {
            Some(latest_s) => format!("{soonest} to {}", duration_text(latest_s)),
            None => format!("{soonest} at the soonest"),
        }
    }
}

impl Outlook {
    fn sentence(&self, is_pool: bool) -> String {
        if self.verdict == OutlookVerdict::TooEarly {
            return self.too_early();
        }
        let is_left_known = self.left.left_bytes.is_some();
        let done = match self.done {
            Some(done) => format!("Done in {}", done.text()),
            None if is_left_known => "Nothing is being read".into(),
            None => "The time of completion is unknown".into(),
        };
        let full = match (&self.overflows, self.full) {
            (None, _) => "the snapshot's usage is unknown".into(),
            (Some(name), None) => format!("{name} does not fill"),
            (Some(name), Some(full)) => format!("{name} is full in {}", full.text()),
        };
        let recent_rates = format!("as in the last {}", duration_text(self.seen_s.unwrap_or_default()));
        let verdict = match self.verdict {
            _ if self.full.is_none() && self.done.is_none() => return format!("{done}, and {full}."),
            _ if self.overflows.is_none() => return format!("{done}, if it goes on {recent_rates}; {full}."),
            _ if !is_left_known => return format!("{done}, and {full}, if it goes on {recent_rates}."),
            OutlookVerdict::DoneFirst => "the backup will be done first",
            OutlookVerdict::FullFirst if is_pool => {
                "the pool will be full first, for all its volumes: make it larger now"
            }
            OutlookVerdict::FullFirst => {
                "the snapshot will overflow first, and the backup will be lost: make it larger now"
            }
            _ => "either may come first",
        };
        format!("{done}, and {full}: if both go on {recent_rates}, {verdict}.")
    }

    fn too_early(&self) -> String {
        let why = match self.ticks {
            few @ ..LEAST_TICKS => {
                format!("its speeds are known for {few} ticks of the {LEAST_TICKS} needed")
            }
            _ => "its speeds rise or fall throughout".into(),
        };
        format!("Too early to say when the backup will be done or the snapshot full: {why}.")
    }
}

/// Both speeds of each tick.
struct Speeds {
    reads: Vec<f64>,
    growths: Vec<f64>,
    seen_s: f64,
}

impl Speeds {
    /// The speeds since the last lasting change, such as a new writer on the origin. `None` if even the last minute rises or
    /// falls throughout.
    fn latest(known: &[Rates]) -> Option<Self> {
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

    fn done(&self, left: u64, futures: &[f64]) -> Option<Eta> {
        Eta::of(time(left as f64, mean(&self.reads)?), futures)
    }

    fn full(&self, free: u64, futures: &[f64]) -> Option<Eta> {
        Eta::of(time(free as f64, mean(&self.growths)?), futures)
    }

    /// When it would be done and full at the speeds of each window, for each amount that may be left. A window is as long as
    /// the time until the first of the two.
    fn futures(&self, may_be_left: &[f64], free: Option<f64>) -> (Vec<f64>, Vec<f64>) {
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
fn since_reading(mut known: Vec<Rates>) -> Vec<Rates> {
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
