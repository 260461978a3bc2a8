//! Commands on a job by its ID: add a phase, a note or the certificate of its archive, accept its result, delete it.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{JobReply, JobResponse, check_letters, check_time, send, unread};
use crate::commands::Command;
use crate::job::Job;
use crate::source::{
    AcceptCommand, ArchiveSummary, CertificateCommand, JobCommand, LONGEST_NAME, Note, NoteCommand,
    PhaseCommand, RemoveCommand,
};
use crate::web::Site;
use crate::web::answer::{Problem, ProblemBody};
use crate::web::api::numbered;

/// Maximum characters of a note.
const LONGEST_NOTE: usize = 1_000;
/// Maximum characters of a path, as in Linux.
const LONGEST_PATH: usize = 4_096;

/// A note on a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteJob {
    pub text: String,
    /// The time that it is about; now by default
    pub at: Option<Timestamp>,
}

/// A phase of a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseJob {
    pub name: String,
    /// The start; now by default
    pub at: Option<Timestamp>,
}

/// Adds a note to a job, also after its end.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/notes", tag = "jobs", request_body = NoteJob,
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, description = "Stored", body = JobReply), (status = 202, description = "Held in memory, not stored", body = JobReply), (status = 400, body = ProblemBody), (status = 401, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "The job has too many notes, or cowbell plays a recording", body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn note_job(
    State(site): State<Site>,
    Path(id): Path<String>,
    body: Result<Json<NoteJob>, JsonRejection>,
) -> Result<JobResponse, Problem> {
    let Json(NoteJob { text, at }) =
        body.map_err(|rejection| unread("a note as JSON, such as {\"text\": …}", &rejection))?;
    let now = crate::source::clock::now();
    check_letters("a note", &text, LONGEST_NOTE)?;
    check_time("at", at, now)?;
    let note = Note {
        at: at.unwrap_or(now),
        text,
    };
    send_to(&site, &id, |key| {
        JobCommand::Note(NoteCommand { key, note })
    })
    .await
}

/// Starts a phase of a running job and ends the previous one. Repeating the current phase changes nothing.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/phases", tag = "jobs", request_body = PhaseJob,
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, description = "Stored", body = JobReply), (status = 202, description = "Held in memory, not stored", body = JobReply), (status = 400, body = ProblemBody), (status = 401, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "The job has ended, the phase would start before the job or its last phase, there are too many, or cowbell plays a recording", body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn phase_job(
    State(site): State<Site>,
    Path(id): Path<String>,
    body: Result<Json<PhaseJob>, JsonRejection>,
) -> Result<JobResponse, Problem> {
    let Json(PhaseJob { name, at }) =
        body.map_err(|rejection| unread("a phase as JSON, such as {\"name\": …}", &rejection))?;
    check_letters("a phase's name", &name, LONGEST_NAME)?;
    check_time("at", at, crate::source::clock::now())?;
    send_to(&site, &id, |key| {
        JobCommand::Phase(PhaseCommand { key, name, at })
    })
    .await
}

/// Accepts the result of a backup that leaves files out on purpose. Later runs of the same origin are compared with it.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/accept", tag = "jobs",
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, description = "Stored", body = JobReply), (status = 202, description = "Held in memory, not stored", body = JobReply), (status = 400, body = ProblemBody), (status = 401, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "The job did not end as `unknown` or `incomplete`, or cowbell plays a recording", body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn accept_job(
    State(site): State<Site>,
    Path(id): Path<String>,
) -> Result<JobResponse, Problem> {
    send_to(&site, &id, |key| JobCommand::Accept(AcceptCommand { key })).await
}

/// Stores what was found in the archive of a job. A damaged one makes a success untrustworthy.
#[utoipa::path(put, path = "/api/v1/jobs/{id}/certificate", tag = "jobs", request_body = ArchiveSummary,
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, description = "Stored", body = JobReply), (status = 202, description = "Held in memory, not stored", body = JobReply), (status = 400, body = ProblemBody), (status = 401, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "Another archive of the job is damaged, or cowbell plays a recording", body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn certify_job(
    State(site): State<Site>,
    Path(id): Path<String>,
    body: Result<Json<ArchiveSummary>, JsonRejection>,
) -> Result<JobResponse, Problem> {
    let Json(certificate) =
        body.map_err(|rejection| unread("the summary of a certificate as JSON", &rejection))?;
    check_letters("the path of an archive", &certificate.archive, LONGEST_PATH)?;
    check_letters("a checksum", &certificate.sha256, LONGEST_NAME)?;
    check_letters(
        "a finding",
        certificate.finding.as_deref().unwrap_or("-"),
        LONGEST_NOTE,
    )?;
    check_letters(
        "the path of a certificate",
        certificate.certificate.as_deref().unwrap_or("-"),
        LONGEST_PATH,
    )?;
    check_time(
        "checked_at",
        Some(certificate.checked_at),
        crate::source::clock::now(),
    )?;
    send_to(&site, &id, |key| {
        JobCommand::Certificate(CertificateCommand { key, certificate })
    })
    .await
}

/// Deletes an ended job. Its measurements remain as long as other ticks.
#[utoipa::path(delete, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, description = "Deleted", body = JobReply), (status = 202, description = "Deleted in memory, not yet in the database", body = JobReply), (status = 400, body = ProblemBody), (status = 401, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "The job is running, or cowbell plays a recording", body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn delete_job(
    State(site): State<Site>,
    Path(id): Path<String>,
) -> Result<JobResponse, Problem> {
    send_to(&site, &id, |key| JobCommand::Remove(RemoveCommand { key })).await
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
