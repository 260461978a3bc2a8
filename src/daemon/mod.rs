//! The loop: read, parse, compare, evaluate, store, publish. It owns all state; others get values.
//!
//! Rules are evaluated before anything is stored. The loop never waits for disk, network or database.

mod commands;
mod publish;
mod supervisor;
mod terms;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::alert::{Alert, OwnState, Rules, Severity, Situation};
use crate::averages::Averages;
use crate::commands::{AlertRequest, Request};
use crate::config::Config;
use crate::forecast::Outlook;
use crate::interval::Interval;
use crate::job::curves::{Curves, overflows};
use crate::job::{Job, JobTracker, Outcome};
use crate::notify::{Notifier, Silence};
use crate::pipeline::Observer;
use crate::present::{Present, forecast};
use crate::remote_write::RemoteWrite;
use crate::sizing::{MeasuredVolumes, Tracker};
use crate::source::clock::micros;
use crate::source::{Reading, Source};
use crate::store::{Progress, StartState, StoreWriter, WriteOp};
use crate::topology::Volume;
use supervisor::Supervisor;
pub use terms::Terms;

/// Ended jobs whose logged outcome is remembered.
const MOST_LOGGED: usize = 200;

/// A new configuration, or the sentence why it was refused.
pub struct Reload {
    pub config: Result<Box<Config>, String>,
}

/// What clients and the administrator send to the loop.
pub struct Inlets {
    pub commands: mpsc::Receiver<Request>,
    pub alert_commands: mpsc::Receiver<AlertRequest>,
    pub reloads: mpsc::Receiver<Reload>,
}

/// The receivers of the loop's results.
pub struct Outlets {
    pub store: StoreWriter,
    pub notifier: Notifier,
    /// `None` if no receiver is configured.
    pub remote_write: Option<RemoteWrite>,
    pub present: watch::Sender<Option<Arc<Present>>>,
    /// Accepted commands of clients as readings, for `cowbell record`.
    pub accepted: broadcast::Sender<Arc<Reading>>,
}

/// Runs until the token is cancelled, even after the end of a recording.
pub async fn run(
    mut source: Source,
    mut inlets: Inlets,
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
            reading = watcher.next(&mut source, &mut inlets, outlets) => reading,
        };
        match reading {
            Some(reading) => {
                watcher.take(&reading, outlets).await;
                source.watch(&watcher.jobs.backup_processes()).await;
            }
            None => {
                watcher.publish_end(&source, outlets);
                break watcher.idle(&mut inlets, shutdown, outlets).await;
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
    curves: Arc<Curves>,
    measured: Arc<MeasuredVolumes>,
    touched: Tracker,
    /// The number of invalid hook messages, and the last error.
    invalid_hooks: (u64, String),
    rules: Rules,
    silences: Vec<Silence>,
    averages: Arc<Averages>,
    started_at: Option<Timestamp>,
    taken: u64,
    missed: u64,
    durations: Vec<u64>,
    ticked: Instant,
    supervisor: Supervisor,
    /// The IDs of running jobs in the log.
    logged_jobs: HashSet<i64>,
    /// The outcomes that were logged of the last ended jobs: one may change when a command reports its result.
    logged_outcomes: VecDeque<(i64, Outcome)>,
}

impl Watcher {
    fn new(terms: Terms, known: StartState) -> Self {
        let rules = Rules::resume(terms.alerts.clone(), known.alerts, known.last_alert_id)
            .after(known.last_tick_at);
        let jobs = JobTracker::resume(known.jobs, known.last_job_id, known.last_tick_at)
            .on(&terms.host, terms.kernel.clone());
        let logged_jobs = jobs.running().iter().map(|job| job.id).collect();
        Self {
            terms,
            observer: Observer::default(),
            last: None,
            jobs,
            curves: Arc::default(),
            measured: Arc::new(known.measured),
            touched: Tracker::default(),
            invalid_hooks: Default::default(),
            rules,
            silences: known.silences,
            averages: Arc::default(),
            started_at: None,
            taken: 0,
            missed: 0,
            durations: Vec::new(),
            ticked: Instant::now(),
            supervisor: Supervisor::default(),
            logged_jobs,
            logged_outcomes: VecDeque::new(),
        }
    }

    /// Waits for the next reading, and executes commands meanwhile. systemd hears that the loop runs.
    async fn next(
        &mut self,
        source: &mut Source,
        inlets: &mut Inlets,
        outlets: &mut Outlets,
    ) -> Option<Reading> {
        let mut next = std::pin::pin!(source.next());
        loop {
            tokio::select! {
                biased;
                reading = &mut next => return reading,
                Some(request) = inlets.commands.recv() => self.answer(request, outlets).await,
                Some(request) = inlets.alert_commands.recv() => self.answer_on_alerts(request, outlets).await,
                Some(reload) = inlets.reloads.recv() => self.reload(reload, outlets),
                delivery = outlets.notifier.next_record() => {
                    outlets.store.append(WriteOp::Delivery(Box::new(delivery))).await;
                }
                progress = next_progress(&mut outlets.remote_write) => {
                    outlets.store.append(WriteOp::Sent(progress)).await;
                }
                () = self.supervisor.due() => self.supervisor.feed(),
            }
        }
    }

    /// After the end of a recording.
    async fn idle(
        &mut self,
        inlets: &mut Inlets,
        shutdown: &CancellationToken,
        outlets: &mut Outlets,
    ) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                Some(request) = inlets.alert_commands.recv() => self.answer_on_alerts(request, outlets).await,
                delivery = outlets.notifier.next_record() => {
                    outlets.store.append(WriteOp::Delivery(Box::new(delivery))).await;
                }
                progress = next_progress(&mut outlets.remote_write) => {
                    outlets.store.append(WriteOp::Sent(progress)).await;
                }
                () = self.supervisor.due() => self.supervisor.feed(),
            }
        }
    }

    fn reload(&mut self, reload: Reload, outlets: &mut Outlets) {
        let problem = match reload.config {
            Ok(config) => {
                outlets.notifier.reload(&config.notify);
                self.rules.reload(config.alerts.clone());
                self.terms.alerts = config.alerts;
                None
            }
            Err(sentence) => Some(sentence),
        };
        self.supervisor.reloaded(problem);
    }

    async fn take(&mut self, reading: &Reading, outlets: &mut Outlets) {
        let began = Instant::now();
        self.replay_commands(reading, outlets).await;
        for hook in &reading.hooks {
            let changed = self.take_hook(hook);
            self.judge_jobs(changed, hook.at, outlets).await;
        }
        if reading.is_tick() {
            let interval = Arc::new(self.observer.observe(reading));
            Arc::make_mut(&mut self.averages).add(&interval);
            self.look_back(reading, outlets).await;
            self.judge(&interval, outlets).await;
            outlets.store.append_tick(&interval).await;
            self.last = Some(interval);
            self.ticked = Instant::now();
        }
        self.silences.retain(|silence| silence.until > reading.at);
        self.count(reading, began);
        self.publish(None, outlets);
        if let Some(present) = &*outlets.present.borrow() {
            self.supervisor.tick(present);
        }
    }

    /// Evaluates rules and jobs. Sends alerts before anything is stored.
    async fn judge(&mut self, interval: &Interval, outlets: &mut Outlets) {
        let (jobs, curves) = (&self.jobs, &*self.curves);
        let users = users(interval, jobs);
        let outlook = |volume: &Volume| {
            let users = users.get(&*volume.uuid)?.iter().copied();
            worst_outlook(users, interval, jobs, curves)
        };
        let measured = &*self.measured;
        let mut alerts = self.rules.judge(&Situation {
            interval,
            jobs,
            outlook: &outlook,
            measured,
        });
        alerts.extend(self.judge_own(interval, outlets));
        self.notify(&alerts, outlets);
        let jobs = self.jobs.advance(interval);
        Arc::make_mut(&mut self.curves).advance(interval, self.jobs.running());
        self.judge_jobs(jobs, interval.at, outlets).await;
        for alert in alerts {
            outlets.store.append(WriteOp::Alert(Box::new(alert))).await;
        }
        for (uuid, curve) in self.touched.advance(interval, &mut self.measured) {
            outlets.store.append(WriteOp::Curve(uuid, curve)).await;
        }
    }

    /// Evaluates the rules about cowbell itself; the state of the database is that of the previous tick.
    fn judge_own(&mut self, interval: &Interval, outlets: &Outlets) -> Vec<Alert> {
        let present = outlets.present.borrow();
        let own = OwnState {
            at: interval.at,
            parts: self.observer.parts(),
            elapsed_s: interval.elapsed_us as f64 / 1e6,
            due: interval.elapsed_us / micros(self.terms.interval_length).max(1),
            store_error: present
                .as_ref()
                .and_then(|present| present.store.error.as_deref()),
            lost: present.as_ref().map_or(0, |present| present.lost),
        };
        self.rules.judge_own(&own)
    }

    /// Evaluates changed jobs. Sends alerts before anything is stored.
    async fn judge_jobs(
        &mut self,
        jobs: impl IntoIterator<Item = Job>,
        at: Timestamp,
        outlets: &mut Outlets,
    ) {
        for job in jobs {
            self.log_job(&job);
            let alerts = self.rules.judge_job(&job, at);
            self.tell(alerts, outlets).await;
            outlets.store.append(WriteOp::Job(Box::new(job))).await;
        }
    }

    /// Logs that a job began or ended.
    fn log_job(&mut self, job: &Job) {
        let (vg, lv) = (
            job.vg.as_deref().unwrap_or_default(),
            job.lv.as_deref().unwrap_or_default(),
        );
        let Some(outcome) = job.ended_at.and(job.outcome) else {
            if self.logged_jobs.insert(job.id) {
                tracing::info!(
                    vg,
                    lv,
                    job = job.name,
                    "job {} `{}` began",
                    job.id,
                    job.name
                );
            }
            return;
        };
        let before = self
            .logged_outcomes
            .iter()
            .position(|(id, _)| *id == job.id);
        let before = before.and_then(|place| self.logged_outcomes.remove(place));
        let has_ended_now = self.logged_jobs.remove(&job.id);
        if !has_ended_now && before.is_none() {
            return;
        }
        if before.is_none_or(|(_, before)| before != outcome) {
            let (id, name, outcome) = (job.id, &job.name, outcome.text());
            let verb = if has_ended_now { "ended" } else { "is now" };
            tracing::info!(vg, lv, job = name, "job {id} `{name}` {verb}: {outcome}");
        }
        self.logged_outcomes.push_back((job.id, outcome));
        if self.logged_outcomes.len() > MOST_LOGGED {
            self.logged_outcomes.pop_front();
        }
    }

    /// Receivers get the current values before they get alerts that changed.
    fn notify(&self, alerts: &[Alert], outlets: &mut Outlets) {
        outlets.notifier.publish(self.rules.open(), &self.silences);
        for alert in alerts {
            outlets.notifier.tell(alert);
            log(alert);
        }
    }

    async fn tell(&self, alerts: Vec<Alert>, outlets: &mut Outlets) {
        self.notify(&alerts, outlets);
        for alert in alerts {
            outlets.store.append(WriteOp::Alert(Box::new(alert))).await;
        }
    }

    /// At the first tick: ends jobs that a shutdown ended, and raises alerts that an earlier process did not send.
    async fn look_back(&mut self, reading: &Reading, outlets: &mut Outlets) {
        if self.last.is_none() {
            let up = jiff::SignedDuration::from_micros(
                i64::try_from(reading.uptime_us).unwrap_or(i64::MAX),
            );
            let booted_at = reading.at.saturating_sub(up).unwrap_or(reading.at);
            let changed = self.jobs.booted(booted_at);
            self.judge_jobs(changed, reading.at, outlets).await;
            let own = self
                .jobs
                .ended()
                .iter()
                .filter(|job| !job.is_imported())
                .cloned();
            let alerts = self.rules.judge_ended(&own.collect::<Vec<_>>(), reading.at);
            self.tell(alerts, outlets).await;
        }
    }

    /// When the program ends, stores the data that is only in memory.
    async fn hand_over(&mut self, outlets: &mut Outlets) {
        for delivery in outlets.notifier.close().await {
            outlets
                .store
                .append(WriteOp::Delivery(Box::new(delivery)))
                .await;
        }
        for job in self.jobs.running() {
            outlets
                .store
                .append(WriteOp::Job(Box::new(job.clone())))
                .await;
        }
        if let Some(progress) = outlets
            .remote_write
            .take()
            .and_then(|mut sending| sending.unstored())
        {
            outlets.store.append(WriteOp::Sent(progress)).await;
        }
    }
}

/// What the receiver of remote write has, when it is to be stored.
async fn next_progress(remote_write: &mut Option<RemoteWrite>) -> Progress {
    match remote_write {
        Some(sending) => sending.next_progress().await,
        None => std::future::pending().await,
    }
}

/// The running jobs by the UUID of the volume that they fill.
fn users<'a>(interval: &'a Interval, jobs: &'a JobTracker) -> HashMap<&'a str, Vec<&'a Job>> {
    let mut users: HashMap<&str, Vec<&Job>> = HashMap::new();
    for job in jobs.running() {
        let snapshot = interval.topology.volume(&job.key);
        if let Some((full, _)) = snapshot.and_then(|snapshot| overflows(interval, snapshot)) {
            users.entry(&full.uuid).or_default().push(job);
        }
    }
    users
}

/// Of these jobs, the running backup that needs most, and its forecast.
fn worst_outlook<'a>(
    users: impl Iterator<Item = &'a Job>,
    interval: &Interval,
    jobs: &JobTracker,
    curves: &Curves,
) -> Option<(i64, Outlook)> {
    let ended = || jobs.ended().iter().rev().map(Arc::as_ref);
    let outlooks =
        users.filter_map(|job| Some((job.id, forecast(job, interval, curves, ended())?)));
    outlooks.max_by_key(|(_, outlook)| outlook.growth.and_then(|growth| growth.add_bytes))
}

fn log(alert: &Alert) {
    let Alert { vg, lv, .. } = alert;
    let sentence = alert.sentence();
    let rule = alert.rule.name();
    match alert.cleared_at {
        Some(_) => tracing::info!(vg, lv, alert = rule, "over: {sentence}"),
        None if alert.severity == Severity::Critical => {
            tracing::error!(vg, lv, alert = rule, "{sentence}")
        }
        None => tracing::warn!(vg, lv, alert = rule, "{sentence}"),
    }
}
