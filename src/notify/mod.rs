//! Delivers alerts to webhooks, commands and mailboxes. Of each alert a receiver gets the newest state, for as long as that takes.
//!
//! Receivers do not wait for each other, and neither do alerts: each receiver has a task, an outbox and several
//! deliveries at a time. The result of each delivery is a record, which the loop stores: after a restart, a receiver gets
//! what it does not know yet.

mod channel;
mod delivery;
mod manners;
mod message;
mod outbox;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::alert::Alert;
use crate::config::{Config, ConfigError, Receiver};
use crate::source::clock;
pub use channel::Heartbeat;
use channel::{Channel, Failed};
pub use delivery::{Delivery, KnownState};
use manners::Manners;
pub use manners::{Silence, Standing};
pub use message::{AlertState, Message, Status};
use outbox::{Letter, Outbox};

/// Messages that may wait until a receiver's task takes them, which it does at once.
const QUEUE: usize = 256;
/// Concurrent deliveries to one receiver, so that one that hangs does not hold up others.
const AT_ONCE: usize = 4;
/// The time limit for deliveries in progress when the program stops.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);
/// How often silences, quiet hours and repeats are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What an earlier process left: alerts that are open or whose end may be undelivered, and their deliveries.
#[derive(Clone, Debug, Default)]
pub struct Unfinished {
    pub alerts: Vec<Alert>,
    pub deliveries: Vec<Delivery>,
}

/// All receivers of alerts.
pub struct Notifier {
    host: String,
    receivers: Vec<(Receiver, mpsc::Sender<AlertState>)>,
    settings: Arc<[Receiver]>,
    standing: watch::Sender<Arc<Standing>>,
    /// The last delivery of each unfinished alert to each receiver.
    deliveries: Arc<BTreeMap<(i64, String), Delivery>>,
    records: mpsc::UnboundedReceiver<Delivery>,
    /// `None` once the program stops.
    report: Option<mpsc::UnboundedSender<Delivery>>,
    /// Aborts deliveries when the notifier is dropped.
    tasks: JoinSet<()>,
    runtime: Handle,
}

impl Notifier {
    /// Starts on the current runtime, and continues what an earlier process left.
    pub fn start(settings: &[Receiver], host: &str, unfinished: Unfinished) -> Self {
        let (report, records) = mpsc::unbounded_channel();
        let key = |delivery: Delivery| ((delivery.alert, delivery.receiver.clone()), delivery);
        let mut notifier = Self {
            host: host.into(),
            receivers: Vec::new(),
            settings: Arc::default(),
            standing: watch::Sender::default(),
            deliveries: Arc::new(unfinished.deliveries.into_iter().map(key).collect()),
            records,
            report: Some(report),
            tasks: JoinSet::new(),
            runtime: Handle::current(),
        };
        notifier.take_receivers(settings, &unfinished.alerts);
        notifier
    }

    /// Takes new receivers. Those that remain keep what is queued for them; new ones get the open alerts.
    pub fn reload(&mut self, settings: &[Receiver]) {
        let open = self.standing.borrow().open.clone();
        self.take_receivers(settings, &open);
    }

    fn take_receivers(&mut self, settings: &[Receiver], alerts: &[Alert]) {
        let Some(report) = &self.report else { return };
        self.settings = settings.into();
        let mut before = std::mem::take(&mut self.receivers);
        for receiver in settings {
            if let Some(index) = before.iter().position(|(known, _)| known == receiver) {
                self.receivers.push(before.swap_remove(index));
                continue;
            }
            let (sender, queue) = mpsc::channel(QUEUE);
            let mut outbox = Outbox::default();
            for alert in alerts.iter().filter(|alert| wants(receiver, alert)) {
                let record = self.deliveries.get(&(alert.id, receiver.name.clone()));
                outbox.resume(AlertState::new(alert), record, Instant::now());
            }
            let task = Task {
                receiver: Arc::new(receiver.clone()),
                host: self.host.clone(),
                // What it needs of the disk is read by its task.
                channel: Arc::new(Err("it is not ready yet".into())),
                zone: TimeZone::UTC,
                outbox,
                standing: self.standing.subscribe(),
                report: report.clone(),
            };
            self.tasks.spawn_on(task.serve(queue), &self.runtime);
            self.receivers.push((receiver.clone(), sender));
        }
    }

    /// Queues the alert for every receiver, without waiting.
    pub fn tell(&mut self, alert: &Alert) {
        for (receiver, queue) in self.receivers.iter().filter(|(receiver, _)| wants(receiver, alert)) {
            if queue.try_send(AlertState::new(alert)).is_err() {
                tracing::error!(
                    "dropped an alert for {}, which has {QUEUE} queued: {}",
                    receiver.name,
                    alert.sentence
                );
            }
        }
    }

    /// Publishes the current values of open alerts and the silences.
    pub fn publish(&mut self, open: &[Alert], silences: &[Silence]) {
        self.standing.send_if_modified(|standing| {
            let is_new = standing.open != open || standing.silences != silences;
            if is_new {
                *standing = Arc::new(Standing { open: open.to_vec(), silences: silences.to_vec() });
            }
            is_new
        });
    }

    /// Waits for the next result of a delivery, which is to be stored.
    pub async fn next_record(&mut self) -> Delivery {
        // Without a sender the program stops, and nothing waits here.
        let Some(delivery) = self.records.recv().await else { return std::future::pending().await };
        self.remember(delivery.clone());
        delivery
    }

    /// The settings of all receivers.
    pub fn receivers(&self) -> &Arc<[Receiver]> {
        &self.settings
    }

    /// The last delivery of each open or recent alert to each receiver.
    pub fn deliveries(&self) -> &Arc<BTreeMap<(i64, String), Delivery>> {
        &self.deliveries
    }

    /// Waits briefly for deliveries in progress, and returns their results.
    pub async fn close(&mut self) -> Vec<Delivery> {
        (self.report, self.receivers) = (None, Vec::new());
        let end = tokio::time::Instant::now() + CLOSE_TIMEOUT;
        let mut records = Vec::new();
        while let Ok(Some(record)) = tokio::time::timeout_at(end, self.records.recv()).await {
            records.push(record);
        }
        records
    }

    fn remember(&mut self, delivery: Delivery) {
        let deliveries = Arc::make_mut(&mut self.deliveries);
        deliveries.insert((delivery.alert, delivery.receiver.clone()), delivery);
        while deliveries.len() > MOST_REMEMBERED {
            deliveries.pop_first();
        }
    }
}

/// Deliveries in memory; the others are in the database.
const MOST_REMEMBERED: usize = 500;

/// Delivers to one receiver.
struct Task {
    receiver: Arc<Receiver>,
    host: String,
    channel: Arc<Result<Channel, String>>,
    /// The zone of its quiet hours.
    zone: TimeZone,
    outbox: Outbox,
    standing: watch::Receiver<Arc<Standing>>,
    report: mpsc::UnboundedSender<Delivery>,
}

impl Task {
    /// Until the queue is closed, and what was queued is delivered or has failed.
    async fn serve(mut self, mut queue: mpsc::Receiver<AlertState>) {
        self.channel = Arc::new(Channel::new(&self.receiver.channel, &self.host));
        if self.receiver.quiet_hours.is_some() {
            self.zone = TimeZone::system();
        }
        let mut deliveries = JoinSet::new();
        let mut is_open = true;
        loop {
            // Alerts of one tick go as one message.
            while let Ok(state) = queue.try_recv() {
                self.outbox.put(state, Instant::now());
            }
            let due = self.start_deliveries(&mut deliveries);
            if !is_open && deliveries.is_empty() {
                return;
            }
            tokio::select! {
                state = queue.recv(), if is_open => match state {
                    Some(state) => self.outbox.put(state, Instant::now()),
                    None => is_open = false,
                },
                Some(Ok((letter, result))) = deliveries.join_next() => self.settle(&letter, &result),
                Ok(()) = self.standing.changed(), if is_open => {}
                () = until(due) => {}
            }
        }
    }

    /// Starts what is due; returns when to look again.
    fn start_deliveries(
        &mut self,
        deliveries: &mut JoinSet<(Letter, Result<String, Failed>)>,
    ) -> Option<Instant> {
        let standing = Arc::clone(&self.standing.borrow_and_update());
        let now = Instant::now();
        let at = clock::now();
        let local = self.zone.to_datetime(at).time();
        let is_quiet = self.receiver.quiet_hours.is_some_and(|hours| hours.contains(local));
        let manners = Manners { at, standing: &standing, is_quiet, repeat: self.receiver.repeat };
        while deliveries.len() < AT_ONCE
            && let Some(letter) = self.outbox.take_due(now, &manners)
        {
            deliveries.spawn(attempt(Arc::clone(&self.channel), self.host.clone(), letter));
        }
        if self.outbox.is_empty() {
            return None;
        }
        let due = self.outbox.next_due(&manners).filter(|_| deliveries.len() < AT_ONCE);
        Some(due.map_or(now + LOOK_EVERY, |due| due.min(now + LOOK_EVERY)))
    }

    fn settle(&mut self, letter: &Letter, result: &Result<String, Failed>) {
        log(&self.receiver.name, letter, result);
        for record in self.outbox.settle(&self.receiver.name, letter, result, (Instant::now(), clock::now()))
        {
            // The notifier may be gone while the program stops.
            let _ = self.report.send(record);
        }
    }
}

async fn attempt(
    channel: Arc<Result<Channel, String>>,
    host: String,
    letter: Letter,
) -> (Letter, Result<String, Failed>) {
    let Some(message) = Message::of(&host, letter.states.clone()) else { return (letter, Ok(String::new())) };
    let result = match &*channel {
        Ok(channel) => channel.deliver(&message).await,
        Err(sentence) => Err(Failed { is_refusal: true, sentence: sentence.clone() }),
    };
    (letter, result)
}

/// The configuration with the secrets of receivers. Fails if no message could be made for one of them.
pub fn ready(config: Config, host: &str) -> Result<Config, ConfigError> {
    let config = config.with_credentials()?;
    for receiver in &config.notify {
        let channel = Channel::new(&receiver.channel, host);
        channel.map_err(|why| receiver.error(&why))?;
    }
    if let Some(url) = config.heartbeat.url() {
        Heartbeat::new(url).map_err(|why| ConfigError::option("url of [heartbeat]", &why))?;
    }
    Ok(config)
}

/// Sends a test message; returns the receiver's answer, or why it could not be delivered.
pub async fn test(receiver: &Receiver, host: &str) -> Result<String, String> {
    let channel = Channel::new(&receiver.channel, host)?;
    channel.deliver(&channel::test_message(host)).await.map_err(|failed| failed.sentence)
}

/// Whether a receiver is configured for an alert. Alerts about cowbell itself go to every receiver.
fn wants(receiver: &Receiver, alert: &Alert) -> bool {
    let is_own = alert.vg.is_empty() && alert.lv.is_empty();
    let is_of_its_volumes =
        || receiver.volumes.as_ref().is_none_or(|volumes| volumes.matches(&alert.vg, &alert.lv));
    (is_own || is_of_its_volumes()) && alert.severity.max(alert.worst) >= receiver.severity
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

fn log(name: &str, letter: &Letter, result: &Result<String, Failed>) {
    let tries = letter.tries;
    let ids: Vec<String> = letter.states.iter().map(|state| state.alert.id.to_string()).collect();
    let ids = ids.join(", ");
    match result {
        Ok(_) if tries > 0 => tracing::info!("delivered alert {ids} to {name} after {tries} failures"),
        Ok(_) => {}
        Err(Failed { sentence, .. }) => {
            tracing::warn!(
                "cannot deliver alert {ids} to {name}, retrying in {:?}: {sentence}",
                outbox::pause(tries)
            );
        }
    }
}
