//! Alerts: lists, acknowledgements, silences, and tests of receivers.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

use super::commands::{
    ANSWER_TIMEOUT, Described, JsonBody, check_letters, held, reply_of, why_not_stored,
};
use super::{ListPage, MOST_LISTED, checked, next_page};
use crate::alert::{Acknowledgement, Alert};
use crate::config::{Pattern, Receiver};
use crate::notify::{self, Delivery, Silence};
use crate::requests::{AlertCommand, AlertRequest};
use crate::source::clock;
use crate::web::answer::{ParsedQuery, Problem, ProblemBody};
use crate::web::{SharedSite, Site};

/// Maximum silences: each alert is compared with all of them.
const MOST_SILENCES: usize = 100;
/// A silence or an acknowledgement ends within this time. Later times are mistakes.
pub const LONGEST_SILENCE: SignedDuration = SignedDuration::from_hours(366 * 24);
/// Maximum characters of a note.
const LONGEST_NOTE: usize = 1_000;
/// Maximum characters of a pattern. The names of a group and a volume have up to 127 each.
const LONGEST_PATTERN: usize = 500;

/// The query of a list of alerts.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AlertsQuery {
    /// Alerts per page, from 1 to 1000; 1000 by default
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// List alerts with lower IDs only
    before: Option<i64>,
}

/// Alerts, the latest first, in pages. Open alerts have no `cleared_at`.
#[utoipa::path(get, path = "/api/v1/alerts", tag = "alerts", params(AlertsQuery),
    responses((status = 200, body = Vec<AlertBody>, headers(("Link" = String, description = "The next page, as `<address>; rel=\"next\"` (RFC 8288); missing on the last page"), ("Cowbell-Missing" = String, description = "Why only open alerts are listed")))))]
pub async fn alerts(
    State(site): State<SharedSite>,
    ParsedQuery(asked): ParsedQuery<AlertsQuery>,
) -> ListPage<AlertBody> {
    let limit = checked("limit", asked.limit, MOST_LISTED, MOST_LISTED)?;
    let (listed, next) = site.alert_page(asked.before, limit).await?;
    let next = next.map(|next| format!("alerts?limit={limit}&before={next}"));
    let mut deliveries = site.deliveries(&listed.found).await?;
    let body = |alert: Alert| AlertBody {
        deliveries: deliveries.remove(&alert.id).unwrap_or_default(),
        alert,
    };
    let listed = listed.map(|alerts| Json(alerts.into_iter().map(body).collect()));
    Ok((next_page(next), listed))
}

/// An alert with its deliveries.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct AlertBody {
    #[serde(flatten)]
    pub alert: Alert,
    /// The last delivery to each receiver.
    #[serde(default)]
    pub deliveries: Vec<Delivery>,
}

/// The acknowledgement of an alert.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AcknowledgeAlert {
    #[schema(max_length = 1000)]
    pub note: String,
    /// `null`: until the alert is cleared
    pub until: Option<Timestamp>,
}

/// A silence.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutSilence {
    /// A pattern such as `vg0/mysql_*`
    #[schema(min_length = 2, max_length = 500, pattern = "^[^/]*/[^/]*$")]
    pub volumes: String,
    pub until: Timestamp,
    #[serde(default)]
    pub note: String,
}

impl Described for AcknowledgeAlert {
    const WHAT: &str = "an acknowledgement as JSON, such as {\"note\": …}";
}

impl Described for PutSilence {
    const WHAT: &str = "a silence as JSON, such as {\"volumes\": \"vg0/*\", \"until\": …}";
}

/// The silence of these volumes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SilenceQuery {
    /// The pattern as listed
    #[param(min_length = 1, max_length = 500)]
    volumes: String,
}

/// The answer to a command on alerts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct AlertReply {
    /// What was done
    #[serde(default)]
    pub done: String,
    /// With status 202: why the result is held in memory, not stored
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What a receiver answered to a test.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TestResult {
    pub receiver: String,
    pub is_delivered: bool,
    /// Its answer, or why the message could not be delivered
    pub answer: String,
}

/// The receivers to test.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TestQuery {
    /// The name of one receiver; all by default
    receiver: Option<String>,
}

type AlertResponse = Result<(StatusCode, Json<AlertReply>), Problem>;

/// Acknowledges an open alert: it is not repeated. Receivers still hear when it gets worse or is cleared.
#[utoipa::path(put, path = "/api/v1/alerts/{id}/acknowledgement", tag = "alerts", request_body = AcknowledgeAlert,
    params(("id" = i64, Path, description = "The ID of the alert")),
    responses((status = 200, description = "Stored", body = AlertReply), (status = 202, description = "Held in memory, not stored", body = AlertReply), (status = 404, description = "No open alert has this ID", body = ProblemBody)))]
pub async fn acknowledge_alert(
    State(site): State<SharedSite>,
    Path(id): Path<String>,
    JsonBody(AcknowledgeAlert { note, until }): JsonBody<AcknowledgeAlert>,
) -> AlertResponse {
    let (id, at) = (number(&id)?, clock::now());
    let refuse = |why| Problem::Bad(format!("cannot acknowledge alert {id}: {why}"));
    check_note(&note).map_err(refuse)?;
    let mut done = format!("alert {id} is acknowledged");
    if let Some(until) = until {
        check_end(until, at).map_err(refuse)?;
        done += &format!(" until {}", shown(until));
    }
    let acknowledgement = Acknowledgement { at, until, note };
    let command = AlertCommand::Acknowledge(id, Some(acknowledgement));
    send(&site, command, done).await
}

/// Withdraws the acknowledgement of an open alert.
#[utoipa::path(delete, path = "/api/v1/alerts/{id}/acknowledgement", tag = "alerts",
    params(("id" = i64, Path, description = "The ID of the alert")),
    responses((status = 200, description = "Stored", body = AlertReply), (status = 202, description = "Held in memory, not stored", body = AlertReply), (status = 404, description = "No open alert has this ID, or it is not acknowledged", body = ProblemBody)))]
pub async fn withdraw_acknowledgement(
    State(site): State<SharedSite>,
    Path(id): Path<String>,
) -> AlertResponse {
    let id = number(&id)?;
    let present = site.present()?;
    let open = present.alerts.iter().find(|alert| alert.id == id);
    if open.is_some_and(|alert| alert.acknowledged.is_none()) {
        return Err(Problem::NotFound(format!(
            "alert {id} is not acknowledged: `cowbell alert list` lists all alerts"
        )));
    }
    let done = format!("the acknowledgement of alert {id} is withdrawn");
    send(&site, AlertCommand::Acknowledge(id, None), done).await
}

/// Silences that have not ended.
#[utoipa::path(get, path = "/api/v1/silences", tag = "alerts", responses((status = 200, body = Vec<Silence>)))]
pub async fn silences(State(site): State<SharedSite>) -> Result<Json<Vec<Silence>>, Problem> {
    Ok(Json(site.present()?.silences.clone()))
}

/// Delivers no alerts of these volumes until a time. It replaces a silence of the same pattern.
#[utoipa::path(put, path = "/api/v1/silences", tag = "alerts", request_body = PutSilence,
    responses((status = 200, description = "Stored", body = AlertReply), (status = 202, description = "Held in memory, not stored", body = AlertReply), (status = 409, description = "There are too many silences", body = ProblemBody)))]
pub async fn put_silence(
    State(site): State<SharedSite>,
    JsonBody(silence): JsonBody<PutSilence>,
) -> AlertResponse {
    let (volumes, note) = (pattern(&silence.volumes)?, silence.note);
    let refuse = |why| Problem::Bad(format!("cannot silence {}: {why}", volumes.as_str()));
    check_note(&note).map_err(refuse)?;
    let until = check_end(silence.until, clock::now()).map_err(refuse)?;
    let present = site.present()?;
    let others = present
        .silences
        .iter()
        .filter(|silence| silence.volumes != volumes);
    if others.count() >= MOST_SILENCES {
        return Err(Problem::Conflict(format!(
            "cannot silence {}: there are {MOST_SILENCES} silences, which is the limit: end one of them, or use a \
             pattern for several volumes",
            volumes.as_str()
        )));
    }
    let done = format!(
        "alerts of {} are not delivered until {}",
        volumes.as_str(),
        shown(until)
    );
    let silence = Silence {
        volumes,
        until,
        note,
    };
    send(&site, AlertCommand::Silence(silence), done).await
}

/// Ends the silence of these volumes.
#[utoipa::path(delete, path = "/api/v1/silences", tag = "alerts", params(SilenceQuery),
    responses((status = 200, description = "Stored", body = AlertReply), (status = 202, description = "Held in memory, not stored", body = AlertReply), (status = 404, description = "These volumes are not silenced", body = ProblemBody)))]
pub async fn end_silence(
    State(site): State<SharedSite>,
    ParsedQuery(SilenceQuery { volumes }): ParsedQuery<SilenceQuery>,
) -> AlertResponse {
    let volumes = pattern(&volumes)?;
    let present = site.present()?;
    let mut silences = present.silences.iter();
    let Some(silence) = silences.find(|silence| silence.volumes == volumes) else {
        return Err(Problem::NotFound(format!(
            "{} is not silenced: `cowbell alert silences` lists all silences",
            volumes.as_str()
        )));
    };
    let done = format!("the silence of {} has ended", volumes.as_str());
    let ended = Silence {
        until: clock::now(),
        ..silence.clone()
    };
    send(&site, AlertCommand::Silence(ended), done).await
}

/// Sends a test message to receivers; returns their answers.
#[utoipa::path(post, path = "/api/v1/alerts/test", tag = "alerts", params(TestQuery),
    responses((status = 200, body = Vec<TestResult>), (status = 404, description = "No receiver has this name", body = ProblemBody), (status = 429, description = "Another test is running", body = ProblemBody)))]
pub async fn test_receivers(
    State(site): State<SharedSite>,
    ParsedQuery(TestQuery { receiver }): ParsedQuery<TestQuery>,
) -> Result<Json<Vec<TestResult>>, Problem> {
    let present = site.present()?;
    let is_wanted = |known: &&Receiver| receiver.as_ref().is_none_or(|name| known.name == *name);
    let receivers: Vec<&Receiver> = present.receivers.iter().filter(is_wanted).collect();
    if receivers.is_empty() {
        let names = present.receivers.iter().map(|known| &*known.name);
        let names = names.collect::<Vec<&str>>().join(", ");
        return Err(Problem::NotFound(match receiver {
            Some(name) if !names.is_empty() => {
                format!("no receiver is named {name:?}: expected one of {names}")
            }
            _ => "no receiver of alerts is configured: add [[notify]] to the configuration".into(),
        }));
    }
    static TESTS: Semaphore = Semaphore::const_new(1);
    let busy = |_| Problem::TooMany("another test is running: try again in 15 seconds".into());
    let _place = TESTS.try_acquire().map_err(busy)?;
    let tests = receivers.into_iter().map(async |receiver| {
        let result = notify::test(receiver, &present.host).await;
        TestResult {
            receiver: receiver.name.clone(),
            is_delivered: result.is_ok(),
            answer: result.unwrap_or_else(|why| why),
        }
    });
    Ok(Json(futures_util::future::join_all(tests).await))
}

/// Sends a command to the loop and waits until its result is stored. `done` says what it does.
async fn send(site: &Site, command: AlertCommand, done: String) -> AlertResponse {
    let number = match &command {
        AlertCommand::Acknowledge(id, _) => *id,
        AlertCommand::Silence(_) => 0,
    };
    let until = Instant::now() + ANSWER_TIMEOUT;
    let request = |reply| AlertRequest { command, reply };
    let reply = reply_of(&site.alert_commands, request, until).await?;
    let stored = reply.ok_or_else(|| {
        Problem::NotFound(format!(
            "alert {number} is not open: `cowbell alert list` lists all alerts"
        ))
    })?;
    let why_not = why_not_stored(site, stored, until).await?;
    let status = match why_not {
        Some(_) => StatusCode::ACCEPTED,
        None => StatusCode::OK,
    };
    let message = why_not.map(held);
    Ok((status, Json(AlertReply { done, message })))
}

fn number(id: &str) -> Result<i64, Problem> {
    id.parse()
        .map_err(|_| Problem::Bad(format!("expected the ID of an alert, but found `{id}`")))
}

fn pattern(text: &str) -> Result<Pattern, Problem> {
    check_letters("the pattern `volumes`", text, LONGEST_PATTERN)?;
    text.parse()
        .map_err(|why| Problem::Bad(format!("`volumes`: {why}")))
}

fn check_end(until: Timestamp, now: Timestamp) -> Result<Timestamp, String> {
    if until > now && until.duration_since(now) <= LONGEST_SILENCE {
        return Ok(until);
    }
    let days = LONGEST_SILENCE.as_hours() / 24;
    Err(format!(
        "expected `until` later than now ({now}) by at most {days} days, but found {until}"
    ))
}

/// A note may be empty.
fn check_note(note: &str) -> Result<(), String> {
    if note.is_empty() {
        return Ok(());
    }
    let checked = crate::commands::check_letters("the note", note, LONGEST_NOTE);
    checked.map_err(|why| format!("{why}, or to be empty"))
}

fn shown(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
