//! The labels of the time axis: whole seconds, minutes, hours or days of a zone, or elapsed.
//!
//! plotters knows no time zones without chrono, so round times are found here.

use jiff::Timestamp;
use jiff::civil::Time;

use super::TimeLabels;
use super::plot::{ChartLayout, LABEL_DISTANCE};
use super::svg::{Across, Down, Svg, TENTHS};
use crate::series::Range;

/// Half the approximate width of a character, in tenths of a pixel.
const HALF_CHARACTER: i32 = 32;
/// The width of a label with its margin, in pixels.
const LABEL_WIDTH: f64 = 76.0;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const QUARTER: i64 = 91 * DAY;
/// The longest step.
const YEAR: i64 = 364 * DAY;

/// Distances between labels, as multiples of each unit.
const STEPS: [(i64, &[i64]); 4] = [
    (1, &[1, 2, 5, 10, 15, 30]),
    (MINUTE, &[1, 2, 5, 10, 15, 30]),
    (HOUR, &[1, 2, 3, 6, 12]),
    (DAY, &[1, 2, 4, 7, 14, 28, 91, 364]),
];

/// The zone or the unit beside the axis, and the labels below it.
pub fn draw(layout: &ChartLayout, svg: &mut Svg) {
    let (range, time_labels) = (layout.chart.range, &layout.chart.time_labels);
    let edges = layout.left.edges;
    let pixels_per_label = LABEL_WIDTH / edges.width().max(LABEL_WIDTH);
    let step = step(range.seconds().max(0.0) * pixels_per_label);
    let name = match time_labels {
        TimeLabels::Clock(zone) => zone.to_offset_info(range.to).abbreviation().to_string(),
        TimeLabels::Elapsed if step < MINUTE => "min:s".into(),
        TimeLabels::Elapsed => "h:min".into(),
    };
    let row = edges.bottom + LABEL_DISTANCE;
    let beside = (edges.left - LABEL_DISTANCE, row);
    svg.text("tick", beside, (Across::Right, Down::Below), &name);
    for at in round_times(range, time_labels, step) {
        let x = layout.x(at);
        let foot = edges.bottom + LABEL_DISTANCE / 2;
        svg.stroke("axis", &[(x, edges.bottom), (x, foot)]);
        let text = label(at, time_labels, step);
        // Not beyond the picture, nor into the name.
        let half = text.chars().count() as i32 * HALF_CHARACTER;
        let is_right_of_name = x - half >= edges.left - LABEL_DISTANCE / 2;
        if is_right_of_name && x + half <= layout.size.width as i32 * TENTHS {
            svg.text("tick", (x, row), (Across::Middle, Down::Below), &text);
        }
    }
}

/// The times of the range that are multiples of a step on the clock on the wall, also after that was changed.
fn round_times(range: Range, time_labels: &TimeLabels, step: i64) -> Vec<Timestamp> {
    let offset = |second: i64| match (time_labels, Timestamp::from_second(second)) {
        (TimeLabels::Clock(zone), Ok(at)) => i64::from(zone.to_offset(at).seconds()),
        _ => 0,
    };
    let (from, to) = (range.from.as_second(), range.to.as_second());
    let mut times = Vec::new();
    // In seconds of the wall's clock.
    let mut local = (from + offset(from)).div_euclid(step) * step;
    loop {
        // Where the clock was changed since the start, its offset then is another one.
        let second = local - offset(local - offset(from));
        if from >= to || second > to {
            return times;
        }
        let at = Timestamp::from_second(second).ok();
        times.extend(at.filter(|at| range.contains(*at)));
        local += step;
    }
}

/// The first step of at least `least` seconds; for many years, a multiple of the longest.
fn step(least: f64) -> i64 {
    for (unit, counts) in STEPS {
        for count in counts {
            if (unit * count) as f64 >= least {
                return unit * count;
            }
        }
    }
    (least / YEAR as f64).ceil() as i64 * YEAR
}

fn label(at: Timestamp, time_labels: &TimeLabels, step: i64) -> String {
    let TimeLabels::Clock(zone) = time_labels else {
        // `3:05` minutes and seconds, or hours and minutes.
        let part = if step < MINUTE { 1 } else { MINUTE };
        let parts = at.as_second() / part;
        return format!("{}:{:02}", parts / 60, parts % 60);
    };
    let at = at.to_zoned(zone.clone());
    let format = match step {
        ..MINUTE => "%H:%M:%S",
        MINUTE..DAY if at.time() == Time::midnight() => "%-d %b",
        MINUTE..DAY => "%H:%M",
        DAY..QUARTER => "%-d %b",
        _ => "%b %Y",
    };
    at.strftime(format).to_string()
}
