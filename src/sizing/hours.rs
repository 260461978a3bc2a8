//! Whether the hour of the day matters at which a snapshot is made.
//!
//! Measured windows begin an hour apart. An hour has those that begin in it or in one of its neighbours.

use super::advice::{HourRow, Hours};
use super::known::{HOURS, Known, hour_of, is_about};
use super::question::Question;
use super::text;

/// Three days of windows: fewer do not show what recurs.
const LEAST_WINDOWS: usize = 9;
/// A smaller factor is within what nights differ.
const MATERIAL: f64 = 1.5;
/// The batch job of one hour is in a third of the windows about it.
const QUARTILE: f64 = 0.75;
/// So many backups in a row show at which hour the next one begins.
const LAST_BACKUPS: usize = 2;

/// `None` unless hours differ: a quarter of the windows of one needed so much more than any window of another.
pub fn hours(known: &Known, question: &Question, age_s: f64) -> Option<Hours> {
    let row = |hour| {
        let needs = known.needs_about(age_s, hour)?;
        let windows = needs.numbers().len();
        let suggested_bytes = known
            .row(age_s, Some(hour))
            .filter(|_| windows >= LEAST_WINDOWS)?
            .suggested_bytes;
        let (median_bytes, largest_bytes) = (needs.median() as u64, needs.most() as u64);
        let quartile = needs.percentile(QUARTILE);
        Some((
            quartile,
            HourRow {
                hour,
                windows,
                median_bytes,
                largest_bytes,
                suggested_bytes,
            },
        ))
    };
    let (quartiles, rows): (Vec<f64>, Vec<HourRow>) = (0..HOURS).filter_map(row).unzip();
    let least = rows.iter().min_by_key(|row| row.largest_bytes)?;
    let (quartile, most) = quartiles
        .iter()
        .zip(&rows)
        .max_by(|one, other| one.0.total_cmp(other.0))?;
    if *quartile <= least.largest_bytes as f64 * MATERIAL {
        return None;
    }
    let usual = usual(question);
    let own = rows.iter().find(|row| Some(row.hour) == usual);
    let (of_backups, text) = (
        own.map(|row| row.hour),
        text::hours(age_s, least, most, own),
    );
    Some(Hours {
        of_backups,
        rows,
        text,
    })
}

/// The hour in which most of its backups began, or the latest of several; `None` if the last two began at another: they
/// may have moved.
fn usual(question: &Question) -> Option<u8> {
    let began_at = || {
        question
            .runs
            .iter()
            .filter(|run| run.is_backup)
            .map(|run| run.started_at)
    };
    let hours = || began_at().map(hour_of);
    // The latest backup comes first, and the last one of the largest is taken.
    let most = hours()
        .rev()
        .max_by_key(|hour| hours().filter(|other| other == hour).count());
    most.filter(|_| began_at().take(LAST_BACKUPS).all(|at| is_about(most, at)))
}
