//! The alert for a backup that reported success although its snapshot failed. It belongs to the origin, and lasts until
//! that has a good backup.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Alert, Rule, Rules, Severity};
use crate::job::{Harm, Job, JobKind, Outcome};

/// The alert expires after a week.
const MAX_AGE_MS: i64 = 7 * 24 * 3600 * 1000;

impl Rules {
    /// Evaluates a changed job; returns alerts to deliver.
    pub fn judge_job(&mut self, job: &Job, at: Timestamp) -> Vec<Alert> {
        let is_lost = job.is_untrustworthy() || job.outcome == Some(Outcome::Untrustworthy);
        if is_lost {
            return self.raise_for(job, at).into_iter().collect();
        }
        if job.kind == JobKind::Snapshot && job.outcome == Some(Outcome::Succeeded) {
            let how = format!("{} has a good backup again.", name(job));
            return self.clear_backups(at, &how, |alert| is_of(alert, job));
        }
        Vec::new()
    }

    /// Raises alerts for jobs that ended under an earlier process, which closed its undelivered alerts.
    pub fn judge_ended(&mut self, jobs: &[Arc<Job>], at: Timestamp) -> Vec<Alert> {
        let is_new = |job: &&Arc<Job>| {
            job.ended_at.is_some_and(|ended| at.as_millisecond() - ended.as_millisecond() < MAX_AGE_MS)
        };
        let has_better = |job: &Job| {
            jobs.iter().any(|other| {
                other.outcome == Some(Outcome::Succeeded)
                    && other.started_at > job.started_at
                    && (&other.vg, subject(other)) == (&job.vg, subject(job))
            })
        };
        let lost = jobs.iter().filter(is_new).filter(|job| job.outcome == Some(Outcome::Untrustworthy));
        let lost: Vec<&Arc<Job>> = lost.filter(|job| !has_better(job)).collect();
        lost.into_iter().filter_map(|job| self.raise_for(job, at)).collect()
    }

    /// Clears expired alerts.
    pub(super) fn clear_old_backups(&mut self, at: Timestamp) -> Vec<Alert> {
        let is_old = |alert: &Alert| at.as_millisecond() - alert.raised_at.as_millisecond() > MAX_AGE_MS;
        self.clear_backups(at, "The alert expired after a week.", is_old)
    }

    /// Raises one alert per job, and one for a backup and the command around it.
    fn raise_for(&mut self, job: &Job, at: Timestamp) -> Option<Alert> {
        let is_known = |alert: &Alert| alert.rule == Rule::BackupUntrustworthy && is_of(alert, job);
        if self.open.iter().any(|alert| is_known(alert) && alert.raised_at >= job.started_at) {
            return None;
        }
        let index = self.raise(Rule::BackupUntrustworthy, Severity::Critical, &job.key, at);
        let alert = &mut self.open[index];
        alert.vg = job.vg.clone().unwrap_or_default();
        alert.lv = subject(job).unwrap_or_default().into();
        alert.sentence = sentence(job);
        Some(alert.clone())
    }

    fn clear_backups(&mut self, at: Timestamp, how: &str, is_over: impl Fn(&Alert) -> bool) -> Vec<Alert> {
        let is_it = |alert: &Alert| alert.rule == Rule::BackupUntrustworthy && is_over(alert);
        self.clear_all(at, is_it, |_| how.into())
    }
}

/// The volume that was backed up: the origin, or the snapshot if the origin is unknown.
fn subject(job: &Job) -> Option<&str> {
    job.origin.as_deref().or(job.lv.as_deref())
}

fn is_of(alert: &Alert, job: &Job) -> bool {
    job.vg.as_deref() == Some(&alert.vg) && subject(job) == Some(&alert.lv)
}

fn name(job: &Job) -> String {
    job.origin_name().or_else(|| job.volume_name()).unwrap_or_else(|| job.name.clone())
}

fn sentence(job: &Job) -> String {
    // The alert lasts for days, so the sentence needs a date.
    let harm = job.harm().or(job.died_at.map(|at| (Harm::Death, at)));
    let what = harm
        .map_or("was lost".into(), |(harm, at)| format!("{} at {}", harm.text(), at.strftime("%F %T UTC")));
    format!(
        "The backup of {} reported success, but its snapshot {what}. The backup may be truncated or padded with zeros: \
         do not rely on it, keep the previous one, and repeat it with a larger snapshot.",
        name(job)
    )
}
