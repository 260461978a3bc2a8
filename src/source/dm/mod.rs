//! Asks the kernel's device-mapper what its devices say, through `/dev/mapper/control`.
//!
//! One list, then one status for each device that can fill up, never flushing: a thin pool that is asked without that
//! flag writes its metadata. All other devices are asked only when something happened. Only a thin pool is asked for
//! its table, which holds its chunk size; the table of a crypt target would hold its key.
//!
//! The answer is text: a line `major:minor<TAB>name<TAB>uuid<TAB>active|suspended` for each device, and below it, each
//! after a tab, its `status` and `table` lines as `dmsetup` prints them. A text that begins with the line `again`
//! tells of some devices only; all others are there as they were.

mod call;
mod events;
mod worker;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;

use call::{Buffer, Command, DeviceEntry, NO_FLUSH, Refused, STATUS_TABLE, major_minor};
pub use events::Events;
pub use worker::Worker;

/// Targets that fill up, or get into step: they are asked at every tick.
const ASKED_EACH_TICK: [&str; 9] =
    ["snapshot", "snapshot-merge", "thin-pool", "thin", "cache", "writecache", "vdo", "raid", "mirror"];

/// The part's error where the kernel refuses: said wherever usage is unknown for that reason.
pub const ROOT_NEEDED: &str =
    "Only root can read snapshot and pool usage: run cowbell as root, or install the service.";

/// This part's error as a sentence about what it costs.
pub fn usage_unknown(error: &str) -> String {
    match error {
        ROOT_NEEDED => ROOT_NEEDED.into(),
        error => format!("Snapshot and pool usage cannot be read: {error}."),
    }
}

/// How much is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every device.
    All,
    /// What fills up, if the list of devices is the same as before; else every device.
    Fills,
}

/// Holds the control device open, and buffers, from one tick to the next.
#[derive(Default)]
pub struct DeviceMapper {
    control: Option<File>,
    list: Buffer,
    status: Buffer,
    /// The devices that were there when all were asked, and whether each is to be asked at every tick.
    known: HashMap<DeviceEntry, bool>,
}

impl DeviceMapper {
    /// Lists the devices with their status as text, or says in a sentence why that cannot be had.
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
            Err(Refused::Gone) => Vec::new(),
            Err(Refused::Because(why)) => return Err(why),
        };
        let is_same =
            devices.len() == self.known.len() && devices.iter().all(|device| self.known.contains_key(device));
        if scope == Scope::Fills && is_same {
            return Ok(self.read_fills(control, &devices));
        }
        Ok(self.read_all(control, devices))
    }

    fn read_fills(&mut self, control: &File, devices: &[DeviceEntry]) -> String {
        let mut text = String::from("again\n");
        for device in devices.iter().filter(|device| self.known.get(device) == Some(&true)) {
            describe(control, &mut self.status, device, Scope::Fills, &mut text);
        }
        text
    }

    fn read_all(&mut self, control: &File, devices: Vec<DeviceEntry>) -> String {
        let mut text = String::with_capacity(128 * devices.len());
        self.known.clear();
        for device in devices {
            let is_asked = describe(control, &mut self.status, &device, Scope::All, &mut text);
            self.known.insert(device, is_asked);
        }
        text
    }
}

/// Writes what a device says of itself; tells whether it is to be asked at every tick.
fn describe(
    control: &File,
    buffer: &mut Buffer,
    device: &DeviceEntry,
    scope: Scope,
    text: &mut String,
) -> bool {
    let (is_pool, is_asked) = match buffer.call(control, Command::TableStatus, NO_FLUSH, device.number) {
        Ok(answer) => {
            let kinds = answer.describe(device.number, text);
            let is_asked = kinds.iter().any(|kind| ASKED_EACH_TICK.contains(&kind.as_ref()));
            (kinds.iter().any(|kind| kind == "thin-pool"), is_asked)
        }
        Err(Refused::Gone) => return true,
        Err(Refused::Because(why)) => {
            // No device's line: whoever reads this reports it, and goes on with the next.
            let _ = writeln!(text, "{} could not be asked: {why}", major_minor(device.number));
            return true;
        }
    };
    if scope == Scope::All && is_pool {
        let table = buffer.call(control, Command::TableStatus, NO_FLUSH | STATUS_TABLE, device.number);
        if let Ok(answer) = table {
            answer.targets("table", text);
        }
    }
    is_asked
}
