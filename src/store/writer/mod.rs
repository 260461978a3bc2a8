//! The one writer, on a thread of its own. Ticks are committed every ten seconds, everything else at once; while the disk
//! accepts nothing, all of it stays in memory.
//!
//! The thread reopens the database whenever it is lost: removed, replaced or damaged. Nothing that happens to the database
//! ends the thread.
//!
//! Memory belongs to one database, which is recognised by its identity. If the same database is opened again, memory stays.
//! A new, empty database receives the content of memory. Any other replaces the catalog and the ticks in memory, and
//! receives those that no database has: it could not be read at the start, for instance.

mod batch;

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use batch::Pending;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot, watch};

use super::address::{Level, Position, Progress, Stream, TickWindow};
use super::catalog::{Catalog, CatalogRows, catalog_rows, forget_unseen, identity, write_rows};
use super::database::{self, OpenDatabase};
use super::history::{RecordCache, StartState, start_state};
use super::paths::{self, InUse};
use super::read_view::ReadView;
use super::readers::Readers;
use super::recent::{RecentTicks, TickRecord};
use super::record::{Decoder, Encoder, Rows};
use super::retention::Retention;
use super::stored::{Gap, last_tick, latest_ms, stretches, write_tick};
use super::words::in_words;
use super::{Health, TickOrigin, damage};
use crate::alert::Alert;
use crate::commands::Note;
use crate::config;
use crate::job::Job;
use crate::notify::{Delivery, Silence};
use crate::sizing::Curve;

/// Attempts to open the database before the start goes on without it, and the pause between them: one read that fails is
/// no reason.
const OPENINGS: u32 = 3;
const OPENING_PAUSE: Duration = Duration::from_millis(100);

/// Maximum wait for another program's lock on the database. The statement is then retried.
const BUSY_MS: u32 = 200;

/// Device and inode of the database.
type FileId = Option<(u64, u64)>;

/// The file that has the name now.
fn file_id(path: &Path) -> FileId {
    let file = path.metadata().ok()?;
    Some((file.dev(), file.ino()))
}

/// The writer's settings, and the state that it shares.
pub struct Context {
    pub path: PathBuf,
    pub holds: TickOrigin,
    pub keep: config::Store,
    pub report: watch::Sender<Health>,
    pub recent: Arc<RecentTicks>,
    pub catalog: Arc<RwLock<Catalog>>,
    pub readers: Readers,
    pub records: Arc<RecordCache>,
}

/// An open database.
struct Writer<'a> {
    context: &'a Context,
    connection: SqliteConnection,
    /// A statement failed, and the connection may be stuck in its transaction.
    is_broken: bool,
    /// The window of the last tick that was committed. When another one begins, the windows before it are rolled up.
    window: Option<TickWindow>,
    /// Why complete windows are not rolled up, or old data is not deleted.
    upkeep_error: Option<String>,
    retention: Retention,
    /// When old data is next searched for.
    retain_at: Instant,
    /// The open file.
    file: FileId,
    /// Operations that broke a constraint since the health was last reported.
    refused: u64,
    /// Held for as long as the connection: no other program may write here meanwhile.
    _lock: File,
}

/// Why a writer stopped.
enum WriterEnd {
    /// The queue was closed. All operations were written, or cannot be.
    Closed,
    /// The database was removed or replaced: a sentence.
    Lost(String),
    /// SQLite reports damage: its message.
    Damaged(String),
}

/// The outcome of the first attempts to open the database.
pub type FirstOpening = anyhow::Result<StartState>;

/// Starts the thread. The receivers get the first outcome, and the thread's end.
pub fn start(
    context: Context,
    queue: mpsc::Receiver<QueueEntry>,
) -> anyhow::Result<(oneshot::Receiver<FirstOpening>, oneshot::Receiver<()>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    let ((open, opened), (end, ended)) = (oneshot::channel(), oneshot::channel());
    std::thread::Builder::new()
        .name("store".into())
        .spawn(move || {
            runtime.block_on(supervise(&context, queue, open));
            // The receiver is gone after the time limit of the stop.
            let _ = end.send(());
        })
        .context("cannot start the thread that writes")?;
    Ok((opened, ended))
}

/// Opens the database, writes, and opens it again when it is lost, until the queue is closed.
async fn supervise(
    context: &Context,
    queue: mpsc::Receiver<QueueEntry>,
    first: oneshot::Sender<FirstOpening>,
) {
    let mut first = Some(first);
    let mut before = None;
    let mut pending = Pending::new(queue);
    let mut attempts = 0;
    loop {
        attempts += 1;
        context
            .report
            .send_modify(|health| health.busy_since = Some(Instant::now()));
        let opened = Writer::open(context, before.as_ref(), &mut pending).await;
        context
            .report
            .send_modify(|health| health.busy_since = None);
        let error = match opened {
            Ok((writer, state)) => {
                match first.take() {
                    Some(first) => drop(first.send(Ok(state))),
                    None => tracing::info!("the database {} is open now", context.path.display()),
                }
                let end = writer.run(&mut pending).await;
                context.readers.reset();
                match before.insert(end) {
                    WriterEnd::Closed => return,
                    WriterEnd::Lost(sentence) => sentence.clone(),
                    WriterEnd::Damaged(damage) => format!("the database is damaged: {damage}"),
                }
            }
            // Another cowbell has the database, so this one must not start.
            Err(error) if first.is_some() && error.is::<InUse>() => {
                if let Some(first) = first.take() {
                    let _ = first.send(Err(error));
                }
                return;
            }
            Err(error) if first.is_some() && attempts < OPENINGS => {
                before = suspicion(context, &error).or(before);
                tokio::time::sleep(OPENING_PAUSE).await;
                continue;
            }
            Err(error) => {
                before = suspicion(context, &error).or(before);
                let sentence = in_words(&error);
                context.report_error(&sentence);
                if let Some(first) = first.take() {
                    // If it cannot be read either, the error says why it cannot be written.
                    let _ = first.send(without_writing(context).await.map_err(|_| error));
                }
                sentence
            }
        };
        context.report_error(&error);
        if !pending.hold(&error).await {
            return;
        }
    }
}

/// Damage that showed when the database was opened: the next attempt checks all of it.
fn suspicion(context: &Context, error: &anyhow::Error) -> Option<WriterEnd> {
    damage::said_by(&context.path, error).map(WriterEnd::Damaged)
}

impl Context {
    /// Of the catalog. Ticks of an earlier one have the numbers of another database's devices.
    fn generation(&self) -> u64 {
        let catalog = self.catalog.read();
        catalog.unwrap_or_else(PoisonError::into_inner).generation
    }

    fn report_error(&self, sentence: &str) {
        self.report.send_modify(|health| {
            health.set_error(sentence.into());
            health.is_open = false;
        });
    }
}

impl<'a> Writer<'a> {
    /// Opens the database at the path, after the previous writer ended in this way. Our own database is moved aside if it is
    /// damaged, and a new one is created.
    async fn open(
        context: &'a Context,
        before: Option<&WriterEnd>,
        pending: &mut Pending,
    ) -> anyhow::Result<(Self, StartState)> {
        if before.is_some() || paths::is_default(&context.path) {
            // Opening the database reports any error.
            let _ = std::fs::create_dir_all(paths::folder_of(&context.path));
        }
        let is_suspect = matches!(before, Some(WriterEnd::Damaged(_)));
        let OpenDatabase {
            connection,
            mut notes,
            lock,
        } = database::for_writing(&context.path, context.holds, is_suspect).await?;
        if let Some(WriterEnd::Lost(sentence)) = before {
            notes.insert(0, sentence.clone());
        }
        let mut connection = impatient(connection).await?;
        forget_unseen(&mut connection).await?;
        let (state, damage) = start_state(&mut connection).await?;
        for sentence in damage {
            tracing::warn!("{sentence}");
            notes.push(sentence);
        }
        let stretches = stretches(&mut connection).await?;
        let last = last_tick(&stretches);
        let mut writer = Self {
            context,
            connection,
            is_broken: false,
            window: last.map(Position::window),
            upkeep_error: None,
            retention: Retention::new(context.keep),
            retain_at: Instant::now(),
            file: file_id(&context.path),
            refused: 0,
            _lock: lock,
        };
        writer
            .bring_together(last, latest_ms(&stretches), pending)
            .await?;
        writer.measure().await?;
        context.records.forget();
        context.report.send_modify(|health| {
            health.is_open = true;
            health.error = None;
            health.notes.extend(notes);
        });
        Ok((writer, state))
    }

    async fn bring_together(
        &mut self,
        last: Option<Position>,
        latest_ms: Option<i64>,
        pending: &mut Pending,
    ) -> anyhow::Result<()> {
        let context = self.context;
        let connection = &mut self.connection;
        let identity = identity(connection).await?;
        let stored = catalog_rows(connection).await?;
        let (rows, ticks) = {
            let mut catalog = context
                .catalog
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            if catalog.identity == Some(identity) {
                return Ok(());
            }
            if last.is_some() || !stored.is_empty() {
                let rows = catalog.rows();
                catalog.replace(stored, Some(identity), last);
                let (rows, streams) = catalog.adopt(rows);
                let (ticks, committed) = context.recent.clear(latest_ms);
                let ticks = renumbered(&ticks, committed, &streams, last);
                catalog.last = ticks.last().map(|tick| tick.position).or(last);
                for tick in &ticks {
                    context.recent.put(tick.clone());
                }
                let dropped = pending.replace_ticks(rows, ticks, catalog.generation);
                context
                    .report
                    .send_modify(|health| health.written += dropped);
                return Ok(());
            }
            catalog.identity = Some(identity);
            (catalog.rows(), context.recent.all_committed())
        };
        write_memory(connection, &rows, &ticks).await?;
        self.window = ticks.last().map(|tick| tick.position.window());
        Ok(())
    }

    /// Opens the connection again if a statement failed.
    async fn mend(&mut self) -> anyhow::Result<()> {
        if self.is_broken {
            self.connection = impatient(database::to_rewrite(&self.context.path).await?).await?;
            self.is_broken = false;
        }
        Ok(())
    }

    /// A sentence, if the database's name is that of another file or of none.
    fn lost_file(&self) -> Option<String> {
        let path = self.context.path.display();
        (file_id(&self.context.path) != self.file)
            .then(|| format!("the database {path} was removed or replaced: storing began anew"))
    }
}

/// The ticks that no database has yet, as the database whose last tick is `last` numbers their devices and volumes.
fn renumbered(
    ticks: &VecDeque<TickRecord>,
    committed: Option<Position>,
    streams: &HashMap<Stream, Stream>,
    last: Option<Position>,
) -> Vec<TickRecord> {
    let mut decoder = Decoder::new(Level::Ticks);
    let mut encoder = Encoder::new(Level::Ticks);
    let mut found: Vec<TickRecord> = Vec::new();
    for tick in ticks {
        let is_readable = decoder.decode(tick.position, &tick.record).is_ok();
        let before = found.last().map(|tick| tick.position).or(last);
        let position = Position::next(before, tick.position.at_ms);
        let Some(position) = position.filter(|_| is_readable && Some(tick.position) > committed)
        else {
            continue;
        };
        let rows = Rows::collect(Level::Ticks, |push| {
            for (stream, row) in decoder.rows() {
                // Of the host and its total, every database has the same.
                let own = if stream.row == 0 {
                    Some(&stream)
                } else {
                    streams.get(&stream)
                };
                if let Some(own) = own {
                    push(*own, row);
                }
            }
        });
        let record = encoder.encode(position, decoder.elapsed_us(), &rows);
        found.push(TickRecord {
            position,
            record: record.into(),
            decoder: None,
        });
    }
    found
}

/// Writes what memory has into a new database.
async fn write_memory(
    connection: &mut SqliteConnection,
    rows: &CatalogRows,
    ticks: &[TickRecord],
) -> anyhow::Result<()> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    write_rows(&mut transaction, rows).await?;
    for tick in ticks {
        write_tick(&mut transaction, tick.position, &tick.record).await?;
    }
    Ok(transaction.commit().await?)
}

/// Reads the start state from a database that cannot be written.
async fn without_writing(context: &Context) -> anyhow::Result<StartState> {
    if matches!(context.path.try_exists(), Ok(false)) {
        return Ok(StartState::default());
    }
    let mut view = ReadView::of(&context.path).await?;
    let (state, _) = start_state(&mut view.connection).await?;
    let stretches = stretches(&mut view.connection).await?;
    let last = last_tick(&stretches);
    let latest_ms = latest_ms(&stretches);
    let mut catalog = context
        .catalog
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    catalog.replace(view.catalog.rows(), view.identity, last);
    context.recent.clear(latest_ms);
    Ok(state)
}

/// Limits the wait for locks, since ticks do not wait for another program.
async fn impatient(mut connection: SqliteConnection) -> sqlx::Result<SqliteConnection> {
    // A pragma takes no parameters.
    let limit = format!("PRAGMA busy_timeout = {BUSY_MS}");
    sqlx::query(AssertSqlSafe(limit))
        .execute(&mut connection)
        .await?;
    Ok(connection)
}

/// One thing to store.
#[derive(Clone, Debug)]
pub enum WriteOp {
    /// Devices and volumes that are new or changed. They go before the ticks that refer to them.
    Catalog(CatalogRows),
    /// A tick, and the generation of the catalog that has the numbers of its devices and volumes.
    Tick(u64, TickRecord),
    Gap(Gap),
    Job(Box<Job>),
    Alert(Box<Alert>),
    /// The last delivery of an alert to a receiver.
    Delivery(Box<Delivery>),
    Silence(Silence),
    /// A note on the job of this key, which only the database has.
    Note(String, Note),
    /// Deletes the job of this key.
    Remove(String),
    /// A job of another host, with its file, packed.
    Import(Box<Job>, Arc<[u8]>),
    /// What the receiver of remote write has.
    Sent(Progress),
    /// What was measured of the volume with this UUID.
    Curve(Arc<str>, Arc<Curve>),
}

/// Why an operation is not stored: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// It is held in memory, and writing is tried again.
    Held(String),
    /// It violates a constraint, now and at every retry, so it was dropped.
    Refused(String),
}

/// Receives the outcome of one operation.
pub type WriteReply = oneshot::Sender<Result<(), WriteError>>;

/// An operation in the queue, and where its outcome is reported.
#[derive(Debug)]
pub struct QueueEntry {
    pub op: WriteOp,
    pub reply: Option<WriteReply>,
}

impl WriteOp {
    /// Whether it may wait for the next commit of ticks. The kill of the program loses it until then.
    pub fn may_wait(&self) -> bool {
        matches!(self, Self::Tick(..) | Self::Catalog(_) | Self::Sent(_))
    }

    /// Devices and volumes one by one: the database may refuse one of them.
    pub fn parts(&self) -> Vec<Self> {
        let Self::Catalog(rows) = self else {
            return vec![self.clone()];
        };
        let devices = rows.devices.iter().map(|row| CatalogRows {
            devices: vec![row.clone()],
            ..CatalogRows::default()
        });
        let volumes = rows.volumes.iter().map(|row| CatalogRows {
            volumes: vec![row.clone()],
            ..CatalogRows::default()
        });
        devices.chain(volumes).map(Self::Catalog).collect()
    }
}

impl QueueEntry {
    /// Reports the outcome once, if the receiver still exists.
    pub fn report(&mut self, outcome: Result<(), WriteError>) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(outcome);
        }
    }
}
