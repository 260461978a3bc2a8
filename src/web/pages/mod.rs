//! Pages: a handler fetches, a struct holds, a template shows.
//!
//! The changing part of a page is a fragment with an address of its own, which the page requests at each tick.

pub mod alerts;
mod charts;
pub mod compare;
pub mod device;
pub mod devices;
pub mod group;
pub mod job;
mod job_cost;
pub mod jobs;
pub mod overview;
mod phases;
mod relation;
pub mod report;
mod rows;
mod size;
pub mod status;
mod text;
pub mod volume;
pub mod volumes;

use std::future::ready;
use std::time::Duration;

use anyhow::Context;
use askama::Template;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream::once;
use jiff::Timestamp;
use tokio::time::timeout;

use super::answer::{Problem, ProblemBody};
use super::{Demo, Site, drawing, zone};
use crate::series::Range;
use crate::series::when::TimeQuery;
use crate::verdict::{Grade, Verdict};

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
    host: String,
    grade: Grade,
    trigger: String,
    version: &'static str,
    /// The name of the reader's zone, as in the database of time zones.
    zone: String,
    demo: Option<&'a Demo>,
}

impl Page<'_> {
    const PLACES: &'static [(&'static str, &'static str)] = &[
        ("Overview", "/"),
        ("Volumes", "/volumes"),
        ("Devices", "/devices"),
        ("Jobs", "/jobs"),
        ("Alerts", "/alerts"),
    ];
}

/// The content of a page. As a response it is the fragment; [`frame`] makes a page of it.
#[derive(Clone, Default)]
pub struct Content {
    title: String,
    /// The page's address, or that of its section in the header.
    place: &'static str,
    /// `None` if nothing changes.
    refresh: Option<Refresh>,
    /// HTML that stays.
    tools: String,
    /// HTML that changes.
    now: String,
}

type Answer = Result<Content, Problem>;

impl Content {
    fn new(
        title: &str,
        place: &'static str,
        refresh: Option<Refresh>,
        now: &impl Template,
    ) -> Answer {
        Ok(Self {
            title: title.into(),
            place,
            refresh,
            now: shown(now)?,
            tools: String::new(),
        })
    }
}

/// The heading of a page whose tables are filtered as one types.
#[derive(Template)]
#[template(path = "filter.html")]
struct Filter<'a> {
    title: &'a str,
    placeholder: &'static str,
}

impl Content {
    fn with_filter(self, placeholder: &'static str) -> Answer {
        let tools = shown(&Filter {
            title: &self.title,
            placeholder,
        })?;
        Ok(Self { tools, ..self })
    }
}

impl IntoResponse for Content {
    fn into_response(self) -> Response {
        let mut response = Html(zone::with_prefix(self.now.clone())).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// How a page requests its changing part.
#[derive(Clone)]
pub struct Refresh {
    url: String,
    /// The minimum distance of two requests; `None` for a single one, at the width of the screen.
    every_ms: Option<u64>,
}

impl Refresh {
    fn each_second(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            every_ms: Some(SHORTEST_REFRESH_MS),
        }
    }

    fn once(url: String) -> Self {
        Self {
            url,
            every_ms: None,
        }
    }

    /// Whenever a chart of this range has a new visible point.
    fn of_range(url: String, range: Range) -> Self {
        let point_ms = (range.seconds() * 1000.0) as u64 / VISIBLE_POINTS;
        Self {
            url,
            every_ms: Some(point_ms.clamp(SHORTEST_REFRESH_MS, LONGEST_REFRESH_MS)),
        }
    }

    fn trigger(&self, has_charts: bool) -> String {
        let each_tick = self
            .every_ms
            .map(|every_ms| format!("refresh from:body throttle:{every_ms}ms, seen from:body"));
        // charts.js asks for another range or filter by `view`. Charts depend on their width, which only the browser
        // knows.
        let at_once = if has_charts { "load, view" } else { "view" };
        each_tick
            .into_iter()
            .chain([at_once.to_string()])
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Draws a page on another thread than that which answers other requests.
pub async fn draw(State(site): State<Site>, request: Request, next: Next) -> Response {
    let drawn = drawing::on_a_thread(async move { dressed(&site, next.run(request).await) });
    drawn.await.unwrap_or_else(Problem::into_response)
}

/// The same. If it takes long, the head goes out first, so that the browser fetches styles and scripts meanwhile.
///
/// From then on a problem has status 200. Pages of this kind find their problems sooner.
pub async fn draw_early(state: State<Site>, request: Request, next: Next) -> Response {
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

/// Content in its frame, or a page of a problem.
fn dressed(site: &Site, response: Response) -> Response {
    let extensions = response.extensions();
    if let Some(content) = extensions.get::<Content>() {
        return framed(site, content).into_response();
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
    let problem = ProblemPage {
        title,
        sentence: error,
    };
    let page = Content::new(title, "", None, &problem);
    match page.and_then(|page| framed(site, &page)) {
        Ok(page) => (status, page).into_response(),
        Err(_) => response,
    }
}

fn framed(site: &Site, content: &Content) -> Result<Html<String>, Problem> {
    let present = site.present();
    let host = present
        .as_ref()
        .map(|present| present.host.clone())
        .unwrap_or_default();
    let grade = present.map_or(Grade::Unknown, |present| Verdict::of_host(&present).grade);
    let demo = site.demo.as_deref();
    let has_charts = content.now.contains("<figure>");
    let trigger = content
        .refresh
        .as_ref()
        .map(|refresh| refresh.trigger(has_charts))
        .unwrap_or_default();
    let zone = zone::name();
    shown(&Page {
        content,
        host,
        grade,
        trigger,
        version: env!("CARGO_PKG_VERSION"),
        zone,
        demo,
    })
    .map(|page| Html(zone::with_prefix(page)))
}

fn shown(template: &impl Template) -> Result<String, Problem> {
    template
        .render()
        .context("cannot fill in a template")
        .map_err(Problem::Inside)
}

/// The address of a fragment, with the query of its page.
fn fragment_url(path: &str, query: &str) -> String {
    if query.is_empty() {
        path.to_string()
    } else {
        format!("{path}?{query}")
    }
}

/// Whether the range moves as time goes on.
fn is_moving(span: &TimeQuery) -> bool {
    span.to
        .as_deref()
        .is_none_or(|to| to.trim().is_empty() || to == "now" || to.starts_with('-'))
}

pub async fn not_found() -> Problem {
    Problem::NotFound("Nothing is at this address. It may be mistyped, or outdated.".into())
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    title: &'a str,
    sentence: &'a str,
}

/// The time of day where the reader is, with the date if it is not today.
fn moment(at: Timestamp, now: Timestamp) -> String {
    let (at, now) = (zone::local(at), zone::local(now));
    let same_day = at.date() == now.date();
    at.strftime(if same_day {
        "%H:%M:%S"
    } else {
        "%-d %b %Y %H:%M"
    })
    .to_string()
}

/// With the zone, for a sentence.
fn zoned_moment(at: Timestamp, now: Timestamp) -> String {
    format!("{} {}", moment(at, now), zone_name(at))
}

/// The reader's zone in a few letters.
fn zone_name(at: Timestamp) -> String {
    zone::abbreviation(&zone::current(), at)
}

fn span_text(range: Range) -> String {
    let [from, to] = [range.from, range.to].map(zone::local);
    let [from_day, to_day] = [&from, &to].map(|at| at.strftime("%-d %b %Y").to_string());
    let until = if from_day == to_day {
        String::new()
    } else {
        format!("{to_day}, ")
    };
    format!(
        "{from_day}, {} to {until}{} {}",
        from.strftime("%H:%M"),
        to.strftime("%H:%M"),
        zone_name(range.to)
    )
}
