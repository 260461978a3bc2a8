//! For how long a receiver that fails is left alone.

use std::time::{Duration, Instant};

/// The first pause. Each further one is twice as long, up to the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);

/// The failures in a row, of either request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Whether the live request may go. It also tries whether a receiver is back.
    pub fn allows_live(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| until <= now)
    }

    /// Whether the backlog may go: not before the receiver has taken something again.
    pub fn allows_backlog(&self, now: Instant) -> bool {
        self.failures == 0 && self.allows_live(now)
    }

    /// Returns the pause. The receiver may have asked for one.
    pub fn fail(&mut self, now: Instant, wanted: Option<Duration>) -> Duration {
        let usual = FIRST
            .saturating_mul(1 << self.failures.min(10))
            .min(LONGEST);
        let pause = wanted.unwrap_or(usual).max(FIRST);
        self.failures = self.failures.saturating_add(1);
        self.until = self.until.max(Some(now + pause));
        pause
    }

    pub fn succeed(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_and_begin_anew_after_a_success() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        let mut pauses: Vec<u64> = (0..7).map(|_| backoff.fail(now, None).as_secs()).collect();
        backoff.succeed();
        pauses.push(backoff.fail(now, None).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 1]);
    }

    #[test]
    fn the_pause_that_a_receiver_wants_is_kept() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(Some(backoff.fail(now, seconds(120))), seconds(120));
        assert_eq!(
            Some(backoff.fail(now, seconds(0))),
            seconds(1),
            "none at all would be a busy loop"
        );
        assert!(!backoff.allows_live(now + Duration::from_secs(119)));
        assert!(backoff.allows_live(now + Duration::from_secs(120)));
    }

    #[test]
    fn the_backlog_waits_until_the_live_request_succeeds() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        assert!(backoff.allows_backlog(now));
        let later = now + backoff.fail(now, None);
        assert!(backoff.allows_live(later) && !backoff.allows_backlog(later));
        backoff.succeed();
        assert!(backoff.allows_backlog(later) && !backoff.allows_backlog(now));
    }
}
