//! Computes the cost of a job, from stored data of this job and earlier ones.

use std::sync::Arc;

use anyhow::Context;
use jiff::Timestamp;

use super::Cost;
use crate::job::course::Course;
use crate::job::figures::Figures;
use crate::job::setup::{Setup, SnapshotKind};
use crate::job::sizing::{DEFAULT_EXTENT, DEFAULT_MARGIN, Limits, Peak, Sizing, sizing};
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::quantity::Quantity;
use crate::report::course::{MOST_PVS, Sources, Times};
use crate::report::file;
use crate::report::job::JobReport;
use crate::report::outline::Outline;
use crate::series::{Point, Range};
use crate::store::{JobQuery, SeriesKey, Subject, on_a_thread};
use crate::topology::{Device, DeviceKind, Topology};
use crate::units::Prefix;
use crate::web::Site;
use crate::web::answer::Problem;

/// Runs that determine the size of the next COW area: two weeks of nights.
const MOST_RUNS: usize = 14;
/// Maximum snapshots of an origin to load: those runs, failed runs, and concurrent ones.
const MOST_JOBS: usize = 50;
/// Points of the fill of a run; each has its maximum.
const POINTS_OF_FILL: usize = 100;

/// Computes the cost of a job, on a thread for slow work.
pub async fn cost(site: &Site, job: &Job, present: &Arc<Present>) -> Result<Cost, Problem> {
    let JobInputs {
        setup,
        sizing,
        course,
    } = inputs(site, job, present).await?;
    let (id, job) = (job.id, job.clone());
    let cost = on_a_thread(move || {
        let course = course()?;
        let figures = Figures::of(&course, &setup).with_phases(&course, &job);
        let report = JobReport::new(&job.name, figures, &setup, sizing, Prefix::default());
        anyhow::Ok(Cost {
            report,
            setup,
            outline: Outline::of(&course),
        })
    });
    Ok(cost
        .await?
        .with_context(|| format!("cannot compute the cost of job {id}"))?)
}

/// The file of a job.
pub async fn file(site: &Site, job: &Job, present: &Arc<Present>) -> Result<Vec<u8>, Problem> {
    let JobInputs {
        mut setup, course, ..
    } = inputs(site, job, present).await?;
    if !job.is_imported() {
        setup.host = setup.host.or_else(|| Some(present.host.clone()));
    }
    let job = Job {
        setup,
        ..job.clone()
    };
    let id = job.id;
    let file = on_a_thread(move || anyhow::Ok(file::write(&job, &course()?)?.into_bytes()));
    let file = file
        .await?
        .with_context(|| format!("cannot write the file of job {id}"))?;
    file::check_length(&file)
        .map_err(|error| Problem::Conflict(format!("job {id} cannot be exported: {error}")))?;
    Ok(file)
}

/// The inputs of the computation.
struct JobInputs {
    setup: Setup,
    sizing: Option<Sizing>,
    /// Computes the course.
    course: Box<dyn FnOnce() -> anyhow::Result<Course> + Send>,
}

async fn inputs(site: &Site, job: &Job, present: &Arc<Present>) -> Result<JobInputs, Problem> {
    if job.is_imported() {
        let file = site.store.imported(&job.key).await?;
        let file =
            file.with_context(|| format!("the file of job {} is not in the database", job.id))?;
        let course = Box::new(move || file::course(&file));
        return Ok(JobInputs {
            setup: job.setup.clone(),
            sizing: None,
            course,
        });
    }
    let now = present.interval.at;
    let jobs = of_same_origin(site, job, present).await?;
    let setup = setup(site, job, &jobs, present).await?;
    let sizing = match setup.is_thick() {
        true => next_size(site, job, &jobs, &setup, present).await?,
        false => None,
    };
    let times = Times::of(job, now);
    let identity = |volume: &str| {
        site.store
            .device_identity(volume)
            .map(|identity| identity.to_string())
    };
    let sources = Sources::of(
        job,
        &setup,
        &pvs(job, &setup, &present.interval.topology),
        identity,
    );
    let ticks = site
        .store
        .tick_table(&sources.wanted, times.range())
        .await?;
    Ok(JobInputs {
        setup,
        sizing,
        course: Box::new(move || sources.course(&ticks, times)),
    })
}

/// Snapshots of the job's origin that started before the job ended, including its own, the latest first.
async fn of_same_origin(site: &Site, job: &Job, present: &Present) -> Result<Vec<Job>, Problem> {
    let origin = job.vg.clone().zip(job.origin.clone());
    let Some(origin) = origin.filter(|_| job.kind == JobKind::Snapshot) else {
        return Ok(Vec::new());
    };
    let until = Range {
        from: Timestamp::UNIX_EPOCH,
        to: job.ended_at.unwrap_or(present.interval.at),
    };
    let query = JobQuery {
        kind: Some(job.kind),
        origin: Some(origin),
        ..JobQuery::of(until)
    };
    let mut jobs = site.job_list(&query, MOST_JOBS).await?.found;
    jobs.retain(|other| !other.is_imported() && !other.made_no_snapshot());
    Ok(jobs)
}

/// The recorded setup, completed from the store and the current state.
async fn setup(site: &Site, job: &Job, jobs: &[Job], present: &Present) -> Result<Setup, Problem> {
    let mut setup = job.setup.clone();
    let topology = &present.interval.topology;
    setup.kind = setup.kind.or_else(|| kind(site, job));
    if let (Some(vg), Some(origin)) = (&job.vg, &job.origin) {
        let origin = topology.volume(&format!("{vg}/{origin}"));
        setup.origin_bytes = setup.origin_bytes.or(origin.and_then(|origin| origin.size));
        let pvs = origin
            .map(|origin| origin.pvs.clone())
            .filter(|pvs| !pvs.is_empty());
        setup.origin_pvs = setup.origin_pvs.or(pvs);
    }
    if setup.is_thick() {
        setup.snapshots = setup
            .snapshots
            .max(u32::try_from(overlapping(job, jobs, present.interval.at)).ok());
        setup.cow_pvs = setup.cow_pvs.or_else(|| only_pv(job, topology));
        if setup.cow_bytes.is_none() || setup.peak_bytes.is_none() {
            let (used, total) = fullest(site, job, present).await?.unzip();
            (setup.peak_bytes, setup.cow_bytes) =
                (setup.peak_bytes.or(used), setup.cow_bytes.or(total));
        }
    }
    Ok(setup)
}

/// Only a thick snapshot has a COW device.
fn kind(site: &Site, job: &Job) -> Option<SnapshotKind> {
    let identity = site
        .store
        .device_identity(&job.key)
        .filter(|_| job.kind == JobKind::Snapshot)?;
    let has_cow = site
        .store
        .knows(&Subject::Device(format!("{identity}-cow")));
    Some(if has_cow {
        SnapshotKind::Thick
    } else {
        SnapshotKind::Thin
    })
}

/// Snapshots of the origin that existed while the job ran, including its own.
fn overlapping(job: &Job, jobs: &[Job], now: Timestamp) -> usize {
    let end = |job: &Job| job.ended_at.unwrap_or(now);
    let others = jobs.iter().filter(|other| other.id != job.id);
    1 + others
        .filter(|other| other.started_at < end(job) && job.started_at < end(other))
        .count()
}

/// The PV of a group that has only one.
fn only_pv(job: &Job, topology: &Topology) -> Option<Vec<String>> {
    let group = topology.group(job.vg.as_deref()?)?;
    (group.pvs.len() == 1 && group.missing_pvs == 0).then(|| group.pvs.clone())
}

/// PVs of the job's group, those with its data first. For a job without snapshot, all PVs and other disks.
fn pvs(job: &Job, setup: &Setup, topology: &Topology) -> Vec<(String, Subject)> {
    let of_host: Vec<String> = match job.kind {
        JobKind::Snapshot => Vec::new(),
        JobKind::Command | JobKind::Mark => bottom(topology),
    };
    let of_group = job
        .vg
        .as_deref()
        .and_then(|vg| topology.group(vg))
        .map(|group| &*group.pvs);
    let carriers = setup.origin_pvs.iter().chain(&setup.cow_pvs).flatten();
    let mut names: Vec<&String> = carriers
        .chain(of_group.unwrap_or_default())
        .chain(&of_host)
        .collect();
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    names.truncate(MOST_PVS);
    let subject = |name: &String| {
        let identity = topology
            .device(name)
            .map(|device| device.identity.to_string());
        (
            name.clone(),
            Subject::Device(identity.unwrap_or_else(|| name.clone())),
        )
    };
    names.into_iter().map(subject).collect()
}

/// The lowest layer: PVs, then disks without PVs.
fn bottom(topology: &Topology) -> Vec<String> {
    let counts = topology
        .devices
        .iter()
        .filter(|device| device.is_pv || device.counts);
    let (pvs, disks): (Vec<_>, Vec<_>) = counts.partition(|device| device.is_pv);
    let lies_on = |pv: &Device, disk: &Device| {
        let is_part = pv.kind == DeviceKind::Partition && pv.name.starts_with(&*disk.name);
        is_part || pv.slaves.iter().any(|name| **name == *disk.name)
    };
    let is_below_none = |disk: &&Device| !pvs.iter().any(|pv| lies_on(pv, disk));
    pvs.iter()
        .copied()
        .chain(disks.into_iter().filter(is_below_none))
        .map(|it| it.name.to_string())
        .collect()
}

/// The recommended size of the next COW area, from the last runs.
async fn next_size(
    site: &Site,
    job: &Job,
    jobs: &[Job],
    setup: &Setup,
    present: &Present,
) -> Result<Option<Sizing>, Problem> {
    let mut peaks = Vec::new();
    for run in jobs
        .iter()
        .filter(|run| run.ended_at.is_some())
        .take(MOST_RUNS)
    {
        peaks.extend(peak(site, run, present).await?);
    }
    let limits = Limits {
        extent: extent(job, &present.interval.topology),
        chunk: setup.chunk_bytes,
        origin_bytes: setup.origin_bytes,
    };
    Ok(sizing(&peaks, DEFAULT_MARGIN, limits))
}

fn extent(job: &Job, topology: &Topology) -> Option<u64> {
    topology.group(job.vg.as_deref()?)?.extent
}

async fn peak(site: &Site, run: &Job, present: &Present) -> Result<Option<Peak>, Problem> {
    let overflowed = run.died_at.is_some();
    let fill = match run.setup.peak_bytes.zip(run.setup.cow_bytes) {
        None => fullest(site, run, present).await?,
        known => known,
    };
    Ok(fill.map(|(used, total)| Peak {
        bytes: if overflowed { total } else { used },
        overflowed,
    }))
}

/// Used and total bytes of a COW area at its peak. The total follows from used bytes and percentage, rounded to extents.
async fn fullest(site: &Site, run: &Job, present: &Present) -> Result<Option<(u64, u64)>, Problem> {
    let range = Range {
        from: run.started_at,
        to: run.ended_at.unwrap_or(present.interval.at),
    };
    let wanted = [Quantity::UsedBytes, Quantity::FillPercent].map(|quantity| SeriesKey {
        subject: Subject::Volume(run.key.clone()),
        quantity,
    });
    let series = site.store.series(&wanted, range, POINTS_OF_FILL).await?;
    let [Some(used), Some(percent)] = &series[..] else {
        return Ok(None);
    };
    let most = |(used, percent): (&Point, &Point)| used.max.zip(percent.max);
    let known = used.points.iter().zip(&percent.points).filter_map(most);
    let Some((used, percent)) = known
        .filter(|known| known.1 > 0.0)
        .max_by(|a, b| a.0.total_cmp(&b.0))
    else {
        return Ok(None);
    };
    let extent = extent(run, &present.interval.topology)
        .unwrap_or(DEFAULT_EXTENT)
        .max(1);
    let extents = (used / percent * 100.0 / extent as f64).round().max(1.0);
    Ok(Some((used as u64, (extents as u64).saturating_mul(extent))))
}
