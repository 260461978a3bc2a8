//! A report as one self-contained HTML file: a job's page, or a comparison followed by the pages of its jobs.
//!
//! It contains the style sheet and SVG charts, and neither scripts nor links, nor the numbers that scripts need.

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use super::charts::View;
use super::{PageRequest, compare, job, shown};
use crate::job::Job;
use crate::web::SharedSite;
use crate::web::answer::{ParsedQuery, Problem, QueryPairs};
use crate::web::assets::STYLE;
use crate::web::compare::Choice;

/// The same policy as in the file itself.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'";
/// With more jobs, the report contains only their comparison.
const MOST_WHOLE: usize = 8;

#[derive(Template)]
#[template(path = "report.html")]
struct ReportPage {
    title: String,
    host: String,
    made: String,
    version: &'static str,
    style: &'static str,
    sections: Vec<String>,
}

/// Jobs as one self-contained HTML file.
#[utoipa::path(get, path = "/api/v1/jobs/report", tag = "jobs",
    params(("ids" = Option<String>, Query, description = "IDs of jobs, separated by commas"), ("set" = Option<String>, Query, description = "All jobs of this set")),
    responses((status = 200, description = "A self-contained HTML file", content_type = "text/html", body = String), (status = 404, body = crate::web::answer::ProblemBody)))]
pub async fn report(
    State(site): State<SharedSite>,
    ParsedQuery(query): ParsedQuery<QueryPairs>,
) -> Result<Response, Problem> {
    let choice = Choice::of(&query)?;
    let (jobs, _) = choice.jobs(&site).await?;
    let request = PageRequest {
        present: site.present()?,
        site,
        view: View::default(),
    };
    let PageRequest { site, present, .. } = &request;
    let mut sections = Vec::new();
    if jobs.len() > 1 {
        let compared = site.compared(&choice).await?;
        sections.push(compare::html(&compared, &choice, present)?);
    }
    for job in jobs.iter().filter(|_| jobs.len() <= MOST_WHOLE) {
        sections.push(job::whole(&request, job).await?);
    }
    let at = present.interval.at.strftime("%-d %b %Y, %H:%M UTC");
    let report = shown(&ReportPage {
        title: title(&choice, &jobs),
        host: present.host.clone(),
        made: format!("as of {at}"),
        version: env!("CARGO_PKG_VERSION"),
        style: STYLE,
        sections: sections
            .iter()
            .map(|section| without_links_and_numbers(section))
            .collect(),
    })?;
    let kind = (
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    let policy = (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(POLICY),
    );
    Ok(([kind, policy], report).into_response())
}

fn title(choice: &Choice, jobs: &[Job]) -> String {
    match (choice.set(), jobs) {
        (Some(set), _) => set.into(),
        (None, [job]) => format!("{} (job {})", job.name, job.id),
        _ => format!("{} jobs compared", jobs.len()),
    }
}

/// Removes links, which would lead nowhere, and the numbers of charts. Quotation marks and angle brackets in text are
/// escaped, so only real attributes and elements match.
fn without_links_and_numbers(html: &str) -> String {
    let unlinked = without(html, " href=\"", "\"");
    without(&unlinked, "<metadata>", "</metadata>")
}

/// Removes what stands between these, and themselves.
fn without(html: &str, start: &str, end: &str) -> String {
    let mut parts = html.split(start);
    let mut text = parts.next().unwrap_or_default().to_string();
    for part in parts {
        text.push_str(part.split_once(end).map_or(part, |(_, rest)| rest));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_plain_text_and_numbers_go() {
        for (html, expected) in [
            (
                r#"a <a href="/jobs/1">b</a><a class="k" href="/x" tabindex="-1">c</a>"#,
                r#"a <a>b</a><a class="k" tabindex="-1">c</a>"#,
            ),
            ("<svg><metadata>{1,2}</metadata></svg>", "<svg></svg>"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(without_links_and_numbers(html), expected);
        }
    }
}
