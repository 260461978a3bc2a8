//! `/devices`: what `bwm-ng` shows, and the latencies and queues that it does not.

use askama::Template;
use axum::extract::State;
use axum::response::Html;
use serde::Deserialize;

use super::text::{self, Writing};
use super::{Answer, Content, framed, shown};
use crate::interval::Work;
use crate::present::Present;
use crate::series::Observation;
use crate::series::quantity::DeviceQuantity;
use crate::tally::{Rates, Tally};
use crate::topology::Device;
use crate::units::Prefix;
use crate::web::Site;
use crate::web::answer::{Asked, Problem};

/// What the address of the table says.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Query {
    show: Show,
    unit: Prefix,
    r#as: As,
    sort: Column,
    order: Order,
    filter: String,
    idle: Idle,
}

/// What `bwm-ng` offers: the rate now, and average, maximum and sum since the start.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Show {
    #[default]
    Rate,
    Average,
    Maximum,
    Sum,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum As {
    #[default]
    Bytes,
    Bits,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Idle {
    #[default]
    Hide,
    Show,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Order {
    #[default]
    Down,
    Up,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Column {
    Device,
    Read,
    Written,
    #[default]
    Total,
    Reads,
    Writes,
    Requests,
    Request,
    ReadAwait,
    WriteAwait,
    Queue,
    Busy,
}

impl Column {
    const ALL: [Self; 12] = [
        Self::Device,
        Self::Read,
        Self::Written,
        Self::Total,
        Self::Reads,
        Self::Writes,
        Self::Requests,
        Self::Request,
        Self::ReadAwait,
        Self::WriteAwait,
        Self::Queue,
        Self::Busy,
    ];

    /// Its name in the address, and its head.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Device => ("device", "Device"),
            Self::Read => ("read", "Read"),
            Self::Written => ("written", "Written"),
            Self::Total => ("total", "Total"),
            Self::Reads => ("reads", "Reads"),
            Self::Writes => ("writes", "Writes"),
            Self::Requests => ("requests", "Requests"),
            Self::Request => ("request", "Request size"),
            Self::ReadAwait => ("read_await", "Read ms"),
            Self::WriteAwait => ("write_await", "Write ms"),
            Self::Queue => ("queue", "Queue"),
            Self::Busy => ("busy", "Busy %"),
        }
    }

    /// What narrower screens leave out.
    fn class(self) -> &'static str {
        match self {
            Self::Device => "",
            Self::Read | Self::Written | Self::Busy => "n",
            Self::Total | Self::ReadAwait | Self::WriteAwait => "n least",
            Self::Reads | Self::Writes | Self::Requests | Self::Request | Self::Queue => "n less",
        }
    }
}

/// What the table shows of one device, as numbers. `None` is what is not known, or has no meaning.
#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    read: Option<f64>,
    written: Option<f64>,
    total: Option<f64>,
    reads: Option<f64>,
    writes: Option<f64>,
    request: Option<f64>,
    read_await: Option<f64>,
    write_await: Option<f64>,
    queue: Option<f64>,
    busy: Option<f64>,
}

impl Figures {
    fn of(work: Option<Work>, elapsed_us: u64) -> Self {
        let value = |quantity: DeviceQuantity| quantity.observe(&work?, elapsed_us).map(Observation::value);
        let bytes = |work: Work| (work.sectors_read.bytes() + work.sectors_written.bytes()) as f64;
        let requests = |work: Work| (work.reads + work.writes) as f64;
        let request =
            work.and_then(|work| Observation::ratio(bytes(work), requests(work))).map(Observation::value);
        Self {
            read: value(DeviceQuantity::ReadBytes),
            written: value(DeviceQuantity::WrittenBytes),
            total: work
                .and_then(|work| Observation::ratio(bytes(work), elapsed_us as f64 / 1e6))
                .map(Observation::value),
            reads: value(DeviceQuantity::Reads),
            writes: value(DeviceQuantity::Writes),
            request,
            read_await: value(DeviceQuantity::ReadAwaitMs),
            write_await: value(DeviceQuantity::WriteAwaitMs),
            queue: value(DeviceQuantity::QueueDepth),
            busy: value(DeviceQuantity::Utilisation),
        }
    }

    fn maximum(most: Rates) -> Self {
        Self {
            read: Some(most.read_bytes),
            written: Some(most.written_bytes),
            total: Some(most.total_bytes),
            reads: Some(most.reads),
            writes: Some(most.writes),
            ..Self::default()
        }
    }

    fn sum(sum: Work) -> Self {
        let (read, written) = (sum.sectors_read.bytes() as f64, sum.sectors_written.bytes() as f64);
        Self {
            read: Some(read),
            written: Some(written),
            total: Some(read + written),
            reads: Some(sum.reads as f64),
            writes: Some(sum.writes as f64),
            ..Self::default()
        }
    }

    /// What `show` asks for, of what was done in the last interval and since the start.
    fn shown(show: Show, work: Option<Work>, elapsed_us: u64, tally: Option<&Tally>) -> Self {
        match (show, tally) {
            (Show::Rate, _) => Self::of(work, elapsed_us),
            (_, None) => Self::default(),
            (Show::Average, Some(tally)) => Self::of(Some(tally.sum), tally.elapsed_us),
            (Show::Maximum, Some(tally)) => Self::maximum(tally.most),
            (Show::Sum, Some(tally)) => Self::sum(tally.sum),
        }
    }

    fn value(&self, column: Column) -> Option<f64> {
        match column {
            Column::Device => None,
            Column::Read => self.read,
            Column::Written => self.written,
            Column::Total => self.total,
            Column::Reads => self.reads,
            Column::Writes => self.writes,
            Column::Requests => Some(self.reads? + self.writes?),
            Column::Request => self.request,
            Column::ReadAwait => self.read_await,
            Column::WriteAwait => self.write_await,
            Column::Queue => self.queue,
            Column::Busy => self.busy,
        }
    }

    fn cells(&self, query: &Query) -> Vec<Cell> {
        let writing = Writing { prefix: query.unit, bits: query.r#as == As::Bits };
        let cell = |column: Column| {
            let value = self.value(column);
            let text = match column {
                Column::Read | Column::Written | Column::Total if query.show == Show::Sum => {
                    writing.amount(value)
                }
                Column::Read | Column::Written | Column::Total => writing.rate(value),
                Column::Request => writing.amount(value),
                Column::Busy => text::percent(value),
                _ => text::count(value),
            };
            let zero = if value.is_none_or(|value| value == 0.0) { " zero" } else { "" };
            Cell { class: format!("{}{zero}", column.class()), text }
        };
        Column::ALL.into_iter().filter(|column| *column != Column::Device).map(cell).collect()
    }
}

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

struct Cell {
    class: String,
    text: String,
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

pub async fn page(State(site): State<Site>, Asked(query): Asked<Query>) -> Answer {
    let now = now(&site, &query)?;
    let tools = shown(&tools(&query))?;
    let now_url = Some(super::fragment_url("/devices/table", &query.written(&[])));
    framed(&site, Content { title: "Devices", place: "/devices", now_url, tools, now })
}

pub async fn fragment(State(site): State<Site>, Asked(query): Asked<Query>) -> Answer {
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
    let total = Figures { busy: None, ..total };
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

impl Query {
    fn show_word(&self) -> &'static str {
        match self.show {
            Show::Rate => "rate",
            Show::Average => "average",
            Show::Maximum => "maximum",
            Show::Sum => "sum",
        }
    }

    fn unit_word(&self) -> &'static str {
        if self.unit == Prefix::Binary { "binary" } else { "decimal" }
    }

    /// What is said otherwise than by default, but for the filter.
    fn words(&self) -> Vec<(&'static str, &'static str)> {
        let mut words = Vec::new();
        let mut say = |key, value, is_default: bool| {
            if !is_default {
                words.push((key, value));
            }
        };
        say("show", self.show_word(), self.show == Show::Rate);
        say("unit", self.unit_word(), self.unit == Prefix::Binary);
        say("as", "bits", self.r#as == As::Bytes);
        say("sort", self.sort.names().0, self.sort == Column::Total);
        say("order", "up", self.order == Order::Down);
        say("idle", "show", self.idle == Idle::Hide);
        words
    }

    /// The address's query with some words said otherwise.
    fn written(&self, otherwise: &[(&'static str, &'static str)]) -> String {
        let mut words = self.words();
        words.retain(|(key, _)| !otherwise.iter().any(|(other, _)| other == key));
        words.extend(otherwise);
        let mut pairs: Vec<String> = words.iter().map(|(key, value)| format!("{key}={value}")).collect();
        if !self.filter.is_empty() {
            pairs.push(format!("filter={}", text::escaped(&self.filter)));
        }
        pairs.join("&")
    }
}
