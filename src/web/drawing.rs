//! Pages are drawn on threads of their own: the one that answers requests has no time for that.
//!
//! The changing part of a page, which every window that shows it requests at each tick, is drawn and compressed once for
//! all of them, so 50 windows cost little more than one.

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
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::answer::{Problem, header_text};
use super::{SharedSite, zone};
use crate::present::Present;
use crate::store;

/// Pages that are drawn at a time. Few need the processor: most wait for the database.
const MOST_DRAWINGS: usize = 32;
/// Addresses whose fragment is held, about 15 KiB each. The one that was not requested for longest makes room.
const MOST_HELD: usize = 64;
/// What does not come with a tick, such as the cost of a job, is drawn anew after this.
const LIFETIME: Duration = Duration::from_millis(500);

/// Answers another request on a thread of its own.
pub async fn on_its_own_thread(request: Request, next: Next) -> Response {
    let answer = on_a_thread(next.run(request)).await;
    answer.unwrap_or_else(Problem::into_response)
}

/// Runs a handler that draws on a thread, so that `/healthz` and ticks of other windows need not wait for it.
pub async fn on_a_thread<T: Send + 'static>(
    drawing: impl Future<Output = T> + Send + 'static,
) -> Result<T, Problem> {
    static PLACES: Semaphore = Semaphore::const_new(MOST_DRAWINGS);
    let place = PLACES.acquire().await;
    let (runtime, drawing) = (Handle::current(), zone::keep(drawing));
    let drawn = store::on_a_thread(move || {
        let drawn = runtime.block_on(drawing);
        // The thread goes on if the client disconnects.
        drop(place);
        drawn
    });
    Ok(drawn.await?)
}

/// The last fragment of each address.
#[derive(Default)]
pub struct Fragments(Mutex<HashMap<String, HeldAddress>>);

/// The lock is held while the fragment is drawn: other windows wait for it.
type Drawing = Arc<tokio::sync::Mutex<Option<Fragment>>>;

struct HeldAddress {
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
    let drawn = on_a_thread(async move {
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
        let place = places.entry(address).or_insert_with(|| HeldAddress {
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
