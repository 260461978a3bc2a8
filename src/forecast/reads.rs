//! What was read from a snapshot and how far it filled, over time; and the bytes that a backup still has to read: up to the
//! used space of the snapshot's file system, or to the share of it that earlier runs read. Without a mounted file system,
//! up to the totals of earlier runs.
//!
//! Points are sums, so that one that is dropped loses nothing. The newest are all kept, older ones ever more sparsely.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::statistics::Sorted;
use crate::units::{bytes_text, share_text, size_text};

/// Maximum number of points: 12 KiB.
pub const MOST_POINTS: usize = 512;
/// Points closer than this are merged, so that short intervals do not crowd out the past.
const LEAST_APART_S: f64 = 0.9;
/// A sum has stopped after twice its longest pause, within these limits. Alerts then end after a minute more.
const PAUSES: f64 = 2.0;
const IDLE_S: [f64; 2] = [10.0, 45.0];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadPoint {
    /// Seconds since the first point.
    pub at_s: f64,
    /// Bytes read so far.
    pub read: f64,
    /// Used bytes; `None` if unknown.
    pub used: Option<f64>,
}

/// The points of a snapshot in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReadProgress(Vec<ReadPoint>);

impl ReadProgress {
    pub fn push(&mut self, point: ReadPoint) {
        let is_close =
            |[.., before, last]: &[ReadPoint; 2]| last.at_s - before.at_s < LEAST_APART_S;
        if self.0.last_chunk::<2>().is_some_and(is_close) {
            self.0.pop();
        }
        self.0.push(point);
        if self.0.len() > MOST_POINTS {
            let mut number = 0;
            self.0.retain(|_| {
                number += 1;
                number > MOST_POINTS / 2 || number % 2 == 1
            });
        }
    }

    pub fn last(&self) -> Option<ReadPoint> {
        self.0.last().copied()
    }

    #[cfg(test)]
    pub fn points(&self) -> Vec<ReadPoint> {
        self.0.clone()
    }

    /// The bytes read over time.
    pub fn reads(&self) -> Option<Sums> {
        Sums::since_first_change(self.0.iter().map(|point| (point.at_s, point.read)))
    }

    /// The used bytes over time, where they are known.
    pub fn usage(&self) -> Option<Sums> {
        let points = self.0.iter();
        Sums::since_first_change(points.filter_map(|point| Some((point.at_s, point.used?))))
    }
}

/// A sum that grows over time; at least one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    pub times: Vec<f64>,
    pub sums: Vec<f64>,
    /// How long it was seen without a change before these points.
    pub quiet_s: f64,
}

impl Sums {
    /// Drops the time before the first change, and the tick in which it began: they tell nothing about the speed since.
    fn since_first_change(points: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        let (mut times, mut sums): (Vec<f64>, Vec<f64>) = points.unzip();
        let began_s = *times.first()?;
        let same = sums.iter().take_while(|sum| **sum == sums[0]).count();
        let quiet_s = times[same - 1] - began_s;
        let dropped = same.min(sums.len() - 1);
        times.drain(..dropped);
        sums.drain(..dropped);
        Some(Self {
            quiet_s,
            times,
            sums,
        })
    }

    /// The seconds since the first change; 0 if there was none.
    pub fn seen_s(&self) -> f64 {
        self.times[self.times.len() - 1] - self.times[0]
    }

    /// The bytes since the first change.
    pub fn gained(&self) -> f64 {
        self.sums[self.sums.len() - 1] - self.sums[0]
    }

    /// For how long it has not changed, if it has stopped: the process that reads or writes may be gone.
    pub fn stopped_for_s(&self) -> Option<f64> {
        let pause_s = self.longest_pause_s() * PAUSES;
        let idle_s = self.idle_s();
        (idle_s >= pause_s.clamp(IDLE_S[0], IDLE_S[1])).then_some(idle_s)
    }

    /// The seconds since the last change.
    fn idle_s(&self) -> f64 {
        let last = self.sums.len() - 1;
        let latest_first = self.sums.iter().rev();
        let same = latest_first
            .take_while(|sum| **sum == self.sums[last])
            .count();
        self.times[last] - self.times[last + 1 - same]
    }

    /// The longest time without a change that ended.
    fn longest_pause_s(&self) -> f64 {
        let (mut longest_s, mut since_s) = (0.0_f64, self.times[0]);
        for (point, sums) in self.sums.windows(2).enumerate() {
            if sums[1] > sums[0] {
                longest_s = longest_s.max(self.times[point] - since_s);
                since_s = self.times[point + 1];
            }
        }
        longest_s
    }

    /// The seconds after which `bytes` more than at that point were reached.
    pub fn time_of(&self, from: usize, bytes: f64) -> Option<f64> {
        let goal = self.sums[from] + bytes;
        let after = from + self.sums[from..].iter().position(|sum| *sum >= goal)?;
        let before = after.saturating_sub(1).max(from);
        let step = self.times[after] - self.times[before];
        let gained = self.sums[after] - self.sums[before];
        let mut part = 1.0;
        if gained > 0.0 {
            part = (goal - self.sums[before]) / gained;
        }
        Some(self.times[before] + step * part - self.times[from])
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RemainingReads {
    pub from: Basis,
    /// Read so far; `null` if not observed.
    pub read_bytes: Option<u64>,
    /// The expected total, the median of earlier runs; `null` if unknown.
    pub expected_bytes: Option<u64>,
    /// `null` if unknown.
    pub left_bytes: Option<u64>,
    /// The number of earlier runs that it is from.
    pub runs: usize,
    pub text: String,
    /// The least and the most that may be left.
    #[serde(skip)]
    #[schema(ignore)]
    pub range: Option<(f64, f64)>,
}

/// The source of the expected total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The used space of the snapshot's file system.
    FileSystem,
    /// Earlier runs of the same origin.
    EarlierRuns,
    /// Neither is known.
    Nothing,
}

/// What is known of an earlier run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PastRun {
    pub read_bytes: u64,
    pub seconds: f64,
    /// Used space of its file system.
    pub file_system_bytes: Option<u64>,
    /// How far its COW area filled.
    pub grown_bytes: Option<u64>,
}

/// Earlier runs of the same origin, the latest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PastRuns {
    pub runs: Vec<PastRun>,
    /// Whether their outcomes were not reported.
    pub is_unreported: bool,
}

impl RemainingReads {
    pub fn of(read: Option<u64>, file_system_bytes: Option<u64>, earlier: &PastRuns) -> Self {
        let shares = earlier.shares();
        let (from, runs) = match (file_system_bytes, &shares) {
            (Some(_), None) => (Basis::FileSystem, 0),
            (Some(_), Some(shares)) => (Basis::FileSystem, shares.numbers().len()),
            (None, _) if earlier.runs.is_empty() => (Basis::Nothing, 0),
            (None, _) => (Basis::EarlierRuns, earlier.runs.len()),
        };
        let totals = match (file_system_bytes, &shares) {
            (Some(used), None) => Sorted::new([used as f64]),
            (Some(used), Some(shares)) => {
                Sorted::new(shares.numbers().iter().map(|share| share * used as f64))
            }
            (None, _) => earlier.totals(),
        };
        // Excludes totals that this run has already exceeded.
        let left = |total: &f64| Some(*total - read? as f64).filter(|left| *left >= 0.0);
        let may_be = Sorted::new(totals.iter().flat_map(|all| all.numbers()).filter_map(left));
        let left_bytes = may_be.as_ref().map(|left| left.median() as u64);
        let expected = match (file_system_bytes, &totals) {
            (Some(used), _) => file_system_text(used, shares.as_ref()),
            (None, Some(totals)) => earlier.sentence(totals),
            (None, None) => {
                "The used space of its file system is unknown, and there is no earlier run of the same origin"
                    .into()
            }
        };
        let read_text = match read {
            None => "the bytes read so far are unknown".into(),
            Some(read) if left_bytes.is_some() => format!("{} are read", size_text(read)),
            Some(read) => format!("{} are read, and the rest is unknown", size_text(read)),
        };
        Self {
            from,
            read_bytes: read,
            expected_bytes: totals.map(|totals| totals.median() as u64),
            left_bytes,
            runs,
            text: format!("{expected}; {read_text}."),
            range: may_be.map(|left| (left.least(), left.most())),
        }
    }
}

impl PastRuns {
    fn totals(&self) -> Option<Sorted> {
        Sorted::new(self.runs.iter().map(|run| run.read_bytes as f64))
    }

    /// The shares of their file systems that successful runs read.
    fn shares(&self) -> Option<Sorted> {
        let share = |run: &PastRun| Some(run.read_bytes as f64 / run.file_system_bytes? as f64);
        if self.is_unreported {
            return None;
        }
        Sorted::new(self.runs.iter().filter_map(share))
    }

    /// The median read speed.
    pub fn read_speed(&self) -> Option<f64> {
        let speeds = self.runs.iter();
        Some(Sorted::new(speeds.map(|run| run.read_bytes as f64 / run.seconds))?.median())
    }

    /// The median speed at which COW areas filled.
    pub fn growth_speed(&self) -> Option<f64> {
        let speed = |run: &PastRun| Some(run.grown_bytes? as f64 / run.seconds);
        Some(Sorted::new(self.runs.iter().filter_map(speed))?.median())
    }

    /// `The last 3 runs of the same origin read 40.0 GiB (36.0 GiB to 44.0 GiB)`
    fn sentence(&self, totals: &Sorted) -> String {
        let unreported = if self.is_unreported {
            ", whose outcomes were not reported,"
        } else {
            ""
        };
        let of = format!("of the same origin{unreported} read");
        let median = bytes_text(totals.median());
        match totals.numbers() {
            [least, .., most] => {
                let (least, most) = (bytes_text(*least), bytes_text(*most));
                let runs = self.runs.len();
                format!("The last {runs} runs {of} {median} ({least} to {most})")
            }
            _ => format!("The last run {of} {median}"),
        }
    }
}

/// `Its file system uses 40.0 GiB, and the last 3 runs read 62 % of theirs (60 % to 65 %)`
fn file_system_text(used: u64, shares: Option<&Sorted>) -> String {
    let uses = format!("Its file system uses {}", size_text(used));
    let Some(shares) = shares else {
        return uses;
    };
    let median = share_text(shares.median());
    match shares.numbers() {
        [least, .., most] => {
            let (least, most) = (share_text(*least), share_text(*most));
            let runs = shares.numbers().len();
            format!("{uses}, and the last {runs} runs read {median} of theirs ({least} to {most})")
        }
        _ => format!("{uses}, and the last run read {median} of its own"),
    }
}
