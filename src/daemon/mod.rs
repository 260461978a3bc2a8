//! The loop: read, understand, difference, judge, store, publish. One loop, one owner; others get values.
//!
//! Rules are judged before anything is stored, and nothing here waits for disk, network or database.

mod publish;
mod terms;
mod commands;

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::alert::{Alert, Rules, Severity};
use crate::commands::Request;
use crate::interval::Interval;
use crate::job::rates::RecentRates;
use crate::job::{Job, JobTracker};
use crate::notify::Notifier;
use crate::pipeline::Observer;
use crate::present::Present;
use crate::source::{Reading, Source};
use crate::store::{StartState, StoreWriter, WriteOp};
use crate::tally::Tallies;
pub use terms::Terms;

/// Everything that the loop hands what it saw to.
pub struct Outlets {
    pub store: StoreWriter,
    pub notifier: Notifier,
    pub present: watch::Sender<Option<Arc<Present>>>,
    /// Commands of clients that were carried out, as readings: for `cowbell record`.
    pub accepted: broadcast::Sender<Arc<Reading>>,
}

/// Runs until the token is cancelled, or a recording is at its end and was shown; every taken tick is handed on.
pub async fn run(
    mut source: Source,
    mut commands: mpsc::Receiver<Request>,
    terms: Terms,
    known: StartState,
    outlets: &mut Outlets,
    shutdown: &CancellationToken,
) {
    let mut watcher = Watcher::new(terms, known);
    loop {
        let reading = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            reading = watcher.next(&mut source, &mut commands, outlets) => reading,
        };
        match reading {
            Some(reading) => watcher.take(&reading, outlets).await,
            None => {
                watcher.publish_end(&source, outlets);
                break shutdown.cancelled().await;
            }
        }
    }
    watcher.hand_over(outlets).await;
}

/// The state of the loop between two readings.
struct Watcher {
    terms: Terms,
    observer: Observer,
    last: Option<Arc<Interval>>,
    jobs: JobTracker,
    recent_rates: Arc<RecentRates>,
    /// How many words of hooks, and what was wrong with the last.
    not_understood: (u64, String),
    rules: Rules,
    tallies: Arc<Tallies>,
    started_at: Option<Timestamp>,
    taken: u64,
    missed: u64,
    durations: Vec<u64>,
    ticked: Instant,
}

impl Watcher {
    fn new(terms: Terms, known: StartState) -> Self {
        let rules = Rules::resume(terms.alerts.clone(), known.alerts, known.last_alert_id);
        let jobs = JobTracker::resume(known.jobs, known.last_job_id, known.last_tick_at)
            .on(&terms.host, terms.kernel.clone());
        Self {
            terms,
            observer: Observer::default(),
            last: None,
            jobs,
            recent_rates: Arc::default(),
            not_understood: Default::default(),
            rules,
            tallies: Arc::default(),
            started_at: None,
            taken: 0,
            missed: 0,
            durations: Vec::new(),
            ticked: Instant::now(),
        }
    }

    /// The next reading. While it is waited for, and while it waits for the kernel, commands are carried out.
    async fn next(
        &mut self,
        source: &mut Source,
        commands: &mut mpsc::Receiver<Request>,
        outlets: &mut Outlets,
    ) -> Option<Reading> {
        let mut next = std::pin::pin!(source.next());
        loop {
            tokio::select! {
                biased;
                reading = &mut next => return reading,
                Some(request) = commands.recv() => self.answer(request, outlets).await,
            }
        }
    }

    async fn take(&mut self, reading: &Reading, outlets: &mut Outlets) {
        let began = Instant::now();
        self.replay_commands(reading, outlets).await;
        for hook in &reading.hooks {
            let news = self.hear(hook);
            self.judge_jobs(news, hook.at, outlets).await;
        }
        if reading.is_tick() {
            let interval = Arc::new(self.observer.observe(reading));
            Arc::make_mut(&mut self.tallies).add(&interval);
            self.look_back(reading, outlets).await;
            self.judge(&interval, outlets).await;
            outlets.store.append_tick(&interval).await;
            self.last = Some(interval);
            self.ticked = Instant::now();
        }
        self.count(reading, began);
        self.publish(None, outlets);
    }

    /// Rules and jobs, before anything is stored; whoever is to be told is told first.
    async fn judge(&mut self, interval: &Interval, outlets: &mut Outlets) {
        let news = self.rules.judge(interval);
        for alert in &news {
            outlets.notifier.tell(alert);
            log(alert);
        }
        let jobs = self.jobs.advance(interval);
        let length = self.terms.interval_length;
        Arc::make_mut(&mut self.recent_rates).advance(interval, self.jobs.running(), length);
        self.judge_jobs(jobs, interval.at, outlets).await;
        for alert in news {
            outlets.store.append(WriteOp::Alert(Box::new(alert))).await;
        }
    }

    /// What is new of jobs: whoever is to be told of a backup is told before anything is kept.
    async fn judge_jobs(
        &mut self,
        jobs: impl IntoIterator<Item = Job>,
        at: Timestamp,
        outlets: &mut Outlets,
    ) {
        for job in jobs {
            let news = self.rules.judge_job(&job, at);
            self.tell(news, outlets).await;
            outlets.store.append(WriteOp::Job(Box::new(job))).await;
        }
    }

    async fn tell(&self, news: Vec<Alert>, outlets: &mut Outlets) {
        for alert in news {
            outlets.notifier.tell(&alert);
            log(&alert);
            outlets.store.append(WriteOp::Alert(Box::new(alert))).await;
        }
    }

    /// With the first tick: what ended with the machine, and what an earlier run of the program did not come to tell.
    async fn look_back(&mut self, reading: &Reading, outlets: &mut Outlets) {
        if self.last.is_none() {
            let up = jiff::SignedDuration::from_micros(i64::try_from(reading.uptime_us).unwrap_or(i64::MAX));
            let booted_at = reading.at.saturating_sub(up).unwrap_or(reading.at);
            let news = self.jobs.booted(booted_at);
            self.judge_jobs(news, reading.at, outlets).await;
            let own = self.jobs.ended().iter().filter(|job| !job.is_imported()).cloned();
            let untold = self.rules.judge_ended(&own.collect::<Vec<_>>(), reading.at);
            self.tell(untold, outlets).await;
        }
    }

    /// What is only in memory, when the program ends.
    async fn hand_over(&mut self, outlets: &mut Outlets) {
        let untold = outlets.notifier.close().await;
        let at = self.last.as_ref().map(|interval| interval.at).unwrap_or_default();
        for alert in self.rules.forget(&untold, at) {
            outlets.store.append(WriteOp::Alert(Box::new(alert))).await;
        }
        for job in self.jobs.running() {
            outlets.store.append(WriteOp::Job(Box::new(job.clone()))).await;
        }
    }
}

fn log(alert: &Alert) {
    match alert.cleared_at {
        Some(_) => tracing::info!("over: {}", alert.sentence),
        None if alert.severity == Severity::Critical => tracing::error!("{}", alert.sentence),
        None => tracing::warn!("{}", alert.sentence),
    }
}
