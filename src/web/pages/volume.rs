//! `/volumes/VG/LV`: one volume, also after it is gone.

use axum::extract::{Path, State};
use axum::response::Html;

use super::charts::{self, View};
use super::device::{KeyFigure, Subjects};
use super::rows;
use super::text::{self, Writing};
use super::{Answer, Content, framed, job_list, moment, shown};
use crate::interval::Interval;
use crate::present::Present;
use crate::series::Observation;
use crate::series::quantity::DeviceQuantity;
use crate::store::Subject;
use crate::topology::{Volume, VolumeKind, VolumeState};
use crate::units::Fill;
use crate::web::Site;
use crate::web::answer::{Asked, Problem};

const MOST_JOBS: usize = 50;

pub async fn page(
    State(site): State<Site>,
    Path((vg, lv)): Path<(String, String)>,
    Asked(view): Asked<View>,
) -> Answer {
    let now = now(&site, &vg, &lv, &view).await?;
    let refresh =
        view.refresh(&format!("{}/now", rows::volume_href(&vg, &lv)), view.range(&*site.present()?)?);
    let title = format!("{vg}/{lv}");
    framed(&site, Content { title: &title, place: "/volumes", refresh, tools: String::new(), now })
}

pub async fn fragment(
    State(site): State<Site>,
    Path((vg, lv)): Path<(String, String)>,
    Asked(view): Asked<View>,
) -> Answer {
    now(&site, &vg, &lv, &view).await.map(Html)
}

async fn now(site: &Site, vg: &str, lv: &str, view: &View) -> Result<String, Problem> {
    let present = site.present()?;
    let name = format!("{vg}/{lv}");
    let found = present.interval.volumes().find(|(volume, _)| volume.vg == vg && volume.lv == lv);
    let subject = Subject::Volume(found.map_or(name.clone(), |(volume, _)| volume.uuid.to_string()));
    if found.is_none() && !site.archive.knows(&subject).await? {
        return Err(Problem::NotFound(format!("No volume called {name} was ever seen here.")));
    }
    let range = view.range(&present)?;
    let mut jobs = job_list(site, &present, range, MOST_JOBS).await?;
    jobs.retain(|job| {
        job.vg.as_deref() == Some(vg) && [job.lv.as_deref(), job.origin.as_deref()].contains(&Some(lv))
    });
    let thresholds = present.thresholds.snapshot_fill;
    let is_pool = found.is_some_and(|(volume, _)| volume.kind == VolumeKind::ThinPool);
    let has_fill = found.is_none_or(|(_, state)| state.fill.is_some());
    let traces = if has_fill { charts::fill_traces(&name, &subject, is_pool, 0) } else { Vec::new() };
    let sketches = vec![
        charts::fills(traces, thresholds),
        charts::throughput("Throughput", &subject),
        charts::latency(&subject),
    ];
    shown(&Subjects {
        name: name.clone(),
        description: found.map_or_else(String::new, |(volume, _)| describe(volume, &present)),
        notice: found.is_none().then(|| "This volume is not there now. What was seen of it is kept.".into()),
        key_figures: found.map(|(volume, state)| key_figures(&present, volume, state)).unwrap_or_default(),
        ranges: view.ranges(&present),
        span: super::span_text(range),
        figures: charts::draw(site, view, range, &jobs, sketches).await?,
        links: found.map(|(volume, _)| links(&present.interval, volume)).unwrap_or_default(),
        jobs: rows::jobs(&jobs, present.interval.at),
    })
}

fn describe(volume: &Volume, present: &Present) -> String {
    let device = volume.device.map(|index| present.interval.topology.devices[index].name.to_string());
    let parts = [
        Some(match &volume.origin {
            Some(origin) => format!("{} of {}/{origin}", volume.kind.text(), volume.vg),
            None => volume.kind.text().to_string(),
        }),
        volume.pool.as_ref().map(|pool| format!("in pool {}/{pool}", volume.vg)),
        volume.size.map(|size| Writing::default().amount(Some(size as f64))),
        (!volume.pvs.is_empty()).then(|| format!("on {}", volume.pvs.join(", "))),
        volume.created_at.map(|at| format!("made {}", moment(at, present.interval.at))),
        device,
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

fn key_figures(present: &Present, volume: &Volume, state: &VolumeState) -> Vec<KeyFigure> {
    let percent = |fill: Option<Fill>| text::or_dash(fill.map(|fill| format!("{:.2} %", fill.percent())));
    let mut figures =
        vec![KeyFigure::new("State", state.state.text().into(), volume.health.clone().unwrap_or_default())];
    if state.fill.is_some() {
        figures.push(KeyFigure::new(
            "Fill",
            percent(state.fill),
            rows::used_of_size(state.fill, volume.size),
        ));
    }
    if state.metadata.is_some() {
        let of = rows::used_of_size(state.metadata, None);
        figures.push(KeyFigure::new("Metadata", percent(state.metadata), of));
    }
    let interval = &present.interval;
    let work = interval.device_of(volume).and_then(|done| done.work);
    let value = |quantity: DeviceQuantity| {
        work.and_then(|work| quantity.observe(&work, interval.elapsed_us)).map(Observation::value)
    };
    let rate = |quantity| Writing::default().rate(value(quantity));
    figures.push(KeyFigure::new("Read", rate(DeviceQuantity::ReadBytes), "in the last tick"));
    figures.push(KeyFigure::new("Written", rate(DeviceQuantity::WrittenBytes), "in the last tick"));
    let group = interval.topology.group(&volume.vg);
    let free = group.and_then(|group| group.free).map(|free| free as f64);
    figures.push(KeyFigure::new("Free in the group", Writing::default().amount(free), volume.vg.clone()));
    figures
}

/// The volume's device, its origin, and its snapshots.
fn links(interval: &Interval, volume: &Volume) -> Vec<(String, String)> {
    let topology = &interval.topology;
    let named =
        |word: &str, lv: &str| (format!("{word} {}/{lv}", volume.vg), rows::volume_href(&volume.vg, lv));
    let device = volume.device.map(|index| &topology.devices[index]);
    let device =
        device.map(|device| (format!("device {}", device.name), super::devices::device_href(device)));
    let origin = volume.origin.as_deref().map(|origin| named("origin", origin));
    let pool = volume.pool.as_deref().map(|pool| named("pool", pool));
    let is_snapshot_of_it =
        |other: &&Volume| other.vg == volume.vg && other.origin.as_ref() == Some(&volume.lv);
    let snapshots =
        topology.volumes.iter().filter(is_snapshot_of_it).map(|other| named("snapshot", &other.lv));
    device.into_iter().chain(origin).chain(pool).chain(snapshots).collect()
}
