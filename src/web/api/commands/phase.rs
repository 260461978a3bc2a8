//! Word that a job came to a phase: what it does from then on.
//!
//! It is answered when the job is shown in that phase, so that the next word is held against this one.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{LISTED_WITHIN, check_letters, check_time, hand_on, unread};
use crate::present::Present;
use crate::source::{JobCommand, LONGEST_NAME, PhaseCommand, ToldPhase};
use crate::web::Site;
use crate::web::answer::{Problem, ProblemBody};

/// A phase of a job.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PhaseJob {
    pub name: String,
    /// When it began; now if not given
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
}

/// Begins a phase of a job that runs; the one before ends there. The phase that goes on may be told again.
#[utoipa::path(post, path = "/api/v1/jobs/{id}/phases", tag = "jobs", request_body = PhaseJob,
    params(("id" = i64, Path, description = "As in the list of jobs")),
    responses((status = 202, description = "It is recorded"), (status = 400, body = ProblemBody), (status = 401, body = ProblemBody), (status = 403, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "The job is over, the phase would begin before the job or its last phase, there are too many, or a recording is played", body = ProblemBody)))]
pub async fn phase_job(
    State(site): State<Site>,
    Path(id): Path<String>,
    body: Result<Json<PhaseJob>, JsonRejection>,
) -> Result<StatusCode, Problem> {
    let Json(PhaseJob { name, at }) =
        body.map_err(|rejection| unread("a phase as JSON, such as {\"name\": …}", &rejection))?;
    check_letters("a phase's name", &name, LONGEST_NAME)?;
    let now = crate::source::live::now();
    check_time("at", at, now)?;
    let _turn = site.turn.lock().await;
    let job = crate::web::api::numbered(&site, &id).await?;
    let phase = ToldPhase { at: at.unwrap_or_else(|| job.next_phase_at(now)), name };
    let begins = job.check_phase(&phase).map_err(|refused| Problem::Conflict(refused.to_string()))?;
    let told =
        hand_on(&site, JobCommand::Phase(PhaseCommand { phased: job.key.clone(), phase: phase.clone() }))?;
    if begins {
        shown(&site, &job.key, &phase).await;
    }
    Ok(told)
}

/// Waits until the loop has taken the word, which it does at once unless it waits for the kernel.
async fn shown(site: &Site, key: &str, phase: &ToldPhase) {
    let mut presents = site.present.clone();
    let has = |present: &Option<Arc<Present>>| {
        let mut jobs = present.iter().flat_map(|present| &present.jobs);
        jobs.any(|job| job.key == key && job.told_phases.contains(phase))
    };
    let _ = tokio::time::timeout(LISTED_WITHIN, presents.wait_for(has)).await;
}
