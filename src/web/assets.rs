//! Style sheet, scripts and icon: all in the binary, nothing is fetched from elsewhere.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rust_embed::RustEmbed;

use super::answer::Problem;

#[derive(RustEmbed)]
#[folder = "web/assets/"]
struct Assets;

/// A visitor asks again each time, and is mostly told that nothing has changed.
const CACHE: &str = "no-cache";

pub async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    let Some(file) = Assets::get(&path) else {
        return Problem::NotFound(format!("there is no file `{path}` here")).into_response();
    };
    let tag = tag(&file.metadata.sha256_hash());
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    // Compression marks the tag as weak, and visitors give it back so.
    if known.is_some_and(|known| known.trim_start_matches("W/") == tag) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let headers =
        [(header::CONTENT_TYPE, media_type(&path)), (header::CACHE_CONTROL, CACHE), (header::ETAG, &tag)];
    (headers, file.data).into_response()
}

/// The style sheet, for what has to carry it along.
pub fn style() -> String {
    Assets::get("cowbell.css")
        .map(|file| String::from_utf8_lossy(&file.data).into_owned())
        .unwrap_or_default()
}

fn tag(hash: &[u8; 32]) -> String {
    let hex: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, ending)| ending) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}
