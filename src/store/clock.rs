//! Whether the wall clock can be believed: a wrong one must not make all that was kept look old.

use jiff::{SignedDuration, Timestamp};

use super::tick::Tick;

/// A clock is believed when it has not jumped for this long, by the ticks' own lengths.
const STEADY_US: u64 = 600_000_000;
/// One that is far ahead of all that was kept is believed only after so long: the host may have been off, or the clock is
/// wrong.
const FAR: SignedDuration = SignedDuration::from_hours(7 * 24);
const STEADY_AFTER_FAR_US: u64 = 24 * 3600 * 1_000_000;
/// Wall clock and steady clock may differ by this much over one tick before that counts as a jump.
const SLACK_US: i64 = 2_000_000;

/// The time of the last tick that was written, and since when it comes from a clock that does not jump.
pub struct Clock {
    last_at: Option<Timestamp>,
    steady_us: u64,
    /// The latest time of which it is known that it has come.
    known_at: Option<Timestamp>,
}

impl Clock {
    /// `kept_at` is when ticks were kept before, and known to be right.
    pub fn new(kept_at: Option<Timestamp>) -> Self {
        Self { last_at: None, steady_us: 0, known_at: kept_at }
    }

    pub fn see(&mut self, tick: &Tick) {
        let Ok(at) = Timestamp::from_millisecond(tick.at_ms) else { return };
        let elapsed_us = i64::try_from(tick.elapsed_us).unwrap_or(i64::MAX);
        let jumped = self.last_at.is_some_and(|last_at| {
            let walked_us = at.as_microsecond() - last_at.as_microsecond();
            (walked_us - elapsed_us).abs() > SLACK_US
        });
        self.steady_us = if jumped { 0 } else { self.steady_us.saturating_add(tick.elapsed_us) };
        self.last_at = Some(at);
        if self.known_at.is_none() || self.believed().is_some() {
            self.known_at = self.known_at.max(Some(at));
        }
    }

    /// The last tick's time, when it can be believed.
    pub fn believed(&self) -> Option<Timestamp> {
        let is_far = |at: Timestamp| self.known_at.is_some_and(|known| at.duration_since(known) > FAR);
        let needed = |at| if is_far(at) { STEADY_AFTER_FAR_US } else { STEADY_US };
        self.last_at.filter(|at| self.steady_us >= needed(*at))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// So many ticks of a minute, one after the other.
    fn see(clock: &mut Clock, from: &str, minutes: i64) {
        let from: Timestamp = from.parse().unwrap();
        for minute in 0..minutes {
            clock.see(&Tick::new(from.as_millisecond() + minute * 60_000, 60_000_000, Arc::default()));
        }
    }

    #[test]
    fn a_clock_that_is_far_ahead_of_what_was_kept_is_believed_after_a_day() {
        let kept: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        for (kept_at, begin, minutes, expected) in [
            (None, "2026-03-01T00:00:00Z", 9, false),
            (None, "2026-03-01T00:00:00Z", 11, true),
            (Some(kept), "2026-03-02T00:00:00Z", 11, true),
            (Some(kept), "2099-01-01T00:00:00Z", 1_400, false),
            (Some(kept), "2099-01-01T00:00:00Z", 1_441, true),
        ] {
            let mut clock = Clock::new(kept_at);
            see(&mut clock, begin, minutes);
            assert_eq!(clock.believed().is_some(), expected, "{kept_at:?}, {minutes} minutes from {begin}");
        }
    }

    #[test]
    fn a_clock_that_goes_far_ahead_while_it_is_watched_is_not_believed_either() {
        let mut clock = Clock::new(None);
        see(&mut clock, "2026-03-01T00:00:00Z", 100);
        see(&mut clock, "2099-01-01T00:00:00Z", 100);
        assert_eq!(clock.believed(), None);
    }
}
