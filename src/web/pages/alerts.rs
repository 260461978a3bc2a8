//! `/alerts`: open and cleared alerts, their deliveries, and silences.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use jiff::Timestamp;
use serde::Deserialize;

use super::text::{moment, told, zone_name, zoned_moment};
use super::{Content, PageResult, Refresh};
use crate::alert::{Alert, Severity, alike};
use crate::notify::{Delivery, Silence};
use crate::sentence::Sentence;
use crate::series::Range;
use crate::table::{Cell, Column, Table};
use crate::units::{count_text, duration_text};
use crate::web::answer::{ParsedQuery, Partial};
use crate::web::{SharedSite, escaped};

/// Alerts per page.
const MOST_ALERTS: usize = 200;

#[derive(Template)]
#[template(path = "alerts.html")]
struct AlertsPage {
    open: Vec<AlikeAlerts>,
    cleared: Table,
    silences: Vec<SilenceLine>,
    missing: Option<String>,
    /// The address of the next page.
    older: Option<String>,
}

/// The button that sends test messages.
#[derive(Template)]
#[template(path = "alerts_tools.html")]
struct AlertTools {
    receivers: usize,
}

/// Open alerts that say the same of one volume.
struct AlikeAlerts {
    grade: &'static str,
    volume: String,
    sentence: Sentence,
    alerts: Vec<OpenAlert>,
    /// With spaces in between.
    ids: String,
    are_acknowledged: bool,
}

struct OpenAlert {
    grade: &'static str,
    rule: String,
    /// What happened to it, a line each.
    life: Vec<String>,
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

type Deliveries = BTreeMap<i64, Vec<Delivery>>;

pub async fn page(
    State(site): State<SharedSite>,
    ParsedQuery(view): ParsedQuery<AlertsView>,
) -> PageResult {
    let present = site.present()?;
    let now = present.interval.at;
    let (listed, next) = site.alert_page(view.before, MOST_ALERTS).await?;
    let Partial { found, missing } = listed;
    let deliveries = site.deliveries(&found).await?;
    let is_open = |alert: &&Alert| alert.cleared_at.is_none();
    let (open, cleared): (Vec<&Alert>, Vec<&Alert>) = found.iter().partition(is_open);
    let silences = present.silences.iter();
    let page = AlertsPage {
        open: alike(open, now)
            .iter()
            .map(|alerts| alike_alerts(alerts, &deliveries, now))
            .collect(),
        cleared: cleared_table(together(&cleared), &deliveries, now),
        silences: silences.map(|silence| silence_line(silence, now)).collect(),
        missing,
        older: next.map(|next| format!("/alerts?before={next}")),
    };
    let receivers = present.receivers.len();
    Content::new("Alerts", "/alerts", Refresh::EACH_TICK, &page)?
        .with_tools(&AlertTools { receivers })
}

fn alike_alerts(alerts: &[&Alert], deliveries: &Deliveries, now: Timestamp) -> AlikeAlerts {
    let open = |alert: &&Alert| {
        let seconds = Range::new(alert.raised_at, now).seconds();
        let (at, ago) = (zoned_moment(alert.raised_at, now), duration_text(seconds));
        let mut life = life(alert, deliveries, now);
        life.insert(0, format!("raised {at}, {ago} ago"));
        OpenAlert {
            grade: alert.severity.text(),
            rule: alert.rule.text(),
            life,
        }
    };
    let ids = alerts.iter().map(|alert| alert.id.to_string());
    AlikeAlerts {
        ids: ids.collect::<Vec<_>>().join(" "),
        are_acknowledged: alerts.iter().all(|alert| alert.is_acknowledged(now)),
        grade: alerts[0].severity.text(),
        volume: name(alerts[0]),
        sentence: alerts[0].sentence(),
        alerts: alerts.iter().map(open).collect(),
    }
}

fn name(alert: &Alert) -> String {
    alert.volume().unwrap_or_else(|| "cowbell".into())
}

/// Those of one overflow that ended at the same time.
fn together<'a>(cleared: &[&'a Alert]) -> Vec<Vec<&'a Alert>> {
    let mut groups: Vec<Vec<&Alert>> = Vec::new();
    for alert in cleared {
        let is_same = |other: &Alert| {
            (&other.uuid, other.cleared_at, other.recovered)
                == (&alert.uuid, alert.cleared_at, alert.recovered)
                && other.rule.has_outlook()
                && alert.rule.has_outlook()
        };
        match groups.iter_mut().find(|group| is_same(group[0])) {
            Some(group) => group.push(alert),
            None => groups.push(vec![alert]),
        }
    }
    groups
}

fn cleared_table(cleared: Vec<Vec<&Alert>>, deliveries: &Deliveries, now: Timestamp) -> Table {
    // The latest comes first.
    let raised_at = |alerts: &[&Alert]| alerts[alerts.len() - 1].raised_at;
    let state = |alerts: &[&Alert]| {
        let alert = alerts[0];
        let before = match alerts
            .iter()
            .map(|alert| alert.severity)
            .max()
            .unwrap_or_default()
        {
            Severity::Critical => "critical",
            Severity::Warning => "a warning",
        };
        let grade = if alert.recovered { "ok" } else { "unknown" };
        Cell::state(&format!("{}, was {before}", alert.end_text()), grade)
    };
    let message = |alerts: &[&Alert]| {
        let sentence = Cell::sentence(&told(&alerts[0].sentence(), now));
        let lives = alerts.iter().flat_map(|alert| life(alert, deliveries, now));
        lives.fold(sentence, Cell::small)
    };
    let rules = |alerts: &[&Alert]| {
        let rules: Vec<String> = alerts.iter().map(|alert| alert.rule.text()).collect();
        rules.join(", ")
    };
    Table::of("Cleared", cleared)
        .column(Column::text("State"), |alerts| state(alerts))
        .column(Column::text("Rule").class("less"), |alerts| rules(alerts))
        .column(Column::text("Volume").class("less"), |alerts| {
            name(alerts[0])
        })
        .column(Column::text("Message").class("says"), |alerts| {
            message(alerts)
        })
        .column(
            Column::text(format!("Raised ({})", zone_name(now))),
            |alerts| moment(raised_at(alerts), now),
        )
        .column(Column::number("Duration").class("less"), |alerts| {
            let end = alerts[0].cleared_at.unwrap_or(now);
            duration_text(Range::new(raised_at(alerts), end).seconds())
        })
        .done()
}

/// What happened to an alert after it was raised.
fn life(alert: &Alert, deliveries: &Deliveries, now: Timestamp) -> Vec<String> {
    let mut life = Vec::new();
    if let Some(at) = alert.worse_at {
        life.push(format!("critical since {}", moment(at, now)));
    }
    if let Some(acknowledged) = &alert.acknowledged {
        let mut line = format!("acknowledged {}", moment(acknowledged.at, now));
        if let Some(until) = acknowledged.until {
            line += &format!(" until {}", moment(until, now));
        }
        life.push(line + &with_note(&acknowledged.note));
    }
    let deliveries = deliveries.get(&alert.id).into_iter().flatten();
    life.extend(deliveries.map(|delivery| delivery_text(delivery, now)));
    life
}

fn with_note(note: &str) -> String {
    if note.is_empty() {
        String::new()
    } else {
        format!(": {note}")
    }
}

fn delivery_text(delivery: &Delivery, now: Timestamp) -> String {
    let Delivery {
        receiver,
        answer,
        tries,
        ..
    } = delivery;
    let at = moment(delivery.tried_at, now);
    if !delivery.is_delivered {
        let tries = count_text(u64::from(*tries), "try", "tries");
        return format!("{receiver}: not delivered after {tries}, the last {at}: {answer}");
    }
    let status = delivery.known.map_or("", |known| known.status.text());
    let tries = match tries {
        0 | 1 => String::new(),
        tries => format!(", try {tries}"),
    };
    format!("{receiver} got \u{201c}{status}\u{201d} {at}{tries} ({answer})")
}

fn silence_line(silence: &Silence, now: Timestamp) -> SilenceLine {
    let volumes = silence.volumes.as_str();
    let (until, note) = (zoned_moment(silence.until, now), with_note(&silence.note));
    SilenceLine {
        volumes: volumes.into(),
        text: format!("until {until}{note}"),
        url: format!("/api/v1/silences?volumes={}", escaped(volumes)),
    }
}
