//! Whether a backup that runs will be done before its snapshot overflows.
//!
//! From what is left to read, what is free, and the two speeds of late, drawn again together: what slows the reading
//! may be what fills the snapshot. It holds if both go on as they did; a backup that comes to other files may not.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::statistics::{Sorted, block_means, likeness, mean, widening};
use crate::units::duration_text;

/// A minute at one tick a second: before, a single pause decides.
const LEAST_TICKS: usize = 60;
/// Where neighbours are so alike that less than so many independent ones were seen, that may have been one wave's crest.
const LEAST_INDEPENDENT: f64 = 15.0;
/// Sure enough to be said: 19 times in 20.
const SURE: f64 = 0.95;

/// One tick of late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    pub read_bytes_per_s: f64,
    pub growth_bytes_per_s: f64,
    pub seconds: f64,
}

/// What can be expected of a backup that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum Outlook {
    /// There were too few ticks to say, or too few that are independent.
    TooEarly {
        ticks: usize,
    },
    Known(Finish),
}

/// When it will be done and when its snapshot will be full, in seconds from now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Finish {
    /// `None` while nothing is read.
    pub done: Option<Expected>,
    /// `None` while the snapshot does not fill.
    pub full: Option<Expected>,
    pub verdict: Verdict,
    pub text: String,
}

/// An instant, in seconds from now: 9 times in 10 between the two.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Expected {
    pub likely_s: f64,
    pub soonest_s: f64,
    /// `None` where it may never be.
    pub latest_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    DoneFirst,
    FullFirst,
    /// Either may come first.
    Open,
}

/// What to expect, from ticks of late in the order of time; bytes still to read, and bytes free in the COW area.
pub fn outlook(left_bytes: u64, free_bytes: u64, recent: &[Pace]) -> Outlook {
    let is_known = |pace: &&Pace| {
        [pace.read_bytes_per_s, pace.growth_bytes_per_s, pace.seconds].iter().all(|it| it.is_finite())
    };
    let known: Vec<Pace> = recent.iter().filter(is_known).copied().collect();
    let reads: Vec<f64> = known.iter().map(|pace| pace.read_bytes_per_s.max(0.0)).collect();
    let growths: Vec<f64> = known.iter().map(|pace| pace.growth_bytes_per_s.max(0.0)).collect();
    let likeness = [likeness(&reads), likeness(&growths)];
    let is_enough = likeness.iter().all(|likeness| likeness.independent >= LEAST_INDEPENDENT);
    if known.len() < LEAST_TICKS || !is_enough {
        return Outlook::TooEarly { ticks: known.len() };
    }
    let block = likeness[0].block.max(likeness[1].block);
    let seen_s: f64 = known.iter().map(|pace| pace.seconds).sum();
    let (left, free) = (left_bytes as f64, free_bytes as f64);
    let (done_s, full_s) = futures(left, free, [&reads, &growths], block, seen_s);
    let likely = |bytes: f64, speeds: &[f64]| time(bytes, mean(speeds).unwrap_or_default());
    let done = Expected::of(likely(left, &reads), &done_s);
    let full = Expected::of(likely(free, &growths), &full_s);
    let verdict = verdict(&done_s, &full_s);
    Outlook::Known(Finish { done, full, verdict, text: sentence(done, full, verdict) })
}

/// When it is done and when it is full, in each of many drawings.
fn futures(left: f64, free: f64, speeds: [&[f64]; 2], block: usize, seen_s: f64) -> (Vec<f64>, Vec<f64>) {
    let means = speeds.map(|speeds| mean(speeds).unwrap_or_default());
    let ahead_s = time(left, means[0]).min(time(free, means[1]));
    // Not only was what was seen a draw of what there is: what comes is another, and differs the more the shorter it is.
    let to_come = (1.0 + seen_s / ahead_s.max(1.0)).sqrt();
    let wider = to_come * widening(speeds[0].len(), block).unwrap_or(1.0);
    let widen = |drawn: f64, mean: f64| (mean + (drawn - mean) * wider).max(0.0);
    let future =
        |[read, growth]: [f64; 2]| (time(left, widen(read, means[0])), time(free, widen(growth, means[1])));
    block_means(speeds, block).into_iter().map(future).unzip()
}

/// Infinite where nothing moves; nothing to do takes no time.
fn time(bytes: f64, speed: f64) -> f64 {
    match bytes > 0.0 {
        true if speed > 0.0 => bytes / speed,
        true => f64::INFINITY,
        false => 0.0,
    }
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

    fn text(self) -> String {
        let (likely, soonest) = (duration_text(self.likely_s), duration_text(self.soonest_s));
        match self.latest_s {
            Some(latest_s) => format!("{likely} ({soonest} to {})", duration_text(latest_s)),
            None => format!("{likely} ({soonest} at the soonest)"),
        }
    }
}

fn sentence(done: Option<Expected>, full: Option<Expected>, verdict: Verdict) -> String {
    let done = done.map_or_else(|| "Nothing is being read".into(), |done| format!("Done in {}", done.text()));
    let full = full.map_or_else(
        || "the snapshot does not fill".into(),
        |full| format!("the snapshot is full in {}", full.text()),
    );
    let verdict = match verdict {
        Verdict::DoneFirst => "the backup will be done first",
        Verdict::FullFirst => "the snapshot will overflow first and the backup be lost: make it larger now",
        Verdict::Open => "which will come first cannot be said",
    };
    format!("{done}, and {full}: if both go on as of late, {verdict}.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::example::Normal;

    const MB: u64 = 1_000_000;

    fn paces(n: usize, read_mb: f64, growth_mb: f64) -> Vec<Pace> {
        let wave = |index: usize| 1.0 + 0.2 * (index as f64 * 2.4).sin();
        let pace = |index| Pace {
            read_bytes_per_s: read_mb * wave(index) * 1e6,
            growth_bytes_per_s: growth_mb * wave(index + 7) * 1e6,
            seconds: 1.0,
        };
        (0..n).map(pace).collect()
    }

    fn known(left_mb: u64, free_mb: u64, recent: &[Pace]) -> Finish {
        match outlook(left_mb * MB, free_mb * MB, recent) {
            Outlook::Known(finish) => finish,
            too_early => panic!("{too_early:?}"),
        }
    }

    #[test]
    fn a_backup_with_room_will_be_done_first() {
        let found = known(60_000, 10_000, &paces(300, 100.0, 2.0));
        assert_eq!(found.verdict, Verdict::DoneFirst);
        let done = found.done.unwrap();
        assert!((590.0..=610.0).contains(&done.likely_s), "{done:?}");
        assert!(done.soonest_s <= done.likely_s && done.likely_s <= done.latest_s.unwrap());
        assert!(
            found.text.ends_with("if both go on as of late, the backup will be done first."),
            "{}",
            found.text
        );
    }

    #[test]
    fn a_snapshot_that_fills_sooner_will_overflow_first() {
        let found = known(600_000, 1_000, &paces(300, 100.0, 2.0));
        assert_eq!(found.verdict, Verdict::FullFirst);
        assert!(found.text.contains("will overflow first and the backup be lost: make it larger now"));
    }

    #[test]
    fn what_is_close_cannot_be_said() {
        assert_eq!(known(60_000, 1_200, &paces(300, 100.0, 2.0)).verdict, Verdict::Open);
    }

    #[test]
    fn one_that_does_not_fill_cannot_overflow() {
        let found = known(60_000, 1_000, &paces(300, 100.0, 0.0));
        assert_eq!((found.verdict, found.full), (Verdict::DoneFirst, None));
        assert!(found.text.contains("the snapshot does not fill"), "{}", found.text);
    }

    #[test]
    fn nothing_that_moves_says_nothing() {
        let found = known(60_000, 1_000, &paces(300, 0.0, 0.0));
        assert_eq!((found.verdict, found.done, found.full), (Verdict::Open, None, None));
    }

    #[test]
    fn nothing_left_is_done_and_nothing_free_is_full() {
        assert_eq!(known(0, 1_000, &paces(300, 1.0, 1.0)).done.unwrap().likely_s, 0.0);
        assert_eq!(known(1_000, 0, &paces(300, 1.0, 1.0)).verdict, Verdict::FullFirst);
    }

    #[test]
    fn a_minute_is_not_too_early_and_less_is() {
        assert_eq!(outlook(MB, MB, &paces(59, 1.0, 1.0)), Outlook::TooEarly { ticks: 59 });
        assert_eq!(outlook(MB, MB, &[]), Outlook::TooEarly { ticks: 0 });
    }

    /// Seconds until so many bytes are read at these speeds of a second each.
    fn seconds_of(mut left: f64, speeds: impl IntoIterator<Item = f64>) -> f64 {
        let whole = speeds.into_iter().take_while(|speed| {
            left -= speed;
            left > 0.0
        });
        whole.count() as f64
    }

    #[test]
    fn what_is_expected_9_times_in_10_comes_8_or_9_times() {
        let mut normal = Normal::default();
        let mut comes = || {
            let waves = normal.alike(1500, 0.6).into_iter().map(|wave| (100.0 + 24.0 * wave).max(0.0) * 1e6);
            let reads: Vec<f64> = waves.collect();
            let pace = |read: &f64| Pace { read_bytes_per_s: *read, growth_bytes_per_s: 0.0, seconds: 1.0 };
            let recent: Vec<Pace> = reads[..300].iter().map(pace).collect();
            let Outlook::Known(found) = outlook(50_000 * MB, MB, &recent) else { return None };
            let (done, came_s) = (found.done?, seconds_of(50e9, reads[300..].iter().copied()));
            Some(done.soonest_s - 1.0 <= came_s && came_s <= done.latest_s?)
        };
        let came: Vec<bool> = (0..100).filter_map(|_| comes()).collect();
        let share = came.iter().filter(|came| **came).count() as f64 / came.len() as f64;
        assert!(came.len() > 80 && (0.8..=0.97).contains(&share), "{share} of {}", came.len());
    }

    #[test]
    fn the_further_off_the_more_the_speeds_even_out() {
        let spread = |left_mb| {
            let done = known(left_mb, 1_000_000, &paces(60, 100.0, 1.0)).done.unwrap();
            (done.latest_s.unwrap() - done.soonest_s) / done.likely_s
        };
        assert!(spread(500) > spread(500_000), "{} {}", spread(500), spread(500_000));
    }
}
