//! The loop: read, parse, compare, evaluate, store, publish. It owns all state; others get values.
//!
//! Rules are evaluated before anything is stored. The loop never waits for disk, network or database.

mod commands;
mod journal;
mod publish;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::alert::{Alert, OwnState, Rules, Situation};
use crate::averages::Averages;
use crate::config::{self, Config};
use crate::forecast::Outlook;
use crate::interval::Interval;
use crate::job::progress::{Curves, overflows};
use crate::job::{Job, JobTracker};
use crate::notify::{Notifier, Silence};
use crate::pipeline::Observer;
use crate::present::{ConfigurationState, Present, RecordingEnd, forecast};
use crate::remote_write::RemoteWrite;
use crate::requests::{AlertRequest, Request};
use crate::sizing::{MeasuredVolumes, Tracker};
use crate::source::clock::micros;
use crate::source::recording::RecordingHeader;
use crate::source::{Reading, Source};
use crate::store::{Progress, StartState, StoreWriter, WriteOp};
use crate::topology::Volume;
use journal::{JobLog, Supervisor};
use publish::TickStatistics;

/// The settings of the loop: machine, rules, retention.
pub struct Terms {
    pub host: String,
    /// As in `uname -r`; in a recording, at that time.
    pub kernel: Option<String>,
    pub interval_length: Duration,
    pub alerts: config::Alerts,
    pub keep: config::Store,
    pub configuration: ConfigurationState,
    /// Sentences for the administrator about the setup.
    pub notes: Vec<String>,
}

impl Terms {
    /// For this machine, or that of a recording.
    pub fn of(header: RecordingHeader) -> Self {
        Self {
            host: header.host,
            kernel: Some(header.kernel),
            interval_length: Duration::from_millis(header.interval_ms),
            alerts: config::Alerts::default(),
            keep: config::Store::default(),
            configuration: ConfigurationState::default(),
            notes: Vec::new(),
        }
    }

    pub fn with_config(self, config: &Config) -> Self {
        Self {
            configuration: ConfigurationState::of(config),
            alerts: config.alerts.clone(),
            keep: config.store,
            ..self
        }
    }

    pub fn with_note(mut self, note: Option<String>) -> Self {
        self.notes.extend(note);
        self
    }
}

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
            reading = watcher.next(source.next(), &mut inlets, outlets) => reading,
        };
        let Some(reading) = reading else {
            watcher.publish_end(&source, outlets);
            // Alerts are still silenced and delivered.
            tokio::select! {
                () = shutdown.cancelled() => {}
                _ = watcher.next(std::future::pending(), &mut inlets, outlets) => {}
            }
            break;
        };
        watcher.take(&reading, outlets).await;
        source.watch(&watcher.jobs.backup_processes()).await;
    }
    watcher.hand_over(outlets).await;
}

/// What happens between two readings.
enum LoopEvent {
    Command(Box<Request>),
    AlertCommand(AlertRequest),
    Reload(Reload),
    /// A notification or a request of remote write has ended.
    ToStore(WriteOp),
    /// systemd has to hear that the loop runs.
    WatchdogDue,
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
    ticks: TickStatistics,
    ticked: Instant,
    /// Set at the end of a recording.
    ended: Option<RecordingEnd>,
    supervisor: Supervisor,
    log: JobLog,
}

impl Watcher {
    fn new(terms: Terms, known: StartState) -> Self {
        let rules = Rules::resume(terms.alerts.clone(), known.alerts, known.last_alert_id)
            .after(known.last_tick_at);
        let jobs = JobTracker::resume(known.jobs, known.last_job_id, known.last_tick_at)
            .on(&terms.host, terms.kernel.clone());
        Self {
            log: JobLog::new(jobs.running()),
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
            ticks: TickStatistics::default(),
            ticked: Instant::now(),
            ended: None,
            supervisor: Supervisor::default(),
        }
    }

    /// Waits for the next reading, and handles other events meanwhile.
    async fn next(
        &mut self,
        reading: impl Future<Output = Option<Reading>>,
        inlets: &mut Inlets,
        outlets: &mut Outlets,
    ) -> Option<Reading> {
        let mut reading = std::pin::pin!(reading);
        loop {
            // A reading that arrives while an event is handled waits for it: no event is handled by half.
            let event = tokio::select! {
                biased;
                reading = &mut reading => return reading,
                event = next_event(inlets, outlets, &self.supervisor) => event,
            };
            match event {
                LoopEvent::Command(request) => self.answer(*request, outlets).await,
                LoopEvent::AlertCommand(request) => self.answer_on_alerts(request, outlets).await,
                LoopEvent::Reload(reload) => self.reload(reload, outlets),
                LoopEvent::ToStore(op) => outlets.store.append(op).await,
                LoopEvent::WatchdogDue => self.supervisor.feed(),
            }
        }
    }

    fn reload(&mut self, reload: Reload, outlets: &mut Outlets) {
        let problem = match reload.config {
            Ok(config) => {
                outlets.notifier.reload(&config.notify);
                self.rules.reload(config.alerts.clone());
                self.terms.configuration.take(&config);
                self.terms.alerts = config.alerts;
                None
            }
            Err(sentence) => {
                self.terms.configuration.refuse();
                Some(sentence)
            }
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
        self.publish(outlets);
        if let Some(present) = &*outlets.present.borrow() {
            self.supervisor.tick(present);
        }
    }

    /// Evaluates rules and jobs. Sends alerts before anything is stored.
    async fn judge(&mut self, interval: &Interval, outlets: &mut Outlets) {
        // First, so that alerts know of this tick what pages show of it.
        let changed = self.jobs.advance(interval);
        Arc::make_mut(&mut self.curves).advance(interval, self.jobs.running());
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
        self.judge_jobs(changed, interval.at, outlets).await;
        for alert in alerts {
            outlets.store.append(WriteOp::Alert(Box::new(alert))).await;
        }
        for job in self.renamed(interval) {
            outlets.store.append(WriteOp::Job(Box::new(job))).await;
        }
        for (uuid, curve) in self.touched.advance(interval, &mut self.measured) {
            outlets.store.append(WriteOp::Curve(uuid, curve)).await;
        }
    }

    /// Ended jobs whose volumes have new names, so that they are found by those.
    fn renamed(&mut self, interval: &Interval) -> Vec<Job> {
        let mut before = self.last.iter();
        if before.any(|before| Arc::ptr_eq(&before.topology, &interval.topology)) {
            return Vec::new();
        }
        let renamed = self.jobs.follow_names(&interval.topology);
        for job in &renamed {
            self.rules.rename(job);
        }
        renamed
    }

    /// Evaluates the rules about cowbell itself; the state of the database is that of the previous tick.
    fn judge_own(&mut self, interval: &Interval, outlets: &Outlets) -> Vec<Alert> {
        let present = outlets.present.borrow();
        let own = OwnState {
            at: interval.at,
            parts: self.observer.parts(),
            elapsed_s: interval.elapsed_us as f64 / 1e6,
            due: interval.elapsed_us / micros(self.terms.interval_length).max(1),
            configuration_error: self.supervisor.problem(),
            guard: interval.guard.as_ref(),
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
            self.log.job(&job);
            let alerts = self.rules.judge_job(&job, at);
            self.tell(alerts, outlets).await;
            outlets.store.append(WriteOp::Job(Box::new(job))).await;
        }
    }

    /// Receivers get the current values before they get alerts that changed.
    fn notify(&self, alerts: &[Alert], outlets: &mut Outlets) {
        outlets.notifier.publish(self.rules.open(), &self.silences);
        for alert in alerts {
            outlets.notifier.tell(alert);
            journal::log_alert(alert);
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
        let mut ops = Vec::new();
        for delivery in outlets.notifier.close().await {
            ops.push(WriteOp::Delivery(Box::new(delivery)));
        }
        for job in self.jobs.running() {
            ops.push(WriteOp::Job(Box::new(job.clone())));
        }
        if let Some(sending) = &mut outlets.remote_write {
            ops.extend(sending.unstored().map(WriteOp::Sent));
        }
        for op in ops {
            outlets.store.append(op).await;
        }
    }
}

async fn next_event(
    inlets: &mut Inlets,
    outlets: &mut Outlets,
    supervisor: &Supervisor,
) -> LoopEvent {
    tokio::select! {
        biased;
        Some(request) = inlets.commands.recv() => LoopEvent::Command(Box::new(request)),
        Some(request) = inlets.alert_commands.recv() => LoopEvent::AlertCommand(request),
        Some(reload) = inlets.reloads.recv() => LoopEvent::Reload(reload),
        delivery = outlets.notifier.next_record() => {
            LoopEvent::ToStore(WriteOp::Delivery(Box::new(delivery)))
        }
        Some(progress) = next_progress(&mut outlets.remote_write) => {
            LoopEvent::ToStore(WriteOp::Sent(progress))
        }
        () = supervisor.due() => LoopEvent::WatchdogDue,
    }
}

/// What the receiver of remote write has, when it is to be stored; `None` without one.
async fn next_progress(remote_write: &mut Option<RemoteWrite>) -> Option<Progress> {
    Some(remote_write.as_mut()?.next_progress().await)
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
