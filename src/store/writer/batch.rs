//! The writer's loop. Operations that cannot be written are held and retried.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use sqlx::Connection;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::{End, Writer};
use crate::store::damage;
use crate::store::words::in_words;
use crate::store::write_op::{QueueEntry, WriteError, WriteOp, without_replaced};
use crate::units::count_text;

/// Maximum operations in a batch.
const MOST_AT_ONCE: usize = 256;
/// Maximum operations that are held while nothing can be written.
const MOST_HELD: usize = 4_096;
/// How often the open files are compared with the files of their names, and the journal is synced if no tick arrives.
const LOOK_EVERY: Duration = Duration::from_secs(5);

impl Writer<'_> {
    /// Writes until the queue is closed and empty, or the database is lost. `held` keeps the unwritten operations.
    pub(super) async fn run(
        mut self,
        queue: &mut mpsc::Receiver<QueueEntry>,
        held: &mut Vec<QueueEntry>,
    ) -> End {
        // One timer for all ticks: a timer for each would wake the thread more often than the ticks do.
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut is_time_to_look = true;
            if held.is_empty() {
                let taken = tokio::select! {
                    taken = queue.recv_many(held, MOST_AT_ONCE) => Some(taken),
                    _ = looks.tick() => None,
                };
                if taken == Some(0) {
                    self.close().await;
                    return End::Closed;
                }
                is_time_to_look = taken.is_none();
            }
            self.context.report.send_modify(|health| health.busy_since = Some(Instant::now()));
            let end = self.step(queue, held, is_time_to_look).await;
            self.context.report.send_modify(|health| health.busy_since = None);
            if let Some(end) = end {
                return end;
            }
        }
    }

    async fn step(
        &mut self,
        queue: &mut mpsc::Receiver<QueueEntry>,
        held: &mut Vec<QueueEntry>,
        is_time_to_look: bool,
    ) -> Option<End> {
        if is_time_to_look {
            if let Some(sentence) = self.lost_files() {
                return Some(End::Lost(sentence));
            }
            self.sync_what_is_late();
        }
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
        let sentence = in_words(&error);
        hold(queue, held, &sentence);
        if queue.is_closed() && queue.is_empty() {
            log_unwritten(held, &sentence);
            return Some(End::Closed);
        }
        tokio::time::sleep(super::RETRY_PAUSE).await;
        None
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
            if let (Some(error), None) = (&error, &health.error) {
                tracing::error!("continuing from memory: {error}");
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

    /// Writes the batch and removes written operations. Devices and volumes go before the ticks that refer to them. Ticks go
    /// before the rest, since the journal may have room when the database has none.
    async fn write(&mut self, batch: &mut Vec<QueueEntry>) -> anyhow::Result<()> {
        if batch.iter().any(|queued| matches!(queued.op, WriteOp::Catalog(_))) {
            self.write_records(batch).await?;
        }
        let ticks = self.keep_ticks(batch).await;
        if batch.iter().any(|queued| !queued.op.is_tick()) {
            self.write_records(batch).await?;
        }
        ticks
    }

    /// Seals the remaining ticks, so that the database file alone is complete.
    async fn close(mut self) {
        self.complete.extend(self.window.take());
        let closing = async {
            self.journal.sync()?;
            self.seal_complete().await?;
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut self.connection).await?;
            Ok::<_, anyhow::Error>(self.connection.close().await?)
        };
        if let Err(error) = closing.await {
            tracing::warn!("the last ticks are in the journal alone: {}", in_words(&error));
        }
    }
}

/// Reports that the held operations are not stored, and makes room in the queue.
pub fn hold(queue: &mut mpsc::Receiver<QueueEntry>, held: &mut Vec<QueueEntry>, sentence: &str) {
    while held.len() < MOST_HELD
        && let Ok(queued) = queue.try_recv()
    {
        held.push(queued);
    }
    held.iter_mut().for_each(|queued| queued.report(Err(WriteError::Held(sentence.into()))));
    without_replaced(held);
}

pub fn log_unwritten(held: &[QueueEntry], sentence: &str) {
    if !held.is_empty() {
        tracing::error!("{} could not be stored: {sentence}", count_text(held.len(), "entry", "entries"));
    }
}
