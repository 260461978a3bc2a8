//! The subjects whose rows are exported, the quantities of each, and what they are called: as columns, each quantity's mean,
//! and for rows of several ticks the smallest and the largest too; as metrics, a name with a base unit and labels.

use std::collections::BTreeSet;

use anyhow::bail;

use super::{ExportLine, ExportQuery, Resolution};
use crate::quantity::{Extent, Quantity};
use crate::store::address::{Kind, Stream};
use crate::store::catalog::{Catalog, DeviceRow, VolumeRow};
use crate::store::subject::{SeriesKey, Subject};

/// Maximum subjects that a sentence names.
const MOST_NAMED: usize = 20;

/// A subject whose rows are exported.
pub struct Topic {
    /// The stream of its own quantities.
    pub stream: Stream,
    /// The last name that it had.
    pub name: String,
    /// A device's identity or a volume's UUID.
    pub id: Option<String>,
    /// Each with the stream that it is in.
    pub quantities: Vec<(Stream, Quantity)>,
}

/// All subjects whose rows are exported.
#[derive(Default)]
pub struct Topics {
    pub list: Vec<Topic>,
}

/// A quantity as a gauge in its base unit, as OpenMetrics files and remote write name it.
pub struct Metric {
    /// The whole name.
    pub family: String,
    pub unit: &'static str,
    /// How many of the quantity's own units make one of these.
    pub scale: f64,
}

impl Topics {
    pub fn of(ask: &ExportQuery, catalog: &Catalog) -> anyhow::Result<Self> {
        let subjects = subjects(ask, catalog)?;
        refuse_unknown(&ask.metrics, &subjects)?;
        let mut topics = Self::default();
        for (subject, stream) in subjects {
            let asked = asked(&subject, stream, ask);
            if asked.is_empty() || topics.list.iter().any(|topic| topic.stream == stream) {
                continue;
            }
            let mut quantities = Vec::new();
            for quantity in asked {
                let subject = subject.clone();
                let wanted = SeriesKey { subject, quantity };
                quantities.extend(wanted.stream(catalog).map(|stream| (stream, quantity)));
            }
            topics.list.push(Topic::new(stream, quantities, catalog));
        }
        Ok(topics)
    }

    /// All that these streams have.
    pub fn of_streams(streams: &BTreeSet<Stream>, catalog: &Catalog) -> Self {
        let mut topics = Self::default();
        for stream in streams {
            // It is part of its device.
            if stream.kind == Kind::Copying {
                continue;
            }
            let with_stream =
                |quantity: Quantity| (Stream::new(quantity.kind(), stream.row), quantity);
            let quantities = own_quantities(*stream)
                .map(with_stream)
                .filter(|(stream, _)| streams.contains(stream))
                .collect();
            topics.list.push(Topic::new(*stream, quantities, catalog));
        }
        topics
    }
}

impl Metric {
    pub fn of(topic: &Topic, quantity: Quantity) -> Self {
        // The total has names of its own, so that no sum counts it too.
        let prefix = match topic.word() {
            "device" => "cowbell_device",
            "volume" => "cowbell_volume",
            "total" => "cowbell_total",
            _ => "cowbell_host",
        };
        let (name, unit) = quantity.metric();
        Self {
            family: format!("{prefix}_{name}_{unit}"),
            unit,
            scale: quantity.unit().per_base_unit(),
        }
    }
}

/// The labels of a subject.
pub fn labels(topic: &Topic) -> Vec<(&'static str, &str)> {
    let id = topic.id.as_deref().unwrap_or_default();
    match (topic.word(), topic.name.split_once('/')) {
        ("volume", Some((vg, lv))) => vec![("vg", vg), ("lv", lv), ("uuid", id)],
        ("device", _) => vec![("name", &topic.name), ("uuid", id)],
        _ => Vec::new(),
    }
}

impl Topic {
    fn new(stream: Stream, quantities: Vec<(Stream, Quantity)>, catalog: &Catalog) -> Self {
        let (name, id) = named(stream, catalog);
        Self {
            stream,
            name,
            id,
            quantities,
        }
    }

    /// Its kind, as in the API's `of`.
    pub fn word(&self) -> &'static str {
        match self.stream.kind {
            _ if self.stream == Stream::TOTAL => "total",
            Kind::Device | Kind::Copying => "device",
            Kind::Volume => "volume",
            Kind::Host => "vm",
        }
    }
}

/// The columns of a table.
#[derive(Default)]
pub struct Columns {
    quantities: Vec<Quantity>,
    /// Columns of a quantity.
    pub width: usize,
}

impl Columns {
    /// The quantities of all topics, each once.
    pub fn of(topics: &Topics, resolution: Resolution) -> Self {
        let topics = &topics.list;
        let has = |quantity: &Quantity| {
            let mut held = topics.iter().flat_map(|topic| &topic.quantities);
            held.any(|(_, other)| other == quantity)
        };
        Self {
            quantities: in_order().filter(has).collect(),
            width: if resolution == Resolution::Tick { 1 } else { 3 },
        }
    }

    pub fn names(&self) -> impl Iterator<Item = String> {
        self.quantities
            .iter()
            .flat_map(|quantity| names(*quantity).into_iter().take(self.width))
    }

    /// The cells of a row; quantities of other topics are unknown.
    pub fn cells(&self, line: &ExportLine) -> impl Iterator<Item = Option<f64>> {
        self.quantities.iter().flat_map(|quantity| {
            let place = line
                .topic
                .quantities
                .iter()
                .position(|(_, other)| other == quantity);
            values(place.and_then(|place| line.values[place].as_ref()))
                .into_iter()
                .take(self.width)
        })
    }
}

/// The mean, the smallest and the largest.
pub fn values(extent: Option<&Extent>) -> [Option<f64>; 3] {
    extent.map_or([None; 3], |extent| {
        [extent.all.value(), extent.min, extent.max].map(Some)
    })
}

/// The names of a quantity's mean, smallest and largest.
pub fn names(quantity: Quantity) -> [String; 3] {
    let name = quantity.name();
    let [min, max] = ["min", "max"].map(|which| format!("{name}_{which}"));
    [name.into(), min, max]
}

fn named(stream: Stream, catalog: &Catalog) -> (String, Option<String>) {
    if let Kind::Volume = stream.kind
        && let Some(volume) = catalog.volume_rows.get(&stream.row)
    {
        return (full_name(volume), Some(volume.uuid.to_string()));
    }
    match catalog.device_rows.get(&stream.row) {
        Some(device) if stream.kind == Kind::Device => {
            // Labels distinguish device-mapper devices.
            let name = if device.kind == "dm" {
                &device.label
            } else {
                &device.name
            };
            (name.clone(), Some(device.identity.to_string()))
        }
        _ if stream == Stream::HOST => ("vm".into(), None),
        _ => ("total".into(), None),
    }
}

/// The quantities of a subject's own rows, in the order of columns.
pub fn own_quantities(stream: Stream) -> impl Iterator<Item = Quantity> {
    let kinds: &[Kind] = match stream.kind {
        Kind::Device if stream != Stream::TOTAL => &[Kind::Device, Kind::Copying],
        Kind::Device | Kind::Copying => &[Kind::Device],
        Kind::Volume => &[Kind::Volume],
        Kind::Host => &[Kind::Host],
    };
    kinds.iter().flat_map(|kind| kind.quantities()).copied()
}

/// All quantities, in the order of columns.
fn in_order() -> impl Iterator<Item = Quantity> {
    [Kind::Device, Kind::Copying, Kind::Volume, Kind::Host]
        .into_iter()
        .flat_map(Kind::quantities)
        .copied()
}

/// The requested subjects; the error names one that was never seen.
fn subjects(ask: &ExportQuery, catalog: &Catalog) -> anyhow::Result<Vec<(Subject, Stream)>> {
    let with_stream = |subject: Subject| subject.stream(catalog).map(|stream| (subject, stream));
    if ask.of.is_empty() {
        let devices = catalog
            .device_rows
            .values()
            .map(|device| Subject::Device(device.identity.to_string()));
        let volumes = catalog
            .volume_rows
            .values()
            .map(|volume| Subject::Volume(volume.uuid.to_string()));
        let all = [Subject::Host, Subject::Total]
            .into_iter()
            .chain(devices)
            .chain(volumes);
        return Ok(all.filter_map(with_stream).collect());
    }
    let mut subjects = Vec::new();
    for of in &ask.of {
        match with_stream(Subject::named(of)?) {
            Some(subject) => subjects.push(subject),
            None => bail!(
                "nothing called `{of}` was ever seen here; there is {}",
                known(catalog)
            ),
        }
    }
    Ok(subjects)
}

/// The names of all subjects, for a sentence; the last seen first.
fn known(catalog: &Catalog) -> String {
    let mut devices: Vec<&DeviceRow> = catalog.device_rows.values().collect();
    let mut volumes: Vec<&VolumeRow> = catalog.volume_rows.values().collect();
    devices.sort_by_key(|device| std::cmp::Reverse(device.last_seen_ms));
    volumes.sort_by_key(|volume| std::cmp::Reverse(volume.last_seen_ms));
    let volumes = volumes
        .iter()
        .map(|volume| format!("volume:{}", full_name(volume)));
    let devices = devices
        .iter()
        .map(|device| format!("device:{}", device.name));
    let mut names: Vec<String> = Vec::new();
    for name in volumes.chain(devices).chain(["total".into(), "vm".into()]) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 {
        format!(", and {more} more")
    } else {
        String::new()
    };
    names.truncate(MOST_NAMED);
    names.join(", ") + &more
}

fn full_name(volume: &VolumeRow) -> String {
    format!("{}/{}", volume.vg, volume.lv)
}

/// Refuses a metric that none of the subjects has.
fn refuse_unknown(metrics: &[String], subjects: &[(Subject, Stream)]) -> anyhow::Result<()> {
    for metric in metrics {
        if !subjects
            .iter()
            .any(|(subject, _)| subject.quantity(metric).is_ok())
        {
            let has = |quantity: &Quantity| {
                subjects
                    .iter()
                    .any(|(_, stream)| own_quantities(*stream).any(|own| own == *quantity))
            };
            let names: Vec<&str> = in_order().filter(has).map(Quantity::name).collect();
            bail!(
                "expected `metric` to be one of {}, but found `{metric}`",
                names.join(", ")
            );
        }
    }
    Ok(())
}

/// The requested quantities of a subject.
fn asked(subject: &Subject, stream: Stream, ask: &ExportQuery) -> Vec<Quantity> {
    if ask.metrics.is_empty() {
        return own_quantities(stream).collect();
    }
    let found: Vec<Quantity> = ask
        .metrics
        .iter()
        .filter_map(|metric| subject.quantity(metric).ok())
        .collect();
    // If all subjects are requested, the device of a volume has rows of its own.
    let is_elsewhere = |quantity: &Quantity| {
        ask.of.is_empty() && !own_quantities(stream).any(|own| own == *quantity)
    };
    in_order()
        .filter(|quantity| found.contains(quantity) && !is_elsewhere(quantity))
        .collect()
}
