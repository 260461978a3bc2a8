//! That a job began or ended. Whether the word makes sense beside what is known is decided here, and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::mark::{PutJob, mark};
use super::{LISTED_WITHIN, hand_on, unread};
use crate::job::{Job, JobKind, Outcome};
use crate::present::Present;
use crate::source::{JobCommand, Mark, MarkKind, MarkedEnd};
use crate::web::Site;
use crate::web::answer::{Problem, ProblemBody};

/// Whether a job of this key is over for long is looked up for so long.
const LOOK_UP_WITHIN: Duration = Duration::from_millis(500);
/// A command that began within this time is not looked up.
const FRESH: SignedDuration = SignedDuration::from_mins(10);

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
        hand_on(site, JobCommand::Mark(mark))?;
        return Ok(Some(job.id));
    }
    // Who runs a command waits for the answer, and has made a key that nobody had.
    if mark.kind == MarkKind::Command && mark.started_at + FRESH > crate::source::live::now() {
        return hand_on(site, JobCommand::Mark(mark)).map(|_| None);
    }
    // A disk that hangs is no reason not to record what runs now.
    let kept = tokio::time::timeout(LOOK_UP_WITHIN, site.store.job_of(&mark.key)).await;
    match kept.ok().and_then(Result::ok).flatten() {
        Some(job) if is_told_again(&job, &mark) => Ok(Some(job.id)),
        Some(job) => Err(over(&job)),
        None => hand_on(site, JobCommand::Mark(mark)).map(|_| None),
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
