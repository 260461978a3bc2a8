//! Whose rows are exported, and which quantities each has.

use std::collections::HashMap;

use anyhow::bail;

use super::Ask;
use crate::series::quantity::Quantity;
use crate::store::catalog::{Catalog, DeviceRow, Rows, VolumeRow};
use crate::store::stream::{Kind, Stream};
use crate::store::subject::{Subject, Wanted};

/// Subjects that a sentence names at most.
const MOST_NAMED: usize = 20;

/// The kinds of topics, each with a table of its own; the total is in that of the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    Device,
    Volume,
    Total,
    Host,
}

/// A subject whose rows are exported.
pub struct Topic {
    pub sort: Sort,
    /// The row of the device or the volume; 0 for the total and the host.
    pub row: u32,
    /// As people call it; the last name that it had.
    pub name: String,
    /// What makes it unlike all others, whatever its name.
    pub id: Option<String>,
    /// Each with the place of the stream that it is in.
    pub quantities: Vec<(usize, Quantity)>,
}

/// All subjects whose rows are exported.
#[derive(Default)]
pub struct Topics {
    pub list: Vec<Topic>,
    pub streams: Vec<Stream>,
    places: HashMap<Stream, usize>,
}

impl Sort {
    fn of(subject: &Subject) -> Self {
        match subject {
            Subject::Device(_) => Self::Device,
            Subject::Volume(_) => Self::Volume,
            Subject::Total => Self::Total,
            Subject::Host => Self::Host,
        }
    }

    /// As the API's `of` has it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Volume => "volume",
            Self::Total => "total",
            Self::Host => "vm",
        }
    }

    /// The kinds of quantities that are its own.
    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Device => &[Kind::Device, Kind::Copying],
            Self::Volume => &[Kind::Volume],
            Self::Total => &[Kind::Device],
            Self::Host => &[Kind::Host],
        }
    }

    /// The quantities that are its own, in the order of columns.
    pub fn quantities(self) -> impl Iterator<Item = Quantity> {
        self.kinds().iter().flat_map(|kind| kind.quantities()).copied()
    }
}

impl Topics {
    pub fn of(ask: &Ask, catalog: &Catalog) -> anyhow::Result<Self> {
        let rows = catalog.rows();
        let subjects = subjects(ask, catalog, &rows)?;
        refuse_unknown(&ask.metrics, &subjects)?;
        let mut topics = Self::default();
        for subject in subjects {
            let topic = Topic::of(&subject, catalog, &rows);
            let quantities = quantities(&subject, topic.sort, ask);
            if !quantities.is_empty() && !topics.list.iter().any(|known| known.is(&topic)) {
                topics.add(topic, &subject, quantities, catalog);
            }
        }
        Ok(topics)
    }

    fn add(&mut self, mut topic: Topic, subject: &Subject, quantities: Vec<Quantity>, catalog: &Catalog) {
        for quantity in quantities {
            let wanted = Wanted { subject: subject.clone(), quantity };
            if let Some(stream) = wanted.stream(catalog) {
                let place = self.place(stream);
                topic.quantities.push((place, quantity));
            }
        }
        self.list.push(topic);
    }

    fn place(&mut self, stream: Stream) -> usize {
        let next = self.streams.len();
        let place = *self.places.entry(stream).or_insert(next);
        if place == next {
            self.streams.push(stream);
        }
        place
    }

    /// Every quantity that a topic of these sorts has, once, in the order of columns.
    pub fn quantities(&self, sorts: &[Sort]) -> Vec<Quantity> {
        let topics = self.list.iter().filter(|topic| sorts.contains(&topic.sort));
        let held: Vec<Quantity> =
            topics.flat_map(|topic| &topic.quantities).map(|(_, quantity)| *quantity).collect();
        in_order().filter(|quantity| held.contains(quantity)).collect()
    }
}

impl Topic {
    fn of(subject: &Subject, catalog: &Catalog, rows: &Rows) -> Self {
        let sort = Sort::of(subject);
        let found = match subject {
            Subject::Device(name) => {
                let id = catalog.device_named(name);
                let device = rows.devices.iter().find(|device| Some(device.id) == id);
                device.map(|device| (device.id, short_name(device), device.identity.to_string()))
            }
            Subject::Volume(name) => {
                let id = catalog.volume_named(name);
                let volume = rows.volumes.iter().find(|volume| Some(volume.id) == id);
                volume.map(|volume| (volume.id, full_name(volume), volume.uuid.to_string()))
            }
            Subject::Total | Subject::Host => None,
        };
        let (row, name, id) = match found {
            Some((row, name, id)) => (row, name, Some(id)),
            None => (0, sort.word().to_string(), None),
        };
        Self { sort, row, name, id, quantities: Vec::new() }
    }

    fn is(&self, other: &Self) -> bool {
        (self.sort, self.row) == (other.sort, other.row)
    }
}

/// Who is asked for, and was ever seen.
fn subjects(ask: &Ask, catalog: &Catalog, rows: &Rows) -> anyhow::Result<Vec<Subject>> {
    if ask.of.is_empty() {
        return Ok(all(rows));
    }
    let mut subjects = Vec::new();
    for of in &ask.of {
        let subject = Subject::named(of)?;
        let is_known = match &subject {
            Subject::Device(name) => catalog.device_named(name).is_some(),
            Subject::Volume(name) => catalog.volume_named(name).is_some(),
            Subject::Total | Subject::Host => true,
        };
        if !is_known {
            bail!("nothing called `{of}` was ever seen here; there is {}", known(rows));
        }
        subjects.push(subject);
    }
    Ok(subjects)
}

fn all(rows: &Rows) -> Vec<Subject> {
    let devices = rows.devices.iter().map(|device| Subject::Device(device.identity.to_string()));
    let volumes = rows.volumes.iter().map(|volume| Subject::Volume(volume.uuid.to_string()));
    [Subject::Host, Subject::Total].into_iter().chain(devices).chain(volumes).collect()
}

/// What can be asked for, for a sentence; what was seen last goes first.
fn known(rows: &Rows) -> String {
    let (mut devices, mut volumes) = (rows.devices.clone(), rows.volumes.clone());
    devices.sort_by_key(|device| std::cmp::Reverse(device.last_seen_ms));
    volumes.sort_by_key(|volume| std::cmp::Reverse(volume.last_seen_ms));
    let volumes = volumes.iter().map(|volume| format!("volume:{}", full_name(volume)));
    let devices = devices.iter().map(|device| format!("device:{}", device.name));
    let mut names: Vec<String> = Vec::new();
    for name in volumes.chain(devices).chain(["total".into(), "vm".into()]) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(MOST_NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    names.truncate(MOST_NAMED);
    names.join(", ") + &more
}

/// What tells it from its neighbours: of the device-mapper's, the label, which has the volume's name.
fn short_name(device: &DeviceRow) -> String {
    if device.kind == "dm" { device.label.clone() } else { device.name.clone() }
}

fn full_name(volume: &VolumeRow) -> String {
    format!("{}/{}", volume.vg, volume.lv)
}

/// A metric that nobody has who is asked for.
fn refuse_unknown(metrics: &[String], subjects: &[Subject]) -> anyhow::Result<()> {
    for metric in metrics {
        let mut misfits = subjects.iter().map(|subject| subject.quantity(metric));
        if !misfits.any(|quantity| quantity.is_ok()) {
            let names = names(subjects).join(", ");
            bail!("expected `metric` to be one of {names}, but found `{metric}`");
        }
    }
    Ok(())
}

fn names(subjects: &[Subject]) -> Vec<String> {
    let mut quantities: Vec<Quantity> = Vec::new();
    for quantity in subjects.iter().flat_map(|subject| Sort::of(subject).quantities()) {
        if !quantities.contains(&quantity) {
            quantities.push(quantity);
        }
    }
    quantities.into_iter().map(Quantity::name).collect()
}

/// What is asked for of a subject.
fn quantities(subject: &Subject, sort: Sort, ask: &Ask) -> Vec<Quantity> {
    if ask.metrics.is_empty() {
        return sort.quantities().collect();
    }
    let found: Vec<Quantity> =
        ask.metrics.iter().filter_map(|metric| subject.quantity(metric).ok()).collect();
    // Where all that there is is asked for, what a volume's device does is in the device's own rows.
    let is_told = |quantity: &Quantity| ask.of.is_empty() && !sort.quantities().any(|own| own == *quantity);
    in_order().filter(|quantity| found.contains(quantity) && !is_told(quantity)).collect()
}

/// All quantities, in the order of columns.
fn in_order() -> impl Iterator<Item = Quantity> {
    [Sort::Device, Sort::Volume, Sort::Host].into_iter().flat_map(Sort::quantities)
}
