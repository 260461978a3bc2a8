//! Alerts about backups.
//!
//! One is unusable, or may be: it failed, was killed, lost its snapshot or read too little. That alert belongs to the
//! origin, and lasts until the origin has a good backup.
//!
//! Others are not as usual: none for too long, too slow, too small, or with a long lock of the database. What is usual is
//! learnt from the last good backups of the same volume. Fewer than a few tell nothing.

use std::sync::Arc;

use jiff::Timestamp;

use super::settle::{AlertSubject, Evaluation, RuleFinding};
use super::{Alert, AlertText, Rule, Rules, Severity, Situation, seconds_between};
use crate::job::backup_run::BackupRun;
use crate::job::history::{VolumeBackups, backups_by_volume};
use crate::job::progress::past_runs;
use crate::job::{Grade, Job, JobKind, Outcome};
use crate::schedule::ScheduledStart;
use crate::sentence;
use crate::sentence::{Sentence, command};
use crate::sizing::{SizeRisk, SizingRequest, next_snapshot};
use crate::units::{duration_text, size_text};

/// So long after the backup, alerts about it expire: it was given up.
const EXPIRY_S: f64 = 7.0 * DAY_S;
const DAY_S: f64 = 24.0 * 3600.0;

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
                .is_some_and(|ended| seconds_between(ended, at) < EXPIRY_S);
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
            let is_old =
                alert.rule == Rule::BackupFailed && seconds_between(alert.raised_at, at) > EXPIRY_S;
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

/// Fewer earlier runs do not show what is usual.
const LEAST_RUNS: usize = 3;
/// So much longer than usual is too long, and too little the other way round.
const FACTOR: f64 = 1.5;
const SMALL: f64 = 0.5;
/// A backup of seconds may take a few minutes longer.
const LEAST_DELAY_S: f64 = 300.0;
const RELEASED: &str = "The lock was released.";

impl Rules {
    /// Evaluates the rules of this family; those about history only if `is_slow`.
    pub(super) fn judge_backups(&mut self, now: &Situation, is_slow: bool) -> Vec<Alert> {
        let at = now.interval.at;
        let mut changed = self.judge_locks(now);
        if is_slow {
            for job in now.jobs.running() {
                if job.kind == JobKind::Snapshot {
                    changed.extend(self.judge_length(job, now));
                }
            }
            let all = self.all_backups(now);
            let names: Vec<String> = all.iter().map(VolumeBackups::name).collect();
            for backups in &all {
                changed.extend(self.judge_size(backups, at));
                changed.extend(self.judge_age(backups, &now.interval.schedule, at));
            }
            changed.extend(self.judge_next_sizes(now));
            changed.extend(self.clear_all(at, |alert| {
                let is_forgotten = matches!(alert.rule, Rule::BackupMissing | Rule::BackupSmall)
                    && !names.contains(&alert.uuid);
                let ending = "The volume was removed, or its backups are not known any more.";
                is_forgotten.then(|| ending.into())
            }));
        }
        let is_running = |alert: &Alert| now.jobs.running().iter().any(|job| job.key == alert.uuid);
        changed.extend(self.recover_all(at, |alert| {
            let is_over = alert.rule == Rule::BackupSlow && !is_running(alert);
            is_over.then(|| "The backup has ended.".into())
        }));
        changed
    }

    fn judge_length(&mut self, job: &Job, now: &Situation) -> Option<Alert> {
        let earlier = past_runs(job, now.jobs.ended().iter().rev().map(|job| &**job)).runs;
        if !job.is_backup() {
            return None;
        }
        let longest_s = earlier.iter().map(|run| run.seconds).fold(0.0, f64::max);
        let seconds = self.clock?.age_s(job.started_at, now.interval.at);
        let is_slow = earlier.len() >= LEAST_RUNS
            && seconds > (longest_s * FACTOR).max(longest_s + LEAST_DELAY_S);
        let stalled = job
            .judgement()
            .warning
            .filter(|_| job.stalled_since.is_some());
        let (vg, lv) = job.backed_up();
        let subject = AlertSubject::new(&vg, &lv, &job.key);
        let evaluation = Evaluation::warning_if(is_slow || stalled.is_some());
        let finding = RuleFinding {
            value: Some(seconds),
            job: Some(job.id),
            ..RuleFinding::new(Rule::BackupSlow, subject, now.interval.at, evaluation)
        };
        let raised = |_| {
            if let Some(stalled) = stalled.clone() {
                return AlertText::new(stalled, "");
            }
            let (runs, id) = (earlier.len(), job.id);
            let (time, longest) = (duration_text(seconds), duration_text(longest_s));
            let than = format!("the longest of the last {runs} took {longest}");
            AlertText::new(
                sentence![
                    "The backup of ",
                    subject.name(),
                    " runs for {time}; {than}."
                ],
                sentence!["The page of job {id} shows what slows it down."],
            )
        };
        self.settle(&finding, raised, || {
            "It reads again, or the clock was set back.".into()
        })
    }

    fn judge_size(&mut self, backups: &VolumeBackups, at: Timestamp) -> Option<Alert> {
        let is_whole = |job: &&&Job| !job.is_incremental() && job.accepted_at.is_none();
        let whole = backups.good.iter().filter(is_whole);
        let mut runs = whole.filter_map(|job| Some((job, job.bytes_read?)));
        let (last, read) = runs.next()?;
        let mut earlier: Vec<u64> = runs.map(|(_, read)| read).collect();
        if earlier.len() < LEAST_RUNS {
            return None;
        }
        earlier.sort_unstable();
        let usual = earlier[earlier.len() / 2];
        let is_recent = seconds_between(last.ended_at?, at) < EXPIRY_S;
        let is_small = (read as f64) < usual as f64 * SMALL && is_recent;
        let key = backups.name();
        let subject = AlertSubject::new(&backups.vg, &backups.lv, &key);
        let name = subject.name();
        let evaluation = Evaluation::warning_if(is_small);
        let finding = RuleFinding {
            job: Some(last.id),
            ..RuleFinding::new(Rule::BackupSmall, subject, at, evaluation)
        };
        let (read, usual) = (size_text(read), size_text(usual));
        let raised = |_| {
            let but = format!("read only {read}; usually it reads {usual}");
            AlertText::new(
                sentence!["The backup of ", name.clone(), " {but}."],
                "Check that no data is missing in it.",
            )
        };
        let cleared = || {
            let now = format!("read {read}, or a week has passed");
            sentence!["The last backup of ", name.clone(), " {now}."]
        };
        self.settle(&finding, raised, cleared)
    }

    /// Whether the next snapshot of each volume is large enough, as far as that is known.
    fn judge_next_sizes(&mut self, now: &Situation) -> Vec<Alert> {
        let at = now.interval.at;
        let mut changed = Vec::new();
        let mut judged = Vec::new();
        for volume in &now.interval.topology.volumes {
            let ended = now.jobs.ended().iter().rev().map(|job| &**job);
            let jobs = now.jobs.running().iter().rev().chain(ended);
            let request = SizingRequest::of_volume(volume, now.interval, now.measured, jobs);
            let planned = request.as_ref().and_then(next_snapshot);
            let Some(planned) = planned.filter(|planned| planned.cases >= LEAST_RUNS) else {
                continue;
            };
            judged.push(&*volume.uuid);
            let evaluation = Evaluation::warning_if(planned.risk == SizeRisk::Likely);
            let subject = AlertSubject::new(&volume.vg, &volume.lv, &volume.uuid);
            let finding = RuleFinding::new(Rule::SnapshotSmall, subject, at, evaluation);
            let text = &*planned.text;
            let raised = |_| AlertText::new(text, "");
            changed.extend(self.settle(&finding, raised, || text.into()));
        }
        changed.extend(self.clear_all(at, |alert| {
            let is_forgotten = alert.rule == Rule::SnapshotSmall && !judged.contains(&&*alert.uuid);
            let ending = "The volume was removed, or its snapshots are not known any more.";
            is_forgotten.then(|| ending.into())
        }));
        changed
    }

    fn judge_age(
        &mut self,
        backups: &VolumeBackups,
        schedule: &[ScheduledStart],
        at: Timestamp,
    ) -> Option<Alert> {
        let key = backups.name();
        let subject = AlertSubject::new(&backups.vg, &backups.lv, &key);
        let name = subject.name();
        let thresholds = self
            .settings
            .of(Rule::BackupMissing, &backups.vg, &backups.lv)?;
        let clock = self.clock?;
        let last = backups.good.first();
        let last_end = last.and_then(|job| job.ended_at);
        let since = last_end.unwrap_or(clock.began_at);
        let age_s = clock.age_s(since, at);
        let since_s = age_s - self.unseen_s(last_end);
        let (evaluation, expected): (_, Sentence) = if thresholds.critical.is_finite() {
            let within = duration_text(thresholds.critical);
            (
                Evaluation::by_value(Rule::BackupMissing, since_s, thresholds, None),
                format!("there must be one within {within}").into(),
            )
        } else if let Some(start) = backups.start(schedule) {
            let missed = backups.missed(start, at);
            // cowbell does not know the backups of when it did not run.
            let is_missing = missed.is_some_and(|missed| self.unseen_s(Some(missed)) == 0.0);
            let planned = missed.map(|missed| sentence!["one was to start at ", missed]);
            (
                Evaluation::warning_if(is_missing),
                planned.unwrap_or_default(),
            )
        } else {
            // Without a usual period, nothing is missing.
            let period = backups.period();
            let limit_s = period.map_or(f64::INFINITY, |period| period.limit_s);
            let usual_s = period.map_or(0.0, |period| period.usual_s);
            let is_missing = (limit_s..limit_s + EXPIRY_S).contains(&since_s);
            (
                Evaluation::warning_if(is_missing),
                format!("usually there is one every {}", duration_text(usual_s)).into(),
            )
        };
        let finding = RuleFinding {
            value: Some(since_s),
            job: last.map(|job| job.id),
            ..RuleFinding::new(Rule::BackupMissing, subject, at, evaluation)
        };
        let raised = |_| {
            let age = duration_text(age_s);
            let started = last_end.map_or(", when cowbell started", |_| "");
            let then = format!(", for {age}{started}; ");
            AlertText::new(
                sentence![
                    "There was no good backup of ",
                    name.clone(),
                    " since ",
                    since,
                    then,
                    expected.clone(),
                    "."
                ],
                "See why it did not run or failed, and repeat it.",
            )
        };
        let cleared = || match last_end {
            Some(end) => {
                let age = duration_text(seconds_between(end, at));
                sentence![
                    "The last good backup of ",
                    name.clone(),
                    " ended {age} ago."
                ]
            }
            None => sentence![name.clone(), " needs no backup."],
        };
        self.settle(&finding, raised, cleared)
    }

    /// The volumes with backups, and those that must have some.
    fn all_backups<'a>(&self, now: &Situation<'a>) -> Vec<VolumeBackups<'a>> {
        let topology = &now.interval.topology;
        let ended = now.jobs.ended().iter().rev().map(|job| &**job);
        let mut all = backups_by_volume(ended);
        all.retain(|backups| !backups.good.is_empty());
        all.retain(|backups| backups.vg.is_empty() || topology.volume(&backups.name()).is_some());
        for volume in &topology.volumes {
            let (vg, lv) = (&volume.vg, &volume.lv);
            // A general setting is only for volumes that have backups.
            let must_have_some = self.settings.is_overridden(Rule::BackupMissing, vg, lv)
                && self
                    .settings
                    .of(Rule::BackupMissing, vg, lv)
                    .is_some_and(|it| it.critical.is_finite())
                && volume.kind.can_have_snapshots();
            if must_have_some && !all.iter().any(|known| known.vg == *vg && known.lv == *lv) {
                all.push(VolumeBackups::new(vg.clone(), lv.clone()));
            }
        }
        all
    }

    /// How long cowbell did not run since a time: it does not know the backups of then.
    fn unseen_s(&self, since: Option<Timestamp>) -> f64 {
        let (Some(since), Some(stopped_at), Some(clock)) = (since, self.stopped_at, self.clock)
        else {
            return 0.0;
        };
        seconds_between(since.max(stopped_at), clock.began_at).max(0.0)
    }

    fn judge_locks(&mut self, now: &Situation) -> Vec<Alert> {
        let mut runs: Vec<(Option<&Job>, &BackupRun)> = Vec::new();
        for job in now.jobs.running() {
            if let Some(run) = &job.backup_run {
                runs.push((Some(job), run));
            }
        }
        runs.extend(now.jobs.pending_runs().map(|run| (None, run)));
        runs.retain(|(_, run)| !run.is_over());
        let mut changed = Vec::new();
        for (job, run) in &runs {
            changed.extend(self.judge_lock(*job, run, now.interval.at));
        }
        changed.extend(self.recover_all(now.interval.at, |alert| {
            let is_over = alert.rule == Rule::LockHeld
                && !runs
                    .iter()
                    .any(|(_, run)| run.run.to_string() == alert.uuid);
            is_over.then(|| RELEASED.into())
        }));
        changed
    }

    fn judge_lock(&mut self, job: Option<&Job>, run: &BackupRun, at: Timestamp) -> Option<Alert> {
        let seconds = seconds_between(run.locked_from?, run.locked_until.unwrap_or(at));
        let (vg, lv) = job.map_or_else(|| (String::new(), "mylvmbackup".into()), Job::backed_up);
        // Its end is that of the run, see above: it is not cleared when the lock is released.
        if seconds < self.settings.of(Rule::LockHeld, &vg, &lv)?.warning {
            return None;
        }
        let uuid = run.run.to_string();
        let subject = AlertSubject::new(&vg, &lv, &uuid);
        let finding = RuleFinding {
            value: Some(seconds),
            job: job.map(|job| job.id),
            ..RuleFinding::new(Rule::LockHeld, subject, at, Evaluation::WARNING)
        };
        let raised = |_| {
            let mut problem = sentence!["The backup of ", subject.name()];
            let lock = "the global read lock of the database";
            let time = duration_text(seconds);
            if run.locked_until.is_some() {
                problem.push(format!(" held {lock} for up to {time}."));
                return AlertText::new(problem, "Writes waited meanwhile.");
            }
            problem.push(format!(
                " may hold {lock} for {time} already: all writes wait."
            ));
            let end = " for a long query that delays it, or end the backup.";
            AlertText::new(problem, sentence!["See ", command("SHOW PROCESSLIST"), end])
        };
        self.settle(&finding, raised, || RELEASED.into())
    }
}
