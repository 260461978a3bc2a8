//! `/alerts`: what was raised, and what is over.

use askama::Template;
use axum::extract::State;
use axum::response::Html;
use jiff::Timestamp;

use super::rows::seconds_between;
use super::{Answer, Content, Refresh, alert_list, framed, moment, shown};
use crate::alert::{Alert, Severity};
use crate::table::{Cell, Column, Table};
use crate::units::duration_text;
use crate::web::Site;
use crate::web::answer::{Partial, Problem};

const MOST_ALERTS: usize = 200;

#[derive(Template)]
#[template(path = "alerts.html")]
struct Alerts {
    alerts: Table,
    missing: Option<String>,
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
    let columns = [
        Column::text("State"),
        Column::text("Rule").class("less"),
        Column::text("Volume").class("less"),
        Column::text("What"),
        Column::text("Raised (UTC)"),
        Column::number("Lasted").class("less"),
    ];
    let rows = found.iter().map(|alert| row(alert, now));
    shown(&Alerts { alerts: Table::new("The latest first", columns, rows), missing })
}

fn row(alert: &Alert, now: Timestamp) -> Vec<Cell> {
    let (state, grade) = match (alert.cleared_at, alert.severity) {
        (Some(_), Severity::Critical) => ("over, was critical", "ok"),
        (Some(_), Severity::Warning) => ("over, was a warning", "ok"),
        (None, Severity::Critical) => ("critical", "critical"),
        (None, Severity::Warning) => ("warning", "warning"),
    };
    let end = alert.cleared_at.unwrap_or(now);
    vec![
        Cell::state(state, grade),
        alert.rule.text().into(),
        format!("{}/{}", alert.vg, alert.lv).into(),
        Cell::sentence(&alert.sentence),
        moment(alert.raised_at, now).into(),
        duration_text(seconds_between(alert.raised_at, end)).into(),
    ]
}
