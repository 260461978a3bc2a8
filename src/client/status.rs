//! `cowbell status`: fills, running jobs and alerts as text, with the exit status of a Nagios plugin.

use std::collections::HashMap;
use std::fmt::Write as _;

use anyhow::Context;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Daemon;
use crate::job::JobKind;
use crate::job::finish::Outlook;
use crate::source::dm::usage_unknown;
use crate::topology::{State, VolumeKind};
use crate::units::{Prefix, bytes_text, duration_text};
use crate::web::{JobBody, StatusBody, VolumeBody};

/// Jobs that run of which it is said what can be expected.
const MOST_OUTLOOKS: usize = 5;

/// Exit statuses of a Nagios plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ok = 0,
    Warning = 1,
    Critical = 2,
    Unknown = 3,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARNING",
            Self::Critical => "CRITICAL",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// An alert, as far as it is shown here.
#[derive(Debug, Deserialize)]
struct AlertLine {
    severity: String,
    sentence: String,
    cleared_at: Option<String>,
}

/// What the daemon says.
struct Answers {
    status: StatusBody,
    health: Option<String>,
    volumes: Vec<VolumeBody>,
    jobs: Vec<JobBody>,
    /// What can be expected of jobs that run, by their numbers.
    outlooks: HashMap<i64, Outlook>,
    alerts: Vec<AlertLine>,
}

/// Asks the daemon; gives the text to print and the status to exit with.
pub async fn status(daemon: &Daemon) -> (String, Verdict) {
    match ask(daemon).await {
        Ok(answers) => told(&answers),
        Err(error) => (format!("COWBELL UNKNOWN - {error:#}\n"), Verdict::Unknown),
    }
}

async fn ask(daemon: &Daemon) -> anyhow::Result<Answers> {
    let health = daemon.http()?.get(daemon.url("/healthz")).send().await;
    let health = health.map_err(|error| daemon.unheard(&error.into()))?;
    let is_late = !health.status().is_success();
    let said = health.text().await.unwrap_or_default();
    let jobs: Vec<JobBody> = get(daemon, "/api/v1/jobs?from=-1h").await?;
    Ok(Answers {
        outlooks: outlooks(daemon, &jobs).await,
        status: get(daemon, "/api/v1/status").await?,
        health: is_late.then(|| said.trim().to_string()),
        volumes: get(daemon, "/api/v1/volumes").await?,
        jobs,
        alerts: get(daemon, "/api/v1/alerts").await?,
    })
}

/// Of the snapshots that were made last. An older daemon knows none, and its word on all else counts.
async fn outlooks(daemon: &Daemon, jobs: &[JobBody]) -> HashMap<i64, Outlook> {
    let running = jobs.iter().filter(|job| job.ended_at.is_none() && job.kind == JobKind::Snapshot);
    let mut found = HashMap::new();
    for job in running.take(MOST_OUTLOOKS) {
        let path = format!("/api/v1/jobs/{}/outlook", job.id);
        if let Ok(Some(outlook)) = get::<Option<Outlook>>(daemon, &path).await {
            found.insert(job.id, outlook);
        }
    }
    found
}

async fn get<T: DeserializeOwned>(daemon: &Daemon, path: &str) -> anyhow::Result<T> {
    let url = daemon.url(path);
    let answer = daemon.http()?.get(&url).send().await.and_then(reqwest::Response::error_for_status);
    let answer = answer.with_context(|| format!("the daemon does not answer {path}"))?;
    answer.json().await.with_context(|| format!("the daemon's answer to {path} cannot be understood"))
}

fn told(answers: &Answers) -> (String, Verdict) {
    let open: Vec<&AlertLine> = answers.alerts.iter().filter(|alert| alert.cleared_at.is_none()).collect();
    let running: Vec<&JobBody> = answers.jobs.iter().filter(|job| job.ended_at.is_none()).collect();
    let filled: Vec<&VolumeBody> = answers.volumes.iter().filter(|volume| is_watched(volume)).collect();
    let verdict = verdict(answers, &open, &filled);
    let mut text = format!("COWBELL {} - {}", verdict.word(), headline(answers, &open, &filled));
    let _ = writeln!(text, " | {}", performance(&filled, running.len(), open.len()));
    for volume in &filled {
        let _ = writeln!(text, "{}", volume_line(volume));
    }
    for job in &running {
        let _ = writeln!(text, "{}", job_line(job, answers));
    }
    for alert in &open {
        let _ = writeln!(text, "{}: {}", alert.severity, alert.sentence);
    }
    for part in answers.status.parts.iter().filter(|part| !part.ok) {
        let _ = writeln!(text, "not seen: {}: {}", part.name, part.error.as_deref().unwrap_or_default());
    }
    (text, verdict)
}

fn verdict(answers: &Answers, open: &[&AlertLine], filled: &[&VolumeBody]) -> Verdict {
    let is_critical = open.iter().any(|alert| alert.severity == "critical");
    match () {
        () if answers.health.is_some() => Verdict::Unknown,
        () if is_critical || filled.iter().any(|volume| volume.state.is_bad()) => Verdict::Critical,
        () if !open.is_empty() => Verdict::Warning,
        () if filled.iter().any(is_unknown) || unseen(answers).is_some() => Verdict::Unknown,
        () => Verdict::Ok,
    }
}

/// The device-mapper's error, if there are volumes.
fn unseen(answers: &Answers) -> Option<&str> {
    let dm = answers.status.parts.iter().find(|part| part.name == "dm")?;
    dm.error.as_deref().filter(|_| !answers.volumes.is_empty())
}

/// An active volume whose fill nobody can tell: that none rings does not mean that all is well.
fn is_unknown(volume: &&VolumeBody) -> bool {
    volume.state != State::Inactive && volume.fill_percent.is_none()
}

/// Snapshots and pools: what can overflow.
fn is_watched(volume: &VolumeBody) -> bool {
    matches!(volume.kind, VolumeKind::Snapshot | VolumeKind::ThinPool)
}

fn headline(answers: &Answers, open: &[&AlertLine], filled: &[&VolumeBody]) -> String {
    if let Some(late) = &answers.health {
        return format!("the daemon's figures are old: {late}");
    }
    if let Some(volume) = filled.iter().find(|volume| volume.state.is_bad() && open.is_empty()) {
        return format!("{}/{} is {}", volume.vg, volume.lv, volume.state.text());
    }
    if let Some(why) = unseen(answers).filter(|_| open.is_empty()) {
        return usage_unknown(why);
    }
    if let Some(volume) = filled.iter().find(|volume| is_unknown(volume) && open.is_empty()) {
        return format!("the fill of {}/{} is not known", volume.vg, volume.lv);
    }
    let worst = open.iter().find(|alert| alert.severity == "critical").or(open.first());
    match (worst, filled.len()) {
        (Some(alert), _) => alert.sentence.replace('|', "/"),
        (None, 0) => "no snapshot and no thin pool is active".into(),
        (None, 1) => "1 snapshot or thin pool is watched, and not near full".into(),
        (None, count) => format!("{count} snapshots and thin pools are watched, none near full"),
    }
}

fn performance(filled: &[&VolumeBody], running: usize, open: usize) -> String {
    let mut text = format!("jobs={running} alerts={open}");
    for volume in filled {
        for (what, percent) in [("", volume.fill_percent), ("_metadata", volume.metadata_percent)] {
            if let Some(percent) = percent {
                let _ = write!(text, " '{}/{}{what}'={percent:.2}%", volume.vg, volume.lv);
            }
        }
    }
    text
}

fn volume_line(volume: &VolumeBody) -> String {
    let name = format!("{}/{}", volume.vg, volume.lv);
    let percent =
        |percent: Option<f64>| percent.map_or_else(|| "?".into(), |percent| format!("{percent:.2} %"));
    let size = |bytes: Option<u64>| {
        bytes.map_or_else(|| "?".into(), |bytes| bytes_text(bytes as f64, Prefix::Binary))
    };
    let of = volume.origin.as_deref().map_or_else(String::new, |origin| format!(" of {origin}"));
    let mut line = format!("{} {name}{of}: ", volume.kind.text());
    if volume.state == State::Invalid {
        line.push_str("INVALID");
        return line;
    }
    let _ = write!(
        line,
        "{} used, {} of {}",
        percent(volume.fill_percent),
        size(volume.used_bytes),
        size(volume.size_bytes)
    );
    if volume.kind == VolumeKind::ThinPool {
        let _ = write!(line, ", metadata {}", percent(volume.metadata_percent));
    }
    if volume.state != State::Ok {
        let _ = write!(line, ", {}", volume.state.text());
    }
    line
}

fn job_line(job: &JobBody, answers: &Answers) -> String {
    let now = answers.status.ticks.last_at;
    let seconds = (now.as_millisecond() - job.started_at.as_millisecond()) as f64 / 1000.0;
    let since = if job.partly_seen && job.kind == JobKind::Snapshot { " or longer" } else { "" };
    let read = job
        .bytes_read
        .map_or_else(String::new, |bytes| format!(", {} read", bytes_text(bytes as f64, Prefix::Binary)));
    let mut line = format!(
        "job {} ({}): running for {}{since}{read}",
        job.name,
        job.kind.text(),
        duration_text(seconds)
    );
    if let Some(outlook) = answers.outlooks.get(&job.id) {
        let _ = write!(line, "\n  {} {}", outlook.text, outlook.left.text);
    }
    line
}
