//! When the device-mapper is asked for all of its devices, and when for what fills up.

use std::time::{Duration, Instant};

use super::{Part, Said, Text, micros};
use crate::source::dm::{Events, Scope, Worker};

/// The device-mapper answers in microseconds, but waits for a pool's commit, and so for the disk; longer than this a
/// tick does not wait with it.
const DM_DEADLINE: Duration = Duration::from_millis(400);
/// All of the device-mapper's devices are asked again after this long, for what makes no event: a suspension.
const ALL_AGE: Duration = Duration::from_secs(10);

/// What the kernel says of a snapshot that is lost, and for a moment of one that is handed over to be merged. That its
/// origin lies on its COW area then tells the two apart, and may be newer than the names that were read last: the moment
/// is over before its event is heard.
const CONTRADICTED: &str = " Invalid";

/// The device-mapper's reader, and its ear.
pub struct DeviceMapper {
    worker: Worker,
    /// `None` where the kernel does not tell: then all devices are asked at every tick.
    events: Option<Events>,
    /// When all devices were asked, and answered; `None` where that is to be done now.
    all_asked_at: Option<Instant>,
    /// How often its last answer had the word that is `CONTRADICTED`.
    contradicted: usize,
}

impl DeviceMapper {
    pub fn start() -> std::io::Result<Self> {
        Ok(Self { worker: Worker::start()?, events: Events::open(), all_asked_at: None, contradicted: 0 })
    }

    /// Whether its answer is to be held against what lies on what now: it has another number of snapshots that are dead, or
    /// are being merged.
    pub fn is_contradicted(&mut self, text: &Text) -> bool {
        let Said::Text(said) = &text.said else { return false };
        let before = std::mem::replace(&mut self.contradicted, said.matches(CONTRADICTED).count());
        before != self.contradicted
    }

    /// Asks, and waits for no longer than the deadline, which is never longer than a tick may wait.
    pub async fn read(&mut self, deadline: Duration) -> Text {
        let started = Instant::now();
        let is_fresh = self.all_asked_at.is_some_and(|at| at.elapsed() < ALL_AGE);
        let wished = if is_fresh && self.events.is_some() { Scope::Fills } else { Scope::All };
        let (scope, answer) = self.worker.read(wished, DM_DEADLINE.min(deadline)).await;
        match (&answer, scope) {
            (Err(_), _) => self.all_asked_at = None,
            // What happened after an old question was put is still to be asked for.
            (Ok(_), Scope::All) if wished == Scope::All => self.all_asked_at = Some(started),
            _ => {}
        }
        if self.events.is_none() && answer.is_ok() {
            self.events = Events::open();
        }
        Text { part: Part::Dm, said: answer.into(), took_us: micros(started) }
    }

    /// Whether the kernel tells when something happens.
    pub fn hears(&self) -> bool {
        self.events.is_some()
    }

    /// Waits until something happened; after that all devices are asked. For ever where the kernel does not tell. May
    /// be dropped and called again.
    pub async fn event(&mut self) {
        let Some(events) = &mut self.events else { return std::future::pending().await };
        if events.next().await.is_none() {
            self.events = None;
        }
        self.all_asked_at = None;
    }
}
