//! `/devices/NAME`: one block device, by identity or by name.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Html;

use super::charts::{self, Figure, RangeLink, View};
use super::phases::Phases;
use super::rows::JobTable;
use super::text::{self, Writing};
use super::{Answer, Content, framed, own_job_list, shown};
use crate::interval::{DeviceInterval, Interval};
use crate::present::Present;
use crate::series::Observation;
use crate::series::quantity::DeviceQuantity;
use crate::store::Subject;
use crate::table::Table;
use crate::topology::{Device, DeviceKind};
use crate::web::Site;
use crate::web::answer::{ParsedQuery, Problem};

const MOST_JOBS: usize = 10;

/// A page of one thing: what it is, its figures, its charts.
#[derive(Template)]
#[template(path = "subject.html")]
pub struct Subjects {
    pub name: String,
    pub description: String,
    /// What else there is to know of it, a line each.
    pub remarks: Vec<String>,
    /// What has to be said before the figures.
    pub notice: Option<String>,
    pub key_figures: Vec<KeyFigure>,
    pub ranges: Vec<RangeLink>,
    pub span: String,
    pub figures: Vec<Figure>,
    pub phases: Option<Phases>,
    /// Notes on a job, or the layout of a volume.
    pub table: Option<Table>,
    pub links: Vec<(String, String)>,
    pub jobs: Option<JobTable>,
}

/// One number that matters, with what it is of.
pub struct KeyFigure {
    pub name: &'static str,
    pub value: String,
    pub detail: String,
}

impl KeyFigure {
    pub fn new(name: &'static str, value: String, detail: impl Into<String>) -> Self {
        Self { name, value, detail: detail.into() }
    }
}

pub async fn page(
    State(site): State<Site>,
    Path(name): Path<String>,
    ParsedQuery(view): ParsedQuery<View>,
) -> Answer {
    let now = now(&site, &name, &view).await?;
    let refresh =
        view.refresh(&format!("/devices/{}/now", text::escaped(&name)), view.range(&*site.present()?)?);
    let title = site.present()?.interval.topology.device(&name).map_or(name, |device| device.label.clone());
    framed(&site, Content { title: &title, place: "/devices", refresh, tools: String::new(), now })
}

pub async fn fragment(
    State(site): State<Site>,
    Path(name): Path<String>,
    ParsedQuery(view): ParsedQuery<View>,
) -> Answer {
    now(&site, &name, &view).await.map(Html)
}

async fn now(site: &Site, name: &str, view: &View) -> Result<String, Problem> {
    let present = site.present()?;
    let topology = &present.interval.topology;
    let device = topology.device(name);
    let subject = Subject::Device(device.map_or(name, |device| &device.identity).to_string());
    if device.is_none() && !site.store.knows(&subject) {
        return Err(Problem::NotFound(format!("No device called {name} was ever seen here.")));
    }
    let range = view.range(&present)?;
    let jobs = own_job_list(site, &present, range, MOST_JOBS).await?;
    let copied = device.filter(|device| device.is_pv && charts::may_copy(&present, &jobs.found));
    let sketches = vec![
        charts::throughput("Throughput", &subject),
        charts::copying(copied.into_iter()),
        charts::latency(&subject),
        charts::utilisation(&subject),
    ];
    shown(&Subjects {
        name: device.map_or(name, |device| &device.label).to_string(),
        description: device.map_or_else(String::new, describe),
        remarks: device.and_then(disk_remark).into_iter().collect(),
        notice: device.is_none().then(|| "This device is not there now. What it did is kept.".into()),
        key_figures: device.map(|device| key_figures(&present, device)).unwrap_or_default(),
        ranges: view.ranges(&present),
        span: super::span_text(range),
        figures: charts::draw(site, view, range, &jobs.found, sketches).await?,
        phases: None,
        table: None,
        links: device.map(|device| links(&present.interval, device)).unwrap_or_default(),
        jobs: Some(JobTable::of(&jobs, present.interval.at)),
    })
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
    let size = device.size.map(|size| Writing::default().amount(Some(size.bytes() as f64)));
    let parts = [
        Some(format!("{} ({}:{})", device.name, device.number.major, device.number.minor)),
        Some(kind.into()),
        size,
        device.model.clone(),
        Some(device.identity.to_string()),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// What kind of disk it is, where it or its disk says so.
fn disk_remark(device: &Device) -> Option<String> {
    let kind = device.rotational.map(|rotational| if rotational { "rotating disk" } else { "not rotating" });
    let scheduler = device.scheduler.as_ref().map(|scheduler| format!("I/O scheduler {scheduler}"));
    let read_ahead = device
        .read_ahead_kib
        .map(|kib| format!("reads ahead {}", Writing::default().amount(Some(kib as f64 * 1024.0))));
    let parts: Vec<String> = [kind.map(String::from), scheduler, read_ahead].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

fn key_figures(present: &Present, device: &Device) -> Vec<KeyFigure> {
    let interval = &present.interval;
    let done = done_by(interval, device);
    let value = |quantity: DeviceQuantity| {
        done.work.and_then(|work| quantity.observe(&work, interval.elapsed_us)).map(Observation::value)
    };
    let writing = Writing::default();
    let requests = |quantity| format!("{} requests/s", text::count(value(quantity)));
    let latency = |quantity| text::count(value(quantity));
    let mut figures = vec![
        KeyFigure::new(
            "Read",
            writing.rate(value(DeviceQuantity::ReadBytes)),
            requests(DeviceQuantity::Reads),
        ),
        KeyFigure::new(
            "Written",
            writing.rate(value(DeviceQuantity::WrittenBytes)),
            requests(DeviceQuantity::Writes),
        ),
        KeyFigure::new("Read latency", latency(DeviceQuantity::ReadAwaitMs), "ms, mean of the last tick"),
        KeyFigure::new("Write latency", latency(DeviceQuantity::WriteAwaitMs), "ms, mean of the last tick"),
        KeyFigure::new(
            "Busy",
            text::percent(value(DeviceQuantity::Utilisation)),
            format!("% of the last tick, queue depth {}", text::count(value(DeviceQuantity::QueueDepth))),
        ),
    ];
    figures.extend(copying_figure(interval, device));
    figures
}

/// How much of a PV's work is copying for thick snapshots, while there are any.
fn copying_figure(interval: &Interval, device: &Device) -> Option<KeyFigure> {
    if !device.is_pv || !interval.may_copy(device) {
        return None;
    }
    let rate = |bytes: u64| {
        let rate = Observation::per_second(bytes, interval.elapsed_us, 1.0).map(Observation::value);
        Writing::default().rate(rate)
    };
    Some(match interval.share(device) {
        Some(share) => KeyFigure::new(
            "COW copying",
            rate(share.read + share.written),
            format!("of the above: read {}, written {}", rate(share.read), rate(share.written)),
        ),
        None => KeyFigure::new(
            "COW copying",
            text::DASH.into(),
            "not known by PV: what is copied lies on several",
        ),
    })
}

fn done_by(interval: &Interval, device: &Device) -> DeviceInterval {
    let index = interval.topology.devices.iter().position(|other| other.identity == device.identity);
    index.and_then(|index| interval.devices.get(index)).copied().unwrap_or_default()
}

/// What the device lies on, and what lies on it.
fn links(interval: &Interval, device: &Device) -> Vec<(String, String)> {
    let link =
        |word: &str, other: &Device| (format!("{word} {}", other.label), super::devices::device_href(other));
    let devices = &interval.topology.devices;
    let below = devices.iter().filter(|other| device.slaves.iter().any(|slave| **slave == *other.name));
    let above = devices.iter().filter(|other| other.slaves.iter().any(|slave| **slave == *device.name));
    below.map(|other| link("lies on", other)).chain(above.map(|other| link("carries", other))).collect()
}
