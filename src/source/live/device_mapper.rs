//! When to read all device-mapper devices, and when only those with usage. A merging snapshot is invalid for a moment;
//! only its origin's layout shows that it is not lost. So all devices are read if the number of invalid snapshots
//! changes.

use std::time::{Duration, Instant};

use cowbell_device_mapper::{DeviceMapper, Events, Scope};

use super::{Part, PartReading, ReadError, ReadResult};
use crate::source::clock::micros;
use crate::source::slow::SlowThread;

/// The device-mapper answers in microseconds, unless a pool's commit waits for the disk. A tick waits no longer than this.
const DM_DEADLINE: Duration = Duration::from_millis(400);
/// All devices are read again after this long, since a suspension causes no event. Nor does a resumption, so all devices
/// are read at every tick while one is suspended.
const ALL_AGE: Duration = Duration::from_secs(10);

/// A late answer is used for this long. The status of a thin pool waits for a commit, and so for the disk: that tick continues
/// without it, and the next one uses it.
const LATE_ANSWER_AGE: Duration = Duration::from_secs(1);

/// The end of a suspended device's line.
const SUSPENDED: &str = "\tsuspended\n";
/// The kernel's status of an invalid snapshot, and briefly of one whose merge begins. Only the layers tell them apart: a
/// merging snapshot's origin lies on its COW area. That moment may pass before its event arrives.
const INVALID: &str = " Invalid";

pub type DmThread = SlowThread<Scope, DmAnswer>;
/// The devices that were asked for, and their text.
type DmAnswer = (Scope, Result<String, ReadError>);

/// A thread that asks the device-mapper.
pub fn thread() -> DmThread {
    let mut device_mapper = DeviceMapper::default();
    SlowThread::new("device-mapper", move |scope| {
        (scope, device_mapper.read(scope))
    })
}

/// The device-mapper's thread and its events.
pub struct DmSource {
    thread: DmThread,
    /// A late answer for this tick.
    late: Option<DmAnswer>,
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
    pub fn open() -> Self {
        Self {
            thread: thread(),
            late: None,
            events: Events::open(),
            scope: Scope::All,
            asked_at: Instant::now(),
            all_asked_at: None,
            invalid_count: 0,
        }
    }

    /// Whether the number of invalid snapshots changed, so that names and layers must be read again in this tick.
    pub fn invalid_count_changed(&mut self, text: &PartReading) -> bool {
        let ReadResult::Text(status) = &text.result else {
            return false;
        };
        let before = std::mem::replace(&mut self.invalid_count, status.matches(INVALID).count());
        before != self.invalid_count
    }

    /// Asks for the devices. The answer comes while the tick reads its files.
    pub fn request(&mut self) {
        self.asked_at = Instant::now();
        self.scope = if self.is_fresh() && self.events.is_some() {
            Scope::Fills
        } else {
            Scope::All
        };
        if !self.thread.is_busy() {
            self.thread.ask(self.scope);
            return;
        }
        match self.thread.poll(Duration::MAX) {
            None => {}
            Some(Ok(answer)) if answer.at.elapsed() < LATE_ANSWER_AGE => {
                self.late = Some(answer.value);
            }
            // The dropped answer may have been one about all devices.
            Some(_) => self.thread.ask(Scope::All),
        }
    }

    /// The answer, within the deadline.
    pub async fn read(&mut self, deadline: Duration) -> PartReading {
        let (scope, answer) = match self.late.take() {
            Some(late) => late,
            None => match self.thread.wait(DM_DEADLINE.min(deadline)).await {
                Ok(answer) => answer.value,
                Err(none) => (self.scope, Err(none.sentence("the device-mapper").into())),
            },
        };
        self.judge(scope, &answer);
        if self.events.is_none() && answer.is_ok() {
            self.events = Events::open();
        }
        PartReading {
            part: Part::Dm,
            result: answer.into(),
            took_us: micros(self.asked_at.elapsed()),
        }
    }

    /// Whether only devices with usage can have changed since all were read.
    fn is_fresh(&self) -> bool {
        self.all_asked_at.is_some_and(|at| at.elapsed() < ALL_AGE)
    }

    fn judge(&mut self, scope: Scope, answer: &Result<String, ReadError>) {
        match (answer, scope) {
            (Err(_), _) => self.all_asked_at = None,
            (Ok(text), _) if text.contains(SUSPENDED) => self.all_asked_at = None,
            // Changes since an old request was sent are not in its answer.
            (Ok(_), Scope::All) if self.scope == Scope::All => {
                self.all_asked_at = Some(self.asked_at)
            }
            _ => {}
        }
    }

    /// Whether the kernel sends events.
    pub fn has_events(&self) -> bool {
        self.events.is_some()
    }

    /// Waits for an event, after which all devices are due. Never returns without support for events. Cancel-safe.
    pub async fn event(&mut self) {
        let Some(events) = &mut self.events else {
            return std::future::pending().await;
        };
        if events.next().await.is_none() {
            self.events = None;
        }
        self.all_asked_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_devices_are_read_again_while_one_is_suspended() {
        let mut source = DmSource::open();
        let mut is_fresh_after = |scope, text: &str| {
            source.judge(scope, &Ok(text.into()));
            source.is_fresh()
        };
        let (data, snapshot) = ("253:0\tdata\tLVM-1", "253:1\tsnapshot\tLVM-2");
        assert!(is_fresh_after(
            Scope::All,
            &format!("{data}\tactive\n\tstatus 0 8 linear \n")
        ));
        assert!(is_fresh_after(
            Scope::Fills,
            &format!("again\n{snapshot}\tactive\n")
        ));
        assert!(!is_fresh_after(
            Scope::Fills,
            &format!("again\n{snapshot}\tsuspended\n")
        ));
        assert!(!is_fresh_after(
            Scope::All,
            &format!("{data}\tsuspended\n\tstatus 0 8 linear \n")
        ));
        assert!(is_fresh_after(
            Scope::All,
            &format!("{data}\tactive\n\tstatus 0 8 linear \n")
        ));
    }
}
