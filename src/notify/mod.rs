//! Delivers alerts to webhooks, commands and mailboxes. Of each alert a receiver gets the newest state, for as long as that takes.
//!
//! Receivers do not wait for each other, and neither do alerts: each receiver has a task, an outbox and several
//! deliveries at a time. The result of each delivery is a record, which the loop stores: after a restart, a receiver gets
//! what it does not know yet.

mod message;
mod outbox;
mod policy;
mod task;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{timeout, timeout_at};

use crate::alert::Alert;
use crate::channel::ReceiverConnection;
use crate::config::{Config, ConfigError, Receiver};
use outbox::Outbox;
pub use policy::{AlertsNow, Delivery, KnownState, Silence};
use task::{Item, ReceiverTask};

/// The time limit for deliveries in progress when the program stops.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);
/// The time limit for reading what a test needs of the disk.
const TEST_PATIENCE: Duration = Duration::from_secs(5);

/// What an earlier process left: alerts that are open or whose end may be undelivered, and their deliveries.
#[derive(Clone, Debug, Default)]
pub struct Unfinished {
    pub alerts: Vec<Alert>,
    pub deliveries: Vec<Delivery>,
}

/// How many attempts to deliver an alert had which end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attempts {
    pub delivered: u64,
    pub failed: u64,
}

/// All receivers of alerts.
pub struct Notifier {
    host: String,
    receivers: Arc<[Receiver]>,
    /// The queue of each receiver's task, by its name. The task takes what is in it at once, so it never grows.
    queues: HashMap<String, mpsc::UnboundedSender<Item>>,
    standing: watch::Sender<Arc<AlertsNow>>,
    /// The last delivery of each unfinished alert to each receiver.
    deliveries: Arc<BTreeMap<(i64, String), Delivery>>,
    attempts: Arc<BTreeMap<String, Attempts>>,
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
            receivers: Arc::default(),
            queues: HashMap::new(),
            standing: watch::Sender::default(),
            deliveries: Arc::new(unfinished.deliveries.into_iter().map(key).collect()),
            attempts: Arc::default(),
            records,
            report: Some(report),
            tasks: JoinSet::new(),
            runtime: Handle::current(),
        };
        notifier.take_receivers(settings, &unfinished.alerts);
        notifier
    }

    /// Takes new settings. Receivers whose names remain keep what is queued for them, and get the open alerts that are new
    /// to them.
    pub fn reload(&mut self, settings: &[Receiver]) {
        let open = self.standing.borrow().open.clone();
        self.take_receivers(settings, &open);
    }

    fn take_receivers(&mut self, settings: &[Receiver], alerts: &[Alert]) {
        let Some(report) = self.report.clone() else {
            return;
        };
        let before = std::mem::replace(&mut self.receivers, settings.into());
        self.queues
            .retain(|name, _| settings.iter().any(|receiver| receiver.name == *name));
        for receiver in settings {
            if before.contains(receiver) {
                continue;
            }
            let wanted = alerts.iter().filter(|alert| wants(receiver, alert));
            let wanted = wanted.cloned();
            if let Some(queue) = self.queues.get(&receiver.name) {
                // Its task ends only with its queue.
                let _ = queue.send(Item::Settings(Box::new(receiver.clone()), wanted.collect()));
                continue;
            }
            let mut outbox = Outbox::default();
            for alert in wanted {
                let key = (alert.id, receiver.name.clone());
                outbox.resume(alert, self.deliveries.get(&key), Instant::now());
            }
            let task = ReceiverTask::new(
                &self.host,
                outbox,
                self.standing.subscribe(),
                report.clone(),
            );
            let (sender, queue) = mpsc::unbounded_channel();
            let serving = task.serve(receiver.clone(), queue);
            self.tasks.spawn_on(serving, &self.runtime);
            self.queues.insert(receiver.name.clone(), sender);
        }
    }

    /// Queues the alert for every receiver, without waiting.
    pub fn tell(&mut self, alert: &Alert) {
        for receiver in self.receivers.iter() {
            if wants(receiver, alert)
                && let Some(queue) = self.queues.get(&receiver.name)
            {
                let _ = queue.send(Item::State(Box::new(alert.clone())));
            }
        }
    }

    /// Publishes the current values of open alerts and the silences.
    pub fn publish(&mut self, open: &[Alert], silences: &[Silence]) {
        self.standing.send_if_modified(|standing| {
            let is_new = standing.open != open || standing.silences != silences;
            if is_new {
                *standing = Arc::new(AlertsNow {
                    open: open.to_vec(),
                    silences: silences.to_vec(),
                });
            }
            is_new
        });
    }

    /// Waits for the next result of a delivery, which is to be stored.
    pub async fn next_record(&mut self) -> Delivery {
        // Without a sender the program stops, and nothing waits here.
        let Some(delivery) = self.records.recv().await else {
            return std::future::pending().await;
        };
        self.remember(delivery.clone());
        delivery
    }

    /// The settings of all receivers.
    pub fn receivers(&self) -> &Arc<[Receiver]> {
        &self.receivers
    }

    /// The last delivery of each open or recent alert to each receiver.
    pub fn deliveries(&self) -> &Arc<BTreeMap<(i64, String), Delivery>> {
        &self.deliveries
    }

    /// Since the start, by receiver.
    pub fn attempts(&self) -> &Arc<BTreeMap<String, Attempts>> {
        &self.attempts
    }

    /// Waits briefly for deliveries in progress, and returns their results.
    pub async fn close(&mut self) -> Vec<Delivery> {
        self.report = None;
        self.queues.clear();
        let end = tokio::time::Instant::now() + CLOSE_TIMEOUT;
        let mut records = Vec::new();
        while let Ok(Some(record)) = timeout_at(end, self.records.recv()).await {
            records.push(record);
        }
        records
    }

    fn remember(&mut self, delivery: Delivery) {
        let attempts = Arc::make_mut(&mut self.attempts);
        let attempts = attempts.entry(delivery.receiver.clone()).or_default();
        if delivery.is_delivered {
            attempts.delivered += 1;
        } else {
            attempts.failed += 1;
        }
        let deliveries = Arc::make_mut(&mut self.deliveries);
        deliveries.insert((delivery.alert, delivery.receiver.clone()), delivery);
        let standing = self.standing.borrow();
        evict(deliveries, &standing.open);
    }
}

/// Deliveries in memory, besides those of open alerts; the others are in the database.
const MOST_REMEMBERED: usize = 500;

/// Removes the oldest deliveries of alerts that are no longer open.
fn evict(deliveries: &mut BTreeMap<(i64, String), Delivery>, open: &[Alert]) {
    let mut excess = deliveries.len().saturating_sub(MOST_REMEMBERED);
    deliveries.retain(|(id, _), _| {
        if excess == 0 || open.iter().any(|alert| alert.id == *id) {
            return true;
        }
        excess -= 1;
        false
    });
}

/// The configuration with the secrets of receivers. Fails if no message could be made for one of them.
pub fn ready(mut config: Config, host: &str) -> Result<Config, ConfigError> {
    config.load_secrets()?;
    for receiver in &config.notify {
        connect(receiver, host).map_err(|why| receiver.error(&why))?;
    }
    if let Some(heartbeat) = &config.heartbeat {
        heartbeat
            .connect()
            .map_err(|why| ConfigError::option("url of [heartbeat]", &why))?;
    }
    Ok(config)
}

/// Prepares deliveries. Fails with a sentence if some message could not be made.
fn connect(receiver: &Receiver, host: &str) -> Result<ReceiverConnection, String> {
    let connection = receiver.channel.connect(host)?;
    for message in message::samples(host) {
        connection.check(&message)?;
    }
    Ok(connection)
}

/// Sends a test message; returns the receiver's answer, or why it could not be delivered.
pub async fn test(receiver: &Receiver, host: &str) -> Result<String, String> {
    let (receiver, name) = (receiver.clone(), host.to_string());
    // It reads certificates, from a disk that may hang.
    let connection = spawn_blocking(move || connect(&receiver, &name));
    let late = |_| {
        format!("its certificates cannot be read within {TEST_PATIENCE:?}: is a disk too slow?")
    };
    let connection = timeout(TEST_PATIENCE, connection)
        .await
        .map_err(late)?
        .map_err(|error| error.to_string())??;
    connection
        .deliver(&message::test_message(host))
        .await
        .map_err(|failure| failure.sentence)
}

/// Whether a receiver is configured for an alert. Alerts about cowbell itself go to every receiver.
fn wants(receiver: &Receiver, alert: &Alert) -> bool {
    let is_of_its_volumes = match &receiver.volumes {
        Some(volumes) => alert.volume().is_none() || volumes.matches(&alert.vg, &alert.lv),
        None => true,
    };
    is_of_its_volumes && alert.severity.max(alert.worst) >= receiver.severity
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::alert::{Rule, Severity};

    #[test]
    fn deliveries_of_open_alerts_stay_in_memory() {
        let delivery = |alert: i64| Delivery {
            alert,
            receiver: "mail".into(),
            known: None,
            is_delivered: true,
            tries: 1,
            tried_at: Timestamp::UNIX_EPOCH,
            answer: String::new(),
        };
        let last = i64::try_from(MOST_REMEMBERED).unwrap() + 2;
        let mut deliveries = (1..=last)
            .map(|id| ((id, "mail".into()), delivery(id)))
            .collect();
        let open = [1, 3].map(|id| {
            let (rule, severity) = (Rule::SnapshotFill, Severity::Warning);
            Alert::new(id, rule, severity, "u", Timestamp::UNIX_EPOCH)
        });
        evict(&mut deliveries, &open);
        let left: Vec<i64> = deliveries.keys().map(|(alert, _)| *alert).take(4).collect();
        assert_eq!(
            (left, deliveries.len()),
            (vec![1, 3, 5, 6], MOST_REMEMBERED)
        );
    }
}
