//! What happened in a range: alerts, notes on jobs, starts of cowbell, and devices that disappeared.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::alert::{Alert, Severity};
use crate::chart::{EventKind, EventMark};
use crate::job::Job;
use crate::present::Present;
use crate::series::{Range, Series};
use crate::units::duration_text;
use crate::web::Site;

/// More marks would hide the lines.
const MOST_ALERTS: usize = 50;
const MOST_NOTES: usize = 50;
/// Of gaps between ticks, the longest.
const MOST_GAPS: usize = 10;
/// So many ticks of the host after a device's last one: it is gone, not late.
const GONE_TICKS: usize = 3;

/// Alerts that were raised or cleared, notes on jobs, and the start of this process.
pub async fn marks(site: &Site, present: &Present, range: Range, jobs: &[Job]) -> Vec<EventMark> {
    // Without the database, those in memory are shown.
    let stored = site.store.alerts_of(range, MOST_ALERTS).await;
    let mut alerts = stored.unwrap_or_default();
    alerts.retain(|stored| present.alerts.iter().all(|alert| alert.id != stored.id));
    alerts.extend(present.alerts.iter().cloned());
    let mut marks: Vec<EventMark> = alerts.iter().flat_map(of_alert).collect();
    if site.commands.is_some() {
        marks.push(change(present.started_at, "cowbell started".into()));
    }
    marks.retain(|mark| range.contains(mark.at));
    let notes = jobs.iter().flat_map(of_notes);
    let notes = notes.filter(|mark| range.contains(mark.at));
    marks.extend(notes.take(MOST_NOTES));
    marks
}

fn change(at: Timestamp, text: String) -> EventMark {
    EventMark {
        at,
        text,
        kind: EventKind::Change,
    }
}

fn of_notes(job: &Job) -> impl Iterator<Item = EventMark> {
    let notes = job.notes.iter();
    notes.map(|note| {
        let text = note.text.trim_end_matches('.');
        change(note.at, format!("{}: {text}", job.name))
    })
}

fn of_alert(alert: &Alert) -> Vec<EventMark> {
    let subject = alert.volume().unwrap_or_else(|| "cowbell".into());
    let rule = alert.rule.text();
    let mark = |at, what: &str, kind| EventMark {
        at,
        text: format!("{subject}: {rule} {what}"),
        kind,
    };
    let first = match alert.worse_at {
        Some(_) => Severity::Warning,
        None => alert.worst,
    };
    let mut marks = vec![mark(alert.raised_at, "raised", EventKind::Raised(first))];
    if let Some(at) = alert.worse_at {
        marks.push(mark(at, "critical", EventKind::Raised(alert.worst)));
    }
    if let Some(at) = alert.cleared_at {
        marks.push(mark(at, alert.end_text(), EventKind::Cleared));
    }
    marks
}

/// Where ticks go on after a time without any: cowbell or the host was down, or suspended. The longest times.
pub fn resumed(host: &Series) -> Vec<EventMark> {
    let pairs = host.points.windows(2);
    let distances: Vec<(Timestamp, f64)> = pairs
        .map(|pair| (pair[1].t, Range::new(pair[0].t, pair[1].t).seconds()))
        .collect();
    let mut sorted: Vec<f64> = distances.iter().map(|(_, distance)| *distance).collect();
    sorted.sort_by(f64::total_cmp);
    let Some(usual) = sorted.get(sorted.len() / 2) else {
        return Vec::new();
    };
    let is_long = |distance: f64, usual: f64| distance > GONE_TICKS as f64 * usual;
    let mut gaps = Vec::new();
    for (place, (at, distance)) in distances.iter().enumerate() {
        let beside = distances
            .get(place + 1)
            .or(distances.get(place.wrapping_sub(1)));
        // Where the ticks beside it are as long, none is missing.
        let is_longer = beside.is_none_or(|(_, beside)| is_long(*distance, *beside));
        if is_longer && is_long(*distance, *usual) {
            gaps.push((*at, *distance));
        }
    }
    gaps.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    gaps.truncate(MOST_GAPS);
    let after = |distance| format!("ticks again, after {}", duration_text(distance));
    let marks = gaps.into_iter();
    marks
        .map(|(at, distance)| change(at, after(distance)))
        .collect()
}

/// Devices that have no more points, although the host has. One mark for each instant.
pub fn gone<'a>(
    host: &Series,
    lines: impl Iterator<Item = (&'a str, &'a Series)>,
) -> Vec<EventMark> {
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
    let marks = gone.into_iter();
    marks
        .map(|(at, names)| change(at, format!("{}: gone", names.join(", "))))
        .collect()
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
