//! Whether the wall clock can be believed: a wrong one must not make all that was kept look old.

use jiff::Timestamp;

use super::tick::Tick;

/// A clock is believed when it has not jumped for this long, by the ticks' own lengths.
const STEADY_US: u64 = 600_000_000;
/// Wall clock and steady clock may differ by this much over one tick before that counts as a jump.
const SLACK_US: i64 = 2_000_000;

/// The time of the last tick that was written, and since when it comes from a clock that does not jump.
pub struct Clock {
    last_at: Option<Timestamp>,
    steady_us: u64,
}

impl Clock {
    pub fn new() -> Self {
        Self { last_at: None, steady_us: 0 }
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
    }

    /// The last tick's time, when it can be believed.
    pub fn believed(&self) -> Option<Timestamp> {
        self.last_at.filter(|_| self.steady_us >= STEADY_US)
    }
}
