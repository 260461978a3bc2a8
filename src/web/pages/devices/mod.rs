//! `/devices`: throughput as in `bwm-ng`, and latencies and queues as in `iostat`.

mod figures;
mod query;

use askama::Template;
use axum::extract::State;

use super::charts::ChoiceLink;
use super::{Answer, Content, Refresh, shown, text};
use crate::present::Present;
use crate::topology::{Device, DeviceKind};
use crate::web::Site;
use crate::web::answer::ParsedQuery;
use figures::{Cell, Figures};
use query::{Column, Idle, Order, Query};

#[derive(Template)]
#[template(path = "devices.html")]
struct Table {
    heads: Vec<Head>,
    rows: Vec<Row>,
    total: Vec<Cell>,
    /// The number of hidden devices, which were never used.
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
    /// The rest of the query.
    hidden_fields: Vec<(String, String)>,
    switches: Vec<Switch>,
}

struct Switch {
    name: &'static str,
    choices: Vec<ChoiceLink>,
}

pub async fn page(State(site): State<Site>, ParsedQuery(query): ParsedQuery<Query>) -> Answer {
    Ok(Content {
        title: "Devices".into(),
        place: "/devices",
        refresh: Some(Refresh::each_second(super::fragment_url(
            "/devices/table",
            &query.with(&[]),
        ))),
        tools: shown(&tools(&query))?,
        now: shown(&table(&*site.present()?, &query))?,
    })
}

fn table(present: &Present, query: &Query) -> Table {
    let interval = &present.interval;
    let devices = interval.topology.devices.iter().zip(&interval.devices);
    let wanted: Vec<_> = devices
        .filter(|(device, _)| matches(device, &query.filter))
        .collect();
    let is_idle = |counters: Option<crate::sample::diskstats::Counters>| {
        counters.is_some_and(|c| c.is_untouched())
    };
    let shown = wanted
        .iter()
        .filter(|(_, done)| query.idle == Idle::Show || !is_idle(done.counters));
    let mut rows: Vec<(&Device, Figures)> = shown
        .map(|(device, done)| {
            let figures = Figures {
                show: query.show,
                work: done.work,
                elapsed_us: interval.elapsed_us,
                averages: present.averages.device(&device.identity),
            };
            (*device, figures)
        })
        .collect();
    let hidden = wanted.len() - rows.len();
    sort(&mut rows, query);
    let total = Figures {
        show: query.show,
        work: interval.total(),
        elapsed_us: interval.elapsed_us,
        averages: Some(present.averages.total()),
    };
    Table {
        heads: heads(query),
        rows: rows
            .iter()
            .map(|(device, figures)| row(device, figures, query))
            .collect(),
        total: total.cells(query, true),
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

/// Unknown values come last in both directions; equal values are sorted by name.
fn sort(rows: &mut [(&Device, Figures)], query: &Query) {
    rows.sort_by(|(a, _), (b, _)| a.label.cmp(&b.label).then(a.number.cmp(&b.number)));
    match (query.sort, query.order) {
        (Column::Device, Order::Down) => {}
        (Column::Device, Order::Up) => rows.reverse(),
        (column, order) => {
            rows.sort_by(|(_, a), (_, b)| match (a.value(column), b.value(column)) {
                (Some(a), Some(b)) if order == Order::Down => b.total_cmp(&a),
                (Some(a), Some(b)) => a.total_cmp(&b),
                (a, b) => b.is_some().cmp(&a.is_some()),
            })
        }
    }
}

fn row(device: &Device, figures: &Figures, query: &Query) -> Row {
    let is_named = device.label.starts_with(&*device.name);
    Row {
        label: device.label.clone(),
        detail: text::joined([
            (!is_named).then(|| device.name.to_string()),
            device.model.clone(),
        ]),
        href: device_href(device),
        cells: figures.cells(query, false),
    }
}

/// The address of a device's page: the name of its volume, or the kernel's.
pub fn device_href(device: &Device) -> String {
    let name = if device.kind == DeviceKind::Dm {
        &*device.label
    } else {
        &*device.name
    };
    format!("/devices/{}", crate::web::escaped(name))
}

fn heads(query: &Query) -> Vec<Head> {
    let head = |(column, key, name, class): (Column, &str, &'static str, &'static str)| {
        let is_current = column == query.sort;
        let turned = if is_current && query.order == Order::Down {
            "up"
        } else {
            "down"
        };
        Head {
            name,
            class,
            href: format!("?{}", query.with(&[("sort", key), ("order", turned)])),
            is_current,
            // Names are sorted from A to Z by default.
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
    let pairs = query.pairs();
    // The first choice is the default.
    let switch = |name, key: &str, choices: &[(&'static str, &'static str)]| {
        let current = pairs
            .get(key)
            .and_then(|value| value.as_str())
            .unwrap_or(choices[0].0);
        let choice = |(value, name): &(&str, &'static str)| ChoiceLink {
            name,
            href: format!("?{}", query.with(&[(key, value)])),
            is_current: *value == current,
        };
        Switch {
            name,
            choices: choices.iter().map(choice).collect(),
        }
    };
    let shows = [
        ("rate", "current rate"),
        ("average", "average"),
        ("maximum", "maximum"),
        ("sum", "sum since start"),
    ];
    let hidden = pairs.iter().filter(|(key, _)| *key != "filter");
    Tools {
        filter: query.filter.clone(),
        hidden_fields: hidden
            .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().into()))
            .collect(),
        switches: vec![
            switch("Show", "show", &shows),
            switch(
                "Never used",
                "idle",
                &[("hide", "hidden"), ("show", "shown")],
            ),
        ],
    }
}
