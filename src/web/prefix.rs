//! Serves the site under a path prefix too, as a proxy may require.
//!
//! Pages are written for the root of a site. Their links begin with `="/`, which cannot appear in text, as quotes there are
//! escaped.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::answer::Problem;

/// Longer pages do not exist.
const LONGEST_PAGE: usize = 64 * 1024 * 1024;

/// Adds the prefix to the links of a response.
pub async fn add_prefix(State(prefix): State<Arc<str>>, mut response: Response) -> Response {
    for (name, before) in [(header::LOCATION, "/"), (header::LINK, "</")] {
        let value = response
            .headers()
            .get(&name)
            .and_then(|value| value.to_str().ok());
        let rest = value.and_then(|value| value.strip_prefix(before));
        let prefixed = rest.map(|rest| before.replace('/', &prefix) + "/" + rest);
        if let Some(Ok(prefixed)) = prefixed.map(HeaderValue::try_from) {
            response.headers_mut().insert(name, prefixed);
        }
    }
    let kind = response.headers().get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html")) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    match to_bytes(body, LONGEST_PAGE).await {
        Ok(page) => {
            let page = String::from_utf8_lossy(&page).replace("=\"/", &format!("=\"{prefix}/"));
            head.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(head, Body::from(page))
        }
        Err(error) => Problem::Inside(error.into()).into_response(),
    }
}
