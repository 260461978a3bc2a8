//! `cowbell status`: usage, running jobs and open alerts as text, with the exit status of a Nagios plugin.

use std::collections::HashMap;

use super::output::wrapped;
use crate::alert::{Alert, alike};
use crate::client::{Daemon, QUICK_LIMIT};
use crate::forecast::Outlook;
use crate::job::JobKind;
use crate::series::Range;
use crate::store::in_words;
use crate::topology::State;
use crate::units::{duration_text, percent_text, size_text};
use crate::verdict::{Grade, Verdict};
use crate::web::{JobBody, StatusBody, VolumeBody};

/// Running jobs with a forecast.
const MOST_OUTLOOKS: usize = 5;

/// What the daemon answered.
struct CurrentState {
    status: StatusBody,
    /// Snapshots and pools, which can overflow.
    volumes: Vec<VolumeBody>,
    running: Vec<JobBody>,
    /// Forecasts of running jobs by ID.
    outlooks: HashMap<i64, Outlook>,
    open: Vec<Alert>,
}

/// Asks the daemon; returns the text to print and the grade, which decides the exit status.
pub async fn status(daemon: &Daemon) -> (String, Grade) {
    match ask(daemon).await {
        Ok(state) => (wrapped(&text(&state)), state.status.verdict.grade),
        Err(error) => (
            wrapped(&format!("COWBELL UNKNOWN - {}", in_words(&error))),
            Grade::Unknown,
        ),
    }
}

async fn ask(daemon: &Daemon) -> anyhow::Result<CurrentState> {
    let path = "/api/v1/jobs?from=-1h";
    let mut running: Vec<JobBody> = daemon.get(path, QUICK_LIMIT).await?;
    running.retain(|job| job.ended_at.is_none());
    let outlooks = outlooks(daemon, &running).await;
    let status = daemon.get("/api/v1/status", QUICK_LIMIT).await?;
    let mut volumes: Vec<VolumeBody> = daemon.get("/api/v1/volumes", QUICK_LIMIT).await?;
    volumes.retain(|volume| volume.kind.can_overflow());
    let mut open: Vec<Alert> = daemon.get("/api/v1/alerts", QUICK_LIMIT).await?;
    open.retain(|alert| alert.cleared_at.is_none());
    Ok(CurrentState {
        status,
        volumes,
        running,
        outlooks,
        open,
    })
}

/// For the latest snapshots. Errors are ignored, since an older daemon has no forecasts.
async fn outlooks(daemon: &Daemon, running: &[JobBody]) -> HashMap<i64, Outlook> {
    let snapshots = running.iter().filter(|job| job.kind == JobKind::Snapshot);
    let mut found = HashMap::new();
    for job in snapshots.take(MOST_OUTLOOKS) {
        let path = format!("/api/v1/jobs/{}/outlook", job.id);
        if let Ok(Some(outlook)) = daemon.get::<Option<Outlook>>(&path, QUICK_LIMIT).await {
            found.insert(job.id, outlook);
        }
    }
    found
}

fn text(state: &CurrentState) -> String {
    let Verdict { grade, sentence } = &state.status.verdict;
    let sentence = sentence.to_string();
    // The bar begins performance data.
    let mut lines = vec![format!(
        "COWBELL {} - {} | {}",
        grade.text().to_uppercase(),
        sentence.replace('|', "/"),
        performance(state)
    )];
    lines.extend(state.volumes.iter().map(volume_line));
    for job in &state.running {
        lines.push(job_line(job, state));
    }
    // The first line has that of the worst.
    for alerts in alike(&state.open, state.status.ticks.last_at) {
        let (severity, said) = (alerts[0].severity, alerts[0].sentence().to_string());
        if said != sentence {
            lines.push(format!("{}: {said}", severity.text()));
        }
    }
    if let Some(remote_write) = &state.status.remote_write {
        lines.push(format!("remote write: {}", remote_write.text()));
    }
    for part in state.status.parts.iter().filter(|part| !part.ok) {
        let why = part.error.as_deref().unwrap_or_default();
        lines.push(format!("unavailable: {}: {why}", part.name));
    }
    lines.join("\n")
}

/// Such as `jobs=1 alerts=0 'vg0/snapshot'=12.50%`.
fn performance(state: &CurrentState) -> String {
    let mut text = format!("jobs={} alerts={}", state.running.len(), state.open.len());
    for volume in &state.volumes {
        for (what, percent) in [
            ("", volume.fill_percent),
            ("_metadata", volume.metadata_percent),
        ] {
            if let Some(percent) = percent {
                text += &format!(" '{}/{}{what}'={percent:.2}%", volume.vg, volume.lv);
            }
        }
    }
    text
}

fn volume_line(volume: &VolumeBody) -> String {
    let percent = |percent: Option<f64>| percent.map_or_else(|| "?".into(), percent_text);
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "?".into(), size_text);
    let mut line = format!("{} {}/{}", volume.kind.text(), volume.vg, volume.lv);
    if let Some(origin) = &volume.origin {
        line += &format!(" of {origin}");
    }
    if volume.state.is_lost() {
        return line + ": " + &volume.state.text().to_uppercase();
    }
    line += &format!(
        ": {} used, {} of {}",
        percent(volume.fill_percent),
        size(volume.used_bytes),
        size(volume.size_bytes)
    );
    if volume.kind.is_thin_pool() {
        line += &format!(", metadata {}", percent(volume.metadata_percent));
    }
    if volume.state != State::Ok {
        line += &format!(", {}", volume.state.text());
    }
    line
}

/// Such as `job data_snapshot (snapshot): running for 30 s, 3.00 MiB read`, with its forecast below.
fn job_line(job: &JobBody, state: &CurrentState) -> String {
    let ran = Range {
        from: job.started_at,
        to: state.status.ticks.last_at,
    };
    let mut line = format!("job {} ({}): ", job.name, job.kind.text());
    // `overflowed, running for 5 min`: its snapshot may be lost before it ends.
    if let Some(outcome) = job.outcome {
        line += &format!("{}, ", outcome.text());
    }
    line += &format!("running for {}", duration_text(ran.seconds()));
    if job.partly_seen && job.kind == JobKind::Snapshot {
        line += " or longer";
    }
    if let Some(bytes) = job.bytes_read {
        line += &format!(", {} read", size_text(bytes));
    }
    if let Some(outlook) = state.outlooks.get(&job.id) {
        // The first line may say it already.
        if job.verdict.sentence != state.status.verdict.sentence {
            line += &format!("\n  {}", job.verdict.sentence);
        }
        line += &format!("\n  {}", outlook.left.text);
    }
    line
}
