//! The writer's loop. Operations that cannot be written are held and retried. Devices, volumes, jobs, alerts and gaps go
//! straight into the database, all of a batch in one transaction.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::{End, Writer};
use crate::store::curves::write_curve;
use crate::store::damage;
use crate::store::deliveries::{write_delivery, write_silence};
use crate::store::records::{remove_job, write_alert, write_imported, write_job, write_note};
use crate::store::rows::{write_gap, write_rows};
use crate::store::sent::write_progress;
use crate::store::words::{in_words, of_sqlite};
use crate::store::write_op::{QueueEntry, WriteError, WriteOp};
use crate::units::count_text;

/// Maximum operations in a batch.
const MOST_AT_ONCE: usize = 256;
/// Maximum operations that are held while nothing can be written.
const MOST_HELD: usize = 4_096;
/// How often the open files are compared with the files of their names, and the journal is synced if no tick arrives.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// SQLite's primary code of a constraint that is violated.
const SQLITE_CONSTRAINT: i32 = 19;

/// Operations that are not written yet.
pub struct Pending {
    pub queue: mpsc::Receiver<QueueEntry>,
    /// Taken out of the queue.
    pub held: Vec<QueueEntry>,
}

impl Pending {
    /// Reports that the held operations are not stored, makes room in the queue, and pauses before the next attempt. If the
    /// queue is closed, there is no further attempt: logs what is lost, and returns `false`.
    pub async fn hold(&mut self, sentence: &str) -> bool {
        let Self { queue, held } = self;
        while held.len() < MOST_HELD
            && let Ok(queued) = queue.try_recv()
        {
            held.push(queued);
        }
        held.iter_mut()
            .for_each(|queued| queued.report(Err(WriteError::Held(sentence.into()))));
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
    pub(super) async fn run(mut self, pending: &mut Pending) -> End {
        // One timer for all ticks: a timer for each would wake the thread more often than the ticks do.
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut is_time_to_look = true;
            if pending.held.is_empty() {
                let taken = tokio::select! {
                    taken = pending.queue.recv_many(&mut pending.held, MOST_AT_ONCE) => Some(taken),
                    _ = looks.tick() => None,
                };
                if taken == Some(0) {
                    self.close().await;
                    return End::Closed;
                }
                is_time_to_look = taken.is_none();
            }
            self.context
                .report
                .send_modify(|health| health.busy_since = Some(Instant::now()));
            let end = self.step(pending, is_time_to_look).await;
            self.context
                .report
                .send_modify(|health| health.busy_since = None);
            if let Some(end) = end {
                return end;
            }
        }
    }

    async fn step(&mut self, pending: &mut Pending, is_time_to_look: bool) -> Option<End> {
        if is_time_to_look {
            if let Some(sentence) = self.lost_files() {
                return Some(End::Lost(sentence));
            }
            self.sync_what_is_late();
        }
        let held = &mut pending.held;
        if held.is_empty() {
            return None;
        }
        let (started, count) = (Instant::now(), held.len());
        let last_at = held.iter().rev().find_map(|queued| match &queued.op {
            WriteOp::Tick(_, tick) => Timestamp::from_millisecond(tick.at_ms).ok(),
            _ => None,
        });
        let outcome = self.write(held).await;
        self.report(count - held.len(), last_at, started, outcome.as_ref().err());
        let Err(error) = outcome else {
            self.seal_when_complete().await;
            self.tidy_when_due().await;
            return None;
        };
        self.is_broken = true;
        if let Some(damage) = damage::said_by(&self.context.path, &error) {
            return Some(End::Damaged(damage));
        }
        (!pending.hold(&in_words(&error)).await).then_some(End::Closed)
    }

    fn report(
        &mut self,
        written: usize,
        last_at: Option<Timestamp>,
        started: Instant,
        error: Option<&anyhow::Error>,
    ) {
        let error = error.map(|error| format!("cannot write to the database: {}", in_words(error)));
        let error = error.or_else(|| self.sealing.clone());
        let refused = std::mem::take(&mut self.refused);
        self.context.report.send_modify(|health| {
            match error {
                Some(error) => health.set_error(error),
                None => {
                    health.last_ok_at = last_at.or(health.last_ok_at);
                    health.error = self.tidying.clone();
                }
            }
            health.took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            health.written += (written as u64).saturating_sub(refused);
            health.refused += refused;
        });
    }

    /// Writes the batch and removes written operations. Devices and volumes go before the ticks that refer to them. Ticks go
    /// before the rest, since the journal may have room when the database has none.
    async fn write(&mut self, batch: &mut Vec<QueueEntry>) -> anyhow::Result<()> {
        if batch
            .iter()
            .any(|queued| matches!(queued.op, WriteOp::Catalog(_)))
        {
            self.write_records(batch).await?;
        }
        let ticks = self.keep_ticks(batch).await;
        if batch.iter().any(|queued| !queued.op.is_tick()) {
            self.write_records(batch).await?;
        }
        ticks
    }

    /// Writes everything but ticks. An entry that violates a constraint is dropped, since it would fail at every retry.
    async fn write_records(&mut self, batch: &mut Vec<QueueEntry>) -> anyhow::Result<()> {
        self.mend().await?;
        let mut transaction = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        let mut refused = Vec::new();
        for (index, queued) in batch
            .iter()
            .enumerate()
            .filter(|(_, queued)| !queued.op.is_tick())
        {
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
        if batch.iter().any(|queued| queued.op.is_record()) {
            self.context.records_changed();
        }
        for (index, error) in &refused {
            tracing::error!("an entry is left out, since the database refuses it: {error}");
            batch[*index].report(Err(WriteError::Refused(error.clone())));
        }
        self.refused += refused.len() as u64;
        if batch
            .iter()
            .any(|queued| matches!(queued.op, WriteOp::Import(..) | WriteOp::Remove(_)))
        {
            self.measure().await?;
        }
        batch.retain_mut(|queued| {
            let is_tick = queued.op.is_tick();
            if !is_tick {
                queued.report(Ok(()));
            }
            is_tick
        });
        Ok(())
    }

    /// Seals the remaining ticks, so that the database file alone is complete.
    async fn close(mut self) {
        self.complete.extend(self.window.take());
        let closing = async {
            self.journal.sync()?;
            self.seal_complete().await?;
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
                .execute(&mut self.connection)
                .await?;
            Ok::<_, anyhow::Error>(self.connection.close().await?)
        };
        if let Err(error) = closing.await {
            tracing::warn!(
                "the last ticks are in the journal alone: {}",
                in_words(&error)
            );
        }
    }
}

async fn write_one(connection: &mut SqliteConnection, op: &WriteOp) -> anyhow::Result<()> {
    match op {
        // The journal has them.
        WriteOp::Tick(..) => Ok(()),
        WriteOp::Catalog(rows) => write_rows(connection, rows).await,
        WriteOp::Gap(gap) => write_gap(connection, gap).await,
        WriteOp::Job(job) => write_job(connection, job).await,
        WriteOp::Alert(alert) => write_alert(connection, alert).await,
        WriteOp::Delivery(delivery) => write_delivery(connection, delivery).await,
        WriteOp::Silence(silence) => write_silence(connection, silence).await,
        WriteOp::Note(note) => write_note(connection, note).await,
        WriteOp::Remove(removed) => remove_job(connection, &removed.key).await,
        WriteOp::Import(job, file) => write_imported(connection, job, file).await,
        WriteOp::Sent(progress) => write_progress(connection, progress).await,
        WriteOp::Curve(uuid, curve) => write_curve(connection, uuid, curve).await,
    }
}
