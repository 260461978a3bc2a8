//! JSON under `/api/v1/`. Unknown values are `null`, never 0; times are RFC 3339 in UTC; lists are bare arrays.

mod body;
pub mod commands;
pub mod file;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::Deserialize;
use utoipa::IntoParams;

use super::Site;
use super::answer::{ParsedQuery, Partial, Problem, ProblemBody};
use super::compare::Choice;
use crate::alert::Alert;
use crate::forecast::Outlook;
use crate::job::Job;
use crate::report::summary::JobSummary;
use crate::series::when::{TimeQuery, including_latest};
use crate::series::{DEFAULT_POINTS, MOST_POINTS, Point};
use crate::sizing::SizeAdvice;
use crate::store::{JobPage, JobQuery, SeriesKey};

pub use body::{
    AlertBody, CompareBody, DeviceBody, FiguresBody, JobBody, PartBody, StatusBody, VmBody,
    VolumeBody, parts,
};
pub use commands::JobReply;
pub use commands::alert::{
    AcknowledgeAlert, AlertReply, LONGEST_SILENCE, PutSilence, TestResult, acknowledge_alert,
    end_silence, put_silence, silences, test_receivers, withdraw_acknowledgement,
};
pub use commands::edit::{
    NoteJob, PhaseJob, accept_job, certify_job, delete_job, note_job, phase_job,
};
pub use commands::mark::{PutJob, put_job};
pub use file::{ImportedJob, export_job, import_job};

/// Maximum jobs or alerts per page.
const MOST_LISTED: usize = 1_000;

/// A query with repeated keys.
type Pairs = Vec<(String, String)>;
/// A page of a list, with the headers `Link` and, if it is incomplete, `Cowbell-Missing`.
type List<T> = Result<(HeaderMap, Partial<Json<Vec<T>>>), Problem>;

/// The daemon, its ticks, and the state of each part.
#[utoipa::path(get, path = "/api/v1/status", tag = "now", responses((status = 200, body = StatusBody), (status = 503, body = ProblemBody)))]
pub async fn status(State(site): State<Site>) -> Result<Json<StatusBody>, Problem> {
    Ok(Json(StatusBody::new(&*site.present()?)))
}

/// All devices of `/proc/diskstats` in the last tick.
#[utoipa::path(get, path = "/api/v1/devices", tag = "now", responses((status = 200, body = Vec<DeviceBody>), (status = 503, body = ProblemBody)))]
pub async fn devices(State(site): State<Site>) -> Result<Json<Vec<DeviceBody>>, Problem> {
    Ok(Json(DeviceBody::all(&site.present()?.interval)))
}

/// All volumes that `lvs` shows without `-a`.
#[utoipa::path(get, path = "/api/v1/volumes", tag = "now", responses((status = 200, body = Vec<VolumeBody>), (status = 503, body = ProblemBody)))]
pub async fn volumes(State(site): State<Site>) -> Result<Json<Vec<VolumeBody>>, Problem> {
    Ok(Json(VolumeBody::all(&*site.present()?)))
}

/// The query of a size.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct SizeQuery {
    /// The bytes of the next snapshot, if they are not those of the last one
    planned: Option<u64>,
}

/// How large a snapshot of this volume has to be, by age and chunk size.
#[utoipa::path(get, path = "/api/v1/volumes/{vg}/{lv}/size", tag = "now",
    params(("vg" = String, Path, description = "The volume group"), ("lv" = String, Path, description = "The volume"), SizeQuery),
    responses((status = 200, body = SizeAdvice), (status = 400, body = ProblemBody), (status = 404, description = "There is no such volume, or nothing is known of its snapshots", body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn size(
    State(site): State<Site>,
    Path((vg, lv)): Path<(String, String)>,
    ParsedQuery(query): ParsedQuery<SizeQuery>,
) -> Result<Json<SizeAdvice>, Problem> {
    let present = site.present()?;
    let volume = present.interval.topology.volume(&format!("{vg}/{lv}"));
    let volume = volume.ok_or_else(|| {
        Problem::NotFound(format!(
            "there is no volume {vg}/{lv}; `lvs` lists all volumes"
        ))
    })?;
    if !volume.may_have_snapshots() {
        return Err(Problem::NotFound(format!(
            "{vg}/{lv} is a {}: expected a volume of which snapshots are made",
            volume.kind.text()
        )));
    }
    let advice = present.size_advice(volume, query.planned);
    Ok(Json(advice.ok_or_else(|| {
        let measured = present.measured.get(&volume.uuid).and_then(|measured| measured.now.as_ref());
        let what_to_do = match measured.map(|now| now.is_estimated) {
            Some(false) => {
                "its writes are measured, so wait a few minutes; minutes with discards do not count".into()
            }
            Some(true) => {
                "its writes are measured, and the first estimate takes two hours; hours with discards do not count".into()
            }
            None => format!(
                "wait until one has ended, or measure its writes with `cowbell size {vg}/{lv} --watch on`"
            ),
        };
        Problem::NotFound(format!("nothing is known of snapshots of {vg}/{lv}: {what_to_do}"))
    })?))
}

/// Paging, CPU time and pressure in the last tick.
#[utoipa::path(get, path = "/api/v1/vm", tag = "now", responses((status = 200, body = VmBody), (status = 503, body = ProblemBody)))]
pub async fn vm(State(site): State<Site>) -> Result<Json<VmBody>, Problem> {
    Ok(Json(VmBody::new(&site.present()?.interval)))
}

/// The query of a list of jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// RFC 3339, or relative to the last tick such as `-1h`
    from: Option<String>,
    /// Likewise; `now` by default
    to: Option<String>,
    /// Jobs per page, from 1 to 1000; 1000 by default
    limit: Option<usize>,
    /// The place after which the page starts, from the link to the next page
    before: Option<String>,
}

/// Jobs, the latest first, in pages. `from` and `to` select jobs that ran at any time between them.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(JobsQuery),
    responses((status = 200, body = Vec<JobBody>, headers(("Link" = String, description = "The next page, as `<address>; rel=\"next\"` (RFC 8288); missing on the last page"), ("Cowbell-Missing" = String, description = "Why only jobs in memory are listed"))), (status = 400, body = ProblemBody)))]
pub async fn jobs(
    State(site): State<Site>,
    ParsedQuery(asked): ParsedQuery<JobsQuery>,
) -> List<JobBody> {
    let limit = checked("limit", asked.limit, MOST_LISTED, MOST_LISTED)?;
    let before = asked
        .before
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(Problem::Bad)?;
    let span = TimeQuery {
        from: asked.from,
        to: asked.to,
    };
    let range = including_latest(
        &span,
        span.range(site.present()?.interval.at, "1970-01-01T00:00:00Z")?,
    );
    let query = JobQuery {
        before,
        ..JobQuery::of(range)
    };
    let Partial {
        found: JobPage { jobs, next },
        missing,
    } = site.job_page(&query, limit).await?;
    let to = if range.to == Timestamp::MAX {
        String::new()
    } else {
        format!("&to={}", range.to)
    };
    let next = next.map(|next| format!("jobs?from={}{to}&limit={limit}&before={next}", range.from));
    let present = site.present()?;
    let found = jobs.iter().map(|job| JobBody::new(job, &present)).collect();
    Ok((
        next_page(next),
        Partial {
            found: Json(found),
            missing,
        },
    ))
}

/// The `Link` to the next page, if any.
fn next_page(address: Option<String>) -> HeaderMap {
    let link = address.map(|address| format!("</api/v1/{address}>; rel=\"next\""));
    HeaderMap::from_iter(
        link.and_then(|link| Some((header::LINK, HeaderValue::try_from(link).ok()?))),
    )
}

/// A number from 1 to `most`.
fn checked(
    key: &str,
    number: Option<usize>,
    default: usize,
    most: usize,
) -> Result<usize, Problem> {
    match number.unwrap_or(default) {
        number if (1..=most).contains(&number) => Ok(number),
        number => Err(Problem::Bad(format!(
            "expected `{key}` from 1 to {most}, but found {number}"
        ))),
    }
}

/// One job.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, body = JobBody), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn job(
    State(site): State<Site>,
    Path(id): Path<String>,
) -> Result<Json<JobBody>, Problem> {
    Ok(Json(JobBody::new(
        &numbered(&site, &id).await?,
        &*site.present()?,
    )))
}

/// The cost of a job: figures, diagnosis, advice, and the size of the next COW area. For a running job it may be 10 s old.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/figures", tag = "jobs",
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, body = FiguresBody), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn figures(
    State(site): State<Site>,
    Path(id): Path<String>,
) -> Result<Json<FiguresBody>, Problem> {
    let job = numbered(&site, &id).await?;
    let cost = site.cost(&job).await?;
    let present = site.present()?;
    let summary = JobSummary::of(&job, present.is_monitored());
    Ok(Json(FiguresBody::new(&job, summary, &cost, &present)))
}

/// Whether a running backup will end before its snapshot overflows; `null` for other jobs. It needs no database.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/outlook", tag = "jobs",
    params(("id" = i64, Path, description = "The ID of the job")),
    responses((status = 200, body = Option<Outlook>), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn outlook(
    State(site): State<Site>,
    Path(id): Path<String>,
) -> Result<Json<Option<Outlook>>, Problem> {
    let job = numbered(&site, &id).await?;
    Ok(Json(site.present()?.outlook(&job)))
}

/// A comparison: figures with mean, standard deviation and ratio to the first set, outliers, and other differences. Jobs
/// of the same set and variant are repeats.
#[utoipa::path(get, path = "/api/v1/jobs/compare", tag = "jobs",
    params(("ids" = Option<String>, Query, description = "IDs of jobs, separated by commas, at most 64; the others are compared with the first"), ("group" = Option<String>, Query, description = "A named group of repeats such as `before:3,4`; can be repeated"), ("set" = Option<String>, Query, description = "All jobs of this set")),
    responses((status = 200, body = CompareBody), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "They have no figure in common", body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn compare(
    State(site): State<Site>,
    ParsedQuery(query): ParsedQuery<Pairs>,
) -> Result<Json<CompareBody>, Problem> {
    let compared = site.compared(&Choice::of(&query)?).await?;
    Ok(Json(CompareBody::new(&compared, &*site.present()?)))
}

/// The job with this ID.
async fn numbered(site: &Site, id: &str) -> Result<Job, Problem> {
    let wrong = |_| Problem::Bad(format!("expected the ID of a job, but found `{id}`"));
    site.job(id.parse().map_err(wrong)?).await
}

/// The query of a list of alerts.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct AlertsQuery {
    /// Alerts per page, from 1 to 1000; 1000 by default
    limit: Option<usize>,
    /// List alerts with lower IDs only
    before: Option<i64>,
}

/// Alerts, the latest first, in pages. Open alerts have no `cleared_at`.
#[utoipa::path(get, path = "/api/v1/alerts", tag = "alerts", params(AlertsQuery),
    responses((status = 200, body = Vec<AlertBody>, headers(("Link" = String, description = "The next page, as `<address>; rel=\"next\"` (RFC 8288); missing on the last page"), ("Cowbell-Missing" = String, description = "Why only open alerts are listed"))), (status = 400, body = ProblemBody)))]
pub async fn alerts(
    State(site): State<Site>,
    ParsedQuery(asked): ParsedQuery<AlertsQuery>,
) -> List<AlertBody> {
    let limit = checked("limit", asked.limit, MOST_LISTED, MOST_LISTED)?;
    let (Partial { found, missing }, next) = site.alert_page(asked.before, limit).await?;
    let next = next.map(|next| format!("alerts?limit={limit}&before={next}"));
    let mut deliveries = site.deliveries(&found).await?;
    let body = |alert: Alert| AlertBody {
        deliveries: deliveries.remove(&alert.id).unwrap_or_default(),
        alert,
    };
    let found = found.into_iter().map(body).collect();
    Ok((
        next_page(next),
        Partial {
            found: Json(found),
            missing,
        },
    ))
}

/// The query of a series.
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
    /// From 1 to 10000; 600 by default
    points: Option<usize>,
}

/// One quantity over time. Byte metrics are bytes per second.
#[utoipa::path(get, path = "/api/v1/series", tag = "history", params(SeriesQuery),
    responses((status = 200, body = Vec<Point>), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn series(
    State(site): State<Site>,
    ParsedQuery(query): ParsedQuery<SeriesQuery>,
) -> Result<Json<Vec<Point>>, Problem> {
    let present = site.present()?;
    let range = TimeQuery {
        from: query.from,
        to: query.to,
    }
    .range(present.interval.at, "-1h")?;
    let points = checked("points", query.points, DEFAULT_POINTS, MOST_POINTS)?;
    let wanted = SeriesKey::named(&query.of, &query.metric)
        .map_err(|error| Problem::Bad(error.to_string()))?;
    let found = site
        .store
        .series(&[wanted], range, points)
        .await?
        .pop()
        .flatten();
    let series = found.ok_or_else(|| {
        Problem::NotFound(format!("nothing called `{}` was ever seen here", query.of))
    })?;
    Ok(Json(series.points))
}

/// 200 while ticks are fresh, 503 with the reason otherwise.
#[utoipa::path(get, path = "/healthz", tag = "now", responses((status = 200, body = String), (status = 503, body = String)))]
pub async fn healthz(State(site): State<Site>) -> Response {
    let late = |sentence: String| (StatusCode::SERVICE_UNAVAILABLE, sentence).into_response();
    match site.present() {
        Err(_) => late("no tick has been taken yet\n".into()),
        Ok(present) if present.is_fresh() => "ok\n".into_response(),
        Ok(present) => late(format!(
            "the last tick was {:.1} s ago\n",
            present.published.elapsed().as_secs_f64()
        )),
    }
}

pub async fn not_found() -> Problem {
    Problem::NotFound(
        "there is nothing at this address; /api/v1/openapi.json lists all addresses".into(),
    )
}

pub async fn no_such_method(method: Method) -> (StatusCode, Json<ProblemBody>) {
    let error =
        format!("{method} is not allowed at this address; /api/v1/openapi.json lists all methods");
    (StatusCode::METHOD_NOT_ALLOWED, Json(ProblemBody { error }))
}
