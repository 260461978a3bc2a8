//! `cowbell status`: usage, running jobs and open alerts as text, with the exit status of a Nagios plugin. `cowbell watch`
//! shows the same text again and again.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::output::{lines_of_terminal, print, wrapped};
use crate::alert::{Alert, alike};
use crate::client::{Daemon, QUICK_LIMIT};
use crate::forecast::Outlook;
use crate::job::JobKind;
use crate::sample::guard::GuardPlan;
use crate::series::Range;
use crate::store::in_words;
use crate::topology::State;
use crate::units::{duration_text, percent_text, size_text};
use crate::verdict::{Grade, Verdict};
use crate::web::{JobBody, StatusBody, VolumeBody};

/// Running jobs with a forecast.
const MOST_OUTLOOKS: usize = 5;

/// `watch` waits so long for a daemon that does not answer, and at least.
const PAUSE: Duration = Duration::from_secs(1);
/// Moves to the top left; clears the rest of the line, and of the screen.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_SCREEN: &str = "\x1b[J";

/// What the daemon answered.
#[derive(Serialize)]
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
pub async fn status(daemon: &Daemon, is_json: bool) -> (String, Grade) {
    match ask(daemon).await {
        Ok(state) if is_json => (json!(state).to_string() + "\n", state.status.verdict.grade),
        Ok(state) => {
            // The bar begins performance data.
            let first = format!(
                "{} | {}",
                first_line(&state).replace('|', "/"),
                performance(&state)
            );
            (wrapped(&text(first, &state)), state.status.verdict.grade)
        }
        Err(error) => (unknown(&in_words(&error), is_json), Grade::Unknown),
    }
}

/// What is printed if nothing is known.
pub fn unknown(why: &str, is_json: bool) -> String {
    if is_json {
        return json!({"status": {"grade": Grade::Unknown, "sentence": why}}).to_string() + "\n";
    }
    wrapped(&format!("COWBELL UNKNOWN - {why}"))
}

/// Fills the terminal at each tick, until it is interrupted.
pub async fn watch(daemon: &Daemon) -> anyhow::Result<()> {
    anyhow::ensure!(
        std::io::stdout().is_terminal(),
        "`cowbell watch` needs a terminal: elsewhere run `cowbell status`"
    );
    loop {
        let (text, pause) = match ask(daemon).await {
            Ok(state) => {
                let pause = Duration::from_millis(state.status.ticks.interval_ms);
                (text(first_line(&state), &state), pause)
            }
            Err(error) => (in_words(&error), PAUSE),
        };
        let mut screen = HOME.to_string();
        for line in wrapped(&text).lines().take(lines_of_terminal()) {
            screen += &format!("{line}{CLEAR_LINE}\r\n");
        }
        print(&(screen.trim_end().to_string() + CLEAR_SCREEN))?;
        tokio::time::sleep(pause.max(PAUSE)).await;
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

/// `COWBELL OK - No backup runs, and none is at risk. Nothing is near full.`
fn first_line(state: &CurrentState) -> String {
    let StatusBody {
        headline, verdict, ..
    } = &state.status;
    let Verdict { grade, sentence } = verdict;
    let grade = grade.text().to_uppercase();
    format!("COWBELL {grade} - {headline}. {sentence}")
}

fn text(first: String, state: &CurrentState) -> String {
    let sentence = state.status.verdict.sentence.to_string();
    let mut lines = vec![first];
    lines.extend(state.volumes.iter().map(volume_line));
    for job in &state.running {
        lines.push(job_line(job, state));
    }
    // The first line has that of the worst.
    let now = state.status.ticks.last_at;
    for alerts in alike(&state.open, now) {
        let (severity, said) = (alerts[0].severity.text(), alerts[0].sentence().to_string());
        if alerts[0].is_acknowledged(now) {
            lines.push(format!("{severity}, acknowledged: {said}"));
        } else if said != sentence {
            lines.push(format!("{severity}: {said}"));
        }
    }
    lines.extend(guard_lines(state));
    if let Some(remote_write) = &state.status.remote_write {
        lines.push(format!("remote write: {}", remote_write.text()));
    }
    for part in state.status.parts.iter().filter(|part| !part.ok) {
        let why = part.error.as_deref().unwrap_or_default();
        lines.push(format!("unavailable: {}: {why}", part.name));
    }
    lines.join("\n")
}

/// What the guard plans for volumes at risk.
fn guard_lines(state: &CurrentState) -> Vec<String> {
    let Some(guard) = &state.status.guard else {
        return Vec::new();
    };
    if let Some(error) = &guard.error {
        return vec![format!("guard: it does not run: {error}")];
    }
    let volumes = guard.volumes.iter();
    let planned = volumes.filter(|volume| volume.plan != GuardPlan::Nothing);
    planned
        .map(|volume| format!("guard: {}: {}", volume.name, volume.text))
        .collect()
}

/// Such as `jobs=1 alerts=0 'vg0/snapshot'=12.50%;70;85;0;100`.
fn performance(state: &CurrentState) -> String {
    let mut text = format!("jobs={} alerts={}", state.running.len(), state.open.len());
    for volume in &state.volumes {
        let name = format!("{}/{}", volume.vg, volume.lv);
        if let Some(percent) = volume.fill_percent {
            let thresholds = volume.thresholds;
            let thresholds = thresholds.map(|it| format!("{};{}", it.warning, it.critical));
            let thresholds = thresholds.unwrap_or_else(|| ";".into());
            text += &format!(" '{name}'={percent:.2}%;{thresholds};0;100");
        }
        if let Some(percent) = volume.metadata_percent {
            text += &format!(" '{name}_metadata'={percent:.2}%;;;0;100");
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
