//! The one writer, on a thread of its own: a tick becomes a record of the journal, a complete segment is sealed into the
//! database, and what a disk does not take is held until it does.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::Timestamp;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::clock::Clock;
use super::imported::write_imported;
use super::journal::Journal;
use super::load::{Load, without_older};
use super::open::{self, Opened};
use super::record::{Recorder, ticks_of};
use super::retention::Retention;
use super::rolling::roll_up;
use super::rows::{
    book, day_before_last, forget_unseen, identity, last_instant, last_segment, remove_job, write_alert,
    write_gap, write_job, write_note, write_rows,
};
use super::seal::seal;
use super::shelf::Shelf;
use super::stock::stock;
use super::tick::Tick;
use super::{Begun, Health, Holds, convert, damage};
use crate::config;

/// After something that failed, the next try.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Loads that are taken in one go at most.
const MOST_AT_ONCE: usize = 256;
/// For somebody who holds the database is waited so long; then it is tried again with the next tick.
const BUSY_MS: u32 = 200;
/// Loads that are taken out of the queue at most while the database takes none.
const MOST_HELD: usize = 4_096;
/// How often old things are looked for, and the pause between two steps while there are some, by the ticks' clock: where a
/// recording is played fast, that is fast too.
const TIDY_EVERY_MS: i64 = 60_000;
const TIDY_PAUSE_MS: i64 = 1_000;
/// SQLite's primary code of what breaks a constraint.
const SQLITE_CONSTRAINT: i32 = 19;
/// A power cut costs the ticks since the journal last reached the disk: none that is older than five seconds, and what a
/// tick may come late.
const SYNC_WITHIN: Duration = Duration::from_millis(5_250);

/// Ticks of one segment.
struct Window {
    number: i64,
    ticks: Vec<Arc<Tick>>,
}

/// Ticks of the journal that a power cut would cost.
struct Unsynced {
    since: Instant,
    /// How old the first of them was when the last one came.
    length: Duration,
}

pub struct Writer {
    path: PathBuf,
    connection: SqliteConnection,
    /// Something failed on the connection, which may be in the middle of a transaction for ever.
    is_broken: bool,
    journal: Journal,
    report: watch::Sender<Health>,
    shelf: Arc<Shelf>,
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
    pub shelf: Arc<Shelf>,
}

impl Writing {
    pub fn cannot_open(&self, error: &anyhow::Error) {
        self.report.send_modify(|health| {
            if health.error.is_none() {
                tracing::error!("going on from memory: {error:#}");
            }
            health.error = Some(format!("{error:#}"));
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
pub fn start(start: Start, loads: mpsc::Receiver<Load>) -> anyhow::Result<oneshot::Receiver<()>> {
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
async fn begin(start: Start, loads: &mpsc::Receiver<Load>) -> Option<Writer> {
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

impl Writer {
    /// Opens database and journal, and puts into the one what the other holds. Where the one turns out to be damaged, both
    /// are set aside, and it begins anew.
    pub async fn open(writing: &Writing) -> anyhow::Result<Self> {
        match Self::open_as_it_is(writing, None).await {
            Err(error) if let Some(damage) = damage::said_by(&error) => {
                let note = damage::set_aside(&writing.path, &damage).await?;
                Self::open_as_it_is(writing, Some(note)).await
            }
            opened => opened,
        }
    }

    async fn open_as_it_is(writing: &Writing, note: Option<String>) -> anyhow::Result<Self> {
        let Opened { mut connection, notes, lock } = open::for_writing(&writing.path, writing.holds).await?;
        forget_unseen(&mut connection, writing.keep).await?;
        let mut connection = impatient(connection).await?;
        convert::old_ticks(&mut connection).await?;
        let sealed = last_segment(&mut connection).await?;
        let kept_at =
            day_before_last(&mut connection).await?.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let (journal, replayed) = Journal::open(&writing.path, identity(&mut connection).await?, sealed)?;
        let (mut said, mut complete) = (replayed.said, Vec::new());
        for segment in &replayed.segments {
            let (ticks, lost) = ticks_of(segment);
            if let Some(lost) = lost {
                let copy = journal.copy_aside(segment.number)?;
                said.push(format!("{lost}; a copy of the file is {}", copy.display()));
            }
            complete.push(Window { number: segment.number, ticks });
        }
        said.iter().for_each(|note| tracing::warn!("{note}"));
        complete.retain(|window| !window.ticks.is_empty());
        for window in &complete {
            window.ticks.iter().for_each(|tick| writing.shelf.put(window.number, Arc::clone(tick)));
        }
        let mut writer = Self {
            path: writing.path.clone(),
            connection,
            is_broken: false,
            journal,
            report: writing.report.clone(),
            shelf: Arc::clone(&writing.shelf),
            recorder: Recorder::default(),
            window: None,
            complete,
            next_segment: replayed.segments.last().map_or(sealed, |segment| segment.number) + 1,
            sealing: None,
            tidying: None,
            unsynced: None,
            holds: writing.holds,
            clock: Clock::new(kept_at),
            retention: Retention::new(writing.keep),
            tidy_at_ms: i64::MIN,
            refused: 0,
            _lock: lock,
        };
        writer.seal_when_complete().await;
        writer.measure().await?;
        let notes = note.into_iter().chain(notes).chain(said);
        writer.report.send_modify(|health| {
            health.is_open = true;
            health.error = None;
            health.notes.extend(notes);
        });
        Ok(writer)
    }

    /// What the database holds before anything is written.
    pub async fn begun(&mut self) -> anyhow::Result<Begun> {
        Ok(Begun {
            book: book(&mut self.connection).await?,
            last_instant_ms: last_instant(&mut self.connection).await?,
            next_segment: self.next_segment,
        })
    }

    /// Writes until the queue is closed and empty.
    async fn run(mut self, mut loads: mpsc::Receiver<Load>) {
        let mut batch = Vec::new();
        loop {
            let taken = timeout(self.sync_due_in(), loads.recv_many(&mut batch, MOST_AT_ONCE)).await;
            self.report.send_modify(|health| health.busy_since = Some(Instant::now()));
            match taken {
                Ok(0) => break,
                Ok(_) => self.take(&mut batch, &mut loads).await,
                Err(_) => self.sync(),
            }
            self.report.send_modify(|health| health.busy_since = None);
        }
        self.close().await;
    }

    async fn take(&mut self, batch: &mut Vec<Load>, loads: &mut mpsc::Receiver<Load>) {
        self.write_all(batch, loads).await;
        if batch.is_empty() {
            self.seal_when_complete().await;
            self.tidy_when_due().await;
        }
    }

    /// Tries until the batch is kept; when the program ends, only once.
    async fn write_all(&mut self, batch: &mut Vec<Load>, loads: &mut mpsc::Receiver<Load>) {
        loop {
            let (started, count) = (Instant::now(), batch.len());
            let last_at = batch.iter().rev().find_map(|load| match load {
                Load::Tick(_, tick) => Timestamp::from_millisecond(tick.at_ms).ok(),
                _ => None,
            });
            let outcome = self.write(batch).await;
            self.is_broken |= outcome.is_err();
            self.tell(count - batch.len(), last_at, started, outcome.as_ref().err());
            match outcome {
                Ok(()) => return,
                Err(error) if loads.is_closed() && (loads.is_empty() || batch.len() >= MOST_HELD) => {
                    tracing::error!("{} entries could not be kept: {error:#}", batch.len());
                    return batch.clear();
                }
                Err(_) => self.wait_and_take_more(batch, loads).await,
            }
        }
    }

    /// The journal may have room where the database has none: ticks need not wait for what cannot be written.
    async fn wait_and_take_more(&mut self, batch: &mut Vec<Load>, loads: &mut mpsc::Receiver<Load>) {
        if self.sync_due_in() <= RETRY_PAUSE {
            self.sync();
        }
        if !loads.is_closed() {
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        while batch.len() < MOST_HELD
            && let Ok(load) = loads.try_recv()
        {
            batch.push(load);
        }
        without_older(batch);
    }

    fn tell(
        &mut self,
        written: usize,
        last_at: Option<Timestamp>,
        started: Instant,
        error: Option<&anyhow::Error>,
    ) {
        let error = error.map(|error| format!("cannot write to the database: {error:#}"));
        let error = error.or_else(|| self.sealing.clone());
        let refused = std::mem::take(&mut self.refused);
        self.report.send_modify(|health| {
            if let (Some(error), None) = (&error, &health.error) {
                tracing::error!("going on from memory: {error}");
            }
            if error.is_none() {
                health.last_ok_at = last_at.or(health.last_ok_at);
            }
            health.error = error.or_else(|| self.tidying.clone());
            health.took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            health.written += (written as u64).saturating_sub(refused);
            health.refused += refused;
        });
    }

    /// Takes out of the batch what it has kept. Rows go before the ticks that have them.
    async fn write(&mut self, batch: &mut Vec<Load>) -> anyhow::Result<()> {
        if batch.iter().any(|load| matches!(load, Load::Rows(_))) {
            self.write_lasting(batch).await?;
            batch.retain(|load| matches!(load, Load::Tick(..)));
        }
        let ticks = self.keep_ticks(batch).await;
        if batch.iter().any(|load| !matches!(load, Load::Tick(..))) {
            self.write_lasting(batch).await?;
            batch.retain(|load| matches!(load, Load::Tick(..)));
        }
        ticks
    }

    /// Takes the ticks out of the batch that are in the journal.
    async fn keep_ticks(&mut self, batch: &mut Vec<Load>) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        let mut left = Vec::new();
        for load in batch.drain(..) {
            match &load {
                Load::Tick(segment, tick) if outcome.is_ok() => {
                    outcome = self.keep(*segment, tick).await;
                    match outcome {
                        Ok(()) => self.clock.see(tick),
                        Err(_) => left.push(load),
                    }
                }
                _ => left.push(load),
            }
        }
        *batch = left;
        outcome
    }

    /// Opens the connection anew where it is needed.
    async fn mend(&mut self) -> anyhow::Result<()> {
        if self.is_broken {
            self.connection = impatient(open::to_rewrite(&self.path).await?).await?;
            self.is_broken = false;
        }
        Ok(())
    }

    /// What breaks a constraint would break it for ever: it is left out, and all else is kept.
    async fn write_lasting(&mut self, batch: &[Load]) -> anyhow::Result<()> {
        self.mend().await?;
        let mut transaction = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        let mut refused = Vec::new();
        for load in batch.iter().filter(|load| !matches!(load, Load::Tick(..))) {
            let mut part = transaction.begin().await?;
            match write_one(&mut part, load).await {
                Ok(()) => part.commit().await?,
                Err(error) if breaks_a_constraint(&error) => {
                    part.rollback().await?;
                    refused.push(error);
                }
                Err(error) => return Err(error),
            }
        }
        transaction.commit().await?;
        for error in &refused {
            tracing::error!("an entry is left out, since the database refuses what it says: {error:#}");
        }
        self.refused += refused.len() as u64;
        Ok(())
    }

    /// Adds the tick to the journal. One that begins a segment is in there before the segment before it is sealed.
    async fn keep(&mut self, segment: i64, tick: &Arc<Tick>) -> anyhow::Result<()> {
        if self.window.as_ref().is_none_or(|window| window.number != segment) {
            self.begin(segment).await?;
        }
        let record = self.recorder.record(tick);
        self.journal.append(&record).context("cannot write to the journal")?;
        self.recorder.remember(tick);
        self.sync_before_it_is_late(Duration::from_micros(tick.elapsed_us));
        if let Some(window) = &mut self.window {
            window.ticks.push(Arc::clone(tick));
        }
        Ok(())
    }

    /// The journal's two files are used in turn: what the one to be used held has to be in the database.
    async fn begin(&mut self, segment: i64) -> anyhow::Result<()> {
        self.complete.extend(self.window.take().filter(|window| !window.ticks.is_empty()));
        let in_the_way = self.complete.iter().any(|window| (window.number - segment) % 2 == 0);
        if in_the_way {
            self.seal_complete().await?;
        }
        self.journal.begin(segment).context("cannot begin a file of the journal")?;
        self.recorder = Recorder::default();
        self.window = Some(Window { number: segment, ticks: Vec::new() });
        Ok(())
    }

    /// What cannot be sealed now stays in memory and in the journal, and is tried again with the next tick.
    async fn seal_when_complete(&mut self) {
        let outcome = self.seal_complete().await;
        self.is_broken |= outcome.is_err();
        self.sealing = outcome.err().map(|error| format!("cannot write to the database: {error:#}"));
    }

    async fn seal_complete(&mut self) -> anyhow::Result<()> {
        if self.complete.is_empty() {
            return Ok(());
        }
        self.mend().await?;
        while let Some(window) = self.complete.first() {
            seal(&mut self.connection, window.number, &window.ticks).await?;
            self.shelf.clear(window.number);
            self.complete.remove(0);
        }
        if let Err(error) = roll_up(&mut self.connection).await {
            self.is_broken = true;
            tracing::warn!("what is complete is not rolled up yet: {error:#}");
        }
        self.measure().await
    }

    /// Tells how much there is now.
    async fn measure(&mut self) -> anyhow::Result<()> {
        let stock = stock(&mut self.connection).await.context("cannot tell how much is kept")?;
        self.report.send_modify(|health| health.stock = stock);
        Ok(())
    }

    /// For a tick of this length, which is in the journal now. The next one is taken to be as long.
    fn sync_before_it_is_late(&mut self, length: Duration) {
        if self.holds == Holds::ARecording {
            return;
        }
        let unsynced = match self.unsynced.take() {
            Some(Unsynced { since, length: before }) => Unsynced { since, length: before + length },
            None => Unsynced { since: Instant::now(), length: Duration::ZERO },
        };
        let is_due = unsynced.length + length > SYNC_WITHIN;
        self.unsynced = Some(unsynced);
        if is_due {
            self.sync();
        }
    }

    /// Where no tick comes any more.
    fn sync_due_in(&self) -> Duration {
        let waited = self.unsynced.as_ref().map_or(Duration::ZERO, |unsynced| unsynced.since.elapsed());
        SYNC_WITHIN.saturating_sub(waited)
    }

    fn sync(&mut self) {
        self.unsynced = None;
        if let Err(error) = self.journal.sync() {
            tracing::warn!("the journal did not reach the disk: {error}");
        }
    }

    /// What cannot be deleted now is deleted another time. A clock that jumped makes nothing look old.
    async fn tidy_when_due(&mut self) {
        let Some(now_ms) = self.clock.believed().map(Timestamp::as_millisecond) else { return };
        // A clock that was set back waits for no later time.
        if (self.tidy_at_ms.saturating_sub(TIDY_EVERY_MS)..self.tidy_at_ms).contains(&now_ms) {
            return;
        }
        let found_some = match self.mend().await {
            Ok(()) => self.retention.step(&mut self.connection, now_ms).await,
            Err(error) => Err(error),
        };
        self.is_broken |= found_some.is_err();
        let failed = found_some.as_ref().err().map(|error| {
            format!("cannot delete what is old: {error:#}; `cowbell db verify` says what is damaged")
        });
        if let (Some(sentence), None) = (&failed, &self.tidying) {
            tracing::warn!("{sentence}");
        }
        self.tidying = failed;
        self.tidy_at_ms = now_ms + if found_some.unwrap_or(false) { TIDY_PAUSE_MS } else { TIDY_EVERY_MS };
    }

    /// Whoever copies the one file has all that was kept.
    async fn close(mut self) {
        self.complete.extend(self.window.take().filter(|window| !window.ticks.is_empty()));
        let checkpoint = async {
            self.journal.sync()?;
            self.seal_complete().await?;
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut self.connection).await?;
            Ok::<_, anyhow::Error>(self.connection.close().await?)
        };
        if let Err(error) = checkpoint.await {
            tracing::warn!("the last ticks are in the journal alone: {error:#}");
        }
    }
}

async fn write_one(connection: &mut SqliteConnection, load: &Load) -> anyhow::Result<()> {
    match load {
        // The journal has them.
        Load::Tick(..) => Ok(()),
        Load::Rows(rows) => write_rows(connection, rows).await,
        Load::Gap(gap) => write_gap(connection, gap).await,
        Load::Job(job) => write_job(connection, job).await,
        Load::Alert(alert) => write_alert(connection, alert).await,
        Load::Noted(noted) => write_note(connection, noted).await,
        Load::Removed(removed) => remove_job(connection, &removed.removed).await,
        Load::Imported(job, file) => write_imported(connection, job, file).await,
    }
}

/// Whether no disk is to blame, but what was to be written.
fn breaks_a_constraint(error: &anyhow::Error) -> bool {
    let of_database = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref() {
        Some(sqlx::Error::Database(error)) => error.code()?.parse::<i32>().ok(),
        _ => None,
    };
    // The low byte of an extended code is the primary one.
    error.chain().find_map(of_database).is_some_and(|code| code & 0xff == SQLITE_CONSTRAINT)
}

/// Ticks are not to wait for somebody who holds the database: what cannot be written now is tried again.
async fn impatient(mut connection: SqliteConnection) -> sqlx::Result<SqliteConnection> {
    // A pragma takes no parameters.
    let limit = format!("PRAGMA busy_timeout = {BUSY_MS}");
    sqlx::query(AssertSqlSafe(limit)).execute(&mut connection).await?;
    Ok(connection)
}
