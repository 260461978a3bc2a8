//! Delivers to one receiver, which no other one waits for.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use jiff::tz::TimeZone;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::connect;
use super::message::message;
use super::outbox::{Batch, Outbox};
use super::policy::{AlertsNow, Delivery, DeliveryPolicy};
use crate::alert::Alert;
use crate::channel::{Failure, ReceiverConnection};
use crate::config::Receiver;
use crate::source::clock;
use crate::units::count_text;

/// Concurrent deliveries to one receiver, so that one that hangs does not hold up others.
const AT_ONCE: usize = 4;
/// How often silences, quiet hours and repeats are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How often the log tells about a receiver that still refuses.
const TELL_EVERY: Duration = Duration::from_secs(3600);

/// What a receiver's task gets.
pub enum Item {
    /// An alert's new state.
    State(Box<Alert>),
    /// New settings, with the open alerts that they let through. What is queued remains.
    Settings(Box<Receiver>, Vec<Alert>),
}

/// A receiver's settings with what they need of the disk.
struct Prepared {
    receiver: Receiver,
    connection: Arc<Result<ReceiverConnection, String>>,
    /// The zone of its quiet hours.
    zone: TimeZone,
}

pub struct ReceiverTask {
    host: String,
    /// `None` until it is prepared for the first time.
    prepared: Option<Prepared>,
    refusing: Option<RefusalCount>,
    outbox: Outbox,
    standing: watch::Receiver<Arc<AlertsNow>>,
    report: mpsc::UnboundedSender<Delivery>,
}

impl ReceiverTask {
    pub fn new(
        host: &str,
        outbox: Outbox,
        standing: watch::Receiver<Arc<AlertsNow>>,
        report: mpsc::UnboundedSender<Delivery>,
    ) -> Self {
        Self {
            host: host.into(),
            prepared: None,
            refusing: None,
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
                Some(Ok((batch, result))) = deliveries.join_next() => self.settle(&batch, &result),
                Ok(()) = self.standing.changed(), if is_open => {}
                () = until(due) => {}
            }
        }
    }

    fn take(&mut self, item: Item, preparing: &mut JoinSet<Prepared>) {
        match item {
            Item::State(alert) => self.outbox.put(*alert, Instant::now()),
            Item::Settings(receiver, open) => {
                for alert in open {
                    self.outbox.offer(alert, Instant::now());
                }
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
            let connection = Arc::new(connect(&receiver, &host));
            let zone = receiver
                .quiet_hours
                .map_or(TimeZone::UTC, |_| TimeZone::system());
            Prepared {
                receiver,
                connection,
                zone,
            }
        });
    }

    /// Starts what is due; returns when to look again.
    fn start_deliveries(
        &mut self,
        deliveries: &mut JoinSet<(Batch, Result<String, Failure>)>,
    ) -> Option<Instant> {
        let standing = Arc::clone(&self.standing.borrow_and_update());
        let Prepared {
            receiver,
            connection,
            zone,
        } = self.prepared.as_ref()?;
        let now = Instant::now();
        let at = clock::now();
        let local = zone.to_datetime(at).time();
        let mut policy = DeliveryPolicy {
            at,
            standing: &standing,
            is_quiet: receiver
                .quiet_hours
                .is_some_and(|hours| hours.contains(local)),
            repeat: receiver.repeat.0,
            is_split: receiver.channel.kind().is_split(),
            only_critical: false,
        };
        while deliveries.len() < AT_ONCE {
            // The last place is for critical alerts.
            policy.only_critical = deliveries.len() + 1 == AT_ONCE;
            let Some(batch) = self.outbox.take_due(now, &policy) else {
                break;
            };
            deliveries.spawn(attempt(Arc::clone(connection), self.host.clone(), batch));
        }
        if self.outbox.is_empty() {
            return None;
        }
        let due = self
            .outbox
            .next_due(&policy)
            .filter(|_| deliveries.len() < AT_ONCE);
        Some(due.map_or(now + LOOK_EVERY, |due| due.min(now + LOOK_EVERY)))
    }

    fn settle(&mut self, batch: &Batch, result: &Result<String, Failure>) {
        let prepared = self.prepared.as_ref();
        let name = prepared.map_or("", |prepared| &prepared.receiver.name);
        let ids = ids_of(batch);
        let now = (Instant::now(), clock::now());
        match result {
            Ok(_) => {
                if let Some(refusals) = self.refusing.take() {
                    let failures = count_text(refusals.all, "failure", "failures");
                    tracing::info!("delivered alert {ids} to {name} after {failures}");
                }
            }
            Err(Failure { sentence, .. }) => {
                let text = format!("cannot deliver alert {ids} to {name}: {sentence}");
                if let Some(line) = RefusalCount::add(&mut self.refusing, now.0, &text) {
                    tracing::warn!("{line}");
                }
            }
        }
        for record in self.outbox.settle(name, batch, result, now) {
            // The notifier may be gone while the program stops.
            let _ = self.report.send(record);
        }
    }
}

async fn attempt(
    connection: Arc<Result<ReceiverConnection, String>>,
    host: String,
    batch: Batch,
) -> (Batch, Result<String, Failure>) {
    let Some(message) = message(&host, batch.alerts.clone()) else {
        return (batch, Ok(String::new()));
    };
    let result = match &*connection {
        // A panic must not leave the alert on its way for ever.
        Ok(connection) => {
            let delivery = AssertUnwindSafe(connection.deliver(&message)).catch_unwind();
            let failed = |_| Err(Failure::unsure("cowbell failed; its log says where"));
            delivery.await.unwrap_or_else(failed)
        }
        Err(sentence) => Err(Failure::refused(sentence)),
    };
    (batch, result)
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

/// A receiver that refuses. The log has a line when it begins, one when it takes a message again, and the count each hour.
struct RefusalCount {
    all: u32,
    /// Those that the last line knew, and when it was.
    told: u32,
    told_at: Instant,
}

impl RefusalCount {
    /// The line to log about another refusal, if there is one.
    fn add(refusing: &mut Option<Self>, now: Instant, text: &str) -> Option<String> {
        let Some(count) = refusing else {
            *refusing = Some(Self {
                all: 1,
                told: 1,
                told_at: now,
            });
            return Some(format!("{text}; it is tried again until it succeeds"));
        };
        count.all += 1;
        if now - count.told_at < TELL_EVERY {
            return None;
        }
        let failures = count_text(count.all - count.told, "failure", "failures");
        (count.told, count.told_at) = (count.all, now);
        Some(format!("{text}; {failures} since the last line"))
    }
}

fn ids_of(batch: &Batch) -> String {
    let ids = batch.alerts.iter().map(|alert| alert.id.to_string());
    ids.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusing_receiver_is_a_line_and_then_a_line_an_hour() {
        let begin = Instant::now();
        let mut refusing = None;
        let mut lines = Vec::new();
        for minute in 0..150 {
            let now = begin + Duration::from_secs(60 * minute);
            lines.extend(RefusalCount::add(&mut refusing, now, "refused"));
        }
        assert_eq!(
            lines,
            [
                "refused; it is tried again until it succeeds",
                "refused; 60 failures since the last line",
                "refused; 60 failures since the last line",
            ]
        );
    }
}
