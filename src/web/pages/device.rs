//! `/devices/NAME`: one block device, by identity or by name.

use askama::Template;
use axum::extract::Path;

use super::charts;
use super::devices::device_href;
use super::text::{self, rate};
use super::{Content, GonePage, History, KeyFigure, Links, PageRequest, PageResult, speeds};
use crate::interval::Interval;
use crate::present::Present;
use crate::quantity::{Quantity, per_second};
use crate::store::Subject;
use crate::topology::Device;
use crate::units::size_text;
use crate::web::answer::Problem;

const MOST_JOBS: usize = 10;

/// A device that exists.
#[derive(Template)]
#[template(path = "device.html")]
struct DevicePage {
    label: String,
    description: String,
    /// The kind of disk, its I/O scheduler and read-ahead.
    remark: Option<String>,
    key_figures: Vec<KeyFigure>,
    links: Links,
    history: History,
}

pub async fn page(Path(name): Path<String>, request: PageRequest) -> PageResult {
    let present = &request.present;
    let device = present.interval.topology.device(&name);
    let (identity, label) = match (device, request.site.store.device(&name)) {
        (Some(device), _) => (device.identity.to_string(), device.label.clone()),
        (None, Some(gone)) => (gone.identity.to_string(), gone.label),
        (None, None) => {
            return Err(Problem::NotFound(format!(
                "no device called {name} was ever seen here"
            )));
        }
    };
    let subject = Subject::Device(identity);
    let range = request.view.range(present)?;
    let jobs = request.site.own_job_list(range, MOST_JOBS).await?;
    let copied = device.filter(|device| device.is_pv && charts::may_copy(present, &jobs.found));
    let sketches = charts::of_device(&subject, copied);
    let history = History::new(&request, range, &jobs, sketches).await?;
    let refresh = request.view.refresh(range);
    let Some(device) = device else {
        let page = GonePage {
            name: label,
            description: "",
            verdict: None,
            notice: "This device does not exist now. Its history remains.".into(),
            links: Links::new(),
            history,
        };
        return Content::new(&page.name, "/devices", refresh, &page);
    };
    let page = DevicePage {
        label,
        description: describe(device),
        remark: disk_remark(device),
        key_figures: key_figures(present, device),
        links: links(&present.interval, device),
        history,
    };
    Content::new(&page.label, "/devices", refresh, &page)
}

fn describe(device: &Device) -> String {
    let number = device.number;
    text::joined([
        Some(format!(
            "{} ({}:{})",
            device.name, number.major, number.minor
        )),
        Some(device.kind.text().into()),
        device.size.map(|sectors| size_text(sectors.bytes())),
        device.model.clone(),
        Some(device.identity.to_string()),
    ])
}

/// The kind of disk, its I/O scheduler and read-ahead.
fn disk_remark(device: &Device) -> Option<String> {
    let kind = match device.rotational {
        Some(true) => Some("rotating disk"),
        Some(false) => Some("non-rotating disk"),
        None => None,
    };
    let scheduler = device.scheduler.as_ref();
    let remark = text::joined([
        kind.map(String::from),
        scheduler.map(|scheduler| format!("I/O scheduler {scheduler}")),
        device
            .read_ahead_kib
            .map(|kib| format!("read-ahead {}", size_text(kib * 1024))),
    ]);
    (!remark.is_empty()).then_some(remark)
}

fn key_figures(present: &Present, device: &Device) -> Vec<KeyFigure> {
    let interval = &present.interval;
    let work = interval.work_of(device);
    let value = |quantity: Quantity| {
        let value = quantity.of_work(&work, interval.elapsed_us);
        text::value(quantity.unit(), value)
    };
    let queue = value(Quantity::QueueDepth);
    let mean = "ms, mean of the last tick";
    let mut figures = Vec::from(speeds(interval, &work, "in the last tick"));
    figures.extend([
        KeyFigure::new("Read latency", value(Quantity::ReadAwaitMs), mean),
        KeyFigure::new("Write latency", value(Quantity::WriteAwaitMs), mean),
        KeyFigure::new(
            "Busy",
            value(Quantity::Utilisation),
            format!("% of the last tick, queue depth {queue}"),
        ),
    ]);
    if device.is_pv && interval.may_copy(device) {
        figures.push(copying_figure(interval, device));
    }
    figures
}

/// The part of a PV's work that is COW copying.
fn copying_figure(interval: &Interval, device: &Device) -> KeyFigure {
    let name = "COW copying";
    let rate = |bytes: u64| rate(per_second(bytes, interval.elapsed_us));
    let Some(share) = interval.share(device) else {
        return KeyFigure::new(
            name,
            text::DASH,
            "unknown: the copied volumes span several PVs",
        );
    };
    let (read, written) = (rate(share.read), rate(share.written));
    let detail = format!("of the above: read {read}, written {written}");
    KeyFigure::new(name, rate(share.read + share.written), detail)
}

/// The devices below and above.
fn links(interval: &Interval, device: &Device) -> Links {
    let devices = &interval.topology.devices;
    let lies_on =
        |upper: &Device, lower: &Device| upper.slaves.iter().any(|slave| **slave == *lower.name);
    let below = devices.iter().filter(|other| lies_on(device, other));
    let above = devices.iter().filter(|other| lies_on(other, device));
    let below = below.map(|other| (format!("lies on {}", other.label), device_href(other)));
    let above = above.map(|other| (format!("carries {}", other.label), device_href(other)));
    below.chain(above).collect()
}
