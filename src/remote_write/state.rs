//! What pages, API and metrics show of remote write.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::units::{count_text, duration_text};

/// Since the start of cowbell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RemoteWriteState {
    pub sent_samples: u64,
    /// Samples in refused requests, and those that the receiver says it has not written.
    pub dropped_samples: u64,
    /// Requests that the receiver refused for good.
    pub refused_requests: u64,
    /// Requests that failed and were or will be sent again.
    pub failed_requests: u64,
    /// The time between the last tick before the first unsent one and the newest tick; `null` before the first tick.
    pub behind_ms: Option<i64>,
    /// The time between the newest tick that was sent and the newest one.
    pub newest_behind_ms: Option<i64>,
    /// Why the last request failed, if it did.
    pub failure: Option<String>,
}

impl RemoteWriteState {
    /// Such as "12 s behind, 3 requests refused".
    pub fn text(&self) -> String {
        let (figure, remark) = self.texts();
        if remark.is_empty() {
            figure
        } else {
            format!("{figure}, {remark}")
        }
    }

    /// How far it is behind, and what is wrong.
    pub fn texts(&self) -> (String, String) {
        let behind = |ms: i64| format!("{} behind", duration_text(ms as f64 / 1000.0));
        let figure = self.behind_ms.map_or_else(|| "not begun".into(), behind);
        let refused = format!(
            "{} refused",
            count_text(self.refused_requests, "request", "requests")
        );
        let refused = (self.refused_requests > 0).then_some(refused);
        let remark: Vec<String> = refused.into_iter().chain(self.failure.clone()).collect();
        (figure, remark.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_behind_it_is_and_why() {
        let mut state = RemoteWriteState::default();
        assert_eq!(state.text(), "not begun");
        state.behind_ms = Some(12_000);
        assert_eq!(state.text(), "12 s behind");
        state.refused_requests = 3;
        assert_eq!(state.text(), "12 s behind, 3 requests refused");
        state.failure = Some("it answers 503".into());
        assert_eq!(
            state.text(),
            "12 s behind, 3 requests refused; it answers 503"
        );
    }
}
