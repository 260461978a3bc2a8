//! `/jobs`: all jobs of a span.

use askama::Template;
use axum::extract::State;

use super::charts::{RangeLink, View};
use super::rows::JobTable;
use super::{Answer, Content, Refresh, framed, is_moving, job_page, shown};
use crate::series::when::including_latest;
use crate::store::{JobPage, JobQuery};
use crate::web::Site;
use crate::web::answer::{ParsedQuery, Partial, Problem};

/// Jobs of a page.
const MOST_JOBS: usize = 200;
/// Backups come once a night: a week of them is what one wants to see.
const DEFAULT_SPAN: &str = "-7d";

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs {
    ranges: Vec<RangeLink>,
    span: String,
    jobs: JobTable,
    /// The address of the next page.
    older: Option<String>,
}

pub async fn page(State(site): State<Site>, ParsedQuery(view): ParsedQuery<View>) -> Answer {
    let now = now(&site, &view).await?;
    let url = super::fragment_url("/jobs/list", &view.query());
    let refresh = is_moving(&view.span()).then(|| Refresh::each_second(url));
    framed(&site, Content { title: "Jobs", place: "/jobs", refresh, tools: String::new(), now })
}

pub async fn fragment(State(site): State<Site>, ParsedQuery(view): ParsedQuery<View>) -> Answer {
    now(&site, &view).await.map(axum::response::Html)
}

async fn now(site: &Site, view: &View) -> Result<String, Problem> {
    let present = site.present()?;
    let view = view.or_from(DEFAULT_SPAN);
    let range = view.range(&present)?;
    let before = view.before.as_deref().map(str::parse).transpose().map_err(Problem::Bad)?;
    let query = JobQuery { before, ..JobQuery::of(including_latest(&view.span(), range)) };
    let Partial { found: JobPage { jobs, next }, missing } =
        job_page(site, &present, &query, MOST_JOBS).await?;
    let ranges = view.ranges(&present);
    let older = next.map(|next| format!("/jobs?{}", view.going_on(next.to_string()).query()));
    shown(&Jobs {
        ranges,
        span: super::span_text(range),
        jobs: JobTable::of(&Partial { found: jobs, missing }, present.interval.at),
        older,
    })
}
