//! Delivers alerts to webhooks and commands. Of each alert a receiver gets the newest state, for as long as that takes.
//!
//! Receivers do not wait for each other, and neither do alerts: each receiver has a task, an outbox and several
//! deliveries at a time.

mod message;
mod outbox;
mod send;

use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::alert::Alert;
use crate::config::Notify as Receiver;
pub use message::{AlertState, Message};
use outbox::{Letter, Outbox};
use send::Failure;

/// Messages that may wait until a receiver's task takes them, which it does at once.
const QUEUE: usize = 256;
/// Concurrent deliveries to one receiver, so that one that hangs does not hold up others.
const AT_ONCE: usize = 4;
/// The time limit for deliveries in progress when the program stops.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

/// All receivers of alerts.
pub struct Notifier {
    host: String,
    receivers: Vec<(Receiver, mpsc::Sender<AlertState>)>,
    /// IDs of queued alerts, once per message, and a channel of those that need no delivery any more.
    in_flight: Vec<i64>,
    settled: mpsc::UnboundedReceiver<i64>,
    settle: mpsc::UnboundedSender<i64>,
    /// Aborts deliveries when the notifier is dropped.
    tasks: JoinSet<()>,
    runtime: Handle,
}

impl Notifier {
    /// Starts on the current runtime.
    pub fn start(settings: &[Receiver], host: &str) -> Self {
        let (settle, settled) = mpsc::unbounded_channel();
        let mut notifier = Self {
            host: host.into(),
            receivers: Vec::new(),
            in_flight: Vec::new(),
            settled,
            settle,
            tasks: JoinSet::new(),
            runtime: Handle::current(),
        };
        notifier.reload(settings);
        notifier
    }

    /// Takes new receivers. Those that remain keep what is queued for them.
    pub fn reload(&mut self, settings: &[Receiver]) {
        let mut before = std::mem::take(&mut self.receivers);
        for receiver in settings {
            if let Some(index) = before.iter().position(|(known, _)| known == receiver) {
                self.receivers.push(before.swap_remove(index));
                continue;
            }
            let (sender, queue) = mpsc::channel(QUEUE);
            self.receivers.push((receiver.clone(), sender));
            self.tasks.spawn_on(
                serve(receiver.clone(), self.host.clone(), queue, self.settle.clone()),
                &self.runtime,
            );
        }
    }

    /// Queues the alert for every receiver, without waiting.
    pub fn tell(&mut self, alert: &Alert) {
        while let Ok(id) = self.settled.try_recv() {
            self.settle(id);
        }
        let state = AlertState::new(alert);
        for (receiver, queue) in &self.receivers {
            match queue.try_send(state.clone()) {
                Ok(()) => self.in_flight.push(alert.id),
                Err(_) => tracing::error!(
                    "dropped an alert for {}, which has {QUEUE} queued: {}",
                    send::name(receiver),
                    alert.sentence
                ),
            }
        }
    }

    /// Waits briefly for deliveries in progress; returns the IDs of undelivered alerts.
    pub async fn close(&mut self) -> Vec<i64> {
        let end = tokio::time::Instant::now() + CLOSE_TIMEOUT;
        while !self.in_flight.is_empty() {
            match tokio::time::timeout_at(end, self.settled.recv()).await {
                Ok(Some(id)) => self.settle(id),
                _ => break,
            }
        }
        std::mem::take(&mut self.in_flight)
    }

    fn settle(&mut self, id: i64) {
        if let Some(index) = self.in_flight.iter().position(|other| *other == id) {
            self.in_flight.swap_remove(index);
        }
    }
}

/// Delivers to one receiver until the queue is closed.
async fn serve(
    receiver: Receiver,
    host: String,
    mut queue: mpsc::Receiver<AlertState>,
    settled: mpsc::UnboundedSender<i64>,
) {
    // The notifier may be gone while the program stops.
    let settle = |ids: Vec<i64>| ids.into_iter().for_each(|id| settled.send(id).unwrap_or_default());
    let mut outbox = Outbox::new(crate::source::clock::now());
    let mut deliveries = JoinSet::new();
    loop {
        while deliveries.len() < AT_ONCE
            && let Some(letter) = outbox.take_due(Instant::now())
        {
            deliveries.spawn(attempt(receiver.clone(), host.clone(), letter));
        }
        let due = outbox.next_due().filter(|_| deliveries.len() < AT_ONCE);
        tokio::select! {
            state = queue.recv() => match state {
                Some(state) => settle(outbox.put(state, Instant::now())),
                None => return settle(outbox.clear()),
            },
            Some(Ok((letter, result))) = deliveries.join_next() => {
                log(&receiver, &letter, &result);
                settle(outbox.settle(&letter, result.map_err(|failure| failure.is_refusal), Instant::now()));
            }
            () = until(due) => {}
        }
    }
}

async fn attempt(receiver: Receiver, host: String, letter: Letter) -> (Letter, Result<(), Failure>) {
    let message = Message { host, first: letter.state.clone(), others: Vec::new() };
    let result = send::deliver(&receiver, &message).await;
    (letter, result)
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

fn log(receiver: &Receiver, letter: &Letter, result: &Result<(), Failure>) {
    let (id, name, tries) = (letter.state.alert.id, send::name(receiver), letter.tries);
    match result {
        Ok(()) if tries > 0 => tracing::info!("delivered alert {id} to {name} after {tries} failures"),
        Ok(()) => {}
        Err(Failure { error, .. }) => {
            tracing::warn!(
                "cannot deliver alert {id} to {name}, retrying in {:?}: {error:#}",
                outbox::pause(tries)
            );
        }
    }
}
