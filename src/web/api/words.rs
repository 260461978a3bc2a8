//! Word of jobs: that one began or ended, a note on it, and that it is to be forgotten.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::{Job, JobKind, MOST_NOTES, Outcome};
use crate::present::Present;
use crate::source::{LONGEST_NAME, Label, Mark, MarkKind, MarkedEnd, Note, Noted, Removed, Word};
use crate::web::answer::{Problem, ProblemBody};
use crate::web::slow::LONGEST as LONGEST_WAIT;
use crate::web::{LONGEST_BODY, Site};

/// Letters of a note: some sentences.
const LONGEST_NOTE: usize = 1_000;
/// Whoever tells of a job has this machine's clock, which may have been set back a moment ago.
const MOST_AHEAD: SignedDuration = SignedDuration::from_mins(1);
/// What tells a key of somebody's choice from a volume's UUID.
const CHOSEN: &str = "mark:";
/// Whether a job of this key is over for long is looked up for so long.
const LOOK_UP_WITHIN: Duration = Duration::from_millis(500);
/// A command that began within this time is not looked up.
const FRESH: SignedDuration = SignedDuration::from_mins(10);
/// The loop takes a word at once, unless it waits for the kernel.
const LISTED_WITHIN: Duration = Duration::from_secs(1);

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

/// What became of the word.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ToldJob {
    /// The job's number; `null` where it is not listed yet, as it is within the next second.
    pub id: Option<i64>,
}

/// Tells of a job that began or ended. The key is chosen by who runs it; the same may be told twice. A `mark` is listed
/// when this is answered, and there is one of a name at a time; a `command` is to be told again each half minute, and is
/// taken for abandoned after two minutes of silence.
#[utoipa::path(put, path = "/api/v1/jobs/{key}", tag = "jobs", request_body = PutJob,
    params(("key" = String, Path, description = "Up to 200 letters, chosen by who runs the job")),
    responses((status = 202, description = "It is recorded", body = ToldJob), (status = 400, body = ProblemBody), (status = 401, body = ProblemBody), (status = 403, body = ProblemBody), (status = 409, description = "Another one of this name runs, this one is over, or a recording is played", body = ProblemBody)))]
pub async fn put_job(
    State(site): State<Site>,
    Path(key): Path<String>,
    body: Result<Json<PutJob>, JsonRejection>,
) -> Result<(StatusCode, Json<ToldJob>), Problem> {
    let Json(put) = body
        .map_err(|rejection| unread("a job as JSON, such as {\"name\": …, \"started_at\": …}", &rejection))?;
    let mark = mark(key, put, crate::source::live::now())?;
    let id = match mark.kind {
        MarkKind::Command => take(&site, mark).await?,
        MarkKind::Mark => {
            // One at a time, so that of two that begin under one name the second sees the first.
            let _turn = site.turn.lock().await;
            let before = job_of(&site, &mark.key);
            if before.is_none() {
                refuse_number(&mark)?;
            }
            if before.is_none() && mark.ended.is_none() {
                refuse_second(&site, &mark)?;
            }
            let (key, is_end) = (mark.key.clone(), mark.ended.is_some());
            match take(&site, mark).await? {
                Some(id) if job_of(&site, &key).is_none() => Some(id),
                _ => listed(&site, &key, is_end).await,
            }
        }
    };
    Ok((StatusCode::ACCEPTED, Json(ToldJob { id })))
}

/// Hands a mark on, unless its job is over or it says nothing new; gives the job's number, where it is known already.
async fn take(site: &Site, mark: Mark) -> Result<Option<i64>, Problem> {
    let remembered = job_of(site, &mark.key);
    if let Some(job) = &remembered {
        refuse_other_word(job, &mark)?;
        hand_on(site, Word::Mark(mark))?;
        return Ok(Some(job.id));
    }
    // Who runs a command waits for the answer, and has made a key that nobody had.
    if mark.kind == MarkKind::Command && mark.started_at + FRESH > crate::source::live::now() {
        return hand_on(site, Word::Mark(mark)).map(|_| None);
    }
    // A disk that hangs is no reason not to record what runs now.
    let kept = tokio::time::timeout(LOOK_UP_WITHIN, site.archive.job_of(&mark.key)).await;
    match kept.ok().and_then(Result::ok).flatten() {
        Some(job) if is_told_again(&job, &mark) => Ok(Some(job.id)),
        Some(job) => Err(over(&job)),
        None => hand_on(site, Word::Mark(mark)).map(|_| None),
    }
}

/// The job of this key, as far as it is remembered.
fn job_of(site: &Site, key: &str) -> Option<Arc<Job>> {
    let present = site.present.borrow();
    present.as_ref()?.jobs.iter().find(|job| job.key == key).cloned()
}

/// A name is told from a number by its letters.
fn refuse_number(mark: &Mark) -> Result<(), Problem> {
    if !mark.name.trim().bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(());
    }
    Err(Problem::Bad(format!(
        "expected a job's name with a letter in it, but found `{}`: digits alone are the number of a job",
        mark.name
    )))
}

fn refuse_second(site: &Site, mark: &Mark) -> Result<(), Problem> {
    let present = site.present.borrow();
    let is_same = |job: &&Arc<Job>| job.kind == JobKind::Mark && job.is_running() && job.name == mark.name;
    match present.as_ref().and_then(|present| present.jobs.iter().find(is_same)) {
        None => Ok(()),
        Some(job) => Err(Problem::Conflict(format!(
            "a job called `{}` runs since {}, with number {}: end it first, with `cowbell job stop {} --failed` if it came \
             to nothing, or choose another name",
            job.name, job.started_at, job.id, job.id
        ))),
    }
}

/// What was told of a job that is over holds, unless it was only taken for abandoned.
fn refuse_other_word(job: &Job, mark: &Mark) -> Result<(), Problem> {
    if job.is_running() {
        // The database keeps milliseconds.
        let is_same = job.started_at.as_millisecond() == mark.started_at.as_millisecond();
        return is_same.then_some(()).ok_or_else(|| {
            Problem::Conflict(format!(
                "job {} of this key runs since {}: choose another key for another run",
                job.id, job.started_at
            ))
        });
    }
    let is_fine = job.outcome == Some(Outcome::Abandoned) || is_told_again(job, mark);
    is_fine.then_some(()).ok_or_else(|| over(job))
}

fn is_told_again(job: &Job, mark: &Mark) -> bool {
    let is_same_end = |end: &MarkedEnd| Some(end.at) == job.ended_at && end.status == job.exit_status;
    job.started_at == mark.started_at && mark.ended.as_ref().is_none_or(is_same_end)
}

fn over(job: &Job) -> Problem {
    let ended_at = job.ended_at.map_or_else(String::new, |at| format!(" since {at}"));
    Problem::Conflict(format!(
        "job {} of this key, `{}`, is over{ended_at}: choose another key for another run",
        job.id, job.name
    ))
}

/// Waits until the loop has taken the word; gives the job's number.
async fn listed(site: &Site, key: &str, is_end: bool) -> Option<i64> {
    let mut presents = site.present.clone();
    let is_it = |job: &&Arc<Job>| job.key == key && !(is_end && job.is_running());
    let number = |present: &Option<Arc<Present>>| Some(present.as_ref()?.jobs.iter().find(is_it)?.id);
    let listed = presents.wait_for(|present| number(present).is_some());
    let listed = tokio::time::timeout(LISTED_WITHIN, listed).await.ok()?.ok()?;
    number(&listed)
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
    responses((status = 202, description = "Gone within the next second"), (status = 400, body = ProblemBody), (status = 401, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "It runs, or a recording is played", body = ProblemBody)))]
pub async fn delete_job(State(site): State<Site>, Path(id): Path<String>) -> Result<StatusCode, Problem> {
    let job = super::numbered(&site, &id).await?;
    if job.is_running() {
        return Err(Problem::Conflict(format!("job {id} runs: it can be deleted when it is over")));
    }
    hand_on(&site, Word::Removed(Removed { removed: job.key }))
}

/// The key by which a job is told of; `None` for a snapshot's.
pub fn chosen_key(job: &Job) -> Option<&str> {
    job.key.strip_prefix(CHOSEN)
}

pub(super) fn hand_on(site: &Site, word: Word) -> Result<StatusCode, Problem> {
    let Some(words) = &site.words else {
        return Err(Problem::Conflict("this is a recording: its jobs cannot be changed".into()));
    };
    let refused = |_| Problem::Unavailable("the daemon is stopping, or too busy; try again".into());
    words.try_send(word).map_err(refused)?;
    Ok(StatusCode::ACCEPTED)
}

/// Why a body is none, in our words as far as we have them.
fn unread(expected: &str, rejection: &JsonRejection) -> Problem {
    let text = rejection.body_text();
    let found = match rejection {
        JsonRejection::BytesRejection(_) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            format!("but found more than the {} KiB that are read", LONGEST_BODY / 1024)
        }
        JsonRejection::BytesRejection(_) => {
            format!("but it did not come whole within {} seconds", LONGEST_WAIT.as_secs())
        }
        // What went wrong, and where, stands behind the library's own opening.
        _ => text.split_once(": ").map_or(&*text, |(_, why)| why).to_string(),
    };
    Problem::Bad(format!("expected {expected}: {found}"))
}

fn mark(key: String, put: PutJob, now: Timestamp) -> Result<Mark, Problem> {
    check_letters("a job's key", &key, LONGEST_NAME)?;
    check_letters("a job's name", &put.name, LONGEST_NAME)?;
    check_time("started_at", Some(put.started_at), now)?;
    check_time("ended_at", put.ended_at, now)?;
    let label = label(put.set, put.variant, put.repeat)?;
    if put.status.is_some() && put.ended_at.is_none() {
        return Err(Problem::Bad(
            "expected `status` together with `ended_at`, since only what is over has one".into(),
        ));
    }
    if let (Some(true), Some(status @ 1..)) = (put.succeeded, put.status) {
        return Err(Problem::Bad(format!(
            "expected `succeeded` to be false with `status` {status}: a command that succeeded has 0"
        )));
    }
    let ended = match (put.ended_at, put.succeeded) {
        (None, None) => None,
        (Some(at), Some(succeeded)) if at >= put.started_at => {
            Some(MarkedEnd { at, succeeded, status: put.status.map(i32::from) })
        }
        (Some(_), Some(_)) => return Err(Problem::Bad("a job cannot end before it started".into())),
        _ => return Err(Problem::Bad("expected `ended_at` and `succeeded` together, or neither".into())),
    };
    Ok(Mark {
        key: format!("{CHOSEN}{key}"),
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
    crate::source::check_letters(what, text, most).map_err(Problem::Bad)
}

fn check_time(what: &str, at: Option<Timestamp>, now: Timestamp) -> Result<(), Problem> {
    match at.filter(|at| *at < Timestamp::UNIX_EPOCH || *at - MOST_AHEAD > now) {
        None => Ok(()),
        Some(at) => Err(Problem::Bad(format!("expected `{what}` from 1970 to now ({now}), but found {at}"))),
    }
}
