//! The size that a snapshot needs at each age, for each chunk size, from finished snapshots and from measuring.

use super::advice::{Hours, Planned, SizeAdvice, SizeRow};
use super::hours::hours;
use super::known::{Known, last};
use super::question::Question;
use super::{Measured, text};
use crate::job::growth::Run;
use crate::job::sizing::setting;
use crate::job::statistics::Sorted;

/// The ages that people ask for, besides the usual one.
const ASKED_S: [f64; 4] = [3600.0, 3.0 * 3600.0, 12.0 * 3600.0, 24.0 * 3600.0];

/// `None` if nothing is known.
pub fn advise(question: &Question) -> Option<SizeAdvice> {
    let usual_s = usual(&question.runs);
    let known: Vec<Known> = chunks(question)
        .into_iter()
        .map(|chunk| Known::of(question, chunk))
        .collect();
    let mut ages: Vec<f64> = usual_s.into_iter().chain(ASKED_S).collect();
    ages.sort_by(f64::total_cmp);
    ages.dedup();
    let main = main_chunk(question).or(known.first().map(|of_chunk| of_chunk.chunk))?;
    let of_main = known.iter().find(|of_chunk| of_chunk.chunk == main)?;
    let night = usual_s.and_then(|usual_s| Night::of(of_main, question, usual_s));
    let hour = night.as_ref().and_then(Night::hour);
    let hour_at = |age_s: f64| hour.filter(|_| Some(age_s) == usual_s);
    let rows_at = |age_s: f64| {
        known
            .iter()
            .filter_map(move |of_chunk| of_chunk.row(age_s, hour_at(age_s)))
    };
    let rows: Vec<SizeRow> = ages.into_iter().flat_map(rows_at).collect();
    let curve = of_main.curve(usual_s, hour);
    if rows.is_empty() && curve.is_empty() {
        return None;
    }
    let size = night.as_ref().map(|night| night.row.suggested_bytes);
    Some(SizeAdvice {
        origin: format!("{}/{}", question.vg, question.lv),
        is_thin: question.is_thin,
        usual_s,
        planned: night
            .as_ref()
            .and_then(|night| of_main.planned(&night.row, hour)),
        basis: text::basis(question),
        limits: text::limits(question),
        room: text::room(question, night.as_ref().map(|night| &night.row)),
        suggested_bytes: size,
        setting: size.filter(|_| !question.is_thin).map(setting),
        hours: night.and_then(|night| night.hours),
        rows,
        curve,
    })
}

/// Whether the next snapshot of a backup is large enough; `None` without backups, or if that is not known.
pub fn next_snapshot(question: &Question) -> Option<Planned> {
    question.runs.iter().find(|run| run.is_backup)?;
    let known = Known::of(question, main_chunk(question)?);
    let night = Night::of(&known, question, usual(&question.runs)?)?;
    known.planned(&night.row, night.hour())
}

/// What a backup needs that is as long as usual, at its hour if that matters.
struct Night {
    row: SizeRow,
    hours: Option<Hours>,
}

impl Night {
    fn of(known: &Known, question: &Question, usual_s: f64) -> Option<Self> {
        let hours = hours(known, question, usual_s);
        let hour = hours.as_ref().and_then(|hours| hours.of_backups);
        Some(Self {
            row: known.row(usual_s, hour)?,
            hours,
        })
    }

    fn hour(&self) -> Option<u8> {
        self.hours.as_ref()?.of_backups
    }
}

/// The median length of its good backups; otherwise of other snapshots, or else of those that overflowed.
fn usual(runs: &[Run]) -> Option<f64> {
    let is_good = |run: &&Run| run.is_backup && run.is_good;
    let is_other = |run: &&Run| !run.is_backup && !run.overflowed;
    let median = |is_meant: &dyn Fn(&&Run) -> bool| {
        Some(Sorted::new(runs.iter().filter(is_meant).map(|run| run.seconds))?.median())
    };
    let found = median(&is_good)
        .or_else(|| median(&is_other))
        .or_else(|| median(&|run: &&Run| run.overflowed));
    found.filter(|length| *length > 0.0)
}

/// The chunk size of its last backup's snapshot, or else of its last snapshot.
fn main_chunk(question: &Question) -> Option<u64> {
    last(question, |_| true).map(|run| run.chunk)
}

/// All chunk sizes of which something is known, in order.
fn chunks(question: &Question) -> Vec<u64> {
    let measured = question.measured.into_iter().flat_map(Measured::all);
    let measured = measured.flat_map(|curve| curve.chunks.iter().map(|of| of.bytes));
    let mut chunks: Vec<u64> = question
        .runs
        .iter()
        .map(|run| run.chunk)
        .chain(measured)
        .collect();
    chunks.sort_unstable();
    chunks.dedup();
    chunks
}
