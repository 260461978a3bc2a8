//! The alert for a backup that is unusable, or may be: it failed, was killed, lost its snapshot or read too little. The
//! alert belongs to the origin, and lasts until the origin has a good backup.

use std::sync::Arc;

use jiff::Timestamp;

use super::settle::AlertSubject;
use super::{Alert, AlertText, Rule, Rules, Severity, seconds_between};
use crate::job::{Grade, Job, Outcome};
use crate::sentence;

/// The alert expires after a week.
const MAX_AGE_S: f64 = 7.0 * 24.0 * 3600.0;

impl Rules {
    /// Evaluates a changed job; returns alerts to deliver.
    pub fn judge_job(&mut self, job: &Job, at: Timestamp) -> Vec<Alert> {
        let (vg, lv) = job.backed_up();
        if let Some(severity) = severity(job)
            && self.settings.of(Rule::BackupFailed, &vg, &lv).is_some()
        {
            return self.raise_for(job, severity, at).into_iter().collect();
        }
        if job.was_read_through_unreported() {
            return self.recover_all(at, |alert| {
                let is_over = alert
                    .job
                    .is_some_and(|id| job.after_incomplete.contains(&id));
                let ends = alert.rule == Rule::BackupFailed && is_over;
                ends.then(|| "A snapshot of this name was read through again.".into())
            });
        }
        if job.outcome != Some(Outcome::Succeeded) || !job.is_backup() || !job.is_decisive() {
            return Vec::new();
        }
        self.recover_all(at, |alert| {
            let is_before = job.ended_at.is_some_and(|ended| alert.raised_at <= ended);
            let is_over = alert.rule == Rule::BackupFailed
                && is_same(job, &alert.vg, &alert.lv)
                && (alert.uuid == job.key || is_before);
            let name = AlertSubject::new(&vg, &lv, &job.key).name();
            is_over.then(|| sentence![name, " has a good backup again."])
        })
    }

    /// Raises alerts for jobs that ended while no process watched, unless a later backup of the same volume is good.
    pub fn judge_ended(&mut self, jobs: &[Arc<Job>], at: Timestamp) -> Vec<Alert> {
        let mut raised = Vec::new();
        for job in jobs {
            let Some(severity) = severity(job) else {
                continue;
            };
            let is_new = job
                .ended_at
                .is_some_and(|ended| seconds_between(ended, at) < MAX_AGE_S);
            let (vg, lv) = job.backed_up();
            let has_better = jobs.iter().any(|other| {
                let is_good = other.outcome == Some(Outcome::Succeeded)
                    && other.started_at > job.started_at
                    && is_same(other, &vg, &lv);
                let is_again =
                    other.was_read_through_unreported() && other.after_incomplete.contains(&job.id);
                is_good || is_again
            });
            if is_new && !has_better {
                raised.extend(self.raise_for(job, severity, at));
            }
        }
        raised
    }

    /// The alert of a job whose volumes have new names says these.
    pub fn rename(&mut self, job: &Job) {
        let index = self.index(Rule::BackupFailed, &job.key);
        if let Some(alert) = index.map(|index| &mut self.open[index]) {
            (alert.vg, alert.lv) = job.backed_up();
            alert.text = AlertText::new(job.judgement().warning, "");
        }
    }

    /// Clears expired alerts.
    pub(super) fn clear_old_backups(&mut self, at: Timestamp) -> Vec<Alert> {
        self.clear_all(at, |alert| {
            let is_old = alert.rule == Rule::BackupFailed
                && seconds_between(alert.raised_at, at) > MAX_AGE_S;
            is_old.then(|| "The alert expired after a week.".into())
        })
    }

    /// Raises one alert per job. A backup and the command around it share one.
    fn raise_for(&mut self, job: &Job, severity: Severity, at: Timestamp) -> Option<Alert> {
        let (vg, lv) = job.backed_up();
        self.rename(job);
        let is_known = self.open.iter().any(|alert| {
            alert.rule == Rule::BackupFailed
                && alert.vg == vg
                && alert.lv == lv
                && alert.raised_at >= job.started_at
                && alert.severity >= severity
        });
        if is_known {
            return None;
        }
        let index = self.raise(Rule::BackupFailed, severity, &job.key, at);
        let alert = &mut self.open[index];
        alert.vg = vg;
        alert.lv = lv;
        alert.job = Some(job.id);
        alert.text = AlertText::new(job.judgement().warning, "");
        Some(alert.clone())
    }
}

/// The severity of a backup's problem; `None` if it is good, runs well, or is no backup.
fn severity(job: &Job) -> Option<Severity> {
    if !job.is_backup() && job.damaged_archive().is_none() {
        return None;
    }
    let judgement = job.judgement();
    // While a backup runs, the rules of its snapshot and of slow backups alert; it may still report that it failed.
    if job.is_running()
        && matches!(
            judgement.outcome,
            None | Some(Outcome::Overflowed | Outcome::Failed)
        )
    {
        return None;
    }
    match judgement.grade {
        Grade::Critical => Some(Severity::Critical),
        Grade::Warning => Some(Severity::Warning),
        Grade::Unknown | Grade::Ok => None,
    }
}

/// Whether a job backs up this volume, or from this snapshot: a run that made none may know only the snapshot's name.
fn is_same(job: &Job, vg: &str, lv: &str) -> bool {
    let is_snapshot = job.vg.as_deref() == Some(vg) && job.lv.as_deref() == Some(lv);
    is_snapshot || job.backed_up() == (vg.into(), lv.into())
}
