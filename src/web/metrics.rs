//! `/metrics`, for Prometheus and its kin. Access is that of all other reads: Prometheus sends the token as a bearer.
//! The text is made in `prometheus`; here it gets its format and its type.

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::IntoResponse;

use super::Site;
use super::answer::{Problem, ProblemBody, header_text};
use crate::prometheus::{self, Format};

/// The last tick as OpenMetrics 1.0, or as Prometheus text 0.0.4 for clients that do not ask for OpenMetrics.
#[utoipa::path(get, path = "/metrics", tag = "now", responses((status = 200, body = String), (status = 503, body = ProblemBody)))]
pub async fn metrics(
    State(site): State<Site>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let format = Format::wanted(header_text(&headers, header::ACCEPT));
    let present = site.present()?;
    let text = prometheus::metrics(&present, format);
    Ok((
        [
            (header::CONTENT_TYPE, format.content_type()),
            (header::VARY, "accept"),
        ],
        text,
    ))
}
