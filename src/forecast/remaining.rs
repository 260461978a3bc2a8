//! The bytes that a backup still has to read: up to the used space of the snapshot's file system, or to the share of it
//! that earlier runs read. Without a mounted file system, up to the totals of earlier runs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::units::bytes_text;

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
        let (from, totals, runs) = match file_system_bytes {
            Some(used) if shares.is_empty() => (Basis::FileSystem, vec![used as f64], 0),
            Some(used) => (
                Basis::FileSystem,
                shares.iter().map(|share| share * used as f64).collect(),
                shares.len(),
            ),
            None if earlier.runs.is_empty() => (Basis::Nothing, Vec::new(), 0),
            None => (Basis::EarlierRuns, earlier.totals(), earlier.runs.len()),
        };
        // Excludes totals that this run has already exceeded.
        let left = |total: &f64| Some(*total - read? as f64).filter(|left| *left >= 0.0);
        let mut may_be: Vec<f64> = totals.iter().filter_map(left).collect();
        may_be.sort_unstable_by(f64::total_cmp);
        let left_bytes = median(&may_be).map(|left| left as u64);
        let expected = match (from, file_system_bytes) {
            (Basis::FileSystem, Some(used)) => file_system_text(used, &shares),
            (Basis::EarlierRuns, _) => earlier.sentence(&totals),
            _ => "No file system is mounted on it, and there is no earlier run of the same origin"
                .into(),
        };
        let read_text = match read {
            None => "the bytes read so far are unknown".into(),
            Some(read) if left_bytes.is_some() => format!("{} are read", size(read as f64)),
            Some(read) => format!("{} are read, and the rest is unknown", size(read as f64)),
        };
        Self {
            from,
            read_bytes: read,
            expected_bytes: median(&totals).map(|total| total as u64),
            left_bytes,
            runs,
            text: format!("{expected}; {read_text}."),
            range: may_be.first().copied().zip(may_be.last().copied()),
        }
    }
}

impl PastRuns {
    /// In ascending order.
    fn totals(&self) -> Vec<f64> {
        sorted(self.runs.iter().map(|run| run.read_bytes as f64))
    }

    /// The shares of their file systems that successful runs read, in ascending order.
    fn shares(&self) -> Vec<f64> {
        let share = |run: &PastRun| {
            Some(run.read_bytes as f64 / run.file_system_bytes.filter(|b| *b > 0)? as f64)
        };
        sorted(
            self.runs
                .iter()
                .filter(|_| !self.is_unreported)
                .filter_map(share),
        )
    }

    /// The median read speed.
    pub fn read_speed(&self) -> Option<f64> {
        self.speed(|run| Some(run.read_bytes))
    }

    /// The median speed at which COW areas filled.
    pub fn growth_speed(&self) -> Option<f64> {
        self.speed(|run| run.grown_bytes)
    }

    fn speed(&self, bytes: impl Fn(&PastRun) -> Option<u64>) -> Option<f64> {
        let of = |run: &PastRun| {
            Some(bytes(run)? as f64 / run.seconds).filter(|speed| speed.is_finite())
        };
        median(&sorted(self.runs.iter().filter_map(of)))
    }

    /// `The last 3 runs of the same origin read 40.0 GiB (36.0 GiB to 44.0 GiB)`
    fn sentence(&self, totals: &[f64]) -> String {
        let (which, range) = match totals {
            [least, .., most] => (
                format!("{} runs", totals.len()),
                format!(" ({} to {})", size(*least), size(*most)),
            ),
            _ => ("run".to_string(), String::new()),
        };
        let unreported = if self.is_unreported {
            ", whose outcomes were not reported,"
        } else {
            ""
        };
        let total = median(totals).unwrap_or_default();
        format!(
            "The last {which} of the same origin{unreported} read {}{range}",
            size(total)
        )
    }
}

/// `Its file system uses 40.0 GiB, and the last 3 runs read 62 % of theirs (60 % to 65 %)`
fn file_system_text(used: u64, shares: &[f64]) -> String {
    let uses = format!("Its file system uses {}", size(used as f64));
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    match (shares, median(shares).map(percent)) {
        ([least, .., most], Some(median)) => {
            let (runs, least, most) = (shares.len(), percent(*least), percent(*most));
            format!("{uses}, and the last {runs} runs read {median} of theirs ({least} to {most})")
        }
        (_, Some(median)) => format!("{uses}, and the last run read {median} of its own"),
        _ => uses,
    }
}

fn size(bytes: f64) -> String {
    bytes_text(bytes)
}

fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_unstable_by(f64::total_cmp);
    numbers
}

/// Of numbers in ascending order.
fn median(sorted: &[f64]) -> Option<f64> {
    let (below, above) = (sorted.len().checked_sub(1)? / 2, sorted.len() / 2);
    Some((sorted[below] + sorted[above]) / 2.0)
}
