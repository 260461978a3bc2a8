//! Fragments of live pages: one rendering for all windows, and only what changed for a window that has the one before.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::response::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::answer::Problem;
use super::patch::patch;
use super::{Site, zone};
use crate::present::Present;

/// In a request, what the page shows; in a response, what it will show.
const RENDERING: HeaderName = HeaderName::from_static("x-rendering");
/// The rendering that a response is to be applied to.
const PATCH_OF: HeaderName = HeaderName::from_static("x-patch-of");
/// Renderings that are kept, of as many addresses.
const MOST: usize = 64;
/// Longer ones are not compared.
const LONGEST: usize = 1024 * 1024;
/// What does not come with a tick, such as the cost of a job, is new after this.
const FRESH: Duration = Duration::from_millis(500);

/// Values by address and time zone; the one that was not used for longest makes room.
struct Kept<T>(Mutex<HashMap<String, (Instant, Arc<T>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Default> Kept<T> {
    fn of(&self, request: &Request) -> Arc<T> {
        let (zone, is_on_telephone) = zone::reader_of(request.headers());
        let address = format!(
            "{} {} {is_on_telephone}",
            request.uri(),
            zone.unwrap_or_default()
        );
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST && !kept.contains_key(&address) {
            let oldest = kept
                .iter()
                .min_by_key(|(_, (used, _))| *used)
                .map(|(address, _)| address.clone());
            oldest.and_then(|oldest| kept.remove(&oldest));
        }
        let (used, value) = kept
            .entry(address)
            .or_insert_with(|| (Instant::now(), Arc::default()));
        *used = Instant::now();
        Arc::clone(value)
    }
}

/// The hash of a rendering's text, so that it is the same after a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Number(u64);

impl Number {
    fn of(text: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        Self(hasher.finish())
    }

    fn header(self) -> HeaderValue {
        HeaderValue::try_from(format!("{:016x}", self.0)).unwrap_or(HeaderValue::from_static(""))
    }
}

/// The last rendering of each fragment.
#[derive(Default)]
pub struct Renderings(Kept<tokio::sync::Mutex<Option<Rendering>>>);

struct Rendering {
    present: Arc<Present>,
    at: Instant,
    number: Number,
    text: Bytes,
}

/// Renders a fragment once for all requests of a tick.
pub async fn share(
    State((site, renderings)): State<(Site, Arc<Renderings>)>,
    request: Request,
    next: Next,
) -> Response {
    let (true, Ok(present)) = (request.headers().contains_key(RENDERING), site.present()) else {
        return next.run(request).await;
    };
    let slot = renderings.0.of(&request);
    let mut last = slot.lock().await;
    let is_of =
        |last: &&Rendering| Arc::ptr_eq(&last.present, &present) && last.at.elapsed() < FRESH;
    if let Some(last) = last.as_ref().filter(is_of) {
        let mut response = Html(last.text.clone()).into_response();
        response.extensions_mut().insert(last.number);
        return response;
    }
    let response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let (mut head, text) = match read(response).await {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let number = Number::of(&text);
    head.extensions.insert(number);
    *last = Some(Rendering {
        present,
        at: Instant::now(),
        number,
        text: text.clone(),
    });
    Response::from_parts(head, Body::from(text))
}

/// The last two texts of each address.
#[derive(Default)]
pub struct Texts(Kept<Mutex<LastTwo>>);

#[derive(Default)]
struct LastTwo {
    before: Option<(Number, Bytes)>,
    now: Option<(Number, Bytes)>,
    /// To the last text, from the one before.
    patch: Option<Patch>,
}

/// As JSON, also compressed once for all windows.
#[derive(Clone)]
struct Patch {
    plain: Bytes,
    gzip: Bytes,
}

/// Sends a patch to a window that has the rendering before.
pub async fn compare(State(texts): State<Arc<Texts>>, request: Request, next: Next) -> Response {
    let Some(shown) = request.headers().get(RENDERING).cloned() else {
        return next.run(request).await;
    };
    let (last, takes_gzip) = (texts.0.of(&request), takes_gzip(request.headers()));
    let response = next.run(request).await;
    let Some(number) = response.extensions().get::<Number>().copied() else {
        return response;
    };
    let is_known = lock(&last).is_now(number);
    let (mut head, text) = if is_known {
        (response.into_parts().0, Bytes::new())
    } else {
        match read(response).await {
            Ok(read) => read,
            Err(problem) => return problem.into_response(),
        }
    };
    let mut last = lock(&last);
    if !is_known {
        last.add(number, text);
    }
    head.headers.insert(RENDERING, last.number());
    head.headers.remove(header::CONTENT_LENGTH);
    match last.patch_from(&shown) {
        Some(patch) => patch.response(head, shown, takes_gzip),
        None => Response::from_parts(head, Body::from(last.text())),
    }
}

fn lock(last: &Mutex<LastTwo>) -> std::sync::MutexGuard<'_, LastTwo> {
    last.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LastTwo {
    fn is_now(&self, number: Number) -> bool {
        self.now.as_ref().is_some_and(|(now, _)| *now == number)
    }

    fn add(&mut self, number: Number, text: Bytes) {
        if self.is_now(number) {
            return;
        }
        self.before = self.now.replace((number, text));
        self.patch = match (&self.before, &self.now) {
            (Some((_, before)), Some((_, now))) => Patch::between(before, now),
            _ => None,
        };
    }

    fn number(&self) -> HeaderValue {
        self.now
            .as_ref()
            .map(|(number, _)| *number)
            .unwrap_or_default()
            .header()
    }

    fn text(&self) -> Bytes {
        self.now
            .as_ref()
            .map(|(_, text)| text.clone())
            .unwrap_or_default()
    }

    /// From what is shown to the last text, if what is shown is known.
    fn patch_from(&self, shown: &HeaderValue) -> Option<Patch> {
        let is = |text: &Option<(Number, Bytes)>| {
            text.as_ref()
                .is_some_and(|(number, _)| number.header() == *shown)
        };
        if is(&self.now) {
            return Patch::between(&self.text(), &self.text());
        }
        self.patch.clone().filter(|_| is(&self.before))
    }
}

impl Patch {
    /// `None` for texts that are too long.
    fn between(before: &[u8], now: &[u8]) -> Option<Self> {
        let texts = [before, now].map(std::str::from_utf8);
        let [Ok(before), Ok(now)] = texts else {
            return None;
        };
        if before.len().max(now.len()) > LONGEST {
            return None;
        }
        let plain = serde_json::to_vec(&patch(before, now)).ok()?;
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&plain).ok()?;
        Some(Self {
            plain: plain.into(),
            gzip: gzip.finish().ok()?.into(),
        })
    }

    fn response(self, head: Parts, shown: HeaderValue, takes_gzip: bool) -> Response {
        let body = if takes_gzip { self.gzip } else { self.plain };
        let mut response = Response::from_parts(head, Body::from(body));
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.insert(PATCH_OF, shown);
        if takes_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers
        .get(header::ACCEPT_ENCODING)
        .and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.split(',').any(|name| name.trim() == "gzip"))
}

async fn read(response: Response) -> Result<(Parts, Bytes), Problem> {
    let (mut head, body) = response.into_parts();
    head.headers.remove(header::CONTENT_LENGTH);
    let text = to_bytes(body, usize::MAX)
        .await
        .map_err(|error| Problem::Inside(error.into()))?;
    Ok((head, text))
}
