//! `cowbell job start`, `stop`, `phase`, `note`, `accept` and `delete`: commands on jobs, for schedulers.
//!
//! Finds keys and IDs of jobs by name. The daemon decides which commands to refuse.

use anyhow::{Context, bail};
use clap::Subcommand;
use jiff::Timestamp;

use super::arguments::{SetArguments, name};
use super::job;
use super::{Daemon, LONG_LIMIT, complain, parsed};
use crate::commands::{ArchiveSummary, MarkKind};
use crate::job::{CommandError, JobKind, Outcome};
use crate::series::when::instant;
use crate::web::{JobBody, JobReply, NoteJob, PhaseJob, PutJob};

/// How far back a job is searched for by name.
const LOOK_BACK: &str = "-366d";

#[derive(Subcommand)]
pub enum MarkCommand {
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
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
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
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
    },
    /// Start a phase of a running job, such as `writing`; the previous phase ends
    Phase {
        /// ID or name
        job: String,
        /// The name of the phase
        #[arg(value_parser = name)]
        name: String,
        /// The time of the start if not now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
    },
    /// Add a note to a job
    Note {
        /// ID or name; of several, the running one or the last
        job: String,
        /// The text of the note
        text: String,
        /// The time that it is about if not now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
    },
    /// Accept the result of a backup that leaves files out on purpose
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

/// Runs a command; returns the text to print.
pub async fn run(daemon: &Daemon, command: MarkCommand) -> anyhow::Result<String> {
    match command {
        MarkCommand::Start {
            name,
            set,
            repeat,
            at,
        } => {
            return start(daemon, name, &set, repeat, at.as_deref()).await;
        }
        MarkCommand::Stop {
            job,
            failed,
            status,
            at,
        } => {
            stop(daemon, &job, !failed, status, at.as_deref()).await?;
        }
        MarkCommand::Phase { job, name, at } => {
            let phase = PhaseJob {
                name,
                at: at.map(|at| time(Some(&at))).transpose()?,
            };
            post(daemon, &job, "phases", &serde_json::to_string(&phase)?).await?;
        }
        MarkCommand::Note { job, text, at } => {
            let note = NoteJob {
                text,
                at: at.map(|at| time(Some(&at))).transpose()?,
            };
            post(daemon, &job, "notes", &serde_json::to_string(&note)?).await?;
        }
        MarkCommand::Accept { job } => post(daemon, &job, "accept", "").await?,
        MarkCommand::Delete { ids } => delete(daemon, &ids).await?,
    }
    Ok(String::new())
}

/// Starts a job; returns its ID.
async fn start(
    daemon: &Daemon,
    name: String,
    set: &SetArguments,
    repeat: Option<u32>,
    at: Option<&str>,
) -> anyhow::Result<String> {
    let key = format!(
        "job-{}-{}",
        std::process::id(),
        crate::source::clock::now().as_millisecond()
    );
    let put = PutJob {
        kind: MarkKind::Mark,
        set: set.set(&name, repeat.is_some()),
        variant: set.variant.clone(),
        repeat,
        started_at: time(at)?,
        name,
        ..PutJob::default()
    };
    Ok(format!(
        "{}\n",
        acknowledge(daemon.put_job(&key, &put).await?)
    ))
}

/// Ends a job that [`start`] started, by name or ID.
async fn stop(
    daemon: &Daemon,
    which: &str,
    succeeded: bool,
    status: Option<u8>,
    at: Option<&str>,
) -> anyhow::Result<()> {
    let ended_at = time(at)?;
    let jobs = jobs(daemon, "-1s").await?;
    let is_it = |job: &&JobBody| job.kind == JobKind::Mark && is_called(job, which);
    let Some(job) = jobs.iter().find(|job| is_it(job) && job.ended_at.is_none()) else {
        bail!("{}", nothing_to_stop(daemon, which, &jobs).await?);
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
        succeeded: Some(succeeded && status.unwrap_or_default() == 0),
        status,
        ..PutJob::default()
    };
    acknowledge(daemon.put_job(key, &put).await?);
    Ok(())
}

async fn nothing_to_stop(
    daemon: &Daemon,
    which: &str,
    running: &[JobBody],
) -> anyhow::Result<String> {
    let other = running
        .iter()
        .find(|job| job.ended_at.is_none() && is_called(job, which));
    match other.map(|job| job.kind) {
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
    acknowledge(
        daemon
            .command("PUT", &path, &serde_json::to_string(archive)?)
            .await?,
    );
    Ok(())
}

/// Posts to a job, by ID or name: the running one, or the last.
async fn post(daemon: &Daemon, which: &str, what: &str, body: &str) -> anyhow::Result<()> {
    let id = id_of(daemon, which).await?;
    acknowledge(
        daemon
            .command("POST", &format!("/api/v1/jobs/{id}/{what}"), body)
            .await?,
    );
    Ok(())
}

/// Deletes ended jobs.
async fn delete(daemon: &Daemon, ids: &[i64]) -> anyhow::Result<()> {
    let mut seen = std::collections::HashSet::new();
    let ids: Vec<i64> = ids.iter().copied().filter(|id| seen.insert(*id)).collect();
    if ids.len() > 1 {
        check_ended(daemon, &ids)
            .await
            .context("nothing was deleted")?;
    }
    for (index, id) in ids.iter().enumerate() {
        let deleted = daemon
            .command("DELETE", &format!("/api/v1/jobs/{id}"), "")
            .await;
        acknowledge(deleted.with_context(|| match index {
            0 => "nothing was deleted".to_string(),
            _ => {
                let deleted: Vec<String> = ids[..index].iter().map(i64::to_string).collect();
                format!("only {} were deleted", deleted.join(", "))
            }
        })?);
    }
    Ok(())
}

/// Checks all jobs before it deletes the first, so that a mistyped ID does not leave half of them deleted.
async fn check_ended(daemon: &Daemon, ids: &[i64]) -> anyhow::Result<()> {
    for id in ids {
        let job: JobBody = parsed(
            &daemon
                .ask(&format!("/api/v1/jobs/{id}"), &[], LONG_LIMIT)
                .await?,
        )?;
        if job.ended_at.is_none() {
            bail!("{}", CommandError::Runs { id: *id });
        }
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

pub async fn id_of(daemon: &Daemon, which: &str) -> anyhow::Result<i64> {
    if let Ok(id) = which.parse() {
        return Ok(id);
    }
    let jobs = jobs(daemon, LOOK_BACK).await?;
    let mut called = jobs.iter().filter(|job| job.name == which);
    let last = called.clone().next();
    let job = called.find(|job| job.ended_at.is_none()).or(last);
    let job = job.with_context(|| {
        format!("no job called `{which}` ran within a year: `cowbell job list` lists all jobs")
    })?;
    Ok(job.id)
}

fn is_called(job: &JobBody, which: &str) -> bool {
    job.name == which || job.id.to_string() == which
}

/// The latest first.
async fn jobs(daemon: &Daemon, from: &str) -> anyhow::Result<Vec<JobBody>> {
    parsed(&job::all(daemon, from).await?)
}

/// A time, absolute or relative to now; now by default.
fn time(at: Option<&str>) -> anyhow::Result<Timestamp> {
    let now = crate::source::clock::now();
    Ok(at.map_or(Ok(now), |at| instant("--at", at, now))?)
}
