//! Pages: each is a struct that its template shows, inside one frame. The part that changes with every tick is a
//! fragment of its own, which the page asks for again when a tick came.

pub mod alerts;
mod charts;
pub mod compare;
pub mod device;
pub mod devices;
pub mod job;
mod job_cost;
mod job_ran;
pub mod jobs;
pub mod overview;
mod phases;
pub mod report;
mod rows;
pub mod status;
mod text;
pub mod volume;
pub mod volumes;

pub use text::escaped;

use anyhow::Context;
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use jiff::Timestamp;

use super::Site;
use super::answer::{Partial, Problem, ProblemBody};
use crate::alert::Alert;
use crate::job::Job;
use crate::present::Present;
use crate::series::Range;
use crate::series::when::TimeQuery;
use crate::source::own::own_cost;
use crate::store::{JobPage, JobPlace, JobQuery};
use crate::units::{Prefix, bytes_text};

/// A little less than a tick, so that none is missed.
const SHORTEST_REFRESH_MS: u64 = 900;
/// The verdict is on the same page as a chart of a week: it is never older than this.
const LONGEST_REFRESH_MS: u64 = 30_000;
/// Points of a chart that an eye tells apart.
const POINTS_TO_SEE: u64 = 600;

/// The frame around every page.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: &'a str,
    host: String,
    /// The address of the page in the header that this one belongs to.
    place: &'a str,
    /// Where and how often the changing part is asked for again; `None` where nothing changes.
    refresh: Option<Refresh>,
    trigger: String,
    /// HTML that stays.
    tools: String,
    /// HTML that changes.
    now: String,
    version: &'static str,
    /// What the program itself costs.
    cost: String,
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

/// What a page puts into the frame.
struct Content<'a> {
    title: &'a str,
    place: &'a str,
    refresh: Option<Refresh>,
    tools: String,
    now: String,
}

/// How the changing part of a page is asked for again.
pub struct Refresh {
    url: String,
    /// At most once in so long, however often a tick comes; `None` for once, at the width of the screen.
    every_ms: Option<u64>,
}

impl Refresh {
    /// With each tick that comes a second after the last.
    fn each_second(url: impl Into<String>) -> Self {
        Self { url: url.into(), every_ms: Some(SHORTEST_REFRESH_MS) }
    }

    /// Of what does not change any more.
    fn once(url: String) -> Self {
        Self { url, every_ms: None }
    }

    fn trigger(&self, has_charts: bool) -> String {
        let each_tick = self.every_ms.map(|every_ms| format!("refresh from:body throttle:{every_ms}ms"));
        // Charts are drawn for the width at which they are shown, which only the browser knows.
        let at_once = has_charts.then(|| "load".to_string());
        [each_tick, at_once].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// As often as a chart of the range has a new point to show: a day's chart is not drawn each second.
    fn of_range(url: String, range: Range) -> Self {
        let a_point_ms = (range.seconds() * 1000.0) as u64 / POINTS_TO_SEE;
        Self { url, every_ms: Some(a_point_ms.clamp(SHORTEST_REFRESH_MS, LONGEST_REFRESH_MS)) }
    }
}

type Answer = Result<Html<String>, Problem>;

fn framed(site: &Site, content: Content) -> Answer {
    let host = site.present().map(|present| present.host.clone()).unwrap_or_default();
    let has_charts = content.now.contains("<figure>");
    shown(&Page {
        title: content.title,
        host,
        place: content.place,
        trigger: content.refresh.as_ref().map(|refresh| refresh.trigger(has_charts)).unwrap_or_default(),
        refresh: content.refresh,
        tools: content.tools,
        now: content.now,
        version: env!("CARGO_PKG_VERSION"),
        cost: cost(),
    })
    .map(Html)
}

fn shown(template: &impl Template) -> Result<String, Problem> {
    template.render().context("cannot fill in a template").map_err(Problem::Inside)
}

fn cost() -> String {
    let own = own_cost();
    let bytes =
        |bytes: Option<u64>| text::or_dash(bytes.map(|bytes| bytes_text(bytes as f64, Prefix::Binary)));
    let cpu = text::or_dash(own.cpu_seconds.map(|seconds| format!("{seconds:.1} s")));
    format!("{cpu} of CPU, {} of memory, {} written to disk", bytes(own.rss_bytes), bytes(own.written_bytes))
}

/// The address of a fragment: its path, with the query that the page was asked with.
fn fragment_url(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_string() } else { format!("{path}?{query}") }
}

/// Whether a page of this span changes as time goes on.
fn is_moving(span: &TimeQuery) -> bool {
    span.to.as_deref().is_none_or(|to| to.trim().is_empty() || to == "now" || to.starts_with('-'))
}

/// The job of this number, as it is now or as it was kept.
pub async fn job_numbered(site: &Site, id: i64) -> Result<Option<Job>, Problem> {
    let present = site.present()?;
    match present.jobs.iter().find(|job| job.id == id) {
        Some(job) => Ok(Some(Job::clone(job))),
        None => Ok(site.store.job(id).await?),
    }
}

/// The jobs that are wanted, the latest first: those in memory as they are now, the others as they were stored.
pub async fn job_page(
    site: &Site,
    present: &Present,
    query: &JobQuery,
    most: usize,
) -> Result<Partial<JobPage>, Problem> {
    let stored = site.store.jobs(query, most).await;
    let what = "of jobs there are only those that run and the last ones that ended";
    let Partial { found: JobPage { mut jobs, next }, missing } =
        Partial::or_from_memory(stored, JobPage::default, what)?;
    jobs.retain(|stored| present.jobs.iter().all(|job| job.id != stored.id));
    jobs.extend(present.jobs.iter().filter(|job| query.matches(job)).map(|job| Job::clone(job)));
    jobs.sort_by_key(|job| std::cmp::Reverse(JobPlace::of(job)));
    let is_too_long = jobs.len() > most;
    jobs.truncate(most);
    let next = if is_too_long { jobs.last().map(JobPlace::of) } else { next };
    Ok(Partial { found: JobPage { jobs, next }, missing })
}

/// The same without a next page.
pub async fn job_list(
    site: &Site,
    present: &Present,
    query: &JobQuery,
    most: usize,
) -> Result<Partial<Vec<Job>>, Problem> {
    let Partial { found, missing } = job_page(site, present, query, most).await?;
    Ok(Partial { found: found.jobs, missing })
}

/// The same, without those that ran on other hosts: what is drawn of this one has nothing of them.
pub async fn own_job_list(
    site: &Site,
    present: &Present,
    range: Range,
    most: usize,
) -> Result<Partial<Vec<Job>>, Problem> {
    let mut jobs = job_list(site, present, &JobQuery::of(range), most).await?;
    jobs.found.retain(|job| !job.is_imported());
    Ok(jobs)
}

/// Alerts, the latest first: those that are raised now as they are now, the others as they were kept.
pub async fn alert_list(site: &Site, most: usize) -> Result<Partial<Vec<Alert>>, Problem> {
    let present = site.present()?;
    let kept = site.store.alerts(most).await;
    let what = "of alerts there are only those that are raised now";
    let Partial { found: mut alerts, missing } = Partial::or_from_memory(kept, Vec::new, what)?;
    for alert in &present.alerts {
        alerts.retain(|kept| kept.id != alert.id);
        alerts.push(alert.clone());
    }
    alerts.sort_by_key(|alert| std::cmp::Reverse((alert.raised_at, alert.id)));
    alerts.truncate(most);
    Ok(Partial { found: alerts, missing })
}

pub async fn not_found() -> Problem {
    Problem::NotFound("Nothing is at this address. It may be mistyped, or what was here is gone.".into())
}

#[derive(Template)]
#[template(path = "problem.html")]
struct ProblemPage<'a> {
    title: &'a str,
    sentence: &'a str,
}

/// Makes a page of a problem's sentence.
pub async fn dress_problem(State(site): State<Site>, response: Response) -> Response {
    let Some(ProblemBody { error }) = response.extensions().get::<ProblemBody>().cloned() else {
        return response;
    };
    let status = response.status();
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::BAD_REQUEST => "This address cannot be understood",
        StatusCode::SERVICE_UNAVAILABLE => "Not known now",
        _ => "This did not work",
    };
    let page = shown(&ProblemPage { title, sentence: &error }).and_then(|now| {
        framed(&site, Content { title, place: "", refresh: None, tools: String::new(), now })
    });
    match page {
        Ok(page) => (status, page).into_response(),
        Err(_) => response,
    }
}

/// The time of day, with the day where that is another one than now's.
fn moment(at: Timestamp, now: Timestamp) -> String {
    let same_day = at.as_second().div_euclid(86_400) == now.as_second().div_euclid(86_400);
    at.strftime(if same_day { "%H:%M:%S" } else { "%-d %b %Y %H:%M" }).to_string()
}

/// A span of time, in words.
fn span_text(range: Range) -> String {
    let day = "%-d %b %Y";
    let (from, to) = (range.from, range.to);
    let from_day = from.strftime(day).to_string();
    let to_day = to.strftime(day).to_string();
    let until = if from_day == to_day { String::new() } else { format!("{to_day}, ") };
    format!("{from_day}, {} to {until}{} UTC", from.strftime("%H:%M"), to.strftime("%H:%M"))
}
