//! Style sheet, scripts and icon, all in the binary.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::answer::Problem;

/// The style sheet, also for self-contained reports.
pub const STYLE: &str = include_str!("../../web/assets/cowbell.css");

/// Path below `/assets/`, media type and content of each file.
const ASSETS: [(&str, &str, &str); 12] = [
    ("cowbell.css", "text/css", STYLE),
    (
        "cowbell.js",
        JAVASCRIPT,
        include_str!("../../web/assets/cowbell.js"),
    ),
    (
        "stream.js",
        JAVASCRIPT,
        include_str!("../../web/assets/stream.js"),
    ),
    (
        "charts.js",
        JAVASCRIPT,
        include_str!("../../web/assets/charts.js"),
    ),
    ("favicon.svg", SVG, ICON),
    ("favicon-ok.svg", SVG, ICON),
    (
        "favicon-unknown.svg",
        SVG,
        include_str!("../../web/assets/favicon-unknown.svg"),
    ),
    (
        "favicon-warning.svg",
        SVG,
        include_str!("../../web/assets/favicon-warning.svg"),
    ),
    (
        "favicon-critical.svg",
        SVG,
        include_str!("../../web/assets/favicon-critical.svg"),
    ),
    (
        "vendor/htmx.min.js",
        JAVASCRIPT,
        include_str!("../../web/assets/vendor/htmx.min.js"),
    ),
    (
        "vendor/LICENSE",
        "text/plain",
        include_str!("../../web/assets/vendor/LICENSE"),
    ),
    (
        "vendor/VERSIONS",
        "text/plain",
        include_str!("../../web/assets/vendor/VERSIONS"),
    ),
];
const JAVASCRIPT: &str = "text/javascript";
const SVG: &str = "image/svg+xml";
const ICON: &str = include_str!("../../web/assets/favicon.svg");

/// Browsers revalidate each time, mostly with a 304.
const CACHE: &str = "no-cache";

pub async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    let Some((_, media_type, content)) = ASSETS.iter().find(|(name, ..)| *name == path) else {
        return Problem::NotFound(format!("there is no file `{path}` here")).into_response();
    };
    let tag = format!(
        "\"{:08x}-{:x}\"",
        crc32fast::hash(content.as_bytes()),
        content.len()
    );
    let cached = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok());
    // Compression marks the tag as weak.
    if cached.is_some_and(|cached| cached.trim_start_matches("W/") == tag) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let headers = [
        (header::CONTENT_TYPE, format!("{media_type}; charset=utf-8")),
        (header::CACHE_CONTROL, CACHE.into()),
        (header::ETAG, tag),
    ];
    (headers, *content).into_response()
}
