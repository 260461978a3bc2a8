//! What a chart shows beside its lines: jobs, events, forecasts and thresholds.

use jiff::Timestamp;

use super::plot::{ChartLayout, Edges, LABEL_DISTANCE};
use super::runs::seconds;
use super::svg::{Across, Class, Down, Place, Svg, TENTHS};
use super::{Band, EventKind, Forecast};
use crate::alert::Severity;
use crate::series::Range;

/// The approximate size of a label's text, in tenths of a pixel.
const CHARACTER: i32 = 62;
/// Shorter names of jobs are omitted.
const SHORTEST_NAME: usize = 3;
/// The distance of a name's baseline from the plot, in tenths of a pixel.
const NAME_ABOVE: i32 = 5 * TENTHS;

/// Jobs that touch the range, as bands with their names above.
pub fn bands(layout: &ChartLayout, svg: &mut Svg) {
    let range = layout.chart.range;
    let edges = layout.left.edges;
    let mut bands: Vec<(i32, i32, &Band)> = Vec::new();
    for band in &layout.chart.bands {
        let from = band.from.max(range.from);
        let to = band.to.unwrap_or(range.to).min(range.to);
        if from < to {
            let left = layout.x(from);
            bands.push((left, layout.x(to).max(left + TENTHS), band));
        }
    }
    bands.sort_by_key(|(left, ..)| *left);
    for (number, &(left, right, band)) in bands.iter().enumerate() {
        let [top, bottom] = [edges.top, edges.bottom];
        svg.area(
            "band",
            &[(left, top), (right, top), (right, bottom), (left, bottom)],
        );
        svg.stroke("edge", &[(left, top), (left, bottom)]);
        let end = bands.get(number + 1).map_or(edges.right, |next| next.0);
        let name = shortened(&band.label, ((end - left) / CHARACTER) as usize);
        svg.text(
            "name",
            (left, top - NAME_ABOVE),
            (Across::Left, Down::Above),
            &name,
        );
    }
}

/// A name of at most so many characters; empty if none that says something fits.
fn shortened(name: &str, room: usize) -> String {
    if name.chars().count() <= room {
        return name.to_owned();
    }
    if room < SHORTEST_NAME {
        return String::new();
    }
    name.chars().take(room - 1).chain(['…']).collect()
}

/// Events inside the range: a line across the plot, with a sign at its foot.
pub fn marks(layout: &ChartLayout, svg: &mut Svg) {
    const UP: &[Place] = &[(-40, 0), (40, 0), (0, -70)];
    const DOWN: &[Place] = &[(-40, -70), (40, -70), (0, 0)];
    const DIAMOND: &[Place] = &[(-40, -40), (0, -80), (40, -40), (0, 0)];
    let edges = layout.left.edges;
    for mark in &layout.chart.marks {
        if !layout.chart.range.contains(mark.at) {
            continue;
        }
        let (look, sign) = match mark.kind {
            EventKind::Raised(severity) => (severity_class(severity), UP),
            EventKind::Cleared => ("ok", DOWN),
            EventKind::Change => ("change", DIAMOND),
        };
        let x = layout.x(mark.at);
        svg.stroke(
            with_look("mark", look),
            &[(x, edges.top), (x, edges.bottom)],
        );
        let sign: Vec<Place> = sign
            .iter()
            .map(|(right, down)| (x + right, edges.bottom + down))
            .collect();
        svg.area(with_look("sign", look), &sign);
    }
}

fn severity_class(severity: Severity) -> &'static str {
    match severity {
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

fn with_look(role: &'static str, look: &'static str) -> Class {
    Class {
        look,
        ..Class::from(role)
    }
}

/// How lines go on: the likely course, dashed, and a tint from the soonest to the latest one.
pub fn forecasts(layout: &ChartLayout, svg: &mut Svg) {
    for forecast in &layout.chart.forecasts {
        if !is_visible(forecast, layout.chart.range) {
            continue;
        }
        let plot = layout.plot(forecast.side);
        let look = forecast.look.class();
        let area = plot.places(&area_ahead(forecast, layout.chart.range));
        let line = plot.places(&line_ahead(forecast, layout.chart.range));
        svg.tint(with_look("envelope", look), &area);
        svg.stroke(with_look("ahead", look), &line);
    }
}

fn is_visible(forecast: &Forecast, range: Range) -> bool {
    (range.from..range.to).contains(&forecast.from.0)
}

/// The likely course, as seconds from the start of the range with values; empty if the value is not expected.
fn line_ahead(forecast: &Forecast, range: Range) -> Vec<(f64, f64)> {
    match forecast.likely {
        Some(likely) => vec![start(forecast, range), reached(forecast, likely, range)],
        None => Vec::new(),
    }
}

/// The outline of what lies between the soonest and the latest course.
fn area_ahead(forecast: &Forecast, range: Range) -> Vec<(f64, f64)> {
    let end_s = range.seconds();
    let start = start(forecast, range);
    let soonest = reached(forecast, forecast.soonest, range);
    let latest = match forecast.latest {
        Some(latest) => reached(forecast, latest, range),
        None => (end_s, start.1),
    };
    let mut corners = vec![start, soonest];
    if soonest.0 < end_s && latest.0 >= end_s {
        corners.push((end_s, soonest.1));
    }
    corners.push(latest);
    corners
}

fn start(forecast: &Forecast, range: Range) -> (f64, f64) {
    (seconds(range.from, forecast.from.0), forecast.from.1)
}

/// Where a course reaches its value, or the end of the range.
fn reached(forecast: &Forecast, at: Timestamp, range: Range) -> (f64, f64) {
    let (from_s, from) = start(forecast, range);
    let end_s = range.seconds();
    let at_s = seconds(range.from, at).max(from_s);
    if at_s <= end_s {
        return (at_s, forecast.value);
    }
    let part = (end_s - from_s) / (at_s - from_s);
    (end_s, from + (forecast.value - from) * part)
}

/// Thresholds on the axis, with their labels at the beginning, where the oldest values are.
pub fn thresholds(layout: &ChartLayout, svg: &mut Svg) {
    for threshold in &layout.chart.thresholds {
        let plot = layout.plot(threshold.side);
        if !(0.0..=plot.scale.max).contains(&threshold.value) {
            continue;
        }
        let Edges { left, right, .. } = plot.edges;
        let (_, y) = plot.place(0.0, threshold.value);
        let class = with_look("level", severity_class(threshold.severity));
        svg.stroke(class, &[(left, y), (right, y)]);
        // On different sides of their lines, since two thresholds may be close to each other.
        let distance = LABEL_DISTANCE / 2;
        let (down, y) = match threshold.severity {
            Severity::Warning => (Down::Below, y + distance),
            Severity::Critical => (Down::Above, y - distance),
        };
        let place = (left + distance, y);
        svg.text(class, place, (Across::Left, down), &threshold.label);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Look, Side};
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000 + second).unwrap()
    }

    fn forecast(soonest: i64, likely: Option<i64>, latest: Option<i64>) -> Forecast {
        Forecast {
            from: (at(100), 50.0),
            value: 100.0,
            soonest: at(soonest),
            likely: likely.map(at),
            latest: latest.map(at),
            side: Side::Left,
            look: Look::Fill,
        }
    }

    #[test]
    fn forecasts_end_at_their_value_or_at_the_edge() {
        let range = Range {
            from: at(0),
            to: at(200),
        };
        let start = (100.0, 50.0);
        let near = forecast(120, Some(150), Some(180));
        assert_eq!(line_ahead(&near, range), [start, (150.0, 100.0)]);
        assert_eq!(
            area_ahead(&near, range),
            [start, (120.0, 100.0), (180.0, 100.0)]
        );
        let far = forecast(150, Some(300), Some(500));
        assert_eq!(line_ahead(&far, range), [start, (200.0, 75.0)]);
        assert_eq!(
            area_ahead(&far, range),
            [start, (150.0, 100.0), (200.0, 100.0), (200.0, 62.5)]
        );
        let never = forecast(300, None, None);
        assert_eq!(line_ahead(&never, range), []);
        assert_eq!(
            area_ahead(&never, range),
            [start, (200.0, 75.0), (200.0, 50.0)]
        );
    }
}
