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
use crate::job::setup::Setup;
use crate::job::sizing::Sizing;
use crate::present::Present;
use crate::report::course::Times;
use crate::report::job::JobReport;
use crate::report::outline::Outline;
use crate::sizing::SizeAdvice;

/// Cached costs: enough for the runs of an experiment. Each takes about 50 KiB.
const MOST_CACHED: usize = 96;
/// The cost of a running job is cached for this time.
const LIFETIME: Duration = Duration::from_secs(10);

/// The cost of a job.
#[derive(Clone, Debug)]
pub struct Cost {
    pub report: JobReport,
    pub setup: Setup,
    pub outline: Outline,
}

impl Cost {
    /// The size of the next COW area, which is that of its origin's page. That changes after the job, so it is not cached.
    pub fn sizing(&self, job: &Job, present: &Present) -> Option<Sizing> {
        let volume = job
            .origin_name()
            .and_then(|name| present.interval.topology.volume(&name));
        self.sizing_with(volume.and_then(|volume| present.size_advice(volume, None)))
    }

    fn sizing_with(&self, advice: Option<SizeAdvice>) -> Option<Sizing> {
        let sizing = self.report.sizing.clone()?;
        let Some(advice) = advice.filter(|advice| !advice.is_thin) else {
            return Some(sizing);
        };
        Some(sizing.or_suggested(advice.suggested_bytes, &advice.origin))
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
        let is_settled = Times::of(job, present.interval.at).are_over(present.interval.at);
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
    use crate::job::course::{Course, Span};
    use crate::job::figures::Figures;
    use crate::job::growth::{Growth, Run};
    use crate::job::sizing::{DEFAULT_MARGIN, Limits, Peak, sizing};
    use crate::sizing::{Question, advise};
    use crate::units::Prefix;

    fn job(id: i64, ended_s: Option<i64>) -> Job {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut job = Job::new(id, JobKind::Snapshot, "key", "backup", at(0));
        job.ended_at = ended_s.map(at);
        job
    }

    fn cost() -> Arc<Cost> {
        cost_with(None)
    }

    fn cost_with(sizing: Option<Sizing>) -> Arc<Cost> {
        let during = Span::new(Vec::new()).unwrap();
        let figures = Figures::of(
            &Course {
                before: None,
                during,
                after: None,
                took_s: None,
            },
            &Setup::default(),
        );
        let report = JobReport::new(
            "backup",
            figures,
            &Setup::default(),
            sizing,
            Prefix::Decimal,
        );
        Arc::new(Cost {
            report,
            setup: Setup::default(),
            outline: Outline::default(),
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
    fn a_cached_cost_has_the_size_that_is_suggested_now() {
        let costs = Costs::default();
        let peak = Peak {
            bytes: 15 << 20,
            overflowed: false,
        };
        let of_peaks = sizing(&[peak], DEFAULT_MARGIN, Limits::default());
        costs.insert(&job(1, Some(60)), true, &cost_with(of_peaks.clone()));
        let with = |mib: u64| {
            let run = Run {
                chunk: 4096,
                growth: Growth(vec![(3600.0, (mib << 20) as f64)]),
                started_at: Timestamp::UNIX_EPOCH,
                seconds: 3600.0,
                made_bytes: None,
                overflowed: false,
                is_backup: true,
                is_good: true,
            };
            let question = Question {
                vg: "vg0",
                lv: "data",
                extent: 4 << 20,
                runs: vec![run],
                ..Question::default()
            };
            let cached = costs.find(&job(1, Some(60))).unwrap();
            cached.sizing_with(advise(&question)).unwrap().advised_bytes >> 20
        };
        assert_eq!([with(20), with(40)], [40, 80]);
        assert_eq!(
            costs.find(&job(1, Some(60))).unwrap().sizing_with(None),
            of_peaks
        );
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
