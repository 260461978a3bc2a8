//! What systemd and its journal are told: that the loop runs, in one line what it sees, and what happens to jobs and alerts.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use crate::alert::{Alert, Severity, alike};
use crate::job::{Job, Outcome};
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

/// Ended jobs whose logged outcome is remembered.
const MOST_OUTCOMES: usize = 200;

/// What was logged of jobs, so that each change is logged once.
pub struct JobLog {
    /// The running jobs, by ID.
    running: HashSet<i64>,
    /// The outcomes of the last ended jobs, by ID: one changes when a command reports its result later.
    outcomes: VecDeque<(i64, Outcome)>,
}

impl JobLog {
    /// `running` began in an earlier process, which logged that.
    pub fn new(running: &[Job]) -> Self {
        Self {
            running: running.iter().map(|job| job.id).collect(),
            outcomes: VecDeque::new(),
        }
    }

    /// Logs that a job began or ended, or that it is now judged otherwise.
    pub fn job(&mut self, job: &Job) {
        let (id, name) = (job.id, &job.name);
        let vg = job.vg.as_deref().unwrap_or_default();
        let lv = job.lv.as_deref().unwrap_or_default();
        let Some(outcome) = job.ended_at.and(job.outcome) else {
            if self.running.insert(id) {
                tracing::info!(vg, lv, job = name, "job {id} `{name}` began");
            }
            return;
        };
        let place = self.outcomes.iter().position(|(other, _)| *other == id);
        let before = place.and_then(|place| self.outcomes.remove(place));
        let has_ended_now = self.running.remove(&id);
        if !has_ended_now && before.is_none() {
            return;
        }
        // A job may go on after its end, and end again.
        if has_ended_now || before.is_some_and(|(_, before)| before != outcome) {
            let verb = if has_ended_now { "ended" } else { "is now" };
            let outcome = outcome.text();
            tracing::info!(vg, lv, job = name, "job {id} `{name}` {verb}: {outcome}");
        }
        self.outcomes.push_back((id, outcome));
        if self.outcomes.len() > MOST_OUTCOMES {
            self.outcomes.pop_front();
        }
    }
}

pub fn log_alert(alert: &Alert) {
    let Alert { vg, lv, .. } = alert;
    let sentence = alert.sentence();
    let rule = alert.rule.name();
    match alert.cleared_at {
        Some(_) => tracing::info!(vg, lv, alert = rule, "over: {sentence}"),
        None if alert.severity == Severity::Critical => {
            tracing::error!(vg, lv, alert = rule, "{sentence}")
        }
        None => tracing::warn!(vg, lv, alert = rule, "{sentence}"),
    }
}
