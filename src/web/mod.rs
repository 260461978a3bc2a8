//! The HTTP server: pages, JSON API and live stream.

mod answer;
mod api;
mod assets;
mod compare;
mod connections;
mod costs;
mod demo;
mod fragments;
mod guard;
mod lists;
mod live;
mod login;
mod metrics;
mod openapi;
mod pages;
mod patch;
mod peer;
mod prefix;
mod slow;
mod zone;

use std::ops::Deref;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path};
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{from_fn, from_fn_with_state, map_response_with_state};
use axum::routing::{MethodRouter, get, post, put};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};
use tokio::sync::{Semaphore, broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use crate::commands::{AlertRequest, Request};
use crate::config::Board;
use crate::present::Present;
use crate::source::Reading;
use crate::store::StoreReader;

pub use api::{
    AcknowledgeAlert, AlertBody, AlertReply, CompareBody, DeviceBody, FiguresBody, ImportedJob,
    JobBody, JobReply, LONGEST_SILENCE, NoteJob, PhaseJob, PutJob, PutSilence, StatusBody,
    TestResult, VmBody, VolumeBody,
};
pub use connections::Listener;
pub use costs::Costs;
pub use demo::Demo;
pub use guard::Access;
pub use live::MOST_STREAMS;

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
#[derive(Clone)]
pub struct Site(Arc<SiteParts>);

impl From<SiteParts> for Site {
    fn from(parts: SiteParts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for Site {
    type Target = SiteParts;

    fn deref(&self) -> &SiteParts {
        &self.0
    }
}

/// What the handlers share.
pub struct SiteParts {
    pub present: watch::Receiver<Option<Arc<Present>>>,
    pub store: StoreReader,
    /// Commands to the loop; `None` for a recording, whose jobs cannot be changed.
    pub commands: Option<mpsc::Sender<Request>>,
    pub alert_commands: mpsc::Sender<AlertRequest>,
    /// Commands that were carried out, as readings.
    pub accepted: broadcast::Sender<Arc<Reading>>,
    /// Who may read and change.
    pub access: watch::Receiver<Arc<Access>>,
    /// The path under which a proxy serves the site; may be empty.
    pub prefix: Arc<str>,
    /// The board of this host in Grafana.
    pub grafana: Option<Arc<Board>>,
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
pub fn router(site: Site) -> Router {
    let routes = routes(&site);
    let at_root = finished(routes.clone(), &site);
    if site.prefix.is_empty() {
        return at_root;
    }
    let prefixed = routes.layer(map_response_with_state(
        Arc::clone(&site.prefix),
        prefix::add_prefix,
    ));
    Router::new()
        .nest_service(&site.prefix, finished(prefixed, &site))
        .fallback_service(at_root)
}

/// All routes.
fn routes(site: &Site) -> Router<Site> {
    // Each page with its changing part. A page of a job may be missing, which only the database knows.
    let (mut whole, mut early, mut fragments) = (Router::new(), Router::new(), Router::new());
    for (page, fragment, handler) in [
        ("/", "/overview", get(pages::overview::page)),
        ("/devices", "/devices/table", get(pages::devices::page)),
        (
            "/devices/{name}",
            "/devices/{name}/now",
            get(pages::device::page),
        ),
        ("/volumes", "/volumes/list", get(pages::volumes::page)),
        ("/groups/{vg}", "/groups/{vg}/now", get(pages::group::page)),
        (
            "/volumes/{vg}/{lv}",
            "/volumes/{vg}/{lv}/now",
            get(pages::volume::page),
        ),
        ("/jobs", "/jobs/list", get(pages::jobs::page)),
        (
            "/jobs/compare",
            "/jobs/compare/now",
            get(pages::compare::page),
        ),
        ("/jobs/{id}", "/jobs/{id}/now", get(pages::job::page)),
        ("/alerts", "/alerts/list", get(pages::alerts::page)),
        ("/status", "/status/now", get(pages::status::page)),
    ] {
        match page.starts_with("/jobs") {
            true => whole = whole.route(page, handler.clone()),
            false => early = early.route(page, handler.clone()),
        }
        fragments = fragments.route(fragment, handler);
    }
    if site.plays_again(demo::AGAIN) {
        fragments = fragments.route(demo::AGAIN, post(demo::play_again));
    }
    let pages = whole
        .layer(map_response_with_state(site.clone(), pages::frame))
        .merge(early.layer(from_fn_with_state(site.clone(), pages::begin_early)))
        .merge(fragments.layer(from_fn_with_state(
            (site.clone(), Arc::default()),
            fragments::share,
        )))
        .fallback(pages::not_found)
        .layer(map_response_with_state(site.clone(), pages::dress_problem))
        .layer(from_fn(zone::enter));
    let api = Router::new()
        .route("/api/v1/status", get(api::status))
        .route("/api/v1/devices", get(api::devices))
        .route("/api/v1/volumes", get(api::volumes))
        .route("/api/v1/volumes/{vg}/{lv}/size", get(api::size))
        .route("/api/v1/vm", get(api::vm))
        .route("/api/v1/jobs", get(api::jobs))
        .route(
            "/api/v1/jobs/{id}",
            get(api::job).put(api::put_job).delete(api::delete_job),
        )
        .route(
            "/api/v1/jobs/compare",
            get(api::compare).merge(put_job("compare")),
        )
        .route(
            "/api/v1/jobs/import",
            post(api::import_job).merge(put_job("import")),
        )
        .route(
            "/api/v1/jobs/report",
            get(pages::report::report).merge(put_job("report")),
        )
        .route("/api/v1/jobs/{id}/export", get(api::export_job))
        .route("/api/v1/jobs/{id}/accept", post(api::accept_job))
        .route("/api/v1/jobs/{id}/notes", post(api::note_job))
        .route("/api/v1/jobs/{id}/certificate", put(api::certify_job))
        .route("/api/v1/jobs/{id}/phases", post(api::phase_job))
        .route("/api/v1/jobs/{id}/figures", get(api::figures))
        .route("/api/v1/jobs/{id}/outlook", get(api::outlook))
        .route("/api/v1/alerts", get(api::alerts))
        .route("/api/v1/alerts/test", post(api::test_receivers))
        .route(
            "/api/v1/alerts/{id}/acknowledgement",
            put(api::acknowledge_alert).delete(api::withdraw_acknowledgement),
        )
        .route(
            "/api/v1/silences",
            get(api::silences)
                .put(api::put_silence)
                .delete(api::end_silence),
        )
        .route("/api/v1/series", get(api::series))
        .route("/api/v1/live", get(live::stream))
        .route("/api/v1/openapi.json", get(openapi::openapi))
        .route("/api/{*rest}", get(api::not_found))
        .route("/healthz", get(api::healthz))
        .route("/metrics", get(metrics::metrics))
        .route(
            login::PATH,
            get(async || login::page(None)).post(login::login),
        )
        .route("/assets/{*path}", get(assets::asset))
        .method_not_allowed_fallback(api::no_such_method);
    pages
        .merge(api)
        .layer(from_fn_with_state(site.clone(), guard::check_access))
}

/// With what every response has.
fn finished(routes: Router<Site>, site: &Site) -> Router {
    routes
        .layer(from_fn(slow::limit_body_time))
        .layer(DefaultBodyLimit::max(LONGEST_BODY))
        .layer(SetResponseHeaderLayer::if_not_present(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(CONTENT_POLICY),
        ))
        .layer(fixed_header(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(fixed_header(header::REFERRER_POLICY, "same-origin"))
        .layer(from_fn_with_state(
            Arc::<fragments::Texts>::default(),
            fragments::compare,
        ))
        .layer(CompressionLayer::new())
        .layer(CatchPanicLayer::new())
        .with_state(site.clone())
}

/// Accepts a mark whose key is the last part of another route.
fn put_job(key: &'static str) -> MethodRouter<Site> {
    put(move |site, client, body| api::put_job(site, client, Path(key.to_string()), body))
}

fn fixed_header(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::overriding(name, HeaderValue::from_static(value))
}

/// Serves until the token is cancelled, and then completes pending responses.
pub async fn serve(listeners: Vec<Listener>, site: Site) {
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
