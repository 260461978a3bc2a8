//! Whether the hour of the day matters at which a snapshot is made.
//!
//! Measured windows begin an hour apart. An hour has those that begin in it or in one of its neighbours.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::SizingRequest;
use super::needs::{HOURS, MeasuredNeeds, usual_hour};
use crate::units::{duration_text, size_text};

/// Three days of windows: fewer do not show what recurs.
const LEAST_WINDOWS: usize = 9;
/// A smaller factor is within what nights differ.
const MATERIAL: f64 = 1.5;
/// The batch job of one hour is in a third of the windows about it.
const QUARTILE: f64 = 0.75;

/// What a snapshot of the usual age needs, by the hour in which it is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Hours {
    /// The hour in which backups begin, for which a size is suggested; `null` if that is not known.
    pub of_backups: Option<u8>,
    pub rows: Vec<HourRow>,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HourRow {
    /// In UTC, from 0 to 23.
    pub hour: u8,
    pub windows: usize,
    pub median_bytes: u64,
    pub largest_bytes: u64,
    pub suggested_bytes: u64,
}

/// `None` unless hours differ: a quarter of the windows of one needed much more than any window of another.
pub fn hours(needs: &MeasuredNeeds, request: &SizingRequest, age_s: f64) -> Option<Hours> {
    let mut rows = Vec::new();
    // The hour whose upper quartile is the largest, and this quartile.
    let mut most: Option<(f64, usize)> = None;
    for hour in 0..HOURS {
        let Some((row, quartile)) = hour_row(needs, age_s, hour) else {
            continue;
        };
        if most.is_none_or(|(largest, _)| quartile >= largest) {
            most = Some((quartile, rows.len()));
        }
        rows.push(row);
    }
    let least = rows.iter().min_by_key(|row| row.largest_bytes)?;
    let (quartile, index) = most?;
    if quartile <= least.largest_bytes as f64 * MATERIAL {
        return None;
    }
    let usual = usual_hour(request);
    let own = rows.iter().find(|row| Some(row.hour) == usual);
    Some(Hours {
        of_backups: own.map(|row| row.hour),
        text: text(age_s, least, &rows[index], own),
        rows,
    })
}

/// An hour, and the upper quartile of what was needed about it; `None` with too few windows.
fn hour_row(needs: &MeasuredNeeds, age_s: f64, hour: u8) -> Option<(HourRow, f64)> {
    let needed = needs.about(age_s, hour)?;
    let windows = needed.numbers().len();
    if windows < LEAST_WINDOWS {
        return None;
    }
    let row = HourRow {
        hour,
        windows,
        median_bytes: needed.median() as u64,
        largest_bytes: needed.most() as u64,
        suggested_bytes: needs.row(age_s, Some(hour))?.suggested_bytes,
    };
    Some((row, needed.percentile(QUARTILE)))
}

fn text(age_s: f64, least: &HourRow, most: &HourRow, own: Option<&HourRow>) -> String {
    let time = |row: &HourRow| format!("{:02}:00 UTC", row.hour);
    let differ = format!(
        "The hour matters: within {}, snapshots made about {} need up to {}, and those made about {} up to {}.",
        duration_text(age_s),
        time(least),
        size_text(least.largest_bytes),
        time(most),
        size_text(most.largest_bytes)
    );
    match own {
        Some(own) => format!(
            "{differ} The suggested size, and what the table says of the usual age, is for {}, when its backups begin.",
            time(own)
        ),
        None => format!("{differ} The suggested size is for any hour."),
    }
}
