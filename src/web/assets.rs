//! Style sheet, scripts and icon, all in the binary.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::answer::{Problem, header_text};

/// The style sheet, also for self-contained reports.
pub const STYLE: &str = include_str!("../../web/assets/cowbell.css");

const JAVASCRIPT: &str = "text/javascript";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain";
const ICON: &str = include_str!("../../web/assets/favicon.svg");

/// A file by its path below `/assets/`.
macro_rules! asset {
    ($path:literal, $media_type:expr) => {
        (
            $path,
            $media_type,
            include_str!(concat!("../../web/assets/", $path)),
        )
    };
}

/// Path below `/assets/`, media type and content of each file.
const ASSETS: [(&str, &str, &str); 12] = [
    ("cowbell.css", "text/css", STYLE),
    asset!("cowbell.js", JAVASCRIPT),
    asset!("stream.js", JAVASCRIPT),
    asset!("charts.js", JAVASCRIPT),
    ("favicon.svg", SVG, ICON),
    ("favicon-ok.svg", SVG, ICON),
    asset!("favicon-unknown.svg", SVG),
    asset!("favicon-warning.svg", SVG),
    asset!("favicon-critical.svg", SVG),
    asset!("vendor/htmx.min.js", JAVASCRIPT),
    asset!("vendor/LICENSE", TEXT),
    asset!("vendor/VERSIONS", TEXT),
];

/// Browsers revalidate each time, mostly with a 304.
const CACHE: &str = "no-cache";

pub async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    let Some((_, media_type, content)) = ASSETS.iter().find(|(name, ..)| *name == path) else {
        return Problem::NotFound(format!("there is no file `{path}` here")).into_response();
    };
    let hash = crc32fast::hash(content.as_bytes());
    let tag = format!("\"{hash:08x}-{:x}\"", content.len());
    // Compression marks the tag as weak.
    if header_text(&headers, header::IF_NONE_MATCH).trim_start_matches("W/") == tag {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let headers = [
        (header::CONTENT_TYPE, format!("{media_type}; charset=utf-8")),
        (header::CACHE_CONTROL, CACHE.into()),
        (header::ETAG, tag),
    ];
    (headers, *content).into_response()
}
