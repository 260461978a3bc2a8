//! The alert for a backup that is unusable, or may be: it failed, was killed, lost its snapshot or read too little. The
//! alert belongs to the origin, and lasts until the origin has a good backup.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Alert, Rule, Rules, Severity};
use crate::job::{Harm, Job, JobKind, Outcome};

/// The alert expires after a week.
const MAX_AGE_MS: i64 = 7 * 24 * 3600 * 1000;
/// What to do about most bad backups.
const REPEAT: &str = "do not rely on it, keep the previous one, and repeat it";

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
            let how = format!("{} has a good backup again.", name(job));
            let is_before =
                |alert: &Alert| job.ended_at.is_some_and(|ended| alert.raised_at <= ended);
            let is_over = |alert: &Alert| {
                is_same(job, &alert.vg, &alert.lv) && (*alert.uuid == *job.key || is_before(alert))
            };
            let is_it = |alert: &Alert| alert.rule == Rule::BackupFailed && is_over(alert);
            return self.recover_all(at, is_it, &how);
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
        let bad = jobs.iter().filter(is_new).filter(|job| !has_better(job));
        let bad: Vec<(&Arc<Job>, Severity)> =
            bad.filter_map(|job| Some((job, severity(job)?))).collect();
        bad.into_iter()
            .filter_map(|(job, severity)| self.raise_for(job, severity, at))
            .collect()
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
        alert.sentence = sentence(job);
        Some(alert.clone())
    }
}

/// The severity of a backup's problem; `None` if it is good, runs well, or is no backup.
fn severity(job: &Job) -> Option<Severity> {
    let is_unconfirmed = || {
        let has_report = job.report().is_some() || job.backup_run.is_some();
        job.kind == JobKind::Snapshot && job.outcome == Some(Outcome::Unknown) && has_report
    };
    match () {
        () if job.damaged_archive().is_some() => Some(Severity::Critical),
        () if !job.is_backup() => None,
        () if job.is_untrustworthy() || job.outcome.is_some_and(Outcome::is_bad) => {
            Some(Severity::Critical)
        }
        () if is_unconfirmed() => Some(Severity::Warning),
        () => None,
    }
}

/// Whether a job backs up this volume, or from this snapshot: a run that made none may know only the snapshot's name.
fn is_same(job: &Job, vg: &str, lv: &str) -> bool {
    let is_snapshot = job.vg.as_deref() == Some(vg) && job.lv.as_deref() == Some(lv);
    is_snapshot || job.backed_up() == (vg.into(), lv.into())
}

pub(super) fn name(job: &Job) -> String {
    let (vg, lv) = job.backed_up();
    if vg.is_empty() {
        lv
    } else {
        format!("{vg}/{lv}")
    }
}

fn sentence(job: &Job) -> String {
    let backup = format!("The backup of {}", name(job));
    // The alert lasts for days, so the sentence needs a date.
    let time = |at: Option<Timestamp>| {
        at.map_or_else(String::new, |at| {
            format!(" at {}", at.strftime("%F %T UTC"))
        })
    };
    let (doubt, accept) = (job.doubt(), job.way_to_accept());
    let ended = time(job.ended_at);
    let harm = job.harm().or(job.died_at.map(|at| (Harm::Death, at)));
    if let (None, Some(archive)) = (job.harm(), job.damaged_archive()) {
        let finding = archive.finding.as_deref().unwrap_or("see its certificate.");
        return format!(
            "{backup} is damaged, as its archive {} shows: {finding} So {REPEAT}.",
            archive.archive
        );
    }
    match (job.outcome, harm) {
        (Some(Outcome::Unknown), _) if job.report().is_none() => format!(
            "{backup} may be bad: it ended{ended}, and cowbell did not receive its report. See mylvmbackup's log, and repeat it \
             if that has no success."
        ),
        (Some(Outcome::Unknown), _) => format!(
            "{backup} reported success{ended}, but whether it is complete is unclear: {doubt}.{accept}"
        ),
        (Some(Outcome::Incomplete), _) => {
            format!(
                "{backup} reported success{ended}, but is incomplete: {doubt}. So {REPEAT}.{accept}"
            )
        }
        (Some(Outcome::Overflowed), harm) => format!(
            "{backup} is lost: its snapshot became invalid{}. Repeat it with a larger snapshot.",
            time(harm.map(|(_, at)| at))
        ),
        (Some(Outcome::Failed), _) => {
            format!(
                "{backup} failed{ended}{}. See its log, and repeat it.",
                why(job)
            )
        }
        (Some(Outcome::Abandoned), _) => format!(
            "{backup} did not finish: its process ended{ended} without a report. Repeat it.{}",
            match job.volume_name().filter(|_| job.left_snapshot) {
                Some(name) => format!(" Its snapshot {name} still exists."),
                None => String::new(),
            }
        ),
        (_, harm) => {
            let (what, at) = harm.map_or(("was lost", None), |(harm, at)| (harm.text(), Some(at)));
            let detail = harm.map_or_else(String::new, |(harm, _)| job.harm_detail(harm));
            format!(
                "{backup} reported success, but its snapshot {what}{}{detail}. The backup may be truncated or padded with zeros: \
                 {REPEAT}{}.",
                time(at),
                if what == Harm::Death.text() {
                    " with a larger snapshot"
                } else {
                    ""
                }
            )
        }
    }
}

/// Why a backup failed, as far as was observed.
fn why(job: &Job) -> String {
    match (job.exit_status, job.removed_at) {
        _ if job.made_no_snapshot() => ": no snapshot was made".into(),
        (Some(status), _) => format!(" with status {status}"),
        (_, Some(_)) => ": another process removed its snapshot".into(),
        _ => String::new(),
    }
}
