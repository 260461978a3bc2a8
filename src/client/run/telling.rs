//! Tells the daemon of runs, and never holds the command's user up for long: not for a daemon that is mute, and not
//! against a signal.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::error::Elapsed;
use tokio_util::sync::CancellationToken;

use super::child::Signals;
use crate::client::Daemon;
use crate::web::PutJob;

/// The command's user waits so long for a daemon that is mute: once for a beginning, and once for an end.
const TELLING_LIMIT: Duration = Duration::from_secs(1);
/// Before the end of a job is told again, for a daemon that is just being restarted.
const PAUSES: [Duration; 3] = [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2)];
/// While the command runs it is told again so often: a job of which nobody tells for two minutes is taken for abandoned,
/// and a daemon that was not there at the beginning hears of it.
const TELL_EVERY: Duration = Duration::from_secs(30);

pub struct Telling {
    daemon: Daemon,
    /// It was waited for in vain at a beginning, or at an end; not again, in all runs.
    was_mute_at_beginning: bool,
    was_mute_at_end: bool,
}

/// A job that is being told of while it runs.
pub struct Beginning {
    over: CancellationToken,
    told: JoinHandle<DaemonReply>,
}

/// What came of it: whether anybody listened, and whether the last word was left without an answer.
#[derive(Clone, Copy, Default)]
struct DaemonReply {
    ever: bool,
    is_mute: bool,
}

impl Telling {
    pub fn to(daemon: &Daemon) -> Self {
        let daemon = daemon.hearing_within(TELLING_LIMIT);
        Self { daemon, was_mute_at_beginning: false, was_mute_at_end: false }
    }

    /// Tells of a job that runs, beside it.
    pub fn begin(&self, key: &str, begun: &PutJob) -> Beginning {
        let over = CancellationToken::new();
        let told = tokio::spawn(tell_until(over.clone(), self.daemon.clone(), key.into(), begun.clone()));
        Beginning { over, told }
    }

    /// Tells of a job's end. A signal ends that at once.
    pub async fn end(&mut self, key: &str, put: &PutJob, begun: Option<Beginning>, signals: &mut Signals) {
        let told = tokio::select! {
            told = self.tell(key, put, begun) => told,
            _ = signals.ending() => {
                super::complain("the job may not be recorded: a signal came while the daemon was told of it");
                return;
            }
        };
        if let Err(error) = told {
            let what = if error.is::<Elapsed>() { "may not be" } else { "was not" };
            super::complain(&format!("the job {what} recorded: {error:#}"));
        }
    }

    /// The end says all that the beginning said. It is tried again only where somebody listened before.
    async fn tell(&mut self, key: &str, put: &PutJob, begun: Option<Beginning>) -> anyhow::Result<()> {
        let heard = match begun {
            Some(begun) => begun.over(self.was_mute_at_beginning).await,
            None => DaemonReply::default(),
        };
        self.was_mute_at_beginning |= heard.is_mute;
        if self.was_mute_at_end && !heard.ever {
            anyhow::bail!("the daemon did not answer before and is not waited for again");
        }
        let mut told = self.daemon.put_job(key, put).await;
        for pause in PAUSES.into_iter().filter(|_| heard.ever) {
            // Who is mute is not being restarted.
            if told.as_ref().map_or_else(|error| error.is::<Elapsed>(), |_| true) {
                break;
            }
            tokio::time::sleep(pause).await;
            told = self.daemon.put_job(key, put).await;
        }
        self.was_mute_at_end |= told.as_ref().is_err_and(|error| error.is::<Elapsed>());
        told.map(drop)
    }
}

impl Beginning {
    /// Tells no more; a word that is under way is waited for, unless that was in vain before.
    async fn over(mut self, is_in_vain: bool) -> DaemonReply {
        self.over.cancel();
        if is_in_vain && !self.told.is_finished() {
            let at_once = tokio::time::timeout(Duration::from_millis(1), &mut self.told).await;
            return at_once.ok().and_then(Result::ok).unwrap_or(DaemonReply { ever: false, is_mute: true });
        }
        (&mut self.told).await.unwrap_or_default()
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        self.told.abort();
    }
}

/// Tells of a job that runs, at once and then again, until it is over.
async fn tell_until(over: CancellationToken, daemon: Daemon, key: String, begun: PutJob) -> DaemonReply {
    let mut heard = DaemonReply::default();
    loop {
        let told = daemon.put_job(&key, &begun).await;
        heard.ever |= told.is_ok();
        heard.is_mute = told.is_err_and(|error| error.is::<Elapsed>());
        tokio::select! {
            () = over.cancelled() => return heard,
            () = tokio::time::sleep(TELL_EVERY) => {}
        }
    }
}
