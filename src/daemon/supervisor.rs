//! Tells systemd that the loop runs, and in one line what it sees.

use std::time::{Duration, Instant};

use crate::alert::alike;
use crate::present::Present;
use crate::systemd::{feed_every, is_supervisor, notify};
use crate::units::{count_text, percent_text};

/// What systemd knows. It restarts a loop that is silent; slow disks and long ticks do not silence it.
pub struct Supervisor {
    is_ready: bool,
    feed_every: Duration,
    fed_at: Instant,
    /// The number of open alerts in the last status.
    alerts: usize,
    /// Why the last configuration was not taken.
    problem: Option<String>,
}

impl Default for Supervisor {
    fn default() -> Self {
        Self {
            is_ready: false,
            feed_every: feed_every(),
            fed_at: Instant::now(),
            alerts: 0,
            problem: None,
        }
    }
}

impl Supervisor {
    /// Returns when systemd has to hear again.
    pub fn due(&self) -> tokio::time::Sleep {
        tokio::time::sleep_until((self.fed_at + self.feed_every).into())
    }

    /// The loop runs.
    pub fn feed(&mut self) {
        self.fed_at = Instant::now();
        notify("WATCHDOG=1");
    }

    /// Reports readiness at the first tick, and the status when alerts change or it is old.
    pub fn tick(&mut self, present: &Present) {
        let is_news = !self.is_ready || present.alerts.len() != self.alerts;
        if !is_supervisor() || !is_news && self.fed_at.elapsed() < self.feed_every {
            return;
        }
        let ready = if self.is_ready { "" } else { "READY=1\n" };
        (self.is_ready, self.alerts, self.fed_at) = (true, present.alerts.len(), Instant::now());
        notify(&format!(
            "{ready}WATCHDOG=1\nSTATUS={}",
            self.status(present)
        ));
    }

    /// A new configuration was taken, or refused with a sentence.
    pub fn reloaded(&mut self, problem: Option<String>) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now_us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        notify(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
        let status = problem.as_deref().unwrap_or("took the new configuration");
        notify(&format!("READY=1\nSTATUS={status}"));
        self.problem = problem;
    }

    /// Why the last configuration was refused.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    fn status(&self, present: &Present) -> String {
        let interval = &present.interval;
        let devices = count_text(interval.devices.len() as u64, "device", "devices");
        let mut status = format!("watching {devices}");
        let fills = interval
            .volumes()
            .filter_map(|(volume, state)| Some((volume, state.fill?.percent())));
        if let Some((volume, percent)) = fills.max_by(|one, other| one.1.total_cmp(&other.1)) {
            let (vg, lv) = (&volume.vg, &volume.lv);
            status += &format!("; {vg}/{lv} is {} full", percent_text(percent));
        }
        if let Some(group) = alike(&present.alerts, interval.at).first() {
            status += &format!("; {}", group[0].sentence());
        }
        if let Some(problem) = &self.problem {
            status += &format!("; {problem}");
        }
        status.replace(char::is_control, " ")
    }
}
