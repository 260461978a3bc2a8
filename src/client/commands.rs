//! `cowbell job start`, `stop`, `phase`, `note` and `delete`: commands on jobs, for a scheduler's hooks.
//!
//! The daemon decides which to refuse; here a name becomes a job's key and number.

use anyhow::{Context, bail};
use jiff::Timestamp;

use super::job::{self, ask, understood};
use super::{Daemon, complain};
use crate::job::{CommandError, JobKind, Outcome};
use crate::series::when::instant;
use crate::source::MarkKind;
use crate::web::{JobBody, NoteJob, PhaseJob, PutJob, ToldJob};

/// For the last job of a name it is looked back so far.
const LOOK_BACK: &str = "-366d";

/// A job that somebody marks.
#[derive(Clone, Debug, Default)]
pub struct Begin {
    pub name: String,
    /// The name where nothing is said, but a variant or a repeat.
    pub set: Option<String>,
    pub variant: Option<String>,
    pub repeat: Option<u32>,
}

/// Begins a job; gives its number.
pub async fn start(daemon: &Daemon, begin: Begin, at: Option<&str>) -> anyhow::Result<String> {
    let Begin { name, set, variant, repeat } = begin;
    let belongs = variant.is_some() || repeat.is_some();
    let set = set.or_else(|| belongs.then(|| name.clone()));
    let (kind, started_at) = (MarkKind::Mark, time(at)?);
    let key = format!("job-{}-{}", std::process::id(), crate::source::live::now().as_millisecond());
    let put = PutJob { name, kind, set, variant, repeat, started_at, ..PutJob::default() };
    Ok(format!("{}\n", said(daemon.put_job(&key, &put).await?)))
}

/// How a marked job ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct End {
    pub has_failed: bool,
    pub status: Option<u8>,
}

/// Ends a job that was begun by [`start`], by its name or number.
pub async fn stop(daemon: &Daemon, which: &str, end: End, at: Option<&str>) -> anyhow::Result<()> {
    let ended_at = time(at)?;
    let jobs = jobs(daemon, "-1s").await?;
    let is_it = |job: &&JobBody| job.kind == JobKind::Mark && is_called(job, which);
    let Some(job) = jobs.iter().find(|job| is_it(job) && job.ended_at.is_none()) else {
        bail!("{}", nothing_to_stop(daemon, which, &jobs).await?);
    };
    let key = job.key.as_deref().context("the daemon does not tell the job's key: is it of this version?")?;
    let put = PutJob {
        name: job.name.clone(),
        kind: MarkKind::Mark,
        started_at: job.started_at,
        ended_at: Some(ended_at),
        succeeded: Some(!end.has_failed && end.status.unwrap_or_default() == 0),
        status: end.status,
        ..PutJob::default()
    };
    said(daemon.put_job(key, &put).await?);
    Ok(())
}

async fn nothing_to_stop(daemon: &Daemon, which: &str, running: &[JobBody]) -> anyhow::Result<String> {
    let other = running.iter().find(|job| job.ended_at.is_none() && is_called(job, which));
    match other.map(|job| job.kind) {
        Some(JobKind::Snapshot) => {
            return Ok(format!("`{which}` is a snapshot's job: it ends when the snapshot is removed"));
        }
        Some(JobKind::Command) => {
            return Ok(format!("`{which}` runs under `cowbell run`: it ends when its command does"));
        }
        Some(JobKind::Mark) | None => {}
    }
    let past = jobs(daemon, LOOK_BACK).await?;
    let last = past.iter().find(|job| job.kind == JobKind::Mark && is_called(job, which));
    Ok(match last.and_then(|job| job.ended_at.zip(job.outcome)) {
        Some((at, outcome)) => {
            let outcome = Outcome::text(outcome);
            format!("no job called `{which}` runs: the last one ended at {at} ({outcome})")
        }
        None => format!(
            "no job called `{which}` runs, and none ran within a year: `cowbell job start {which}` begins one"
        ),
    })
}

/// Begins a phase of a job: of the one of this number, or of this name.
pub async fn phase(daemon: &Daemon, which: &str, name: String, at: Option<&str>) -> anyhow::Result<()> {
    let phase = PhaseJob { name, at: at.map(|at| time(Some(at))).transpose()? };
    post(daemon, which, "phases", &serde_json::to_string(&phase)?).await
}

/// Adds a note to a job: to the one of this number, or of this name, which runs or was the last.
pub async fn note(daemon: &Daemon, which: &str, text: String, at: Option<&str>) -> anyhow::Result<()> {
    let note = NoteJob { text, at: at.map(|at| time(Some(at))).transpose()? };
    post(daemon, which, "notes", &serde_json::to_string(&note)?).await
}

async fn post(daemon: &Daemon, which: &str, what: &str, body: &str) -> anyhow::Result<()> {
    let id = number_of(daemon, which).await?;
    said(daemon.command("POST", &format!("/api/v1/jobs/{id}/{what}"), body).await?);
    Ok(())
}

/// Deletes jobs that are over.
pub async fn delete(daemon: &Daemon, ids: &[i64]) -> anyhow::Result<()> {
    let mut seen = std::collections::HashSet::new();
    let ids: Vec<i64> = ids.iter().copied().filter(|id| seen.insert(*id)).collect();
    if ids.len() > 1 {
        all_are_over(daemon, &ids).await.context("nothing was deleted")?;
    }
    for (index, id) in ids.iter().enumerate() {
        let deleted = daemon.command("DELETE", &format!("/api/v1/jobs/{id}"), "").await;
        said(deleted.with_context(|| match index {
            0 => "nothing was deleted".to_string(),
            _ => format!("only {} were deleted", listed(&ids[..index])),
        })?);
    }
    Ok(())
}

/// Looked at before the first is deleted, so that a mistyped number does not delete half of them.
async fn all_are_over(daemon: &Daemon, ids: &[i64]) -> anyhow::Result<()> {
    for id in ids {
        let job: JobBody = understood(&ask(daemon, &format!("/api/v1/jobs/{id}"), &[]).await?)?;
        if job.ended_at.is_none() {
            bail!("{}", CommandError::Runs { id: *id });
        }
    }
    Ok(())
}

/// The job's number. A result that is not stored is a warning, since it may be lost.
fn said(told: ToldJob) -> i64 {
    if let Some(message) = told.message {
        complain(&format!("job {}: {message}", told.id));
    }
    told.id
}

fn listed(ids: &[i64]) -> String {
    ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")
}

async fn number_of(daemon: &Daemon, which: &str) -> anyhow::Result<i64> {
    if let Ok(id) = which.parse() {
        return Ok(id);
    }
    let jobs = jobs(daemon, LOOK_BACK).await?;
    let mut called = jobs.iter().filter(|job| job.name == which);
    let last = called.clone().next();
    let job = called.find(|job| job.ended_at.is_none()).or(last);
    let job = job.with_context(|| {
        format!("no job called `{which}` ran within a year: `cowbell job list` shows which did")
    })?;
    Ok(job.id)
}

fn is_called(job: &JobBody, which: &str) -> bool {
    job.name == which || job.id.to_string() == which
}

/// Jobs since then, the latest first.
async fn jobs(daemon: &Daemon, from: &str) -> anyhow::Result<Vec<JobBody>> {
    understood(&job::all(daemon, from).await?)
}

/// Now where nothing is said; a time relative to now, or an absolute one.
fn time(at: Option<&str>) -> anyhow::Result<Timestamp> {
    let now = crate::source::live::now();
    Ok(at.map_or(Ok(now), |at| instant("--at", at, now))?)
}
