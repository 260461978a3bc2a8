//! JSON under `/api/v1/`. What is not known is `null`, never 0; times are RFC 3339 in UTC; lists are bare arrays.

mod body;
mod openapi;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Site;
use super::answer::{Asked, Partly, Problem, ProblemBody};
use crate::notify::AlertBody;
use crate::series::when::{Span, with_the_latest};
use crate::series::{DEFAULT_POINTS, MOST_POINTS, Point};
use crate::source::{Mark, MarkKind, MarkedEnd};
use crate::store::Wanted;

pub use body::{DeviceBody, FiguresBody, JobBody, StatusBody, VmBody, VolumeBody};
pub use openapi::openapi;

/// Jobs and alerts that one answer lists.
const MOST_LISTED: usize = 1_000;
/// Letters of a job's name or key.
const LONGEST_NAME: usize = 200;
/// Whoever tells of a job has this machine's clock, which may have been set back a moment ago.
const MOST_AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// A list, and the header `Cowbell-Missing` where it is not whole.
type List<T> = Result<Partly<Json<Vec<T>>>, Problem>;

/// The daemon, its ticks, and how each part of the machine did.
#[utoipa::path(get, path = "/api/v1/status", tag = "now", responses((status = 200, body = StatusBody), (status = 503, body = ProblemBody)))]
pub async fn status(State(site): State<Site>) -> Result<Json<StatusBody>, Problem> {
    let present = site.present()?;
    Ok(Json(StatusBody::new(&present, crate::source::own::own_cost())))
}

/// Every device of `/proc/diskstats`, and what it did in the last tick.
#[utoipa::path(get, path = "/api/v1/devices", tag = "now", responses((status = 200, body = Vec<DeviceBody>), (status = 503, body = ProblemBody)))]
pub async fn devices(State(site): State<Site>) -> Result<Json<Vec<DeviceBody>>, Problem> {
    Ok(Json(DeviceBody::all(&site.present()?.interval)))
}

/// Every volume that `lvs` without `-a` shows, and how it is.
#[utoipa::path(get, path = "/api/v1/volumes", tag = "now", responses((status = 200, body = Vec<VolumeBody>), (status = 503, body = ProblemBody)))]
pub async fn volumes(State(site): State<Site>) -> Result<Json<Vec<VolumeBody>>, Problem> {
    Ok(Json(VolumeBody::all(&*site.present()?)))
}

/// Paging, processors and pressure, in the last tick.
#[utoipa::path(get, path = "/api/v1/vm", tag = "now", responses((status = 200, body = VmBody), (status = 503, body = ProblemBody)))]
pub async fn vm(State(site): State<Site>) -> Result<Json<VmBody>, Problem> {
    Ok(Json(VmBody::new(&site.present()?.interval)))
}

/// Jobs, the latest first; with `from` or `to`, those that ran at any time between them.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs",
    params(("from" = Option<String>, Query, description = "RFC 3339, or relative such as -1h"), ("to" = Option<String>, Query)),
    responses((status = 200, body = Vec<JobBody>, headers(("Cowbell-Missing" = String, description = "Why there are only those in memory"))), (status = 400, body = ProblemBody)))]
pub async fn jobs(State(site): State<Site>, Asked(span): Asked<Span>) -> List<JobBody> {
    let present = site.present()?;
    let range = with_the_latest(&span, span.range(present.interval.at, "1970-01-01T00:00:00Z")?);
    let Partly { found, missing } = super::pages::job_list(&site, &present, range, MOST_LISTED).await?;
    Ok(Partly { found: Json(found.iter().map(JobBody::from).collect()), missing })
}

/// What is told of a job that is not a snapshot's: that it began, and, once it has, how it ended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutJob {
    pub name: String,
    /// `mark` if not given
    #[serde(default)]
    pub kind: MarkKind,
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
    let mark = mark(key, put, crate::source::live::now())?;
    let Some(marks) = &site.marks else {
        return Err(Problem::Conflict("this is a recording: no job can be added to it".into()));
    };
    let refused =
        |_| Problem::Unavailable("the daemon is stopping, or too busy for another job; try again".into());
    marks.try_send(mark).map_err(refused)?;
    Ok(StatusCode::ACCEPTED)
}

fn mark(key: String, put: PutJob, now: Timestamp) -> Result<Mark, Problem> {
    for (what, text) in [("key", &key), ("name", &put.name)] {
        if text.trim().is_empty() || text.chars().count() > LONGEST_NAME || text.chars().any(char::is_control)
        {
            return Err(Problem::Bad(format!(
                "expected a job's {what} to be 1 to {LONGEST_NAME} letters without control characters"
            )));
        }
    }
    for (what, at) in [("started_at", Some(put.started_at)), ("ended_at", put.ended_at)] {
        if let Some(at) = at.filter(|at| *at < Timestamp::UNIX_EPOCH || *at - MOST_AHEAD > now) {
            return Err(Problem::Bad(format!("expected `{what}` from 1970 to now ({now}), but found {at}")));
        }
    }
    let ended = match (put.ended_at, put.succeeded) {
        (None, None) => None,
        (Some(at), Some(succeeded)) if at >= put.started_at => {
            Some(MarkedEnd { at, succeeded, status: put.status.map(i32::from) })
        }
        (Some(_), Some(_)) => return Err(Problem::Bad("a job cannot end before it started".into())),
        _ => return Err(Problem::Bad("expected `ended_at` and `succeeded` together, or neither".into())),
    };
    // A key of somebody's choice is never a volume's UUID.
    Ok(Mark { key: format!("mark:{key}"), kind: put.kind, name: put.name, started_at: put.started_at, ended })
}

/// What a job cost: figures, what they say, what would help, and how large the next COW area should be. Of a job that
/// runs they may be 10 s old.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/figures", tag = "jobs",
    params(("id" = i64, Path, description = "As in the list of jobs")),
    responses((status = 200, body = FiguresBody), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn figures(State(site): State<Site>, Path(id): Path<String>) -> Result<Json<FiguresBody>, Problem> {
    let id = id.parse().map_err(|_| {
        Problem::Bad(format!("expected a job's number, as /api/v1/jobs lists it, but found `{id}`"))
    })?;
    let missing =
        || Problem::NotFound(format!("there is no job {id}; /api/v1/jobs lists those that there are"));
    let job = super::pages::job_numbered(&site, id).await?.ok_or_else(missing)?;
    let cost = site.cost(&job).await?;
    Ok(Json(FiguresBody::new(&job, &cost)))
}

/// Alerts, the latest first; those without `cleared_at` are raised now.
#[utoipa::path(get, path = "/api/v1/alerts", tag = "alerts", responses((status = 200, body = Vec<AlertBody>, headers(("Cowbell-Missing" = String, description = "Why there are only those that are raised now")))))]
pub async fn alerts(State(site): State<Site>) -> List<AlertBody> {
    let Partly { found, missing } = super::pages::alert_list(&site, MOST_LISTED).await?;
    Ok(Partly { found: Json(found.iter().map(AlertBody::from).collect()), missing })
}

/// What a series is asked by.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SeriesQuery {
    /// `device:<name or uuid>`, `volume:<vg/lv or uuid>`, `total` or `vm`
    of: String,
    /// Such as `read_bytes`, `fill_percent` or `bi_kib_per_s`
    metric: String,
    /// RFC 3339, or relative to the last tick such as `-1h`, which is also the default
    from: Option<String>,
    /// Likewise; `now` if not given
    to: Option<String>,
    /// From 1 to 10000; 600 if not given
    points: Option<usize>,
}

/// One quantity over time. Byte metrics are bytes per second.
#[utoipa::path(get, path = "/api/v1/series", tag = "history", params(SeriesQuery),
    responses((status = 200, body = Vec<Point>), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn series(
    State(site): State<Site>,
    Asked(query): Asked<SeriesQuery>,
) -> Result<Json<Vec<Point>>, Problem> {
    let present = site.present()?;
    let range = Span { from: query.from, to: query.to }.range(present.interval.at, "-1h")?;
    let points = query.points.unwrap_or(DEFAULT_POINTS);
    if !(1..=MOST_POINTS).contains(&points) {
        return Err(Problem::Bad(format!("expected `points` from 1 to {MOST_POINTS}, but found {points}")));
    }
    let wanted = Wanted::named(&query.of, &query.metric)?;
    let found = site.archive.series(&[wanted], range, points).await?.pop().flatten();
    let series = found
        .ok_or_else(|| Problem::NotFound(format!("nothing called `{}` was ever seen here", query.of)))?;
    Ok(Json(series.points))
}

/// 200 while ticks are fresh, 503 with the reason otherwise.
#[utoipa::path(get, path = "/healthz", tag = "now", responses((status = 200, body = String), (status = 503, body = String)))]
pub async fn healthz(State(site): State<Site>) -> Response {
    let late = |sentence: String| (StatusCode::SERVICE_UNAVAILABLE, sentence).into_response();
    match site.present() {
        Err(_) => late("no tick has been taken yet\n".into()),
        Ok(present) if present.is_fresh() => "ok\n".into_response(),
        Ok(present) => {
            late(format!("the last tick was {:.1} s ago\n", present.published.elapsed().as_secs_f64()))
        }
    }
}

pub async fn not_found() -> Problem {
    Problem::NotFound("there is nothing at this address; /api/v1/openapi.json describes what there is".into())
}
