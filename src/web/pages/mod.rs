//! Pages: a handler fetches, a struct holds, a template shows.
//!
//! The changing part of a page is a fragment, which the page requests at each tick: that of `/jobs/3` is at `/jobs/3/now`.

pub mod alerts;
pub mod backups;
mod charts;
pub mod compare;
pub mod device;
pub mod devices;
pub mod job;
mod job_cost;
pub mod jobs;
pub mod overview;
pub mod report;
mod scatter;
pub mod servers;
pub mod status;
mod text;
pub mod volume;
pub mod volumes;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use askama::Template;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::once;
use tokio::time::timeout;

use super::answer::{ParsedQuery, Partial, Problem, ProblemBody};
use super::guard::ChangeAccess;
use super::{Demo, SharedSite, Site, drawing, zone};
use crate::interval::{Interval, Work};
use crate::job::Job;
use crate::present::Present;
use crate::quantity::Quantity;
use crate::sentence::Sentence;
use crate::series::Range;
use crate::units::capital;
use crate::verdict::{Grade, Verdict};
use charts::{Charts, ChoiceLink, RangeTools, Sketch, View};
use jobs::JobTable;

const SERVERS: &str = "/servers";
/// The end of a fragment's address.
pub const FRAGMENT: &str = "/now";
/// Slightly shorter than a tick, so that no tick is skipped.
const SHORTEST_REFRESH_MS: u64 = 900;
/// Maximum age of the overview's verdict, even beside a chart of a week.
const LONGEST_REFRESH_MS: u64 = 30_000;
/// Visibly distinct points of a chart.
const VISIBLE_POINTS: u64 = 600;

/// A page that takes longer begins before it is complete.
const EARLY: Duration = Duration::from_millis(20);
/// How every page begins; the same for all.
const HEAD: &str = include_str!("../../../web/templates/head.html");

/// The frame around every page.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    content: &'a Content,
    fragment: &'a str,
    host: String,
    grade: Grade,
    changes: ChangeAccess,
    trigger: String,
    version: &'static str,
    /// The name of the reader's zone, as in the database of time zones.
    zone: String,
    theme: &'static str,
    has_fleet: bool,
    demo: Option<&'a Demo>,
}

impl Page<'_> {
    const PLACES: &'static [(&'static str, &'static str)] = &[
        ("Overview", "/"),
        ("Backups", "/backups"),
        ("Volumes", "/volumes"),
        ("Devices", "/devices"),
        ("Alerts", "/alerts"),
        ("Servers", SERVERS),
    ];

    /// That of all servers is there only if it is configured.
    fn places(&self) -> impl Iterator<Item = &(&str, &str)> {
        let places = Self::PLACES.iter();
        places.filter(|(_, href)| self.has_fleet || *href != SERVERS)
    }

    /// The breadcrumb: what is above this page.
    fn trail(&self) -> Vec<(&str, &str)> {
        let is_section = |(_, href): &&(&str, &str)| *href == self.content.place;
        let section = Self::PLACES.iter().find(is_section);
        let section = section.filter(|(name, _)| *name != self.content.title);
        let between = self.content.trail.iter();
        let between = between.map(|(name, href)| (&**name, &**href));
        section.copied().into_iter().chain(between).collect()
    }
}

/// What the handler of a page works with: the site, its last tick, and the query.
pub struct PageRequest {
    pub site: SharedSite,
    pub present: Arc<Present>,
    pub view: View,
}

impl FromRequestParts<SharedSite> for PageRequest {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, site: &SharedSite) -> Result<Self, Problem> {
        let ParsedQuery(view) = ParsedQuery::from_request_parts(parts, site).await?;
        Ok(Self {
            site: site.clone(),
            present: site.present()?,
            view,
        })
    }
}

/// The content of a page. As a response it is the fragment; [`frame`] makes a page of it.
#[derive(Clone, Default)]
pub struct Content {
    title: String,
    /// The page's address, or that of its section in the header.
    place: &'static str,
    /// `None` if nothing changes.
    refresh: Option<Refresh>,
    /// The pages between its section and it.
    trail: Links,
    /// HTML that stays.
    tools: String,
    /// HTML that changes.
    now: String,
}

type PageResult = Result<Content, Problem>;

impl Content {
    fn new(
        title: &str,
        place: &'static str,
        refresh: impl Into<Option<Refresh>>,
        now: &impl Template,
    ) -> PageResult {
        Ok(Self {
            title: title.into(),
            place,
            refresh: refresh.into(),
            now: shown(now)?,
            trail: Links::new(),
            tools: String::new(),
        })
    }

    fn below(self, trail: Links) -> Self {
        Self { trail, ..self }
    }

    fn with_tools(self, tools: &impl Template) -> PageResult {
        let tools = shown(tools)?;
        Ok(Self { tools, ..self })
    }

    /// With its heading, and what selects and sorts the rows of its tables.
    fn with_list_tools(self, tools: ListTools) -> PageResult {
        let title = self.title.clone();
        self.with_tools(&ListTools { title, ..tools })
    }
}

#[derive(Default, Template)]
#[template(path = "list_tools.html")]
struct ListTools {
    title: String,
    remark: &'static str,
    placeholder: &'static str,
    /// Rows without this text are left out.
    filter: String,
    /// The rest of the query.
    hidden_fields: Links,
    switches: Vec<ChoiceSwitch>,
}

struct ChoiceSwitch {
    name: &'static str,
    choices: Vec<ChoiceLink>,
}

/// A prominent number with its explanation.
struct KeyFigure {
    name: &'static str,
    value: String,
    detail: String,
}

impl KeyFigure {
    fn new(name: &'static str, value: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            name,
            value: value.into(),
            detail: detail.into(),
        }
    }
}

/// What was read and written in the last tick.
fn speeds(interval: &Interval, work: &Work, detail: &str) -> [KeyFigure; 2] {
    let figure = |name, quantity: Quantity| {
        let speed = text::rate(quantity.of_work(work, interval.elapsed_us));
        KeyFigure::new(name, speed, detail)
    };
    [
        figure("Read", Quantity::ReadBytes),
        figure("Written", Quantity::WrittenBytes),
    ]
}

/// Texts with their addresses, or names with their values.
type Links = Vec<(String, String)>;

/// The page of a device, a volume or a group that does not exist now: its history.
#[derive(Template)]
#[template(path = "gone.html")]
struct GonePage {
    name: String,
    description: &'static str,
    /// Of the last job of a snapshot.
    verdict: Option<Verdict>,
    notice: String,
    links: Links,
    history: History,
}

/// Charts over a range, with the tools that select it and its jobs.
struct History {
    ranges: RangeTools,
    charts: Charts,
    jobs: JobTable,
}

impl History {
    async fn new(
        request: &PageRequest,
        range: Range,
        jobs: &Partial<Vec<Job>>,
        sketches: Vec<Sketch>,
    ) -> Result<Self, Problem> {
        Ok(Self {
            ranges: request.view.ranges(range, &jobs.found),
            charts: charts::draw(request, range, &jobs.found, sketches).await?,
            jobs: JobTable::of(jobs, &request.present),
        })
    }
}

impl IntoResponse for Content {
    fn into_response(self) -> Response {
        let mut response = Html(zone::with_prefix(self.now.clone())).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// How often a page requests its changing part.
#[derive(Clone, Copy)]
pub enum Refresh {
    /// At each tick, but with this distance at least.
    EveryMs(u64),
    /// Once, at the width of the screen.
    Once,
}

impl Refresh {
    const EACH_TICK: Self = Self::EveryMs(SHORTEST_REFRESH_MS);

    /// Whenever a chart of this range has a new visible point.
    fn of_range(range: Range) -> Self {
        let point_ms = (range.seconds() * 1000.0) as u64 / VISIBLE_POINTS;
        Self::EveryMs(point_ms.clamp(SHORTEST_REFRESH_MS, LONGEST_REFRESH_MS))
    }

    fn every_ms(&self) -> Option<u64> {
        match self {
            Self::EveryMs(every_ms) => Some(*every_ms),
            Self::Once => None,
        }
    }

    fn trigger(self, has_charts: bool) -> String {
        // charts.js asks for another range or filter by `view`. Charts depend on their width, which only the browser
        // knows.
        let at_once = if has_charts { "load, view" } else { "view" };
        match self {
            Self::EveryMs(every_ms) => {
                format!("refresh from:body throttle:{every_ms}ms, seen from:body, {at_once}")
            }
            Self::Once => at_once.into(),
        }
    }
}

/// Draws a page on another thread than that which answers other requests.
pub async fn draw(State(site): State<SharedSite>, request: Request, next: Next) -> Response {
    let fragment = fragment_address(request.uri());
    let changes = site.access.borrow().changes(request.headers());
    let drawn = drawing::on_a_thread(async move {
        let response = next.run(request).await;
        dressed(&site, changes, &fragment, response)
    });
    drawn.await.unwrap_or_else(Problem::into_response)
}

/// The same. If it takes long, the head goes out first, so that the browser fetches styles and scripts meanwhile.
///
/// From then on a problem has status 200. Pages of this kind find their problems sooner.
pub async fn draw_early(state: State<SharedSite>, request: Request, next: Next) -> Response {
    let mut page = Box::pin(zone::keep(draw(state, request, next)));
    if let Ok(response) = timeout(EARLY, &mut page).await {
        return response;
    }
    let head = Bytes::from(zone::with_prefix(HEAD.into()));
    let length = head.len();
    let rest = async move {
        let page = to_bytes(page.await.into_body(), usize::MAX).await?;
        Ok::<Bytes, axum::Error>(page.slice(length.min(page.len())..))
    };
    let chunks = once(ready(Ok(head))).chain(once(rest));
    Html(Body::from_stream(chunks)).into_response()
}

/// `/jobs/3?from=-1h` → `/jobs/3/now?from=-1h`
fn fragment_address(page: &Uri) -> String {
    let path = page.path().trim_end_matches('/');
    let query = page.query().map(|query| format!("?{query}"));
    format!("{path}{FRAGMENT}{}", query.unwrap_or_default())
}

/// Content in its frame, or a page of a problem.
fn dressed(site: &Site, changes: ChangeAccess, fragment: &str, response: Response) -> Response {
    let extensions = response.extensions();
    if let Some(content) = extensions.get::<Content>() {
        return framed(site, changes, content, fragment).into_response();
    }
    let Some(ProblemBody { error }) = extensions.get::<ProblemBody>() else {
        return response;
    };
    let status = response.status();
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::BAD_REQUEST => "Invalid address",
        StatusCode::SERVICE_UNAVAILABLE => "Not available now",
        _ => "This did not work",
    };
    let sentence = format!("{}.", error.trim_end_matches('.'));
    let sentence = Sentence::with_commands(&capital(&sentence));
    let page = Content::new(title, "", None, &ProblemPage { title, sentence });
    match page.and_then(|page| framed(site, changes, &page, fragment)) {
        Ok(page) => (status, page).into_response(),
        Err(_) => response,
    }
}

fn framed(
    site: &Site,
    changes: ChangeAccess,
    content: &Content,
    fragment: &str,
) -> Result<Html<String>, Problem> {
    let (host, grade) = match site.present() {
        Ok(present) => (present.host.clone(), Verdict::of_host(&present).grade),
        Err(_) => (String::new(), Grade::Unknown),
    };
    let has_charts = content.now.contains("<figure>");
    let refresh = content.refresh;
    let page = shown(&Page {
        content,
        fragment,
        host,
        grade,
        changes,
        trigger: refresh.map_or_else(String::new, |refresh| refresh.trigger(has_charts)),
        version: env!("CARGO_PKG_VERSION"),
        zone: zone::name(),
        theme: zone::theme(),
        has_fleet: site.fleet.is_some(),
        demo: site.demo.as_deref(),
    })?;
    Ok(Html(zone::with_prefix(page)))
}

fn shown(template: &impl Template) -> Result<String, Problem> {
    template
        .render()
        .context("cannot fill in a template")
        .map_err(Problem::Inside)
}

pub async fn not_found() -> Problem {
    Problem::NotFound("Nothing is at this address. It may be mistyped, or outdated.".into())
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage {
    title: &'static str,
    sentence: Sentence,
}
