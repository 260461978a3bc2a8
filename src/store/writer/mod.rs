//! The one writer, on a thread of its own. Ticks are committed every ten seconds, everything else at once; while the disk
//! accepts nothing, all of it stays in memory.
//!
//! The thread reopens the database whenever it is lost: removed, replaced or damaged. Nothing that happens to the database
//! ends the thread.

mod batch;
mod open;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sqlx::SqliteConnection;
use tokio::sync::{mpsc, oneshot, watch};

use super::catalog::Catalog;
use super::history::StartState;
use super::paths::InUse;
use super::position::TickWindow;
use super::readers::Readers;
use super::recent::RecentTicks;
use super::retention::Retention;
use super::words::in_words;
use super::write_op::QueueEntry;
use super::{Health, TickOrigin, damage};
use crate::config;
use batch::Pending;

/// Attempts to open the database before the start goes on without it, and the pause between them: one read that fails is
/// no reason.
const OPENINGS: u32 = 3;
const OPENING_PAUSE: Duration = Duration::from_millis(100);

/// The writer's settings, and the state that it shares.
pub struct Context {
    pub path: PathBuf,
    pub holds: TickOrigin,
    pub keep: config::Store,
    pub report: watch::Sender<Health>,
    pub recent: Arc<RecentTicks>,
    pub catalog: Arc<RwLock<Catalog>>,
    pub readers: Readers,
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
    file: open::FileId,
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
    let (mut first, mut before) = (Some(first), None);
    let mut pending = Pending::new(queue);
    let mut attempts = 0;
    loop {
        attempts += 1;
        context
            .report
            .send_modify(|health| health.busy_since = Some(Instant::now()));
        let opened = Writer::open(context, before.as_ref()).await;
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
                    let _ = first.send(open::without_writing(context).await.map_err(|_| error));
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
