//! Labels of the time axis: whole seconds, minutes, hours or days, in UTC or since a start.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::Times;
use crate::series::Range;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const QUARTER: i64 = 91 * DAY;

/// Distances between labels, in seconds.
const STEPS: [i64; 25] = [
    1,
    2,
    5,
    10,
    15,
    30,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    4 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    QUARTER,
    364 * DAY,
];

/// Pixels that a label with its space needs.
const LABEL_WIDTH: f64 = 76.0;

/// Where a label stands, in seconds from the start of the range, and what it says.
pub type Tick = (f64, String);

/// The unit of the labels, and labels for a range that is `width` pixels wide.
pub fn ticks(range: Range, times: Times, width: f64) -> (&'static str, Vec<Tick>) {
    let step = step(range.seconds().max(0.0) * LABEL_WIDTH / width.max(LABEL_WIDTH));
    let name = match times {
        Times::Clock => "UTC",
        Times::Elapsed if step < MINUTE => "min:s",
        Times::Elapsed => "h:min",
    };
    (name, labels(range, times, step))
}

fn labels(range: Range, times: Times, step: i64) -> Vec<Tick> {
    let (from, to) = (range.from.as_second(), range.to.as_second());
    if to <= from {
        return Vec::new();
    }
    let first = from.div_euclid(step) * step;
    (0..)
        .map_while(|number| first.checked_add(step * number).filter(|second| *second <= to))
        .filter(|second| *second >= from)
        .filter_map(|second| Timestamp::from_second(second).ok())
        .filter(|at| range.contains(*at))
        .map(|at| (Range { from: range.from, to: at }.seconds(), label(at, times, step)))
        .collect()
}

/// The first step not below `least`; in ranges of many years the longest, doubled until it is.
fn step(least: f64) -> i64 {
    let longest = STEPS[STEPS.len() - 1];
    let known = STEPS.into_iter().find(|step| *step as f64 >= least);
    known.unwrap_or_else(|| (least / longest as f64).ceil() as i64 * longest)
}

fn label(at: Timestamp, times: Times, step: i64) -> String {
    if times == Times::Elapsed {
        let (whole, part) = if step < MINUTE { (MINUTE, 1) } else { (HOUR, MINUTE) };
        return format!("{}:{:02}", at.as_second() / whole, at.as_second() % whole / part);
    }
    let is_midnight = at.as_second().rem_euclid(DAY) == 0;
    let format = match step {
        ..MINUTE => "%H:%M:%S",
        MINUTE..DAY if is_midnight => "%-d %b",
        MINUTE..DAY => "%H:%M",
        DAY..QUARTER => "%-d %b",
        _ => "%b %Y",
    };
    at.to_zoned(TimeZone::UTC).strftime(format).to_string()
}
