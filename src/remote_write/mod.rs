//! Sends stored ticks to a receiver of Prometheus remote write, such as VictoriaMetrics, Mimir or Prometheus: 2.0 if it knows
//! that, and 1.0 otherwise.
//!
//! Ticks are read from the store at every look, so nothing is kept for a receiver that is down. What was missed in an outage
//! follows in order, beside the newest ticks. The task never waits for the loop, nor the loop for it; what was sent goes
//! back to the loop, which stores it.

mod backoff;
mod encoding;
mod plan;
mod receiver;
mod state;
mod task;

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::config::{self, ConfigError};
use crate::store::{Progress, StoreReader};
pub use encoding::{ExternalLabels, Version, encoded};
use receiver::Receiver;
pub use state::RemoteWriteState;
use task::Task;

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
    /// Starts on `runtime`; `None` if no receiver is configured.
    pub fn start(
        settings: &config::RemoteWrite,
        labels: ExternalLabels,
        store: StoreReader,
        runtime: &Handle,
    ) -> Result<Option<Self>, String> {
        let Some(url) = settings.url() else {
            return Ok(None);
        };
        let (progresses, progress) = watch::channel(None);
        let (states, state) = watch::channel(RemoteWriteState::default());
        let receiver = {
            let _entered = runtime.enter();
            Receiver::new(url, settings)?
        };
        let mut tasks = JoinSet::new();
        tasks.spawn_on(
            Task::new(receiver, labels, store, progresses, states).serve(),
            runtime,
        );
        Ok(Some(Self {
            progress,
            state,
            stored: None,
            store_at: Instant::now(),
            _task: tasks,
        }))
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

/// Fails if nothing could be sent with these settings.
pub fn check(settings: &config::RemoteWrite) -> Result<(), ConfigError> {
    let Some(url) = settings.url() else {
        return Ok(());
    };
    let receiver = Receiver::new(url, settings);
    receiver
        .map(drop)
        .map_err(|why| ConfigError::option("[remote_write]", &why))
}
