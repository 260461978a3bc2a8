//! What jobs cost, for pages and API: computed when somebody asks, one at a time, and remembered.
//!
//! Of a job that is over with all that came after it nothing changes any more, so its answer is kept while there is
//! room. All others are computed anew when somebody asks again after a while.

mod compute;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Site;
use super::answer::Problem;
use crate::job::Job;
use crate::job::setup::Setup;
use crate::report::course::Times;
use crate::report::job::JobReport;
use crate::report::outline::Outline;

/// Answers that are remembered, so that the runs of an experiment are computed once; each is some 50 KiB, most of it the
/// curve and the outline.
const MOST_KEPT: usize = 96;
/// A job that runs is computed no more often than this.
const HOLDS_FOR: Duration = Duration::from_secs(10);

/// What a job cost.
#[derive(Clone, Debug)]
pub struct Cost {
    pub report: JobReport,
    pub setup: Setup,
    pub outline: Outline,
}

/// What was computed of late.
pub struct Costs {
    /// The latest last. Held to look up or to put in, never while something is computed.
    kept: Mutex<VecDeque<CachedCost>>,
    /// However many visitors ask, one answer is computed at a time: it takes a processor, and memory for a day of ticks.
    turn: Semaphore,
    /// Whoever is sent a file, until it is sent or he stalls; files are large.
    exporting: Arc<Semaphore>,
    /// Whoever sends one.
    importing: Arc<Semaphore>,
}

struct CachedCost {
    job: i64,
    ended_at: Option<Timestamp>,
    /// `None` where it holds for ever.
    until: Option<Instant>,
    cost: Arc<Cost>,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            turn: Semaphore::new(1),
            exporting: Arc::new(Semaphore::new(1)),
            importing: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Costs {
    /// Leave to write a file and to send it, one at a time.
    pub fn export(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let busy = |_| {
            Problem::Unavailable("another job is exported, and there is memory for one: try again".into())
        };
        Arc::clone(&self.exporting).try_acquire_owned().map_err(busy)
    }

    /// Leave to receive a file and to check it, one at a time.
    pub fn import(&self) -> Result<OwnedSemaphorePermit, Problem> {
        let busy = |_| {
            Problem::Unavailable("another job is imported, and there is memory for one: try again".into())
        };
        Arc::clone(&self.importing).try_acquire_owned().map_err(busy)
    }

    fn find(&self, job: &Job) -> Option<Arc<Cost>> {
        let now = Instant::now();
        let holds = |kept: &&CachedCost| {
            kept.job == job.id && kept.ended_at == job.ended_at && kept.until.is_none_or(|until| now < until)
        };
        self.lock().iter().find(holds).map(|kept| Arc::clone(&kept.cost))
    }

    fn keep(&self, job: &Job, is_settled: bool, cost: &Arc<Cost>) {
        let until = (!is_settled).then(|| Instant::now() + HOLDS_FOR);
        let mut kept = self.lock();
        kept.retain(|kept| kept.job != job.id);
        kept.push_back(CachedCost { job: job.id, ended_at: job.ended_at, until, cost: Arc::clone(cost) });
        let surplus = kept.len().saturating_sub(MOST_KEPT);
        kept.drain(..surplus);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<CachedCost>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Site {
    /// What a job cost so far, or at all.
    pub async fn cost(&self, job: &Job) -> Result<Arc<Cost>, Problem> {
        if let Some(cost) = self.costs.find(job) {
            return Ok(cost);
        }
        let closed = |error| Problem::Inside(anyhow::Error::new(error).context("figures are not computed"));
        let _turn = self.costs.turn.acquire().await.map_err(closed)?;
        // Whoever had the turn before may have computed the same.
        if let Some(cost) = self.costs.find(job) {
            return Ok(cost);
        }
        let present = self.present()?;
        let cost = Arc::new(compute::cost(self, job, &present).await?);
        let is_settled = Times::of(job, present.interval.at).are_over(present.interval.at);
        self.costs.keep(job, is_settled, &cost);
        Ok(cost)
    }
}

impl Site {
    /// A job as one file, for another host. One at a time, as figures.
    pub async fn file_of(&self, job: &Job) -> Result<Vec<u8>, Problem> {
        let closed = |error| Problem::Inside(anyhow::Error::new(error).context("files are not written"));
        let _turn = self.costs.turn.acquire().await.map_err(closed)?;
        compute::file(self, job, &self.present()?).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobKind;
    use crate::job::course::{Course, Span};
    use crate::job::figures::Figures;
    use crate::units::Prefix;

    fn job(id: i64, ended_s: Option<i64>) -> Job {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut job = Job::new(id, JobKind::Snapshot, "key", "backup", at(0));
        job.ended_at = ended_s.map(at);
        job
    }

    fn cost() -> Arc<Cost> {
        let during = Span::new(Vec::new()).unwrap();
        let figures =
            Figures::of(&Course { before: None, during, after: None, took_s: None }, &Setup::default());
        let report = JobReport::new("backup", figures, &Setup::default(), None, Prefix::Decimal);
        Arc::new(Cost { report, setup: Setup::default(), outline: Outline::default() })
    }

    #[test]
    fn what_was_computed_is_given_again_until_the_job_is_another() {
        let costs = Costs::default();
        costs.keep(&job(1, None), false, &cost());
        assert!(costs.find(&job(1, None)).is_some());
        assert!(costs.find(&job(1, Some(60))).is_none(), "it has ended meanwhile");
        assert!(costs.find(&job(2, None)).is_none());
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let costs = Costs::default();
        for id in 0..200 {
            costs.keep(&job(id, Some(60)), true, &cost());
        }
        assert_eq!(costs.lock().len(), MOST_KEPT);
        assert!(costs.find(&job(199, Some(60))).is_some());
    }
}
