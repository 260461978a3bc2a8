//! Writes ticks to the journal, and complete segments from memory to the database.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::Writer;
use crate::store::TickOrigin;
use crate::store::health::stock;
use crate::store::rolling::{SOURCES, roll_up};
use crate::store::seal::seal;
use crate::store::tick::{SegmentTicks, Tick};
use crate::store::words::in_words;
use crate::store::write_op::{QueueEntry, WriteOp};

/// Maximum age of unsynced ticks, which a power cut would lose: five seconds, and the delay of a tick.
const SYNC_WITHIN: Duration = Duration::from_millis(5_250);
/// How often old data is searched for, and the pause between two steps of deletion.
const TIDY_EVERY: Duration = Duration::from_secs(60);
const TIDY_PAUSE: Duration = Duration::from_secs(1);
/// A recording may be played faster than it was made, and its data ages as fast.
const TIDY_RECORDING: Duration = Duration::from_millis(20);

/// Unsynced ticks in the journal, which a power cut would lose.
pub(super) struct UnsyncedTicks {
    since: Instant,
    /// The age of the first when the last one was added.
    length: Duration,
}

impl Writer<'_> {
    /// Removes ticks from the batch that are in the journal.
    pub(super) async fn keep_ticks(&mut self, batch: &mut Vec<QueueEntry>) -> anyhow::Result<()> {
        // Ticks from before the database was replaced by another refer to other devices.
        let first_segment = self
            .context
            .catalog
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .first_segment;
        let mut outcome = Ok(());
        let mut left = Vec::new();
        for mut queued in batch.drain(..) {
            match &queued.op {
                WriteOp::Tick(segment, _) if *segment < first_segment => self.refused += 1,
                WriteOp::Tick(segment, tick) if outcome.is_ok() => {
                    outcome = self.keep(*segment, tick).await;
                    match outcome {
                        Ok(()) => queued.report(Ok(())),
                        Err(_) => left.push(queued),
                    }
                }
                _ => left.push(queued),
            }
        }
        *batch = left;
        outcome
    }

    /// Appends a tick to the journal. Seals the previous segment first if possible, so that the journal is cleared.
    pub(super) async fn keep(&mut self, segment: i64, tick: &Arc<Tick>) -> anyhow::Result<()> {
        if self
            .window
            .as_ref()
            .is_none_or(|window| window.number != segment)
        {
            self.complete.extend(self.window.take());
            self.seal_when_complete().await;
        }
        self.journal.append(segment, &tick.to_record())?;
        let window = self.window.get_or_insert_with(|| SegmentTicks {
            number: segment,
            ticks: Vec::new(),
        });
        window.ticks.push(Arc::clone(tick));
        self.context.recent.wrote(tick);
        self.sync_before_it_is_late(Duration::from_micros(tick.elapsed_us));
        Ok(())
    }

    /// A segment that cannot be sealed stays in memory and in the journal, and is retried at the next tick.
    pub(super) async fn seal_when_complete(&mut self) {
        let outcome = self.seal_complete().await;
        self.is_broken |= outcome.is_err();
        self.sealing = outcome
            .err()
            .map(|error| format!("cannot write to the database: {}", in_words(&error)));
    }

    pub(super) async fn seal_complete(&mut self) -> anyhow::Result<()> {
        if self.complete.is_empty() {
            return Ok(());
        }
        self.mend().await?;
        while let Some(window) = self.complete.first() {
            seal(&mut self.connection, window.number, &window.ticks).await?;
            self.context.recent.sealed(window.number);
            self.complete.remove(0);
        }
        if self.window.is_none() {
            self.journal.clear()?;
        }
        if let Err(error) = roll_up(&mut self.connection, SOURCES).await {
            self.is_broken = true;
            tracing::warn!(
                "complete segments are not rolled up yet: {}",
                in_words(&error)
            );
        }
        self.measure().await
    }

    /// Measures how much is stored.
    pub(super) async fn measure(&mut self) -> anyhow::Result<()> {
        let stock = stock(&mut self.connection)
            .await
            .context("cannot measure the database")?;
        self.context
            .report
            .send_modify(|health| health.stock = stock);
        Ok(())
    }

    /// Syncs the journal before its ticks are too old. A tick of this length was just written to it, and the next one is
    /// expected to be as long.
    fn sync_before_it_is_late(&mut self, length: Duration) {
        // A recording can be played again.
        if self.context.holds == TickOrigin::Recording {
            return;
        }
        match &mut self.unsynced {
            Some(unsynced) => unsynced.length += length,
            None => {
                self.unsynced = Some(UnsyncedTicks {
                    since: Instant::now(),
                    length: Duration::ZERO,
                })
            }
        }
        let is_due = self
            .unsynced
            .as_ref()
            .is_some_and(|unsynced| unsynced.length + length > SYNC_WITHIN);
        if is_due {
            self.sync();
        }
    }

    /// Syncs ticks that are too old, if no further tick arrives.
    pub(super) fn sync_what_is_late(&mut self) {
        if self
            .unsynced
            .as_ref()
            .is_some_and(|unsynced| unsynced.since.elapsed() > SYNC_WITHIN)
        {
            self.sync();
        }
    }

    fn sync(&mut self) {
        self.unsynced = None;
        if let Err(error) = self.journal.sync() {
            tracing::warn!("the journal did not reach the disk: {error}");
        }
    }

    /// Deletes a little old data. Failures are retried.
    pub(super) async fn tidy_when_due(&mut self) {
        if Instant::now() < self.tidy_at {
            return;
        }
        let found_some = match self.mend().await {
            Ok(()) => self.retention.step(&mut self.connection).await,
            Err(error) => Err(error),
        };
        self.is_broken |= found_some.is_err();
        if let Ok(false) = found_some {
            // When no segment is left to delete, old alerts are.
            self.context.records_changed();
        }
        let failed = found_some.as_ref().err().map(|error| {
            format!(
                "cannot delete old data: {}; `cowbell db verify` finds damage",
                in_words(error)
            )
        });
        if let (Some(sentence), None) = (&failed, &self.tidying) {
            tracing::warn!("{sentence}");
        }
        self.tidying = failed;
        self.tidy_at = Instant::now()
            + match (self.context.holds, found_some) {
                (TickOrigin::Recording, _) => TIDY_RECORDING,
                (_, Ok(true)) => TIDY_PAUSE,
                _ => TIDY_EVERY,
            };
    }
}
