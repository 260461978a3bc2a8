//! Word of jobs: that one began or ended, a note on it, and that it is to be forgotten.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::MOST_NOTES;
use crate::source::{Label, Mark, MarkKind, MarkedEnd, Note, Noted, Removed, Word};
use crate::web::Site;
use crate::web::answer::{Problem, ProblemBody};

/// Letters of a job's name or key.
const LONGEST_NAME: usize = 200;
/// Letters of a note: some sentences.
const LONGEST_NOTE: usize = 1_000;
/// Whoever tells of a job has this machine's clock, which may have been set back a moment ago.
const MOST_AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// What is told of a job that is not a snapshot's: that it began, and, once it has, how it ended.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutJob {
    pub name: String,
    /// `mark` if not given
    #[serde(default)]
    pub kind: MarkKind,
    /// To which set of runs it belongs; needed with `variant` or `repeat`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// From 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
    #[schema(value_type = String, format = DateTime)]
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended_at: Option<Timestamp>,
    /// Needed together with `ended_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<bool>,
    /// The exit status of a command that ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u8>,
}

/// Tells of a job that began or ended. The key is chosen by who runs it; the same may be told twice.
#[utoipa::path(put, path = "/api/v1/jobs/{key}", tag = "jobs", request_body = PutJob,
    params(("key" = String, Path, description = "Up to 200 letters, chosen by who runs the job")),
    responses((status = 202, description = "Listed within the next second"), (status = 400, body = ProblemBody), (status = 403, body = ProblemBody), (status = 409, description = "A recording is played", body = ProblemBody)))]
pub async fn put_job(
    State(site): State<Site>,
    Path(key): Path<String>,
    body: Result<Json<PutJob>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Json(put) = body.map_err(|rejection| {
        Problem::Bad(format!(
            "expected a job as JSON, such as {{\"name\": …, \"started_at\": …}}: {}",
            rejection.body_text()
        ))
    })?;
    hand_on(&site, Word::Mark(mark(key, put, crate::source::live::now())?))
}

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
    responses((status = 202, description = "Shown within the next second"), (status = 400, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "It has its fill of notes, or a recording is played", body = ProblemBody)))]
pub async fn note_job(
    State(site): State<Site>,
    Path(id): Path<String>,
    body: Result<Json<NoteJob>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Json(note) = body.map_err(|rejection| {
        Problem::Bad(format!("expected a note as JSON, such as {{\"text\": …}}: {}", rejection.body_text()))
    })?;
    let now = crate::source::live::now();
    check_letters("a note", &note.text, LONGEST_NOTE)?;
    check_time("at", note.at, now)?;
    let job = super::numbered(&site, &id).await?;
    if job.notes.len() >= MOST_NOTES {
        return Err(Problem::Conflict(format!("job {id} has {MOST_NOTES} notes, and can have no more")));
    }
    let note = Note { at: note.at.unwrap_or(now), text: note.text };
    hand_on(&site, Word::Noted(Noted { noted: job.key, note }))
}

/// Forgets a job that is over. What was measured meanwhile stays for as long as any other tick.
#[utoipa::path(delete, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = i64, Path, description = "As in the list of jobs")),
    responses((status = 202, description = "Gone within the next second"), (status = 400, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "It runs, or a recording is played", body = ProblemBody)))]
pub async fn delete_job(State(site): State<Site>, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let job = super::numbered(&site, &id).await?;
    if job.is_running() {
        return Err(Problem::Conflict(format!("job {id} runs: it can be deleted when it is over")));
    }
    hand_on(&site, Word::Removed(Removed { removed: job.key }))
}

fn hand_on(site: &Site, word: Word) -> Result<StatusCode, Problem> {
    let Some(words) = &site.words else {
        return Err(Problem::Conflict("this is a recording: its jobs cannot be changed".into()));
    };
    let refused = |_| Problem::Unavailable("the daemon is stopping, or too busy; try again".into());
    words.try_send(word).map_err(refused)?;
    Ok(StatusCode::ACCEPTED)
}

fn mark(key: String, put: PutJob, now: Timestamp) -> Result<Mark, Problem> {
    check_letters("a job's key", &key, LONGEST_NAME)?;
    check_letters("a job's name", &put.name, LONGEST_NAME)?;
    check_time("started_at", Some(put.started_at), now)?;
    check_time("ended_at", put.ended_at, now)?;
    let label = label(put.set, put.variant, put.repeat)?;
    let ended = match (put.ended_at, put.succeeded) {
        (None, None) => None,
        (Some(at), Some(succeeded)) if at >= put.started_at => {
            Some(MarkedEnd { at, succeeded, status: put.status.map(i32::from) })
        }
        (Some(_), Some(_)) => return Err(Problem::Bad("a job cannot end before it started".into())),
        _ => return Err(Problem::Bad("expected `ended_at` and `succeeded` together, or neither".into())),
    };
    // A key of somebody's choice is never a volume's UUID.
    Ok(Mark {
        key: format!("mark:{key}"),
        kind: put.kind,
        name: put.name,
        label,
        started_at: put.started_at,
        ended,
    })
}

fn label(
    set: Option<String>,
    variant: Option<String>,
    repeat: Option<u32>,
) -> Result<Option<Label>, Problem> {
    let Some(set) = set else {
        return match (variant, repeat) {
            (None, None) => Ok(None),
            _ => Err(Problem::Bad("expected `set` beside `variant` or `repeat`".into())),
        };
    };
    check_letters("a set's name", &set, LONGEST_NAME)?;
    if let Some(variant) = &variant {
        check_letters("a variant's name", variant, LONGEST_NAME)?;
    }
    if repeat == Some(0) {
        return Err(Problem::Bad("expected `repeat` from 1, but found 0".into()));
    }
    Ok(Some(Label { set, variant, repeat }))
}

fn check_letters(what: &str, text: &str, most: usize) -> Result<(), Problem> {
    let is_fine =
        !text.trim().is_empty() && text.chars().count() <= most && !text.chars().any(char::is_control);
    is_fine.then_some(()).ok_or_else(|| {
        Problem::Bad(format!("expected {what} to be 1 to {most} letters without control characters"))
    })
}

fn check_time(what: &str, at: Option<Timestamp>, now: Timestamp) -> Result<(), Problem> {
    match at.filter(|at| *at < Timestamp::UNIX_EPOCH || *at - MOST_AHEAD > now) {
        None => Ok(()),
        Some(at) => Err(Problem::Bad(format!("expected `{what}` from 1970 to now ({now}), but found {at}"))),
    }
}
