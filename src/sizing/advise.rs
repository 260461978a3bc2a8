//! The size that a snapshot needs at each age, for each chunk size, from finished snapshots and from measuring.

use super::advice::{CurvePoint, Planned, Risk, SizeAdvice, SizeRow};
use super::question::Question;
use super::{Curve, Measured, text};
use crate::job::growth::{AGES_MIN, Growth, Run};
use crate::job::sizing::never_overflows;
use crate::job::statistics::Sorted;

/// The ages that people ask for, besides the usual one.
const ASKED_S: [f64; 4] = [3600.0, 3.0 * 3600.0, 12.0 * 3600.0, 24.0 * 3600.0];
/// 1.2 times what 95 % of the windows needed held in all steady cases that were tried.
const MARGIN: f64 = 1.2;
const SHARE: f64 = 0.95;
/// Windows end an hour apart, and a day of them holds all that recurs daily.
pub(super) const LEAST_WINDOWS: usize = 24;
/// Nights differ, and less than that does not show by how much.
const MARGIN_OF_FEW: f64 = 2.0;

/// `None` if nothing is known.
pub fn advise(question: &Question) -> Option<SizeAdvice> {
    let usual_s = usual(&question.runs);
    let known: Vec<Known> = chunks(question).into_iter().map(|chunk| Known::of(question, chunk)).collect();
    let mut ages: Vec<f64> = usual_s.into_iter().chain(ASKED_S).collect();
    ages.sort_by(f64::total_cmp);
    ages.dedup();
    let rows: Vec<SizeRow> =
        ages.iter().flat_map(|age| known.iter().filter_map(|of_chunk| of_chunk.row(*age))).collect();
    let main = main_chunk(question).or(known.first().map(|of_chunk| of_chunk.chunk))?;
    let of_main = known.iter().find(|of_chunk| of_chunk.chunk == main)?;
    let curve = of_main.curve(usual_s);
    if rows.is_empty() && curve.is_empty() {
        return None;
    }
    let usual_row = usual_s.and_then(|usual_s| of_main.row(usual_s));
    Some(SizeAdvice {
        origin: format!("{}/{}", question.vg, question.lv),
        is_thin: question.is_thin,
        usual_s,
        planned: usual_row.as_ref().and_then(|row| of_main.planned(row)),
        basis: text::basis(question),
        limits: text::limits(question),
        room: text::room(question, usual_row.as_ref()),
        setting: usual_row.filter(|_| !question.is_thin).map(|row| text::setting(row.suggested_bytes)),
        rows,
        curve,
    })
}

/// Whether the next snapshot of a backup is large enough; `None` without backups, or if that is not known.
pub fn next_snapshot(question: &Question) -> Option<Planned> {
    question.runs.iter().find(|run| run.is_backup)?;
    let known = Known::of(question, main_chunk(question)?);
    known.planned(&known.row(usual(&question.runs)?)?)
}

/// The median length of its good backups; otherwise of other snapshots, or else of those that overflowed.
fn usual(runs: &[Run]) -> Option<f64> {
    let is_good = |run: &&Run| run.is_backup && run.is_good;
    let is_other = |run: &&Run| !run.is_backup && !run.overflowed;
    let median = |is_meant: &dyn Fn(&&Run) -> bool| {
        Some(Sorted::new(runs.iter().filter(is_meant).map(|run| run.seconds))?.median())
    };
    let found =
        median(&is_good).or_else(|| median(&is_other)).or_else(|| median(&|run: &&Run| run.overflowed));
    found.filter(|length| *length > 0.0)
}

/// The chunk size of its last backup's snapshot, or else of its last snapshot.
fn main_chunk(question: &Question) -> Option<u64> {
    last(question, |_| true).map(|run| run.chunk)
}

/// Of the last backup, or else the last snapshot.
fn last<'a>(question: &'a Question, is_meant: fn(&&Run) -> bool) -> Option<&'a Run> {
    let mut runs = question.runs.iter().filter(is_meant);
    let of_backup = runs.clone().find(|run| run.is_backup);
    of_backup.or_else(|| runs.next())
}

/// All chunk sizes of which something is known, in order.
fn chunks(question: &Question) -> Vec<u64> {
    let measured = question.measured.into_iter().flat_map(Measured::all);
    let measured = measured.flat_map(|curve| curve.chunks.iter().map(|of| of.bytes));
    let mut chunks: Vec<u64> = question.runs.iter().map(|run| run.chunk).chain(measured).collect();
    chunks.sort_unstable();
    chunks.dedup();
    chunks
}

/// A measured window.
struct Window {
    measured_s: f64,
    growth: Growth,
    /// The ends of its interval, if it is estimated.
    least: Growth,
    most: Growth,
}

/// What is known of one chunk size.
struct Known<'a> {
    question: &'a Question<'a>,
    chunk: u64,
    windows: Vec<Window>,
    runs: Vec<&'a Run>,
    /// A full copy of the origin.
    most: f64,
}

impl<'a> Known<'a> {
    fn of(question: &'a Question, chunk: u64) -> Self {
        let curves = question.measured.into_iter().flat_map(Measured::all);
        let window = |curve: &Curve| {
            let measured_s = f64::from(curve.measured_min) * 60.0;
            let (least, most) = (curve.least_growth(chunk)?, curve.most_growth(chunk)?);
            Some(Window { measured_s, growth: curve.growth(chunk)?, least, most })
        };
        let most = question.origin_bytes.filter(|_| !question.is_thin);
        Self {
            question,
            chunk,
            windows: curves.filter_map(window).collect(),
            runs: question.runs.iter().filter(|run| run.chunk == chunk).collect(),
            most: most.map_or(f64::INFINITY, |origin| never_overflows(origin, Some(chunk)) as f64),
        }
    }

    /// The bytes that were needed at an age, in each measured window and by each run.
    fn needs(&self, age_s: f64) -> (Vec<f64>, Vec<f64>) {
        let runs = self.runs.iter().filter_map(|run| run.need(age_s));
        (self.measured(age_s, |window| &window.growth), runs.map(|bytes| bytes.min(self.most)).collect())
    }

    /// The bytes at an age, in each window that is as long.
    fn measured(&self, age_s: f64, growth: fn(&Window) -> &Growth) -> Vec<f64> {
        let windows = self.windows.iter().filter(|window| window.measured_s >= age_s);
        windows.filter_map(|window| Some(growth(window).at(age_s)?.min(self.most))).collect()
    }

    fn row(&self, age_s: f64) -> Option<SizeRow> {
        let (windows, runs) = self.needs(age_s);
        let all = Sorted::new(windows.iter().chain(&runs).copied())?;
        let most_of_runs = runs.iter().copied().fold(0.0, f64::max);
        let upper = Sorted::new(self.measured(age_s, |window| &window.most));
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
            median_bytes: all.median() as u64,
            largest_bytes: all.most() as u64,
            suggested_bytes: bytes.div_ceil(extent).max(1) * extent,
            error_percent: upper.and_then(|upper| {
                error_percent(&windows, &self.measured(age_s, |window| &window.least), upper.numbers())
            }),
        })
    }

    fn curve(&self, usual_s: Option<f64>) -> Vec<CurvePoint> {
        let mut ages: Vec<f64> = AGES_MIN.iter().map(|age| f64::from(*age) * 60.0).chain(usual_s).collect();
        ages.sort_by(f64::total_cmp);
        ages.dedup();
        let point = |age_s: f64| {
            let (windows, runs) = self.needs(age_s);
            let all = Sorted::new(windows.into_iter().chain(runs))?;
            Some(CurvePoint {
                age_s,
                least_bytes: all.percentile(0.0),
                median_bytes: all.median(),
                largest_bytes: all.most(),
            })
        };
        ages.into_iter().map_while(point).collect()
    }

    /// The next snapshot is made as large as the last one was, unless its size is known.
    fn planned(&self, row: &SizeRow) -> Option<Planned> {
        let question = self.question;
        let made = || last(question, |run| run.made_bytes.is_some())?.made_bytes;
        let bytes = question.planned_bytes.or_else(made).filter(|_| !question.is_thin)?;
        let (windows, runs) = self.needs(row.age_s);
        let cases = windows.len() + runs.len();
        let more = windows.iter().chain(&runs).filter(|need| **need > bytes as f64).count();
        let risk = match more {
            0 => Risk::Low,
            more if more * 2 < cases => Risk::Possible,
            _ => Risk::Likely,
        };
        let text = text::planned(question, bytes, row, (more, cases), risk);
        Some(Planned { bytes, age_s: row.age_s, cases, risk, text })
    }
}

/// By how much the windows may be smaller or larger, in the median; `None` if they are exact.
fn error_percent(windows: &[f64], lower: &[f64], upper: &[f64]) -> Option<f64> {
    let median = |numbers: &[f64]| Some(Sorted::new(numbers.iter().copied())?.median());
    let (lower, windows, upper) = (median(lower)?, median(windows)?, median(upper)?);
    let error = (windows - lower).max(upper - windows);
    (error > 0.0 && windows > 0.0).then(|| error / windows * 100.0)
}
