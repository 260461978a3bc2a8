//! `cowbell job start`, `stop`, `phase`, `note`, `accept` and `delete`: commands on jobs, for schedulers.
//!
//! Finds keys and IDs of jobs by name. The daemon decides which commands to refuse.

use std::collections::HashSet;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use hyper::Method;
use jiff::Timestamp;
use serde::Serialize;

use super::output::complain;
use crate::client::{Daemon, LONG_LIMIT, parsed};
use crate::commands::{ArchiveSummary, LONGEST_NAME, MarkKind, check_letters};
use crate::job::{CommandError, JobKind, Outcome};
use crate::series::when::{InvalidTime, instant};
use crate::source::clock;
use crate::web::{JobBody, JobReply, NoteJob, PhaseJob, PutJob};

/// How far back a job is searched for by name.
const LOOK_BACK: &str = "-366d";

#[derive(Subcommand)]
pub enum MarkArguments {
    /// Start a job and print its ID; `stop` ends it
    Start {
        /// The name of the job; only one job of each name can run
        #[arg(value_parser = name)]
        name: String,
        #[command(flatten)]
        set: SetArguments,
        /// The number of the run within its variant, from 1
        #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
        repeat: Option<u32>,
        /// The time of the start if not now, absolute or relative such as -5m
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
        at: Option<Timestamp>,
    },
    /// End a job that `start` started
    Stop {
        /// Name or ID
        job: String,
        /// The job failed
        #[arg(long)]
        failed: bool,
        /// The exit status; 0 is success
        #[arg(long, value_name = "N")]
        status: Option<u8>,
        /// The time of the end if not now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
        at: Option<Timestamp>,
    },
    /// Start a phase of a running job, such as `writing`; the previous phase ends
    Phase {
        /// ID or name
        job: String,
        /// The name of the phase
        #[arg(value_parser = name)]
        name: String,
        /// The time of the start if not now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
        at: Option<Timestamp>,
    },
    /// Add a note to a job
    Note {
        /// ID or name; of several, the running one or the last
        job: String,
        /// The text of the note
        text: String,
        /// The time that it is about if not now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = time)]
        at: Option<Timestamp>,
    },
    /// Accept the result of a backup that leaves files out, or copies only what has changed
    Accept {
        /// ID or name
        job: String,
    },
    /// Delete ended jobs; their measurements remain
    Delete {
        /// IDs of the jobs
        #[arg(required = true)]
        ids: Vec<i64>,
    },
}

// The set of comparable runs that a job belongs to. (A doc comment would become the help of the command.)
#[derive(Args)]
pub struct SetArguments {
    /// The set of runs to compare [default: the name, if --variant or --repeat is given]
    #[arg(long, value_parser = name)]
    set: Option<String>,
    /// The variant of this run within its set
    #[arg(long, value_parser = name)]
    variant: Option<String>,
}

impl SetArguments {
    /// The mark of a job that starts. With a variant or a repeat, its set is its name by default.
    pub fn start(
        &self,
        name: String,
        kind: MarkKind,
        repeat: Option<u32>,
        started_at: Timestamp,
    ) -> PutJob {
        let has_set = repeat.is_some() || self.variant.is_some();
        PutJob {
            set: self.set.clone().or_else(|| has_set.then(|| name.clone())),
            variant: self.variant.clone(),
            name,
            kind,
            repeat,
            started_at,
            ..PutJob::default()
        }
    }
}

/// Parses the name of a job, a phase, a set or a variant.
pub fn name(text: &str) -> Result<String, String> {
    check_letters("a name", text, LONGEST_NAME).map(|()| text.into())
}

/// The value of `--at`: absolute, or relative to now.
fn time(text: &str) -> Result<Timestamp, InvalidTime> {
    instant("--at", text, clock::now())
}

/// Runs a command; returns the text to print.
pub async fn run(daemon: &Daemon, arguments: MarkArguments) -> anyhow::Result<String> {
    match arguments {
        MarkArguments::Start {
            name,
            set,
            repeat,
            at,
        } => {
            let now = clock::now();
            let key = format!("job-{}-{}", std::process::id(), now.as_millisecond());
            let put = set.start(name, MarkKind::Mark, repeat, at.unwrap_or(now));
            let id = acknowledge(daemon.put_job(&key, &put).await?);
            return Ok(format!("{id}\n"));
        }
        MarkArguments::Stop {
            job,
            failed,
            status,
            at,
        } => {
            let succeeded = !failed && status.unwrap_or_default() == 0;
            stop(daemon, &job, succeeded, status, at).await?;
        }
        MarkArguments::Phase { job, name, at } => {
            post(daemon, &job, "phases", Some(&PhaseJob { name, at })).await?;
        }
        MarkArguments::Note { job, text, at } => {
            post(daemon, &job, "notes", Some(&NoteJob { text, at })).await?;
        }
        MarkArguments::Accept { job } => post(daemon, &job, "accept", None::<&()>).await?,
        MarkArguments::Delete { ids } => delete(daemon, ids).await?,
    }
    Ok(String::new())
}

/// Ends a job of `cowbell job start`, by name or ID.
async fn stop(
    daemon: &Daemon,
    which: &str,
    succeeded: bool,
    status: Option<u8>,
    at: Option<Timestamp>,
) -> anyhow::Result<()> {
    let ended_at = at.unwrap_or_else(clock::now);
    // Running jobs are listed however early they started.
    let mut running = jobs(daemon, "-1s").await?;
    running.retain(|job| job.ended_at.is_none() && is_called(job, which));
    let Some(job) = running.iter().find(|job| job.kind == JobKind::Mark) else {
        let other = running.first().map(|job| job.kind);
        bail!("{}", nothing_to_stop(daemon, which, other).await?);
    };
    let key = job
        .key
        .as_deref()
        .context("the daemon does not return the key of the job: has it the same version?")?;
    let put = PutJob {
        name: job.name.clone(),
        kind: MarkKind::Mark,
        started_at: job.started_at,
        ended_at: Some(ended_at),
        succeeded: Some(succeeded),
        status,
        ..PutJob::default()
    };
    acknowledge(daemon.put_job(key, &put).await?);
    Ok(())
}

/// Why there is no such job to stop; `other` is the kind of a running one of this name.
async fn nothing_to_stop(
    daemon: &Daemon,
    which: &str,
    other: Option<JobKind>,
) -> anyhow::Result<String> {
    match other {
        Some(JobKind::Snapshot) => {
            return Ok(format!(
                "`{which}` is a snapshot: its job ends when the snapshot is removed"
            ));
        }
        Some(JobKind::Command) => {
            return Ok(format!(
                "`{which}` runs under `cowbell run` and ends with its command"
            ));
        }
        Some(JobKind::Mark) | None => {}
    }
    let past = jobs(daemon, LOOK_BACK).await?;
    let last = past
        .iter()
        .find(|job| job.kind == JobKind::Mark && is_called(job, which));
    Ok(match last.and_then(|job| job.ended_at.zip(job.outcome)) {
        Some((at, outcome)) => {
            let outcome = Outcome::text(outcome);
            format!("no job called `{which}` is running: the last one ended at {at} ({outcome})")
        }
        None => format!(
            "no job called `{which}` ran within a year: `cowbell job start {which}` starts one"
        ),
    })
}

/// Reports what was found in the archive of a job.
pub async fn certify(daemon: &Daemon, id: i64, archive: &ArchiveSummary) -> anyhow::Result<()> {
    let path = format!("/api/v1/jobs/{id}/certificate");
    let body = serde_json::to_string(archive)?;
    acknowledge(daemon.command(Method::PUT, &path, body).await?);
    Ok(())
}

/// Posts to a job, by ID or name: the running one, or the last.
async fn post(
    daemon: &Daemon,
    which: &str,
    what: &str,
    body: Option<&impl Serialize>,
) -> anyhow::Result<()> {
    let path = format!("/api/v1/jobs/{}/{what}", id_of(daemon, which).await?);
    let body = body.map(serde_json::to_string).transpose()?;
    let reply = daemon.command(Method::POST, &path, body.unwrap_or_default());
    acknowledge(reply.await?);
    Ok(())
}

/// Checks that all have ended before it deletes the first, so that a mistyped ID does not leave half of them deleted.
async fn delete(daemon: &Daemon, mut ids: Vec<i64>) -> anyhow::Result<()> {
    let mut seen = HashSet::new();
    ids.retain(|id| seen.insert(*id));
    if ids.len() > 1 {
        for id in &ids {
            check_ended(daemon, *id)
                .await
                .context("nothing was deleted")?;
        }
    }
    let mut deleted: Vec<String> = Vec::new();
    for id in ids {
        let path = format!("/api/v1/jobs/{id}");
        let reply = daemon.command(Method::DELETE, &path, "").await;
        acknowledge(reply.with_context(|| match &*deleted {
            [] => "nothing was deleted".to_string(),
            _ => format!("only {} were deleted", deleted.join(", ")),
        })?);
        deleted.push(id.to_string());
    }
    Ok(())
}

async fn check_ended(daemon: &Daemon, id: i64) -> anyhow::Result<()> {
    let path = format!("/api/v1/jobs/{id}");
    let job: JobBody = daemon.get(&path, LONG_LIMIT).await?;
    if job.ended_at.is_none() {
        bail!("{}", CommandError::Runs { id });
    }
    Ok(())
}

/// The job's ID. Warns if the result is not stored, since it may be lost.
fn acknowledge(reply: JobReply) -> i64 {
    if let Some(message) = reply.message {
        complain(&format!("job {}: {message}", reply.id));
    }
    reply.id
}

/// The ID itself, or that of the running or last job of this name.
pub async fn id_of(daemon: &Daemon, which: &str) -> anyhow::Result<i64> {
    if let Ok(id) = which.parse() {
        return Ok(id);
    }
    let mut called = jobs(daemon, LOOK_BACK).await?;
    called.retain(|job| job.name == which);
    let running = called.iter().find(|job| job.ended_at.is_none());
    let job = running.or(called.first()).with_context(|| {
        format!("no job called `{which}` ran within a year: `cowbell job list` lists all jobs")
    })?;
    Ok(job.id)
}

fn is_called(job: &JobBody, which: &str) -> bool {
    job.name == which || job.id.to_string() == which
}

/// The latest first.
async fn jobs(daemon: &Daemon, from: &str) -> anyhow::Result<Vec<JobBody>> {
    parsed(&daemon.jobs(from).await?)
}
