//! Limits how often something may happen: a token bucket, also for each client.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Burst limit; afterwards one each [`PAUSE`] is allowed.
const BURST: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// Clients with a bucket of their own.
const MOST_CLIENTS: usize = 1024;

#[derive(Debug)]
pub struct Rate {
    left: u32,
    refilled_at: Instant,
}

impl Default for Rate {
    fn default() -> Self {
        Self {
            left: BURST,
            refilled_at: Instant::now(),
        }
    }
}

impl Rate {
    pub fn allows(&mut self, now: Instant) -> bool {
        let allows = self.left(now) > 0;
        self.left = self.left.saturating_sub(1);
        allows
    }

    fn left(&mut self, now: Instant) -> u32 {
        let pauses =
            now.saturating_duration_since(self.refilled_at).as_millis() / PAUSE.as_millis();
        if pauses > 0 {
            let more = u32::try_from(pauses).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(more).min(BURST);
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
            rates.retain(|_, rate| rate.left(now) < BURST);
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

#[cfg(test)]
mod tests {
    use super::*;

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
