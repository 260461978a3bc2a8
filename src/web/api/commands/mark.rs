//! What is told of a job, into a mark: it has to make sense by itself.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{CHOSEN, check_letters, check_time};
use crate::source::{LONGEST_NAME, Label, Mark, MarkKind, MarkedEnd};
use crate::web::answer::Problem;

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

pub(super) fn mark(key: String, put: PutJob, now: Timestamp) -> Result<Mark, Problem> {
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
    if let (Some(false), Some(0)) = (put.succeeded, put.status) {
        return Err(Problem::Bad(
            "expected `succeeded` to be true with `status` 0, or no `status`: a command that failed has another".into(),
        ));
    }
    let ended = match (put.ended_at, put.succeeded) {
        (None, None) => None,
        (Some(at), Some(succeeded)) if at >= put.started_at => {
            Some(MarkedEnd { at, succeeded, status: put.status.map(i32::from) })
        }
        (Some(at), Some(_)) => {
            let began = put.started_at;
            return Err(Problem::Bad(format!(
                "expected `ended_at` from the start on ({began}), but found {at}"
            )));
        }
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
