//! Backups that are not as usual: none for too long, too slow, too small, or with a long lock of the database.
//!
//! What is usual is learnt from the last good backups of the same volume. Fewer than a few tell nothing.

use jiff::Timestamp;

use super::backup::name;
use super::rule::{Evaluation, evaluate as by_value};
use super::settle::{Finding, Texts};
use super::{Alert, Rule, Rules, Severity, Situation, seconds_between};
use crate::config::{RuleSettings, Thresholds};
use crate::job::backup_run::BackupRun;
use crate::job::earlier::past_runs;
use crate::job::{Job, JobKind, MOST_EARLIER_RUNS};
use crate::sizing::{Planned, Question, Risk, next_snapshot};
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
const WARNING: Evaluation = Evaluation::Raised(Severity::Warning);

/// The backups of a volume, or of a command that backs up no known volume.
struct Backups<'a> {
    vg: String,
    lv: String,
    /// The last good ones, the latest first.
    good: Vec<&'a Job>,
}

impl Rules {
    /// Evaluates the rules of this family; those about history only if `is_slow`.
    pub(super) fn judge_routine(&mut self, now: &Situation, is_slow: bool) -> Vec<Alert> {
        let mut changed = self.judge_locks(now);
        if is_slow {
            for job in now
                .jobs
                .running()
                .iter()
                .filter(|job| job.kind == JobKind::Snapshot)
            {
                changed.extend(self.judge_length(job, now));
            }
            let all = self.all_backups(now);
            for backups in &all {
                changed.extend(self.judge_size(backups, now.interval.at));
                changed.extend(self.judge_age(backups, now.interval.at));
            }
            changed.extend(self.judge_next_sizes(now));
            let is_known = |alert: &Alert| {
                all.iter()
                    .any(|backups| (&backups.vg, &backups.lv) == (&alert.vg, &alert.lv))
            };
            let is_forgotten = |alert: &Alert| {
                matches!(alert.rule, Rule::BackupMissing | Rule::BackupSmall) && !is_known(alert)
            };
            let how =
                |_: &Alert| "The volume was removed, or its backups are not known any more.".into();
            changed.extend(self.clear_all(now.interval.at, is_forgotten, how));
        }
        let is_running = |alert: &Alert| now.jobs.running().iter().any(|job| job.key == alert.uuid);
        let is_over = |alert: &Alert| alert.rule == Rule::BackupSlow && !is_running(alert);
        changed.extend(self.recover_all(now.interval.at, is_over, "The backup has ended."));
        changed
    }

    fn judge_length(&mut self, job: &Job, now: &Situation) -> Option<Alert> {
        let (vg, lv) = job.backed_up();
        let thresholds = self.settings.of(Rule::BackupSlow, &vg, &lv)?;
        let earlier = past_runs(job, now.jobs.ended().iter().rev().map(|job| &**job));
        if !job.is_backup() || earlier.runs.len() < LEAST_RUNS {
            return None;
        }
        let (runs, at) = (earlier.runs.len(), now.interval.at);
        let longest_s = earlier
            .runs
            .iter()
            .map(|run| run.seconds)
            .fold(0.0, f64::max);
        let seconds = self.clock?.age_s(job.started_at, at);
        let is_slow = seconds > (longest_s * FACTOR).max(longest_s + LEAST_DELAY_S);
        let evaluation = if is_slow { WARNING } else { Evaluation::Clear };
        let uuid = &*job.key;
        let finding = Finding {
            rule: Rule::BackupSlow,
            vg: &vg,
            lv: &lv,
            uuid,
            thresholds,
            evaluation,
            value: Some(seconds),
        };
        let raised = || {
            format!(
                "The backup of {} runs for {}; the longest of the last {runs} took {}. The page of job {} shows what slows it \
                 down.",
                name(job),
                duration_text(seconds),
                duration_text(longest_s),
                job.id
            )
        };
        self.settle(
            &finding,
            at,
            &Texts {
                raised,
                cleared: || "The clock was set back.".into(),
                job: Some(job.id),
            },
        )
    }

    fn judge_size(&mut self, backups: &Backups, at: Timestamp) -> Option<Alert> {
        let (vg, lv) = (&*backups.vg, &*backups.lv);
        let thresholds = self.settings.of(Rule::BackupSmall, vg, lv)?;
        let reads = |job: &&Job| job.bytes_read.filter(|_| !job.is_incremental());
        let mut runs = backups.good.iter().filter(|job| reads(job).is_some());
        let (last, mut earlier) = (*runs.next()?, runs.filter_map(reads).collect::<Vec<u64>>());
        if earlier.len() < LEAST_RUNS {
            return None;
        }
        earlier.sort_unstable();
        let (read, usual) = (last.bytes_read?, earlier[earlier.len() / 2]);
        let is_small = (read as f64) < usual as f64 * SMALL
            && last
                .ended_at
                .is_some_and(|end| seconds_between(end, at) < EXPIRY_S);
        let evaluation = if is_small { WARNING } else { Evaluation::Clear };
        let uuid = full_name(vg, lv);
        let finding = Finding {
            rule: Rule::BackupSmall,
            vg,
            lv,
            uuid: &uuid,
            thresholds,
            evaluation,
            value: None,
        };
        let raised = || {
            format!(
                "The backup of {uuid} read only {}; usually it reads {}. Check that no data is missing in it.",
                size_text(read),
                size_text(usual)
            )
        };
        let cleared = || {
            format!(
                "The last backup of {uuid} read {}, or a week has passed.",
                size_text(read)
            )
        };
        self.settle(
            &finding,
            at,
            &Texts {
                raised,
                cleared,
                job: Some(last.id),
            },
        )
    }

    /// Whether the next snapshot of each volume is large enough, as far as that is known.
    fn judge_next_sizes(&mut self, now: &Situation) -> Vec<Alert> {
        let (mut changed, mut judged) = (Vec::new(), Vec::new());
        for volume in &now.interval.topology.volumes {
            let ended = now.jobs.ended().iter().rev().map(|job| &**job);
            let question = Question::of_volume(volume, now.interval, now.measured, ended);
            let planned = question.as_ref().and_then(next_snapshot);
            if let Some(planned) = planned.filter(|planned| planned.cases >= LEAST_RUNS) {
                judged.push(&*volume.uuid);
                changed.extend(self.judge_next_size(volume, &planned, now.interval.at));
            }
        }
        let is_forgotten =
            |alert: &Alert| alert.rule == Rule::SnapshotSmall && !judged.contains(&&*alert.uuid);
        let how =
            |_: &Alert| "The volume was removed, or its snapshots are not known any more.".into();
        changed.extend(self.clear_all(now.interval.at, is_forgotten, how));
        changed
    }

    fn judge_next_size(
        &mut self,
        volume: &Volume,
        planned: &Planned,
        at: Timestamp,
    ) -> Option<Alert> {
        let (vg, lv, uuid) = (&*volume.vg, &*volume.lv, &*volume.uuid);
        let thresholds = self.settings.of(Rule::SnapshotSmall, vg, lv)?;
        let evaluation = if planned.risk == Risk::Likely {
            WARNING
        } else {
            Evaluation::Clear
        };
        let finding = Finding {
            rule: Rule::SnapshotSmall,
            vg,
            lv,
            uuid,
            thresholds,
            evaluation,
            value: None,
        };
        let text = || planned.text.clone();
        self.settle(
            &finding,
            at,
            &Texts {
                raised: text,
                cleared: text,
                job: None,
            },
        )
    }

    fn judge_age(&mut self, backups: &Backups, at: Timestamp) -> Option<Alert> {
        let (vg, lv) = (&*backups.vg, &*backups.lv);
        let thresholds = self.settings.of(Rule::BackupMissing, vg, lv)?;
        let last = backups.good.first().and_then(|job| job.ended_at);
        let clock = self.clock?;
        let age_s = clock.age_s(last.unwrap_or(clock.began_at), at);
        let since_s = age_s - self.unseen_s(last);
        let uuid = full_name(vg, lv);
        let (evaluation, expected) = if thresholds.critical.is_finite() {
            let evaluation = by_value(Rule::BackupMissing, since_s, thresholds, None);
            (
                evaluation,
                format!(
                    "there must be one within {}",
                    duration_text(thresholds.critical)
                ),
            )
        } else {
            let ends: Vec<f64> = backups
                .good
                .iter()
                .filter_map(|job| Some(seconds_between(job.ended_at?, at)))
                .collect();
            // Without a usual period, nothing is missing.
            let (usual_s, limit_s) = usual_period(&ends).unwrap_or((0.0, f64::INFINITY));
            let is_missing = (limit_s..limit_s + EXPIRY_S).contains(&since_s);
            let evaluation = if is_missing {
                WARNING
            } else {
                Evaluation::Clear
            };
            (
                evaluation,
                format!("usually there is one every {}", duration_text(usual_s)),
            )
        };
        let finding = Finding {
            rule: Rule::BackupMissing,
            vg,
            lv,
            uuid: &uuid,
            thresholds,
            evaluation,
            value: Some(since_s),
        };
        let known = |end: Timestamp| {
            format!(
                "since {}, for {}",
                end.strftime("%F %T UTC"),
                duration_text(age_s)
            )
        };
        let raised = || {
            let since = match last {
                Some(end) => known(end),
                None => format!("{}, when cowbell started", known(clock.began_at)),
            };
            format!(
                "There was no good backup of {uuid} {since}; {expected}. See why it did not run or failed, and repeat it."
            )
        };
        let cleared = || match last {
            Some(end) => {
                format!(
                    "The last good backup of {uuid} ended {} ago.",
                    duration_text(seconds_between(end, at))
                )
            }
            None => format!("{uuid} needs no backup."),
        };
        self.settle(
            &finding,
            at,
            &Texts {
                raised,
                cleared,
                job: backups.good.first().map(|job| job.id),
            },
        )
    }

    /// The volumes with backups, and those that must have some.
    fn all_backups<'a>(&self, now: &Situation<'a>) -> Vec<Backups<'a>> {
        let mut all: Vec<Backups<'a>> = Vec::new();
        for job in now
            .jobs
            .ended()
            .iter()
            .rev()
            .map(|job| &**job)
            .filter(|job| job.is_good_backup())
        {
            let (vg, lv) = job.backed_up();
            let found = all
                .iter()
                .position(|backups| (&backups.vg, &backups.lv) == (&vg, &lv));
            let index = found.unwrap_or_else(|| {
                all.push(Backups {
                    vg,
                    lv,
                    good: Vec::new(),
                });
                all.len() - 1
            });
            // The newest, and those that it is compared with.
            if all[index].good.len() <= MOST_EARLIER_RUNS {
                all[index].good.push(job);
            }
        }
        let topology = &now.interval.topology;
        all.retain(|backups| {
            backups.vg.is_empty()
                || topology
                    .volume(&format!("{}/{}", backups.vg, backups.lv))
                    .is_some()
        });
        let must = |settings: &RuleSettings| {
            settings
                .of(Rule::BackupMissing)
                .is_some_and(|thresholds| thresholds.critical.is_finite())
        };
        for (volume, special) in topology
            .volumes
            .iter()
            .zip(self.known.iter().flat_map(|known| &known.1))
        {
            let is_known = || {
                all.iter()
                    .any(|backups| (&backups.vg, &backups.lv) == (&volume.vg, &volume.lv))
            };
            if special.as_deref().is_some_and(must)
                && volume.kind.can_have_snapshots()
                && !is_known()
            {
                all.push(Backups {
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
        let mut changed = Vec::new();
        let at = now.interval.at;
        let jobs = now
            .jobs
            .running()
            .iter()
            .filter_map(|job| Some((Some(job), job.backup_run.as_ref()?)));
        let runs = || {
            jobs.clone()
                .chain(now.jobs.pending_runs().map(|run| (None, run)))
        };
        for (job, run) in runs() {
            let Some(from) = run.locked_from.filter(|_| !run.is_over()) else {
                continue;
            };
            let seconds = seconds_between(from, run.locked_until.unwrap_or(at));
            let (vg, lv) =
                job.map_or_else(|| (String::new(), "mylvmbackup".into()), Job::backed_up);
            let Some(thresholds) = self.settings.of(Rule::LockHeld, &vg, &lv) else {
                continue;
            };
            changed.extend(self.judge_lock(job, run, (&vg, &lv), seconds, thresholds, at));
        }
        let runs_on = |alert: &Alert| {
            runs().any(|(_, run)| !run.is_over() && run.run.to_string() == alert.uuid)
        };
        let is_over = |alert: &Alert| alert.rule == Rule::LockHeld && !runs_on(alert);
        changed.extend(self.recover_all(at, is_over, "The lock was released."));
        changed
    }

    fn judge_lock(
        &mut self,
        job: Option<&Job>,
        run: &BackupRun,
        (vg, lv): (&str, &str),
        seconds: f64,
        thresholds: Thresholds,
        at: Timestamp,
    ) -> Option<Alert> {
        if seconds < thresholds.warning {
            return None;
        }
        let uuid = run.run.to_string();
        let finding = Finding {
            rule: Rule::LockHeld,
            vg,
            lv,
            uuid: &uuid,
            thresholds,
            evaluation: WARNING,
            value: Some(seconds),
        };
        let raised = || {
            let backup = full_name(vg, lv);
            match run.locked_until {
                None => format!(
                    "The backup of {backup} may hold the global read lock of the database for {} already: all writes wait. See \
                     `SHOW PROCESSLIST` for a long query that delays it, or end the backup.",
                    duration_text(seconds)
                ),
                Some(_) => format!(
                    "The backup of {backup} held the global read lock of the database for up to {}. Writes waited meanwhile.",
                    duration_text(seconds)
                ),
            }
        };
        let cleared = || String::from("The lock was released.");
        self.settle(
            &finding,
            at,
            &Texts {
                raised,
                cleared,
                job: job.map(|job| job.id),
            },
        )
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

fn full_name(vg: &str, lv: &str) -> String {
    if vg.is_empty() {
        lv.into()
    } else {
        format!("{vg}/{lv}")
    }
}
