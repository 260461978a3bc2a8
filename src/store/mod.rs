//! SQLite and a journal: one writer behind a bounded queue, and readers beside it.
//!
//! The loop queues ticks and records and continues. The writer retries failed writes; the last 20 minutes are read from
//! memory. Operations that do not fit into the queue are counted. Only this module contains SQL.

mod backup;
mod catalog;
mod codec;
mod curves;
mod damage;
mod database;
mod deliveries;
mod export;
mod health;
mod history;
mod journal;
mod paths;
mod plan;
mod position;
mod read;
mod read_view;
mod readers;
mod recent;
mod record_cache;
mod records;
mod retention;
mod rolling;
mod rollup;
mod rows;
mod seal;
mod segment;
mod sent;
mod stream;
mod subject;
#[cfg(test)]
mod tests;
mod tick;
mod tick_table;
mod unsent;
mod words;
mod write_op;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

pub use backup::{Inventory, backup, compact, give_rights, inventory};
pub use damage::with_way_out;
pub use database::try_out;
pub use export::{
    ExportQuery, ExportSummary, Form, OpenMetrics, Resolution, SampleBatch, SegmentSamples,
    SeriesSamples, Target, Text, escaped_label,
};
pub use health::{Health, StorageUsage, stock_of, usual_bytes};
pub use history::{JobPage, JobPlace, JobQuery, StartState, packed};
pub use paths::{existing_path, passing_folder, path};
pub use position::{Position, Progress, Span};
pub use read_view::ReadView;
pub use readers::{ReadError, on_a_thread};
pub use segment::Level;
pub use subject::{SeriesKey, Subject};
pub use tick_table::TickTable;
pub use words::in_words;
pub use write_op::{Gap, WriteError, WriteOp};

use crate::alert::Alert;
use crate::config;
use crate::interval::Interval;
use crate::job::Job;
use crate::units::count_text;
use catalog::{Catalog, Rows};
use paths::InUse;
use readers::Readers;
use recent::{RecentTicks, SegmentNumbering};
use record_cache::RecordCache;
use tick::Tick;
use write_op::{QueueEntry, Reply};
use writer::Context;

/// Maximum operations in the queue: a quarter of an hour of ticks at ten a second, with jobs and alerts.
const QUEUE: usize = 10_000;
/// Maximum rows of a segment, for very short intervals.
const SEGMENT_ROWS: usize = 8_192;
/// Maximum wait for opening the database. After that, watching begins without it.
const OPENING: Duration = Duration::from_secs(10);
/// Maximum wait for the disk when the program ends.
const CLOSING: Duration = Duration::from_secs(5);
/// The reason of a gap whose ticks did not fit into the queue.
const QUEUE_FULL: &str = "the database could not be written for so long that memory was full";

/// The loop's end of the queue.
pub struct StoreWriter {
    holds: TickOrigin,
    queue: mpsc::Sender<QueueEntry>,
    health: watch::Receiver<Health>,
    catalog: Arc<RwLock<Catalog>>,
    recent: Arc<RecentTicks>,
    numbering: SegmentNumbering,
    last: Option<Arc<Tick>>,
    /// Operations that were queued, and those that did not fit.
    taken: u64,
    lost: AtomicU64,
    /// Ticks that were lost since the queue last had room.
    gap: Option<Gap>,
    /// Devices and volumes that did not fit. They are queued again, since later ticks refer to them.
    unsaved: Rows,
    ended: oneshot::Receiver<()>,
}

/// Reads stored data. Cheap to clone.
#[derive(Clone)]
pub struct StoreReader {
    readers: Readers,
    health: watch::Receiver<Health>,
    /// The lock is held only for a look-up.
    catalog: Arc<RwLock<Catalog>>,
    recent: Arc<RecentTicks>,
    jobs: Arc<RecordCache<Job>>,
    alerts: Arc<RecordCache<Alert>>,
    start: Arc<StartState>,
    keep: config::Store,
}

/// The source of a database's ticks, stored as `user_version`. The two are never mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickOrigin {
    ThisMachine = 0,
    Recording = 1,
}

/// Opens the database at `path`; creates or migrates it if needed.
///
/// Watching does not depend on the database. If it cannot be opened, its error is in the health, ticks stay in memory, and
/// opening is retried. An error is returned only if another cowbell has the database, or if it is for a recording.
pub async fn open(
    path: &Path,
    holds: TickOrigin,
    keep: config::Store,
) -> anyhow::Result<(StoreWriter, StoreReader)> {
    let (report, health) = watch::channel(Health::default());
    let (catalog, recent) = (
        Arc::new(RwLock::new(Catalog::default())),
        Arc::new(RecentTicks::default()),
    );
    let readers = Readers::new(paths::options(path).read_only(true), health.clone());
    let context = Context {
        path: path.to_path_buf(),
        holds,
        keep,
        report,
        recent: Arc::clone(&recent),
        catalog: Arc::clone(&catalog),
        readers: readers.clone(),
    };
    let (queue, queued) = mpsc::channel(QUEUE);
    let (opened, ended) = writer::start(context, queued)?;
    let start = match tokio::time::timeout(OPENING, opened).await {
        Ok(Ok(Ok(state))) => state,
        Ok(Ok(Err(error))) if error.is::<InUse>() || holds == TickOrigin::Recording => {
            return Err(error);
        }
        _ => StartState::unknown(),
    };
    let reader = StoreReader {
        readers,
        health: health.clone(),
        catalog: Arc::clone(&catalog),
        recent: Arc::clone(&recent),
        jobs: Arc::default(),
        alerts: Arc::default(),
        start: Arc::new(start),
        keep,
    };
    let writer = StoreWriter {
        holds,
        queue,
        health,
        catalog,
        recent,
        numbering: SegmentNumbering::new(1),
        last: None,
        taken: 0,
        lost: AtomicU64::new(0),
        gap: None,
        unsaved: Rows::default(),
        ended,
    };
    Ok((writer, reader))
}

impl StoreWriter {
    /// Queues a tick. Its new devices and volumes go before it.
    pub async fn append_tick(&mut self, interval: &Interval) {
        for op in self.tick_ops(interval) {
            self.enqueue(op, None).await;
        }
    }

    /// Queues an operation.
    pub async fn append(&mut self, op: WriteOp) {
        self.enqueue(op, None).await;
    }

    /// Queues an operation. The receiver gets `Ok` when it is committed and synced, and an error as soon as an attempt to
    /// write it fails.
    pub async fn append_acknowledged(
        &mut self,
        op: WriteOp,
    ) -> oneshot::Receiver<Result<(), WriteError>> {
        let (reply, outcome) = oneshot::channel();
        self.enqueue(op, Some(reply)).await;
        outcome
    }

    /// Only a recording waits for room. Watching never does: if the queue is full, the operation is dropped and counted.
    async fn enqueue(&mut self, op: WriteOp, reply: Option<Reply>) {
        self.taken += 1;
        let queued = QueueEntry {
            op: op.clone(),
            reply,
        };
        let sent = match self.holds {
            TickOrigin::Recording => self.queue.send(queued).await.map_err(|error| error.0),
            TickOrigin::ThisMachine => self
                .queue
                .try_send(queued)
                .map_err(TrySendError::into_inner),
        };
        match sent {
            Ok(()) => {
                if let WriteOp::Tick(segment, tick) = op {
                    self.recent.put(segment, tick);
                }
            }
            Err(mut queued) => {
                let why = format!("the database cannot be written and {QUEUE} entries are queued");
                queued.report(Err(WriteError::Refused(why)));
                self.lose(op);
            }
        }
    }

    fn tick_ops(&mut self, interval: &Interval) -> impl Iterator<Item = WriteOp> + use<> {
        let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        if self.numbering.is_before(catalog.first_segment) {
            // The catalog belongs to another database than the previous tick.
            self.numbering = SegmentNumbering::new(catalog.first_segment);
            (self.last, self.unsaved) = (None, Rows::default());
        }
        self.unsaved
            .add(catalog.learn(interval).unwrap_or_default());
        let tick = Arc::new(Tick::of(interval, &catalog, self.last.as_deref()));
        let segment = self.numbering.number(tick.at_ms, SEGMENT_ROWS);
        catalog.last_segment = segment;
        drop(catalog);
        self.last = Some(Arc::clone(&tick));
        let rows = std::mem::take(&mut self.unsaved);
        let rows = (!rows.is_empty()).then_some(WriteOp::Catalog(rows));
        let gap = self.gap.take().map(WriteOp::Gap);
        rows.into_iter()
            .chain(gap)
            .chain([WriteOp::Tick(segment, tick)])
    }

    fn lose(&mut self, op: WriteOp) {
        if self.lost.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::error!(
                "the database cannot be written and {QUEUE} entries are queued: new data is dropped"
            );
        }
        match op {
            WriteOp::Catalog(rows) => self.unsaved.add(rows),
            WriteOp::Tick(_, tick) => {
                let gap = self.gap.take().map(|gap| gap.and(tick.at_ms));
                self.gap = Some(gap.unwrap_or_else(|| Gap::of(tick.at_ms, QUEUE_FULL)));
            }
            WriteOp::Gap(gap) => self.gap = Some(gap),
            _ => {}
        }
    }

    /// The state of writing, and the number of operations lost since the start.
    pub fn health(&self) -> (Health, u64) {
        let mut health = self.health.borrow().clone();
        health.error = health.error.take().or_else(|| health.hang());
        let lost = self.lost.load(Ordering::Relaxed) + health.refused;
        (health, lost)
    }

    /// Closes the queue, and waits until everything is written, for five seconds at most.
    pub async fn close(self) {
        drop(self.queue);
        if tokio::time::timeout(CLOSING, self.ended).await.is_err() {
            let lost = self.lost.load(Ordering::Relaxed);
            let health = self.health.borrow();
            let left = (self.taken - lost).saturating_sub(health.written + health.refused);
            let left = count_text(left, "entry", "entries");
            tracing::error!("the disk does not respond: {left} could not be stored");
        }
    }
}
