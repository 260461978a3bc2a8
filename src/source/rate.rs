//! Limits how often something may happen: a token bucket.

use std::time::{Duration, Instant};

/// Burst limit; afterwards one each [`PAUSE`] is allowed.
const BURST: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Rate {
    left: u32,
    refilled_at: Instant,
}

impl Default for Rate {
    fn default() -> Self {
        Self { left: BURST, refilled_at: Instant::now() }
    }
}

impl Rate {
    pub fn allows(&mut self, now: Instant) -> bool {
        let pauses = now.saturating_duration_since(self.refilled_at).as_millis() / PAUSE.as_millis();
        if pauses > 0 {
            let more = u32::try_from(pauses).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(more).min(BURST);
            self.refilled_at = now;
        }
        let allows = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allows
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
}
