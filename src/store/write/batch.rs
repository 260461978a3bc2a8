//! The writer's loop: what the queue has is written, and what could not be is held, with what came meanwhile.
//!
//! What is told of it as the store's health is told here.

use std::time::Instant;

use jiff::Timestamp;
use sqlx::Connection;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{RETRY_PAUSE, Writer};
use crate::store::load::{Queued, QueuedOp, without_older};
use crate::store::words::in_words;
use crate::units::count_text;

/// Loads that are taken in one go at most.
const MOST_AT_ONCE: usize = 256;
/// Loads that are taken out of the queue at most while the database takes none.
const MOST_HELD: usize = 4_096;

impl Writer {
    /// Writes until the queue is closed and empty.
    pub(super) async fn run(mut self, mut loads: mpsc::Receiver<Queued>) {
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

    async fn take(&mut self, batch: &mut Vec<Queued>, loads: &mut mpsc::Receiver<Queued>) {
        self.write_all(batch, loads).await;
        if batch.is_empty() {
            self.seal_when_complete().await;
            self.tidy_when_due().await;
        }
    }

    /// Tries until the batch is kept; when the program ends, only once.
    async fn write_all(&mut self, batch: &mut Vec<Queued>, loads: &mut mpsc::Receiver<Queued>) {
        loop {
            let (started, count) = (Instant::now(), batch.len());
            let last_at = batch.iter().rev().find_map(|load| match &load.op {
                QueuedOp::Tick(_, tick) => Timestamp::from_millisecond(tick.at_ms).ok(),
                _ => None,
            });
            let outcome = self.write(batch).await;
            self.is_broken |= outcome.is_err();
            self.tell(count - batch.len(), last_at, started, outcome.as_ref().err());
            match outcome {
                Ok(()) => return,
                Err(error) if loads.is_closed() && (loads.is_empty() || batch.len() >= MOST_HELD) => {
                    tracing::error!(
                        "{} could not be kept: {}",
                        count_text(batch.len(), "entry", "entries"),
                        in_words(&error)
                    );
                    return batch.clear();
                }
                Err(error) => {
                    let sentence = in_words(&error);
                    batch.iter_mut().for_each(|queued| queued.report(Err(sentence.clone())));
                    self.wait_and_take_more(batch, loads).await;
                }
            }
        }
    }

    /// The journal may have room where the database has none: ticks need not wait for what cannot be written.
    async fn wait_and_take_more(&mut self, batch: &mut Vec<Queued>, loads: &mut mpsc::Receiver<Queued>) {
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
        let error = error.map(|error| format!("cannot write to the database: {}", in_words(error)));
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
    async fn write(&mut self, batch: &mut Vec<Queued>) -> anyhow::Result<()> {
        if batch.iter().any(|load| matches!(load.op, QueuedOp::Rows(_))) {
            self.write_lasting(batch).await?;
            batch.retain(Queued::is_tick);
        }
        let ticks = self.keep_ticks(batch).await;
        if batch.iter().any(|load| !load.is_tick()) {
            self.write_lasting(batch).await?;
            batch.retain(Queued::is_tick);
        }
        ticks
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
            tracing::warn!("the last ticks are in the journal alone: {}", in_words(&error));
        }
    }
}
