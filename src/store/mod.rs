//! SQLite and a journal: one writer behind a bounded queue, and readers beside it.
//!
//! The loop hands over what it saw and goes on; the writer keeps what it cannot write until it can, and what is not yet
//! in the database is read from memory. What did not fit into the queue is counted. Only this module contains SQL.

mod backup;
mod catalog;
mod clock;
mod codec;
mod compact;
mod convert;
mod damage;
mod tick_table;
mod export;
mod health;
mod stock;
mod decoder;
mod load;
mod imported;
mod inspect;
mod job_row;
mod journal;
mod lasting;
mod read_view;
mod open;
mod packed;
mod place;
mod plan;
mod read;
mod readers;
mod record;
mod retention;
mod rolling;
mod rollup;
mod rows;
mod seal;
mod segment;
mod recent;
mod stream;
mod subject;
#[cfg(test)]
mod tests;
mod tick;
mod words;
mod write;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

pub use backup::{backup, give_rights};
pub use compact::compact;
pub use damage::with_way_out;
pub use export::{Ask, Exported, Form, Resolution, Target, Text};
pub use health::Health;
pub use imported::packed;
pub use inspect::{Inventory, inventory};
pub use lasting::StartState;
pub use place::{made_path, passing_folder, path};
pub use read_view::ReadView;
pub use readers::Unanswered;
pub use stock::{LevelUsage, StorageUsage, stock_of, usual_bytes};
pub use subject::{Misnamed, Subject, Wanted};
pub use tick_table::TickTable;
pub use words::in_words;

use crate::alert::Alert;
use crate::config;
use crate::interval::Interval;
use crate::job::Job;
use crate::source::{NoteCommand, RemoveCommand};
use crate::units::count_text;
use catalog::{Catalog, Rows};
pub use load::Gap;
use load::{Queued, QueuedOp, Reply};
use readers::Readers;
use recent::{RecentTicks, SegmentNumbering};
pub use segment::Level;
use tick::Tick;
use write::{Start, Writing};

/// What waits to be written at most: a quarter of an hour of ticks at ten a second, with jobs and alerts.
const QUEUE: usize = 10_000;
/// Rows of a segment at most, should ticks come very often.
const SEGMENT_ROWS: usize = 8_192;

/// When the program ends, a disk that takes nothing is waited for this long.
const CLOSING: Duration = Duration::from_secs(5);

/// What the loop hands over to be kept.
#[derive(Clone, Debug)]
pub enum WriteOp {
    Tick(Arc<Interval>),
    Job(Box<Job>),
    Alert(Box<Alert>),
    /// On a job that ended so long ago that only the database has it.
    Note(NoteCommand),
    Remove(RemoveCommand),
    /// With its file, packed.
    Import(Box<Job>, Arc<[u8]>),
}

/// Where the loop hands over what is to be kept.
pub struct StoreWriter {
    queue: mpsc::Sender<Queued>,
    health: watch::Receiver<Health>,
    catalog: Arc<RwLock<Catalog>>,
    recent: Arc<RecentTicks>,
    numbering: SegmentNumbering,
    last: Option<Arc<Tick>>,
    /// Loads that were handed over, and those that found no room.
    taken: u64,
    lost: AtomicU64,
    /// Ticks that were lost since the queue last had room.
    gap: Option<Gap>,
    /// Devices and volumes that found no room: ticks that are kept later speak of them.
    unkept: Rows,
    done: oneshot::Receiver<()>,
}

/// What was kept, to be asked. Cheap to clone.
#[derive(Clone)]
pub struct StoreReader {
    path: PathBuf,
    readers: Readers,
    health: watch::Receiver<Health>,
    /// Held for as long as it takes to look something up.
    catalog: Arc<RwLock<Catalog>>,
    recent: Arc<RecentTicks>,
}

/// What a database holds when it is begun with.
#[derive(Debug, Default)]
struct OpeningState {
    catalog: Catalog,
    last_instant_ms: Option<i64>,
    next_segment: i64,
}

/// Whose ticks a database holds: the two are never mixed. Kept in the file as its `user_version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    ThisMachine = 0,
    ARecording = 1,
}

/// Opens the database at `path`, making or migrating it. Errors are one sentence each, and leave it as it was.
///
/// A disk that is full is no error: it is gone on from memory, and the database opened when there is room.
pub async fn open(
    path: &Path,
    holds: Holds,
    keep: config::Store,
) -> anyhow::Result<(StoreWriter, StoreReader)> {
    let (report, health) = watch::channel(Health::default());
    let recent = Arc::new(RecentTicks::default());
    let writing = Writing { path: path.to_path_buf(), holds, keep, report, recent: Arc::clone(&recent) };
    let (begun, start) = match write::Writer::open(&writing).await {
        Ok(mut writer) => (writer.begun().await?, Start::Now(Box::new(writer))),
        Err(error) if place::is_on_full_disk(path) => {
            let Ok(begun) = open::what_is_there(path).await else { return Err(error) };
            writing.cannot_open(&error);
            (begun, Start::Later(writing))
        }
        Err(error) => return Err(error),
    };
    recent.begin(begun.last_instant_ms);
    let catalog = Arc::new(RwLock::new(begun.catalog));
    let reader = StoreReader {
        path: path.to_path_buf(),
        readers: Readers::new(path, health.clone()),
        health: health.clone(),
        catalog: Arc::clone(&catalog),
        recent: Arc::clone(&recent),
    };
    let (queue, loads) = mpsc::channel(QUEUE);
    let done = write::start(start, loads)?;
    let (numbering, lost) = (SegmentNumbering::new(begun.next_segment), AtomicU64::new(0));
    Ok((
        StoreWriter {
            queue,
            health,
            catalog,
            recent,
            numbering,
            last: None,
            taken: 0,
            lost,
            gap: None,
            unkept: Rows::default(),
            done,
        },
        reader,
    ))
}

/// Whether `serve` could use the database; nothing is changed or left behind.
pub async fn try_out(path: &Path, is_named: bool) -> anyhow::Result<()> {
    open::try_out(path, is_named).await
}

impl StoreWriter {
    /// Queues an operation without waiting. When the queue is full the operation is dropped and counted.
    pub fn append(&mut self, op: WriteOp) {
        self.queue_all(op, None);
    }

    /// Queues an operation as [`Self::append`] does. The receiver gets `Ok` when the operation is committed and synced, and
    /// `Err` with a sentence as soon as an attempt to write it fails; it is then held in memory and tried again.
    pub fn append_acknowledged(&mut self, op: WriteOp) -> oneshot::Receiver<Result<(), String>> {
        let (reply, outcome) = oneshot::channel();
        self.queue_all(op, Some(reply));
        outcome
    }

    fn queue_all(&mut self, op: WriteOp, mut reply: Option<Reply>) {
        for op in self.loads(op) {
            self.taken += 1;
            let is_last = !matches!(op, QueuedOp::Rows(_) | QueuedOp::Gap(_));
            let reply = if is_last { reply.take() } else { None };
            match self.queue.try_send(Queued::new(op.clone(), reply)) {
                Ok(()) => self.shelve(op),
                Err(
                    mpsc::error::TrySendError::Full(mut queued)
                    | mpsc::error::TrySendError::Closed(mut queued),
                ) => {
                    queued.report(Err(format!(
                        "the database cannot be written and {QUEUE} entries are queued"
                    )));
                    self.lose(&op);
                }
            }
        }
    }

    /// Queues an operation, waiting for room: for a recording, which has the time.
    pub async fn append_when_there_is_room(&mut self, op: WriteOp) {
        for op in self.loads(op) {
            self.taken += 1;
            match self.queue.send(Queued::new(op.clone(), None)).await {
                Ok(()) => self.shelve(op),
                Err(_) => self.lose(&op),
            }
        }
    }

    /// What is new of devices and volumes goes before the tick that has them.
    fn loads(&mut self, entry: WriteOp) -> Vec<QueuedOp> {
        match entry {
            WriteOp::Job(job) => vec![QueuedOp::Job(job)],
            WriteOp::Alert(alert) => vec![QueuedOp::Alert(alert)],
            WriteOp::Note(noted) => vec![QueuedOp::Note(noted)],
            WriteOp::Remove(removed) => vec![QueuedOp::Remove(removed)],
            WriteOp::Import(job, file) => vec![QueuedOp::Import(job, file)],
            WriteOp::Tick(interval) => {
                let mut catalog = self.catalog.write().unwrap_or_else(std::sync::PoisonError::into_inner);
                self.unkept.add(catalog.learn(&interval).unwrap_or_default());
                let tick = Arc::new(Tick::of(&interval, &catalog, self.last.as_deref()));
                drop(catalog);
                let segment = self.numbering.number(tick.at_ms, SEGMENT_ROWS);
                self.last = Some(Arc::clone(&tick));
                let rows = std::mem::take(&mut self.unkept);
                let rows = (!rows.is_empty()).then_some(QueuedOp::Rows(rows));
                let gap = self.gap.take().map(QueuedOp::Gap);
                rows.into_iter().chain(gap).chain([QueuedOp::Tick(segment, tick)]).collect()
            }
        }
    }

    fn shelve(&self, load: QueuedOp) {
        if let QueuedOp::Tick(segment, tick) = load {
            self.recent.put(segment, tick);
        }
    }

    fn lose(&mut self, load: &QueuedOp) {
        if self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!(
                "the database takes nothing and {QUEUE} entries wait: what comes now is not kept"
            );
        }
        if let QueuedOp::Rows(rows) = load {
            self.unkept.add(rows.clone());
        }
        self.gap = match load {
            QueuedOp::Tick(_, tick) => Some(Gap::with(self.gap.take(), tick.at_ms)),
            QueuedOp::Gap(gap) => Some(gap.clone()),
            _ => self.gap.take(),
        };
    }

    /// How writing goes, with the number of entries that could not be kept since the start.
    pub fn health(&self) -> (Health, u64) {
        let mut health = self.health.borrow().clone();
        health.error = health.error.take().or_else(|| health.hang());
        let lost = self.lost.load(Ordering::Relaxed) + health.refused;
        (health, lost)
    }

    /// Takes no more entries, and waits until all are written, or five seconds are over.
    pub async fn close(self) {
        drop(self.queue);
        match tokio::time::timeout(CLOSING, self.done).await {
            Ok(Ok(())) => {}
            // It waits still, or ended before it could open the database.
            Ok(Err(_)) | Err(_) => {
                let lost = self.lost.load(Ordering::Relaxed);
                let health = self.health.borrow();
                let left = (self.taken - lost).saturating_sub(health.written + health.refused);
                let left = count_text(left, "entry", "entries");
                tracing::error!("the disk takes nothing: {left} could not be kept");
            }
        }
    }
}
