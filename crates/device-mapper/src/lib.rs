//! Asks the device-mapper which devices there are, and parses what it answers.
//!
//! ```text
//! /dev/mapper/control → ioctl → DeviceMapper::read → text → status::parse → devices with the status of their targets
//! ```
//!
//! - [`ioctl`] sends single commands. Only four are ever sent, and only messages on statistics change anything.
//! - [`DeviceMapper`] lists the devices, then asks once for each device with usage or sync progress. All calls use the
//!   no-flush flag, since otherwise a thin pool would commit its metadata. Other devices are read only after events. Tables
//!   are read only of thin pools, for their chunk size, since the table of a crypt target would contain its key.
//! - [`status`] parses the text. It needs no device, so a recording of the text is enough to see what was seen.
//! - [`Events`] waits until a device is added, removed, renamed or reloaded.
//!
//! The text has a line `major:minor<TAB>name<TAB>uuid<TAB>active|suspended` for each device, followed by its `status` and
//! `table` lines as `dmsetup` prints them, each after a tab. One that begins with the line `again` contains only some
//! devices; all others are unchanged.
//!
//! An ioctl takes microseconds; `dmsetup` or `lvs` would start a process each time. It can also wait as long as a disk does,
//! and nothing interrupts it: call it from a thread that others do not wait for.

pub mod ioctl;
pub mod status;

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;
use std::fs::File;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use ioctl::{Buffer, CallError, Command, DeviceEntry, NO_FLUSH, STATUS_TABLE};

/// A device's major and minor number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number {
    pub major: u32,
    pub minor: u32,
}

impl Number {
    /// From the device-mapper's `dev` (`huge_encode_dev`).
    pub fn of_dev(dev: u64) -> Self {
        Self {
            major: (dev >> 8) as u32 & 0xfff,
            minor: (dev as u32 & 0xff) | (dev >> 12) as u32 & 0xf_ff00,
        }
    }

    /// The device-mapper's `dev`.
    pub fn dev(self) -> u64 {
        let (major, minor) = (u64::from(self.major), u64::from(self.minor));
        (major << 8) | (minor & 0xff) | ((minor & 0xf_ff00) << 12)
    }
}

/// `253:3`
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl std::str::FromStr for Number {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (major, minor) = text.split_once(':').ok_or(())?;
        Ok(Self {
            major: major.parse().map_err(|_| ())?,
            minor: minor.parse().map_err(|_| ())?,
        })
    }
}

/// Targets with usage or sync progress, which are read at every tick.
const READ_EACH_TICK: [&str; 9] = [
    "snapshot",
    "snapshot-merge",
    "thin-pool",
    "thin",
    "cache",
    "writecache",
    "vdo",
    "raid",
    "mirror",
];

/// Why something cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// Only root may read it.
    NotRoot,
    Failed(String),
}

impl ReadError {
    /// A sentence about the consequence: `Snapshot and pool usage cannot be read: it was not there.`
    pub fn usage_unknown(&self) -> String {
        match self {
            Self::NotRoot => self.to_string(),
            Self::Failed(why) => format!("Snapshot and pool usage cannot be read: {why}."),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRoot => f.write_str(
                "Only root can read snapshot and pool usage: run cowbell as root, or install the service.",
            ),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<String> for ReadError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<ReadError> for String {
    fn from(error: ReadError) -> Self {
        error.to_string()
    }
}

/// The devices to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every device.
    All,
    /// Those with usage, if the list of devices is unchanged; otherwise every device.
    Fills,
}

/// Keeps the control device and buffers between ticks.
#[derive(Default)]
pub struct DeviceMapper {
    control: Option<File>,
    list: Buffer,
    status: Buffer,
    /// The devices of the last full read, and whether each is read at every tick.
    known: HashMap<DeviceEntry, bool>,
}

impl DeviceMapper {
    /// Lists the devices and their status as text.
    pub fn read(&mut self, scope: Scope) -> Result<String, ReadError> {
        let control = match self.control.take() {
            Some(control) => control,
            None => ioctl::open()?,
        };
        let text = self.read_from(&control, scope);
        self.control = Some(control);
        if text.is_err() {
            self.known.clear();
        }
        text
    }

    fn read_from(&mut self, control: &File, scope: Scope) -> Result<String, ReadError> {
        let devices = match self.list.call(control, Command::ListDevices, 0, 0) {
            Ok(answer) => answer.devices(),
            Err(CallError::Gone) => Vec::new(),
            Err(CallError::Failed(why)) => return Err(why),
        };
        let is_same = devices.len() == self.known.len()
            && devices.iter().all(|device| self.known.contains_key(device));
        if scope == Scope::Fills && is_same {
            let mut text = String::from("again\n");
            for device in devices
                .iter()
                .filter(|device| self.known.get(device) == Some(&true))
            {
                describe(control, &mut self.status, device, scope, &mut text);
            }
            return Ok(text);
        }
        let mut text = String::with_capacity(128 * devices.len());
        self.known.clear();
        for device in devices {
            let is_read_each_tick =
                describe(control, &mut self.status, &device, Scope::All, &mut text);
            self.known.insert(device, is_read_each_tick);
        }
        Ok(text)
    }
}

/// Appends a device's status; returns whether it is read at every tick.
fn describe(
    control: &File,
    buffer: &mut Buffer,
    device: &DeviceEntry,
    scope: Scope,
    text: &mut String,
) -> bool {
    let (is_pool, is_read_each_tick) =
        match buffer.call(control, Command::TableStatus, NO_FLUSH, device.number) {
            Ok(answer) => {
                let kinds = answer.describe(device.number, text);
                let is_read_each_tick = kinds
                    .iter()
                    .any(|kind| READ_EACH_TICK.contains(&kind.as_ref()));
                (
                    kinds.iter().any(|kind| kind == "thin-pool"),
                    is_read_each_tick,
                )
            }
            Err(CallError::Gone) => return true,
            Err(CallError::Failed(why)) => {
                // Not a device line, so the parser reports it and continues.
                let _ = writeln!(
                    text,
                    "{} could not be read: {why}",
                    Number::of_dev(device.number)
                );
                return true;
            }
        };
    if scope == Scope::All && is_pool {
        let table = buffer.call(
            control,
            Command::TableStatus,
            NO_FLUSH | STATUS_TABLE,
            device.number,
        );
        if let Ok(answer) = table {
            answer.targets("table", text);
        }
    }
    is_read_each_tick
}

/// Device-mapper events: a device was added, removed, renamed or reloaded, a snapshot became invalid, a pool changed its
/// mode. Growing usage causes no event. It is a second descriptor of the control device, which becomes readable after one.
///
/// Source: `dm_poll` of `drivers/md/dm-ioctl.c`, Linux 4.13 and later.
pub struct Events {
    control: AsyncFd<File>,
    buffer: Buffer,
}

impl Events {
    /// `None` if the device-mapper cannot be opened or does not support events.
    pub fn open() -> Option<Self> {
        let control = ioctl::open().ok()?;
        let mut buffer = Buffer::default();
        buffer.call(&control, Command::ArmPoll, 0, 0).ok()?;
        // SAFETY: the file owns its descriptor, and nothing replaces or closes it while it is registered.
        let control =
            unsafe { AsyncFd::register_with_interest(control, Interest::READABLE) }.ok()?;
        Some(Self { control, buffer })
    }

    /// Waits for an event since the last call; `None` if events are no longer available. The caller reads the devices
    /// afterwards, so no change is missed. Cancel-safe.
    pub async fn next(&mut self) -> Option<()> {
        self.control.readable().await.ok()?.clear_ready();
        self.buffer
            .call(self.control.get_ref(), Command::ArmPoll, 0, 0)
            .ok()?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_kernel() {
        for (dev, text) in [(0xfd03, "253:3"), (0x0010_fd03, "253:259")] {
            let number = Number::of_dev(dev);
            assert_eq!((number.to_string().as_str(), number.dev()), (text, dev));
            assert_eq!(text.parse(), Ok(number));
        }
    }
}
