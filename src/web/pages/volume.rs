//! `/volumes/VG/LV`: one volume, also after it was removed.

use std::sync::Arc;

use axum::extract::{self, Path};

use super::charts::{self, Charts, Sketch, View};
use super::device::{KeyFigure, Subjects};
use super::relation;
use super::rows::{self, JobTable};
use super::size as snapshot_size;
use super::text::{self, rate, size};
use super::{Answer, Content, job, moment, zoned_moment};
use crate::alert::Rule;
use crate::chart::Look;
use crate::forecast::Eta;
use crate::interval::Interval;
use crate::job::Job;
use crate::present::Present;
use crate::quantity::{Quantity, per_second};
use crate::report::summary::unmounted_at_its_death;
use crate::sample::lvm::{Policies, Segment};
use crate::series::when::TimeQuery;
use crate::store::Subject;
use crate::table::{Cell, Column, Table};
use crate::topology::{LvLayout, State, Volume, VolumeKind, VolumeState};
use crate::units::{Fill, percent_text};
use crate::verdict::Verdict;
use crate::web::Site;
use crate::web::answer::{ParsedQuery, Problem};

const MOST_JOBS: usize = 50;

pub async fn page(
    extract::State(site): extract::State<Site>,
    Path((vg, lv)): Path<(String, String)>,
    ParsedQuery(view): ParsedQuery<View>,
) -> Answer {
    let present = site.present()?;
    let name = format!("{vg}/{lv}");
    let found = present.interval.volume(&name);
    let subject =
        Subject::Volume(found.map_or(name.clone(), |(volume, _)| volume.uuid.to_string()));
    if found.is_none() && !site.store.knows(&subject) {
        return Err(Problem::NotFound(format!(
            "no volume called {name} was ever seen here"
        )));
    }
    let gone = last_job(&present, &[], &vg, &lv).filter(|_| found.is_none());
    let life = gone
        .filter(|_| view.span() == TimeQuery::default())
        .map(|job| job::around(job, &present));
    let range = life.map_or_else(|| view.range(&present), Ok)?;
    let mut jobs = site.own_job_list(range, MOST_JOBS).await?;
    jobs.found.retain(|job| {
        job.vg.as_ref() == Some(&vg) && [&job.lv, &job.origin].contains(&&Some(lv.clone()))
    });
    let is_pool = found.is_some_and(|(volume, _)| volume.kind.is_thin_pool());
    let rule = if is_pool {
        Rule::PoolData
    } else {
        Rule::SnapshotFill
    };
    let thresholds = present.thresholds.of(rule, &vg, &lv);
    let has_fill = found.is_none_or(|(_, state)| state.fill.is_some());
    let traces = if has_fill {
        charts::fill_traces(&name, &subject, is_pool, 0)
    } else {
        Vec::new()
    };
    let last = last_job(&present, &jobs.found, &vg, &lv);
    let is_snapshot = found.map_or(last.is_some(), |(volume, _)| volume.is_snapshot());
    let mut sketches = match is_snapshot {
        true => vec![charts::fill_and_read_speed(&subject, thresholds)],
        false => vec![
            charts::fills(traces, thresholds),
            charts::throughput("Throughput", &subject),
        ],
    };
    sketches.extend(copying(
        &present,
        found.map(|(volume, _)| volume),
        last.filter(|_| is_snapshot),
    ));
    sketches.push(charts::latency(&subject));
    let relation = match last.filter(|_| is_snapshot) {
        Some(job) => relation::of_job(&site, job, view.width()).await?,
        None => None,
    };
    let page = Subjects {
        name: name.clone(),
        description: found.map_or_else(String::new, |(volume, _)| describe(volume, &present)),
        remarks: found
            .and_then(|(volume, _)| remarks(volume, &present))
            .into_iter()
            .collect(),
        verdict: match found {
            Some((volume, state)) => Some(Verdict::of_volume(&present, volume, state)),
            None => last.map(|job| Verdict::of_job(&present, job)),
        },
        notice: notice(found, last, &present),
        key_figures: found
            .map(|(volume, state)| key_figures(&present, volume, state))
            .unwrap_or_default(),
        ranges: match gone {
            Some(_) => view
                .ranges(range, &jobs.found)
                .with("its life", life.is_some()),
            None => view.ranges(range, &jobs.found),
        },
        charts: Charts {
            relation,
            ..charts::draw(&site, &present, &view, range, &jobs.found, sketches).await?
        },
        tables: found
            .map(|(volume, _)| tables(&present, volume))
            .unwrap_or_default(),
        links: match (found, last) {
            (Some((volume, _)), _) => links(&present.interval, volume),
            (None, Some(job)) => [(format!("job {}", job.name), format!("/jobs/{}", job.id))]
                .into_iter()
                .chain(
                    job::links(job)
                        .into_iter()
                        .filter(|(_, href)| *href != rows::volume_href(&vg, &lv)),
                )
                .collect(),
            (None, None) => Vec::new(),
        },
        size: found
            .and_then(|(volume, _)| snapshot_size::of_volume(&present, volume, view.width())),
        jobs: Some(JobTable::of(&jobs, &present)),
        ..Subjects::default()
    };
    let refresh = view.refresh(&format!("{}/now", rows::volume_href(&vg, &lv)), range);
    Content::new(&name, "/volumes", refresh, &page)
}

/// COW copying against what is written to the origin, of a thick snapshot that exists or is gone.
fn copying(present: &Present, volume: Option<&Volume>, last: Option<&Job>) -> Option<Sketch> {
    let (vg, origin) = match (volume, last) {
        (Some(volume), _) => (&volume.vg, volume.origin.as_ref()?),
        (None, Some(job)) => (job.vg.as_ref()?, job.origin.as_ref()?),
        (None, None) => return None,
    };
    let topology = &present.interval.topology;
    let origin = topology.volume(&format!("{vg}/{origin}"))?;
    if volume.is_some_and(|volume| !volume.kind.is_thick_snapshot()) || origin.pool.is_some() {
        return None;
    }
    let devices = topology.devices.iter();
    let mut sketch = charts::copying(devices.filter(|pv| pv.is_pv && pv.vg.as_ref() == Some(vg)));
    let subject = Subject::Volume(origin.uuid.to_string());
    let written = Quantity::WrittenBytes;
    sketch.traces.push(charts::trace(
        format!("written to {}", origin.lv),
        &subject,
        written,
        Look::Fill,
    ));
    sketch.title = "COW copying and the origin's writes".into();
    Some(sketch)
}

fn describe(volume: &Volume, present: &Present) -> String {
    let device = volume
        .device
        .map(|index| present.interval.topology.devices[index].name.to_string());
    text::joined([
        Some(match &volume.origin {
            Some(origin) => format!("{} of {}/{origin}", volume.kind.text(), volume.vg),
            None => volume.kind.text().to_string(),
        }),
        volume
            .pool
            .as_ref()
            .map(|pool| format!("in pool {}/{pool}", volume.vg)),
        volume.size.map(|bytes| size(Some(bytes))),
        (!volume.pvs.is_empty()).then(|| format!("on {}", volume.pvs.join(", "))),
        volume
            .created_at
            .map(|at| format!("created {}", moment(at, present.interval.at))),
        device,
    ])
}

/// The last job whose snapshot had this name.
fn last_job<'a>(present: &'a Present, jobs: &'a [Job], vg: &str, lv: &str) -> Option<&'a Job> {
    let known = present.jobs.iter().rev().map(Arc::as_ref).chain(jobs);
    known
        .filter(|job| !job.is_imported())
        .find(|job| job.vg.as_deref() == Some(vg) && job.lv.as_deref() == Some(lv))
}

fn notice(
    found: Option<(&Volume, &VolumeState)>,
    last: Option<&Job>,
    present: &Present,
) -> Option<String> {
    let now = present.interval.at;
    let time = |at| zoned_moment(at, now);
    let Some((volume, _)) = found else {
        let Some(job) = last else {
            return Some("This volume no longer exists. Its history remains.".into());
        };
        let since = job
            .ended_at
            .map_or_else(String::new, |at| format!(" since {}", time(at)));
        let peak = job.peak_fill_percent.map_or_else(String::new, |peak| {
            format!(" It was {} full at most.", percent_text(peak))
        });
        return Some(format!(
            "This snapshot no longer exists{since}.{peak} Its history remains."
        ));
    };
    let job = present.job_of(volume)?;
    let unmounted = unmounted_at_its_death(job, present.is_monitored())
        .map(|sentence| format!(" {}", text::told(&sentence, now)))
        .unwrap_or_default();
    Some(format!("Invalid since {}.{unmounted}", time(job.died_at?)))
}

/// Mounts, tags and policies, on one line.
fn remarks(volume: &Volume, present: &Present) -> Option<String> {
    let mounted = volume
        .mounted_on
        .as_ref()
        .filter(|folders| !folders.is_empty());
    let remark = text::joined([
        mounted.map(|folders| format!("mounted on {}", folders.join(", "))),
        (!volume.tags.is_empty()).then(|| format!("tags {}", volume.tags.join(", "))),
        volume.when_full.as_ref().map(|what| match what.as_str() {
            "queue" => "when full, writes wait".to_string(),
            "error" => "when full, writes fail".to_string(),
            other => format!("when full: {other}"),
        }),
        growth(volume, present.interval.policies),
        free(volume, present),
    ]);
    (!remark.is_empty()).then_some(remark)
}

fn free(volume: &Volume, present: &Present) -> Option<String> {
    let free = present.interval.topology.group(&volume.vg)?.free?;
    Some(format!("{} free in {}", size(Some(free)), volume.vg))
}

/// Whether LVM extends the volume automatically.
fn growth(volume: &Volume, policies: Option<Policies>) -> Option<String> {
    let policies = policies?;
    let growth = match volume.kind {
        VolumeKind::Snapshot => policies.snapshot,
        VolumeKind::ThinPool => policies.pool,
        _ => return None,
    };
    Some(match growth.threshold {
        100.. => "LVM does not extend it automatically".into(),
        at if policies.monitoring && policies.dmeventd => {
            format!("LVM extends it by {} % at {at} %", growth.percent)
        }
        at => format!("LVM would extend it at {at} %, but dmeventd does not monitor it"),
    })
}

/// The volumes of a pool, and the layout.
fn tables(present: &Present, volume: &Volume) -> Vec<Table> {
    let mut tables = vec![layout(volume)];
    if volume.kind.is_thin_pool() {
        tables.insert(0, by_use(present, volume));
    }
    tables.retain(|table| !table.is_empty());
    tables
}

/// What of a volume is mapped in its pool, in bytes.
fn mapped(volume: &Volume, state: &VolumeState) -> Option<u64> {
    Some((volume.size? as f64 * state.fill?.percent() / 100.0) as u64)
}

/// A pool's volumes, the one with the most data first.
fn by_use(present: &Present, pool: &Volume) -> Table {
    let mut volumes: Vec<_> = present.interval.thin_volumes(pool).collect();
    volumes.sort_by_key(|(volume, state)| std::cmp::Reverse(mapped(volume, state)));
    let row = |(volume, state): (&Volume, &VolumeState)| {
        let of_pool = mapped(volume, state)
            .zip(pool.size)
            .map(|(used, size)| used as f64 / size as f64);
        vec![
            Cell::link(&volume.lv, rows::volume_href(&volume.vg, &volume.lv)),
            size(mapped(volume, state)).into(),
            Cell::known(of_pool.map(|part| percent_text(part * 100.0))),
            size(volume.size).into(),
        ]
    };
    let columns = [
        Column::name("Volume in this pool"),
        Column::number("Mapped"),
        Column::number("Of the pool"),
        Column::number("Size"),
    ];
    Table::new("Volumes by use", columns, volumes.into_iter().map(row))
}

/// The sum of the sizes of a pool's volumes, against what it can have.
fn overcommitment(present: &Present, pool: &Volume) -> Option<KeyFigure> {
    let sizes = present
        .interval
        .thin_volumes(pool)
        .map(|(volume, _)| volume.size);
    let (promised, has) = (
        sizes.sum::<Option<u64>>()?,
        pool.size.filter(|size| *size > 0)?,
    );
    let free = present.interval.topology.group(&pool.vg)?.free;
    let spare = free.map_or_else(String::new, |free| {
        format!(", {} free in {}", size(Some(free)), pool.vg)
    });
    let detail = format!(
        "{} promised of {}{spare}",
        size(Some(promised)),
        size(Some(has))
    );
    Some(KeyFigure::new(
        "Overcommitment",
        format!("{:.2} ×", promised as f64 / has as f64),
        detail,
    ))
}

/// The segments as `lvs --segments` lists them.
fn layout(volume: &Volume) -> Table {
    let rows = volume
        .layout
        .iter()
        .flat_map(|part| part.segments.iter().map(move |segment| (part, segment)));
    let row = |(part, segment): (&LvLayout, &Segment)| {
        let on = segment
            .pv_extents
            .iter()
            .map(|(pv, extents)| format!("{pv}: {extents}"));
        vec![
            part.lv.clone().into(),
            segment.kind.clone().into(),
            Cell::known(segment.stripes.map(|stripes| stripes.to_string())),
            size(segment.stripe_size).into(),
            size(segment.chunk_size).into(),
            segment.extents.to_string().into(),
            on.collect::<Vec<_>>().join(", ").into(),
        ]
    };
    let columns = [
        Column::name("Part"),
        Column::text("Type"),
        Column::number("Stripes"),
        Column::number("Stripe size").class("less"),
        Column::number("Chunk size").class("less"),
        Column::number("Extents"),
        Column::text("On PVs"),
    ];
    Table::new("Layout", columns, rows.map(row))
}

/// The cost of snapshots of the volume or of its origin.
fn cost_figures(interval: &Interval, volume: &Volume) -> Vec<KeyFigure> {
    let Some(copying) = interval.copying(volume) else {
        return Vec::new();
    };
    let rate = |bytes: u64| rate(per_second(bytes, interval.elapsed_us));
    let cost = text::or_dash(copying.write_cost().map(|cost| format!("{cost:.2} ×")));
    let mut figures = vec![
        KeyFigure::new(
            "Write cost",
            cost,
            "written to disks for each byte written to the origin",
        ),
        KeyFigure::new(
            "COW copying",
            rate(copying.copied_bytes()),
            "in the last tick",
        ),
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
    let is_plain = state.state == State::Ok && health.is_empty();
    let mut figures = Vec::new();
    // The verdict says that it works.
    figures.extend((!is_plain).then(|| KeyFigure::new("State", state.state.text().into(), health)));
    figures.extend(filled(
        "Fill",
        state.fill,
        rows::used_of_size(state.fill, volume.size),
    ));
    if let Some(pace) = present.paces.get(&volume.uuid) {
        let growth = format!(
            "grows by {}/min",
            size(Some((pace.bytes_per_s * 60.0) as u64))
        );
        let full = pace.full.map_or_else(|| text::DASH.into(), Eta::short_text);
        figures.push(KeyFigure::new("Full in", full, growth));
    }
    figures.extend(filled(
        "In sync",
        state.sync,
        "of the mirror or RAID".into(),
    ));
    figures.extend(filled(
        "Metadata",
        state.metadata,
        rows::used_of_size(state.metadata, None),
    ));
    figures.extend(
        (volume.kind.is_thin_pool())
            .then(|| overcommitment(present, volume))
            .flatten(),
    );
    let interval = &present.interval;
    let work = interval.work_of_volume(volume);
    let rate = |quantity: Quantity| rate(quantity.of_work(&work, interval.elapsed_us));
    figures.push(KeyFigure::new(
        "Read",
        rate(Quantity::ReadBytes),
        "in the last tick",
    ));
    figures.push(KeyFigure::new(
        "Written",
        rate(Quantity::WrittenBytes),
        "in the last tick",
    ));
    figures.extend(cost_figures(interval, volume));
    figures
}

/// The volume's device, its origin, and its snapshots.
fn links(interval: &Interval, volume: &Volume) -> Vec<(String, String)> {
    let topology = &interval.topology;
    let named = |word: &str, lv: &str| {
        (
            format!("{word} {}/{lv}", volume.vg),
            rows::volume_href(&volume.vg, lv),
        )
    };
    let device = volume.device.map(|index| {
        let device = &topology.devices[index];
        (
            format!("device {}", device.name),
            super::devices::device_href(device),
        )
    });
    let origin = volume
        .origin
        .as_deref()
        .map(|origin| named("origin", origin));
    let pool = volume.pool.as_deref().map(|pool| named("pool", pool));
    let is_snapshot_of_it =
        |other: &&Volume| other.vg == volume.vg && other.origin.as_ref() == Some(&volume.lv);
    let snapshots = topology
        .volumes
        .iter()
        .filter(is_snapshot_of_it)
        .map(|other| named("snapshot", &other.lv));
    device
        .into_iter()
        .chain(origin)
        .chain(pool)
        .chain(snapshots)
        .collect()
}
