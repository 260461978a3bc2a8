//! Limits how often something may happen: a token bucket, also for each client, and for ticks after events.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Requests of a client, messages of hooks, or changes of mounts: a burst of a hundred, then ten a second.
const REQUESTS: Limit = Limit {
    burst: 100,
    pause: Duration::from_millis(100),
};
/// Extra ticks: a storm of events costs at most seven ticks a second, with the regular ones.
const EXTRA_TICKS: Limit = Limit {
    burst: 30,
    pause: Duration::from_millis(250),
};
/// Clients with a bucket of their own.
const MOST_CLIENTS: usize = 1024;
/// Minimum time between a tick and an extra one: an `lvcreate` causes several events.
const EVENT_PAUSE: Duration = Duration::from_millis(60);

/// So many at once; afterwards one each pause.
#[derive(Clone, Copy, Debug)]
struct Limit {
    burst: u32,
    pause: Duration,
}

#[derive(Debug)]
pub struct Rate {
    limit: Limit,
    left: u32,
    refilled_at: Instant,
}

impl Default for Rate {
    fn default() -> Self {
        Self::of(REQUESTS)
    }
}

impl Rate {
    fn of(limit: Limit) -> Self {
        Self {
            limit,
            left: limit.burst,
            refilled_at: Instant::now(),
        }
    }

    pub fn allows(&mut self, now: Instant) -> bool {
        let allows = self.left(now) > 0;
        self.left = self.left.saturating_sub(1);
        allows
    }

    fn left(&mut self, now: Instant) -> u32 {
        let elapsed = now.saturating_duration_since(self.refilled_at);
        let pauses = elapsed.as_millis() / self.limit.pause.as_millis();
        if pauses > 0 {
            let more = u32::try_from(pauses).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(more).min(self.limit.burst);
            self.refilled_at = now;
        }
        self.left
    }
}

/// A rate for each client, of which several requests may ask at a time.
#[derive(Debug)]
pub struct Rates<C>(Mutex<HashMap<C, Rate>>);

impl<C> Default for Rates<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C: Eq + Hash> Rates<C> {
    pub fn allows(&self, client: C) -> bool {
        let (mut rates, now) = (self.lock(), Instant::now());
        if rates.len() >= MOST_CLIENTS {
            rates.retain(|_, rate| rate.left(now) < REQUESTS.burst);
        }
        // More clients than that are an attack from many addresses.
        if rates.len() >= MOST_CLIENTS {
            rates.clear();
        }
        rates.entry(client).or_default().allows(now)
    }

    /// Whether `allows` would allow it.
    pub fn would_allow(&self, client: &C) -> bool {
        self.lock()
            .get_mut(client)
            .is_none_or(|rate| rate.left(Instant::now()) > 0)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<C, Rate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Extra ticks after device-mapper events, so that snapshots that exist for less than a regular tick are seen.
pub struct ExtraTicks {
    due_at: Option<Instant>,
    rate: Rate,
}

impl Default for ExtraTicks {
    fn default() -> Self {
        Self {
            due_at: None,
            rate: Rate::of(EXTRA_TICKS),
        }
    }
}

impl ExtraTicks {
    /// Schedules an extra tick soon after the last tick, or when the limit allows one; false if one is scheduled already.
    pub fn plan(&mut self, last: Option<Instant>) -> bool {
        if self.due_at.is_some() {
            return false;
        }
        let now = Instant::now();
        let pause = if self.rate.allows(now) {
            EVENT_PAUSE
        } else {
            EXTRA_TICKS.pause
        };
        self.due_at = Some(last.map_or(now, |last| last + pause));
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
        let mut extra = ExtraTicks::default();
        let mut planned = || {
            extra.ticked();
            extra.plan(Some(Instant::now()));
            extra.due_at.unwrap().duration_since(Instant::now())
        };
        for _ in 0..EXTRA_TICKS.burst {
            assert!(planned() <= EVENT_PAUSE);
        }
        assert!(planned() > EVENT_PAUSE);
    }

    #[test]
    fn a_flood_is_limited_to_ten_per_second() {
        let mut rate = Rate::default();
        let start = rate.refilled_at;
        let count = |rate: &mut Rate, at| (0..1_000).filter(|_| rate.allows(at)).count();
        assert_eq!(count(&mut rate, start), 100);
        assert_eq!(count(&mut rate, start + Duration::from_secs(1)), 10);
        assert_eq!(count(&mut rate, start + Duration::from_secs(60)), 100);
    }

    #[test]
    fn clients_do_not_limit_each_other() {
        let rates = Rates::default();
        let allowed = (0..1_000).filter(|_| rates.allows(1)).count();
        assert!((100..200).contains(&allowed), "{allowed}");
        assert!(!rates.would_allow(&1) && rates.would_allow(&2) && rates.allows(2));
        (0..10_000).for_each(|client| _ = rates.allows(client));
        assert!(rates.lock().len() <= MOST_CLIENTS);
    }
}
