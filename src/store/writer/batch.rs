//! The writer's loop. Operations are written in the order of the queue, all of a batch in one transaction; what cannot be
//! written is held and retried.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, sleep_until};

use super::{Writer, WriterEnd};
use crate::store::TickOrigin;
use crate::store::catalog::{CatalogRows, write_rows};
use crate::store::damage;
use crate::store::deliveries::{write_curve, write_delivery, write_progress, write_silence};
use crate::store::health::stock;
use crate::store::recent::TickRecord;
use crate::store::records::{remove_job, write_alert, write_imported, write_job, write_note};
use crate::store::rollup::roll_up;
use crate::store::stored::{write_gap, write_tick};
use crate::store::words::{in_words, of_sqlite};
use crate::store::writer::{QueueEntry, WriteError, WriteOp};
use crate::units::count_text;

/// The age at which a tick is committed. A kill or a power cut loses younger ones.
const COMMIT_EVERY: Duration = Duration::from_secs(10);
/// The ticks of a recording come faster, and can be played again.
const COMMIT_RECORDING: Duration = Duration::from_millis(100);
/// Operations of a batch at which it is committed.
const MOST_AT_ONCE: usize = 1_024;
/// Maximum operations that are held while nothing can be written.
const MOST_HELD: usize = 4_096;
/// How often the open file is compared with the file of its name.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How often old data is searched for, and the pause between two steps of deletion.
const RETAIN_EVERY: Duration = Duration::from_secs(60);
const RETAIN_PAUSE: Duration = Duration::from_secs(1);
/// SQLite's primary code of a constraint that is violated.
const SQLITE_CONSTRAINT: i32 = 19;

/// Operations that are not written yet.
pub struct Pending {
    queue: mpsc::Receiver<QueueEntry>,
    /// Taken out of the queue.
    held: Vec<QueueEntry>,
    /// When the first of them was taken out.
    since: Instant,
}

impl Pending {
    pub fn new(queue: mpsc::Receiver<QueueEntry>) -> Self {
        Self {
            queue,
            held: Vec::new(),
            since: Instant::now(),
        }
    }

    /// Takes more operations out of the queue. `false` if it is closed and empty.
    async fn take(&mut self) -> bool {
        let room = MOST_AT_ONCE.saturating_sub(self.held.len()).max(1);
        let is_first = self.held.is_empty();
        let count = self.queue.recv_many(&mut self.held, room).await;
        if is_first {
            self.since = Instant::now();
        }
        count > 0
    }

    /// Puts the ticks of a new generation, with their devices and volumes, before all other operations, and drops those of
    /// the generation before. Returns by how many operations there are fewer.
    pub fn replace_ticks(
        &mut self,
        rows: CatalogRows,
        ticks: Vec<TickRecord>,
        generation: u64,
    ) -> u64 {
        while let Ok(queued) = self.queue.try_recv() {
            self.held.push(queued);
        }
        let count = self.held.len();
        self.held
            .retain(|queued| !matches!(queued.op, WriteOp::Tick(..) | WriteOp::Catalog(_)));
        let ticks = ticks
            .into_iter()
            .map(|tick| WriteOp::Tick(generation, tick));
        let ops = std::iter::once(WriteOp::Catalog(rows)).chain(ticks);
        let entries = ops.map(|op| QueueEntry { op, reply: None });
        self.held.splice(0..0, entries);
        count.saturating_sub(self.held.len()) as u64
    }

    /// Whether the held operations are to be committed now. Only ticks may wait.
    fn is_due(&self, age: Duration) -> bool {
        self.held.len() >= MOST_AT_ONCE
            || !self.held.is_empty() && self.since.elapsed() >= age
            || self.held.iter().any(|queued| !queued.op.may_wait())
    }

    /// Reports that the held operations are not stored, makes room in the queue, and pauses before the next attempt. If the
    /// queue is closed, there is no further attempt: logs what is lost, and returns `false`.
    pub async fn hold(&mut self, sentence: &str) -> bool {
        let Self { queue, held, .. } = self;
        while held.len() < MOST_HELD
            && let Ok(queued) = queue.try_recv()
        {
            held.push(queued);
        }
        for queued in held.iter_mut() {
            queued.report(Err(WriteError::Held(sentence.into())));
        }
        // A later operation replaces the earlier states of its job or alert, or of what was sent.
        let mut seen = HashSet::new();
        held.reverse();
        held.retain(|queued| match &queued.op {
            WriteOp::Job(job) => seen.insert(("job", job.id)),
            WriteOp::Alert(alert) => seen.insert(("alert", alert.id)),
            WriteOp::Sent(_) => seen.insert(("sent", 0)),
            _ => true,
        });
        held.reverse();
        let goes_on = !queue.is_closed() || !queue.is_empty();
        if goes_on {
            tokio::time::sleep(RETRY_PAUSE).await;
        } else if !held.is_empty() {
            tracing::error!(
                "{} could not be stored: {sentence}",
                count_text(held.len(), "entry", "entries")
            );
        }
        goes_on
    }
}

impl Writer<'_> {
    /// Writes until the queue is closed and empty, or the database is lost. `pending` keeps the unwritten operations.
    pub(super) async fn run(mut self, pending: &mut Pending) -> WriterEnd {
        let age = match self.context.holds {
            TickOrigin::ThisMachine => COMMIT_EVERY,
            TickOrigin::Recording => COMMIT_RECORDING,
        };
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Operations that an earlier writer could not write are written at once.
        let mut is_due = !pending.held.is_empty();
        let mut is_closed = false;
        loop {
            let mut is_time_to_look = false;
            if !is_due {
                let commit_at = (pending.since + age).into();
                let has_held = !pending.held.is_empty();
                tokio::select! {
                    has_more = pending.take() => is_closed = !has_more,
                    _ = looks.tick() => is_time_to_look = true,
                    () = sleep_until(commit_at), if has_held => {}
                }
                is_due = is_closed || pending.is_due(age);
            }
            if is_time_to_look {
                if let Some(sentence) = self.lost_file() {
                    return WriterEnd::Lost(sentence);
                }
                // Old data is deleted also while no tick comes.
                self.keep_up(false).await;
            }
            if !is_due {
                continue;
            }
            self.context
                .report
                .send_modify(|health| health.busy_since = Some(Instant::now()));
            let end = self.commit(pending).await;
            self.context
                .report
                .send_modify(|health| health.busy_since = None);
            if let Some(end) = end {
                return end;
            }
            is_due = !pending.held.is_empty();
            if is_closed && !is_due {
                self.close().await;
                return WriterEnd::Closed;
            }
        }
    }

    /// Writes the held operations. Afterwards they are gone, or held to be written again.
    async fn commit(&mut self, pending: &mut Pending) -> Option<WriterEnd> {
        let held = &mut pending.held;
        let started = Instant::now();
        let count = held.len();
        let last = held.iter().rev().find_map(|queued| match &queued.op {
            WriteOp::Tick(_, tick) => Some(tick.position),
            _ => None,
        });
        let outcome = self.write(held).await;
        let last_at = last.and_then(|last| Timestamp::from_millisecond(last.at_ms).ok());
        self.report(count - held.len(), last_at, started, outcome.as_ref().err());
        let Err(error) = outcome else {
            if let Some(last) = last {
                self.context.recent.committed(last);
                let is_new_window = self.window.replace(last.window()) != Some(last.window());
                self.keep_up(is_new_window).await;
            }
            return None;
        };
        self.is_broken = true;
        if let Some(damage) = damage::said_by(&self.context.path, &error) {
            return Some(WriterEnd::Damaged(damage));
        }
        (!pending.hold(&in_words(&error)).await).then_some(WriterEnd::Closed)
    }

    fn report(
        &mut self,
        written: usize,
        last_at: Option<Timestamp>,
        started: Instant,
        error: Option<&anyhow::Error>,
    ) {
        let error = error.map(|error| format!("cannot write to the database: {}", in_words(error)));
        let refused = std::mem::take(&mut self.refused);
        self.context.report.send_modify(|health| {
            match error {
                Some(error) => health.set_error(error),
                None => {
                    health.last_ok_at = last_at.or(health.last_ok_at);
                    if health.error.is_some() && self.upkeep_error.is_none() {
                        tracing::info!("the database can be written again");
                    }
                    health.error = self.upkeep_error.clone();
                }
            }
            health.took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            health.written += (written as u64).saturating_sub(refused);
            health.refused += refused;
        });
    }

    /// Writes the batch in one transaction, and empties it. An entry that violates a constraint is dropped, since it would
    /// fail at every retry.
    async fn write(&mut self, batch: &mut Vec<QueueEntry>) -> anyhow::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.mend().await?;
        let generation = self.context.generation();
        let mut transaction = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        let mut refused = Vec::new();
        for (index, queued) in batch.iter().enumerate() {
            if let WriteOp::Tick(of, tick) = &queued.op {
                if *of == generation {
                    write_tick(&mut transaction, tick.position, &tick.record).await?;
                } else {
                    // It refers to devices of a database that was replaced by this one.
                    self.refused += 1;
                }
                continue;
            }
            for op in queued.op.parts() {
                let mut part = transaction.begin().await?;
                match write_one(&mut part, &op).await {
                    Ok(()) => part.commit().await?,
                    Err(error)
                        if of_sqlite(&error).is_some_and(|(code, _)| code == SQLITE_CONSTRAINT) =>
                    {
                        part.rollback().await?;
                        refused.push((index, in_words(&error)));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        transaction.commit().await?;
        if !batch.iter().all(|queued| queued.op.may_wait()) {
            self.context.records.forget();
        }
        self.refused += refused.len() as u64;
        for (index, error) in refused {
            tracing::error!("an entry is left out, since the database refuses it: {error}");
            batch[index].report(Err(WriteError::Refused(error)));
        }
        let changes_jobs =
            |queued: &QueueEntry| matches!(queued.op, WriteOp::Import(..) | WriteOp::Remove(_));
        let is_to_measure = batch.iter().any(changes_jobs);
        for mut queued in batch.drain(..) {
            queued.report(Ok(()));
        }
        if is_to_measure {
            self.measure().await?;
        }
        Ok(())
    }

    /// Measures how much is stored.
    pub(super) async fn measure(&mut self) -> anyhow::Result<()> {
        let stock = stock(&mut self.connection)
            .await
            .map_err(|error| error.context("cannot measure the database"))?;
        self.context
            .report
            .send_modify(|health| health.stock = stock);
        Ok(())
    }

    /// Rolls up complete windows and deletes a little old data. Failures are retried; ticks are stored all the same.
    async fn keep_up(&mut self, is_new_window: bool) {
        let is_recording = self.context.holds == TickOrigin::Recording;
        let is_time_to_retain = Instant::now() >= self.retain_at || is_recording && is_new_window;
        if !is_new_window && !is_time_to_retain {
            return;
        }
        let outcome = self.try_to_keep_up(is_new_window, is_time_to_retain).await;
        self.is_broken |= outcome.is_err();
        let failed = outcome
            .err()
            .map(|error| format!("{}; `cowbell db verify` finds damage", in_words(&error)));
        if let (Some(sentence), None) = (&failed, &self.upkeep_error) {
            tracing::warn!("{sentence}");
        }
        if failed.is_some() {
            // The window is rolled up with the next one.
            self.retain_at = Instant::now() + RETAIN_EVERY;
        }
        self.upkeep_error = failed;
    }

    async fn try_to_keep_up(
        &mut self,
        is_new_window: bool,
        is_time_to_retain: bool,
    ) -> anyhow::Result<()> {
        self.mend().await?;
        if is_new_window {
            roll_up(&mut self.connection).await?;
            self.measure().await?;
        }
        if !is_time_to_retain {
            return Ok(());
        }
        loop {
            let step = self.retention.step(&mut self.connection).await;
            self.context.records.forget();
            let has_more = step.map_err(|error| error.context("cannot delete old data"))?;
            // A day of a recording may be played in a second. Its ticks wait until all that is too old is deleted.
            if !has_more || self.context.holds == TickOrigin::ThisMachine {
                let pause = if has_more { RETAIN_PAUSE } else { RETAIN_EVERY };
                self.retain_at = Instant::now() + pause;
                return Ok(());
            }
        }
    }

    /// Moves the log into the database, so that its file alone is complete.
    async fn close(mut self) {
        let closing = async {
            self.mend().await?;
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
                .execute(&mut self.connection)
                .await?;
            Ok::<_, anyhow::Error>(self.connection.close().await?)
        };
        if let Err(error) = closing.await {
            tracing::warn!(
                "the last ticks are in SQLite's log alone: {}",
                in_words(&error)
            );
        }
    }
}

async fn write_one(connection: &mut SqliteConnection, op: &WriteOp) -> anyhow::Result<()> {
    match op {
        WriteOp::Tick(_, tick) => write_tick(connection, tick.position, &tick.record).await,
        WriteOp::Catalog(rows) => write_rows(connection, rows).await,
        WriteOp::Gap(gap) => write_gap(connection, gap).await,
        WriteOp::Job(job) => write_job(connection, job).await,
        WriteOp::Alert(alert) => write_alert(connection, alert).await,
        WriteOp::Delivery(delivery) => write_delivery(connection, delivery).await,
        WriteOp::Silence(silence) => write_silence(connection, silence).await,
        WriteOp::Note(key, note) => write_note(connection, key, note).await,
        WriteOp::Remove(key) => remove_job(connection, key).await,
        WriteOp::Import(job, file) => write_imported(connection, job, file).await,
        WriteOp::Sent(progress) => write_progress(connection, progress).await,
        WriteOp::Curve(uuid, curve) => write_curve(connection, uuid, curve).await,
    }
}
