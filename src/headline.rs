//! The short answer to what an administrator asks first: will tonight's backup be good? The verdict says why.

use std::sync::Arc;

use jiff::Timestamp;

use crate::alert::{Alert, Rule, Severity, alike, end, saved};
use crate::config::Measure;
use crate::forecast::Risk;
use crate::job::history::{NextBackup, backups_by_volume};
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::units::{capital, count_text, percent_text};
use crate::verdict::{Grade, Verdict};

/// So many troubles are named; the others are counted.
const MOST_NAMED: usize = 2;

/// What several groups of alerts have in common, so that they are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    BackupLost,
    SnapshotLost,
    Full,
    Other(Rule),
}

/// Without a period. `zoned` words the time of a start, such as `02:00 UTC`.
pub fn headline(present: &Present, zoned: impl Fn(Timestamp) -> String) -> String {
    if !present.is_fresh() {
        return "No news from this host".into();
    }
    let groups = alike(&present.alerts, present.interval.at);
    if let Some(worst) = groups.first() {
        let severity = worst[0].severity;
        let is_worst = |group: &Vec<&Alert>| group[0].severity == severity;
        let worst: Vec<Vec<&Alert>> = groups.into_iter().filter(is_worst).collect();
        // What the guard has done for a backup answers nothing about it.
        let is_past = |group: &Vec<&Alert>| Trouble::of(group) == Trouble::Other(Rule::Guard);
        if severity == Severity::Warning
            && worst.iter().all(is_past)
            && let Some(answer) = running(present)
        {
            return answer;
        }
        return troubles(present, worst);
    }
    match Verdict::of_host(present).grade {
        _ if present.store.error.is_some() => "The database is not written".into(),
        Grade::Unknown => "Not everything can be seen".into(),
        Grade::Warning | Grade::Critical => "Not all is well".into(),
        Grade::Ok => running(present).unwrap_or_else(|| idle(present, zoned)),
    }
}

/// `2 snapshots are lost, vg0/snap will overflow in 4 to 9 min`
fn troubles(present: &Present, groups: Vec<Vec<&Alert>>) -> String {
    let is_known = |same: &[Vec<&Alert>], group: &[&Alert]| {
        same.iter()
            .any(|other| other[0].volume() == group[0].volume())
    };
    let mut kinds: Vec<(Trouble, Vec<Vec<&Alert>>)> = Vec::new();
    for group in groups {
        let trouble = Trouble::of(&group);
        match kinds.iter_mut().find(|(kind, _)| *kind == trouble) {
            // A second bad backup of a volume is no other trouble.
            Some((_, same)) if is_known(same, &group) => {}
            Some((_, same)) => same.push(group),
            None => kinds.push((trouble, vec![group])),
        }
    }
    // It is about one of the others.
    if kinds.len() > 1 {
        kinds.retain(|(kind, _)| *kind != Trouble::Other(Rule::Guard));
    }
    let mut texts = Vec::new();
    for (trouble, groups) in kinds.iter().take(MOST_NAMED) {
        texts.push(match &groups[..] {
            [group] => trouble.text(present, group),
            several => trouble.count_text(present, several),
        });
    }
    let others: usize = kinds
        .iter()
        .skip(MOST_NAMED)
        .map(|(_, groups)| groups.len())
        .sum();
    if others > 0 {
        texts.push(count_text(others, "more alert", "more alerts"));
    }
    capital(&texts.join(", "))
}

impl Trouble {
    fn of(group: &[&Alert]) -> Self {
        let severity = group[0].severity;
        let is_race =
            |alert: &&Alert| alert.rule == Rule::FullBeforeDone && alert.severity == severity;
        match group[0].rule {
            _ if group.iter().any(is_race) => Self::BackupLost,
            Rule::SnapshotInvalid => Self::SnapshotLost,
            rule if rule.has_outlook() => Self::Full,
            rule => Self::Other(rule),
        }
    }

    fn text(self, present: &Present, group: &[&Alert]) -> String {
        let alert = group[0];
        let is_critical = alert.severity == Severity::Critical;
        let name = alert.volume().unwrap_or_default();
        let pace = present.paces.get(&*alert.uuid);
        let full = pace.and_then(|pace| pace.full).map(|full| full.in_text());
        match self {
            Self::BackupLost => {
                let will = if is_critical { "will" } else { "may" };
                let when = full.map(|full| format!(" {full}")).unwrap_or_default();
                format!("the backup {} {will} be lost{when}", of_job(present, alert))
            }
            Self::SnapshotLost => format!("snapshot {name} is lost"),
            Self::Full if is_saved(present, alert) => {
                format!("the guard will extend {name} in time")
            }
            Self::Full => {
                let topology = &present.interval.topology;
                let kind = topology.volume(&alert.uuid).map(|volume| volume.kind);
                let percent = group
                    .iter()
                    .find(|alert| alert.rule.measure() == Measure::Percent);
                match (full, kind, percent.and_then(|alert| alert.value)) {
                    (Some(full), Some(kind), _) => format!("{name} {} {full}", end(kind, false)),
                    (_, _, Some(percent)) => format!("{name} is {} full", percent_text(percent)),
                    _ => format!("{name} may fill up"),
                }
            }
            Self::Other(Rule::BackupFailed) => {
                let be = if is_critical { "is" } else { "may be" };
                format!("the last backup {} {be} bad", of_job(present, alert))
            }
            Self::Other(Rule::Guard) if is_critical => "the guard needs help".into(),
            Self::Other(Rule::Guard) => "the guard acted".into(),
            Self::Other(rule) => match (alert.state, &*name) {
                (Some(state), _) => format!("{name}: {}", state.text()),
                (None, "") => rule.text(),
                (None, name) => format!("{}: {name}", rule.text()),
            },
        }
    }

    fn count_text(self, present: &Present, groups: &[Vec<&Alert>]) -> String {
        let count = groups.len();
        match self {
            Self::BackupLost => format!("{count} backups will be lost"),
            Self::SnapshotLost => format!("{count} snapshots are lost"),
            Self::Full => {
                let paces = groups
                    .iter()
                    .filter_map(|group| present.paces.get(&*group[0].uuid));
                let full = paces.filter_map(|pace| pace.full);
                let first = full.min_by(|a, b| a.soonest_s.total_cmp(&b.soonest_s));
                let what = match first {
                    Some(full) => format!("fill up, the first is full {}", full.in_text()),
                    None => "may fill up".into(),
                };
                format!("{count} snapshots or pools {what}")
            }
            Self::Other(Rule::BackupFailed) => format!("{count} backups are bad"),
            Self::Other(rule) => format!("{}: {count} times", rule.text()),
        }
    }
}

/// Whether the guard keeps the volume of an alert from being full.
fn is_saved(present: &Present, alert: &Alert) -> bool {
    let volume = present.interval.topology.volume(&alert.uuid);
    volume.is_some_and(|volume| saved(&present.interval, volume, alert.rule).is_some())
}

/// `of vg0/data`, which the job of an alert backs up; or the alert's own volume.
fn of_job(present: &Present, alert: &Alert) -> String {
    let job = present.jobs.iter().find(|job| Some(job.id) == alert.job);
    match job.map(|job| job.backed_up()) {
        Some((vg, lv)) if vg.is_empty() => format!("of {lv}"),
        Some((vg, lv)) => format!("of {vg}/{lv}"),
        None => format!("of {}", alert.volume().unwrap_or_default()),
    }
}

/// `The backup of vg0/data will finish in 4 to 5 min`; `None` if no backup runs.
fn running(present: &Present) -> Option<String> {
    let is_backup = |job: &&Job| job.is_running() && job.is_backup();
    let jobs: Vec<&Job> = present
        .jobs
        .iter()
        .map(Arc::as_ref)
        .filter(is_backup)
        .collect();
    let snapshots = jobs
        .iter()
        .filter(|job| job.kind == JobKind::Snapshot)
        .count();
    if snapshots > 1 {
        return Some(format!("{snapshots} backups run"));
    }
    let job = *jobs
        .iter()
        .find(|job| job.kind == JobKind::Snapshot)
        .or(jobs.first())?;
    let (vg, lv) = job.backed_up();
    let of = if vg.is_empty() {
        lv
    } else {
        format!("{vg}/{lv}")
    };
    let outlook = present.outlook(job);
    let done = outlook
        .filter(|outlook| outlook.risk == Risk::Low)
        .and_then(|outlook| outlook.done);
    Some(match done {
        Some(done) => format!("The backup of {of} will finish {}", done.in_text()),
        None => format!("The backup of {of} runs"),
    })
}

/// `Nothing runs; the next backup starts at 02:00 UTC, and its snapshot has room`
fn idle(present: &Present, zoned: impl Fn(Timestamp) -> String) -> String {
    let now = present.interval.at;
    let jobs = present.jobs.iter().rev().map(Arc::as_ref);
    let ended = jobs.filter(|job| !job.is_running());
    let mut soonest: Option<(NextBackup, String)> = None;
    for backups in backups_by_volume(ended) {
        let Some(next) = backups.next(&present.interval.schedule, now) else {
            continue;
        };
        if soonest
            .as_ref()
            .is_none_or(|(other, _)| next.at(now) < other.at(now))
        {
            soonest = Some((next, backups.name()));
        }
    }
    let Some((next, name)) = soonest else {
        return "No backup runs, and none is at risk".into();
    };
    let volume = present.interval.topology.volume(&name);
    let planned = volume.and_then(|volume| present.planned_size(volume));
    let room = planned.map(|planned| format!(", and its snapshot {}", planned.risk.text()));
    let room = room.unwrap_or_default();
    let text = next.text(zoned);
    format!("Nothing runs; the next backup {text}{room}")
}
