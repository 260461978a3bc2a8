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
        let status = if alert.cleared_at.is_some() { Status::Cleared } else { Status::Raised };
        Self { status, alert: alert.clone() }
    }

    pub fn is_over(&self) -> bool {
        self.status == Status::Cleared
    }

    /// Orders states by importance: open ones first, then critical ones, then the oldest.
    pub fn rank(&self) -> (bool, std::cmp::Reverse<Severity>, i64) {
        (self.is_over(), std::cmp::Reverse(self.alert.severity), self.alert.id)
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
}

impl Message {
    /// `None` without any alert.
    pub fn of(host: &str, mut states: Vec<AlertState>) -> Option<Self> {
        states.sort_by_key(AlertState::rank);
        let mut states = states.into_iter();
        Some(Self { host: host.into(), first: states.next()?, others: states.collect() })
    }

    /// All alerts, the most important first.
    pub fn alerts(&self) -> impl Iterator<Item = &AlertState> {
        std::iter::once(&self.first).chain(&self.others)
    }
}
