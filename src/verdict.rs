//! One grade and one sentence for each volume, each job, and the host: pages, API and `cowbell status` show these.
//!
//! The grade is that of the worst open alert, whose rules look ahead; so nothing looks better or worse than what receivers
//! are told. What cannot be seen is unknown, never ok.

use std::cmp::Reverse;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::alert::{Alert, Rule, Severity, alike, end, left_with_guard, meanwhile};
use crate::config::RuleSubject;
use crate::forecast::{EtaBasis, Outlook, Risk};
pub use crate::job::Grade;
use crate::job::progress::overflows;
use crate::job::{Job, Judgement};
use crate::present::Present;
use crate::sentence;
use crate::sentence::Sentence;
use crate::source::{Part, ReadError, variant_name};
use crate::topology::{State, Volume, VolumeState};
use crate::units::{capital, duration_text, percent_text};

impl From<Severity> for Grade {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Warning => Self::Warning,
            Severity::Critical => Self::Critical,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Verdict {
    pub grade: Grade,
    /// In JSON with commands in backticks.
    pub sentence: Sentence,
}

impl Verdict {
    fn new(grade: Grade, sentence: impl Into<Sentence>) -> Self {
        Self {
            grade,
            sentence: sentence.into(),
        }
    }

    fn of_alert(alert: &Alert) -> Self {
        Self::new(alert.severity.into(), alert.sentence())
    }

    /// Old data say nothing of now; else the worst of all decides.
    pub fn of_host(present: &Present) -> Self {
        if !present.is_fresh() {
            let seconds = present.published.elapsed().as_secs();
            return Self::new(
                Grade::Unknown,
                format!("No tick was taken for {seconds} s: what follows is old."),
            );
        }
        let alert = worst(present, |_| true);
        if let Some(alert) = alert.filter(|alert| alert.severity == Severity::Critical) {
            return Self::of_alert(alert);
        }
        let critical = of_grade(present, Grade::Critical);
        let worst_known = critical.or_else(|| alert.map(Self::of_alert));
        let seen = worst_known
            .or_else(|| unwritten(present))
            .or_else(|| blind(present));
        let unknown = seen.or_else(|| of_grade(present, Grade::Unknown));
        let running = unknown.or_else(|| soonest(present));
        running.unwrap_or_else(|| Self::new(Grade::Ok, all_well(present)))
    }

    pub fn of_volume(present: &Present, volume: &Volume, state: &VolumeState) -> Self {
        if let Some(alert) = worst_of(present, volume) {
            return Self::of_alert(alert);
        }
        let grade = grade_of(present, volume, state);
        let kind = capital(volume.kind.text());
        let name = volume.full_name();
        let fill = state.fill.map(|fill| percent_text(fill.percent()));
        let sentence = match (grade, fill) {
            (Grade::Unknown, _) => match present.why_usage_is_unknown(volume, state) {
                Some(why) => Sentence::with_commands(&why),
                None => {
                    let kind = volume.kind.text();
                    sentence!["The usage of {kind} {name} is unknown."]
                }
            },
            (Grade::Ok, Some(fill)) => match outlook(present, volume) {
                Some(outlook) => {
                    let ahead = ahead(present, volume, &outlook);
                    sentence!["{kind} {name} is {fill} full", ahead]
                }
                None => {
                    let used = present.job_of(volume).and_then(Job::in_use);
                    sentence!["{kind} {name} is {fill} full."].then(used)
                }
            },
            _ => {
                let state = state.state.text();
                sentence!["{kind} {name}: {state}."]
            }
        };
        Self::new(grade, sentence)
    }

    /// An open alert about the job comes first, as on the overview. Then comes what is known of the job itself, if its
    /// volume is not worse and has no forecast.
    pub fn of_job(present: &Present, job: &Job) -> Self {
        let judgement = job.judgement();
        let own = judgement.grade;
        let alert = worst_of_job(present, job)
            .map(Self::of_alert)
            .filter(|alert| alert.grade >= own);
        let live =
            filled_by(present, job).map(|(volume, state)| Self::of_volume(present, volume, state));
        let live = live.filter(|live| live.grade > own || present.outlook(job).is_some());
        let grade = grade_of_job(present, job);
        let other = [alert, live]
            .into_iter()
            .flatten()
            .find(|other| other.grade == grade);
        other.unwrap_or_else(|| Self {
            grade: own,
            sentence: sentence_of_job(present, job, judgement),
        })
    }
}

/// The first of the most urgent volumes of this grade.
fn of_grade(present: &Present, grade: Grade) -> Option<Verdict> {
    let volumes = present.interval.volumes();
    let (volume, state) = volumes
        .filter(|(volume, state)| grade_of(present, volume, state) == grade)
        .min_by_key(|(_, state)| Reverse(state.state.urgency()))?;
    Some(Verdict::of_volume(present, volume, state))
}

fn unwritten(present: &Present) -> Option<Verdict> {
    let error = present.store.error.as_ref()?;
    let sentence = Sentence::with_commands(&format!("The database is not written: {error}."));
    Some(Verdict::new(Grade::Warning, sentence))
}

/// The place of each volume's most urgent alert, by UUID.
pub fn alert_ranks(present: &Present) -> HashMap<&str, usize> {
    let mut ranks = HashMap::new();
    let groups = alike(&present.alerts, present.interval.at);
    for (rank, group) in groups.iter().enumerate() {
        ranks.entry(&*group[0].uuid).or_insert(rank);
    }
    ranks
}

/// The grade of a job, without a sentence. A running backup is graded as the volume that it may fill.
pub fn grade_of_job(present: &Present, job: &Job) -> Grade {
    let mut grade = job.judgement().grade;
    if let Some(alert) = worst_of_job(present, job) {
        grade = grade.max(alert.severity.into());
    }
    if let Some((volume, state)) = filled_by(present, job) {
        grade = grade.max(grade_of(present, volume, state));
    }
    grade
}

fn worst_of_job<'a>(present: &'a Present, job: &Job) -> Option<&'a Alert> {
    worst(present, |alert| {
        alert.job == Some(job.id) && !job.is_imported()
    })
}

/// The volume that a running backup may fill.
pub fn filled_by<'a>(present: &'a Present, job: &Job) -> Option<(&'a Volume, &'a VolumeState)> {
    if !job.is_running() {
        return None;
    }
    let snapshot = present.interval.topology.volume(&job.key)?;
    overflows(&present.interval, snapshot)
}

/// The grade of a volume, without a sentence.
pub fn grade_of(present: &Present, volume: &Volume, state: &VolumeState) -> Grade {
    if let Some(alert) = worst_of(present, volume) {
        return alert.severity.into();
    }
    if let Some((rule, severity)) = state.state.alert(volume.kind)
        && (present.thresholds.of(rule, &volume.vg, &volume.lv)).is_none()
    {
        // The configuration switches the alert off, not the state.
        return severity.into();
    }
    match state.state {
        State::Inactive => Grade::Ok,
        State::Unknown => Grade::Unknown,
        _ if volume.kind.can_overflow() && state.fill.is_none() => Grade::Unknown,
        _ => Grade::Ok,
    }
}

/// The grade of one part of a volume, such as the metadata of a pool.
pub fn grade_by(present: &Present, volume: &Volume, rule: Rule) -> Grade {
    let is_its = |alert: &Alert| alert.uuid == *volume.uuid && alert.rule == rule;
    worst(present, is_its).map_or(Grade::Ok, |alert| alert.severity.into())
}

/// About the volume itself, the state of the pool that it lies in, or the backups of it.
fn worst_of<'a>(present: &'a Present, volume: &Volume) -> Option<&'a Alert> {
    if present.alerts.is_empty() {
        return None;
    }
    let pool = present.interval.topology.pool_of(volume);
    worst(present, |alert| match (alert.rule, alert.rule.subject()) {
        (_, RuleSubject::Backups) => alert.vg == volume.vg && alert.lv == volume.lv,
        (Rule::PoolState | Rule::VolumeState, _)
            if pool.is_some_and(|pool| *pool.uuid == *alert.uuid) =>
        {
            true
        }
        _ => alert.uuid == *volume.uuid || is_of_lost_backup(present, alert, volume),
    })
}

/// Whether an invalid snapshot takes a backup of this volume with it; the alert of the backup comes when that ends.
fn is_of_lost_backup(present: &Present, alert: &Alert, origin: &Volume) -> bool {
    if alert.rule != Rule::SnapshotInvalid || alert.vg != origin.vg {
        return false;
    }
    let mut jobs = present.jobs.iter();
    let job = jobs.find(|job| Some(job.id) == alert.job);
    job.is_some_and(|job| {
        let is_lost = job.is_backup() && job.judgement().grade == Grade::Critical;
        is_lost && job.backed_up() == (origin.vg.clone(), origin.lv.clone())
    })
}

fn worst(present: &Present, is_meant: impl Fn(&Alert) -> bool) -> Option<&Alert> {
    let meant = present.alerts.iter().filter(|alert| is_meant(alert));
    alike(meant, present.interval.at)
        .first()
        .map(|group| group[0])
}

/// The forecast of the backup that reads a volume.
fn outlook(present: &Present, volume: &Volume) -> Option<Outlook> {
    present
        .backups_filling(volume)
        .find_map(|job| present.outlook(job))
}

/// Goes on after `Snapshot vg0/snap is 20 % full`, as an alert does.
fn ahead(present: &Present, volume: &Volume, outlook: &Outlook) -> Sentence {
    let pace = present.paces.get(&volume.uuid);
    let full = pace.map_or(outlook.full, |pace| pace.full);
    let Some(full) = full.filter(|_| !outlook.cannot_overflow) else {
        return match outlook.risk {
            Risk::Low => sentence![". ", outlook.text.clone()],
            // An alert says so when it is surer.
            _ => {
                ". It is too early to say whether the backup will be done before it is full.".into()
            }
        };
    };
    let basis = match full.basis {
        EtaBasis::Tested => String::new(),
        EtaBasis::RecentSpeed => {
            format!(", at the speed of the last {},", duration_text(full.seen_s))
        }
    };
    let then = match outlook.risk {
        _ if outlook.guard.is_some() => String::new(),
        Risk::Low => meanwhile(outlook, volume),
        // An alert says so when it is surer.
        Risk::Race | Risk::High => {
            ". It is too early to say whether the backup will be done before".into()
        }
    };
    let end = end(volume.kind, outlook.guard.is_some());
    let guard = outlook.guard.as_deref();
    let left = guard.and_then(|_| left_with_guard(outlook));
    let sentence = Sentence::from(format!(" and{basis} {end} {}{then}.", full.in_text()));
    sentence.then(guard).then(left)
}

/// Of the backups that run, what is said of the volume that is full soonest.
fn soonest(present: &Present) -> Option<Verdict> {
    let running = present.interval.volumes().filter_map(|(volume, state)| {
        let full = outlook(present, volume)?.full;
        let soonest_s = full.map_or(f64::INFINITY, |full| full.soonest_s);
        Some((soonest_s, volume, state))
    });
    let (_, volume, state) = running.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Verdict::of_volume(present, volume, state))
}

/// Why a part that alerts rest on is not seen.
fn blind(present: &Present) -> Option<Verdict> {
    let has_volumes = !present.interval.topology.volumes.is_empty();
    if has_volumes
        && let Some(dm) = present.parts.get(&Part::Dm)
        && let Some(error) = &dm.error
    {
        let unknown = Sentence::with_commands(&error.usage_unknown());
        return Some(Verdict::new(Grade::Unknown, unknown));
    }
    let (part, error) = present.failing_part()?;
    let unread = Sentence::with_commands(&unread(part, error));
    Some(Verdict::new(Grade::Unknown, unread))
}

fn unread(part: Part, error: &ReadError) -> String {
    match part {
        Part::Dm => error.usage_unknown(),
        Part::Lvm => format!("LVM's report cannot be read: {error}."),
        Part::Diskstats => format!("The disks' counters cannot be read: {error}."),
        part => format!("{} cannot be read: {error}.", capital(&variant_name(part))),
    }
}

fn all_well(present: &Present) -> String {
    let mut fullest: Option<(&Volume, f64)> = None;
    for (volume, state) in present.interval.volumes() {
        if let Some(fill) = state.fill
            && volume.kind.can_overflow()
            && fullest.is_none_or(|(_, percent)| fill.percent() >= percent)
        {
            fullest = Some((volume, fill.percent()));
        }
    }
    let Some((volume, percent)) = fullest else {
        return "There is no snapshot or thin pool that could overflow.".into();
    };
    let (name, percent) = (volume.full_name(), percent_text(percent));
    format!("Nothing is near full. The fullest is {name} at {percent}.")
}

fn sentence_of_job(present: &Present, job: &Job, judgement: Judgement) -> Sentence {
    if let Some(warning) = judgement.warning {
        return warning;
    }
    if job.is_running() {
        if let Some(used) = job.in_use() {
            return used;
        }
        let seconds = job.seconds(present.interval.at);
        return format!("Running for {}.", duration_text(seconds)).into();
    }
    sentence![judgement.text().capitalized(), "."]
}
