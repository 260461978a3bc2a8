//! Backups by the volume that they back up: the running one, the last one that ended, and the last good one; running jobs,
//! and open alerts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::eta::{self, EtaFamilies};
use super::family::{Families, Family, LabelFamily, Labels};
use crate::alert::Alert;
use crate::config::RuleSubject;
use crate::job::{Job, JobKind, Outcome};
use crate::present::Present;

const LAST_GOOD: Family = Family {
    name: "cowbell_backup_last_good_timestamp",
    unit: "seconds",
    help: "When the last good backup of the volume ended.",
};
const ALERTS: Family = Family {
    name: "cowbell_alert",
    unit: "",
    help: "1 while the alert is open.",
};
const UNTIL_DONE: EtaFamilies = [
    Family {
        name: "cowbell_backup_until_done",
        unit: "seconds",
        help: "Likely time until the running backup is done; absent if unknown.",
    },
    Family {
        name: "cowbell_backup_until_done_soonest",
        unit: "seconds",
        help: "Time until done: in 19 of 20 cases it takes longer.",
    },
    Family {
        name: "cowbell_backup_until_done_latest",
        unit: "seconds",
        help: "Time until done: in 19 of 20 cases it takes less. Absent if it may never be done.",
    },
];
const STARTED: Family = Family {
    name: "cowbell_backup_started_timestamp",
    unit: "seconds",
    help: "When the running backup started.",
};
const OUTCOME: LabelFamily = LabelFamily {
    name: "cowbell_backup_last_outcome",
    help: "Outcome of the last backup that ended; absent if unknown.",
};
const RUNNING: Family = Family {
    name: "cowbell_running",
    unit: "jobs",
    help: "Running jobs.",
};

type JobGauge = (Family, fn(&Job) -> Option<f64>);
const OF_LAST: [JobGauge; 3] = [
    (
        gauge(
            "cowbell_backup_last_duration",
            "seconds",
            "Duration of the last backup that ended.",
        ),
        |job| Some(job.seconds(job.ended_at?)),
    ),
    (
        gauge(
            "cowbell_backup_last_peak_fill",
            "ratio",
            "How full the snapshot of the last backup was at most.",
        ),
        |job| Some(job.peak_fill_percent? / 100.0),
    ),
    (
        gauge(
            "cowbell_backup_last_trustworthy",
            "",
            "1 if the last backup is good, 0 if it is not; absent if unclear.",
        ),
        |job| {
            let is_bad = job.judgement().outcome?.is_bad();
            (is_bad || job.is_good_backup()).then(|| f64::from(u8::from(!is_bad)))
        },
    ),
];
const fn gauge(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family { name, unit, help }
}

/// The backups of a volume. Later jobs come later in [`Present::jobs`], and running ones last.
#[derive(Default)]
struct Backups<'a> {
    running: Option<&'a Job>,
    last: Option<&'a Job>,
    last_good: Option<&'a Job>,
}

pub fn encode(present: &Present, families: &mut Families) -> fmt::Result {
    let all = all(&present.jobs);
    let volume = |vg: &str, lv: &str| present.interval.topology.volume(&format!("{vg}/{lv}"));
    let rows: Vec<(Labels, &Backups)> = all
        .iter()
        .map(|((vg, lv), backups)| {
            let uuid = volume(vg, lv).map_or("", |volume| &*volume.uuid);
            (
                Labels::of([("vg", vg), ("lv", lv), ("uuid", uuid)]),
                backups,
            )
        })
        .collect();
    let seconds = |at: Timestamp| at.as_millisecond() as f64 / 1e3;
    let started = |backups: &Backups| Some(seconds(backups.running?.started_at));
    families.gauges(
        &STARTED,
        rows.iter()
            .map(|(labels, backups)| (labels, started(backups))),
    )?;
    let done = |backups: &Backups| present.outlook(backups.running?)?.done;
    let times = rows
        .iter()
        .filter_map(|(labels, backups)| Some((labels, done(backups)?)));
    eta::encode(&UNTIL_DONE, times, families)?;
    for (family, value) in &OF_LAST {
        families.gauges(
            family,
            rows.iter()
                .map(|(labels, backups)| (labels, backups.last.and_then(value))),
        )?;
    }
    let good = |backups: &Backups| Some(seconds(backups.last_good?.ended_at?));
    families.gauges(
        &LAST_GOOD,
        rows.iter().map(|(labels, backups)| (labels, good(backups))),
    )?;
    encode_outcomes(&rows, families)?;
    encode_running(&present.jobs, families)?;
    encode_alerts(&present.alerts, families)
}

fn all(jobs: &[Arc<Job>]) -> BTreeMap<(String, String), Backups<'_>> {
    let mut all: BTreeMap<(String, String), Backups> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.is_own_backup()) {
        let backups = all.entry(job.backed_up()).or_default();
        match job.is_running() {
            true => backups.running = Some(job),
            false => backups.last = Some(job),
        }
        if job.is_good_backup() {
            backups.last_good = Some(job);
        }
    }
    all
}

/// Without [`Outcome::Unknown`]: what is unknown has no samples.
fn encode_outcomes(rows: &[(Labels, &Backups)], families: &mut Families) -> fmt::Result {
    let known = Outcome::ALL.map(Outcome::text);
    let known: Vec<&str> = known
        .into_iter()
        .filter(|name| *name != Outcome::Unknown.text())
        .collect();
    let outcome = |backups: &Backups| Some(backups.last?.judgement().outcome?.text());
    let rows = rows.iter().filter_map(|(labels, backups)| {
        let outcome = outcome(backups).filter(|name| known.contains(name))?;
        Some((labels, &*known, outcome))
    });
    families.states(&OUTCOME, rows)
}

fn encode_running(jobs: &[Arc<Job>], families: &mut Families) -> fmt::Result {
    let kinds = [JobKind::Snapshot, JobKind::Command, JobKind::Mark];
    let labels = kinds.map(|kind| Labels::of([("kind", kind.text())]));
    let count = |kind| {
        jobs.iter()
            .filter(|job| job.is_running() && job.kind == kind)
            .count()
    };
    families.gauges(
        &RUNNING,
        labels
            .iter()
            .zip(kinds)
            .map(|(labels, kind)| (labels, Some(count(kind) as f64))),
    )
}

fn encode_alerts(alerts: &[Alert], families: &mut Families) -> fmt::Result {
    let labels: Vec<Labels> = alerts.iter().map(alert_labels).collect();
    families.gauges(&ALERTS, labels.iter().map(|labels| (labels, Some(1.0))))
}

/// Two alerts of a rule about one volume have different UUIDs.
fn alert_labels(alert: &Alert) -> Labels {
    let uuid = match alert.rule.subject() {
        RuleSubject::Cowbell => "part",
        _ => "uuid",
    };
    Labels::of([
        ("rule", alert.rule.name()),
        ("severity", alert.severity.text()),
        ("volume", &alert.volume().unwrap_or_default()),
        (uuid, &alert.uuid),
    ])
}
