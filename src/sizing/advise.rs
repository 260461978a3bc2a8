//! The size that a snapshot needs at each age, for each chunk size, from finished snapshots and from measuring.

use super::advice::{CurvePoint, Planned, Risk, SizeAdvice, SizeRow};
use super::question::Question;
use super::{Measured, text};
use crate::job::growth::{AGES_MIN, Run};
use crate::job::sizing::never_overflows;
use crate::job::statistics::Sorted;

/// The ages that people ask for, besides the usual one.
const ASKED_S: [f64; 4] = [3600.0, 3.0 * 3600.0, 12.0 * 3600.0, 24.0 * 3600.0];
/// 1.2 times what 95 % of the windows needed held in all steady cases that were tried.
const MARGIN: f64 = 1.2;
const SHARE: f64 = 0.95;
/// Fewer measured windows tell too little.
const LEAST_WINDOWS: usize = 3;
/// Nights differ, and few runs do not show by how much.
const MARGIN_OF_RUNS: f64 = 2.0;

/// `None` if nothing is known.
pub fn advise(question: &Question) -> Option<SizeAdvice> {
    let usual_s = usual(&question.runs);
    let chunks = chunks(question);
    let mut ages: Vec<f64> = usual_s.into_iter().chain(ASKED_S).collect();
    ages.sort_by(f64::total_cmp);
    let rows: Vec<SizeRow> =
        ages.iter().flat_map(|age| chunks.iter().filter_map(|chunk| row(question, *age, *chunk))).collect();
    let main = main_chunk(question).or(chunks.first().copied())?;
    let curve = curve(question, main, usual_s);
    if rows.is_empty() && curve.is_empty() {
        return None;
    }
    let at_usual = |row: &&SizeRow| Some(row.age_s) == usual_s && row.chunk_bytes == main;
    let usual_row = rows.iter().find(at_usual);
    Some(SizeAdvice {
        origin: format!("{}/{}", question.vg, question.lv),
        is_thin: question.is_thin,
        has_backups: question.runs.iter().any(|run| run.is_backup),
        usual_s,
        planned: usual_row.and_then(|row| planned(question, row)),
        basis: text::basis(question),
        limits: text::limits(question),
        room: text::room(question, usual_row),
        setting: usual_row.filter(|_| !question.is_thin).map(|row| text::setting(row.suggested_bytes)),
        rows,
        curve,
    })
}

/// The median length of its backups, or else of all its snapshots.
fn usual(runs: &[Run]) -> Option<f64> {
    let of =
        |wanted: bool| Sorted::new(runs.iter().filter(|run| run.is_backup == wanted).map(|run| run.seconds));
    of(true).or_else(|| of(false)).map(|lengths| lengths.median()).filter(|length| *length > 0.0)
}

/// The chunk size of its last snapshot.
fn main_chunk(question: &Question) -> Option<u64> {
    question.runs.first().map(|run| run.chunk)
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

/// The bytes that were needed at an age, of each measured window, and of each run.
fn needs(question: &Question, age_s: f64, chunk: u64) -> (Vec<f64>, Vec<f64>) {
    let curves = question.measured.into_iter().flat_map(Measured::all);
    let growths = curves.filter(|curve| f64::from(curve.measured_min) * 60.0 >= age_s);
    let windows = growths.filter_map(|curve| curve.growth(chunk)?.at(age_s));
    let runs = question.runs.iter().filter(|run| run.chunk == chunk);
    (windows.collect(), runs.filter_map(|run| run.need(age_s)).collect())
}

fn row(question: &Question, age_s: f64, chunk: u64) -> Option<SizeRow> {
    let most = question.origin_bytes.filter(|_| !question.is_thin);
    let most = most.map_or(f64::INFINITY, |origin| never_overflows(origin, Some(chunk)) as f64);
    let (windows, runs) = needs(question, age_s, chunk);
    let all = Sorted::new(windows.iter().chain(&runs).map(|bytes| bytes.min(most)))?;
    let measured = Sorted::new(windows.iter().copied()).filter(|_| windows.len() >= LEAST_WINDOWS);
    let wished = match measured {
        Some(measured) => (measured.percentile(SHARE) * MARGIN).max(all.most()),
        None => all.most() * MARGIN_OF_RUNS,
    };
    let extent = question.extent.max(1);
    Some(SizeRow {
        age_s,
        chunk_bytes: chunk,
        windows: all.numbers().len(),
        median_bytes: all.median() as u64,
        largest_bytes: all.most() as u64,
        suggested_bytes: (wished.min(most).ceil() as u64).div_ceil(extent).max(1) * extent,
    })
}

fn curve(question: &Question, chunk: u64, usual_s: Option<f64>) -> Vec<CurvePoint> {
    let mut ages: Vec<f64> = AGES_MIN.iter().map(|age| f64::from(*age) * 60.0).chain(usual_s).collect();
    ages.sort_by(f64::total_cmp);
    let point = |age_s: f64| {
        let (windows, runs) = needs(question, age_s, chunk);
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

/// The size of the last snapshot of a backup, or else of the last one.
fn last_size(question: &Question) -> Option<u64> {
    let mut runs = question.runs.iter().filter(|run| run.cow_bytes.is_some());
    let of_backup = runs.clone().find(|run| run.is_backup);
    of_backup.or_else(|| runs.next())?.cow_bytes
}

/// The next snapshot is as large as the last one, unless its size is known.
fn planned(question: &Question, row: &SizeRow) -> Option<Planned> {
    let bytes = question.planned_bytes.or(last_size(question)).filter(|_| !question.is_thin)?;
    let (windows, runs) = needs(question, row.age_s, row.chunk_bytes);
    let needs: Vec<f64> = windows.into_iter().chain(runs).collect();
    let more = needs.iter().filter(|need| **need > bytes as f64).count();
    let risk = match more {
        0 => Risk::Low,
        more if more * 2 < needs.len() => Risk::Possible,
        _ => Risk::Likely,
    };
    let text = text::planned(question, bytes, row, (more, needs.len()), risk);
    Some(Planned { bytes, age_s: row.age_s, cases: needs.len(), risk, text })
}
