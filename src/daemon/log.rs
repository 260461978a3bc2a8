//! What the program's log says of jobs and alerts.

use std::collections::{HashSet, VecDeque};

use crate::alert::{Alert, Severity};
use crate::job::{Job, Outcome};

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

pub fn alert(alert: &Alert) {
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
