//! JSON under `/api/v1/`. Unknown values are `null`, never 0; times are RFC 3339 in UTC; lists are bare arrays.

pub mod alerts;
mod commands;
pub mod file;
pub mod job_commands;
pub mod jobs;
pub mod now;
pub mod volumes;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use utoipa::IntoParams;

use super::answer::{ParsedQuery, Partial, Problem, ProblemBody};
use super::{SharedSite, Site, zone};
use crate::job::Job;
use crate::series::when::TimeQuery;
use crate::series::{DEFAULT_POINTS, MOST_POINTS, Point};
use crate::store::SeriesKey;

pub use alerts::{
    AcknowledgeAlert, AlertBody, AlertReply, LONGEST_SILENCE, PutSilence, TestResult,
};
pub use commands::JobReply;
pub use file::ImportedJob;
pub use job_commands::{NoteJob, PhaseJob, PutJob};
pub use jobs::{CompareBody, FiguresBody, JobBody};
pub use now::{StatusBody, VmBody, parts};
pub use volumes::{DeviceBody, VolumeBody};

/// Maximum jobs or alerts per page.
const MOST_LISTED: usize = 1_000;

/// A page of a list, with the headers `Link` and, if it is incomplete, `Cowbell-Missing`.
type ListPage<T> = Result<(HeaderMap, Partial<Json<Vec<T>>>), Problem>;

/// The `Link` to the next page, if any.
fn next_page(address: Option<String>) -> HeaderMap {
    let link =
        address.map(|address| format!("<{}/{address}>; rel=\"next\"", zone::prefixed("/api/v1")));
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

/// The job with this ID.
async fn numbered(site: &Site, id: &str) -> Result<Job, Problem> {
    let wrong = |_| Problem::Bad(format!("expected the ID of a job, but found `{id}`"));
    site.job(id.parse().map_err(wrong)?).await
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
    /// From 1 to 10000; 600 by default. A point of more than 6 hours is of a minute or more, of more than 14 days of ten minutes
    #[param(minimum = 1, maximum = 10000)]
    points: Option<usize>,
}

/// One quantity over time. Byte metrics are bytes per second.
#[utoipa::path(get, path = "/api/v1/series", tag = "history", params(SeriesQuery),
    responses((status = 200, body = Vec<Point>), (status = 404, body = ProblemBody)))]
pub async fn series(
    State(site): State<SharedSite>,
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
