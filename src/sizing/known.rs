//! What is known of one chunk size, at any age.

use jiff::{SignedDuration, Timestamp};

use super::advice::{CurvePoint, Planned, Risk, SizeRow};
use super::question::Question;
use super::{Curve, Measured, text};
use crate::job::growth::{AGES_MIN, Growth, Run};
use crate::job::sizing::never_overflows;
use crate::job::statistics::Sorted;

/// Hours of a day, in UTC.
pub const HOURS: u8 = 24;
/// 1.2 times what 95 % of the windows needed held in all steady cases that were tried.
const MARGIN: f64 = 1.2;
const SHARE: f64 = 0.95;
/// Windows end an hour apart, and a day of them holds all that recurs daily.
pub const LEAST_WINDOWS: usize = 24;
/// Nights differ, and less than that does not show by how much.
const MARGIN_OF_FEW: f64 = 2.0;

/// Of the last backup, or else the last snapshot.
pub fn last<'a>(question: &'a Question, is_meant: fn(&&Run) -> bool) -> Option<&'a Run> {
    let mut runs = question.runs.iter().filter(is_meant);
    let of_backup = runs.clone().find(|run| run.is_backup);
    of_backup.or_else(|| runs.next())
}

/// A measured window.
struct Window {
    at: Timestamp,
    measured_s: f64,
    /// How long before its end the volume last had discards.
    discarded_s: Option<f64>,
    growth: Growth,
    /// The ends of its interval, if it is estimated.
    least: Growth,
    most: Growth,
}

/// What is known of one chunk size.
pub struct Known<'a> {
    question: &'a Question<'a>,
    pub chunk: u64,
    windows: Vec<Window>,
    runs: Vec<&'a Run>,
    /// A full copy of the origin.
    most: f64,
}

impl<'a> Known<'a> {
    pub fn of(question: &'a Question, chunk: u64) -> Self {
        let curves = question.measured.into_iter().flat_map(Measured::all);
        let seconds = |minutes: u32| f64::from(minutes) * 60.0;
        let window = |curve: &Curve| {
            Some(Window {
                at: curve.at,
                measured_s: seconds(curve.measured_min),
                discarded_s: curve.discarded_min.map(seconds),
                growth: curve.growth(chunk)?,
                least: curve.least_growth(chunk)?,
                most: curve.most_growth(chunk)?,
            })
        };
        let most = question.origin_bytes.filter(|_| !question.is_thin);
        Self {
            question,
            chunk,
            windows: curves.filter_map(window).collect(),
            runs: question
                .runs
                .iter()
                .filter(|run| run.chunk == chunk)
                .collect(),
            most: most.map_or(f64::INFINITY, |origin| {
                never_overflows(origin, Some(chunk)) as f64
            }),
        }
    }

    /// The bytes that were needed at an age, in each measured window and by each run; with an hour, in those that began
    /// about then. A backup that overflowed counts at any hour.
    fn needs(&self, age_s: f64, hour: Option<u8>) -> (Vec<f64>, Vec<f64>) {
        let is_lost = |run: &Run| run.is_backup && run.overflowed;
        (
            self.of_windows(age_s, hour),
            self.of_runs(age_s, |run| is_about(hour, run.started_at) || is_lost(run)),
        )
    }

    /// The bytes that were needed in all that began about an hour.
    pub fn needs_about(&self, age_s: f64, hour: u8) -> Option<Sorted> {
        let runs = self.of_runs(age_s, |run| is_about(Some(hour), run.started_at));
        Sorted::new(self.of_windows(age_s, Some(hour)).into_iter().chain(runs))
    }

    fn of_windows(&self, age_s: f64, hour: Option<u8>) -> Vec<f64> {
        self.bytes(self.windows(age_s, hour), age_s, |window| &window.growth)
    }

    fn of_runs(&self, age_s: f64, is_meant: impl Fn(&Run) -> bool) -> Vec<f64> {
        let runs = self
            .runs
            .iter()
            .filter(|run| is_meant(run))
            .filter_map(|run| run.need(age_s));
        runs.map(|bytes| bytes.min(self.most)).collect()
    }

    /// The windows that are so long.
    fn windows(&self, age_s: f64, hour: Option<u8>) -> impl Iterator<Item = &Window> {
        let began_at = move |window: &Window| window.at - SignedDuration::from_secs(age_s as i64);
        self.windows
            .iter()
            .filter(move |window| window.measured_s >= age_s && is_about(hour, began_at(window)))
    }

    /// Those of windows with discards are unknown.
    fn bytes<'w>(
        &self,
        windows: impl Iterator<Item = &'w Window>,
        age_s: f64,
        growth: fn(&Window) -> &Growth,
    ) -> Vec<f64> {
        windows
            .filter_map(|window| Some(growth(window).at(age_s)?.min(self.most)))
            .collect()
    }

    pub fn row(&self, age_s: f64, hour: Option<u8>) -> Option<SizeRow> {
        let (windows, runs) = self.needs(age_s, hour);
        let all = Sorted::new(windows.iter().chain(&runs).copied())?;
        let most_of_runs = runs.iter().copied().fold(0.0, f64::max);
        let has_discards = |window: &&Window| {
            window.growth.at(age_s).is_none()
                && window.discarded_s.is_some_and(|before_s| before_s < age_s)
        };
        let end = |growth| self.bytes(self.windows(age_s, hour), age_s, growth);
        let (lower, upper) = (
            end(|window| &window.least),
            Sorted::new(end(|window| &window.most)),
        );
        let wished = match upper.as_ref().filter(|_| windows.len() >= LEAST_WINDOWS) {
            // The load of the backup itself is only in the runs.
            Some(measured) => measured.percentile(SHARE).max(most_of_runs) * MARGIN,
            None => all.most() * MARGIN_OF_FEW,
        };
        let extent = self.question.extent.max(1);
        let bytes = wished.max(all.most()).min(self.most).ceil() as u64;
        Some(SizeRow {
            age_s,
            chunk_bytes: self.chunk,
            windows: all.numbers().len(),
            windows_with_discards: self.windows(age_s, hour).filter(has_discards).count(),
            median_bytes: all.median() as u64,
            largest_bytes: all.most() as u64,
            suggested_bytes: bytes.div_ceil(extent).max(1) * extent,
            error_percent: upper.and_then(|upper| error_percent(&windows, &lower, upper.numbers())),
        })
    }

    pub fn curve(&self, usual_s: Option<f64>, hour: Option<u8>) -> Vec<CurvePoint> {
        let mut ages: Vec<f64> = AGES_MIN
            .iter()
            .map(|age| f64::from(*age) * 60.0)
            .chain(usual_s)
            .collect();
        ages.sort_by(f64::total_cmp);
        ages.dedup();
        // Fewer windows are known of a longer age, but it needs no less.
        let [mut least, mut median, mut largest] = [0.0_f64; 3];
        let point = |age_s: f64| {
            let (windows, runs) = self.needs(age_s, hour);
            let all = Sorted::new(windows.into_iter().chain(runs))?;
            least = least.max(all.percentile(0.0));
            median = median.max(all.median());
            largest = largest.max(all.most());
            Some(CurvePoint {
                age_s,
                least_bytes: least,
                median_bytes: median,
                largest_bytes: largest,
            })
        };
        ages.into_iter().map_while(point).collect()
    }

    /// Without a plan, the next snapshot is made as large as the last one was.
    pub fn planned(&self, row: &SizeRow, hour: Option<u8>) -> Option<Planned> {
        let question = self.question;
        let made = || last(question, |run| run.made_bytes.is_some())?.made_bytes;
        let bytes = question
            .planned_bytes
            .or(question.configured_bytes)
            .or_else(made)
            .filter(|_| !question.is_thin)?;
        let (windows, runs) = self.needs(row.age_s, hour);
        let cases = windows.len() + runs.len();
        let more = windows
            .iter()
            .chain(&runs)
            .filter(|need| **need > bytes as f64)
            .count();
        let risk = match more {
            0 => Risk::Low,
            more if more * 2 < cases => Risk::Possible,
            _ => Risk::Likely,
        };
        let text = text::planned(question, bytes, row, (more, cases), risk);
        Some(Planned {
            bytes,
            age_s: row.age_s,
            cases,
            risk,
            text,
        })
    }
}

/// By how much the windows may be smaller or larger, in the median; `None` if they are exact.
fn error_percent(windows: &[f64], lower: &[f64], upper: &[f64]) -> Option<f64> {
    let median = |numbers: &[f64]| Some(Sorted::new(numbers.iter().copied())?.median());
    let (lower, windows, upper) = (median(lower)?, median(windows)?, median(upper)?);
    let error = (windows - lower).max(upper - windows);
    (error > 0.0 && windows > 0.0).then(|| error / windows * 100.0)
}

/// Whether a time is in this hour or next to it; any time is without an hour.
pub fn is_about(hour: Option<u8>, at: Timestamp) -> bool {
    hour.is_none_or(|hour| (hour_of(at) + HOURS + 1 - hour) % HOURS <= 2)
}

/// The hour of a time, without a time zone: it is asked of each window and each hour.
pub fn hour_of(at: Timestamp) -> u8 {
    at.as_second().div_euclid(3600).rem_euclid(i64::from(HOURS)) as u8
}
