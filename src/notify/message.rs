//! Alerts as receivers get them: the newest state of each, and a message of one or more of them in words.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::alert::{Alert, AlertText, Rule, Severity};
use crate::channel::{Message, MessageAlert};

/// An alert as receivers get it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlertState {
    pub status: AlertStatus,
    #[serde(flatten)]
    pub alert: Alert,
}

impl AlertState {
    pub fn new(alert: &Alert) -> Self {
        let status = if alert.cleared_at.is_some() {
            AlertStatus::Cleared
        } else {
            AlertStatus::Raised
        };
        Self {
            status,
            alert: alert.clone(),
        }
    }

    pub fn is_over(&self) -> bool {
        self.status == AlertStatus::Cleared
    }

    /// `warning: snapshot fill of vg0/mysql_snapshot`
    pub fn title(&self) -> String {
        let alert = &self.alert;
        let status = match self.status {
            AlertStatus::Raised => alert.severity.text(),
            AlertStatus::Cleared => alert.end_text(),
        };
        let rule = alert.rule.text();
        match alert.volume() {
            Some(volume) => format!("{status}: {rule} of {volume}"),
            None => format!("{status}: {rule}"),
        }
    }

    /// A paragraph of a message.
    fn text(&self) -> String {
        let alert = &self.alert;
        let raised = alert.raised_at.strftime("Raised %Y-%m-%d %H:%M:%S UTC");
        let mut text = format!("{}\n{}\n{raised}", self.title(), alert.sentence());
        if let Some(at) = alert.cleared_at {
            text += &at.strftime(", over %Y-%m-%d %H:%M:%S UTC").to_string();
        }
        text + ".\n"
    }

    fn for_message(&self, host: &str) -> MessageAlert {
        let alert = &self.alert;
        let fields = match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        };
        MessageAlert {
            fields,
            title: self.title(),
            volume: alert.volume().unwrap_or_else(|| "cowbell".into()),
            key: format!("{host}-{}-{}", alert.id, alert.raised_at.as_second()),
        }
    }

    /// Orders states by importance: open ones first, then critical ones, then the oldest.
    pub fn rank(&self) -> (bool, std::cmp::Reverse<Severity>, i64) {
        (
            self.is_over(),
            std::cmp::Reverse(self.alert.severity),
            self.alert.id,
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertStatus {
    Raised,
    Cleared,
}

impl AlertStatus {
    pub fn text(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Cleared => "cleared",
        }
    }
}

/// The message about these alerts; `None` without any.
pub fn message(host: &str, mut states: Vec<AlertState>) -> Option<Message> {
    states.sort_by_key(AlertState::rank);
    let (first, others) = states.split_first()?;
    let mut title = format!("{host}: {}", first.title());
    if !others.is_empty() {
        title += &format!(", and {} more", others.len());
    }
    let paragraphs: Vec<String> = states.iter().map(AlertState::text).collect();
    Some(Message {
        host: host.into(),
        title,
        text: paragraphs.join("\n"),
        first: first.for_message(host),
        others: others.iter().map(|state| state.for_message(host)).collect(),
        is_test: false,
    })
}

/// A message that says that it is a test.
pub fn test_message(host: &str) -> Message {
    let state = AlertState::new(&test_alert(host));
    Message {
        host: host.into(),
        title: format!("{host}: TEST: {}", state.title()),
        text: state.text(),
        first: state.for_message(host),
        others: Vec::new(),
        is_test: true,
    }
}

fn test_alert(host: &str) -> Alert {
    let (rule, severity) = (Rule::SnapshotFill, Severity::Warning);
    Alert {
        vg: "vg0".into(),
        lv: "test".into(),
        value: Some(70.0),
        text: AlertText::new(
            format!("This is a test of cowbell on {host}: no volume is concerned."),
            "",
        ),
        ..Alert::new(0, rule, severity, "test", Timestamp::now())
    }
}

/// Messages of all kinds, by which templates are checked: a test, and several alerts, raised and cleared.
pub fn samples(host: &str) -> Vec<Message> {
    let raised = test_alert(host);
    let own = Alert {
        vg: String::new(),
        lv: String::new(),
        value: None,
        ..raised.clone()
    };
    let cleared = Alert {
        cleared_at: Some(raised.raised_at),
        worst: Severity::Critical,
        ..raised.clone()
    };
    let critical = Alert {
        severity: Severity::Critical,
        worst: Severity::Critical,
        ..raised.clone()
    };
    let mut messages = vec![test_message(host)];
    for alerts in [&[&raised, &cleared, &own][..], &[&critical], &[&cleared]] {
        let states = alerts.iter().map(|alert| AlertState::new(alert));
        messages.extend(message(host, states.collect()));
    }
    messages
}
