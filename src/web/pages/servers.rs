//! `/servers`: every host that cowbell runs on, the worst first, if `[fleet]` names a Prometheus that has their metrics.

use askama::Template;
use axum::extract::State;
use jiff::Timestamp;

use super::text::moment;
use super::{Content, PageResult, Refresh, SERVERS};
use crate::fleet::{FleetHost, headline};
use crate::job::history::seconds_between;
use crate::sentence::Sentence;
use crate::table::{Bar, Cell, Column, Table};
use crate::units::{capital, percent_text, rough_text};
use crate::verdict::Grade;
use crate::web::SharedSite;
use crate::web::answer::Problem;

/// As often as the engine is asked.
const EVERY_MS: u64 = 15_000;

#[derive(Template)]
#[template(path = "servers.html")]
struct ServersPage {
    headline: String,
    /// Of the worst.
    grade: Grade,
    servers: Table,
    /// Why they are unknown.
    problem: Option<Sentence>,
}

pub async fn page(State(site): State<SharedSite>) -> PageResult {
    let Some(fleet) = &site.fleet else {
        return Err(Problem::NotFound(
            "this page needs `[fleet]` in the configuration, with `prometheus = \"http://…\"`"
                .into(),
        ));
    };
    // The engine's times are of now, also beside a recording.
    let now = crate::source::clock::now();
    let page = match fleet.servers(now).await {
        Ok(servers) => ServersPage {
            headline: headline(&servers),
            grade: servers
                .iter()
                .map(|server| server.grade)
                .max()
                .unwrap_or(Grade::Unknown),
            servers: table(servers, now),
            problem: None,
        },
        Err(error) => ServersPage {
            headline: "The servers are not known".into(),
            grade: Grade::Unknown,
            servers: table(Vec::new(), now),
            problem: Some(Sentence::with_commands(&format!("{}.", capital(&error)))),
        },
    };
    Content::new("Servers", SERVERS, Refresh::EveryMs(EVERY_MS), &page)
}

fn table(servers: Vec<FleetHost>, now: Timestamp) -> Table {
    let fill = |fullest: &Option<(String, f64)>| {
        let Some((volume, percent)) = fullest else {
            return Cell::default();
        };
        let bar = Bar::of_fill(*percent, Grade::Ok.text());
        let cell = Cell::default().bar(bar).then(percent_text(*percent));
        cell.small(volume)
    };
    Table::of("Servers", servers)
        .column(Column::name("Server"), |server| match &server.href {
            Some(href) => Cell::link(&server.name, href),
            None => server.name.as_str().into(),
        })
        .column(Column::text("State"), |server| {
            let word = if server.is_silent {
                "silent"
            } else {
                server.grade.text()
            };
            Cell::state(word, server.grade.text())
        })
        .column(Column::text("Because").class("says"), |server| {
            server.sentence.clone()
        })
        .column(Column::text("Fullest snapshot").class("fill"), |server| {
            fill(&server.snapshot)
        })
        .column(Column::text("Fullest pool").class("less"), |server| {
            fill(&server.pool)
        })
        .column(
            Column::text("Oldest last good backup").class("least"),
            |server| {
                let Some((volume, at)) = &server.backup else {
                    return Cell::default();
                };
                let age = rough_text(seconds_between(*at, now));
                Cell::from(format!("{age} ago")).small(format!("{volume}, {}", moment(*at, now)))
            },
        )
        .done()
        .class("fills servers")
}
