//! Computes the cost of a job from its stored ticks.

use std::sync::Arc;

use anyhow::Context;

use super::Cost;
use crate::advice::other_pv;
use crate::job::advice::{OtherPv, advice};
use crate::job::diagnosis::diagnosis;
use crate::job::figures::Figures;
use crate::job::setup::Setup;
use crate::job::time_series::JobTimeSeries;
use crate::job::tool::is_by_mylvmbackup;
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::report::file;
use crate::report::time_series::Timeline;
use crate::report::time_series::{JobTimes, MOST_PVS, Sources};
use crate::store::{Subject, on_a_thread};
use crate::topology::{Device, DeviceKind, Topology};
use crate::web::Site;
use crate::web::answer::Problem;

/// Computes the cost of a job, on a thread for slow work.
pub async fn cost(site: &Site, job: &Job, present: &Arc<Present>) -> Result<Cost, Problem> {
    let setup = setup(job, present);
    let time_series = time_series(site, job, &setup, present).await?;
    let pv = pv_apart(job, &present.interval.topology);
    let (id, job) = (job.id, job.clone());
    let cost = on_a_thread(move || {
        let time_series = time_series()?;
        let figures = Figures::of(&time_series, &setup).with_phases(&time_series, &job);
        anyhow::Ok(Cost {
            findings: diagnosis(&figures, &setup),
            advice: advice(&figures, &setup, is_by_mylvmbackup(&job), &pv),
            timeline: Timeline::of(&time_series),
            figures,
            setup,
        })
    });
    Ok(cost
        .await?
        .with_context(|| format!("cannot compute the cost of job {id}"))?)
}

/// The file of a job.
pub async fn file(site: &Site, job: &Job, present: &Arc<Present>) -> Result<Vec<u8>, Problem> {
    let mut setup = setup(job, present);
    let time_series = time_series(site, job, &setup, present).await?;
    if !job.is_imported() {
        setup.host = setup.host.or_else(|| Some(present.host.clone()));
    }
    let job = Job {
        setup,
        ..job.clone()
    };
    let id = job.id;
    let file = on_a_thread(move || anyhow::Ok(file::write(&job, &time_series()?)?.into_bytes()));
    let file = file
        .await?
        .with_context(|| format!("cannot write the file of job {id}"))?;
    file::check_length(&file)
        .map_err(|error| Problem::Conflict(format!("job {id} cannot be exported: {error}")))?;
    Ok(file)
}

/// Computes a time series, which is slow, from ticks that have been read.
type TimeSeriesOf = Box<dyn FnOnce() -> anyhow::Result<JobTimeSeries> + Send>;

async fn time_series(
    site: &Site,
    job: &Job,
    setup: &Setup,
    present: &Present,
) -> Result<TimeSeriesOf, Problem> {
    if job.is_imported() {
        let file = site.store.imported(&job.key).await?;
        let file =
            file.with_context(|| format!("the file of job {} is not in the database", job.id))?;
        return Ok(Box::new(move || file::time_series(&file)));
    }
    let times = JobTimes::of(job, present.interval.at);
    let pvs = pvs(job, setup, &present.interval.topology);
    let sources = Sources::of(job, setup, &pvs, |volume| {
        Some(site.store.device_identity(volume)?.to_string())
    });
    let ticks = site.store.tick_table(&sources.wanted, times.range());
    let ticks = ticks.await?;
    Ok(Box::new(move || sources.time_series(&ticks, times)))
}

/// The recorded setup. What LVM did not report while the job ran, since its report comes once a minute, is completed from
/// the current state.
fn setup(job: &Job, present: &Present) -> Setup {
    let mut setup = job.setup.clone();
    if job.is_imported() {
        return setup;
    }
    let topology = &present.interval.topology;
    if let Some(origin) = job.origin_name().and_then(|name| topology.volume(&name)) {
        setup.origin_bytes = setup.origin_bytes.or(origin.size);
        if !origin.pvs.is_empty() {
            setup.origin_pvs.get_or_insert_with(|| origin.pvs.clone());
        }
    }
    if setup.is_thick() {
        setup.cow_pvs = setup.cow_pvs.or_else(|| only_pv(job, topology));
    }
    setup
}

/// For the COW area of its next snapshot.
fn pv_apart(job: &Job, topology: &Topology) -> OtherPv {
    let origin = job.origin_name().filter(|_| !job.is_imported());
    match origin.and_then(|name| topology.volume(&name)) {
        Some(origin) => other_pv(origin, topology),
        None => (None, "name that PV last in the `lvcreate` command".into()),
    }
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
