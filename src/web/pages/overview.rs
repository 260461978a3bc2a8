//! `/`: the verdict, usage of snapshots and pools, throughput, and recent jobs.

use askama::Template;
use axum::extract::State;

use super::charts::{self, ChoiceLink, Figure, Sketch, Trace, View};
use super::rows::{self, JobTable};
use super::{Answer, Content};
use crate::alert::Rule;
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::series::quantity::{DeviceQuantity, Quantity};
use crate::source::Part;
use crate::source::dm::usage_unknown;
use crate::store::Subject;
use crate::table::Table;
use crate::topology::{Device, VolumeKind};
use crate::units::{Fill, count_text, duration_text};
use crate::verdict::Verdict;
use crate::web::Site;
use crate::web::answer::ParsedQuery;

/// Maximum disks and fills in one readable chart.
const MOST_DISKS: usize = 4;
const MOST_FILLS: usize = 6;
const MOST_JOBS: usize = 10;
/// Maximum forecasts; each takes two lines and some milliseconds.
const MOST_OUTLOOKS: usize = 3;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    verdict: Verdict,
    more: Vec<String>,
    ranges: Vec<ChoiceLink>,
    span: String,
    fills: Table,
    nothing_to_watch: String,
    figures: Vec<Figure>,
    jobs: JobTable,
}

pub async fn page(State(site): State<Site>, ParsedQuery(view): ParsedQuery<View>) -> Answer {
    let present = site.present()?;
    let range = view.range(&present)?;
    let jobs = site.own_job_list(range, MOST_JOBS).await?;
    let sketches =
        vec![disks(&present), copying(&present, &jobs.found), fills(&present, &jobs.found), charts::paging()];
    let figures = charts::draw(&site, &view, range, &jobs.found, sketches).await?;
    let verdict = Verdict::of_host(&present);
    let page = Overview {
        more: more(&present, &verdict),
        verdict,
        ranges: view.ranges(&present),
        span: super::span_text(range),
        fills: rows::fills(&present),
        nothing_to_watch: nothing_to_watch(&present),
        figures,
        jobs: JobTable::of(&jobs, &present),
    };
    Content::new("Overview", "/", view.refresh("/overview", range), &page)
}

/// What else there is to say: other alerts, the recording, running jobs and their forecasts.
fn more(present: &Present, verdict: &Verdict) -> Vec<String> {
    let mut more = Vec::new();
    if present.alerts.len() > 1 {
        let others = count_text(present.alerts.len() - 1, "more alert is", "more alerts are");
        more.push(format!("{others} open."));
    }
    more.extend(present.ended.iter().map(|how| format!("This is a recording of {}: {how}.", present.host)));
    more.extend(running(present));
    more.extend(outlooks(present, &verdict.sentence));
    more.extend(present.store.error.clone().filter(|error| !verdict.sentence.contains(error)));
    more
}

fn running(present: &Present) -> Option<String> {
    let running: Vec<String> = present
        .jobs
        .iter()
        .filter(|job| job.is_running())
        .map(|job| format!("{} for {}", job.name, duration_text(job.seconds(present.interval.at))))
        .collect();
    (!running.is_empty()).then(|| format!("Running: {}.", running.join(", ")))
}

/// Forecasts for the backups that started last, except one that was shown.
fn outlooks(present: &Present, shown: &str) -> Vec<String> {
    let running = present.jobs.iter().rev().filter(|job| job.is_running() && job.kind == JobKind::Snapshot);
    let forecasts = running.take(MOST_OUTLOOKS).filter_map(|job| {
        let outlook = present.outlook(job).filter(|outlook| outlook.done.or(outlook.full).is_some())?;
        let is_shown = shown.contains(&outlook.text)
            || outlook.is_conclusive() && outlook.overflows.as_ref().is_some_and(|full| shown.contains(full));
        (!is_shown).then(|| format!("{}: {}", job.name, outlook.text))
    });
    forecasts.collect()
}

/// Why no snapshot or pool is listed: there is none, or cowbell cannot read it.
pub fn nothing_to_watch(present: &Present) -> String {
    let error = present.parts.get(&Part::Dm).and_then(|part| part.error.as_deref());
    match error {
        Some(error) => format!("{} Run cowbell check for details.", usage_unknown(error)),
        None => "New ones appear within a tick. cowbell demo shows an example.".into(),
    }
}

/// The busiest PVs, or disks if there is no LVM.
pub fn disks(present: &Present) -> Sketch {
    let has_pvs = present.interval.topology.devices.iter().any(|device| device.is_pv);
    let disks = busiest(present, has_pvs);
    let title = if has_pvs { "Throughput of the PVs" } else { "Throughput of the disks" };
    let traces = disks.iter().zip(0..).flat_map(|(device, number)| disk_traces(device, number)).collect();
    Sketch::new(title, charts::BYTES, traces)
}

/// The part that is COW copying, if there are or were thick snapshots.
pub fn copying(present: &Present, jobs: &[Job]) -> Sketch {
    let pvs = if charts::may_copy(present, jobs) { busiest(present, true) } else { Vec::new() };
    charts::copying(pvs.into_iter())
}

/// The busiest PVs or disks, sorted by name.
fn busiest(present: &Present, has_pvs: bool) -> Vec<&Device> {
    let topology = &present.interval.topology;
    let mut disks: Vec<(&Device, u64)> = topology
        .devices
        .iter()
        .filter(|device| if has_pvs { device.is_pv } else { device.counts })
        .map(|device| (device, moved(present, device)))
        .collect();
    disks.sort_by_key(|(_, moved)| std::cmp::Reverse(*moved));
    disks.truncate(MOST_DISKS);
    disks.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    disks.into_iter().map(|(device, _)| device).collect()
}

fn moved(present: &Present, device: &Device) -> u64 {
    let tally = present.tallies.device(&device.identity);
    tally.map_or(0, |tally| tally.sum.sectors_read.0 + tally.sum.sectors_written.0)
}

fn disk_traces(device: &Device, number: u8) -> [Trace; 2] {
    let subject = Subject::Device(device.identity.to_string());
    let looks = charts::disk_looks(number);
    let trace = |what: &str, quantity, look| {
        charts::trace(format!("{} {what}", device.name), &subject, Quantity::Device(quantity), look)
    };
    [
        trace("read", DeviceQuantity::ReadBytes, looks[0]),
        trace("written", DeviceQuantity::WrittenBytes, looks[1]),
    ]
}

/// The fullest snapshots and pools, also of removed snapshots in the range.
fn fills(present: &Present, jobs: &[Job]) -> Sketch {
    let mut volumes: Vec<_> = present
        .interval
        .volumes()
        .filter(|(volume, _)| matches!(volume.kind, VolumeKind::Snapshot | VolumeKind::ThinPool))
        .map(|(volume, state)| {
            let percent = state.fill.map_or(0.0, Fill::percent);
            (percent, volume.full_name(), volume.uuid.to_string(), volume.kind == VolumeKind::ThinPool)
        })
        .collect();
    let is_gone =
        |job: &&Job| job.kind == JobKind::Snapshot && !job.is_running() && job.peak_fill_percent.is_some();
    volumes.extend(jobs.iter().filter(is_gone).map(|job| {
        let name = format!("{}/{}", job.vg.as_deref().unwrap_or_default(), job.name);
        (job.peak_fill_percent.unwrap_or_default(), name, job.key.clone(), false)
    }));
    volumes.sort_by(|a, b| b.0.total_cmp(&a.0));
    volumes.truncate(MOST_FILLS);
    // Sorted by name, so that colours stay while fills change.
    volumes.sort_by(|a, b| (a.3, &a.1).cmp(&(b.3, &b.1)));
    let traces = volumes.iter().zip(0..).flat_map(|((_, name, uuid, has_metadata), number)| {
        charts::fill_traces(name, &Subject::Volume(uuid.clone()), *has_metadata, number)
    });
    charts::fills(traces.collect(), present.thresholds.general().of(Rule::SnapshotFill))
}
