//! `/status`: the state of cowbell itself: sampling, stored data, and all parts.

use askama::Template;
use axum::extract::State;
use jiff::Timestamp;

use super::charts::{self, Charts, View};
use super::{Answer, Content, Refresh, moment, text, zone_name, zoned_moment};
use crate::config::Age;
use crate::present::Present;
use crate::source::own::own_cost;
use crate::store::{Gap, Level, Subject};
use crate::table::{Cell, Column, Table};
use crate::units::{size_text, three_figures};
use crate::web::Site;
use crate::web::answer::ParsedQuery;
use crate::web::api::{self, PartBody};

#[derive(Template)]
#[template(path = "status.html")]
struct Status {
    notes: Vec<String>,
    tables: Vec<Table>,
    /// Of the host.
    charts: Charts,
}

pub async fn page(State(site): State<Site>, ParsedQuery(view): ParsedQuery<View>) -> Answer {
    let present = site.present()?;
    let range = view.range(&present)?;
    let host = vec![
        charts::throughput("Throughput of all disks, each byte once", &Subject::Total),
        charts::paging(),
    ];
    let charts = charts::draw(&site, &present, &view, range, &[], host).await?;
    let store = &present.store;
    let notes = store
        .error
        .iter()
        .chain(&present.notes)
        .chain(&store.notes)
        .cloned()
        .collect();
    let tables = [
        own_figures(&present),
        levels(&present),
        gaps(&present),
        parts(&present),
    ];
    let tables = tables
        .into_iter()
        .filter(|table| !table.is_empty())
        .collect();
    let refresh = Refresh::each_second("/status/now");
    Content::new(
        "Status",
        "/status",
        Some(refresh),
        &Status {
            notes,
            tables,
            charts,
        },
    )
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
    let known = [
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
        (
            "Time of a tick",
            micros(ticks.took_us.p50),
            format!("99th percentile {}", micros(ticks.took_us.p99)),
        ),
        (
            "Dropped",
            present.lost.to_string(),
            "ticks, jobs and alerts since the start".into(),
        ),
        (
            "Size of the database",
            size_text(stock.size_bytes),
            format!("limit {}", size_text(keep.size.0)),
        ),
        (
            "Size of a day",
            or_later(stock.bytes_per_day),
            "of ticks, before they are rolled up".into(),
        ),
        ("Final size", or_later(forecast), fits.into()),
    ];
    let remote_write = present.remote_write.iter().map(|state| {
        let (figure, remark) = state.texts();
        ("Remote write", figure, remark)
    });
    let row = |(what, figure, remark): (&str, String, String)| {
        vec![what.into(), figure.into(), remark.into()]
    };
    let columns = [Column::name(""), Column::number(""), Column::text("")];
    Table::new(
        "cowbell itself",
        columns,
        known.into_iter().chain(remote_write).map(row),
    )
}

fn micros(us: u64) -> String {
    format!("{} ms", three_figures(us as f64 / 1000.0))
}

fn levels(present: &Present) -> Table {
    let (stock, keep, now) = (&present.store.stock, &present.keep, present.interval.at);
    let since =
        |level: Level| Cell::known(stock.since[level as usize].map(|from| zoned_moment(from, now)));
    let row = |what: &str, age: Age, since| {
        vec![
            what.into(),
            format!("{} days", age.0.as_secs() / (24 * 3600)).into(),
            since,
        ]
    };
    let rows = [
        row("Every tick", keep.ticks, since(Level::Ticks)),
        row("Every tick while a job ran", keep.jobs, "".into()),
        row(
            "Sums of one and ten minutes, with minimum and maximum",
            keep.minutes,
            since(Level::Minutes),
        ),
    ];
    Table::new(
        "Stored data",
        ["Resolution", "Retention", "Since"].map(Column::text),
        rows,
    )
}

fn gaps(present: &Present) -> Table {
    let at = |ms| {
        Cell::known(
            Timestamp::from_millisecond(ms)
                .ok()
                .map(|at| moment(at, present.interval.at)),
        )
    };
    let row = |gap: &Gap| {
        vec![
            at(gap.from_ms),
            at(gap.to_ms),
            gap.ticks.to_string().into(),
            gap.reason.clone().into(),
        ]
    };
    let columns = [
        Column::text(format!("From ({})", zone_name(present.interval.at))),
        Column::text("To"),
        Column::number("Ticks"),
        Column::text("Reason"),
    ];
    let caption = "Gaps, the latest first";
    Table::new(caption, columns, present.store.stock.gaps.iter().map(row))
}

/// All parts that are read, and the store.
fn parts(present: &Present) -> Table {
    let row = |part: PartBody| {
        let (word, grade) = if part.ok {
            ("ok", "ok")
        } else {
            ("failed", "warning")
        };
        let took = (part.took_us > 0).then(|| micros(part.took_us));
        vec![
            part.name.into(),
            Cell::state(word, grade),
            Cell::known(took),
            part.error.unwrap_or_default().into(),
        ]
    };
    let columns = [
        Column::text("Part"),
        Column::text("State"),
        Column::number("Took").class("least"),
        Column::text("Error").class("says"),
    ];
    Table::new("Parts", columns, api::parts(present).into_iter().map(row))
}
