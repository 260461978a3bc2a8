//! Costs of jobs: computed on request, one at a time, and cached.
//!
//! The cost of a job that is over does not change, so it stays cached while there is room. Others expire.

mod compute;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::Site;
use super::answer::Problem;
use crate::job::Job;
use crate::job::advice::Advice;
use crate::job::diagnosis::Explanation;
use crate::job::figures::Figures;
use crate::job::setup::Setup;
use crate::report::time_series::JobTimes;
use crate::report::time_series::Timeline;
use crate::sizing::SizeAdvice;

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
        let cost = Arc::new(compute::cost(self, job, &present).await?);
        let is_settled = JobTimes::of(job, present.interval.at).are_over(present.interval.at);
        self.costs.insert(job, is_settled, &cost);
        Ok(cost)
    }

    /// A job as one file, for another host.
    pub async fn file_of(&self, job: &Job) -> Result<Vec<u8>, Problem> {
        let _turn = self.costs.turn.lock().await;
        compute::file(self, job, &self.present()?).await
    }
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
