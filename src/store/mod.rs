//! SQLite: one writer behind a bounded queue, and readers beside it. Only this module contains SQL.
//!
//! The loop encodes each tick as a compact record (`record.rs`), queues it, and continues. A tick is one row: what differs
//! from the tick before, and a complete record at least every ten minutes. The writer commits ticks every ten seconds, and
//! jobs, alerts and the like at once, with the ticks before them. So a kill or a power cut loses ten seconds of ticks at
//! most, and nothing else. SQLite's write-ahead log with `synchronous=FULL` is the only journal; a commit every ten seconds
//! writes a fifth of what a commit at every tick would (`benches/RESULTS.md`).
//!
//! Every ten minutes become ten rows of a minute and one of ten minutes, in tables of the same form. Charts of more than
//! a few hours read those. Each row is found by one integer, which has its time (`address.rs`), so the tables need no
//! index; in return a clock that goes back begins a new stretch of numbers.
//!
//! The last 20 minutes are read from memory, and all that cannot be written. Failed writes are retried. Operations that do
//! not fit into the queue are counted.

mod address;
mod backup;
mod catalog;
mod damage;
mod database;
mod deliveries;
mod export;
mod health;
mod history;
mod paths;
mod read;
mod read_view;
mod readers;
mod recent;
mod record;
mod records;
mod retention;
mod rollup;
mod scan;
mod stored;
mod subject;
#[cfg(test)]
mod tests;
mod wal;
mod words;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};

pub use address::{Level, Position, Progress, Span};
pub use backup::{Inventory, backup, compact, give_rights, inventory, restore};
pub use damage::with_way_out;
pub use database::try_out;
pub use export::{
    ExportFormat, ExportQuery, ExportSummary, Resolution, SampleBatch, SeriesSamples, Target,
    TickSamples, escaped_label,
};
pub use health::{Health, StorageUsage, stock_of, usual_bytes};
pub use history::{JobPage, JobPlace, JobQuery, StartState, packed};
pub use paths::{existing_path, passing_folder, path};
pub use read::TickTable;
pub use read_view::ReadView;
pub use readers::{ReadError, on_a_thread};
pub use stored::Gap;
pub use subject::{SeriesKey, Subject};
pub use words::in_words;
pub use writer::{WriteError, WriteOp};

use crate::config;
use crate::interval::Interval;
use crate::quantity::{copying_row, volume_row};
use crate::units::count_text;
use address::{Kind, Stream};
use catalog::{Catalog, CatalogRows};
use history::RecordCache;
use paths::InUse;
use readers::Readers;
use recent::{RecentTicks, TickRecord};
use record::Encoder;
use writer::{Context, QueueEntry, WriteReply};

/// Maximum operations in the queue: a quarter of an hour of ticks at ten a second, with jobs and alerts.
const QUEUE: usize = 10_000;
/// Maximum wait for opening the database. After that, watching begins without it.
const OPENING: Duration = Duration::from_secs(10);
/// Maximum wait for the disk when the program ends.
const CLOSING: Duration = Duration::from_secs(5);
/// How often a tick in memory has its decoder, of 7 kB with 30 devices.
const DECODER_EVERY_MS: i64 = 60_000;
/// The reasons of gaps: of ticks with a time that is stored nowhere, and of ticks that did not fit into the queue.
const WRONG_TIME: &str = "their time is before 1970 or after 2527";
const QUEUE_FULL: &str = "the database could not be written for so long that memory was full";

/// The loop's end of the queue.
pub struct StoreWriter {
    holds: TickOrigin,
    queue: mpsc::Sender<QueueEntry>,
    health: watch::Receiver<Health>,
    catalog: Arc<RwLock<Catalog>>,
    recent: Arc<RecentTicks>,
    encoder: Encoder,
    /// The last tick.
    last: Option<Position>,
    /// Of the last tick with a decoder.
    minute: i64,
    /// Of the catalog that has the numbers of the encoder's devices and volumes.
    generation: u64,
    /// Operations that were queued, and those that did not fit.
    taken: u64,
    lost: AtomicU64,
    /// Ticks that were lost since the queue last had room.
    gap: Option<Gap>,
    /// Devices and volumes that did not fit. They are queued again, since later ticks refer to them.
    unsaved: CatalogRows,
    ended: oneshot::Receiver<()>,
}

/// Reads stored data. Cheap to clone.
#[derive(Clone)]
pub struct StoreReader {
    readers: Readers,
    records: Arc<RecordCache>,
    health: watch::Receiver<Health>,
    /// The lock is held only for a look-up.
    catalog: Arc<RwLock<Catalog>>,
    recent: Arc<RecentTicks>,
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
    let catalog = Arc::new(RwLock::new(Catalog::default()));
    let recent = Arc::new(RecentTicks::default());
    let readers = Readers::new(paths::options(path).read_only(true), health.clone());
    let records = Arc::new(RecordCache::default());
    let context = Context {
        path: path.to_path_buf(),
        holds,
        keep,
        report,
        recent: Arc::clone(&recent),
        catalog: Arc::clone(&catalog),
        readers: readers.clone(),
        records: Arc::clone(&records),
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
        records,
        health: health.clone(),
        catalog: Arc::clone(&catalog),
        recent: Arc::clone(&recent),
        start: Arc::new(start),
        keep,
    };
    let writer = StoreWriter {
        holds,
        queue,
        health,
        catalog,
        recent,
        encoder: Encoder::new(Level::Ticks),
        last: None,
        minute: -1,
        generation: u64::MAX,
        taken: 0,
        lost: AtomicU64::new(0),
        gap: None,
        unsaved: CatalogRows::default(),
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
    async fn enqueue(&mut self, op: WriteOp, reply: Option<WriteReply>) {
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
                if let WriteOp::Tick(_, tick) = op {
                    self.recent.put(tick);
                }
            }
            Err(mut queued) => {
                let why = format!("the database cannot be written and {QUEUE} entries are queued");
                queued.report(Err(WriteError::Refused(why)));
                self.lose(op);
            }
        }
    }

    fn tick_ops(&mut self, interval: &Interval) -> Vec<WriteOp> {
        let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
        if self.generation != catalog.generation {
            // The catalog belongs to another database than the previous tick.
            self.generation = catalog.generation;
            self.last = catalog.last;
            self.unsaved = CatalogRows::default();
            self.encoder.restart();
        }
        self.unsaved
            .add(catalog.learn(interval).unwrap_or_default());
        let rows = tick_rows(interval, &catalog);
        drop(catalog);
        let mut ops = Vec::new();
        let learned = std::mem::take(&mut self.unsaved);
        if !learned.is_empty() {
            ops.push(WriteOp::Catalog(learned));
        }
        ops.extend(self.gap.take().map(WriteOp::Gap));
        let at_ms = interval.at.as_millisecond();
        let Some(position) = Position::next(self.last, at_ms) else {
            ops.push(WriteOp::Gap(Gap::of(at_ms, WRONG_TIME)));
            return ops;
        };
        self.last = Some(position);
        let record = self.encoder.encode(position, interval.elapsed_us, &rows);
        let minute = at_ms.div_euclid(DECODER_EVERY_MS);
        let decoder = (self.minute != minute).then(|| Arc::new(self.encoder.decoder()));
        self.minute = minute;
        let record = TickRecord {
            position,
            record: record.into(),
            decoder,
        };
        ops.push(WriteOp::Tick(self.generation, record));
        ops
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
                // The next tick must not depend on it.
                self.encoder.restart();
                let at_ms = tick.position.at_ms;
                self.gap = Some(match self.gap.take() {
                    Some(gap) => gap.and(at_ms),
                    None => Gap::of(at_ms, QUEUE_FULL),
                });
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

/// What is stored of an interval.
fn tick_rows(interval: &Interval, catalog: &Catalog) -> record::Rows {
    record::Rows::collect(Level::Ticks, |push| {
        push(Stream::HOST, &interval.host.0);
        push(Stream::TOTAL, &interval.total().0);
        for (device, done) in interval.topology.devices.iter().zip(&interval.devices) {
            let Some(row) = catalog.device(&device.identity) else {
                continue;
            };
            push(Stream::new(Kind::Device, row), &done.work.0);
            if device.is_pv
                && interval.may_copy(device)
                && let Some(share) = interval.share(device)
            {
                push(Stream::new(Kind::Copying, row), &copying_row(&share));
            }
        }
        for (volume, state) in interval.volumes() {
            if let Some(row) = catalog.volume(&volume.uuid) {
                push(Stream::new(Kind::Volume, row), &volume_row(state));
            }
        }
    })
}
