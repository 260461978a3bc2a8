//! When the journal has to reach the disk: before what a power cut would cost is older than is promised.

use std::time::{Duration, Instant};

use super::Writer;
use crate::store::Holds;

/// A power cut costs the ticks since the journal last reached the disk: none that is older than five seconds, and what a
/// tick may come late.
const SYNC_WITHIN: Duration = Duration::from_millis(5_250);

/// Ticks of the journal that a power cut would cost.
pub(super) struct Unsynced {
    since: Instant,
    /// How old the first of them was when the last one came.
    length: Duration,
}

impl Writer {
    /// For a tick of this length, which is in the journal now. The next one is taken to be as long.
    pub(super) fn sync_before_it_is_late(&mut self, length: Duration) {
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
    pub(super) fn sync_due_in(&self) -> Duration {
        let waited = self.unsynced.as_ref().map_or(Duration::ZERO, |unsynced| unsynced.since.elapsed());
        SYNC_WITHIN.saturating_sub(waited)
    }

    pub(super) fn sync(&mut self) {
        self.unsynced = None;
        if let Err(error) = self.journal.sync() {
            tracing::warn!("the journal did not reach the disk: {error}");
        }
    }
}
