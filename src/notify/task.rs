//! Delivers to one receiver, which no other one waits for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use jiff::tz::TimeZone;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::channel::{Channel, Failed};
use super::delivery::Delivery;
use super::manners::{Manners, Standing};
use super::message::{AlertState, Message};
use super::outbox::{self, Letter, Outbox};
use crate::config::Receiver;
use crate::source::clock;
use crate::units::count_text;

/// Concurrent deliveries to one receiver, so that one that hangs does not hold up others.
const AT_ONCE: usize = 4;
/// How often silences, quiet hours and repeats are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What a receiver's task gets.
pub enum Item {
    /// An alert's new state.
    State(Box<AlertState>),
    /// New settings, with the open alerts that they let through. What is queued remains.
    Settings(Box<Receiver>, Vec<AlertState>),
}

/// A receiver's settings with what they need of the disk.
struct Prepared {
    receiver: Receiver,
    channel: Arc<Result<Channel, String>>,
    /// The zone of its quiet hours.
    zone: TimeZone,
}

pub struct Task {
    host: String,
    /// `None` until it is prepared for the first time.
    prepared: Option<Prepared>,
    outbox: Outbox,
    standing: watch::Receiver<Arc<Standing>>,
    report: mpsc::UnboundedSender<Delivery>,
}

impl Task {
    pub fn new(
        host: &str,
        outbox: Outbox,
        standing: watch::Receiver<Arc<Standing>>,
        report: mpsc::UnboundedSender<Delivery>,
    ) -> Self {
        Self {
            host: host.into(),
            prepared: None,
            outbox,
            standing,
            report,
        }
    }

    /// Until the queue is closed, and deliveries in progress have ended.
    pub async fn serve(mut self, receiver: Receiver, mut queue: mpsc::UnboundedReceiver<Item>) {
        let mut preparing = JoinSet::new();
        self.prepare(receiver, &mut preparing);
        let mut deliveries = JoinSet::new();
        let mut is_open = true;
        loop {
            // Alerts of one tick go as one message.
            while let Ok(item) = queue.try_recv() {
                self.take(item, &mut preparing);
            }
            let due = self.start_deliveries(&mut deliveries);
            if !is_open && deliveries.is_empty() {
                return;
            }
            tokio::select! {
                item = queue.recv(), if is_open => match item {
                    Some(item) => self.take(item, &mut preparing),
                    None => is_open = false,
                },
                Some(Ok(prepared)) = preparing.join_next(), if is_open => self.prepared = Some(prepared),
                Some(Ok((letter, result))) = deliveries.join_next() => self.settle(&letter, &result),
                Ok(()) = self.standing.changed(), if is_open => {}
                () = until(due) => {}
            }
        }
    }

    fn take(&mut self, item: Item, preparing: &mut JoinSet<Prepared>) {
        match item {
            Item::State(state) => self.outbox.put(*state, Instant::now()),
            Item::Settings(receiver, open) => {
                open.into_iter()
                    .for_each(|state| self.outbox.offer(state, Instant::now()));
                self.prepare(*receiver, preparing);
            }
        }
    }

    /// Reads certificates, addresses and time zones, on a thread that may wait for the disk.
    fn prepare(&self, receiver: Receiver, preparing: &mut JoinSet<Prepared>) {
        let host = self.host.clone();
        // What is still being prepared has older settings.
        *preparing = JoinSet::new();
        preparing.spawn_blocking(move || {
            let channel = Arc::new(Channel::new(&receiver.channel, &host));
            let zone = receiver
                .quiet_hours
                .map_or(TimeZone::UTC, |_| TimeZone::system());
            Prepared {
                receiver,
                channel,
                zone,
            }
        });
    }

    /// Starts what is due; returns when to look again.
    fn start_deliveries(
        &mut self,
        deliveries: &mut JoinSet<(Letter, Result<String, Failed>)>,
    ) -> Option<Instant> {
        let standing = Arc::clone(&self.standing.borrow_and_update());
        let Prepared {
            receiver,
            channel,
            zone,
        } = self.prepared.as_ref()?;
        let now = Instant::now();
        let at = clock::now();
        let local = zone.to_datetime(at).time();
        let mut manners = Manners {
            at,
            standing: &standing,
            is_quiet: receiver
                .quiet_hours
                .is_some_and(|hours| hours.contains(local)),
            repeat: receiver.repeat,
            is_split: receiver.channel.is_split(),
            only_critical: false,
        };
        while deliveries.len() < AT_ONCE {
            // The last place is for critical alerts.
            manners.only_critical = deliveries.len() + 1 == AT_ONCE;
            let Some(letter) = self.outbox.take_due(now, &manners) else {
                break;
            };
            deliveries.spawn(attempt(Arc::clone(channel), self.host.clone(), letter));
        }
        if self.outbox.is_empty() {
            return None;
        }
        let due = self
            .outbox
            .next_due(&manners)
            .filter(|_| deliveries.len() < AT_ONCE);
        Some(due.map_or(now + LOOK_EVERY, |due| due.min(now + LOOK_EVERY)))
    }

    fn settle(&mut self, letter: &Letter, result: &Result<String, Failed>) {
        let name = self
            .prepared
            .as_ref()
            .map_or("", |prepared| &prepared.receiver.name);
        log(name, letter, result);
        for record in self
            .outbox
            .settle(name, letter, result, (Instant::now(), clock::now()))
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
    let Some(message) = Message::of(&host, letter.states.clone()) else {
        return (letter, Ok(String::new()));
    };
    let result = match &*channel {
        // A panic must not leave the alert on its way for ever.
        Ok(channel) => {
            let delivery = std::panic::AssertUnwindSafe(channel.deliver(&message)).catch_unwind();
            delivery.await.unwrap_or_else(|_| {
                Err(Failed::unsure("cowbell failed; its log says where".into()))
            })
        }
        Err(sentence) => Err(Failed::refused(sentence.clone())),
    };
    (letter, result)
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

fn log(name: &str, letter: &Letter, result: &Result<String, Failed>) {
    let tries = letter.tries;
    let ids: Vec<String> = letter
        .states
        .iter()
        .map(|state| state.alert.id.to_string())
        .collect();
    let ids = ids.join(", ");
    match result {
        Ok(_) if tries > 0 => {
            let failures = count_text(tries, "failure", "failures");
            tracing::info!("delivered alert {ids} to {name} after {failures}");
        }
        Ok(_) => {}
        Err(Failed { sentence, .. }) => {
            tracing::warn!(
                "cannot deliver alert {ids} to {name}, retrying in {:?}: {sentence}",
                outbox::pause(tries)
            );
        }
    }
}
