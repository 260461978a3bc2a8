//! `/alerts`: what was raised, and what is over.

use askama::Template;
use axum::extract::State;
use axum::response::Html;
use jiff::Timestamp;

use super::rows::seconds_between;
use super::{Answer, Content, Refresh, alert_list, framed, moment, shown, text};
use crate::alert::{Alert, Severity};
use crate::units::duration_text;
use crate::web::Site;
use crate::web::answer::{Partial, Problem};

const MOST_ALERTS: usize = 200;

#[derive(Template)]
#[template(path = "alerts.html")]
struct Alerts {
    alerts: Vec<Row>,
    missing: Option<String>,
}

struct Row {
    state: &'static str,
    grade: &'static str,
    /// What was raised, and of what.
    rule: &'static str,
    volume: String,
    sentence: Vec<(bool, String)>,
    raised: String,
    lasted: String,
}

pub async fn page(State(site): State<Site>) -> Answer {
    let now = now(&site).await?;
    let refresh = Some(Refresh::each_second("/alerts/list"));
    framed(&site, Content { title: "Alerts", place: "/alerts", refresh, tools: String::new(), now })
}

pub async fn fragment(State(site): State<Site>) -> Answer {
    now(&site).await.map(Html)
}

async fn now(site: &Site) -> Result<String, Problem> {
    let now = site.present()?.interval.at;
    let Partial { found, missing } = alert_list(site, MOST_ALERTS).await?;
    shown(&Alerts { alerts: found.into_iter().map(|alert| row(alert, now)).collect(), missing })
}

fn row(alert: Alert, now: Timestamp) -> Row {
    let (state, grade) = match (alert.cleared_at, alert.severity) {
        (Some(_), Severity::Critical) => ("over, was critical", "ok"),
        (Some(_), Severity::Warning) => ("over, was a warning", "ok"),
        (None, Severity::Critical) => ("critical", "critical"),
        (None, Severity::Warning) => ("warning", "warning"),
    };
    let end = alert.cleared_at.unwrap_or(now);
    Row {
        state,
        grade,
        rule: alert.rule.text(),
        volume: format!("{}/{}", alert.vg, alert.lv),
        raised: moment(alert.raised_at, now),
        lasted: duration_text(seconds_between(alert.raised_at, end)),
        sentence: text::with_commands(&alert.sentence),
    }
}
