//! `/status`: how cowbell itself is: what it reads, what it keeps, what it costs.

use askama::Template;
use axum::extract::State;
use axum::response::Html;
use jiff::Timestamp;

use super::{Answer, Content, Refresh, framed, moment, shown};
use crate::config::Age;
use crate::present::Present;
use crate::store::{Gap, Level};
use crate::table::{Cell, Column, Table};
use crate::units::{Prefix, bytes_text};
use crate::web::Site;
use crate::web::answer::Problem;

#[derive(Template)]
#[template(path = "status.html")]
struct Status {
    notes: Vec<String>,
    tables: Vec<Table>,
}

pub async fn page(State(site): State<Site>) -> Answer {
    let now = now(&site)?;
    let refresh = Some(Refresh::each_second("/status/now"));
    framed(&site, Content { title: "Status", place: "/status", refresh, tools: String::new(), now })
}

pub async fn fragment(State(site): State<Site>) -> Answer {
    now(&site).map(Html)
}

fn now(site: &Site) -> Result<String, Problem> {
    let present = site.present()?;
    let store = &present.store;
    let notes = store.error.iter().chain(&present.notes).chain(&store.notes).cloned();
    shown(&Status {
        notes: notes.collect(),
        tables: [figures(&present), levels(&present), gaps(&present), parts(&present)]
            .into_iter()
            .filter(|table| !table.is_empty())
            .collect(),
    })
}

/// What it is, the figure, and what to think of it.
fn figures(present: &Present) -> Table {
    let (stock, keep, ticks) = (&present.store.stock, &present.keep, &present.ticks);
    let bytes = |bytes: u64| bytes_text(bytes as f64, Prefix::default());
    let or_later = |known: Option<u64>| known.map_or_else(|| "not known yet".to_string(), bytes);
    let forecast = stock.forecast_bytes(keep);
    let fits = match forecast {
        Some(need) if need > keep.size.0 => "more than it may: the oldest ticks go before their time",
        Some(_) => "when it has been kept for as long as is set below",
        None => "",
    };
    let known = [
        ("Ticks taken", ticks.taken.to_string(), format!("{} missed", ticks.missed)),
        (
            "A tick takes",
            micros(ticks.took_us.p50),
            format!("99 in 100 take {} at most", micros(ticks.took_us.p99)),
        ),
        ("Not kept", present.lost.to_string(), "ticks, jobs and alerts since the start".into()),
        ("The database has", bytes(stock.size_bytes), format!("and may take {}", bytes(keep.size.0))),
        ("A day takes", or_later(stock.bytes_per_day), "every tick, before it is rolled up".into()),
        ("It will need", or_later(forecast), fits.into()),
    ];
    let row =
        |(what, figure, remark): (&str, String, String)| vec![what.into(), figure.into(), remark.into()];
    let columns = [Column::name(""), Column::number(""), Column::text("")];
    Table::new("cowbell itself", columns, known.into_iter().map(row))
}

fn micros(us: u64) -> String {
    format!("{} ms", crate::units::three_figures(us as f64 / 1000.0))
}

fn levels(present: &Present) -> Table {
    let (stock, keep, now) = (&present.store.stock, &present.keep, present.interval.at);
    let since = |level: Level| {
        Cell::known(stock.since[level as usize].map(|from| format!("{} UTC", moment(from, now))))
    };
    let row = |what: &str, age: Age, since| {
        vec![what.into(), format!("{} days", age.0.as_secs() / (24 * 3600)).into(), since]
    };
    let rows = [
        row("Every tick", keep.ticks, since(Level::Ticks)),
        row("Every tick while a job ran", keep.jobs, "".into()),
        row("A minute, and ten: sum, least and most", keep.minutes, since(Level::Minutes)),
    ];
    Table::new("What is kept", ["How finely", "For", "Since"].map(Column::text), rows)
}

fn gaps(present: &Present) -> Table {
    let at = |ms| Cell::known(Timestamp::from_millisecond(ms).ok().map(|at| moment(at, present.interval.at)));
    let row = |gap: &Gap| {
        vec![at(gap.from_ms), at(gap.to_ms), gap.ticks.to_string().into(), gap.reason.clone().into()]
    };
    let columns =
        [Column::text("From (UTC)"), Column::text("To"), Column::number("Ticks"), Column::text("Why")];
    let caption = "Ticks that could not be kept, the latest first";
    Table::new(caption, columns, present.store.stock.gaps.iter().map(row))
}

/// What is read and written, and what it says when it does not work.
fn parts(present: &Present) -> Table {
    let row = |name: &str, error: Option<String>, took_us: Option<u64>| {
        let state =
            if error.is_none() { Cell::state("ok", "ok") } else { Cell::state("not seen", "warning") };
        vec![name.into(), state, Cell::known(took_us.map(micros)), error.unwrap_or_default().into()]
    };
    let read = present.parts_in_order().map(|(part, state)| {
        let error = state.map_or_else(|| Some("it has not answered yet".into()), |state| state.error.clone());
        row(part.name(), error, state.map(|state| state.took_us))
    });
    let columns = [
        Column::text("Part"),
        Column::text("State"),
        Column::number("Took").class("least"),
        Column::text("What it says").class("says"),
    ];
    let store = &present.store;
    let store = row("store", store.error.clone(), Some(store.took_us));
    Table::new("What is read and written", columns, read.chain([store]))
}
