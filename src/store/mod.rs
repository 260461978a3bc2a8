//! SQLite: one writer behind a bounded queue, and readers beside it.
//!
//! The loop hands over what it saw and goes on; the writer keeps what it cannot write until it can. What did not fit
//! into the queue is counted. Only this module contains SQL.

mod clock;
mod open;
mod packed;
mod read;
mod rows;
mod write;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use sqlx::SqlitePool;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

pub use open::{made_path, passing_folder, path};
pub use read::{Known, Subject, Wanted};

use crate::alert::Alert;
use crate::interval::Interval;
use crate::job::Job;

/// What waits to be written at most: a quarter of an hour of ticks at one a second, with jobs and alerts.
const QUEUE: usize = 1_000;

/// When the program ends, a database that takes nothing is waited for this long.
const CLOSING: Duration = Duration::from_secs(5);

/// What the loop hands over to be kept.
#[derive(Clone, Debug)]
pub enum Entry {
    Tick(Arc<Interval>),
    Job(Box<Job>),
    Alert(Box<Alert>),
}

/// How writing goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    pub error: Option<String>,
    pub took_us: u64,
    /// Entries that are in the database since the start.
    pub written: u64,
    pub last_ok_at: Option<Timestamp>,
}

/// Where the loop hands over what is to be kept.
pub struct Inlet {
    queue: mpsc::Sender<Entry>,
    health: watch::Receiver<Health>,
    /// Entries that were handed over, and those that found no room.
    taken: AtomicU64,
    lost: AtomicU64,
    writer: JoinHandle<()>,
}

/// What was kept, to be asked. Cheap to clone.
#[derive(Clone)]
pub struct Archive {
    readers: SqlitePool,
}

/// Whose ticks a database holds: the two are never mixed. Kept in the file as its `user_version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    ThisMachine = 0,
    ARecording = 1,
}

/// Opens the database at `path`, making or migrating it. Errors are one sentence each, and leave it as it was.
pub async fn open(path: &Path, holds: Holds) -> anyhow::Result<(Inlet, Archive)> {
    let connection = open::for_writing(path, holds).await?;
    let readers = open::for_reading(path);
    let (queue, entries) = mpsc::channel(QUEUE);
    let (report, health) = watch::channel(Health::default());
    let writer = tokio::spawn(write::Writer::new(connection, report).run(entries));
    let (taken, lost) = (AtomicU64::new(0), AtomicU64::new(0));
    Ok((Inlet { queue, health, taken, lost, writer }, Archive { readers }))
}

/// Whether `serve` could use the database; nothing is changed or left behind.
pub async fn try_out(path: &Path, is_named: bool) -> anyhow::Result<()> {
    open::try_out(path, is_named).await
}

impl Inlet {
    /// Hands over an entry without waiting; when the queue is full it is lost, and counted.
    pub fn append(&self, entry: Entry) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        if self.queue.try_send(entry).is_err() && self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!(
                "the database takes nothing and {QUEUE} entries wait: what comes now is not kept"
            );
        }
    }

    /// Hands over an entry, waiting for room: for a recording, which has the time.
    pub async fn append_when_there_is_room(&self, entry: Entry) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        if self.queue.send(entry).await.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How writing goes, with the number of entries that could not be kept since the start.
    pub fn health(&self) -> (Health, u64) {
        (self.health.borrow().clone(), self.lost.load(Ordering::Relaxed))
    }

    /// Takes no more entries, and waits until all are written, or five seconds are over.
    pub async fn close(self) {
        drop(self.queue);
        match tokio::time::timeout(CLOSING, self.writer).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!("the database's writer ended early: {error}"),
            Err(_) => {
                let left = self.taken.into_inner().saturating_sub(self.health.borrow().written);
                tracing::error!("the database takes nothing: {left} entries could not be kept");
            }
        }
    }
}
