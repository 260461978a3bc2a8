//! What a receiver knows of an alert.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::message::{AlertState, Status};
use crate::alert::Severity;

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
    pub status: Status,
    pub severity: Severity,
    /// When it was sent.
    pub at: Timestamp,
}

impl KnownState {
    pub fn of(state: &AlertState, at: Timestamp) -> Self {
        Self {
            status: state.status,
            severity: state.alert.severity,
            at,
        }
    }
}

impl Delivery {
    /// Whether the receiver needs nothing more to know this state.
    pub fn covers(&self, state: &AlertState) -> bool {
        let is_known = |known: KnownState| {
            known.status == state.status && known.severity >= state.alert.severity
        };
        self.is_delivered && self.known.is_some_and(is_known)
    }
}
