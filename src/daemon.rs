//! The loop: read, understand, difference, judge, store, publish. One loop, one owner; others get values.
//!
//! Rules are judged before anything is stored, and nothing here waits for disk, network or database.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::alert::{Alert, Rules, Severity};
use crate::config;
use crate::interval::estimate::Estimator;
use crate::interval::{Interval, Observed};
use crate::job::pace::Lately;
use crate::job::{Job, JobBook};
use crate::notify::Notifier;
use crate::present::{Percentiles, Present, Ticks};
use crate::sample::{Sampler, hooks};
use crate::source::recording::Header;
use crate::source::{Hook, Imported, Reading, Source, Word};
use crate::store::{Entry, Inlet, Known};
use crate::tally::Tallies;
use crate::topology::Topology;

/// Durations of the last ticks that are remembered for their percentiles.
const DURATIONS: usize = 600;

/// Everything that the loop hands what it saw to.
pub struct Outlets {
    pub store: Inlet,
    pub notifier: Notifier,
    pub present: watch::Sender<Option<Arc<Present>>>,
}

/// What the loop is told about the machine and the rules before it begins.
pub struct Terms {
    pub host: String,
    /// As `uname -r` says it, or said it when a recording was made.
    pub kernel: Option<String>,
    pub interval_length: Duration,
    pub alerts: config::Alerts,
    pub keep: config::Store,
    /// What somebody should know of how this program was set up: a sentence each.
    pub notes: Vec<String>,
}

impl Terms {
    pub fn new(host: String, interval_length: Duration) -> Self {
        let (alerts, keep) = (config::Alerts::default(), config::Store::default());
        Self { host, kernel: None, interval_length, alerts, keep, notes: Vec::new() }
    }

    /// For the machine that a recording's header tells of.
    pub fn of(header: Header) -> Self {
        let terms = Self::new(header.host, Duration::from_millis(header.interval_ms));
        Self { kernel: Some(header.kernel), ..terms }
    }

    pub fn with_config(self, config: &config::Config) -> Self {
        Self { alerts: config.alerts.clone(), keep: config.store, ..self }
    }

    pub fn with_note(mut self, note: Option<String>) -> Self {
        self.notes.extend(note);
        self
    }
}

/// Runs until the token is cancelled, or a recording is at its end and was shown; every taken tick is handed on.
pub async fn run(
    mut source: Source,
    terms: Terms,
    known: Known,
    outlets: &mut Outlets,
    shutdown: &CancellationToken,
) {
    let mut watcher = Watcher::new(terms, known, source.is_live());
    loop {
        let reading = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            reading = source.next() => reading,
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
    is_live: bool,
    sampler: Sampler,
    before: Option<Observed>,
    estimator: Estimator,
    last: Option<Arc<Interval>>,
    jobs: JobBook,
    lately: Arc<Lately>,
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
    fn new(terms: Terms, known: Known, is_live: bool) -> Self {
        let rules = Rules::resume(terms.alerts.clone(), known.alerts, known.last_alert_id);
        let jobs = JobBook::resume(known.jobs, known.last_job_id, known.last_tick_at)
            .on(&terms.host, terms.kernel.clone());
        Self {
            terms,
            is_live,
            sampler: Sampler::default(),
            before: None,
            estimator: Estimator::default(),
            last: None,
            jobs,
            lately: Arc::default(),
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

    async fn take(&mut self, reading: &Reading, outlets: &mut Outlets) {
        let began = Instant::now();
        for word in &reading.words {
            self.listen(word, reading.at, outlets).await;
        }
        for hook in &reading.hooks {
            let news = self.hear(hook);
            self.judge_jobs(news, hook.at, outlets).await;
        }
        if reading.is_tick() {
            let interval = Arc::new(self.observe(reading));
            self.look_back(reading, outlets).await;
            self.judge(&interval, outlets).await;
            self.keep(Entry::Tick(Arc::clone(&interval)), outlets).await;
            self.last = Some(interval);
            self.ticked = Instant::now();
        }
        self.count(reading, began);
        self.publish(None, outlets);
    }

    /// Word from outside of a job; what the jobs in memory know nothing of is the database's.
    async fn listen(&mut self, word: &Word, at: Timestamp, outlets: &mut Outlets) {
        match word {
            Word::Mark(mark) => {
                let news = self.jobs.mark(mark, at);
                self.judge_jobs(news, at, outlets).await;
            }
            Word::Noted(noted) => match self.jobs.note(noted) {
                Some(job) => self.keep(Entry::Job(Box::new(job)), outlets).await,
                None => self.keep(Entry::Noted(noted.clone()), outlets).await,
            },
            Word::Removed(removed) if self.jobs.forget(&removed.removed) => {
                self.keep(Entry::Removed(removed.clone()), outlets).await;
            }
            Word::Removed(_) => {}
            Word::Imported(imported) => self.import(imported, outlets).await,
        }
    }

    /// The file was checked by who took it in.
    async fn import(&mut self, imported: &Imported, outlets: &mut Outlets) {
        match serde_json::from_str(&imported.job) {
            Ok(job) => {
                if let Some(job) = self.jobs.import(&imported.imported, job) {
                    let file = Arc::from(&*imported.file);
                    self.keep(Entry::Imported(Box::new(job), file), outlets).await;
                }
            }
            Err(error) => tracing::warn!("a job of another host is left out: {error}"),
        }
    }

    fn observe(&mut self, reading: &Reading) -> Interval {
        let sample = self.sampler.sample(reading);
        let topology = match &self.before {
            Some(before) if sample.devices.is_none() || Topology::still_holds(&before.sample, &sample) => {
                Arc::clone(&before.topology)
            }
            _ => Arc::new(Topology::of(&sample)),
        };
        let now = Observed { sample, topology };
        let mut interval = Interval::between(self.before.as_ref(), &now);
        self.estimator.advance(&mut interval);
        self.before = Some(now);
        Arc::make_mut(&mut self.tallies).add(&interval);
        interval
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
        Arc::make_mut(&mut self.lately).advance(interval, self.jobs.running(), length);
        self.judge_jobs(jobs, interval.at, outlets).await;
        for alert in news {
            self.keep(Entry::Alert(Box::new(alert)), outlets).await;
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
            self.keep(Entry::Job(Box::new(job)), outlets).await;
        }
    }

    async fn tell(&self, news: Vec<Alert>, outlets: &mut Outlets) {
        for alert in news {
            outlets.notifier.tell(&alert);
            log(&alert);
            self.keep(Entry::Alert(Box::new(alert)), outlets).await;
        }
    }

    /// What is not understood is counted, and the first of it logged: whoever sends nonsense does not fill the log.
    fn hear(&mut self, hook: &Hook) -> Option<Job> {
        match hooks::parse(&hook.said) {
            Ok(told) => self.jobs.hear(&told, hook.at),
            Err(error) => {
                if self.not_understood.0 == 0 {
                    tracing::warn!("a hook's word is left out: {error}");
                }
                self.not_understood = (self.not_understood.0 + 1, error);
                None
            }
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

    /// What somebody should know of how this program was set up, and of what it is told.
    fn notes(&self) -> Vec<String> {
        let (count, last) = &self.not_understood;
        let note =
            (*count > 0).then(|| format!("{count} words from hooks were not understood; the last: {last}"));
        self.terms.notes.iter().cloned().chain(note).collect()
    }

    /// Only a recording waits for the database.
    async fn keep(&self, entry: Entry, outlets: &mut Outlets) {
        if self.is_live {
            outlets.store.append(entry);
        } else {
            outlets.store.append_when_there_is_room(entry).await;
        }
    }

    fn count(&mut self, reading: &Reading, began: Instant) {
        self.started_at.get_or_insert(reading.at);
        if !reading.is_tick() {
            return;
        }
        let length_us = u64::try_from(self.terms.interval_length.as_micros()).unwrap_or(u64::MAX).max(1);
        let elapsed_us = self.last.as_ref().map_or(0, |interval| interval.elapsed_us);
        self.missed += (elapsed_us / length_us).saturating_sub(1);
        let took_us = reading.took_us + u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        if self.durations.len() < DURATIONS {
            self.durations.push(took_us);
        } else {
            let oldest = usize::try_from(self.taken).unwrap_or_default() % DURATIONS;
            self.durations[oldest] = took_us;
        }
        self.taken += 1;
    }

    fn publish(&self, ended: Option<String>, outlets: &Outlets) {
        let (Some(interval), Some(started_at)) = (&self.last, self.started_at) else { return };
        let (store, lost) = outlets.store.health();
        let present = Present {
            host: self.terms.host.clone(),
            started_at,
            interval_length: self.terms.interval_length,
            interval: Arc::clone(interval),
            thresholds: self.terms.alerts.clone(),
            tallies: Arc::clone(&self.tallies),
            jobs: self
                .jobs
                .ended()
                .iter()
                .cloned()
                .chain(self.jobs.running().iter().cloned().map(Arc::new))
                .collect(),
            lately: Arc::clone(&self.lately),
            alerts: self.rules.open().to_vec(),
            ticks: Ticks { taken: self.taken, missed: self.missed, took_us: percentiles(&self.durations) },
            parts: self.sampler.parts().clone(),
            store,
            keep: self.terms.keep,
            notes: self.notes(),
            lost,
            published: self.ticked,
            ended,
        };
        outlets.present.send_replace(Some(Arc::new(present)));
    }

    fn publish_end(&self, source: &Source, outlets: &Outlets) {
        let trouble = match source {
            Source::Recorded(player) => player.trouble(),
            Source::Live(_) => None,
        };
        let how = trouble.unwrap_or("the recording is at its end");
        tracing::info!("{how}");
        self.publish(Some(how.to_string()), outlets);
    }

    /// What is only in memory, when the program ends.
    async fn hand_over(&mut self, outlets: &mut Outlets) {
        let untold = outlets.notifier.close().await;
        let at = self.last.as_ref().map(|interval| interval.at).unwrap_or_default();
        for alert in self.rules.forget(&untold, at) {
            self.keep(Entry::Alert(Box::new(alert)), outlets).await;
        }
        for job in self.jobs.running() {
            self.keep(Entry::Job(Box::new(job.clone())), outlets).await;
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

fn percentiles(durations: &[u64]) -> Percentiles {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let at = |share: usize| sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1)));
    Percentiles { p50: at(50).copied().unwrap_or_default(), p99: at(99).copied().unwrap_or_default() }
}
