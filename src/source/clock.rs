//! The wall clock and the monotonic clock.

use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// The wall clock in milliseconds, the precision of all times.
pub fn now() -> Timestamp {
    Timestamp::from_millisecond(Timestamp::now().as_millisecond()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Microseconds since boot, including suspend.
pub fn uptime_us() -> u64 {
    let clock = clock_gettime(ClockId::Boottime);
    micros(Duration::new(clock.tv_sec.unsigned_abs(), clock.tv_nsec as u32))
}

pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
