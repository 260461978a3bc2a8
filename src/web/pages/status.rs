//! `/status`: the state of cowbell itself: sampling, stored data, and all parts.

use askama::Template;
use jiff::Timestamp;

use super::charts::{self, Charts};
use super::text::{self, moment, zone_name, zoned_moment};
use super::{Content, PageRequest, PageResult, Refresh};
use crate::present::Present;
use crate::source::own::own_cost;
use crate::store::Level;
use crate::table::{Cell, Column, Table};
use crate::units::{ms_text, size_text};
use crate::web::api;

#[derive(Template)]
#[template(path = "status.html")]
struct StatusPage {
    notes: Vec<String>,
    tables: Vec<Table>,
    /// Of the host.
    charts: Charts,
}

pub async fn page(request: PageRequest) -> PageResult {
    let present = &request.present;
    let range = request.view.range(present)?;
    let sketches = vec![charts::throughput_of_all(), charts::paging()];
    let store = &present.store;
    let notes = store.error.iter().chain(&present.notes).chain(&store.notes);
    let mut tables = vec![
        own_figures(present),
        levels(present),
        gaps(present),
        parts(present),
    ];
    tables.retain(|table| !table.is_empty());
    let page = StatusPage {
        notes: notes.cloned().collect(),
        tables,
        charts: charts::draw(&request, range, &[], sketches).await?,
    };
    Content::new("Status", "/status", Refresh::EACH_TICK, &page)
}

/// Names, figures and remarks.
fn own_figures(present: &Present) -> Table {
    let (stock, keep, ticks) = (&present.store.stock, &present.keep, &present.ticks);
    let or_later = |known: Option<u64>| known.map_or_else(|| "not known yet".into(), size_text);
    let forecast = stock.forecast_bytes(keep);
    let fits = match forecast {
        Some(need) if need > keep.size.0 => {
            "more than its limit: the oldest ticks are deleted early"
        }
        Some(_) => "once the retention times below are reached",
        None => "",
    };
    let own = own_cost();
    let cpu = text::or_dash(own.cpu_seconds.map(|seconds| format!("{seconds:.1} s")));
    let (p50, p99) = (micros(ticks.took_us.p50), micros(ticks.took_us.p99));
    let limit = size_text(keep.size.0);
    let mut figures: Vec<(&str, String, String)> = vec![
        ("CPU time", cpu, "of this process, since its start".into()),
        ("Memory", text::size(own.rss_bytes), "resident".into()),
        (
            "Written to disk",
            text::size(own.written_bytes),
            "since its start".into(),
        ),
        (
            "Ticks taken",
            ticks.taken.to_string(),
            format!("{} missed", ticks.missed),
        ),
        ("Time of a tick", p50, format!("99th percentile {p99}")),
        (
            "Dropped",
            present.lost.to_string(),
            "ticks, jobs and alerts since the start".into(),
        ),
        (
            "Size of the database",
            size_text(stock.size_bytes),
            format!("limit {limit}"),
        ),
        (
            "Size of a day",
            or_later(stock.bytes_per_day),
            "of ticks, before they are rolled up".into(),
        ),
        ("Final size", or_later(forecast), fits.into()),
    ];
    if let Some(state) = &present.remote_write {
        let (figure, remark) = state.texts();
        figures.push(("Remote write", figure, remark));
    }
    Table::of("cowbell itself", figures)
        .column(Column::name(""), |(what, ..)| *what)
        .column(Column::number(""), |(_, figure, _)| figure.clone())
        .column(Column::text(""), |(.., remark)| remark.clone())
        .done()
}

fn micros(us: u64) -> String {
    ms_text(us as f64 / 1000.0)
}

fn levels(present: &Present) -> Table {
    let (keep, now) = (&present.keep, present.interval.at);
    let since = |level: &Option<Level>| match level {
        Some(level) => {
            let from = present.store.stock.since[*level as usize];
            Cell::known(from.map(|from| zoned_moment(from, now)))
        }
        None => "".into(),
    };
    let rows = [
        ("Every tick", keep.ticks, Some(Level::Ticks)),
        ("Every tick while a job ran", keep.jobs, None),
        (
            "Sums of one and ten minutes, with minimum and maximum",
            keep.minutes,
            Some(Level::Minutes),
        ),
    ];
    Table::of("Stored data", rows)
        .column(Column::text("Resolution"), |(what, ..)| *what)
        .column(Column::text("Retention"), |(_, age, _)| {
            format!("{} days", age.0.as_secs() / (24 * 3600))
        })
        .column(Column::text("Since"), |(.., level)| since(level))
        .done()
}

fn gaps(present: &Present) -> Table {
    let now = present.interval.at;
    let at = |ms| {
        let at = Timestamp::from_millisecond(ms).ok();
        Cell::known(at.map(|at| moment(at, now)))
    };
    Table::of("Gaps, the latest first", &present.store.stock.gaps)
        .column(Column::text(format!("From ({})", zone_name(now))), |gap| {
            at(gap.from_ms)
        })
        .column(Column::text("To"), |gap| at(gap.to_ms))
        .column(Column::number("Ticks"), |gap| gap.ticks.to_string())
        .column(Column::text("Reason"), |gap| gap.reason.clone())
        .done()
}

/// All parts that are read, and the store.
fn parts(present: &Present) -> Table {
    Table::of("Parts", api::parts(present))
        .column(Column::text("Part"), |part| part.name.clone())
        .column(Column::text("State"), |part| {
            let (word, grade) = if part.ok {
                ("ok", "ok")
            } else {
                ("failed", "warning")
            };
            Cell::state(word, grade)
        })
        .column(Column::number("Took").class("least"), |part| {
            Cell::known((part.took_us > 0).then(|| micros(part.took_us)))
        })
        .column(Column::text("Error").class("says"), |part| {
            part.error.clone().unwrap_or_default()
        })
        .done()
}
