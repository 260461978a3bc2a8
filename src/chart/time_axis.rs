//! Labels of the time axis: whole seconds, minutes, hours or days of a zone, or elapsed.
//!
//! They are in a group that moves to the left, so that for a chart that is drawn a tick later only its place has to be sent.

use jiff::Timestamp;
use jiff::civil::Time;

use super::band::Edges;
use super::grid::Grid;
use super::scaled::Scaled;
use super::svg::{TENTHS, decimal, escaped};
use super::{TimeLabels, frame};
use crate::series::Range;

/// Distance of labels from their position, in tenths of a pixel.
pub const LABEL_DISTANCE: i32 = 6 * TENTHS;
/// Half the approximate width of a character, in tenths of a pixel.
const HALF_CHARACTER: i32 = 3 * TENTHS;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const QUARTER: i64 = 91 * DAY;

/// Distances between labels, as multiples of each unit.
const STEPS: [(i64, &[i64]); 4] = [
    (1, &[1, 2, 5, 10, 15, 30]),
    (MINUTE, &[1, 2, 5, 10, 15, 30]),
    (HOUR, &[1, 2, 3, 6, 12]),
    (DAY, &[1, 2, 4, 7, 14, 28, 91, 364]),
];
/// The longest step.
const YEAR: i64 = 364 * DAY;

/// The width of a label with its margin, in pixels.
const LABEL_WIDTH: f64 = 76.0;

/// A label and its position in seconds from the start of the range.
type TimeLabel = (f64, String);

/// Appends the unit and the labels, below the plot.
pub fn draw(scaled: &Scaled, edges: &Edges, grid: Grid, out: &mut String) {
    let Scaled { chart, size, .. } = *scaled;
    let (name, labels) = ticks(
        chart.range,
        &chart.time_labels,
        f64::from(frame::width(chart, size)),
    );
    let (row, foot) = (
        decimal(edges.bottom + LABEL_DISTANCE),
        decimal(edges.bottom),
    );
    let label = |x: i32, anchor, text: &str| {
        let (x, text) = (decimal(x), escaped(text));
        format!(
            r#"<text class="tick" x="{x}" y="{row}" text-anchor="{anchor}" dy=".8em">{text}</text>"#
        )
    };
    out.push_str(&label(edges.left - LABEL_DISTANCE, "end", &name));
    let (start, _) = grid.anchored(0.0);
    out.push_str(&format!(
        r#"<g transform="translate({})">"#,
        decimal(edges.left - start)
    ));
    for (at, text) in labels {
        let (_, x) = grid.anchored(at);
        let half = text.len() as i32 * HALF_CHARACTER;
        out.push_str(&format!(
            r#"<path class="axis" d="M{} {foot}v{}"/>"#,
            decimal(x),
            decimal(LABEL_DISTANCE / 2)
        ));
        // Not beyond the picture, nor into the unit.
        let (left, right) = (x - start - half, edges.left + x - start + half);
        if left >= -LABEL_DISTANCE / 2 && right <= size.width as i32 * TENTHS {
            out.push_str(&label(x, "middle", &text));
        }
    }
    out.push_str("</g>");
}

/// The unit and labels of a range that is `width` pixels wide.
fn ticks(range: Range, time_labels: &TimeLabels, width: f64) -> (String, Vec<TimeLabel>) {
    let step = step(range.seconds().max(0.0) * LABEL_WIDTH / width.max(LABEL_WIDTH));
    let name = match time_labels {
        TimeLabels::Clock(zone) => zone.to_offset_info(range.to).abbreviation().to_string(),
        TimeLabels::Elapsed if step < MINUTE => "min:s".into(),
        TimeLabels::Elapsed => "h:min".into(),
    };
    (name, labels(range, time_labels, step))
}

fn labels(range: Range, time_labels: &TimeLabels, step: i64) -> Vec<TimeLabel> {
    let (from, to) = (range.from.as_second(), range.to.as_second());
    if to <= from {
        return Vec::new();
    }
    let shift = |second: i64| match time_labels {
        TimeLabels::Clock(zone) => {
            Timestamp::from_second(second).map_or(0, |at| i64::from(zone.to_offset(at).seconds()))
        }
        TimeLabels::Elapsed => 0,
    };
    // Round where the clock hangs, also after it was changed.
    let first = (from + shift(from)).div_euclid(step) * step;
    (0..)
        .map_while(|number| first.checked_add(step * number))
        .map(|local| local - shift(local - shift(from)))
        .take_while(|second| *second <= to)
        .filter(|second| *second >= from)
        .filter_map(|second| Timestamp::from_second(second).ok())
        .filter(|at| range.contains(*at))
        .map(|at| {
            (
                Range {
                    from: range.from,
                    to: at,
                }
                .seconds(),
                label(at, time_labels, step),
            )
        })
        .collect()
}

/// The first step of at least `least`; for many years, a multiple of the longest.
fn step(least: f64) -> i64 {
    let mut steps = STEPS
        .into_iter()
        .flat_map(|(unit, counts)| counts.iter().map(move |count| count * unit));
    let fitting = steps.find(|step| *step as f64 >= least);
    fitting.unwrap_or_else(|| (least / YEAR as f64).ceil() as i64 * YEAR)
}

fn label(at: Timestamp, time_labels: &TimeLabels, step: i64) -> String {
    let TimeLabels::Clock(zone) = time_labels else {
        let (whole, part) = if step < MINUTE {
            (MINUTE, 1)
        } else {
            (HOUR, MINUTE)
        };
        return format!(
            "{}:{:02}",
            at.as_second() / whole,
            at.as_second() % whole / part
        );
    };
    let at = at.to_zoned(zone.clone());
    let is_midnight = at.time() == Time::midnight();
    let format = match step {
        ..MINUTE => "%H:%M:%S",
        MINUTE..DAY if is_midnight => "%-d %b",
        MINUTE..DAY => "%H:%M",
        DAY..QUARTER => "%-d %b",
        _ => "%b %Y",
    };
    at.strftime(format).to_string()
}
