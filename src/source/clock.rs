//! The wall clock, the monotonic clock, and a timer.

use std::os::fd::OwnedFd;
use std::time::Duration;

use jiff::Timestamp;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The wall clock in milliseconds, the precision of all times.
pub fn now() -> Timestamp {
    Timestamp::from_millisecond(Timestamp::now().as_millisecond()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Microseconds since boot, including suspend.
pub fn uptime_us() -> u64 {
    let clock = clock_gettime(ClockId::Boottime);
    micros(Duration::new(
        clock.tv_sec.unsigned_abs(),
        clock.tv_nsec as u32,
    ))
}

pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Ticks at a fixed interval, by the kernel's timer. Tokio's timer would wake its thread three times for each tick of a
/// second. Missed ticks are skipped.
pub struct Ticker {
    timer: AsyncFd<OwnedFd>,
    interval: Duration,
}

impl Ticker {
    /// The first tick is due at once.
    pub fn every(interval: Duration) -> std::io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let it_interval = Timespec::try_from(interval).map_err(std::io::Error::other)?;
        let spec = Itimerspec {
            it_interval,
            it_value: Timespec {
                tv_sec: 0,
                tv_nsec: 1,
            },
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec)?;
        // SAFETY: the descriptor stays open as long as the `AsyncFd` that owns it.
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE)? };
        Ok(Self { timer, interval })
    }

    /// Waits for the next tick. Cancel-safe.
    pub async fn tick(&mut self) {
        let read = |timer: &OwnedFd| Ok(rustix::io::read(timer, &mut [0; 8])?);
        if self.timer.async_io(Interest::READABLE, read).await.is_err() {
            tokio::time::sleep(self.interval).await;
        }
    }
}
