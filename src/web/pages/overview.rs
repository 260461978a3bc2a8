//! `/`: the verdict, usage of snapshots and pools, throughput, and recent jobs.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;

use super::charts::{self, Charts, RangeTools, Sketch, Trace, View};
use super::rows::{self, JobTable};
use super::{Answer, Content, zoned_moment};
use crate::alert::{Rule, alike, usual_period};
use crate::chart::Look;
use crate::job::{Job, JobKind};
use crate::present::{AT_ITS_END, Present};
use crate::quantity::Quantity;
use crate::series::Range;
use crate::source::Part;
use crate::store::Subject;
use crate::table::Table;
use crate::topology::Device;
use crate::units::{Fill, count_text, duration_text, percent_text, rough_text};
use crate::verdict::Verdict;
use crate::web::Site;
use crate::web::answer::ParsedQuery;

/// Maximum disks and fills in one readable chart.
const MOST_DISKS: usize = 4;
const MOST_FILLS: usize = 6;
const MOST_JOBS: usize = 10;
const MOST_LASTS: usize = 2;
/// Three charts fit on a screen of 768 pixels.
const HEIGHT: u32 = 100;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    verdict: Verdict,
    more: Vec<String>,
    /// With names of jobs, in which a backtick begins no command.
    running: Option<String>,
    ranges: RangeTools,
    fills: Table,
    /// Sentences on the last backups, and their addresses.
    lasts: Vec<(String, String)>,
    nothing_to_watch: String,
    charts: Charts,
    jobs: JobTable,
}

pub async fn page(State(site): State<Site>, ParsedQuery(view): ParsedQuery<View>) -> Answer {
    let present = site.present()?;
    let range = view.range(&present)?;
    let jobs = site.own_job_list(range, MOST_JOBS).await?;
    let sketches = [
        fills(&present, &jobs.found),
        reads(&jobs.found),
        disks(&present),
    ];
    let sketches = sketches
        .map(|sketch| Sketch {
            height: HEIGHT,
            ..sketch
        })
        .into();
    let charts = charts::draw(&site, &present, &view, range, &jobs.found, sketches).await?;
    let verdict = Verdict::of_host(&present);
    let page = Overview {
        more: more(&present, &verdict),
        running: running(&present),
        verdict,
        ranges: view.ranges(range, &jobs.found),
        fills: rows::fills(&present),
        lasts: last_backups(&present),
        nothing_to_watch: nothing_to_watch(&present),
        charts,
        jobs: JobTable::of(&jobs, &present),
    };
    Content::new("Overview", "/", view.refresh("/overview", range), &page)
}

/// What else there is to say, such as other alerts.
fn more(present: &Present, verdict: &Verdict) -> Vec<String> {
    let mut more = Vec::new();
    let others = alike(&present.alerts).len().saturating_sub(1);
    if others > 0 {
        let others = count_text(others, "more alert is", "more alerts are");
        more.push(format!("{others} open."));
    }
    // The sign says the usual end.
    let early = present.ended.iter().filter(|how| *how != AT_ITS_END);
    more.extend(early.map(|how| format!("This is a recording of {}: {how}.", present.host)));
    more.extend(
        present
            .store
            .error
            .clone()
            .filter(|error| !verdict.sentence.contains(error)),
    );
    more
}

fn running(present: &Present) -> Option<String> {
    // The table shows those of snapshots.
    let running: Vec<String> = present
        .jobs
        .iter()
        .filter(|job| job.is_running() && job.kind != JobKind::Snapshot)
        .map(|job| {
            format!(
                "{} for {}",
                job.name,
                duration_text(job.seconds(present.interval.at))
            )
        })
        .collect();
    (!running.is_empty()).then(|| format!("Running: {}.", running.join(", ")))
}

/// Why no snapshot or pool is listed: there is none, or cowbell cannot read it, as the verdict says.
pub fn nothing_to_watch(present: &Present) -> String {
    match present.parts.get(&Part::Dm).and_then(|part| part.error.as_ref()) {
        Some(_) => "Snapshots and thin pools cannot be seen. `cowbell check` says why, and what to do.".into(),
        None => "There is no snapshot or thin pool. New ones appear within a tick. `cowbell demo` shows an example.".into(),
    }
}

/// The read speed of what is backed up.
fn reads(jobs: &[Job]) -> Sketch {
    let snapshots = jobs
        .iter()
        .filter(|job| job.kind == JobKind::Snapshot)
        .take(MOST_FILLS);
    let traces = snapshots.zip(0..).map(|(job, number)| {
        let subject = Subject::Volume(job.key.clone());
        let look = if number == 0 {
            Look::Read
        } else {
            Look::Other(number - 1)
        };
        charts::trace(&job.name, &subject, Quantity::ReadBytes, look)
    });
    Sketch::new("Read speed of backups", charts::BYTES, traces.collect())
}

/// The last backup of each origin, and when the next is usual.
fn last_backups(present: &Present) -> Vec<(String, String)> {
    let mut found: Vec<(&Job, Vec<f64>)> = Vec::new();
    let ended = present.jobs.iter().rev().map(Arc::as_ref);
    for job in
        ended.filter(|job| job.is_backup() && !job.is_imported() && job.kind == JobKind::Snapshot)
    {
        let Some(age_s) = job.ended_at.map(|at| {
            Range {
                from: at,
                to: present.interval.at,
            }
            .seconds()
        }) else {
            continue;
        };
        match found
            .iter_mut()
            .find(|(last, _)| (&last.vg, &last.origin) == (&job.vg, &job.origin))
        {
            Some((_, ages)) => ages.push(age_s),
            None => found.push((job, vec![age_s])),
        }
    }
    let line = |(job, ages): (&Job, Vec<f64>)| {
        let of = match (&job.vg, &job.origin) {
            (Some(vg), Some(origin)) => format!("Last backup of {vg}/{origin}"),
            _ => "Last backup".into(),
        };
        let peak = job
            .peak_fill_percent
            .map(|peak| format!(", peak {}", percent_text(peak)));
        let next = usual_period(&ages)
            .filter(|(usual_s, _)| *usual_s > ages[0])
            .map(|(usual_s, _)| {
                format!(
                    "; the next usually ends in about {}",
                    rough_text(usual_s - ages[0])
                )
            });
        let (outcome, took) = (job.judgement().word(), rows::took(job, present.interval.at));
        let began = zoned_moment(job.started_at, present.interval.at);
        let text = format!(
            "{of}: {outcome}, {began}, {took}{}{}.",
            peak.unwrap_or_default(),
            next.unwrap_or_default()
        );
        (text, format!("/jobs/{}", job.id))
    };
    found.into_iter().take(MOST_LASTS).map(line).collect()
}

/// The busiest PVs, or disks if there is no LVM.
pub fn disks(present: &Present) -> Sketch {
    let has_pvs = present
        .interval
        .topology
        .devices
        .iter()
        .any(|device| device.is_pv);
    let disks = busiest(present, has_pvs);
    let title = if has_pvs {
        "Throughput of the PVs"
    } else {
        "Throughput of the disks"
    };
    let traces = disks
        .iter()
        .zip(0..)
        .flat_map(|(device, number)| disk_traces(device, number))
        .collect();
    Sketch::new(title, charts::BYTES, traces)
}

/// The part that is COW copying, if there are or were thick snapshots.
pub fn copying(present: &Present, jobs: &[Job]) -> Sketch {
    let pvs = if charts::may_copy(present, jobs) {
        busiest(present, true)
    } else {
        Vec::new()
    };
    charts::copying(pvs.into_iter())
}

/// The busiest PVs or disks, sorted by name.
fn busiest(present: &Present, has_pvs: bool) -> Vec<&Device> {
    let topology = &present.interval.topology;
    let mut disks: Vec<(&Device, f64)> = topology
        .devices
        .iter()
        .filter(|device| if has_pvs { device.is_pv } else { device.counts })
        .map(|device| (device, moved(present, device)))
        .collect();
    disks.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    disks.truncate(MOST_DISKS);
    disks.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    disks.into_iter().map(|(device, _)| device).collect()
}

/// Bytes read and written since the start.
fn moved(present: &Present, device: &Device) -> f64 {
    let averages = present.averages.device(&device.identity);
    averages
        .and_then(|averages| averages.sum(Quantity::MovedBytes))
        .unwrap_or_default()
}

fn disk_traces(device: &Device, number: u8) -> [Trace; 2] {
    let subject = Subject::Device(device.identity.to_string());
    let looks = charts::disk_looks(number);
    let trace = |what: &str, quantity, look| {
        charts::trace(format!("{} {what}", device.name), &subject, quantity, look)
    };
    [
        trace("read", Quantity::ReadBytes, looks[0]),
        trace("written", Quantity::WrittenBytes, looks[1]),
    ]
}

/// The fullest snapshots and pools, also of removed snapshots in the range.
fn fills(present: &Present, jobs: &[Job]) -> Sketch {
    let mut volumes: Vec<_> = present
        .interval
        .volumes()
        .filter(|(volume, _)| volume.kind.can_overflow())
        .map(|(volume, state)| {
            let percent = state.fill.map_or(0.0, Fill::percent);
            (
                percent,
                volume.full_name(),
                volume.uuid.to_string(),
                volume.kind.is_thin_pool(),
            )
        })
        .collect();
    let is_gone = |job: &&Job| {
        job.kind == JobKind::Snapshot && !job.is_running() && job.peak_fill_percent.is_some()
    };
    volumes.extend(jobs.iter().filter(is_gone).map(|job| {
        let name = format!("{}/{}", job.vg.as_deref().unwrap_or_default(), job.name);
        (
            job.peak_fill_percent.unwrap_or_default(),
            name,
            job.key.clone(),
            false,
        )
    }));
    volumes.sort_by(|a, b| b.0.total_cmp(&a.0));
    volumes.truncate(MOST_FILLS);
    // Sorted by name, so that colours stay while fills change.
    volumes.sort_by(|a, b| (a.3, &a.1).cmp(&(b.3, &b.1)));
    let traces = volumes
        .iter()
        .zip(0..)
        .flat_map(|((_, name, uuid, has_metadata), number)| {
            charts::fill_traces(name, &Subject::Volume(uuid.clone()), *has_metadata, number)
        });
    charts::fills(
        traces.collect(),
        present.thresholds.general().of(Rule::SnapshotFill),
    )
}
