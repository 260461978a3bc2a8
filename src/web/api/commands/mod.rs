//! Word of jobs: that one began or ended, a phase of it, a note on it, and that it is to be forgotten.
//!
//! Here is what all of them share: what may stand in a body, and how a word comes to the loop.

pub(super) mod edit;
pub(super) mod mark;
pub(super) mod phase;
pub(super) mod put;

use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};

use crate::job::Job;
use crate::source::JobCommand;
use crate::web::answer::Problem;
use crate::web::slow::LONGEST as LONGEST_WAIT;
use crate::web::{LONGEST_BODY, Site};

/// Whoever tells of a job has this machine's clock, which may have been set back a moment ago.
const MOST_AHEAD: SignedDuration = SignedDuration::from_mins(1);
/// The loop takes a word at once, unless it waits for the kernel.
const LISTED_WITHIN: Duration = Duration::from_secs(1);
/// What tells a key of somebody's choice from a volume's UUID.
const CHOSEN: &str = "mark:";

/// The key by which a job is told of; `None` for a snapshot's.
pub fn chosen_key(job: &Job) -> Option<&str> {
    job.key.strip_prefix(CHOSEN)
}

pub(super) fn hand_on(site: &Site, word: JobCommand) -> Result<StatusCode, Problem> {
    let Some(commands) = &site.commands else {
        return Err(Problem::Conflict("this is a recording: its jobs cannot be changed".into()));
    };
    let refused = |_| Problem::Unavailable("the daemon is stopping, or too busy; try again".into());
    commands.try_send(word).map_err(refused)?;
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

fn check_letters(what: &str, text: &str, most: usize) -> Result<(), Problem> {
    crate::source::check_letters(what, text, most).map_err(Problem::Bad)
}

fn check_time(what: &str, at: Option<Timestamp>, now: Timestamp) -> Result<(), Problem> {
    match at.filter(|at| *at < Timestamp::UNIX_EPOCH || *at - MOST_AHEAD > now) {
        None => Ok(()),
        Some(at) => Err(Problem::Bad(format!("expected `{what}` from 1970 to now ({now}), but found {at}"))),
    }
}
