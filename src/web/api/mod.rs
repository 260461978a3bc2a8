//! JSON under `/api/v1/`. What is not known is `null`, never 0; times are RFC 3339 in UTC; lists are bare arrays.

mod body;
mod file;
mod openapi;
mod commands;

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
use crate::job::Job;
use crate::job::finish::Outlook;
use crate::notify::AlertBody;
use crate::report::account::{Account, Manner};
use crate::series::when::{TimeQuery, including_latest};
use crate::series::{DEFAULT_POINTS, MOST_POINTS, Point};
use crate::store::{JobPage, JobQuery, Wanted};

pub use body::{CompareBody, DeviceBody, FiguresBody, JobBody, StatusBody, VmBody, VolumeBody};
pub use commands::ToldJob;
pub use commands::edit::{NoteJob, PhaseJob, delete_job, note_job, phase_job};
pub use commands::mark::{PutJob, put_job};
pub use file::{ImportedJob, export_job, import_job};
pub use openapi::openapi;

/// Jobs or alerts of one answer at most.
const MOST_LISTED: usize = 1_000;

/// A query of which a key may come several times.
type Pairs = Vec<(String, String)>;
/// A list, and the header `Cowbell-Missing` where it is not whole.
type List<T> = Result<Partial<Json<Vec<T>>>, Problem>;

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

/// Which jobs are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// RFC 3339, or relative to the last tick such as `-1h`
    from: Option<String>,
    /// Likewise; `now` if not given
    to: Option<String>,
    /// Jobs of a page, from 1 to 1000; 1000 if not given
    limit: Option<usize>,
    /// The place from which a page goes on, as the link to the next page has it
    before: Option<String>,
}

/// Jobs, the latest first, a page at a time; with `from` or `to`, those that ran at any time between them.
#[utoipa::path(get, path = "/api/v1/jobs", tag = "jobs", params(JobsQuery),
    responses((status = 200, body = Vec<JobBody>, headers(("Link" = String, description = "The next page, as `<address>; rel=\"next\"` (RFC 8288); missing on the last page"), ("Cowbell-Missing" = String, description = "Why there are only those in memory"))), (status = 400, body = ProblemBody)))]
pub async fn jobs(
    State(site): State<Site>,
    ParsedQuery(asked): ParsedQuery<JobsQuery>,
) -> Result<(HeaderMap, Partial<Json<Vec<JobBody>>>), Problem> {
    let present = site.present()?;
    let limit = asked.limit.unwrap_or(MOST_LISTED);
    if !(1..=MOST_LISTED).contains(&limit) {
        return Err(Problem::Bad(format!("expected `limit` from 1 to {MOST_LISTED}, but found {limit}")));
    }
    let before = asked.before.as_deref().map(str::parse).transpose().map_err(Problem::Bad)?;
    let span = TimeQuery { from: asked.from, to: asked.to };
    let range = including_latest(&span, span.range(present.interval.at, "1970-01-01T00:00:00Z")?);
    let query = JobQuery { before, ..JobQuery::of(range) };
    let Partial { found: JobPage { jobs, next }, missing } =
        super::pages::job_page(&site, &present, &query, limit).await?;
    let to = if range.to == Timestamp::MAX { String::new() } else { format!("&to={}", range.to) };
    let link = next.map(|next| {
        format!("</api/v1/jobs?from={}{to}&limit={limit}&before={next}>; rel=\"next\"", range.from)
    });
    let link = link.and_then(|link| Some((header::LINK, HeaderValue::try_from(link).ok()?)));
    let found = Json(jobs.iter().map(JobBody::from).collect());
    Ok((HeaderMap::from_iter(link), Partial { found, missing }))
}

/// One job.
#[utoipa::path(get, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = i64, Path, description = "As in the list of jobs")),
    responses((status = 200, body = JobBody), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn job(State(site): State<Site>, Path(id): Path<String>) -> Result<Json<JobBody>, Problem> {
    Ok(Json(JobBody::from(&numbered(&site, &id).await?)))
}

/// What a job cost: figures, what they say, what would help, and how large the next COW area should be. Of a job that
/// runs they may be 10 s old.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/figures", tag = "jobs",
    params(("id" = i64, Path, description = "As in the list of jobs")),
    responses((status = 200, body = FiguresBody), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn figures(State(site): State<Site>, Path(id): Path<String>) -> Result<Json<FiguresBody>, Problem> {
    let job = numbered(&site, &id).await?;
    let cost = site.cost(&job).await?;
    let present = site.present()?;
    let manner =
        Manner { time: &|at| at.strftime("%F %T").to_string(), is_monitored: present.is_monitored() };
    let account = Account::of(&job, &manner);
    Ok(Json(FiguresBody::new(&job, account, &cost, present.outlook(&job))))
}

/// Whether a backup that runs will be done before its snapshot overflows; `null` of a job that is over, or that is no
/// snapshot's. It needs no database.
#[utoipa::path(get, path = "/api/v1/jobs/{id}/outlook", tag = "jobs",
    params(("id" = i64, Path, description = "As in the list of jobs")),
    responses((status = 200, body = Option<Outlook>), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn outlook(
    State(site): State<Site>,
    Path(id): Path<String>,
) -> Result<Json<Option<Outlook>>, Problem> {
    let job = numbered(&site, &id).await?;
    Ok(Json(site.present()?.outlook(&job)))
}

/// Jobs side by side: every figure with its mean, standard deviation and ratio to the first set, what looks odd, and what
/// differs besides. Jobs of the same set and variant are repeats of one another; each other stands for itself.
#[utoipa::path(get, path = "/api/v1/jobs/compare", tag = "jobs",
    params(("ids" = Option<String>, Query, description = "Jobs' numbers with commas between them, 64 at most; the first is what others are compared with"), ("group" = Option<String>, Query, description = "Repeats of one thing, such as `before:3,4`; as often as one likes"), ("set" = Option<String>, Query, description = "All jobs of the set of this name")),
    responses((status = 200, body = CompareBody), (status = 400, body = ProblemBody), (status = 404, body = ProblemBody), (status = 409, description = "They have no figure in common", body = ProblemBody), (status = 503, body = ProblemBody)))]
pub async fn compare(
    State(site): State<Site>,
    ParsedQuery(query): ParsedQuery<Pairs>,
) -> Result<Json<CompareBody>, Problem> {
    let compared = site.compared(&Choice::of(&query)?).await?;
    Ok(Json(CompareBody::new(&compared)))
}

/// The job of this number.
async fn numbered(site: &Site, id: &str) -> Result<Job, Problem> {
    let id = id.parse().map_err(|_| {
        Problem::Bad(format!("expected a job's number, as /api/v1/jobs lists it, but found `{id}`"))
    })?;
    let missing = || {
        Problem::NotFound(format!(
            "there is no job {id}; `cowbell job list` and /api/v1/jobs list those that there are"
        ))
    };
    super::pages::job_numbered(site, id).await?.ok_or_else(missing)
}

/// Alerts, the latest first; those without `cleared_at` are raised now.
#[utoipa::path(get, path = "/api/v1/alerts", tag = "alerts", responses((status = 200, body = Vec<AlertBody>, headers(("Cowbell-Missing" = String, description = "Why there are only those that are raised now")))))]
pub async fn alerts(State(site): State<Site>) -> List<AlertBody> {
    let Partial { found, missing } = super::pages::alert_list(&site, MOST_LISTED).await?;
    Ok(Partial { found: Json(found.iter().map(AlertBody::from).collect()), missing })
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
    ParsedQuery(query): ParsedQuery<SeriesQuery>,
) -> Result<Json<Vec<Point>>, Problem> {
    let present = site.present()?;
    let range = TimeQuery { from: query.from, to: query.to }.range(present.interval.at, "-1h")?;
    let points = query.points.unwrap_or(DEFAULT_POINTS);
    if !(1..=MOST_POINTS).contains(&points) {
        return Err(Problem::Bad(format!("expected `points` from 1 to {MOST_POINTS}, but found {points}")));
    }
    let wanted = Wanted::named(&query.of, &query.metric)?;
    let found = site.store.series(&[wanted], range, points).await?.pop().flatten();
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

pub async fn no_such_method(method: Method) -> (StatusCode, Json<ProblemBody>) {
    let error = format!("{method} does not work at this address; /api/v1/openapi.json describes what does");
    (StatusCode::METHOD_NOT_ALLOWED, Json(ProblemBody { error }))
}
