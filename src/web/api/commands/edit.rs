//! A note on a job, and that one is to be forgotten.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{check_letters, check_time, hand_on, unread};
use crate::job::MOST_NOTES;
use crate::source::{JobCommand, Note, NoteCommand, RemoveCommand};
use crate::web::Site;
use crate::web::answer::{Problem, ProblemBody};
use crate::web::api::numbered;

/// Letters of a note: some sentences.
const LONGEST_NOTE: usize = 1_000;

/// A sentence on a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteJob {
    pub text: String,
    /// The instant that it is about; now if not given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
}

/// Keeps a sentence with a job, whether it runs or is over.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/notes", tag = "jobs", request_body = NoteJob,
    params(("id" = i64, Path, description = "As in the list of jobs")),
    responses((status = 202, description = "Shown within the next second"), (status = 400, body = ProblemBody), (status = 401, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "It has its fill of notes, or a recording is played", body = ProblemBody)))]
pub async fn note_job(
    State(site): State<Site>,
    Path(id): Path<String>,
    body: Result<Json<NoteJob>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Json(note) = body.map_err(|rejection| unread("a note as JSON, such as {\"text\": …}", &rejection))?;
    let now = crate::source::live::now();
    check_letters("a note", &note.text, LONGEST_NOTE)?;
    check_time("at", note.at, now)?;
    let job = numbered(&site, &id).await?;
    if job.notes.len() >= MOST_NOTES {
        return Err(Problem::Conflict(format!("job {id} has {MOST_NOTES} notes, and can have no more")));
    }
    let note = Note { at: note.at.unwrap_or(now), text: note.text };
    hand_on(&site, JobCommand::Note(NoteCommand { noted: job.key, note }))
}

/// Forgets a job that is over. What was measured meanwhile stays for as long as any other tick.
#[utoipa::path(delete, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = i64, Path, description = "As in the list of jobs")),
    responses((status = 202, description = "Gone within the next second"), (status = 400, body = ProblemBody), (status = 401, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "It runs, or a recording is played", body = ProblemBody)))]
pub async fn delete_job(State(site): State<Site>, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let job = numbered(&site, &id).await?;
    if job.is_running() {
        return Err(Problem::Conflict(format!("job {id} runs: it can be deleted when it is over")));
    }
    hand_on(&site, JobCommand::Remove(RemoveCommand { removed: job.key }))
}
