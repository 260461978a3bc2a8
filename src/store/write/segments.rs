//! Ticks go into the journal, and segments that are complete from there into the database.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::Writer;
use crate::store::load::{Queued, QueuedOp};
use crate::store::record::Recorder;
use crate::store::rolling::roll_up;
use crate::store::seal::seal;
use crate::store::stock::stock;
use crate::store::tick::Tick;
use crate::store::words::in_words;

/// Ticks of one segment.
pub(super) struct Window {
    pub(super) number: i64,
    pub(super) ticks: Vec<Arc<Tick>>,
}

impl Writer {
    /// Takes the ticks out of the batch that are in the journal.
    pub(super) async fn keep_ticks(&mut self, batch: &mut Vec<Queued>) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        let mut left = Vec::new();
        for mut load in batch.drain(..) {
            match &load.op {
                QueuedOp::Tick(segment, tick) if outcome.is_ok() => {
                    outcome = self.keep(*segment, tick).await;
                    match outcome {
                        Ok(()) => {
                            self.clock.see(tick);
                            load.report(Ok(()));
                        }
                        Err(_) => left.push(load),
                    }
                }
                _ => left.push(load),
            }
        }
        *batch = left;
        outcome
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
    pub(super) async fn seal_when_complete(&mut self) {
        let outcome = self.seal_complete().await;
        self.is_broken |= outcome.is_err();
        self.sealing =
            outcome.err().map(|error| format!("cannot write to the database: {}", in_words(&error)));
    }

    pub(super) async fn seal_complete(&mut self) -> anyhow::Result<()> {
        if self.complete.is_empty() {
            return Ok(());
        }
        self.mend().await?;
        while let Some(window) = self.complete.first() {
            seal(&mut self.connection, window.number, &window.ticks).await?;
            self.recent.clear(window.number);
            self.complete.remove(0);
        }
        if let Err(error) = roll_up(&mut self.connection).await {
            self.is_broken = true;
            tracing::warn!("what is complete is not rolled up yet: {}", in_words(&error));
        }
        self.measure().await
    }

    /// Tells how much there is now.
    pub(super) async fn measure(&mut self) -> anyhow::Result<()> {
        let stock = stock(&mut self.connection).await.context("cannot tell how much is kept")?;
        self.report.send_modify(|health| health.stock = stock);
        Ok(())
    }
}
