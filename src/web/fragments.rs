//! The changing part of a page, which every window that shows it requests at each tick.
//!
//! It is drawn and compressed once for all of them, so 50 windows cost little more than one.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::answer::{Problem, header_text};
use super::{SharedSite, drawing, zone};
use crate::present::Present;

/// Addresses whose fragment is held, about 15 KiB each. The one that was not requested for longest makes room.
const MOST_HELD: usize = 64;
/// What does not come with a tick, such as the cost of a job, is drawn anew after this.
const LIFETIME: Duration = Duration::from_millis(500);

/// The last fragment of each address.
#[derive(Default)]
pub struct Fragments(Mutex<HashMap<String, Place>>);

/// The lock is held while the fragment is drawn: other windows wait for it.
type Drawing = Arc<tokio::sync::Mutex<Option<Fragment>>>;

struct Place {
    requested: Instant,
    drawing: Drawing,
}

struct Fragment {
    present: Arc<Present>,
    drawn: Instant,
    is_gzip: bool,
    body: Bytes,
}

/// Answers with the fragment of this tick.
pub async fn share(
    State((site, fragments)): State<(SharedSite, Arc<Fragments>)>,
    request: Request,
    next: Next,
) -> Response {
    let Ok(present) = site.present() else {
        return next.run(request).await;
    };
    let takes_gzip = takes_gzip(request.headers());
    let address = format!("{} {takes_gzip} {}", request.uri(), zone::distinction());
    let drawing = fragments.place(address);
    let mut held = drawing.lock().await;
    if let Some(fragment) = &*held
        && Arc::ptr_eq(&fragment.present, &present)
        && fragment.drawn.elapsed() < LIFETIME
    {
        return fragment.response();
    }
    let drawn = drawing::on_a_thread(async move {
        let response = next.run(request).await;
        if response.status() != StatusCode::OK {
            return Err(response);
        }
        Fragment::of(response, present, takes_gzip)
            .await
            .map_err(|error| Problem::Inside(error).into_response())
    });
    match drawn.await {
        Ok(Ok(fragment)) => held.insert(fragment).response(),
        Ok(Err(response)) => response,
        Err(problem) => problem.into_response(),
    }
}

impl Fragments {
    fn place(&self, address: String) -> Drawing {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= MOST_HELD && !places.contains_key(&address) {
            let oldest = places.iter().min_by_key(|(_, place)| place.requested);
            if let Some(oldest) = oldest.map(|(address, _)| address.clone()) {
                places.remove(&oldest);
            }
        }
        let place = places.entry(address).or_insert_with(|| Place {
            requested: Instant::now(),
            drawing: Drawing::default(),
        });
        place.requested = Instant::now();
        Arc::clone(&place.drawing)
    }
}

impl Fragment {
    async fn of(response: Response, present: Arc<Present>, is_gzip: bool) -> anyhow::Result<Self> {
        let html = to_bytes(response.into_body(), usize::MAX).await?;
        let body = if is_gzip { gzip(&html)?.into() } else { html };
        Ok(Self {
            present,
            drawn: Instant::now(),
            is_gzip,
            body,
        })
    }

    fn response(&self) -> Response {
        let mut response = Html(Body::from(self.body.clone())).into_response();
        let headers = response.headers_mut();
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if self.is_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

fn gzip(html: &[u8]) -> io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(html)?;
    gzip.finish()
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let mut accepted = header_text(headers, header::ACCEPT_ENCODING).split(',');
    accepted.any(|name| name.trim() == "gzip")
}
