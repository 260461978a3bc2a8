//! `/status`: how cowbell itself is: what it reads, what it keeps, what it costs.

use askama::Template;
use axum::extract::State;
use axum::response::Html;
use jiff::Timestamp;

use super::{Answer, Content, Refresh, framed, moment, shown};
use crate::config::Age;
use crate::present::Present;
use crate::store::{Gap, Level};
use crate::units::{Prefix, bytes_text};
use crate::web::Site;
use crate::web::answer::Problem;

#[derive(Template)]
#[template(path = "status.html")]
struct Status {
    notes: Vec<String>,
    figures: Vec<(&'static str, String, String)>,
    levels: Vec<LevelRow>,
    gaps: Vec<GapRow>,
    parts: Vec<PartRow>,
}

struct LevelRow {
    what: &'static str,
    kept_for: String,
    since: String,
}

struct GapRow {
    from: String,
    to: String,
    ticks: i64,
    reason: String,
}

struct PartRow {
    name: &'static str,
    is_ok: bool,
    /// What it says when it does not work.
    error: String,
    took: String,
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
        figures: figures(&present),
        levels: levels(&present),
        gaps: store.stock.gaps.iter().map(|gap| gap_row(gap, present.interval.at)).collect(),
        parts: parts(&present),
    })
}

/// What it is, the figure, and what to think of it.
fn figures(present: &Present) -> Vec<(&'static str, String, String)> {
    let (stock, keep, ticks) = (&present.store.stock, &present.keep, &present.ticks);
    let bytes = |bytes: u64| bytes_text(bytes as f64, Prefix::default());
    let or_later = |known: Option<u64>| known.map_or_else(|| "not known yet".to_string(), bytes);
    let forecast = stock.forecast_bytes(keep);
    let fits = match forecast {
        Some(need) if need > keep.size.0 => "more than it may: the oldest ticks go before their time",
        Some(_) => "when it has been kept for as long as is set below",
        None => "",
    };
    vec![
        ("Ticks taken", ticks.taken.to_string(), format!("{} missed", ticks.missed)),
        (
            "A tick takes",
            micros(ticks.took_us.p50),
            format!("99 in 100 take {} at most", micros(ticks.took_us.p99)),
        ),
        ("Not kept", present.lost.to_string(), "ticks, jobs and alerts since the start".into()),
        ("The database has", bytes(stock.size_bytes), format!("and may take {}", bytes(keep.size.0))),
        ("A day takes", or_later(stock.bytes_per_day()), "every tick, before it is rolled up".into()),
        ("It will need", or_later(forecast), fits.into()),
    ]
}

fn micros(us: u64) -> String {
    format!("{} ms", crate::units::three_figures(us as f64 / 1000.0))
}

fn levels(present: &Present) -> Vec<LevelRow> {
    let (stock, keep, now) = (&present.store.stock, &present.keep, present.interval.at);
    let since = |level: Level| match stock.levels[level as usize].from {
        Some(from) => format!("{} UTC", moment(from, now)),
        None => "–".to_string(),
    };
    let row = |what, age: Age, since| LevelRow {
        what,
        kept_for: format!("{} days", age.0.as_secs() / (24 * 3600)),
        since,
    };
    vec![
        row("Every tick", keep.ticks, since(Level::Ticks)),
        row("Every tick while a job ran", keep.jobs, String::new()),
        row("Ten seconds: sum, least and most, when ticks go", keep.ten_seconds, since(Level::TenSeconds)),
        row("A minute, and ten: sum, least and most", keep.minutes, since(Level::Minutes)),
    ]
}

fn gap_row(gap: &Gap, now: Timestamp) -> GapRow {
    let at = |ms| Timestamp::from_millisecond(ms).map_or_else(|_| "–".into(), |at| moment(at, now));
    GapRow { from: at(gap.from_ms), to: at(gap.to_ms), ticks: gap.ticks, reason: gap.reason.clone() }
}

fn parts(present: &Present) -> Vec<PartRow> {
    let read = present.parts_in_order().map(|(part, state)| {
        let error = state.map_or_else(|| Some("it has not answered yet".into()), |state| state.error.clone());
        PartRow {
            name: part.name(),
            is_ok: error.is_none(),
            error: error.unwrap_or_default(),
            took: state.map_or_else(|| "–".into(), |state| micros(state.took_us)),
        }
    });
    let store = &present.store;
    let writes = PartRow {
        name: "store",
        is_ok: store.error.is_none(),
        error: store.error.clone().unwrap_or_default(),
        took: micros(store.took_us),
    };
    read.chain([writes]).collect()
}
