//! Ticks out of turn, for what happens between two.

use std::time::{Duration, Instant};

/// A tick out of turn comes this long after the tick before at the earliest: an `lvcreate` is several events.
const EVENT_PAUSE: Duration = Duration::from_millis(60);
/// So many ticks may come out of turn in a row.
const MOST_EXTRA_TICKS: u32 = 30;
/// For each time that this has passed one more may come, whatever happens: a storm costs seven ticks a second at most.
const STORM_PAUSE: Duration = Duration::from_millis(250);

/// Ticks out of turn: when the next is due, and how many may still come in a row.
pub struct ExtraTicks {
    due_at: Option<Instant>,
    left: u32,
    refilled_at: Instant,
}

impl ExtraTicks {
    pub fn new() -> Self {
        Self { due_at: None, left: MOST_EXTRA_TICKS, refilled_at: Instant::now() }
    }

    /// Plans a tick for soon after the last one, or for when there may be one again; false where one is planned
    /// already.
    pub fn plan(&mut self, last: Option<Instant>) -> bool {
        if self.due_at.is_some() {
            return false;
        }
        let pauses = self.refilled_at.elapsed().as_millis() / STORM_PAUSE.as_millis();
        if let Some(pauses) = u32::try_from(pauses).ok().filter(|pauses| *pauses > 0) {
            self.left = self.left.saturating_add(pauses).min(MOST_EXTRA_TICKS);
            self.refilled_at = Instant::now();
        }
        let pause = if self.left > 0 { EVENT_PAUSE } else { STORM_PAUSE };
        self.due_at = Some(last.map_or_else(Instant::now, |last| last + pause));
        self.left = self.left.saturating_sub(1);
        true
    }

    /// There was a tick: none is planned any more.
    pub fn ticked(&mut self) {
        self.due_at = None;
    }

    /// Waits until a planned tick is due; for ever while none is planned.
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
    fn a_storm_of_events_makes_no_storm_of_ticks() {
        let mut extra = ExtraTicks::new();
        let mut planned = || {
            extra.ticked();
            extra.plan(Some(Instant::now()));
            extra.due_at.unwrap().duration_since(Instant::now())
        };
        for _ in 0..MOST_EXTRA_TICKS {
            assert!(planned() <= EVENT_PAUSE);
        }
        assert!(planned() > EVENT_PAUSE);
    }
}
