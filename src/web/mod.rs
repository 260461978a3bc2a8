//! The HTTP server: pages, JSON API and live stream.

mod answer;
mod api;
mod assets;
mod compare;
mod connections;
mod costs;
mod drawing;
mod guard;
mod lists;
mod live;
mod login;
mod openapi;
mod pages;
mod tls;
mod zone;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::Redirect;
use axum::routing::{MethodRouter, get, post};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use tokio::sync::{Semaphore, broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use crate::config::Board;
use crate::fleet::Fleet;
use crate::present::Present;
use crate::requests::{AlertRequest, Request};
use crate::source::Reading;
use crate::store::StoreReader;

pub use api::{
    AcknowledgeAlert, AlertBody, AlertReply, CompareBody, DeviceBody, FiguresBody, ImportedJob,
    JobBody, JobReply, LONGEST_SILENCE, NoteJob, PhaseJob, PutJob, PutSilence, StatusBody,
    TestResult, VmBody, VolumeBody,
};
pub use connections::Listener;
pub use costs::Costs;
pub use guard::Access;
pub use live::MOST_STREAMS;
pub use tls::Tls;

use guard::Right;

/// The size limit for request bodies, except imported files.
const LONGEST_BODY: usize = 64 * 1024;

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Pages load scripts, styles and images from this site only.
const CONTENT_POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; \
    form-action 'self'; frame-ancestors 'none'";

/// The state of all handlers. Each layer clones it for each request, so it is behind one pointer.
pub type SharedSite = Arc<Site>;

/// What the handlers share.
pub struct Site {
    pub present: watch::Receiver<Option<Arc<Present>>>,
    pub store: StoreReader,
    /// Commands to the loop; `None` for a recording, whose jobs cannot be changed.
    pub commands: Option<mpsc::Sender<Request>>,
    pub alert_commands: mpsc::Sender<AlertRequest>,
    /// Commands that were carried out, as readings.
    pub accepted: broadcast::Sender<Arc<Reading>>,
    /// Who may read and change.
    pub access: watch::Receiver<Arc<Access>>,
    /// Whether the addresses of the site have HTTPS.
    pub has_tls: bool,
    /// The path under which a proxy serves the site; may be empty.
    pub prefix: Arc<str>,
    /// The board of this host in Grafana.
    pub grafana: Option<Arc<Board>>,
    /// Knows all servers, if it is configured.
    pub fleet: Option<Arc<Fleet>>,
    /// Places for live streams.
    pub streams: Arc<Semaphore>,
    /// Ends live streams.
    pub shutdown: CancellationToken,
    /// Cached costs of jobs.
    pub costs: Arc<Costs>,
    /// The banner; `None` unless this is a demo.
    pub demo: Option<Arc<Demo>>,
}

/// The whole site, also under its prefix.
pub fn router(site: SharedSite) -> Router {
    let at_root = finished(&site, "".into());
    if site.prefix.is_empty() {
        return at_root;
    }
    Router::new()
        .nest_service(&site.prefix, finished(&site, Arc::clone(&site.prefix)))
        .fallback_service(at_root)
}

/// All routes, each with the right that it needs.
fn routes(site: &SharedSite) -> Router<SharedSite> {
    let mut routes = guarded(site, Right::Usual, pages(site));
    for (right, described) in openapi::routes() {
        let described = Router::from(described).method_not_allowed_fallback(api::no_such_method);
        routes = routes.merge(guarded(site, right, described));
    }
    let public = Router::new()
        .route(login::PATH, get(login::ask).post(login::login))
        .route("/assets/{*path}", get(assets::asset));
    let undescribed = Router::new()
        .route("/api/v1/openapi.json", get(openapi::openapi))
        .route("/api/{*rest}", get(api::not_found))
        .method_not_allowed_fallback(api::no_such_method);
    routes = routes.merge(guarded(site, Right::Usual, undescribed));
    if site.demo.as_ref().is_some_and(|demo| demo.is_repeatable) {
        let again = Router::new().route("/demo/again", post(play_again));
        routes = routes.merge(guarded(site, Right::PlayAgain, again));
    }
    routes.merge(public)
}

/// Each page, and its changing part at the same address with [`pages::FRAGMENT`].
fn pages(site: &SharedSite) -> Router<SharedSite> {
    use pages::*;
    // The head of these may go out before the rest is drawn.
    let early = Pages::default()
        .with("/", get(overview::page))
        .with("/devices", get(devices::page))
        .with("/devices/{name}", get(device::page))
        .with("/volumes", get(volumes::page))
        .with("/groups/{vg}", get(volumes::group_page))
        .with("/volumes/{vg}", get(volumes::to_group))
        .with("/volumes/{vg}/{lv}", get(volume::page))
        .with("/alerts", get(alerts::page))
        .with("/backups", get(backups::page))
        .with("/servers", get(servers::page))
        .with("/status", get(status::page));
    // Whether a job exists, only the database knows.
    let whole = Pages::default()
        .with("/jobs", get(jobs::page))
        .with("/jobs/compare", get(compare::page))
        .with("/jobs/{id}", get(job::page));
    let fragments = early.fragments.merge(whole.fragments);
    let shared = (site.clone(), Arc::default());
    let draw_early = from_fn_with_state(site.clone(), pages::draw_early);
    let draw_whole = from_fn_with_state(site.clone(), pages::draw);
    let whole = whole.frames.fallback(pages::not_found).layer(draw_whole);
    let frames = whole.merge(early.frames.layer(draw_early));
    frames.merge(fragments.layer(from_fn_with_state(shared, drawing::share)))
}

#[derive(Default)]
struct Pages {
    frames: Router<SharedSite>,
    fragments: Router<SharedSite>,
}

impl Pages {
    fn with(self, page: &str, handler: MethodRouter<SharedSite>) -> Self {
        let fragment = format!("{}{}", page.trim_end_matches('/'), pages::FRAGMENT);
        Self {
            frames: self.frames.route(page, handler.clone()),
            fragments: self.fragments.route(&fragment, handler),
        }
    }
}

/// Lets only those through who have the right.
fn guarded(site: &SharedSite, right: Right, routes: Router<SharedSite>) -> Router<SharedSite> {
    routes.layer(from_fn_with_state((site.clone(), right), guard::check))
}

/// With what every response has.
fn finished(site: &SharedSite, prefix: Arc<str>) -> Router {
    routes(site)
        .layer(from_fn_with_state(prefix, zone::enter))
        .layer(from_fn(connections::limit_body_time))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(SetResponseHeaderLayer::if_not_present(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(CONTENT_POLICY),
        ))
        .layer(fixed_header(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(fixed_header(header::REFERRER_POLICY, "same-origin"))
        .layer(CompressionLayer::new())
        .layer(CatchPanicLayer::new())
        .with_state(site.clone())
}

fn fixed_header(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value))
}

/// What the banner of `cowbell demo` says.
#[derive(Clone)]
pub struct Demo {
    pub story: &'static str,
    pub speed: String,
    /// Whether it can be played again, which needs a new database.
    pub is_repeatable: bool,
}

/// Ends this site of a demo; the next one begins at once, at the same sockets.
async fn play_again(State(site): State<SharedSite>) -> Redirect {
    site.shutdown.cancel();
    Redirect::to(&zone::prefixed("/"))
}

/// Serves until the token is cancelled, and then completes pending responses.
pub async fn serve(listeners: Vec<Listener>, site: SharedSite) {
    let shutdown = site.shutdown.clone();
    if site.demo.is_some() {
        // The button leads to a page at once; until the first tick, its connection waits.
        let _ = site.present.clone().wait_for(Option::is_some).await;
    }
    connections::serve(listeners, router(site), shutdown).await;
}

/// Percent-encodes a part of an address.
pub fn escaped(part: &str) -> PercentEncode<'_> {
    utf8_percent_encode(part, RESERVED)
}

impl Site {
    /// The current state; 503 before the first tick.
    fn present(&self) -> Result<Arc<Present>, answer::Problem> {
        self.present.borrow().clone().ok_or_else(|| {
            answer::Problem::Unavailable("no tick has been taken yet; try again in a second".into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_escaped() {
        assert_eq!(escaped("a/b c?<é").to_string(), "a%2Fb%20c%3F%3C%C3%A9");
    }
}
