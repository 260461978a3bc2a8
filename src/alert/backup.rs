//! The alert for a backup that reported success but lost what it read. It is of the volume that was backed up, and lasts
//! until that has a good backup again.

use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Alert, News, Rule, Rules, Severity};
use crate::job::{Harm, Job, JobKind, Outcome};

/// By then somebody has read it, or nobody will.
const LONGEST_MS: i64 = 7 * 24 * 3600 * 1000;

impl Rules {
    /// Judges a job that something new is known of; gives what is to be told.
    pub fn judge_job(&mut self, job: &Job, at: Timestamp) -> Vec<News> {
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

    /// Raises what an earlier run of the program did not come to tell: what it raised and could not tell, it closed.
    pub fn judge_ended(&mut self, jobs: &[Arc<Job>], at: Timestamp) -> Vec<News> {
        let is_new = |job: &&Arc<Job>| {
            job.ended_at.is_some_and(|ended| at.as_millisecond() - ended.as_millisecond() < LONGEST_MS)
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

    /// Ends alerts that nobody can still need.
    pub(super) fn clear_old_backups(&mut self, at: Timestamp) -> Vec<News> {
        let is_old = |alert: &Alert| at.as_millisecond() - alert.raised_at.as_millisecond() > LONGEST_MS;
        self.clear_backups(at, "This was a week ago.", is_old)
    }

    /// Once for each job, and once for a backup and the command around it.
    fn raise_for(&mut self, job: &Job, at: Timestamp) -> Option<News> {
        let is_known = |alert: &Alert| alert.rule == Rule::BackupUntrustworthy && is_of(alert, job);
        if self.open.iter().any(|alert| is_known(alert) && alert.raised_at >= job.started_at) {
            return None;
        }
        self.last_id += 1;
        let (severity, sentence) = (Severity::Critical, sentence(job));
        let alert = Alert {
            id: self.last_id,
            rule: Rule::BackupUntrustworthy,
            severity,
            vg: job.vg.clone().unwrap_or_default(),
            lv: subject(job).unwrap_or_default().into(),
            uuid: job.key.clone(),
            value: None,
            raised_at: at,
            cleared_at: None,
            worst: severity,
            sentence,
        };
        self.open.push(alert.clone());
        Some(alert)
    }

    fn clear_backups(&mut self, at: Timestamp, how: &str, is_over: impl Fn(&Alert) -> bool) -> Vec<News> {
        let is_it = |alert: &Alert| alert.rule == Rule::BackupUntrustworthy && is_over(alert);
        let mut news = Vec::new();
        while let Some(index) = self.open.iter().position(is_it) {
            news.push(self.clear(index, None, at, how.into()));
        }
        news
    }
}

/// What was backed up; the snapshot itself where its origin is not known.
fn subject(job: &Job) -> Option<&str> {
    job.origin.as_deref().or(job.lv.as_deref())
}

fn is_of(alert: &Alert, job: &Job) -> bool {
    job.vg.as_deref() == Some(&alert.vg) && subject(job) == Some(&alert.lv)
}

fn name(job: &Job) -> String {
    match (&job.vg, subject(job)) {
        (Some(vg), Some(lv)) => format!("{vg}/{lv}"),
        _ => job.name.clone(),
    }
}

fn sentence(job: &Job) -> String {
    // It lasts for days: the time of day alone would not say which.
    let moment = |at: Timestamp| at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    let harm = job.harm().or(job.died_at.map(|at| (Harm::Death, at)));
    let what = match harm {
        Some((Harm::Death, at)) => format!("its snapshot became invalid at {}", moment(at)),
        Some((Harm::IoError, at)) => format!("its snapshot answered with I/O errors at {}", moment(at)),
        Some((Harm::Unmount, at)) => format!("its snapshot was unmounted by somebody else at {}", moment(at)),
        None => "its snapshot was lost".into(),
    };
    format!(
        "The backup of {} reported success, but {what}: what it wrote may be cut short or filled up with zeros. Do not \
         rely on it, keep the one before, and make another with a larger snapshot.",
        name(job)
    )
}
