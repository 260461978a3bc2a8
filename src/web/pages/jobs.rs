//! `/jobs`: all jobs of a range.

use askama::Template;
use axum::extract::State;

use super::charts::{RangeTools, View};
use super::rows::JobTable;
use super::{Answer, Content, Refresh, fragment_url, is_moving};
use crate::series::when::including_latest;
use crate::store::{JobPage, JobQuery};
use crate::web::Site;
use crate::web::answer::{ParsedQuery, Partial, Problem};

/// Jobs per page.
const MOST_JOBS: usize = 200;
/// A week of nightly backups.
const DEFAULT_SPAN: &str = "-7d";

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs {
    ranges: RangeTools,
    jobs: JobTable,
    /// The address of the next page.
    older: Option<String>,
}

pub async fn page(State(site): State<Site>, ParsedQuery(asked): ParsedQuery<View>) -> Answer {
    let present = site.present()?;
    let view = asked.or_from(DEFAULT_SPAN);
    let range = view.range(&present)?;
    let before = view
        .before
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(Problem::Bad)?;
    let query = JobQuery {
        before,
        ..JobQuery::of(including_latest(&view.span(), range))
    };
    let Partial {
        found: JobPage { jobs, next },
        missing,
    } = site.job_page(&query, MOST_JOBS).await?;
    let older = next.map(|next| {
        View {
            before: Some(next.to_string()),
            ..view.clone()
        }
        .query()
    });
    let url = fragment_url("/jobs/list", &asked.query());
    let refresh = is_moving(&asked.span()).then(|| Refresh::each_second(url));
    let page = Jobs {
        ranges: view.ranges(range, &[]),
        jobs: JobTable::of(
            &Partial {
                found: jobs,
                missing,
            },
            &present,
        ),
        older: older.map(|query| format!("/jobs?{query}")),
    };
    Content::new("Jobs", "/jobs", refresh, &page)?.with_filter("name, origin or outcome")
}
