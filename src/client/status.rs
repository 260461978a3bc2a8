//! `cowbell status`: usage, running jobs and open alerts as text, with the exit status of a Nagios plugin.

use std::collections::HashMap;
use std::fmt::Write as _;

use anyhow::Context;
use serde::de::DeserializeOwned;

use super::terminal::wrapped;
use super::{Daemon, TIME_LIMIT, parsed, url};
use crate::alert::{Alert, alike};
use crate::forecast::Outlook;
use crate::job::JobKind;
use crate::series::Range;
use crate::topology::State;
use crate::units::{duration_text, percent_text, size_text};
use crate::verdict::{Grade, Verdict};
use crate::web::{JobBody, StatusBody, VolumeBody};

/// Running jobs with a forecast.
const MOST_OUTLOOKS: usize = 5;

/// The daemon's answers.
struct Answers {
    status: StatusBody,
    volumes: Vec<VolumeBody>,
    jobs: Vec<JobBody>,
    /// Forecasts of running jobs by ID.
    outlooks: HashMap<i64, Outlook>,
    alerts: Vec<Alert>,
}

/// Asks the daemon; returns the text to print and the exit status.
pub async fn status(daemon: &Daemon) -> (String, Grade) {
    match ask(daemon).await {
        Ok(answers) => (wrapped(&text(&answers)), answers.status.verdict.grade),
        Err(error) => (
            wrapped(&format!("COWBELL UNKNOWN - {error:#}")),
            Grade::Unknown,
        ),
    }
}

async fn ask(daemon: &Daemon) -> anyhow::Result<Answers> {
    let jobs: Vec<JobBody> = get(daemon, "/api/v1/jobs?from=-1h").await?;
    Ok(Answers {
        outlooks: outlooks(daemon, &jobs).await,
        status: get(daemon, "/api/v1/status").await?,
        volumes: get(daemon, "/api/v1/volumes").await?,
        jobs,
        alerts: get(daemon, "/api/v1/alerts").await?,
    })
}

/// For the latest snapshots. Errors are ignored, since an older daemon has no forecasts.
async fn outlooks(daemon: &Daemon, jobs: &[JobBody]) -> HashMap<i64, Outlook> {
    let running = jobs
        .iter()
        .filter(|job| job.ended_at.is_none() && job.kind == JobKind::Snapshot);
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
    let answer = daemon.get(url(path).parse()?, TIME_LIMIT).await?.0;
    parsed(&answer).with_context(|| format!("cannot read {path}"))
}

fn text(answers: &Answers) -> String {
    let open: Vec<&Alert> = answers
        .alerts
        .iter()
        .filter(|alert| alert.cleared_at.is_none())
        .collect();
    let running: Vec<&JobBody> = answers
        .jobs
        .iter()
        .filter(|job| job.ended_at.is_none())
        .collect();
    let filled: Vec<&VolumeBody> = answers
        .volumes
        .iter()
        .filter(|volume| is_watched(volume))
        .collect();
    let Verdict { grade, sentence } = &answers.status.verdict;
    let sentence = sentence.to_string();
    // The bar begins performance data.
    let mut text = format!(
        "COWBELL {} - {}",
        grade.text().to_uppercase(),
        sentence.replace('|', "/")
    );
    let _ = writeln!(
        text,
        " | {}",
        performance(&filled, running.len(), open.len())
    );
    for volume in &filled {
        let _ = writeln!(text, "{}", volume_line(volume));
    }
    for job in &running {
        let _ = writeln!(text, "{}", job_line(job, answers));
    }
    // The first line has that of the worst.
    let alerts = alike(open.iter().copied())
        .into_iter()
        .map(|alerts| alerts[0]);
    for alert in alerts.filter(|alert| alert.sentence().to_string() != sentence) {
        let _ = writeln!(text, "{}: {}", alert.severity.text(), alert.sentence());
    }
    if let Some(state) = &answers.status.remote_write {
        let _ = writeln!(text, "remote write: {}", state.text());
    }
    for part in answers.status.parts.iter().filter(|part| !part.ok) {
        let _ = writeln!(
            text,
            "unavailable: {}: {}",
            part.name,
            part.error.as_deref().unwrap_or_default()
        );
    }
    text
}

/// Snapshots and pools, which can overflow.
fn is_watched(volume: &VolumeBody) -> bool {
    volume.kind.can_overflow()
}

fn performance(filled: &[&VolumeBody], running: usize, open: usize) -> String {
    let mut text = format!("jobs={running} alerts={open}");
    for volume in filled {
        for (what, percent) in [
            ("", volume.fill_percent),
            ("_metadata", volume.metadata_percent),
        ] {
            if let Some(percent) = percent {
                let _ = write!(text, " '{}/{}{what}'={percent:.2}%", volume.vg, volume.lv);
            }
        }
    }
    text
}

fn volume_line(volume: &VolumeBody) -> String {
    let name = format!("{}/{}", volume.vg, volume.lv);
    let percent = |percent: Option<f64>| percent.map_or_else(|| "?".into(), percent_text);
    let size = |bytes: Option<u64>| bytes.map_or_else(|| "?".into(), size_text);
    let of = volume
        .origin
        .as_deref()
        .map_or_else(String::new, |origin| format!(" of {origin}"));
    let mut line = format!("{} {name}{of}: ", volume.kind.text());
    if volume.state == State::Invalid {
        line.push_str("INVALID");
        return line;
    }
    let (used, total) = (size(volume.used_bytes), size(volume.size_bytes));
    let _ = write!(
        line,
        "{} used, {used} of {total}",
        percent(volume.fill_percent)
    );
    if volume.kind.is_thin_pool() {
        let _ = write!(line, ", metadata {}", percent(volume.metadata_percent));
    }
    if volume.state != State::Ok {
        let _ = write!(line, ", {}", volume.state.text());
    }
    line
}

fn job_line(job: &JobBody, answers: &Answers) -> String {
    let ran = Range {
        from: job.started_at,
        to: answers.status.ticks.last_at,
    };
    let since = if job.partly_seen && job.kind == JobKind::Snapshot {
        " or longer"
    } else {
        ""
    };
    let read = job
        .bytes_read
        .map_or_else(String::new, |bytes| format!(", {} read", size_text(bytes)));
    let (kind, duration) = (job.kind.text(), duration_text(ran.seconds()));
    // `overflowed, running for 5 min`: its snapshot may be lost before it ends.
    let so_far = job
        .outcome
        .map_or_else(String::new, |outcome| format!("{}, ", outcome.text()));
    let mut line = format!(
        "job {} ({kind}): {so_far}running for {duration}{since}{read}",
        job.name
    );
    let is_said = job.verdict.sentence == answers.status.verdict.sentence;
    let own = (!is_said).then(|| job.verdict.sentence.to_string());
    if let Some(outlook) = answers.outlooks.get(&job.id) {
        for sentence in own.into_iter().chain([outlook.left.text.clone()]) {
            let _ = write!(line, "\n  {sentence}");
        }
    }
    line
}
