//! `/alerts`: open and cleared alerts, their deliveries, and silences.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use jiff::Timestamp;
use serde::Deserialize;

use super::{Answer, Content, Refresh, fragment_url, moment, shown, zone_name, zoned_moment};
use crate::alert::{Alert, Severity, alike};
use crate::notify::{Delivery, Silence};
use crate::series::Range;
use crate::table::{Cell, Column, Table};
use crate::units::{count_text, duration_text};
use crate::web::answer::{ParsedQuery, Partial};
use crate::web::{Site, escaped};

/// Alerts per page.
const MOST_ALERTS: usize = 200;

#[derive(Template)]
#[template(path = "alerts.html")]
struct Alerts {
    open: Vec<OpenAlerts>,
    cleared: Table,
    silences: Vec<SilenceLine>,
    missing: Option<String>,
    /// The address of the next page.
    older: Option<String>,
}

/// The button that sends test messages.
#[derive(Template)]
#[template(path = "alerts_tools.html")]
struct Tools {
    receivers: usize,
}

/// Alerts that say the same of one volume.
struct OpenAlerts {
    grade: &'static str,
    volume: String,
    sentence: String,
    alerts: Vec<OpenAlert>,
}

struct OpenAlert {
    grade: &'static str,
    rule: String,
    /// What happened to it, a line each.
    life: Vec<String>,
    acknowledgement: String,
    is_acknowledged: bool,
}

struct SilenceLine {
    volumes: String,
    text: String,
    url: String,
}

#[derive(Deserialize)]
pub struct AlertsView {
    /// Alerts with lower IDs are listed.
    before: Option<i64>,
}

pub async fn page(State(site): State<Site>, ParsedQuery(view): ParsedQuery<AlertsView>) -> Answer {
    let present = site.present()?;
    let now = present.interval.at;
    let (
        Partial {
            found: alerts,
            missing,
        },
        next,
    ) = site.alert_page(view.before, MOST_ALERTS).await?;
    let deliveries = site.deliveries(&alerts).await?;
    let life = |alert: &Alert| life(alert, &deliveries, now);
    let (open, cleared): (Vec<&Alert>, Vec<&Alert>) =
        alerts.iter().partition(|alert| alert.cleared_at.is_none());
    let mut open: Vec<&Alert> = open;
    open.sort_by_key(|alert| std::cmp::Reverse(alert.severity));
    let columns = [
        Column::text("State"),
        Column::text("Rule").class("less"),
        Column::text("Volume").class("less"),
        Column::text("Message").class("says"),
        Column::text(format!("Raised ({})", zone_name(now))),
        Column::number("Duration").class("less"),
    ];
    let rows = cleared.iter().map(|alert| row(alert, life(alert), now));
    let query = view
        .before
        .map_or_else(String::new, |before| format!("before={before}"));
    let refresh = Refresh::each_second(fragment_url("/alerts/list", &query));
    let alerts = Alerts {
        cleared: Table::new("Cleared", columns, rows),
        open: alike(open)
            .iter()
            .map(|group| open_alerts(group, life, now))
            .collect(),
        silences: present
            .silences
            .iter()
            .map(|silence| silence_line(silence, now))
            .collect(),
        missing,
        older: next.map(|next| format!("/alerts?before={next}")),
    };
    let tools = shown(&Tools {
        receivers: present.receivers.len(),
    })?;
    Ok(Content {
        tools,
        ..Content::new("Alerts", "/alerts", Some(refresh), &alerts)?
    })
}

fn open_alerts(
    group: &[&Alert],
    life: impl Fn(&Alert) -> Vec<String>,
    now: Timestamp,
) -> OpenAlerts {
    OpenAlerts {
        grade: group[0].severity.text(),
        volume: name(group[0]),
        sentence: group[0].sentence().to_string(),
        alerts: group
            .iter()
            .map(|alert| open_alert(alert, life(alert), now))
            .collect(),
    }
}

fn open_alert(alert: &Alert, life: Vec<String>, now: Timestamp) -> OpenAlert {
    let open = Range {
        from: alert.raised_at,
        to: now,
    };
    let since = format!(
        "raised {}, {} ago",
        zoned_moment(alert.raised_at, now),
        duration_text(open.seconds())
    );
    OpenAlert {
        grade: alert.severity.text(),
        rule: alert.rule.text(),
        life: std::iter::once(since).chain(life).collect(),
        acknowledgement: format!("/api/v1/alerts/{}/acknowledgement", alert.id),
        is_acknowledged: alert.is_acknowledged(now),
    }
}

fn name(alert: &Alert) -> String {
    alert.volume().unwrap_or_else(|| "cowbell".into())
}

fn row(alert: &Alert, life: Vec<String>, now: Timestamp) -> Vec<Cell> {
    let before = match alert.severity {
        Severity::Critical => "critical",
        Severity::Warning => "a warning",
    };
    let state = format!("{}, was {before}", alert.end_text());
    let grade = if alert.recovered { "ok" } else { "unknown" };
    let open = Range {
        from: alert.raised_at,
        to: alert.cleared_at.unwrap_or(now),
    };
    vec![
        Cell::state(&state, grade),
        alert.rule.text().into(),
        name(alert).into(),
        life.into_iter()
            .fold(Cell::sentence(&alert.sentence().to_string()), Cell::small),
        moment(alert.raised_at, now).into(),
        duration_text(open.seconds()).into(),
    ]
}

/// What happened to an alert after it was raised.
fn life(alert: &Alert, deliveries: &BTreeMap<i64, Vec<Delivery>>, now: Timestamp) -> Vec<String> {
    let worse = alert
        .worse_at
        .map(|at| format!("critical since {}", moment(at, now)));
    let acknowledged = alert.acknowledged.as_ref().map(|acknowledged| {
        let until = acknowledged.until.map_or_else(String::new, |until| {
            format!(" until {}", moment(until, now))
        });
        let note = if acknowledged.note.is_empty() {
            String::new()
        } else {
            format!(": {}", acknowledged.note)
        };
        format!("acknowledged {}{until}{note}", moment(acknowledged.at, now))
    });
    let deliveries = deliveries.get(&alert.id).into_iter().flatten();
    let deliveries = deliveries.map(|delivery| delivery_text(delivery, now));
    worse
        .into_iter()
        .chain(acknowledged)
        .chain(deliveries)
        .collect()
}

fn delivery_text(delivery: &Delivery, now: Timestamp) -> String {
    let Delivery {
        receiver,
        answer,
        tries,
        ..
    } = delivery;
    let at = moment(delivery.tried_at, now);
    if delivery.is_delivered {
        let status = delivery.known.map_or("", |known| known.status.text());
        let tries = if *tries > 1 {
            format!(", try {tries}")
        } else {
            String::new()
        };
        return format!("{receiver} got \u{201c}{status}\u{201d} {at}{tries} ({answer})");
    }
    let tries = count_text(u64::from(*tries), "try", "tries");
    format!("{receiver}: not delivered after {tries}, the last {at}: {answer}")
}

fn silence_line(silence: &Silence, now: Timestamp) -> SilenceLine {
    let note = if silence.note.is_empty() {
        String::new()
    } else {
        format!(": {}", silence.note)
    };
    SilenceLine {
        volumes: silence.volumes.as_str().into(),
        text: format!("until {}{note}", zoned_moment(silence.until, now)),
        url: format!(
            "/api/v1/silences?volumes={}",
            escaped(silence.volumes.as_str())
        ),
    }
}
