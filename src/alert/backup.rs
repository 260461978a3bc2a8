//! The alert for a backup that is unusable, or may be: it failed, was killed, lost its snapshot or read too little. The
//! alert belongs to the origin, and lasts until the origin has a good backup.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Alert, AlertText, Rule, Rules, Severity};
use crate::job::{Grade, Job, JobKind, Outcome};
use crate::sentence;
use crate::sentence::SentencePart;

/// The alert expires after a week.
const MAX_AGE_MS: i64 = 7 * 24 * 3600 * 1000;

impl Rules {
    /// Evaluates a changed job; returns alerts to deliver.
    pub fn judge_job(&mut self, job: &Job, at: Timestamp) -> Vec<Alert> {
        let (vg, lv) = job.backed_up();
        if let Some(severity) =
            severity(job).filter(|_| self.settings.of(Rule::BackupFailed, &vg, &lv).is_some())
        {
            return self.raise_for(job, severity, at).into_iter().collect();
        }
        // If a command created a snapshot, the snapshot's job decides: it knows more than the exit status.
        let is_good = job.outcome == Some(Outcome::Succeeded) && job.is_backup();
        if is_good && (job.kind == JobKind::Snapshot || job.backup_of.is_none()) {
            let ending = sentence![subject(&vg, &lv), " has a good backup again."];
            let is_before =
                |alert: &Alert| job.ended_at.is_some_and(|ended| alert.raised_at <= ended);
            let is_over = |alert: &Alert| {
                is_same(job, &alert.vg, &alert.lv) && (*alert.uuid == *job.key || is_before(alert))
            };
            let is_it = |alert: &Alert| alert.rule == Rule::BackupFailed && is_over(alert);
            return self.recover_all(at, is_it, &ending);
        }
        Vec::new()
    }

    /// Raises alerts for jobs that ended while no process watched.
    pub fn judge_ended(&mut self, jobs: &[Arc<Job>], at: Timestamp) -> Vec<Alert> {
        let is_new = |job: &&Arc<Job>| {
            job.ended_at
                .is_some_and(|ended| at.as_millisecond() - ended.as_millisecond() < MAX_AGE_MS)
        };
        let has_better = |job: &Job| {
            jobs.iter().any(|other| {
                other.outcome == Some(Outcome::Succeeded)
                    && other.started_at > job.started_at
                    && is_same(other, &job.backed_up().0, &job.backed_up().1)
            })
        };
        let mut raised = Vec::new();
        for job in jobs.iter().filter(is_new).filter(|job| !has_better(job)) {
            if let Some(severity) = severity(job) {
                raised.extend(self.raise_for(job, severity, at));
            }
        }
        raised
    }

    /// Clears expired alerts.
    pub(super) fn clear_old_backups(&mut self, at: Timestamp) -> Vec<Alert> {
        let age_ms = |alert: &Alert| at.as_millisecond() - alert.raised_at.as_millisecond();
        let is_old = |alert: &Alert| alert.rule == Rule::BackupFailed && age_ms(alert) > MAX_AGE_MS;
        self.clear_all(at, is_old, |_| "The alert expired after a week.".into())
    }

    /// Raises one alert per job. A backup and the command around it share one.
    fn raise_for(&mut self, job: &Job, severity: Severity, at: Timestamp) -> Option<Alert> {
        let is_known = |alert: &Alert| {
            let is_newer = alert.raised_at >= job.started_at && alert.severity >= severity;
            alert.rule == Rule::BackupFailed
                && job.backed_up() == (alert.vg.clone(), alert.lv.clone())
                && is_newer
        };
        if self.open.iter().any(is_known) {
            return None;
        }
        let index = self.raise(Rule::BackupFailed, severity, &job.key, at);
        let alert = &mut self.open[index];
        (alert.vg, alert.lv) = job.backed_up();
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
    // While a backup runs, the rule of its snapshot alerts; it may still report that it failed.
    if job.is_running() && judgement.outcome == Some(Outcome::Overflowed) {
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

/// The volume, or the name of a command that backs up no known volume.
pub(super) fn subject(vg: &str, lv: &str) -> SentencePart {
    if vg.is_empty() {
        return SentencePart::Text(lv.into());
    }
    sentence::volume(format!("{vg}/{lv}"))
}
