//! How a line goes on, by a forecast.

use jiff::Timestamp;

use super::Forecast;
use crate::series::Range;

/// Seconds from the start of the range, and a value.
type Place = (f64, f64);

/// The dashed line; empty if the value is not expected.
pub fn line(forecast: &Forecast, range: Range) -> Vec<Place> {
    let Some(likely) = forecast.likely else {
        return Vec::new();
    };
    vec![start(forecast, range), reached(forecast, likely, range)]
}

/// The outline of what lies between the soonest and the latest course.
pub fn area(forecast: &Forecast, range: Range) -> Vec<Place> {
    let (end_s, (_, value)) = (range.seconds(), start(forecast, range));
    let soonest = reached(forecast, forecast.soonest, range);
    let latest = forecast
        .latest
        .map_or((end_s, value), |latest| reached(forecast, latest, range));
    let mut corners = vec![start(forecast, range), soonest];
    if soonest.0 < end_s && latest.0 >= end_s {
        corners.push((end_s, soonest.1));
    }
    corners.push(latest);
    corners
}

fn start(forecast: &Forecast, range: Range) -> Place {
    (seconds(forecast.from.0, range), forecast.from.1)
}

/// Where it reaches its value, or the end of the range.
fn reached(forecast: &Forecast, at: Timestamp, range: Range) -> Place {
    let ((from_s, from), end_s) = (start(forecast, range), range.seconds());
    let at_s = seconds(at, range).max(from_s);
    if at_s <= end_s {
        return (at_s, forecast.value);
    }
    (
        end_s,
        from + (forecast.value - from) * (end_s - from_s) / (at_s - from_s),
    )
}

fn seconds(at: Timestamp, range: Range) -> f64 {
    Range {
        from: range.from,
        to: at,
    }
    .seconds()
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
    fn courses_end_at_their_value_or_at_the_edge() {
        let range = Range {
            from: at(0),
            to: at(200),
        };
        let near = forecast(120, Some(150), Some(180));
        assert_eq!(line(&near, range), [(100.0, 50.0), (150.0, 100.0)]);
        assert_eq!(
            area(&near, range),
            [(100.0, 50.0), (120.0, 100.0), (180.0, 100.0)]
        );
        let far = forecast(150, Some(300), Some(500));
        assert_eq!(line(&far, range), [(100.0, 50.0), (200.0, 75.0)]);
        assert_eq!(
            area(&far, range),
            [(100.0, 50.0), (150.0, 100.0), (200.0, 100.0), (200.0, 62.5)]
        );
        let never = forecast(300, None, None);
        assert_eq!(line(&never, range), []);
        assert_eq!(
            area(&never, range),
            [(100.0, 50.0), (200.0, 75.0), (200.0, 50.0)]
        );
    }
}
