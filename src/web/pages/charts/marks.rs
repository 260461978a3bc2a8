//! What happened in a range: alerts, starts of cowbell, and devices that disappeared.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::alert::{Alert, Severity};
use crate::chart::{Mark, MarkKind};
use crate::present::Present;
use crate::series::{Range, Series};
use crate::web::Site;

/// More marks would hide the lines.
const MOST_ALERTS: usize = 50;
/// So many ticks of the host after a device's last one: it is gone, not late.
const GONE_TICKS: usize = 3;

/// Alerts that were raised or cleared, and the start of this process.
pub async fn marks(site: &Site, present: &Present, range: Range) -> Vec<Mark> {
    // Without the database, those in memory are shown.
    let mut alerts = site.store.alerts_of(range, MOST_ALERTS).await.unwrap_or_default();
    alerts.retain(|stored| present.alerts.iter().all(|alert| alert.id != stored.id));
    alerts.extend(present.alerts.iter().cloned());
    let started = Mark { at: present.started_at, text: "cowbell started".into(), kind: MarkKind::Change };
    let marks = alerts.iter().flat_map(of_alert).chain(site.commands.is_some().then_some(started));
    marks.filter(|mark| range.contains(mark.at)).collect()
}

fn of_alert(alert: &Alert) -> Vec<Mark> {
    let subject = alert.volume().unwrap_or_else(|| "cowbell".into());
    let text = |what: &str| format!("{subject}: {} {what}", alert.rule.text());
    let raised = Mark {
        at: alert.raised_at,
        text: text("raised"),
        kind: MarkKind::Raised(if alert.worse_at.is_some() { Severity::Warning } else { alert.worst }),
    };
    let worse =
        alert.worse_at.map(|at| Mark { at, text: text("critical"), kind: MarkKind::Raised(alert.worst) });
    let cleared =
        alert.cleared_at.map(|at| Mark { at, text: text(alert.end_text()), kind: MarkKind::Cleared });
    [Some(raised), worse, cleared].into_iter().flatten().collect()
}

/// Devices that have no more points, although the host has. One mark for each instant.
pub fn gone<'a>(host: &Series, lines: impl Iterator<Item = (&'a str, &'a Series)>) -> Vec<Mark> {
    let mut gone: BTreeMap<Timestamp, Vec<&str>> = BTreeMap::new();
    for (name, series) in lines {
        let Some(last) = series.points.last().map(|point| point.t) else { continue };
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
