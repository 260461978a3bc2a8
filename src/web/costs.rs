//! Costs of jobs: computed on request, one at a time, and cached.
//!
//! The cost of a job that is over does not change, so it stays cached while there is room. Others expire.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::Timestamp;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::Site;
use super::answer::Problem;
use crate::advice::other_pv;
use crate::job::advice::{Advice, OtherPv, advice};
use crate::job::diagnosis::{Explanation, diagnosis};
use crate::job::figures::Figures;
use crate::job::setup::Setup;
use crate::job::time_series::JobTimeSeries;
use crate::job::tool::is_by_mylvmbackup;
use crate::job::{Job, JobKind};
use crate::present::Present;
use crate::report::file;
use crate::report::time_series::{JobTimes, MOST_PVS, Sources, Timeline};
use crate::sizing::SizeAdvice;
use crate::store::{Subject, on_a_thread};
use crate::topology::{Device, DeviceKind, Topology};

/// Cached costs: enough for the runs of an experiment. Each takes about 50 KiB.
const MOST_CACHED: usize = 96;
/// The cost of a running job is cached for this time.
const LIFETIME: Duration = Duration::from_secs(10);

/// The cost of a job.
#[derive(Clone, Debug)]
pub struct Cost {
    pub figures: Figures,
    pub findings: Vec<Explanation>,
    advice: Vec<Advice>,
    pub setup: Setup,
    pub timeline: Timeline,
}

impl Cost {
    /// What would have helped. The size of the next snapshot is not cached with it: `sizing` knows it now.
    pub fn advice_with(&self, size: Option<&SizeAdvice>) -> Vec<Advice> {
        let mut advice = self.advice.clone();
        advice.extend(size.and_then(SizeAdvice::for_job));
        advice
    }
}

/// The cache, and limits for work on jobs.
#[derive(Default)]
pub struct Costs {
    /// The latest last. The lock is never held during a computation.
    cached: Mutex<VecDeque<CachedCost>>,
    /// One cost is computed at a time: it needs a CPU, and memory for a day of ticks.
    turn: AsyncMutex<()>,
    /// One file is sent at a time, since files are large.
    exporting: Arc<AsyncMutex<()>>,
    /// One file is received at a time.
    importing: Arc<AsyncMutex<()>>,
}

struct CachedCost {
    job: i64,
    ended_at: Option<Timestamp>,
    /// `None` if it never expires.
    until: Option<Instant>,
    cost: Arc<Cost>,
}

impl Costs {
    /// A permit to write and send a file.
    pub fn export(&self) -> Result<OwnedMutexGuard<()>, Problem> {
        permit(&self.exporting, "exported")
    }

    /// A permit to receive and check a file.
    pub fn import(&self) -> Result<OwnedMutexGuard<()>, Problem> {
        permit(&self.importing, "imported")
    }

    fn find(&self, job: &Job) -> Option<Arc<Cost>> {
        let now = Instant::now();
        let holds = |cached: &&CachedCost| {
            cached.job == job.id
                && cached.ended_at == job.ended_at
                && cached.until.is_none_or(|until| now < until)
        };
        self.lock()
            .iter()
            .find(holds)
            .map(|cached| Arc::clone(&cached.cost))
    }

    fn insert(&self, job: &Job, is_settled: bool, cost: &Arc<Cost>) {
        let until = (!is_settled).then(|| Instant::now() + LIFETIME);
        let mut cached = self.lock();
        cached.retain(|cached| cached.job != job.id);
        cached.push_back(CachedCost {
            job: job.id,
            ended_at: job.ended_at,
            until,
            cost: Arc::clone(cost),
        });
        let surplus = cached.len().saturating_sub(MOST_CACHED);
        cached.drain(..surplus);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<CachedCost>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn permit(mutex: &Arc<AsyncMutex<()>>, what: &str) -> Result<OwnedMutexGuard<()>, Problem> {
    let busy = |_| Problem::Unavailable(format!("another job is being {what}; try again"));
    Arc::clone(mutex).try_lock_owned().map_err(busy)
}

impl Site {
    /// The cost of a job, so far if it runs.
    pub async fn cost(&self, job: &Job) -> Result<Arc<Cost>, Problem> {
        if let Some(cost) = self.costs.find(job) {
            return Ok(cost);
        }
        let _turn = self.costs.turn.lock().await;
        // The previous holder may have computed the same.
        if let Some(cost) = self.costs.find(job) {
            return Ok(cost);
        }
        let present = self.present()?;
        let cost = Arc::new(compute_cost(self, job, &present).await?);
        let is_settled = JobTimes::of(job, present.interval.at).are_over(present.interval.at);
        self.costs.insert(job, is_settled, &cost);
        Ok(cost)
    }

    /// A job as one file, for another host.
    pub async fn file_of(&self, job: &Job) -> Result<Vec<u8>, Problem> {
        let _turn = self.costs.turn.lock().await;
        compute_file(self, job, &self.present()?).await
    }
}

/// Computes the cost of a job, on a thread for slow work.
async fn compute_cost(site: &Site, job: &Job, present: &Arc<Present>) -> Result<Cost, Problem> {
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
async fn compute_file(site: &Site, job: &Job, present: &Arc<Present>) -> Result<Vec<u8>, Problem> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobKind;
    use crate::job::time_series::{JobTimeSeries, TickColumns};

    fn job(id: i64, ended_s: Option<i64>) -> Job {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut job = Job::new(id, JobKind::Snapshot, "key", "backup", at(0));
        job.ended_at = ended_s.map(at);
        job
    }

    fn cost() -> Arc<Cost> {
        let time_series = JobTimeSeries {
            before: None,
            during: TickColumns::new(Vec::new()).unwrap(),
            after: None,
            took_s: None,
        };
        Arc::new(Cost {
            figures: Figures::of(&time_series, &Setup::default()),
            findings: Vec::new(),
            advice: Vec::new(),
            setup: Setup::default(),
            timeline: Timeline::default(),
        })
    }

    #[test]
    fn costs_are_cached_until_the_job_ends() {
        let costs = Costs::default();
        costs.insert(&job(1, None), false, &cost());
        assert!(costs.find(&job(1, None)).is_some());
        assert!(
            costs.find(&job(1, Some(60))).is_none(),
            "it has ended meanwhile"
        );
        assert!(costs.find(&job(2, None)).is_none());
    }

    #[test]
    fn the_cache_is_limited() {
        let costs = Costs::default();
        for id in 0..200 {
            costs.insert(&job(id, Some(60)), true, &cost());
        }
        assert_eq!(costs.lock().len(), MOST_CACHED);
        assert!(costs.find(&job(199, Some(60))).is_some());
    }
}
