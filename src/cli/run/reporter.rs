//! Reports runs to the daemon, without long delays if the daemon does not answer or a signal arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::error::Elapsed;

use super::child::Signals;
use crate::client::Daemon;
use crate::store::in_words;
use crate::web::{JobReply, PutJob};

/// Pauses before reporting the end again, in case the daemon is restarting.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];
/// A running job is marked this often, since it is abandoned after two minutes, and the daemon may start later.
const MARK_EVERY: Duration = Duration::from_secs(30);

pub struct RunReporter {
    daemon: Daemon,
    /// Set after a timeout: later runs do not wait.
    is_silent: bool,
}

/// A job that is marked while it runs.
pub struct RunningJob {
    marking: JoinHandle<()>,
    /// Whether the daemon has answered.
    is_known: Arc<AtomicBool>,
}

impl RunReporter {
    pub fn to(daemon: &Daemon) -> Self {
        Self {
            daemon: daemon.clone(),
            is_silent: false,
        }
    }

    /// Marks a job while it runs, in a task of its own.
    pub fn start(&self, key: &str, put: &PutJob) -> RunningJob {
        let is_known = Arc::new(AtomicBool::new(false));
        let marking = mark(
            self.daemon.clone(),
            key.into(),
            put.clone(),
            Arc::clone(&is_known),
        );
        RunningJob {
            marking: tokio::spawn(marking),
            is_known,
        }
    }

    /// Reports the end of a job, which includes its start. A signal cancels this.
    pub async fn end(
        &mut self,
        key: &str,
        put: &PutJob,
        running: Option<RunningJob>,
        signals: &mut Signals,
    ) {
        let is_known = running.is_some_and(|running| running.is_known.load(Ordering::Relaxed));
        let answer = tokio::select! {
            answer = self.report_end(key, put, is_known) => answer,
            _ = signals.ending() => {
                super::complain("the job may not be recorded: a signal arrived while it was reported");
                return;
            }
        };
        match answer {
            Ok(JobReply { message, .. }) => {
                if let Some(message) = message {
                    super::complain(&format!("the job is {message}"));
                }
            }
            Err(error) => {
                // The daemon may have taken it before the time was up.
                let what = if error.is::<Elapsed>() {
                    "may not be"
                } else {
                    "was not"
                };
                super::complain(&format!("the job {what} recorded: {}", in_words(&error)));
            }
        }
    }

    /// Retries only if the daemon answered before.
    async fn report_end(
        &mut self,
        key: &str,
        put: &PutJob,
        is_known: bool,
    ) -> anyhow::Result<JobReply> {
        if self.is_silent && !is_known {
            anyhow::bail!("the daemon did not answer before");
        }
        let mut answer = self.daemon.put_job(key, put).await;
        for pause in PAUSES.into_iter().filter(|_| is_known) {
            match &answer {
                // A daemon that accepts connections but does not answer is not restarting.
                Err(error) if !error.is::<Elapsed>() => tokio::time::sleep(pause).await,
                _ => break,
            }
            answer = self.daemon.put_job(key, put).await;
        }
        self.is_silent |= answer.as_ref().is_err_and(|error| error.is::<Elapsed>());
        answer
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        self.marking.abort();
    }
}

/// Marks a running job, at once and then repeatedly.
async fn mark(daemon: Daemon, key: String, put: PutJob, is_known: Arc<AtomicBool>) {
    loop {
        if daemon.put_job(&key, &put).await.is_ok() {
            is_known.store(true, Ordering::Relaxed);
        }
        tokio::time::sleep(MARK_EVERY).await;
    }
}
