//! What a receiver is to get now: what it knows of an alert, silences, quiet hours, and how often an open alert is repeated.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::alert::{Alert, AlertStatus, Severity};
use crate::config::Pattern;

/// Alerts of these volumes are not delivered until it ends. A new one of the same volumes replaces it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Silence {
    /// A pattern such as `vg0/mysql_*`
    #[schema(value_type = String)]
    pub volumes: Pattern,
    pub until: Timestamp,
    pub note: String,
}

/// What all receivers are to know at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlertsNow {
    /// Open alerts with their current values.
    pub open: Vec<Alert>,
    pub silences: Vec<Silence>,
}

/// What a receiver may get at one time.
pub struct DeliveryPolicy<'a> {
    pub at: Timestamp,
    pub standing: &'a AlertsNow,
    /// Whether warnings wait for the end of quiet hours.
    pub is_quiet: bool,
    /// Repeats open critical alerts after this time; `None` for never.
    pub repeat: Option<Duration>,
    /// Whether each alert is a message of its own.
    pub is_split: bool,
    /// Whether only critical alerts may go now.
    pub only_critical: bool,
}

impl DeliveryPolicy<'_> {
    /// Whether the alert must wait: for the end of a silence, or of quiet hours.
    pub fn is_held(&self, alert: &Alert) -> bool {
        let is_silent = |silence: &Silence| {
            silence.until > self.at && silence.volumes.matches(&alert.vg, &alert.lv)
        };
        (self.is_quiet && alert.worst < Severity::Critical)
            || self.standing.silences.iter().any(is_silent)
    }

    /// Whether an open alert is to be delivered again. An acknowledged one is not.
    pub fn is_repeated(&self, alert: &Alert, known: Option<&KnownState>) -> bool {
        let Some((repeat, known)) = self.repeat.zip(known) else {
            return false;
        };
        // A clock that was set back makes the next repeat late by that much at most once.
        let elapsed = self.at.duration_since(known.at).unsigned_abs();
        let alert = self.current(alert);
        !alert.is_over()
            && alert.severity == Severity::Critical
            && !alert.is_acknowledged(self.at)
            && elapsed >= repeat
    }

    /// The alert with its current value, if it is still open.
    pub fn current<'b>(&'b self, alert: &'b Alert) -> &'b Alert {
        if alert.is_over() {
            return alert;
        }
        let mut open = self.standing.open.iter();
        open.find(|open| open.id == alert.id).unwrap_or(alert)
    }
}

/// An alert's last delivery to a receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    pub alert: i64,
    pub receiver: String,
    /// The last state that the receiver got, or may have got; `null` if none.
    pub known: Option<KnownState>,
    /// Whether the newest state was delivered. Otherwise it is tried again.
    pub is_delivered: bool,
    /// Attempts to deliver this state.
    pub tries: u32,
    pub tried_at: Timestamp,
    /// The receiver's answer, or why the delivery failed.
    pub answer: String,
}

/// A state that a receiver got.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct KnownState {
    pub status: AlertStatus,
    pub severity: Severity,
    /// When it was sent.
    pub at: Timestamp,
}

impl KnownState {
    pub fn of(alert: &Alert, at: Timestamp) -> Self {
        Self {
            status: alert.status(),
            severity: alert.severity,
            at,
        }
    }
}

impl Delivery {
    /// Whether the receiver needs nothing more to know this state of the alert.
    pub fn covers(&self, alert: &Alert) -> bool {
        self.is_delivered
            && self.known.is_some_and(|known| {
                known.status == alert.status() && known.severity >= alert.severity
            })
    }
}
