//! The one writer, on a thread of its own: a tick becomes a record of the journal, a complete segment is sealed into the
//! database, and what a disk does not take is held until it does.
//!
//! Here is what it holds, and its thread. What it does stands beside, by what it does it to.

mod batch;
mod lasting;
mod opening;
mod segments;
mod sync;
mod tidy;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use sqlx::SqliteConnection;
use tokio::sync::{mpsc, oneshot, watch};

use super::clock::Clock;
use super::journal::Journal;
use super::load::Queued;
use super::recent::RecentTicks;
use super::record::Recorder;
use super::retention::Retention;
use super::words::in_words;
use super::{Health, Holds};
use crate::config;
use segments::Window;
use sync::Unsynced;

/// After something that failed, the next try.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

pub struct Writer {
    path: PathBuf,
    connection: SqliteConnection,
    /// Something failed on the connection, which may be in the middle of a transaction for ever.
    is_broken: bool,
    journal: Journal,
    report: watch::Sender<Health>,
    recent: Arc<RecentTicks>,
    recorder: Recorder,
    /// The segment to which ticks are added.
    window: Option<Window>,
    /// Segments that are complete and not yet in the database, the oldest first; each has a file of the journal.
    complete: Vec<Window>,
    next_segment: i64,
    /// Why the oldest complete segment is not in the database yet.
    sealing: Option<String>,
    /// Why what is old is not deleted.
    tidying: Option<String>,
    /// What has not reached the disk yet. A recording's ticks need not: it can be played again.
    unsynced: Option<Unsynced>,
    holds: Holds,
    clock: Clock,
    retention: Retention,
    /// When old things are next looked for.
    tidy_at_ms: i64,
    /// Loads that broke a constraint since the health was last told.
    refused: u64,
    /// Held for as long as anything is written: no other may write here meanwhile.
    _lock: File,
}

/// What there is to be written to, and who is told how it goes.
pub struct Writing {
    pub path: PathBuf,
    pub holds: Holds,
    pub keep: config::Store,
    pub report: watch::Sender<Health>,
    pub recent: Arc<RecentTicks>,
}

impl Writing {
    pub fn cannot_open(&self, error: &anyhow::Error) {
        self.report.send_modify(|health| {
            if health.error.is_none() {
                tracing::error!("going on from memory: {}", in_words(error));
            }
            health.error = Some(in_words(error));
        });
    }
}

/// When the writer begins.
pub enum Start {
    Now(Box<Writer>),
    /// As soon as the database can be opened.
    Later(Writing),
}

/// Runs the writer on a thread of its own. It ends when the queue is closed and what can be kept is kept; the receiver
/// is told then.
pub fn start(start: Start, loads: mpsc::Receiver<Queued>) -> anyhow::Result<oneshot::Receiver<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (ended, done) = oneshot::channel();
    std::thread::Builder::new()
        .name("store".into())
        .spawn(move || {
            runtime.block_on(async {
                if let Some(writer) = begin(start, &loads).await {
                    writer.run(loads).await;
                    // Whoever waited for longer than it took is gone.
                    let _ = ended.send(());
                }
            });
        })
        .context("cannot start the thread that writes")?;
    Ok(done)
}

/// `None` where the program ended before the database could be opened.
async fn begin(start: Start, loads: &mpsc::Receiver<Queued>) -> Option<Writer> {
    let writing = match start {
        Start::Now(writer) => return Some(*writer),
        Start::Later(writing) => writing,
    };
    loop {
        match Writer::open(&writing).await {
            Ok(writer) => {
                tracing::info!("the database {} is open now", writing.path.display());
                return Some(writer);
            }
            Err(error) => writing.cannot_open(&error),
        }
        if loads.is_closed() {
            return None;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}
