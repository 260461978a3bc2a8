//! Commands on jobs: a mark begins or ends one; others, by its ID, add a phase, a note or the certificate of its archive,
//! accept its result, or delete it. Each request is checked by itself; the loop checks it against known jobs.

use axum::extract::{Extension, Path, State};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::commands::{
    CHOSEN, Described, JobReply, JobResponse, JsonBody, check_letters, check_time,
    forgotten_or_room, send,
};
use super::numbered;
use crate::commands::{
    ArchiveSummary, JobCommand, JobLabel, LONGEST_NAME, Mark, MarkEnd, MarkKind, Note,
};
use crate::job::{Job, OF_USER};
use crate::requests::Command;
use crate::source::clock;
use crate::web::answer::{Problem, ProblemBody};
use crate::web::connections::{Peer, PeerProcess};
use crate::web::{SharedSite, Site};

/// Maximum characters of a note.
const LONGEST_NOTE: usize = 1_000;
/// Maximum characters of a path, as in Linux.
const LONGEST_PATH: usize = 4_096;

/// A command or a marked job: its start and, once it has ended, its end.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutJob {
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// `mark` by default
    #[serde(default)]
    pub kind: MarkKind,
    /// The set of runs; required with `variant` or `repeat`.
    #[schema(min_length = 1, max_length = 200)]
    pub set: Option<String>,
    #[schema(min_length = 1, max_length = 200)]
    pub variant: Option<String>,
    /// From 1.
    #[schema(minimum = 1)]
    pub repeat: Option<u32>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Required with `ended_at`.
    pub succeeded: Option<bool>,
    /// The exit status of a command that was not killed.
    pub status: Option<u8>,
    /// For a command with status 0: how a program below it failed, such as `mysqldump ended with status 2`. If the command is a
    /// backup and makes no snapshot, it has failed.
    #[schema(min_length = 1, max_length = 200)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The PID of the command or of a process above it, if it runs on this host: snapshots that it creates are its own.
    pub process: Option<u32>,
    /// Whether a command is a backup, whose failure raises an alert.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backup: bool,
}

/// Starts or ends a job. The client chooses the key; repeated requests change nothing. Only one `mark` of each name can run
/// at a time. A `command` must be marked every 30 seconds and is abandoned after two minutes without a mark.
#[utoipa::path(put, path = "/api/v1/marks/{key}", tag = "jobs", request_body = PutJob,
    params(("key" = String, Path, description = "Up to 200 characters, percent-encoded; chosen by the client")),
    responses((status = 200, description = "Stored", body = JobReply), (status = 201, description = "Stored as a new job", body = JobReply), (status = 202, description = "Held in memory, not stored", body = JobReply), (status = 409, description = "Another job of this name is running, this one has ended, or cowbell plays a recording", body = ProblemBody), (status = 507, description = "Not stored: there is no room for more jobs and imported files", body = ProblemBody)))]
pub async fn put_job(
    State(site): State<SharedSite>,
    Extension(client): Extension<Peer>,
    Path(key): Path<String>,
    JsonBody(put): JsonBody<PutJob>,
) -> Result<JobResponse, Problem> {
    check_letters("a job's key", &key, LONGEST_NAME)?;
    let key = match client {
        Peer::Process(process) if !process.is_operator => own_key(process, &key, &put)?,
        _ => format!("{CHOSEN}{key}"),
    };
    let mark = mark(key, put, clock::now())?;
    let stored = forgotten_or_room(&site, &mark.key, 0).await?;
    Ok(send(&site, Command::OnJob(JobCommand::Mark(mark)), stored)
        .await?
        .into())
}

/// A key that names its user, so that no user reaches another's job. `cowbell run` has such jobs.
fn own_key(client: PeerProcess, key: &str, put: &PutJob) -> Result<String, Problem> {
    // The kernel tells no PID of a process in another PID namespace, and 0 is above all processes.
    if put.kind == MarkKind::Command && put.process == Some(client.pid) && client.pid != 0 {
        return Ok(format!("{OF_USER}{}:{key}", client.user));
    }
    Err(Problem::Forbidden(format!(
        "user {} may record commands with `cowbell run` only: expected `kind` \"command\" and `process` {}",
        client.user, client.pid
    )))
}

fn mark(key: String, put: PutJob, now: Timestamp) -> Result<Mark, Problem> {
    check_letters("a job's name", &put.name, LONGEST_NAME)?;
    check_time("started_at", Some(put.started_at), now)?;
    check_time("ended_at", put.ended_at, now)?;
    let label = label(&put)?;
    if let Some(failure) = &put.failure {
        check_letters("a job's failure", failure, LONGEST_NAME)?;
    }
    if put.failure.is_some() && put.status != Some(0) {
        return Err(Problem::Bad(
            "expected `failure` together with `status` 0".into(),
        ));
    }
    if put.status.is_some() && put.ended_at.is_none() {
        return Err(Problem::Bad(
            "expected `ended_at` together with `status`".into(),
        ));
    }
    if let (Some(succeeded), Some(status)) = (put.succeeded, put.status)
        && succeeded != (status == 0)
    {
        let expected = !succeeded;
        return Err(Problem::Bad(format!(
            "expected `succeeded` to be {expected} with `status` {status}, since 0 is success"
        )));
    }
    Ok(Mark {
        end: mark_end(&put)?,
        key,
        kind: put.kind,
        name: put.name,
        label,
        started_at: put.started_at,
        process: put.process,
        is_backup: put.backup,
    })
}

fn mark_end(put: &PutJob) -> Result<Option<MarkEnd>, Problem> {
    let began = put.started_at;
    match (put.ended_at, put.succeeded) {
        (None, None) => Ok(None),
        (Some(at), Some(_)) if at < began => Err(Problem::Bad(format!(
            "expected `ended_at` not before the start ({began}), but found {at}"
        ))),
        (Some(at), Some(succeeded)) => Ok(Some(MarkEnd {
            at,
            succeeded,
            status: put.status.map(i32::from),
            failure: put.failure.clone(),
        })),
        _ => Err(Problem::Bad(
            "expected `ended_at` and `succeeded` together, or neither".into(),
        )),
    }
}

fn label(put: &PutJob) -> Result<Option<JobLabel>, Problem> {
    let (variant, repeat) = (&put.variant, put.repeat);
    let Some(set) = &put.set else {
        if variant.is_some() || repeat.is_some() {
            return Err(Problem::Bad(
                "expected `set` together with `variant` or `repeat`".into(),
            ));
        }
        return Ok(None);
    };
    check_letters("a set's name", set, LONGEST_NAME)?;
    if let Some(variant) = variant {
        check_letters("a variant's name", variant, LONGEST_NAME)?;
    }
    if repeat == Some(0) {
        return Err(Problem::Bad("expected `repeat` from 1, but found 0".into()));
    }
    Ok(Some(JobLabel {
        set: set.clone(),
        variant: variant.clone(),
        repeat,
    }))
}

/// A note on a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteJob {
    #[schema(min_length = 1, max_length = 1000)]
    pub text: String,
    /// The time that it is about; now by default
    pub at: Option<Timestamp>,
}

/// A phase of a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseJob {
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// The start; now by default
    pub at: Option<Timestamp>,
}

impl Described for PutJob {
    const WHAT: &str = "a job as JSON, such as {\"name\": …, \"started_at\": …}";
}

impl Described for NoteJob {
    const WHAT: &str = "a note as JSON, such as {\"text\": …}";
}

impl Described for PhaseJob {
    const WHAT: &str = "a phase as JSON, such as {\"name\": …}";
}

impl Described for ArchiveSummary {
    const WHAT: &str = "the summary of a certificate as JSON";
}

/// Adds a note to a job, also after its end.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/notes", tag = "jobs", request_body = NoteJob,
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, description = "Stored", body = JobReply), (status = 202, description = "Held in memory, not stored", body = JobReply), (status = 404, body = ProblemBody), (status = 409, description = "The job has too many notes, or cowbell plays a recording", body = ProblemBody)))]
pub async fn note_job(
    State(site): State<SharedSite>,
    Path(id): Path<String>,
    JsonBody(NoteJob { text, at }): JsonBody<NoteJob>,
) -> Result<JobResponse, Problem> {
    let now = clock::now();
    check_letters("a note", &text, LONGEST_NOTE)?;
    check_time("at", at, now)?;
    let note = Note {
        at: at.unwrap_or(now),
        text,
    };
    send_to(&site, &id, |key| JobCommand::Note { key, note }).await
}

/// Starts a phase of a running job and ends the previous one. Repeating the current phase changes nothing.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/phases", tag = "jobs", request_body = PhaseJob,
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, description = "Stored", body = JobReply), (status = 202, description = "Held in memory, not stored", body = JobReply), (status = 404, body = ProblemBody), (status = 409, description = "The job has ended, the phase would start before the job or its last phase, there are too many, or cowbell plays a recording", body = ProblemBody)))]
pub async fn phase_job(
    State(site): State<SharedSite>,
    Path(id): Path<String>,
    JsonBody(PhaseJob { name, at }): JsonBody<PhaseJob>,
) -> Result<JobResponse, Problem> {
    check_letters("a phase's name", &name, LONGEST_NAME)?;
    check_time("at", at, clock::now())?;
    send_to(&site, &id, |key| JobCommand::Phase { key, name, at }).await
}

/// Accepts the result of a backup that reads less than all on purpose. Later runs of the same origin are compared with it.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/accept", tag = "jobs",
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, description = "Stored", body = JobReply), (status = 202, description = "Held in memory, not stored", body = JobReply), (status = 404, body = ProblemBody), (status = 409, description = "The job did not end as `unknown` or `incomplete`, or cowbell plays a recording", body = ProblemBody)))]
pub async fn accept_job(
    State(site): State<SharedSite>,
    Path(id): Path<String>,
) -> Result<JobResponse, Problem> {
    send_to(&site, &id, |key| JobCommand::Accept { key }).await
}

/// Stores what was found in the archive of a job. A damaged one makes a success untrustworthy.
#[utoipa::path(put, path = "/api/v1/jobs/{id}/certificate", tag = "jobs", request_body = ArchiveSummary,
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, description = "Stored", body = JobReply), (status = 202, description = "Held in memory, not stored", body = JobReply), (status = 404, body = ProblemBody), (status = 409, description = "Another archive of the job is damaged, or cowbell plays a recording", body = ProblemBody)))]
pub async fn certify_job(
    State(site): State<SharedSite>,
    Path(id): Path<String>,
    JsonBody(certificate): JsonBody<ArchiveSummary>,
) -> Result<JobResponse, Problem> {
    check_letters("the path of an archive", &certificate.archive, LONGEST_PATH)?;
    check_letters("a checksum", &certificate.sha256, LONGEST_NAME)?;
    if let Some(finding) = &certificate.finding {
        check_letters("a finding", finding, LONGEST_NOTE)?;
    }
    if let Some(path) = &certificate.certificate {
        check_letters("the path of a certificate", path, LONGEST_PATH)?;
    }
    check_time("checked_at", Some(certificate.checked_at), clock::now())?;
    send_to(&site, &id, |key| JobCommand::Certify { key, certificate }).await
}

/// Deletes an ended job. Its measurements remain as long as other ticks.
#[utoipa::path(delete, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, description = "Deleted", body = JobReply), (status = 202, description = "Deleted in memory, not yet in the database", body = JobReply), (status = 404, body = ProblemBody), (status = 409, description = "The job is running, or cowbell plays a recording", body = ProblemBody)))]
pub async fn delete_job(
    State(site): State<SharedSite>,
    Path(id): Path<String>,
) -> Result<JobResponse, Problem> {
    send_to(&site, &id, |key| JobCommand::Remove { key }).await
}

/// Sends a command with the key of the job.
async fn send_to(
    site: &Site,
    id: &str,
    command: impl FnOnce(String) -> JobCommand,
) -> Result<JobResponse, Problem> {
    let job = numbered(site, id).await?;
    let is_remembered = site.present()?.jobs.iter().any(|other| other.id == job.id);
    let key = job.key.clone();
    let stored: Option<Job> = (!is_remembered).then_some(job);
    Ok(send(site, Command::OnJob(command(key)), stored)
        .await?
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_records_its_own_process_only() {
        for (pid, kind, process, is_allowed) in [
            (7, MarkKind::Command, Some(7), true),
            (7, MarkKind::Command, Some(1), false),
            (7, MarkKind::Command, None, false),
            (7, MarkKind::Mark, Some(7), false),
            (0, MarkKind::Command, Some(0), false),
        ] {
            let put = PutJob {
                kind,
                process,
                ..PutJob::default()
            };
            let key = own_key(
                PeerProcess {
                    pid,
                    user: 1000,
                    is_operator: false,
                },
                "a",
                &put,
            );
            assert_eq!(
                key.ok().as_deref(),
                is_allowed.then_some("user:1000:a"),
                "{pid} {kind:?} {process:?}"
            );
        }
    }
}
