//! Extra ticks after device-mapper events, so that snapshots that exist for less than a regular tick are seen.

use std::time::{Duration, Instant};

/// Minimum time between a tick and an extra one: an `lvcreate` causes several events.
const EVENT_PAUSE: Duration = Duration::from_millis(60);
/// Burst limit of extra ticks.
const MAX_EXTRA_TICKS: u32 = 30;
/// The limit refills by one tick per this time: a storm of events costs at most seven ticks a second.
const STORM_PAUSE: Duration = Duration::from_millis(250);

/// When the next extra tick is due, and how many are left in this burst.
pub struct ExtraTicks {
    due_at: Option<Instant>,
    left: u32,
    refilled_at: Instant,
}

impl ExtraTicks {
    pub fn new() -> Self {
        Self {
            due_at: None,
            left: MAX_EXTRA_TICKS,
            refilled_at: Instant::now(),
        }
    }

    /// Schedules an extra tick soon after the last tick, or when the limit allows one; false if one is scheduled already.
    pub fn plan(&mut self, last: Option<Instant>) -> bool {
        if self.due_at.is_some() {
            return false;
        }
        let pauses = self.refilled_at.elapsed().as_millis() / STORM_PAUSE.as_millis();
        if let Some(pauses) = u32::try_from(pauses).ok().filter(|pauses| *pauses > 0) {
            self.left = self.left.saturating_add(pauses).min(MAX_EXTRA_TICKS);
            self.refilled_at = Instant::now();
        }
        let pause = if self.left > 0 {
            EVENT_PAUSE
        } else {
            STORM_PAUSE
        };
        self.due_at = Some(last.map_or_else(Instant::now, |last| last + pause));
        self.left = self.left.saturating_sub(1);
        true
    }

    /// Clears the schedule after a tick.
    pub fn ticked(&mut self) {
        self.due_at = None;
    }

    /// Waits for the scheduled tick; forever if none is scheduled.
    pub async fn due(&self) {
        match self.due_at {
            Some(due_at) => tokio::time::sleep_until(due_at.into()).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_of_events_causes_few_ticks() {
        let mut extra = ExtraTicks::new();
        let mut planned = || {
            extra.ticked();
            extra.plan(Some(Instant::now()));
            extra.due_at.unwrap().duration_since(Instant::now())
        };
        for _ in 0..MAX_EXTRA_TICKS {
            assert!(planned() <= EVENT_PAUSE);
        }
        assert!(planned() > EVENT_PAUSE);
    }
}
