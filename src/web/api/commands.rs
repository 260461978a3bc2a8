//! What all commands have in common: how they are sent to the loop, and when they are answered.
//!
//! The loop checks whatever needs known jobs. The answer is 200, or 201 for a new job, once the result is synced to the
//! database, and 202 while the database cannot be written.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request as HttpRequest};
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use utoipa::ToSchema;

use crate::job::{Effect, Job, user};
use crate::requests::{Command, Reply, Request, Stored};
use crate::store::WriteError;
use crate::web::answer::Problem;
use crate::web::connections::BODY_TIMEOUT;
use crate::web::{LONGEST_BODY, Site};

/// Tolerance for times in the future, after a clock was set back.
const MOST_AHEAD: SignedDuration = SignedDuration::from_mins(1);
/// The time limit for an answer, whatever the disk does. `cowbell` waits slightly longer.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// The time limit while the database is known to fail.
const FAILING_TIMEOUT: Duration = Duration::from_millis(200);
/// The time limit for finding a job in the database.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(500);
/// Running commands of an ordinary user.
const MOST_RUNNING: usize = 64;
/// Distinguishes keys that clients chose from UUIDs of volumes.
pub(super) const CHOSEN: &str = "mark:";

/// The answer to a command on a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct JobReply {
    pub id: i64,
    /// With status 202: why the result is held in memory, not stored
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

pub(super) type JobResponse = (StatusCode, Json<JobReply>);

/// The result of a command.
pub(super) struct CommandOutcome {
    pub status: StatusCode,
    pub job: Job,
    pub message: Option<String>,
}

impl From<CommandOutcome> for JobResponse {
    fn from(answer: CommandOutcome) -> Self {
        (
            answer.status,
            Json(JobReply {
                id: answer.job.id,
                message: answer.message,
            }),
        )
    }
}

/// The key that a client chose; `None` for snapshots.
pub fn chosen_key(job: &Job) -> Option<&str> {
    user(&job.key).map_or_else(|| job.key.strip_prefix(CHOSEN), |_| Some(&job.key))
}

/// Sends a command to the loop and waits until its result is stored.
pub(super) async fn send(
    site: &Site,
    command: Command,
    stored: Option<Job>,
) -> Result<CommandOutcome, Problem> {
    let Some(commands) = &site.commands else {
        return Err(Problem::Conflict(
            "cowbell plays a recording, whose jobs cannot be changed".into(),
        ));
    };
    let until = Instant::now() + ANSWER_TIMEOUT;
    let request = |reply| Request {
        command,
        stored,
        reply,
    };
    let Reply { change, stored } = reply_of(commands, request, until).await??;
    let why_not = match stored {
        None => None,
        Some(stored) => why_not_stored(site, stored, until).await?,
    };
    let status = match (&why_not, change.effect) {
        (Some(_), _) => StatusCode::ACCEPTED,
        (None, Effect::Created) => StatusCode::CREATED,
        (None, _) => StatusCode::OK,
    };
    Ok(CommandOutcome {
        status,
        job: change.job,
        message: why_not.map(held),
    })
}

/// What the loop answers to a request, which gets the sender of the reply.
pub(super) async fn reply_of<R, Q>(
    requests: &mpsc::Sender<Q>,
    request: impl FnOnce(oneshot::Sender<R>) -> Q,
    until: Instant,
) -> Result<R, Problem> {
    let (sender, reply) = oneshot::channel();
    let answered = async {
        requests.send(request(sender)).await.ok()?;
        reply.await.ok()
    };
    let answered = timeout_at(until, answered).await.ok().flatten();
    answered
        .ok_or_else(|| Problem::Unavailable("the daemon is stopping or too busy; try again".into()))
}

pub(super) fn held(why: String) -> String {
    format!("held in memory, not stored: {why}")
}

/// Waits until it is stored; returns why it is not. Fails if the database refuses it.
pub(super) async fn why_not_stored(
    site: &Site,
    stored: Stored,
    until: Instant,
) -> Result<Option<String>, Problem> {
    let failing = site.present()?.store.error.clone();
    let until = match failing {
        Some(_) => Instant::now() + FAILING_TIMEOUT,
        None => until,
    };
    match timeout_at(until, stored).await {
        Ok(Ok(Ok(()))) => Ok(None),
        Ok(Ok(Err(WriteError::Held(why)))) => Ok(Some(why)),
        Ok(Ok(Err(WriteError::Refused(why)))) => Err(Problem::NotStored(format!(
            "the database refuses it, so it is not stored: {why}"
        ))),
        Ok(Err(_)) | Err(_) => Ok(Some(
            failing.unwrap_or_else(|| "the database does not answer".into()),
        )),
    }
}

/// The stored job of this key, if it is not in memory. Fails if the job is new and there is no room for it and its file.
pub(super) async fn forgotten_or_room(
    site: &Site,
    key: &str,
    bytes: usize,
) -> Result<Option<Job>, Problem> {
    if site.present()?.jobs.iter().any(|job| job.key == key) {
        return Ok(None);
    }
    // A hanging disk does not block the command.
    let stored = timeout(LOOKUP_TIMEOUT, site.store.job_of(key)).await;
    let stored = stored.ok().and_then(Result::ok).flatten();
    if stored.is_some() {
        return Ok(stored);
    }
    let room = site.store.check_room(bytes as u64);
    room.map_err(Problem::NotStored)?;
    if let Some(user) = user(key) {
        let present = site.present()?;
        let limit = present.keep.bytes_for_jobs();
        let free = limit.saturating_sub(present.store.stock.jobs_bytes);
        check_share(user, &present.jobs, free, limit / 2)?;
    }
    Ok(None)
}

/// Refuses another job of an ordinary user that would displace those of operators.
fn check_share(user: &str, jobs: &[Arc<Job>], free: u64, reserved: u64) -> Result<(), Problem> {
    let is_its = |job: &&Arc<Job>| job.is_running() && crate::job::user(&job.key) == Some(user);
    if jobs.iter().filter(is_its).count() >= MOST_RUNNING {
        return Err(Problem::TooMany(format!(
            "user {user} has {MOST_RUNNING} running commands, which is the limit: wait until one has ended"
        )));
    }
    if free <= reserved {
        return Err(Problem::NotStored(
            "the remaining space for jobs is reserved for root and the group cowbell: ask them to delete jobs".into(),
        ));
    }
    Ok(())
}

/// A body as JSON; if it is invalid, the answer is a 400 that says what was expected.
pub struct JsonBody<T>(pub T);

/// What a body is, for the sentence that refuses another one.
pub trait Described: DeserializeOwned {
    const WHAT: &str;
}

impl<T: Described, S: Send + Sync> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: HttpRequest, state: &S) -> Result<Self, Problem> {
        match Json::from_request(request, state).await {
            Ok(Json(body)) => Ok(Self(body)),
            Err(rejection) => Err(unread(T::WHAT, &rejection)),
        }
    }
}

fn unread(expected: &str, rejection: &JsonRejection) -> Problem {
    let text = rejection.body_text();
    let found = match rejection {
        JsonRejection::BytesRejection(_) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
            format!("but found more than {} KiB", LONGEST_BODY / 1024)
        }
        JsonRejection::BytesRejection(_) => {
            let seconds = BODY_TIMEOUT.as_secs();
            format!("but it did not arrive within {seconds} seconds")
        }
        // The reason follows the library's general introduction.
        _ => text.split_once(": ").map_or(&*text, |(_, why)| why).into(),
    };
    Problem::Bad(format!("expected {expected}: {found}"))
}

pub(super) fn check_letters(what: &str, text: &str, most: usize) -> Result<(), Problem> {
    crate::commands::check_letters(what, text, most).map_err(Problem::Bad)
}

pub(super) fn check_time(what: &str, at: Option<Timestamp>, now: Timestamp) -> Result<(), Problem> {
    if let Some(at) = at
        && (at < Timestamp::UNIX_EPOCH || at - MOST_AHEAD > now)
    {
        return Err(Problem::Bad(format!(
            "expected `{what}` from 1970 to now ({now}), but found {at}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobKind;

    #[test]
    fn a_user_displaces_no_jobs_of_operators() {
        let job = |key: String| {
            Arc::new(Job::new(
                1,
                JobKind::Command,
                &key,
                "nightly",
                Timestamp::UNIX_EPOCH,
            ))
        };
        let mut jobs: Vec<_> = (1..MOST_RUNNING)
            .map(|id| job(format!("user:1000:{id}")))
            .collect();
        jobs.extend((0..MOST_RUNNING).map(|id| job(format!("mark:{id}"))));
        assert!(check_share("1000", &jobs, 6, 5).is_ok());
        assert!(matches!(
            check_share("1000", &jobs, 5, 5),
            Err(Problem::NotStored(_))
        ));
        jobs.push(job("user:1000:0".into()));
        assert!(matches!(
            check_share("1000", &jobs, 6, 5),
            Err(Problem::TooMany(_))
        ));
        assert!(check_share("1001", &jobs, 6, 5).is_ok());
    }
}
