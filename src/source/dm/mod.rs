//! Reads the status of device-mapper devices through `/dev/mapper/control`.
//!
//! One list, then one status call for each device with usage or sync progress. All calls use the no-flush flag, since
//! otherwise a thin pool would commit its metadata. Other devices are read only after events. Tables are read only of
//! thin pools, for their chunk size, since the table of a crypt target would contain its key.
//!
//! The result is text: a line `major:minor<TAB>name<TAB>uuid<TAB>active|suspended` for each device, followed by its
//! `status` and `table` lines as `dmsetup` prints them, each after a tab. A text that begins with the line `again`
//! contains only some devices; all others are unchanged.
//!
//! An ioctl takes microseconds; `dmsetup` or `lvs` would start a process for each tick.

pub mod call;
mod events;
pub mod label;
pub mod stats;
pub mod watch;
mod worker;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;

use call::{Buffer, CallError, Command, DeviceEntry, NO_FLUSH, STATUS_TABLE, major_minor};
pub use events::Events;
pub use worker::Worker;

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

/// The error without permission, shown wherever usage is unknown for that reason.
pub const ROOT_NEEDED: &str =
    "Only root can read snapshot and pool usage: run cowbell as root, or install the service.";

/// A sentence about the consequence of this part's error.
pub fn usage_unknown(error: &str) -> String {
    match error {
        ROOT_NEEDED => ROOT_NEEDED.into(),
        error => format!("Snapshot and pool usage cannot be read: {error}."),
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
    /// Lists the devices and their status as text, or returns an error message.
    pub fn read(&mut self, scope: Scope) -> Result<String, String> {
        let control = match self.control.take() {
            Some(control) => control,
            None => call::open()?,
        };
        let text = self.read_from(&control, scope);
        self.control = Some(control);
        if text.is_err() {
            self.known.clear();
        }
        text
    }

    fn read_from(&mut self, control: &File, scope: Scope) -> Result<String, String> {
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
                    major_minor(device.number)
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
