//! Sends stored ticks to a receiver of Prometheus remote write, such as VictoriaMetrics, Mimir or Prometheus.
//!
//! Ticks are read from the store at every look, so nothing is kept for a receiver that is down. What was missed in an outage
//! follows in order, beside the newest ticks. The task never waits for the loop, nor the loop for it; what was sent goes
//! back to the loop, which stores it.

mod plan;
mod request;
mod task;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use utoipa::ToSchema;

use crate::config::{Config, ConfigError, RemoteWriteSettings};
use crate::store::{Progress, StoreReader};
use crate::units::{count_text, duration_text};
use request::Endpoint;
pub use request::{ExternalLabels, encoded};
use task::RemoteWriteTask;

/// What was sent is stored at most this often. After a kill, what was sent since is sent again. Live requests are rarer, so
/// each of them is stored.
const STORE_EVERY: Duration = Duration::from_secs(4);

/// The running task. It ends when this is dropped.
pub struct RemoteWrite {
    progress: watch::Receiver<Option<Progress>>,
    state: watch::Receiver<RemoteWriteState>,
    /// What the loop stored last, and when.
    stored: Option<Progress>,
    store_at: Instant,
    _task: JoinSet<()>,
}

impl RemoteWrite {
    /// Starts on `runtime`.
    pub fn start(
        settings: &RemoteWriteSettings,
        labels: ExternalLabels,
        store: StoreReader,
        runtime: &Handle,
    ) -> Result<Self, String> {
        let (progresses, progress) = watch::channel(None);
        let (states, state) = watch::channel(RemoteWriteState::default());
        let endpoint = {
            let _entered = runtime.enter();
            Endpoint::new(settings)?
        };
        let mut tasks = JoinSet::new();
        tasks.spawn_on(
            RemoteWriteTask::new(endpoint, labels, store, progresses, states).serve(),
            runtime,
        );
        Ok(Self {
            progress,
            state,
            stored: None,
            store_at: Instant::now(),
            _task: tasks,
        })
    }

    /// Waits until there is something new to store, at most as often as `STORE_EVERY` says.
    pub async fn next_progress(&mut self) -> Progress {
        loop {
            sleep_until(self.store_at).await;
            if self.progress.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
            if let Some(progress) = self.unstored() {
                return progress;
            }
        }
    }

    /// What is not stored yet, if anything.
    pub fn unstored(&mut self) -> Option<Progress> {
        let progress = self.progress.borrow_and_update().clone()?;
        if self.stored.as_ref() == Some(&progress) {
            return None;
        }
        self.store_at = Instant::now() + STORE_EVERY;
        self.stored = Some(progress.clone());
        Some(progress)
    }

    pub fn state(&self) -> RemoteWriteState {
        self.state.borrow().clone()
    }
}

/// What pages, API and metrics show of remote write, since the start of cowbell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RemoteWriteState {
    pub sent_samples: u64,
    /// Samples in refused requests.
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

/// Fails if nothing could be sent with these settings.
pub fn check(config: &Config) -> Result<(), ConfigError> {
    if let Some(settings) = &config.remote_write {
        Endpoint::new(settings).map_err(|why| ConfigError::option("[remote_write]", &why))?;
    }
    Ok(())
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
