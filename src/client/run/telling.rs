//! Tells the daemon of runs, and never holds the command's user up for long: not for a daemon that does not answer, and
//! not against a signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::error::Elapsed;

use super::child::Signals;
use crate::client::Daemon;
use crate::web::{PutJob, ToldJob};

/// Before the end of a job is told again, for a daemon that is just being restarted.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];
/// While the command runs its job is marked again this often: after two minutes of silence it would count as abandoned,
/// and a daemon that was not there at the beginning hears of it.
const TELL_EVERY: Duration = Duration::from_secs(30);

pub struct Telling {
    daemon: Daemon,
    /// The end of a run got no answer in time. The next one is not waited for, in all runs.
    is_mute: bool,
}

/// A job that is marked while it runs.
pub struct Beginning {
    telling: JoinHandle<()>,
    /// The daemon has answered.
    was_heard: Arc<AtomicBool>,
}

impl Telling {
    pub fn to(daemon: &Daemon) -> Self {
        Self { daemon: daemon.clone(), is_mute: false }
    }

    /// Tells of a job that runs, beside it.
    pub fn begin(&self, key: &str, begun: &PutJob) -> Beginning {
        let was_heard = Arc::new(AtomicBool::new(false));
        let telling = tell(self.daemon.clone(), key.into(), begun.clone(), Arc::clone(&was_heard));
        Beginning { telling: tokio::spawn(telling), was_heard }
    }

    /// Tells of a job's end, which says all that its beginning said. A signal ends that at once.
    pub async fn end(&mut self, key: &str, put: &PutJob, begun: Option<Beginning>, signals: &mut Signals) {
        let was_heard = begun.is_some_and(|begun| begun.was_heard.load(Ordering::Relaxed));
        let told = tokio::select! {
            told = self.tell_end(key, put, was_heard) => told,
            _ = signals.ending() => {
                super::complain("the job may not be recorded: a signal came while the daemon was told of it");
                return;
            }
        };
        match told {
            Ok(ToldJob { message: None, .. }) => {}
            Ok(ToldJob { message: Some(message), .. }) => super::complain(&format!("the job is {message}")),
            Err(error) if error.is::<Elapsed>() => {
                super::complain(&format!("the job may not be recorded: {error:#}"));
            }
            Err(error) => super::complain(&format!("the job was not recorded: {error:#}")),
        }
    }

    /// It is tried again only where the daemon answered before.
    async fn tell_end(&mut self, key: &str, put: &PutJob, was_heard: bool) -> anyhow::Result<ToldJob> {
        if self.is_mute && !was_heard {
            anyhow::bail!("the daemon did not answer before and is not waited for again");
        }
        let mut told = self.daemon.put_job(key, put).await;
        for pause in PAUSES.into_iter().filter(|_| was_heard) {
            // A daemon that accepts and does not answer is not being restarted.
            if told.as_ref().map_or_else(|error| error.is::<Elapsed>(), |_| true) {
                break;
            }
            tokio::time::sleep(pause).await;
            told = self.daemon.put_job(key, put).await;
        }
        self.is_mute |= told.as_ref().is_err_and(|error| error.is::<Elapsed>());
        told
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

/// Marks a job that runs, at once and then again.
async fn tell(daemon: Daemon, key: String, begun: PutJob, was_heard: Arc<AtomicBool>) {
    loop {
        if daemon.put_job(&key, &begun).await.is_ok() {
            was_heard.store(true, Ordering::Relaxed);
        }
        tokio::time::sleep(TELL_EVERY).await;
    }
}
