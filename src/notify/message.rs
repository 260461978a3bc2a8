//! What a receiver gets: the newest states of one or more alerts of this host.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::alert::{Alert, Severity};

/// An alert as receivers get it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlertState {
    pub status: Status,
    #[serde(flatten)]
    pub alert: Alert,
}

impl AlertState {
    pub fn new(alert: &Alert) -> Self {
        let status = if alert.cleared_at.is_some() {
            Status::Cleared
        } else {
            Status::Raised
        };
        Self {
            status,
            alert: alert.clone(),
        }
    }

    pub fn is_over(&self) -> bool {
        self.status == Status::Cleared
    }

    /// `warning: snapshot fill of vg0/mysql_snapshot`
    pub fn title(&self) -> String {
        let alert = &self.alert;
        let status = match self.status {
            Status::Raised => alert.severity.text(),
            Status::Cleared if !alert.recovered => "over",
            Status::Cleared => "cleared",
        };
        let volume = alert
            .volume()
            .map_or_else(String::new, |volume| format!(" of {volume}"));
        format!("{status}: {}{volume}", alert.rule.text())
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
pub enum Status {
    Raised,
    Cleared,
}

impl Status {
    pub fn text(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Cleared => "cleared",
        }
    }
}

/// The alerts of one delivery. As JSON, it is the most important alert with its host, and a list `others` if there are
/// more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    pub host: String,
    /// The most important one.
    #[serde(flatten)]
    pub first: AlertState,
    /// The others, the most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<AlertState>,
    /// Whether somebody tests the receiver, and no volume is concerned.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_test: bool,
}

impl Message {
    /// `None` without any alert.
    pub fn of(host: &str, mut states: Vec<AlertState>) -> Option<Self> {
        states.sort_by_key(AlertState::rank);
        let mut states = states.into_iter();
        Some(Self {
            host: host.into(),
            first: states.next()?,
            others: states.collect(),
            is_test: false,
        })
    }

    /// `db1: critical: snapshot fill of vg0/mysql_snapshot, and 2 more`
    pub fn title(&self) -> String {
        let test = if self.is_test { "TEST: " } else { "" };
        let more = match self.others.len() {
            0 => String::new(),
            count => format!(", and {count} more"),
        };
        format!("{}: {test}{}{more}", self.host, self.first.title())
    }

    /// All alerts as plain text, a paragraph each.
    pub fn text(&self) -> String {
        let paragraph = |state: &AlertState| {
            let alert = &state.alert;
            let raised = alert.raised_at.strftime("Raised %Y-%m-%d %H:%M:%S UTC");
            let cleared = alert
                .cleared_at
                .map(|at| at.strftime(", over %Y-%m-%d %H:%M:%S UTC").to_string());
            format!(
                "{}\n{}\n{raised}{}.\n",
                state.title(),
                alert.sentence(),
                cleared.unwrap_or_default()
            )
        };
        self.alerts().map(paragraph).collect::<Vec<_>>().join("\n")
    }

    /// Names one alert, also over restarts.
    pub fn key(&self, state: &AlertState) -> String {
        format!(
            "{}-{}-{}",
            self.host,
            state.alert.id,
            state.alert.raised_at.as_second()
        )
    }

    /// All alerts, the most important first.
    pub fn alerts(&self) -> impl Iterator<Item = &AlertState> {
        std::iter::once(&self.first).chain(&self.others)
    }
}
