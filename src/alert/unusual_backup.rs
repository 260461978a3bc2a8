//! Backups that are not as usual: none for too long, too slow, too small, or with a long lock of the database.
//!
//! What is usual is learnt from the last good backups of the same volume. Fewer than a few tell nothing.

use jiff::Timestamp;

use super::backup::subject;
use super::settle::{AlertSubject, Evaluation, RuleFinding};
use super::{Alert, AlertText, Rule, Rules, Situation, seconds_between};
use crate::job::backup_run::BackupRun;
use crate::job::progress::past_runs;
use crate::job::{Job, JobKind, MOST_EARLIER_RUNS};
use crate::sentence;
use crate::sentence::{Sentence, SentencePart, command};
use crate::sizing::{PlannedSize, SizeRisk, SizingRequest, next_snapshot};
use crate::topology::Volume;
use crate::units::{duration_text, size_text};

/// Fewer earlier runs do not show what is usual.
const LEAST_RUNS: usize = 3;
/// So much longer than usual is too long, and too little the other way round.
const FACTOR: f64 = 1.5;
const SMALL: f64 = 0.5;
/// A backup of seconds may take a few minutes longer.
const LEAST_DELAY_S: f64 = 300.0;
/// Fewer good backups, or within a shorter time, are trials: they have no period yet.
const LEAST_GOOD: usize = 5;
const LEAST_SPAN_S: f64 = 2.0 * DAY_S;
/// Weekends make a gap longer than usual, so the gap that occurred twice before is not too long; with a margin.
const MARGIN: f64 = 1.1;
/// So long after the backup, alerts about it expire: it was given up.
const EXPIRY_S: f64 = 7.0 * DAY_S;
const DAY_S: f64 = 24.0 * 3600.0;
const RELEASED: &str = "The lock was released.";

/// The backups of a volume, or of a command that backs up no known volume.
struct VolumeBackups<'a> {
    vg: String,
    lv: String,
    /// The last good ones, the latest first.
    good: Vec<&'a Job>,
}

impl VolumeBackups<'_> {
    fn name(&self) -> SentencePart {
        subject(&self.vg, &self.lv)
    }

    fn is_of(&self, vg: &str, lv: &str) -> bool {
        self.vg == vg && self.lv == lv
    }
}

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
            for backups in &all {
                changed.extend(self.judge_size(backups, at));
                changed.extend(self.judge_age(backups, at));
            }
            changed.extend(self.judge_next_sizes(now));
            let is_forgotten = |alert: &Alert| {
                matches!(alert.rule, Rule::BackupMissing | Rule::BackupSmall)
                    && !all
                        .iter()
                        .any(|backups| backups.is_of(&alert.vg, &alert.lv))
            };
            let ending = "The volume was removed, or its backups are not known any more.";
            changed.extend(self.clear_all(at, is_forgotten, |_| ending.into()));
        }
        let is_running = |alert: &Alert| now.jobs.running().iter().any(|job| job.key == alert.uuid);
        let is_over = |alert: &Alert| alert.rule == Rule::BackupSlow && !is_running(alert);
        changed.extend(self.recover_all(at, is_over, &"The backup has ended.".into()));
        changed
    }

    fn judge_length(&mut self, job: &Job, now: &Situation) -> Option<Alert> {
        let (vg, lv) = job.backed_up();
        let thresholds = self.settings.of(Rule::BackupSlow, &vg, &lv)?;
        let earlier = past_runs(job, now.jobs.ended().iter().rev().map(|job| &**job)).runs;
        if !job.is_backup() || earlier.len() < LEAST_RUNS {
            return None;
        }
        let longest_s = earlier.iter().map(|run| run.seconds).fold(0.0, f64::max);
        let seconds = self.clock?.age_s(job.started_at, now.interval.at);
        let limit_s = (longest_s * FACTOR).max(longest_s + LEAST_DELAY_S);
        let finding = RuleFinding {
            rule: Rule::BackupSlow,
            subject: AlertSubject::new(&vg, &lv, &job.key),
            at: now.interval.at,
            thresholds,
            evaluation: Evaluation::warning_if(seconds > limit_s),
            value: Some(seconds),
            job: Some(job.id),
        };
        let raised = |_| {
            let (runs, id) = (earlier.len(), job.id);
            let (time, longest) = (duration_text(seconds), duration_text(longest_s));
            AlertText::new(
                sentence![
                    "The backup of ",
                    subject(&vg, &lv),
                    " runs for {time}; the longest of the last {runs} took {longest}.",
                ],
                sentence!["The page of job {id} shows what slows it down."],
            )
        };
        self.settle(&finding, raised, || "The clock was set back.".into())
    }

    fn judge_size(&mut self, backups: &VolumeBackups, at: Timestamp) -> Option<Alert> {
        let thresholds = self
            .settings
            .of(Rule::BackupSmall, &backups.vg, &backups.lv)?;
        let whole = backups.good.iter().filter(|job| !job.is_incremental());
        let mut runs = whole.filter_map(|job| Some((job, job.bytes_read?)));
        let (last, read) = runs.next()?;
        let mut earlier: Vec<u64> = runs.map(|(_, read)| read).collect();
        if earlier.len() < LEAST_RUNS {
            return None;
        }
        earlier.sort_unstable();
        let usual = earlier[earlier.len() / 2];
        let is_recent = last
            .ended_at
            .is_some_and(|end| seconds_between(end, at) < EXPIRY_S);
        let is_small = (read as f64) < usual as f64 * SMALL && is_recent;
        let uuid = backups.name().to_string();
        let finding = RuleFinding {
            rule: Rule::BackupSmall,
            subject: AlertSubject::new(&backups.vg, &backups.lv, &uuid),
            at,
            thresholds,
            evaluation: Evaluation::warning_if(is_small),
            value: None,
            job: Some(last.id),
        };
        let (read, usual, name) = (size_text(read), size_text(usual), backups.name());
        let raised = |_| {
            AlertText::new(
                sentence![
                    "The backup of ",
                    name.clone(),
                    " read only {read}; usually it reads {usual}.",
                ],
                "Check that no data is missing in it.",
            )
        };
        let cleared = || {
            let name = backups.name();
            sentence![
                "The last backup of ",
                name,
                " read {read}, or a week has passed."
            ]
        };
        self.settle(&finding, raised, cleared)
    }

    /// Whether the next snapshot of each volume is large enough, as far as that is known.
    fn judge_next_sizes(&mut self, now: &Situation) -> Vec<Alert> {
        let (mut changed, mut judged) = (Vec::new(), Vec::new());
        for volume in &now.interval.topology.volumes {
            let ended = now.jobs.ended().iter().rev().map(|job| &**job);
            let request = SizingRequest::of_volume(volume, now.interval, now.measured, ended);
            let planned = request.as_ref().and_then(next_snapshot);
            if let Some(planned) = planned.filter(|planned| planned.cases >= LEAST_RUNS) {
                judged.push(&*volume.uuid);
                changed.extend(self.judge_next_size(volume, &planned, now.interval.at));
            }
        }
        let is_forgotten =
            |alert: &Alert| alert.rule == Rule::SnapshotSmall && !judged.contains(&&*alert.uuid);
        let ending = "The volume was removed, or its snapshots are not known any more.";
        changed.extend(self.clear_all(now.interval.at, is_forgotten, |_| ending.into()));
        changed
    }

    fn judge_next_size(
        &mut self,
        volume: &Volume,
        planned: &PlannedSize,
        at: Timestamp,
    ) -> Option<Alert> {
        let (vg, lv) = (&volume.vg, &volume.lv);
        let finding = RuleFinding {
            rule: Rule::SnapshotSmall,
            subject: AlertSubject::new(vg, lv, &volume.uuid),
            at,
            thresholds: self.settings.of(Rule::SnapshotSmall, vg, lv)?,
            evaluation: Evaluation::warning_if(planned.risk == SizeRisk::Likely),
            value: None,
            job: None,
        };
        let text = Sentence::with_commands(&planned.text);
        self.settle(
            &finding,
            |_| AlertText::new(text.clone(), ""),
            || text.clone(),
        )
    }

    fn judge_age(&mut self, backups: &VolumeBackups, at: Timestamp) -> Option<Alert> {
        let thresholds = self
            .settings
            .of(Rule::BackupMissing, &backups.vg, &backups.lv)?;
        let last = backups.good.first();
        let last_end = last.and_then(|job| job.ended_at);
        let clock = self.clock?;
        let age_s = clock.age_s(last_end.unwrap_or(clock.began_at), at);
        let since_s = age_s - self.unseen_s(last_end);
        let (evaluation, expected) = if thresholds.critical.is_finite() {
            let within = duration_text(thresholds.critical);
            (
                Evaluation::by_value(Rule::BackupMissing, since_s, thresholds, None),
                format!("there must be one within {within}"),
            )
        } else {
            let ends = backups.good.iter().filter_map(|job| job.ended_at);
            let ages: Vec<f64> = ends.map(|end| seconds_between(end, at)).collect();
            // Without a usual period, nothing is missing.
            let (usual_s, limit_s) = usual_period(&ages).unwrap_or((0.0, f64::INFINITY));
            let is_missing = (limit_s..limit_s + EXPIRY_S).contains(&since_s);
            (
                Evaluation::warning_if(is_missing),
                format!("usually there is one every {}", duration_text(usual_s)),
            )
        };
        let uuid = backups.name().to_string();
        let finding = RuleFinding {
            rule: Rule::BackupMissing,
            subject: AlertSubject::new(&backups.vg, &backups.lv, &uuid),
            at,
            thresholds,
            evaluation,
            value: Some(since_s),
            job: last.map(|job| job.id),
        };
        let raised = |_| {
            let age = duration_text(age_s);
            let since = last_end.unwrap_or(clock.began_at);
            let started = last_end.map_or(", when cowbell started", |_| "");
            AlertText::new(
                sentence![
                    "There was no good backup of ",
                    backups.name(),
                    " since ",
                    since,
                    ", for {age}{started}; {expected}.",
                ],
                "See why it did not run or failed, and repeat it.",
            )
        };
        let cleared = || match last_end {
            Some(end) => {
                let age = duration_text(seconds_between(end, at));
                let name = backups.name();
                sentence!["The last good backup of ", name, " ended {age} ago."]
            }
            None => sentence![backups.name(), " needs no backup."],
        };
        self.settle(&finding, raised, cleared)
    }

    /// The volumes with backups, and those that must have some.
    fn all_backups<'a>(&self, now: &Situation<'a>) -> Vec<VolumeBackups<'a>> {
        let volumes = &now.interval.topology.volumes;
        let mut all: Vec<VolumeBackups<'a>> = Vec::new();
        for job in now
            .jobs
            .ended()
            .iter()
            .rev()
            .filter(|job| job.is_good_backup())
        {
            let (vg, lv) = job.backed_up();
            let Some(backups) = all.iter_mut().find(|backups| backups.is_of(&vg, &lv)) else {
                let good = vec![&**job];
                all.push(VolumeBackups { vg, lv, good });
                continue;
            };
            // The newest, and those that it is compared with.
            if backups.good.len() <= MOST_EARLIER_RUNS {
                backups.good.push(job);
            }
        }
        all.retain(|backups| {
            let name = format!("{}/{}", backups.vg, backups.lv);
            backups.vg.is_empty() || now.interval.topology.volume(&name).is_some()
        });
        let Some(settings) = &self.volume_settings else {
            return all;
        };
        for (volume, special) in volumes.iter().zip(&settings.special) {
            let thresholds = special.as_ref().and_then(|it| it.of(Rule::BackupMissing));
            let must_have_some = thresholds.is_some_and(|it| it.critical.is_finite());
            let is_known = || {
                all.iter()
                    .any(|backups| backups.is_of(&volume.vg, &volume.lv))
            };
            if must_have_some && volume.kind.can_have_snapshots() && !is_known() {
                all.push(VolumeBackups {
                    vg: volume.vg.clone(),
                    lv: volume.lv.clone(),
                    good: Vec::new(),
                });
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
        let of_jobs = now
            .jobs
            .running()
            .iter()
            .filter_map(|job| Some((Some(job), job.backup_run.as_ref()?)));
        let pending = now.jobs.pending_runs().map(|run| (None, run));
        let mut runs: Vec<(Option<&Job>, &BackupRun)> = of_jobs.chain(pending).collect();
        runs.retain(|(_, run)| !run.is_over());
        let mut changed = Vec::new();
        for (job, run) in &runs {
            changed.extend(self.judge_lock(*job, run, now.interval.at));
        }
        let is_over = |alert: &Alert| {
            alert.rule == Rule::LockHeld
                && !runs
                    .iter()
                    .any(|(_, run)| run.run.to_string() == alert.uuid)
        };
        changed.extend(self.recover_all(now.interval.at, is_over, &RELEASED.into()));
        changed
    }

    fn judge_lock(&mut self, job: Option<&Job>, run: &BackupRun, at: Timestamp) -> Option<Alert> {
        let seconds = seconds_between(run.locked_from?, run.locked_until.unwrap_or(at));
        let (vg, lv) = job.map_or_else(|| (String::new(), "mylvmbackup".into()), Job::backed_up);
        let thresholds = self.settings.of(Rule::LockHeld, &vg, &lv)?;
        if seconds < thresholds.warning {
            return None;
        }
        let uuid = run.run.to_string();
        let finding = RuleFinding {
            rule: Rule::LockHeld,
            subject: AlertSubject::new(&vg, &lv, &uuid),
            at,
            thresholds,
            evaluation: Evaluation::WARNING,
            value: Some(seconds),
            job: job.map(|job| job.id),
        };
        let raised = |_| {
            let (backup, time) = (subject(&vg, &lv), duration_text(seconds));
            match run.locked_until {
                None => AlertText::new(
                    sentence![
                        "The backup of ",
                        backup,
                        " may hold the global read lock of the database for {time} already: all writes wait.",
                    ],
                    sentence![
                        "See ",
                        command("SHOW PROCESSLIST"),
                        " for a long query that delays it, or end the backup.",
                    ],
                ),
                Some(_) => AlertText::new(
                    sentence![
                        "The backup of ",
                        backup,
                        " held the global read lock of the database for up to {time}.",
                    ],
                    "Writes waited meanwhile.",
                ),
            }
        };
        self.settle(&finding, raised, || RELEASED.into())
    }
}

/// The usual seconds from one good backup to the next, and the limit, from the ages of good backups, the latest first.
/// `None` if there is no usual period yet.
pub fn usual_period(ages: &[f64]) -> Option<(f64, f64)> {
    let span_s = ages.last()? - ages.first()?;
    let is_enough =
        ages.len() > MOST_EARLIER_RUNS || ages.len() >= LEAST_GOOD && span_s >= LEAST_SPAN_S;
    let mut gaps: Vec<f64> = ages.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let usual_s = gaps
        .get(gaps.len() / 2)
        .copied()
        .filter(|usual_s| is_enough && *usual_s > 0.0)?;
    let second_s = gaps[gaps.len().saturating_sub(2)];
    Some((usual_s, (usual_s * FACTOR).max(second_s * MARGIN)))
}
