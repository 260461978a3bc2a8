//! Backups by the volume that they back up: the running one, the last one that ended, and the last good one; running jobs,
//! and open alerts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::exposition::{Exposition, Labels};
use super::own::{flag, seconds};
use crate::alert::Alert;
use crate::config::RuleSubject;
use crate::job::{Job, JobKind, Outcome};
use crate::present::Present;

/// The backups of a volume. Later jobs come later in [`Present::jobs`], and running ones last.
#[derive(Default)]
struct Backups<'a> {
    running: Option<&'a Job>,
    last: Option<&'a Job>,
    last_good: Option<&'a Job>,
}

pub fn write(present: &Present, out: &mut Exposition) {
    let all = all(&present.jobs);
    let labels = |(vg, lv): &(String, String)| {
        let volume = present.interval.topology.volume(&format!("{vg}/{lv}"));
        let uuid = volume.map_or("", |volume| &*volume.uuid);
        Labels::of([("vg", vg), ("lv", lv), ("uuid", uuid)])
    };
    let rows: Vec<(Labels, &Backups)> = all
        .iter()
        .map(|(volume, backups)| (labels(volume), backups))
        .collect();
    let mut gauges = |name, help, value: fn(&Backups) -> Option<f64>| {
        out.gauges(
            name,
            help,
            rows.iter()
                .map(|(labels, backups)| (labels, value(backups))),
        );
    };
    gauges(
        "cowbell_backup_started_timestamp_seconds",
        "When the running backup started.",
        |backups| Some(seconds(backups.running?.started_at)),
    );
    gauges(
        "cowbell_backup_last_duration_seconds",
        "Duration of the last backup that ended.",
        |backups| Some(backups.last?.seconds(backups.last?.ended_at?)),
    );
    gauges(
        "cowbell_backup_last_peak_fill_ratio",
        "How full the snapshot of the last backup was at most.",
        |backups| Some(backups.last?.peak_fill_percent? / 100.0),
    );
    gauges(
        "cowbell_backup_last_trustworthy",
        "1 if the last backup is good, 0 if it is not; absent if unclear.",
        |backups| {
            let last = backups.last?;
            let is_bad = last.judgement().outcome?.is_bad();
            (is_bad || last.is_good_backup()).then(|| flag(!is_bad))
        },
    );
    gauges(
        "cowbell_backup_last_good_timestamp_seconds",
        "When the last good backup of the volume ended.",
        |backups| Some(seconds(backups.last_good?.ended_at?)),
    );
    let until_done = |(labels, backups): &'_ (Labels, &Backups)| {
        let done = present.outlook(backups.running?)?.done?;
        Some((labels.clone(), done))
    };
    let times: Vec<_> = rows.iter().filter_map(until_done).collect();
    out.times(
        "cowbell_backup_until_done",
        "done",
        "Likely time until the running backup is done; absent if unknown.",
        times.iter().map(|(labels, eta)| (labels, *eta)),
    );
    write_outcomes(&rows, out);
    write_running(&present.jobs, out);
    write_alerts(&present.alerts, out);
}

fn all(jobs: &[Arc<Job>]) -> BTreeMap<(String, String), Backups<'_>> {
    let mut all: BTreeMap<(String, String), Backups> = BTreeMap::new();
    for job in jobs.iter().filter(|job| job.is_own_backup()) {
        let backups = all.entry(job.backed_up()).or_default();
        if job.is_running() {
            backups.running = Some(job);
        } else {
            backups.last = Some(job);
        }
        if job.is_good_backup() {
            backups.last_good = Some(job);
        }
    }
    all
}

/// Without [`Outcome::Unknown`]: what is unknown has no samples.
fn write_outcomes(rows: &[(Labels, &Backups)], out: &mut Exposition) {
    let mut known = Outcome::ALL.to_vec();
    known.retain(|outcome| *outcome != Outcome::Unknown);
    let names: Vec<&str> = known.iter().map(|outcome| outcome.text()).collect();
    out.states(
        "cowbell_backup_last_outcome",
        "Outcome of the last backup that ended; absent if unknown.",
        rows.iter().filter_map(|(labels, backups)| {
            let outcome = backups.last?.judgement().outcome?;
            known
                .contains(&outcome)
                .then_some((labels, &*names, outcome.text()))
        }),
    );
}

fn write_running(jobs: &[Arc<Job>], out: &mut Exposition) {
    let kinds = [JobKind::Snapshot, JobKind::Command, JobKind::Mark];
    let rows = kinds.map(|kind| {
        let running = jobs
            .iter()
            .filter(|job| job.is_running() && job.kind == kind);
        (Labels::of([("kind", kind.text())]), running.count() as f64)
    });
    out.gauges(
        "cowbell_running_jobs",
        "Running jobs.",
        rows.iter().map(|(labels, count)| (labels, Some(*count))),
    );
}

fn write_alerts(alerts: &[Alert], out: &mut Exposition) {
    let labels: Vec<Labels> = alerts.iter().map(alert_labels).collect();
    out.gauges(
        "cowbell_alert",
        "1 while the alert is open.",
        labels.iter().map(|labels| (labels, Some(1.0))),
    );
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
