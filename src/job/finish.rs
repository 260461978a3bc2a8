//! Whether a backup that runs will be done before its snapshot overflows.
//!
//! From what is left to read, what is free, and the two speeds of late, drawn again together: what slows the reading
//! may be what fills the snapshot. It holds if both go on as they did; a backup that comes to other files may not.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::left::Left;
use super::pace::Pace;
use super::statistics::{Sorted, block_means, likeness, mean, widening};
use crate::units::duration_text;

/// A minute at one tick a second: before, a single pause decides.
const LEAST_TICKS: usize = 60;
/// Where neighbours are so alike that less than so many independent ones were seen, that may have been one wave's crest.
const LEAST_INDEPENDENT: f64 = 15.0;
/// Sure enough to be said: 19 times in 20.
const SURE: f64 = 0.95;
/// Of which nothing was read for so long, nothing is being read, whatever was before.
const IDLE_S: f64 = 60.0;
const IDLE_TICKS: usize = 3;

/// What can be expected of a backup that runs. Times are from now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Outlook {
    pub left: Left,
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
pub fn outlook(left: Left, room: Option<Room>, recent: &[Pace]) -> Outlook {
    // Where it is not known how full it is, reading tells all the same when it is done.
    let is_known = |pace: &&Pace| {
        let growth = room.as_ref().map_or(Some(0.0), |_| pace.growth_bytes_per_s);
        [Some(pace.read_bytes_per_s), growth, Some(pace.seconds)]
            .iter()
            .all(|it| it.is_some_and(f64::is_finite))
    };
    let known: Vec<Pace> = since_reading(recent.iter().filter(is_known).copied().collect());
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

/// The two speeds of late, tick by tick.
struct Speeds {
    reads: Vec<f64>,
    growths: Vec<f64>,
    block: usize,
    seen_s: f64,
}

impl Speeds {
    /// Of as much of the past as is of one kind: when the writer of the origin begins, the speeds become others, and what
    /// was before tells nothing any more. `None` where even the last minute rises or falls all along.
    fn latest(known: &[Pace]) -> Option<Self> {
        let shorter = |ticks: &usize| (*ticks > LEAST_TICKS).then(|| (ticks * 3 / 4).max(LEAST_TICKS));
        let mut lengths = std::iter::successors(Some(known.len()), shorter);
        lengths.find_map(|ticks| Self::of(&known[known.len() - ticks..]))
    }

    /// `None` where they tell too little.
    fn of(known: &[Pace]) -> Option<Self> {
        let is_idle = is_idle(known);
        let read = |pace: &Pace| if is_idle { 0.0 } else { pace.read_bytes_per_s.max(0.0) };
        let reads: Vec<f64> = known.iter().map(read).collect();
        let growth = |pace: &Pace| pace.growth_bytes_per_s.unwrap_or_default().max(0.0);
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

    fn done(&self, left: u64, drawn: &[f64]) -> Option<Expected> {
        Expected::of(time(left as f64, self.means()[0]), drawn)
    }

    fn full(&self, free: u64, drawn: &[f64]) -> Option<Expected> {
        Expected::of(time(free as f64, self.means()[1]), drawn)
    }

    /// When it is done and when it is full, in each of many drawings; what is left is each in turn that it may be.
    fn futures(&self, may_be_left: &[f64], free: Option<f64>) -> (Vec<f64>, Vec<f64>) {
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
fn since_reading(mut known: Vec<Pace>) -> Vec<Pace> {
    let first = known.iter().position(|pace| pace.read_bytes_per_s > 0.0);
    known.drain(..first.unwrap_or_default());
    known
}

/// Whether the last minute, or a few ticks that are longer, brought nothing.
fn is_idle(known: &[Pace]) -> bool {
    let idle: Vec<&Pace> = known.iter().rev().take_while(|pace| pace.read_bytes_per_s <= 0.0).collect();
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
        if self.verdict == Verdict::TooEarly {
            return self.too_early();
        }
        let is_left_known = self.left.left_bytes.is_some();
        let done = match self.done {
            Some(done) => format!("Done in {}", done.text()),
            None if is_left_known => "Nothing is being read".into(),
            None => "When it will be done is not known".into(),
        };
        let full = match (&self.overflows, self.full) {
            (None, _) => "nobody says how full the snapshot is".into(),
            (Some(name), None) => format!("{name} does not fill"),
            (Some(name), Some(full)) => format!("{name} is full in {}", full.text()),
        };
        let lately = format!("as in the last {}", duration_text(self.seen_s.unwrap_or_default()));
        let verdict = match self.verdict {
            _ if self.full.is_none() && self.done.is_none() => return format!("{done}, and {full}."),
            _ if self.overflows.is_none() => return format!("{done}, if it goes on {lately}; {full}."),
            _ if !is_left_known => return format!("{done}, and {full}, if it goes on {lately}."),
            Verdict::DoneFirst => "the backup will be done first",
            Verdict::FullFirst if is_pool => {
                "the pool will be full first, for all that is in it: make it larger now"
            }
            Verdict::FullFirst => {
                "the snapshot will overflow first and the backup be lost: make it larger now"
            }
            _ => "which will come first cannot be said",
        };
        format!("{done}, and {full}: if both go on {lately}, {verdict}.")
    }

    fn too_early(&self) -> String {
        let why = match self.ticks {
            few @ ..LEAST_TICKS => {
                format!("{few} ticks of its speeds were seen, and {LEAST_TICKS} tell enough")
            }
            _ => "its speeds rise or fall all along".into(),
        };
        format!("It is too early to say when the backup will be done or the snapshot full: {why}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::example::Normal;
    use crate::job::left::Earlier;
    use crate::job::{Job, JobKind};

    const MB: u64 = 1_000_000;

    fn paces(n: usize, read_mb: f64, growth_mb: f64) -> Vec<Pace> {
        let wave = |index: usize| 1.0 + 0.2 * (index as f64 * 2.4).sin();
        let pace = |index| Pace {
            read_bytes_per_s: read_mb * wave(index) * 1e6,
            growth_bytes_per_s: Some(growth_mb * wave(index + 7) * 1e6),
            seconds: 1.0,
        };
        (0..n).map(pace).collect()
    }

    /// Of a backup that has so much to read, and has read nothing.
    fn left(bytes: u64) -> Left {
        let mut job = Job::new(1, JobKind::Snapshot, "key", "snap", jiff::Timestamp::UNIX_EPOCH);
        (job.bytes_read, job.setup.file_system_bytes) = (Some(0), Some(bytes));
        Left::of(&job, &Earlier::default())
    }

    fn room(free_bytes: u64) -> Option<Room> {
        Some(Room { name: "snapshot vg0/snap".into(), is_pool: false, free_bytes })
    }

    fn known(left_mb: u64, free_mb: u64, recent: &[Pace]) -> Outlook {
        let found = outlook(left(left_mb * MB), room(free_mb * MB), recent);
        assert_ne!(found.verdict, Verdict::TooEarly);
        found
    }

    #[test]
    fn a_backup_with_room_will_be_done_first() {
        let found = known(60_000, 10_000, &paces(300, 100.0, 2.0));
        assert_eq!(found.verdict, Verdict::DoneFirst);
        let done = found.done.unwrap();
        assert!((590.0..=610.0).contains(&done.likely_s), "{done:?}");
        assert!(done.soonest_s <= done.likely_s && done.likely_s <= done.latest_s.unwrap());
        assert!(
            found.text.ends_with("if both go on as in the last 5 min 00 s, the backup will be done first."),
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
        assert!(found.text.contains("snapshot vg0/snap does not fill"), "{}", found.text);
    }

    #[test]
    fn nothing_that_moves_says_nothing() {
        let found = known(60_000, 1_000, &paces(300, 0.0, 0.0));
        assert_eq!((found.verdict, found.done, found.full), (Verdict::Open, None, None));
        assert_eq!(found.text, "Nothing is being read, and snapshot vg0/snap does not fill.");
    }

    #[test]
    fn nothing_left_is_done_and_nothing_free_is_full() {
        assert_eq!(known(0, 1_000, &paces(300, 1.0, 1.0)).done.unwrap().likely_s, 0.0);
        assert_eq!(known(1_000, 0, &paces(300, 1.0, 1.0)).verdict, Verdict::FullFirst);
    }

    #[test]
    fn a_minute_is_not_too_early_and_less_is() {
        for (ticks, verdict) in [(60, Verdict::DoneFirst), (59, Verdict::TooEarly), (0, Verdict::TooEarly)] {
            let found = outlook(left(MB), room(100 * MB), &paces(ticks, 1.0, 1.0));
            assert_eq!((found.verdict, found.ticks), (verdict, ticks));
            assert_eq!(found.done.is_some(), verdict != Verdict::TooEarly);
        }
        let found = outlook(left(MB), room(MB), &paces(12, 1.0, 1.0));
        assert!(
            found.text.ends_with("12 ticks of its speeds were seen, and 60 tell enough."),
            "{}",
            found.text
        );
    }

    #[test]
    fn what_is_not_known_is_left_out_and_the_rest_is_said() {
        let recent = paces(300, 100.0, 2.0);
        let mut unknown = left(0);
        (unknown.left_bytes, unknown.may_be) = (None, Vec::new());
        let found = outlook(unknown, room(1_200 * MB), &recent);
        assert_eq!((found.verdict, found.done), (Verdict::Open, None));
        assert!(
            found
                .text
                .starts_with("When it will be done is not known, and snapshot vg0/snap is full in 10 min")
        );
        assert!(found.text.ends_with("), if it goes on as in the last 5 min 00 s."), "{}", found.text);
        let unseen: Vec<Pace> =
            recent.iter().map(|pace| Pace { growth_bytes_per_s: None, ..*pace }).collect();
        let found = outlook(left(60_000 * MB), None, &unseen);
        assert_eq!((found.verdict, found.full, found.overflows), (Verdict::Open, None, None));
        assert!(
            found.text.ends_with(
                "), if it goes on as in the last 5 min 00 s; nobody says how full the snapshot is."
            ),
            "{}",
            found.text
        );
        let found = outlook(left(60_000 * MB), room(MB), &unseen);
        assert_eq!(
            (found.verdict, found.ticks),
            (Verdict::TooEarly, 0),
            "growth that was not seen is not none"
        );
    }

    #[test]
    fn a_backup_that_reads_no_more_is_not_almost_done() {
        let mut recent = paces(300, 100.0, 2.0);
        recent.extend(paces(60, 0.0, 2.0));
        let found = known(60_000, 10_000, &recent);
        assert_eq!((found.verdict, found.done), (Verdict::FullFirst, None));
        assert!(
            found.text.starts_with("Nothing is being read, and snapshot vg0/snap is full in "),
            "{}",
            found.text
        );
    }

    #[test]
    fn what_was_before_the_first_read_tells_nothing_of_the_speed() {
        let mut recent = paces(90, 0.0, 9.0);
        recent.extend(paces(90, 100.0, 2.0));
        let found = known(60_000, 10_000, &recent);
        assert_eq!((found.verdict, found.ticks), (Verdict::DoneFirst, 90));
        assert!((590.0..=610.0).contains(&found.done.unwrap().likely_s), "{found:?}");
    }

    #[test]
    fn speeds_that_became_others_are_those_of_since_then() {
        let mut recent = paces(200, 100.0, 0.1);
        recent.extend(paces(120, 20.0, 2.0));
        let found = known(60_000, 10_000, &recent);
        assert!(found.seen_s.unwrap() <= 135.0, "{found:?}");
        assert!((2_700.0..=3_300.0).contains(&found.done.unwrap().likely_s), "{found:?}");
        // While they rise or fall all along, nobody can say.
        let falling =
            |tick: usize| Pace { read_bytes_per_s: 1e8 / (1.0 + tick as f64), ..paces(1, 1.0, 2.0)[0] };
        let found = outlook(left(60_000 * MB), room(10_000 * MB), &(0..300).map(falling).collect::<Vec<_>>());
        assert_eq!(found.verdict, Verdict::TooEarly);
        assert!(found.text.ends_with("its speeds rise or fall all along."), "{}", found.text);
    }

    #[test]
    fn earlier_runs_that_differ_widen_what_is_expected() {
        let spread = |totals: &[u64]| {
            let mut job = Job::new(1, JobKind::Snapshot, "key", "snap", jiff::Timestamp::UNIX_EPOCH);
            job.bytes_read = Some(0);
            let totals = totals.iter().map(|mb| mb * MB).collect();
            let left = Left::of(&job, &Earlier { totals, is_unreported: false });
            let done = outlook(left, room(100_000 * MB), &paces(300, 100.0, 2.0)).done.unwrap();
            assert!((590.0..=610.0).contains(&done.likely_s), "{done:?}");
            done.latest_s.unwrap() - done.soonest_s
        };
        assert!(spread(&[40_000, 60_000, 80_000]) > spread(&[60_000]) + 300.0);
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
            let pace =
                |read: &f64| Pace { read_bytes_per_s: *read, growth_bytes_per_s: Some(0.0), seconds: 1.0 };
            let recent: Vec<Pace> = reads[..300].iter().map(pace).collect();
            let found = outlook(left(50_000 * MB), room(MB), &recent);
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
