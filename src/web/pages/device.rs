//! `/devices/NAME`: one block device, by identity or by name.

use askama::Template;
use axum::extract::{Path, State};

use super::charts::{self, Charts, RangeTools, View};
use super::phases::Phases;
use super::rows::JobTable;
use super::size::SizeView;
use super::text::{self, rate, size};
use super::{Answer, Content};
use crate::interval::Interval;
use crate::present::Present;
use crate::quantity::Quantity;
use crate::quantity::per_second;
use crate::store::Subject;
use crate::table::Table;
use crate::topology::{Device, DeviceKind};
use crate::verdict::Verdict;
use crate::web::Site;
use crate::web::answer::{ParsedQuery, Problem};

const MOST_JOBS: usize = 10;

/// The page of a device, a volume or a job.
#[derive(Default, Template)]
#[template(path = "subject.html")]
pub struct Subjects {
    pub name: String,
    pub description: String,
    /// Of a volume or job.
    pub verdict: Option<Verdict>,
    /// Sentences with commands, a line each.
    pub hints: Vec<String>,
    /// Further facts, a line each.
    pub remarks: Vec<String>,
    /// A warning above the figures.
    pub notice: Option<String>,
    /// Where to accept the result of a backup, beside the warning.
    pub accept: Option<String>,
    pub key_figures: Vec<KeyFigure>,
    pub ranges: RangeTools,
    pub charts: Charts,
    /// Of an origin.
    pub size: Option<SizeView>,
    pub phases: Option<Phases>,
    /// Notes on a job, the layout of a volume, or the volumes of a group or pool.
    pub tables: Vec<Table>,
    pub links: Vec<(String, String)>,
    pub jobs: Option<JobTable>,
}

/// A prominent number with its explanation.
pub struct KeyFigure {
    pub name: &'static str,
    pub value: String,
    pub detail: String,
}

impl KeyFigure {
    pub fn new(name: &'static str, value: String, detail: impl Into<String>) -> Self {
        Self {
            name,
            value,
            detail: detail.into(),
        }
    }
}

pub async fn page(
    State(site): State<Site>,
    Path(name): Path<String>,
    ParsedQuery(view): ParsedQuery<View>,
) -> Answer {
    let present = site.present()?;
    let device = present.interval.topology.device(&name);
    let (identity, label) = match (device, site.store.device(&name)) {
        (Some(device), _) => (device.identity.to_string(), device.label.clone()),
        (None, Some(gone)) => (gone.identity.to_string(), gone.label),
        (None, None) => {
            return Err(Problem::NotFound(format!(
                "no device called {name} was ever seen here"
            )));
        }
    };
    let subject = Subject::Device(identity);
    let range = view.range(&present)?;
    let jobs = site.own_job_list(range, MOST_JOBS).await?;
    let copied = device.filter(|device| device.is_pv && charts::may_copy(&present, &jobs.found));
    let sketches = vec![
        charts::throughput("Throughput", &subject),
        charts::copying(copied.into_iter()),
        charts::latency(&subject),
        charts::utilisation(&subject),
    ];
    let page = Subjects {
        name: label,
        description: device.map_or_else(String::new, describe),
        remarks: device.and_then(disk_remark).into_iter().collect(),
        notice: device
            .is_none()
            .then(|| "This device does not exist now. Its history remains.".into()),
        key_figures: device
            .map(|device| key_figures(&present, device))
            .unwrap_or_default(),
        ranges: view.ranges(range, &jobs.found),
        charts: charts::draw(&site, &present, &view, range, &jobs.found, sketches).await?,
        links: device
            .map(|device| links(&present.interval, device))
            .unwrap_or_default(),
        jobs: Some(JobTable::of(&jobs, &present)),
        ..Subjects::default()
    };
    let refresh = view.refresh(
        &format!("/devices/{}/now", crate::web::escaped(&name)),
        range,
    );
    Content::new(&page.name, "/devices", refresh, &page)
}

fn describe(device: &Device) -> String {
    let kind = match device.kind {
        DeviceKind::Disk => "disk",
        DeviceKind::Partition => "partition",
        DeviceKind::Loop => "loop device",
        DeviceKind::Md => "md array",
        DeviceKind::Dm => "device-mapper device",
        DeviceKind::Zram => "compressed memory",
        DeviceKind::Other => "device",
    };
    let size = device.size.map(|sectors| size(Some(sectors.bytes())));
    let name = format!(
        "{} ({}:{})",
        device.name, device.number.major, device.number.minor
    );
    let identity = device.identity.to_string();
    text::joined([
        Some(name),
        Some(kind.into()),
        size,
        device.model.clone(),
        Some(identity),
    ])
}

/// The kind of disk, its I/O scheduler and read-ahead.
fn disk_remark(device: &Device) -> Option<String> {
    let kind = device.rotational.map(|rotational| {
        if rotational {
            "rotating disk"
        } else {
            "non-rotating disk"
        }
    });
    let scheduler = device
        .scheduler
        .as_ref()
        .map(|scheduler| format!("I/O scheduler {scheduler}"));
    let read_ahead = device
        .read_ahead_kib
        .map(|kib| format!("read-ahead {}", size(Some(kib * 1024))));
    Some(text::joined([
        kind.map(String::from),
        scheduler,
        read_ahead,
    ]))
    .filter(|text| !text.is_empty())
}

fn key_figures(present: &Present, device: &Device) -> Vec<KeyFigure> {
    let interval = &present.interval;
    let work = interval.work_of(device);
    let value = |quantity: Quantity| quantity.of_work(&work, interval.elapsed_us);
    let rate = |quantity| rate(value(quantity));
    let count = |quantity| text::count(value(quantity));
    let (busy, queue) = (value(Quantity::Utilisation), count(Quantity::QueueDepth));
    let mut figures = vec![
        KeyFigure::new("Read", rate(Quantity::ReadBytes), "in the last tick"),
        KeyFigure::new("Written", rate(Quantity::WrittenBytes), "in the last tick"),
        KeyFigure::new(
            "Read latency",
            count(Quantity::ReadAwaitMs),
            "ms, mean of the last tick",
        ),
        KeyFigure::new(
            "Write latency",
            count(Quantity::WriteAwaitMs),
            "ms, mean of the last tick",
        ),
        KeyFigure::new(
            "Busy",
            text::share(busy),
            format!("% of the last tick, queue depth {queue}"),
        ),
    ];
    figures.extend(copying_figure(interval, device));
    figures
}

/// The part of a PV's work that is COW copying, while there are thick snapshots.
fn copying_figure(interval: &Interval, device: &Device) -> Option<KeyFigure> {
    if !device.is_pv || !interval.may_copy(device) {
        return None;
    }
    let rate = |bytes: u64| rate(per_second(bytes, interval.elapsed_us));
    Some(match interval.share(device) {
        Some(share) => KeyFigure::new(
            "COW copying",
            rate(share.read + share.written),
            format!(
                "of the above: read {}, written {}",
                rate(share.read),
                rate(share.written)
            ),
        ),
        None => KeyFigure::new(
            "COW copying",
            text::DASH.into(),
            "unknown: the copied volumes span several PVs",
        ),
    })
}

/// The devices below and above.
fn links(interval: &Interval, device: &Device) -> Vec<(String, String)> {
    let link = |word: &str, other: &Device| {
        (
            format!("{word} {}", other.label),
            super::devices::device_href(other),
        )
    };
    let devices = &interval.topology.devices;
    let below = devices
        .iter()
        .filter(|other| device.slaves.iter().any(|slave| **slave == *other.name));
    let above = devices
        .iter()
        .filter(|other| other.slaves.iter().any(|slave| **slave == *device.name));
    below
        .map(|other| link("lies on", other))
        .chain(above.map(|other| link("carries", other)))
        .collect()
}
