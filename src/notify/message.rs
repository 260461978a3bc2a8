//! Alerts as receivers get them: a message of one or more of them in words.

use std::cmp::Reverse;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::alert::{Alert, AlertText, Rule, Severity};
use crate::channel::{Message, MessageAlert};

/// Orders alerts by importance: open ones first, then critical ones, then what is lost, then the oldest.
pub fn rank(alert: &Alert) -> impl Ord + use<> {
    (
        alert.is_over(),
        Reverse((alert.severity, alert.urgency())),
        alert.id,
    )
}

/// The message about these alerts; `None` without any.
pub fn message(host: &str, mut alerts: Vec<Alert>) -> Option<Message> {
    alerts.sort_by_key(rank);
    let (first, others) = alerts.split_first()?;
    let mut title = format!("{host}: {}", first.title());
    if !others.is_empty() {
        title += &format!(", and {} more", others.len());
    }
    let paragraphs: Vec<String> = alerts.iter().map(paragraph).collect();
    Some(Message {
        host: host.into(),
        title,
        text: paragraphs.join("\n"),
        first: message_alert(first, host),
        others: others
            .iter()
            .map(|alert| message_alert(alert, host))
            .collect(),
        is_test: false,
    })
}

fn paragraph(alert: &Alert) -> String {
    let raised = alert.raised_at.strftime("Raised %Y-%m-%d %H:%M:%S UTC");
    let mut text = format!("{}\n{}\n{raised}", alert.title(), alert.sentence());
    if let Some(at) = alert.cleared_at {
        text += &at.strftime(", over %Y-%m-%d %H:%M:%S UTC").to_string();
    }
    text + ".\n"
}

fn message_alert(alert: &Alert, host: &str) -> MessageAlert {
    let mut fields = match serde_json::to_value(alert) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    fields.insert("status".into(), json!(alert.status()));
    MessageAlert {
        fields,
        title: alert.title(),
        volume: alert.volume().unwrap_or_else(|| "cowbell".into()),
        key: format!("{host}-{}-{}", alert.id, alert.raised_at.as_second()),
    }
}

/// A message that says that it is a test.
pub fn test_message(host: &str) -> Message {
    let alert = test_alert(host);
    Message {
        host: host.into(),
        title: format!("{host}: TEST: {}", alert.title()),
        text: paragraph(&alert),
        first: message_alert(&alert, host),
        others: Vec::new(),
        is_test: true,
    }
}

fn test_alert(host: &str) -> Alert {
    let (rule, severity) = (Rule::SnapshotFill, Severity::Warning);
    let problem = format!("This is a test of cowbell on {host}: no volume is concerned.");
    Alert {
        vg: "vg0".into(),
        lv: "test".into(),
        value: Some(70.0),
        text: AlertText::new(problem, ""),
        ..Alert::new(0, rule, severity, "test", Timestamp::now())
    }
}

/// Messages of all kinds, by which templates are checked: a test, and several alerts, raised and cleared.
pub fn samples(host: &str) -> Vec<Message> {
    let raised = test_alert(host);
    let mut own = raised.clone();
    own.vg.clear();
    own.lv.clear();
    own.value = None;
    let mut cleared = raised.clone();
    cleared.cleared_at = Some(raised.raised_at);
    cleared.worst = Severity::Critical;
    let mut critical = raised.clone();
    critical.severity = Severity::Critical;
    critical.worst = Severity::Critical;
    let several = vec![raised, cleared.clone(), own];
    let mut messages = vec![test_message(host)];
    for alerts in [several, vec![critical], vec![cleared]] {
        messages.extend(message(host, alerts));
    }
    messages
}
