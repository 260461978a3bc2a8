//! `/alerts`: open and cleared alerts.

use askama::Template;
use axum::extract::State;
use jiff::Timestamp;
use serde::Deserialize;

use super::{Answer, Content, Refresh, fragment_url, moment};
use crate::alert::{Alert, Severity};
use crate::series::Range;
use crate::table::{Cell, Column, Table};
use crate::units::duration_text;
use crate::web::Site;
use crate::web::answer::{ParsedQuery, Partial};

/// Alerts per page.
const MOST_ALERTS: usize = 200;

#[derive(Template)]
#[template(path = "alerts.html")]
struct Alerts {
    alerts: Table,
    missing: Option<String>,
    /// The address of the next page.
    older: Option<String>,
}

#[derive(Deserialize)]
pub struct AlertsView {
    /// Alerts with lower IDs are listed.
    before: Option<i64>,
}

pub async fn page(State(site): State<Site>, ParsedQuery(view): ParsedQuery<AlertsView>) -> Answer {
    let now = site.present()?.interval.at;
    let (Partial { found: alerts, missing }, next) = site.alert_page(view.before, MOST_ALERTS).await?;
    let columns = [
        Column::text("State"),
        Column::text("Rule").class("less"),
        Column::text("Volume").class("less"),
        Column::text("Message"),
        Column::text("Raised (UTC)"),
        Column::number("Duration").class("less"),
    ];
    let rows = alerts.iter().map(|alert| row(alert, now));
    let query = view.before.map_or_else(String::new, |before| format!("before={before}"));
    let refresh = Refresh::each_second(fragment_url("/alerts/list", &query));
    let alerts = Table::new("The latest first", columns, rows);
    let older = next.map(|next| format!("/alerts?before={next}"));
    Content::new("Alerts", "/alerts", Some(refresh), &Alerts { alerts, missing, older })
}

fn row(alert: &Alert, now: Timestamp) -> Vec<Cell> {
    let (state, grade) = match (alert.cleared_at, alert.severity) {
        (Some(_), Severity::Critical) => ("cleared, was critical", "ok"),
        (Some(_), Severity::Warning) => ("cleared, was a warning", "ok"),
        (None, Severity::Critical) => ("critical", "critical"),
        (None, Severity::Warning) => ("warning", "warning"),
    };
    let open = Range { from: alert.raised_at, to: alert.cleared_at.unwrap_or(now) };
    vec![
        Cell::state(state, grade),
        alert.rule.text().into(),
        format!("{}/{}", alert.vg, alert.lv).into(),
        Cell::sentence(&alert.sentence),
        moment(alert.raised_at, now).into(),
        duration_text(open.seconds()).into(),
    ]
}
