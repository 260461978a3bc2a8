//! `/devices`: what `bwm-ng` shows, and the latencies and queues that it does not.

mod figures;
mod query;

use askama::Template;
use axum::extract::State;
use axum::response::Html;

use super::{Answer, Content, Refresh, framed, shown, text};
use crate::present::Present;
use crate::topology::Device;
use crate::web::Site;
use crate::web::answer::{ParsedQuery, Problem};
use figures::{Cell, Figures};
pub use query::Query;
use query::{As, Column, Idle, Order};

#[derive(Template)]
#[template(path = "devices.html")]
struct Table {
    heads: Vec<Head>,
    rows: Vec<Row>,
    total: Vec<Cell>,
    /// Devices that are left out because they were never used.
    hidden: usize,
}

struct Head {
    name: &'static str,
    class: &'static str,
    href: String,
    is_current: bool,
    direction: &'static str,
}

struct Row {
    label: String,
    detail: String,
    href: String,
    cells: Vec<Cell>,
}

#[derive(Template)]
#[template(path = "devices_tools.html")]
struct Tools {
    filter: String,
    /// What the form keeps of the address.
    hidden_fields: Vec<(&'static str, &'static str)>,
    switches: Vec<Switch>,
}

struct Switch {
    name: &'static str,
    choices: Vec<Choice>,
}

struct Choice {
    name: &'static str,
    href: String,
    is_current: bool,
}

pub async fn page(State(site): State<Site>, ParsedQuery(query): ParsedQuery<Query>) -> Answer {
    let now = now(&site, &query)?;
    let tools = shown(&tools(&query))?;
    let refresh = Some(Refresh::each_second(super::fragment_url("/devices/table", &query.written(&[]))));
    framed(&site, Content { title: "Devices", place: "/devices", refresh, tools, now })
}

pub async fn fragment(State(site): State<Site>, ParsedQuery(query): ParsedQuery<Query>) -> Answer {
    now(&site, &query).map(Html)
}

fn now(site: &Site, query: &Query) -> Result<String, Problem> {
    shown(&table(&*site.present()?, query))
}

fn table(present: &Present, query: &Query) -> Table {
    let interval = &present.interval;
    let devices = interval.topology.devices.iter().zip(&interval.devices);
    let wanted: Vec<_> = devices.filter(|(device, _)| matches(device, &query.filter)).collect();
    let is_idle =
        |counters: Option<crate::sample::diskstats::Counters>| counters.is_some_and(|c| c.is_untouched());
    let shown = wanted.iter().filter(|(_, done)| query.idle == Idle::Show || !is_idle(done.counters));
    let mut rows: Vec<(&Device, Figures)> = shown
        .map(|(device, done)| {
            let tally = present.tallies.device(&device.identity);
            (*device, Figures::shown(query.show, done.work, interval.elapsed_us, tally))
        })
        .collect();
    let hidden = wanted.len() - rows.len();
    sort(&mut rows, query);
    let total =
        Figures::shown(query.show, interval.total(), interval.elapsed_us, Some(present.tallies.total()));
    // Shares of time do not add up.
    let total = total.without_busy();
    Table {
        heads: heads(query),
        rows: rows.iter().map(|(device, figures)| row(device, figures, query)).collect(),
        total: total.cells(query),
        hidden,
    }
}

fn matches(device: &Device, filter: &str) -> bool {
    let filter = filter.trim().to_lowercase();
    let holds = |text: &str| text.to_lowercase().contains(&filter);
    filter.is_empty()
        || holds(&device.name)
        || holds(&device.label)
        || device.vg.as_deref().is_some_and(holds)
}

/// Unknown values come last in either direction; equal ones by name.
fn sort(rows: &mut [(&Device, Figures)], query: &Query) {
    rows.sort_by(|(a, _), (b, _)| a.label.cmp(&b.label).then(a.number.cmp(&b.number)));
    match (query.sort, query.order) {
        (Column::Device, Order::Down) => {}
        (Column::Device, Order::Up) => rows.reverse(),
        (column, order) => rows.sort_by(|(_, a), (_, b)| match (a.value(column), b.value(column)) {
            (Some(a), Some(b)) if order == Order::Down => b.total_cmp(&a),
            (Some(a), Some(b)) => a.total_cmp(&b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }),
    }
}

fn row(device: &Device, figures: &Figures, query: &Query) -> Row {
    let is_named = device.label != *device.name;
    let detail = [is_named.then(|| device.name.to_string()), device.model.clone()];
    Row {
        label: device.label.clone(),
        detail: detail.into_iter().flatten().collect::<Vec<_>>().join(" · "),
        href: device_href(device),
        cells: figures.cells(query),
    }
}

/// The address of a device's page, which stays when its name changes.
pub fn device_href(device: &Device) -> String {
    format!("/devices/{}", text::escaped(&device.identity))
}

fn heads(query: &Query) -> Vec<Head> {
    let head = |column: Column| {
        let (key, name) = column.names();
        let is_current = column == query.sort;
        let turned = if is_current && query.order == Order::Down { "up" } else { "down" };
        Head {
            name,
            class: column.class(),
            href: format!("?{}", query.written(&[("sort", key), ("order", turned)])),
            is_current,
            // Names go down from A.
            direction: if (query.order == Order::Down) == (column != Column::Device) {
                "descending"
            } else {
                "ascending"
            },
        }
    };
    Column::ALL.into_iter().map(head).collect()
}

fn tools(query: &Query) -> Tools {
    let switch = |name, key, current: &str, choices: &[(&'static str, &'static str)]| Switch {
        name,
        choices: choices
            .iter()
            .map(|(value, name)| Choice {
                name,
                href: format!("?{}", query.written(&[(key, value)])),
                is_current: *value == current,
            })
            .collect(),
    };
    Tools {
        filter: query.filter.clone(),
        hidden_fields: query.words().into_iter().filter(|(key, _)| *key != "filter").collect(),
        switches: vec![
            switch(
                "Show",
                "show",
                query.show_word(),
                &[
                    ("rate", "rate now"),
                    ("average", "average"),
                    ("maximum", "maximum"),
                    ("sum", "sum since start"),
                ],
            ),
            switch("Units", "unit", query.unit_word(), &[("binary", "KiB MiB"), ("decimal", "kB MB")]),
            switch(
                "In",
                "as",
                if query.r#as == As::Bits { "bits" } else { "bytes" },
                &[("bytes", "bytes"), ("bits", "bits")],
            ),
            switch(
                "Never used",
                "idle",
                if query.idle == Idle::Show { "show" } else { "hide" },
                &[("hide", "hidden"), ("show", "shown")],
            ),
        ],
    }
}
