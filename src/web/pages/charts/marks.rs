//! What happened in a range: alerts, starts of cowbell, and devices that disappeared.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::alert::{Alert, Severity};
use crate::chart::{Mark, MarkKind};
use crate::present::Present;
use crate::series::{Point, Range, Series};
use crate::units::duration_text;
use crate::web::Site;

/// More marks would hide the lines.
const MOST_ALERTS: usize = 50;
/// Of gaps between ticks, the longest.
const MOST_GAPS: usize = 10;
/// So many ticks of the host after a device's last one: it is gone, not late.
const GONE_TICKS: usize = 3;

/// Alerts that were raised or cleared, and the start of this process.
pub async fn marks(site: &Site, present: &Present, range: Range) -> Vec<Mark> {
    // Without the database, those in memory are shown.
    let mut alerts = site
        .store
        .alerts_of(range, MOST_ALERTS)
        .await
        .unwrap_or_default();
    alerts.retain(|stored| present.alerts.iter().all(|alert| alert.id != stored.id));
    alerts.extend(present.alerts.iter().cloned());
    let started = Mark {
        at: present.started_at,
        text: "cowbell started".into(),
        kind: MarkKind::Change,
    };
    let marks = alerts
        .iter()
        .flat_map(of_alert)
        .chain(site.commands.is_some().then_some(started));
    marks.filter(|mark| range.contains(mark.at)).collect()
}

fn of_alert(alert: &Alert) -> Vec<Mark> {
    let subject = alert.volume().unwrap_or_else(|| "cowbell".into());
    let text = |what: &str| format!("{subject}: {} {what}", alert.rule.text());
    let raised = Mark {
        at: alert.raised_at,
        text: text("raised"),
        kind: MarkKind::Raised(if alert.worse_at.is_some() {
            Severity::Warning
        } else {
            alert.worst
        }),
    };
    let worse = alert.worse_at.map(|at| Mark {
        at,
        text: text("critical"),
        kind: MarkKind::Raised(alert.worst),
    });
    let cleared = alert.cleared_at.map(|at| Mark {
        at,
        text: text(alert.end_text()),
        kind: MarkKind::Cleared,
    });
    [Some(raised), worse, cleared]
        .into_iter()
        .flatten()
        .collect()
}

/// Where ticks go on after a time without any: cowbell or the host was down, or suspended. The longest times.
pub fn resumed(host: &Series) -> Vec<Mark> {
    let distance = |pair: &[Point]| {
        (
            pair[1].t,
            Range {
                from: pair[0].t,
                to: pair[1].t,
            }
            .seconds(),
        )
    };
    let distances: Vec<(Timestamp, f64)> = host.points.windows(2).map(distance).collect();
    let mut sorted: Vec<f64> = distances.iter().map(|(_, distance)| *distance).collect();
    sorted.sort_by(f64::total_cmp);
    let Some(usual) = sorted.get(sorted.len() / 2) else {
        return Vec::new();
    };
    let is_long = |distance: f64, usual: f64| distance > GONE_TICKS as f64 * usual;
    // Where the ticks beside it are as long, none is missing.
    let is_gap = |place: usize| {
        let beside = distances
            .get(place + 1)
            .or(distances.get(place.wrapping_sub(1)));
        let (_, distance) = distances[place];
        is_long(distance, *usual) && beside.is_none_or(|(_, beside)| is_long(distance, *beside))
    };
    let mut gaps: Vec<(Timestamp, f64)> = (0..distances.len())
        .filter(|place| is_gap(*place))
        .map(|place| distances[place])
        .collect();
    gaps.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mark = |(at, distance): (Timestamp, f64)| Mark {
        at,
        text: format!("ticks again, after {}", duration_text(distance)),
        kind: MarkKind::Change,
    };
    gaps.into_iter().take(MOST_GAPS).map(mark).collect()
}

/// Devices that have no more points, although the host has. One mark for each instant.
pub fn gone<'a>(host: &Series, lines: impl Iterator<Item = (&'a str, &'a Series)>) -> Vec<Mark> {
    let mut gone: BTreeMap<Timestamp, Vec<&str>> = BTreeMap::new();
    for (name, series) in lines {
        let Some(last) = series.points.last().map(|point| point.t) else {
            continue;
        };
        if host.points.iter().filter(|point| point.t > last).count() >= GONE_TICKS {
            let names = gone.entry(last).or_default();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let mark = |(at, names): (Timestamp, Vec<&str>)| Mark {
        at,
        text: format!("{}: gone", names.join(", ")),
        kind: MarkKind::Change,
    };
    gone.into_iter().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::Point;

    #[test]
    fn a_time_without_ticks_is_marked_at_its_end() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let point = |second| Point {
            t: at(second),
            min: None,
            avg: Some(1.0),
            max: None,
        };
        let host = |seconds: &[i64]| Series {
            points: seconds.iter().copied().map(point).collect(),
        };
        let marks = resumed(&host(&[1, 2, 3, 4, 64, 65, 67]));
        assert_eq!(marks.len(), 1);
        assert_eq!(
            (marks[0].at, &*marks[0].text),
            (at(64), "ticks again, after 60 s")
        );
        assert!(resumed(&host(&[1])).is_empty());
        assert_eq!(
            resumed(&host(&[1, 2, 3, 4, 5, 6, 16, 26, 36])).len(),
            0,
            "longer ticks from then on"
        );
        let often: Vec<i64> = (0..200).map(|number| number + number / 10 * 5).collect();
        assert_eq!(resumed(&host(&often)).len(), MOST_GAPS);
    }
}
