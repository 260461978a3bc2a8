//! `/volumes/VG/LV`: one volume, also after it was removed.

use std::cmp::Reverse;
use std::sync::Arc;

use askama::Template;
use axum::extract::Path;

use super::charts::{self, Sketch, Trace};
use super::devices::device_href;
use super::scatter::{self, SnapshotSize};
use super::text::{self, moment, rate, size, zoned_moment};
use super::volumes::{group_href, used_of_size, volume_href};
use super::{Content, GonePage, History, KeyFigure, Links, PageRequest, PageResult, job, speeds};
use crate::alert::{Rule, autoextend};
use crate::chart::Look;
use crate::config::Thresholds;
use crate::interval::Interval;
use crate::job::Job;
use crate::present::Present;
use crate::quantity::{Quantity, per_second};
use crate::report::job::unmounted_at_its_death;
use crate::sample::guard::GuardedVolume;
use crate::sentence::Sentence;
use crate::series::Range;
use crate::series::when::TimeQuery;
use crate::store::Subject;
use crate::table::{Cell, Column, Table};
use crate::topology::{State as WorkingState, Volume, VolumeState};
use crate::units::{Fill, percent_text, size_text};
use crate::verdict::Verdict;
use crate::web::Site;
use crate::web::answer::{Partial, Problem};

const MOST_JOBS: usize = 50;

/// A volume that exists.
#[derive(Template)]
#[template(path = "volume.html")]
struct VolumePage {
    name: String,
    description: String,
    verdict: Verdict,
    /// Mounts, tags and policies, on one line.
    remark: Option<Sentence>,
    /// What `cowbell guard` plans and did.
    guard: Vec<String>,
    /// Of an invalid snapshot.
    notice: Option<String>,
    key_figures: Vec<KeyFigure>,
    links: Links,
    history: History,
    size: Option<SnapshotSize>,
    /// The volumes of a pool, and the layout.
    tables: Vec<Table>,
}

pub async fn page(Path((vg, lv)): Path<(String, String)>, request: PageRequest) -> PageResult {
    match request.present.interval.volume(&format!("{vg}/{lv}")) {
        Some((volume, state)) => existing(&request, volume, state).await,
        None => gone(&request, &vg, &lv).await,
    }
}

async fn existing(request: &PageRequest, volume: &Volume, state: &VolumeState) -> PageResult {
    let present = &request.present;
    let (name, subject) = (volume.full_name(), Subject::Volume(volume.uuid.to_string()));
    let range = request.view.range(present)?;
    let jobs = jobs_of(&request.site, range, &volume.vg, &volume.lv).await?;
    let is_pool = volume.kind.is_thin_pool();
    let rule = volume.kind.fill_rule().unwrap_or(Rule::SnapshotFill);
    let thresholds = present.thresholds.of(rule, &volume.vg, &volume.lv);
    let sketches = if volume.is_snapshot() {
        let origin = volume.origin.as_ref();
        let copied = origin.filter(|_| volume.kind.is_thick_snapshot());
        let copying = copied.and_then(|origin| copying(present, &volume.vg, origin));
        of_snapshot(&subject, thresholds, copying)
    } else {
        let has_fill = state.fill.is_some();
        let traces = has_fill.then(|| charts::fill_traces(&name, &subject, is_pool, 0));
        of_other(&subject, thresholds, traces.unwrap_or_default())
    };
    let mut tables = vec![layout(volume)];
    if is_pool {
        tables.insert(0, by_use(present, volume));
    }
    tables.retain(|table| !table.is_empty());
    let mut history = History::new(request, range, &jobs, sketches).await?;
    let last = last_job(present, &jobs.found, &volume.vg, &volume.lv);
    if let Some(job) = last.filter(|_| volume.is_snapshot()) {
        history.charts.relation = scatter::relation(request, job).await?;
    }
    let page = VolumePage {
        description: describe(volume, present),
        verdict: Verdict::of_volume(present, volume, state),
        remark: remark(volume, present),
        guard: guarded(volume, present),
        notice: since_when_invalid(volume, present),
        key_figures: key_figures(present, volume, state),
        links: links(&present.interval, volume),
        history,
        size: scatter::snapshot_size(present, volume, request.view.width()),
        tables,
        name,
    };
    Content::new(&page.name, "/volumes", request.view.refresh(range), &page)
        .map(|content| below_group(content, &volume.vg))
}

fn below_group(content: Content, vg: &str) -> Content {
    content.below(vec![(vg.into(), group_href(vg))])
}

/// The page of a volume that does not exist now, by default over the life of the last snapshot of this name.
async fn gone(request: &PageRequest, vg: &str, lv: &str) -> PageResult {
    let PageRequest {
        site,
        present,
        view,
    } = request;
    let (name, own_href) = (format!("{vg}/{lv}"), volume_href(vg, lv));
    let subject = Subject::Volume(name.clone());
    if !site.store.knows(&subject) {
        return Err(Problem::NotFound(format!(
            "no volume called {name} was ever seen here"
        )));
    }
    let known = last_job(present, &[], vg, lv);
    let is_default = view.span() == TimeQuery::default();
    let life = known
        .filter(|_| is_default)
        .map(|job| job::around(job, present));
    let range = life.map_or_else(|| view.range(present), Ok)?;
    let jobs = jobs_of(site, range, vg, lv).await?;
    let thresholds = present.thresholds.of(Rule::SnapshotFill, vg, lv);
    let last = last_job(present, &jobs.found, vg, lv);
    let sketches = match last {
        Some(job) => {
            let origin = job.origin.as_ref();
            let copying = origin.and_then(|origin| copying(present, vg, origin));
            of_snapshot(&subject, thresholds, copying)
        }
        None => {
            let traces = charts::fill_traces(&name, &subject, false, 0);
            of_other(&subject, thresholds, traces)
        }
    };
    let mut history = History::new(request, range, &jobs, sketches).await?;
    let mut links = Links::new();
    if let Some(job) = last {
        history.charts.relation = scatter::relation(request, job).await?;
        links.push((format!("job {}", job.name), format!("/jobs/{}", job.id)));
        links.extend(job::links(job));
        links.retain(|(_, href)| *href != own_href);
    }
    if known.is_some() {
        history.ranges.add("its life", life.is_some());
    }
    let page = GonePage {
        description: "",
        verdict: last.map(|job| Verdict::of_job(present, job)),
        notice: since_when_gone(last, present),
        links,
        history,
        name,
    };
    Content::new(&page.name, "/volumes", view.refresh(range), &page)
        .map(|content| below_group(content, vg))
}

fn of_snapshot(
    subject: &Subject,
    thresholds: Option<Thresholds>,
    copying: Option<Sketch>,
) -> Vec<Sketch> {
    let mut sketches = vec![charts::fill_and_read_speed(subject, thresholds)];
    sketches.extend(copying);
    sketches.push(charts::latency(subject));
    sketches
}

fn of_other(subject: &Subject, thresholds: Option<Thresholds>, fills: Vec<Trace>) -> Vec<Sketch> {
    vec![
        charts::fills(fills, thresholds),
        charts::throughput("Throughput", subject),
        charts::latency(subject),
    ]
}

/// The jobs of which it was the snapshot or the origin.
async fn jobs_of(
    site: &Site,
    range: Range,
    vg: &str,
    lv: &str,
) -> Result<Partial<Vec<Job>>, Problem> {
    let mut jobs = site.own_job_list(range, MOST_JOBS).await?;
    let is_it = |name: &Option<String>| name.as_deref() == Some(lv);
    jobs.found
        .retain(|job| job.vg.as_deref() == Some(vg) && (is_it(&job.lv) || is_it(&job.origin)));
    Ok(jobs)
}

/// COW copying against what is written to the origin, of a thick snapshot that exists or is gone.
fn copying(present: &Present, vg: &str, origin: &str) -> Option<Sketch> {
    let topology = &present.interval.topology;
    let origin = topology.volume(&format!("{vg}/{origin}"))?;
    if origin.pool.is_some() {
        return None;
    }
    let pvs = topology.devices.iter().filter(|device| device.is_pv);
    let mut sketch = charts::copying(pvs.filter(|pv| pv.vg.as_deref() == Some(vg)));
    let (label, subject) = (
        format!("written to {}", origin.lv),
        Subject::Volume(origin.uuid.to_string()),
    );
    let written = charts::trace(label, &subject, Quantity::WrittenBytes, Look::Fill);
    sketch.traces.push(written);
    sketch.title = "COW copying and the origin's writes".into();
    Some(sketch)
}

fn describe(volume: &Volume, present: &Present) -> String {
    let kind = volume.kind.text();
    text::joined([
        Some(match &volume.origin {
            Some(origin) => format!("{kind} of {}/{origin}", volume.vg),
            None => kind.into(),
        }),
        volume
            .pool
            .as_ref()
            .map(|pool| format!("in pool {}/{pool}", volume.vg)),
        volume.size.map(size_text),
        (!volume.pvs.is_empty()).then(|| format!("on {}", volume.pvs.join(", "))),
        volume
            .created_at
            .map(|at| format!("created {}", moment(at, present.interval.at))),
        volume
            .device
            .map(|index| present.interval.topology.devices[index].name.to_string()),
    ])
}

/// The last job whose snapshot had this name.
fn last_job<'a>(present: &'a Present, jobs: &'a [Job], vg: &str, lv: &str) -> Option<&'a Job> {
    let mut known = present.jobs.iter().rev().map(Arc::as_ref).chain(jobs);
    known.find(|job| {
        !job.is_imported() && job.vg.as_deref() == Some(vg) && job.lv.as_deref() == Some(lv)
    })
}

fn since_when_gone(last: Option<&Job>, present: &Present) -> String {
    let Some(job) = last else {
        return "This volume no longer exists. Its history remains.".into();
    };
    let mut notice = "This snapshot no longer exists".to_string();
    if let Some(at) = job.ended_at {
        notice += &format!(" since {}", zoned_moment(at, present.interval.at));
    }
    if let Some(peak) = job.peak_fill_percent {
        notice += &format!(". It was {} full at most", percent_text(peak));
    }
    notice + ". Its history remains."
}

fn since_when_invalid(volume: &Volume, present: &Present) -> Option<String> {
    let (now, job) = (present.interval.at, present.job_of(volume)?);
    let mut notice = format!("Invalid since {}.", zoned_moment(job.died_at?, now));
    if let Some(unmounted) = unmounted_at_its_death(job, present.is_monitored()) {
        notice += &format!(" {}", text::told(&unmounted, now));
    }
    Some(notice)
}

/// Mounts, tags and policies, on one line.
fn remark(volume: &Volume, present: &Present) -> Option<Sentence> {
    let folders = volume.mounted_on.as_deref().unwrap_or_default();
    let group = present.interval.topology.group(&volume.vg);
    let remark = text::joined([
        (!folders.is_empty()).then(|| format!("mounted on {}", folders.join(", "))),
        (!volume.tags.is_empty()).then(|| format!("tags {}", volume.tags.join(", "))),
        volume
            .when_full
            .is_some()
            .then(|| format!("when full, writes {}", volume.writes_when_full())),
        present
            .interval
            .policies
            .and_then(|policies| autoextend(volume, &policies))
            .map(|extends| extends.to_string()),
        group
            .and_then(|group| group.free)
            .map(|free| format!("{} free in {}", size_text(free), volume.vg)),
    ]);
    (!remark.is_empty()).then(|| Sentence::with_commands(&remark))
}

/// What `cowbell guard` plans and did; for a pool also of its metadata.
fn guarded(volume: &Volume, present: &Present) -> Vec<String> {
    let guard = present.interval.guard.iter().filter(|guard| guard.runs());
    let volumes = guard.flat_map(|guard| &guard.state.volumes);
    let own = volumes.filter(|guarded| guarded.uuid == *volume.uuid);
    // The guard has metadata first.
    let lines: Vec<String> = own.map(GuardedVolume::summary).collect();
    lines.into_iter().rev().collect()
}

/// What of a volume is mapped in its pool, in bytes.
fn mapped(volume: &Volume, state: &VolumeState) -> Option<u64> {
    Some((volume.size? as f64 * state.fill?.percent() / 100.0) as u64)
}

/// A pool's volumes, the one with the most data first.
fn by_use(present: &Present, pool: &Volume) -> Table {
    let volumes = present.interval.thin_volumes(pool);
    let mut volumes: Vec<(&Volume, Option<u64>)> = volumes
        .map(|(volume, state)| (volume, mapped(volume, state)))
        .collect();
    volumes.sort_by_key(|(_, mapped)| Reverse(*mapped));
    Table::of("Volumes by use", volumes)
        .column(Column::name("Volume in this pool"), |(volume, _)| {
            Cell::link(&volume.lv, volume_href(&volume.vg, &volume.lv))
        })
        .column(Column::number("Mapped"), |(_, mapped)| size(*mapped))
        .column(Column::number("Of the pool"), |(_, mapped)| {
            let known = mapped.zip(pool.size);
            Cell::known(known.map(|(used, size)| percent_text(used as f64 / size as f64 * 100.0)))
        })
        .column(Column::number("Size"), |(volume, _)| size(volume.size))
        .done()
}

/// The sum of the sizes of a pool's volumes, against what it can have.
fn overcommitment(present: &Present, pool: &Volume) -> Option<KeyFigure> {
    let volumes = present.interval.thin_volumes(pool);
    let promised: u64 = volumes
        .map(|(volume, _)| volume.size)
        .sum::<Option<u64>>()?;
    let has = pool.size.filter(|size| *size > 0)?;
    let mut detail = format!("{} promised of {}", size_text(promised), size_text(has));
    if let Some(free) = present.interval.topology.group(&pool.vg)?.free {
        detail += &format!(", {} free in {}", size_text(free), pool.vg);
    }
    let ratio = promised as f64 / has as f64;
    Some(KeyFigure::new(
        "Overcommitment",
        format!("{ratio:.2} ×"),
        detail,
    ))
}

/// The segments as `lvs --segments` lists them.
fn layout(volume: &Volume) -> Table {
    let parts = volume.layout.iter();
    let segments = parts.flat_map(|part| part.segments.iter().map(move |segment| (part, segment)));
    Table::of("Layout", segments)
        .column(Column::name("Part"), |(part, _)| part.lv.clone())
        .column(Column::text("Type"), |(_, segment)| segment.kind.clone())
        .column(Column::number("Stripes"), |(_, segment)| {
            Cell::known(segment.stripes.map(|stripes| stripes.to_string()))
        })
        .column(
            Column::number("Stripe size").class("less"),
            |(_, segment)| size(segment.stripe_size),
        )
        .column(
            Column::number("Chunk size").class("less"),
            |(_, segment)| size(segment.chunk_size),
        )
        .column(Column::number("Extents"), |(_, segment)| {
            segment.extents.to_string()
        })
        .column(Column::text("On PVs"), |(_, segment)| {
            let on = segment.pv_extents.iter();
            let on: Vec<String> = on.map(|(pv, extents)| format!("{pv}: {extents}")).collect();
            on.join(", ")
        })
        .done()
}

/// The cost of snapshots of the volume or of its origin.
fn cost_figures(interval: &Interval, volume: &Volume) -> Vec<KeyFigure> {
    let Some(copying) = interval.copying(volume) else {
        return Vec::new();
    };
    let rate = |bytes: u64| rate(per_second(bytes, interval.elapsed_us));
    let cost = text::or_dash(copying.write_cost().map(|cost| format!("{cost:.2} ×")));
    let copied = rate(copying.copied_bytes());
    let mut figures = vec![
        KeyFigure::new(
            "Write cost",
            cost,
            "written to disks for each byte written to the origin",
        ),
        KeyFigure::new("COW copying", copied, "in the last tick"),
    ];
    if copying.into_snapshots > 0 {
        let into = rate(copying.into_snapshots);
        figures.push(KeyFigure::new(
            "Into snapshots",
            into,
            "writes to the snapshots themselves",
        ));
    }
    figures
}

fn key_figures(present: &Present, volume: &Volume, state: &VolumeState) -> Vec<KeyFigure> {
    let filled = |name, fill: Option<Fill>, detail: String| {
        fill.map(|fill| KeyFigure::new(name, percent_text(fill.percent()), detail))
    };
    let health = volume.health.clone().unwrap_or_default();
    let mut figures = Vec::new();
    // The verdict says that it works.
    if state.state != WorkingState::Ok || !health.is_empty() {
        figures.push(KeyFigure::new("State", state.state.text(), health));
    }
    let used = used_of_size(state.fill, volume.size);
    figures.extend(filled("Fill", state.fill, used));
    figures.extend(job::full_figure(present, volume));
    figures.extend(filled(
        "In sync",
        state.sync,
        "of the mirror or RAID".into(),
    ));
    let used = used_of_size(state.metadata, None);
    figures.extend(filled("Metadata", state.metadata, used));
    if volume.kind.is_thin_pool() {
        figures.extend(overcommitment(present, volume));
    }
    let interval = &present.interval;
    let work = interval.work_of_volume(volume);
    figures.extend(speeds(interval, &work, "in the last tick"));
    figures.extend(cost_figures(interval, volume));
    figures
}

/// The volume's device, its origin, its pool, and its snapshots.
fn links(interval: &Interval, volume: &Volume) -> Links {
    let topology = &interval.topology;
    let mut links = Links::new();
    if let Some(index) = volume.device {
        let device = &topology.devices[index];
        links.push((format!("device {}", device.name), device_href(device)));
    }
    let snapshots = topology
        .volumes
        .iter()
        .filter(|other| other.vg == volume.vg && other.origin.as_ref() == Some(&volume.lv));
    let origin = volume.origin.iter().map(|origin| ("origin", origin));
    let pool = volume.pool.iter().map(|pool| ("pool", pool));
    let snapshots = snapshots.map(|other| ("snapshot", &other.lv));
    for (word, lv) in origin.chain(pool).chain(snapshots) {
        let text = format!("{word} {}/{lv}", volume.vg);
        links.push((text, volume_href(&volume.vg, lv)));
    }
    links
}
