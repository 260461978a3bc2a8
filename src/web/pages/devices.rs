//! `/devices`: throughput as in `bwm-ng`, and latencies and queues as in `iostat`.

use std::cmp::Ordering;

use askama::Template;
use axum::extract::State;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::charts::ChoiceLink;
use super::text;
use super::{ChoiceSwitch, Content, ListTools, PageResult, Refresh};
use crate::averages::DeviceAverages;
use crate::interval::Work;
use crate::present::Present;
use crate::quantity::{Quantity, Unit};
use crate::topology::{Device, DeviceKind};
use crate::units::natural_key;
use crate::web::answer::ParsedQuery;
use crate::web::{SharedSite, escaped};

/// A column of numbers: a line of [`COLUMNS`].
struct DeviceColumn {
    /// In addresses.
    key: &'static str,
    heading: &'static str,
    /// CSS classes; some hide it on narrow screens.
    class: &'static str,
    quantity: Quantity,
}

const COLUMNS: [DeviceColumn; 10] = [
    column("read", "Read", "n", Quantity::ReadBytes),
    column("written", "Written", "n", Quantity::WrittenBytes),
    column("total", "Total", "n least", Quantity::MovedBytes),
    column("reads", "Reads", "n less", Quantity::Reads),
    column("writes", "Writes", "n less", Quantity::Writes),
    column("request", "Request size", "n less", Quantity::RequestBytes),
    column("read_await", "Read ms", "n least", Quantity::ReadAwaitMs),
    column("write_await", "Write ms", "n least", Quantity::WriteAwaitMs),
    column("queue", "Queue", "n less", Quantity::QueueDepth),
    column("busy", "Busy %", "n", Quantity::Utilisation),
];
/// The key of the column with names.
const NAME: &str = "device";
const DEFAULT_SORT: &str = "total";

const fn column(
    key: &'static str,
    heading: &'static str,
    class: &'static str,
    quantity: Quantity,
) -> DeviceColumn {
    DeviceColumn {
        key,
        heading,
        class,
        quantity,
    }
}

/// The query; defaults are left out of addresses.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct DevicesQuery {
    show: Show,
    /// The key of a column; `None` is the default.
    #[serde(deserialize_with = "known_key")]
    sort: Option<String>,
    order: SortOrder,
    filter: String,
    idle: Idle,
}

/// As in `bwm-ng`: the current rate, or average, maximum and sum since the start.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Show {
    #[default]
    Rate,
    Average,
    Maximum,
    Sum,
}

/// Whether devices that were never used are listed.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Idle {
    #[default]
    Hide,
    Show,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum SortOrder {
    #[default]
    Down,
    Up,
}

fn known_key<'de, D: Deserializer<'de>>(key: D) -> Result<Option<String>, D::Error> {
    let key = String::deserialize(key)?;
    let mut keys = vec![NAME];
    keys.extend(COLUMNS.map(|column| column.key));
    if keys.contains(&&*key) {
        return Ok(Some(key).filter(|key| key != DEFAULT_SORT));
    }
    let keys = keys.join(", ");
    let why = format!("expected one of {keys}, but found `{key}`");
    Err(D::Error::custom(why))
}

impl DevicesQuery {
    fn is_sorted_by(&self, key: &str) -> bool {
        self.sort.as_deref().unwrap_or(DEFAULT_SORT) == key
    }

    /// `None` if it is sorted by name.
    fn sort_quantity(&self) -> Option<Quantity> {
        let mut columns = COLUMNS.iter();
        Some(
            columns
                .find(|column| self.is_sorted_by(column.key))?
                .quantity,
        )
    }

    /// Keys and values, without defaults.
    fn pairs(&self) -> Map<String, Value> {
        let pairs = |query: &Self| match serde_json::to_value(query) {
            Ok(Value::Object(pairs)) => pairs,
            _ => Map::new(),
        };
        let (mut own, default) = (pairs(self), pairs(&Self::default()));
        own.retain(|key, value| default.get(key) != Some(value));
        own
    }

    /// The query with some values replaced.
    fn with(&self, changes: &[(&str, &str)]) -> String {
        let mut pairs = self.pairs();
        for (key, value) in changes {
            pairs.insert((*key).into(), (*value).into());
        }
        let mut query = Vec::new();
        for (key, value) in &pairs {
            query.push(format!(
                "{key}={}",
                escaped(value.as_str().unwrap_or_default())
            ));
        }
        query.join("&")
    }
}

/// The numbers of one row are computed from these.
#[derive(Clone, Copy, Debug)]
struct RowNumbers<'a> {
    show: Show,
    /// In the last interval.
    work: Work,
    elapsed_us: u64,
    /// Since the start.
    averages: Option<&'a DeviceAverages>,
}

/// One number for display.
struct NumberCell {
    class: String,
    text: String,
}

impl RowNumbers<'_> {
    /// `None` if unknown, or meaningless.
    fn value(&self, quantity: Quantity) -> Option<f64> {
        match self.show {
            Show::Rate => quantity.of_work(&self.work, self.elapsed_us),
            Show::Average => self.averages?.mean(quantity),
            Show::Maximum => self.averages?.max(quantity),
            Show::Sum => self.averages?.sum(quantity),
        }
    }

    /// All cells after the first. A total has no `busy`, since shares of time do not add up.
    fn cells(&self, is_total: bool) -> Vec<NumberCell> {
        let mut cells = Vec::new();
        for column in &COLUMNS {
            let quantity = column.quantity;
            let is_meant = !is_total || quantity != Quantity::Utilisation;
            let value = self.value(quantity).filter(|_| is_meant);
            let unit = match quantity.unit() {
                Unit::BytesPerSecond if self.show == Show::Sum => Unit::Bytes,
                unit => unit,
            };
            let is_zero = value.is_none_or(|value| value == 0.0);
            cells.push(NumberCell {
                class: format!("{}{}", column.class, if is_zero { " zero" } else { "" }),
                text: text::value(unit, value),
            });
        }
        cells
    }
}

#[derive(Template)]
#[template(path = "devices.html")]
struct DeviceTable {
    heads: Vec<DeviceHead>,
    rows: Vec<ListedDevice>,
    total: Vec<NumberCell>,
    /// The number of hidden devices, which were never used.
    hidden: usize,
}

struct DeviceHead {
    name: &'static str,
    class: &'static str,
    href: String,
    is_current: bool,
    direction: &'static str,
}

struct ListedDevice {
    label: String,
    detail: String,
    href: String,
    cells: Vec<NumberCell>,
}

pub async fn page(
    State(site): State<SharedSite>,
    ParsedQuery(query): ParsedQuery<DevicesQuery>,
) -> PageResult {
    let table = table(&*site.present()?, &query);
    Content::new("Devices", "/devices", Refresh::EACH_TICK, &table)?.with_list_tools(tools(&query))
}

fn table(present: &Present, query: &DevicesQuery) -> DeviceTable {
    let interval = &present.interval;
    let mut rows = Vec::new();
    let mut hidden = 0;
    for (device, done) in interval.topology.devices.iter().zip(&interval.devices) {
        if !matches(device, &query.filter) {
            continue;
        }
        let is_idle = done
            .counters
            .is_some_and(|counters| counters.is_untouched());
        if is_idle && query.idle == Idle::Hide {
            hidden += 1;
            continue;
        }
        let numbers = RowNumbers {
            show: query.show,
            work: done.work,
            elapsed_us: interval.elapsed_us,
            averages: present.averages.device(&device.identity),
        };
        rows.push((device, numbers));
    }
    sort(&mut rows, query);
    let total = RowNumbers {
        show: query.show,
        work: interval.total(),
        elapsed_us: interval.elapsed_us,
        averages: Some(present.averages.total()),
    };
    let mut heads = vec![head(NAME, "Device", "", query)];
    for column in &COLUMNS {
        heads.push(head(column.key, column.heading, column.class, query));
    }
    DeviceTable {
        heads,
        rows: rows
            .iter()
            .map(|(device, numbers)| row(device, numbers))
            .collect(),
        total: total.cells(true),
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
fn sort(rows: &mut [(&Device, RowNumbers)], query: &DevicesQuery) {
    rows.sort_by_cached_key(|(device, _)| (natural_key(&device.label), device.number));
    let Some(quantity) = query.sort_quantity() else {
        if query.order == SortOrder::Up {
            rows.reverse();
        }
        return;
    };
    let directed = |order: Ordering| match query.order {
        SortOrder::Up => order,
        SortOrder::Down => order.reverse(),
    };
    rows.sort_by(
        |(_, a), (_, b)| match (a.value(quantity), b.value(quantity)) {
            (Some(a), Some(b)) => directed(a.total_cmp(&b)),
            (a, b) => b.is_some().cmp(&a.is_some()),
        },
    );
}

fn row(device: &Device, numbers: &RowNumbers) -> ListedDevice {
    let is_named = device.label.starts_with(&*device.name);
    ListedDevice {
        label: device.label.clone(),
        detail: text::joined([
            (!is_named).then(|| device.name.to_string()),
            device.model.clone(),
        ]),
        href: device_href(device),
        cells: numbers.cells(false),
    }
}

/// The address of a device's page: the name of its volume, or the kernel's.
pub fn device_href(device: &Device) -> String {
    let name = if device.kind == DeviceKind::Dm {
        &*device.label
    } else {
        &*device.name
    };
    format!("/devices/{}", escaped(name))
}

fn head(key: &str, name: &'static str, class: &'static str, query: &DevicesQuery) -> DeviceHead {
    let is_current = query.is_sorted_by(key);
    let is_down = query.order == SortOrder::Down;
    let turned = if is_current && is_down { "up" } else { "down" };
    // Names are sorted from A to Z by default.
    let is_descending = is_down == query.sort_quantity().is_some();
    DeviceHead {
        name,
        class,
        href: format!("?{}", query.with(&[("sort", key), ("order", turned)])),
        is_current,
        direction: if is_descending {
            "descending"
        } else {
            "ascending"
        },
    }
}

fn tools(query: &DevicesQuery) -> ListTools {
    let pairs = query.pairs();
    // The first choice is the default.
    let switch = |name, key: &str, choices: &[(&str, &'static str)]| {
        let current = pairs.get(key).and_then(Value::as_str);
        let current = current.unwrap_or(choices[0].0);
        let choice = |(value, name): &(&str, &'static str)| ChoiceLink {
            name,
            href: format!("?{}", query.with(&[(key, value)])),
            is_current: *value == current,
        };
        ChoiceSwitch {
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
    let idles = [("hide", "hidden"), ("show", "shown")];
    let mut hidden_fields = Vec::new();
    for (key, value) in pairs.iter().filter(|(key, _)| *key != "filter") {
        hidden_fields.push((key.clone(), value.as_str().unwrap_or_default().into()));
    }
    ListTools {
        remark: "A volume's bytes also pass through its PVs, so do not add up rows. The total counts each byte once.",
        placeholder: "name or volume",
        filter: query.filter.clone(),
        hidden_fields,
        switches: vec![
            switch("Show", "show", &shows),
            switch("Never used", "idle", &idles),
        ],
        ..ListTools::default()
    }
}
