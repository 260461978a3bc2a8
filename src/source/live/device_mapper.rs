//! When to read all device-mapper devices, and when only those with usage. A merging snapshot is invalid for a moment;
//! only its origin's layout shows that it is not lost. So all devices are read if the number of invalid snapshots
//! changes.

use std::time::{Duration, Instant};

use super::{Part, PartReading, ReadResult};
use crate::source::clock::micros;
use crate::source::dm::{Events, Scope, Worker};

/// The device-mapper answers in microseconds, unless a pool's commit waits for the disk. A tick waits no longer than this.
const DM_DEADLINE: Duration = Duration::from_millis(400);
/// All devices are read again after this long, since a suspension causes no event.
const ALL_AGE: Duration = Duration::from_secs(10);

/// The kernel's status of an invalid snapshot, and briefly of one whose merge begins. Only the layers tell them apart: a
/// merging snapshot's origin lies on its COW area. That moment may pass before its event arrives.
const INVALID: &str = " Invalid";

/// The device-mapper's thread and its events.
pub struct DmSource {
    worker: Worker,
    /// `None` without support for events; then all devices are read at every tick.
    events: Option<Events>,
    /// The last request and when it was sent.
    scope: Scope,
    asked_at: Instant,
    /// When all devices were read; `None` if they are due.
    all_asked_at: Option<Instant>,
    /// The number of `INVALID` snapshots in the last answer.
    invalid_count: usize,
}

impl DmSource {
    pub fn start() -> std::io::Result<Self> {
        Ok(Self {
            worker: Worker::start()?,
            events: Events::open(),
            scope: Scope::All,
            asked_at: Instant::now(),
            all_asked_at: None,
            invalid_count: 0,
        })
    }

    /// Whether the number of invalid snapshots changed, so that names and layers must be read again in this tick.
    pub fn invalid_count_changed(&mut self, text: &PartReading) -> bool {
        let ReadResult::Text(status) = &text.result else { return false };
        let before = std::mem::replace(&mut self.invalid_count, status.matches(INVALID).count());
        before != self.invalid_count
    }

    /// Asks for the devices. The answer comes while the tick reads its files.
    pub fn request(&mut self) {
        self.asked_at = Instant::now();
        let is_fresh = self.all_asked_at.is_some_and(|at| at.elapsed() < ALL_AGE);
        self.scope = if is_fresh && self.events.is_some() { Scope::Fills } else { Scope::All };
        self.worker.request(self.scope);
    }

    /// The answer, within the deadline.
    pub async fn read(&mut self, deadline: Duration) -> PartReading {
        let (scope, answer) = self.worker.read(DM_DEADLINE.min(deadline)).await;
        match (&answer, scope) {
            (Err(_), _) => self.all_asked_at = None,
            // Changes since an old request was sent are not in its answer.
            (Ok(_), Scope::All) if self.scope == Scope::All => self.all_asked_at = Some(self.asked_at),
            _ => {}
        }
        if self.events.is_none() && answer.is_ok() {
            self.events = Events::open();
        }
        PartReading { part: Part::Dm, result: answer.into(), took_us: micros(self.asked_at.elapsed()) }
    }

    /// Whether the kernel sends events.
    pub fn has_events(&self) -> bool {
        self.events.is_some()
    }

    /// Waits for an event, after which all devices are due. Never returns without support for events. Cancel-safe.
    pub async fn event(&mut self) {
        let Some(events) = &mut self.events else { return std::future::pending().await };
        if events.next().await.is_none() {
            self.events = None;
        }
        self.all_asked_at = None;
    }
}
