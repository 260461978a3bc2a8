//! The device-mapper's devices and what their targets say, one file for each target that says something.
//!
//! The text is that of [`crate::source::dm`]. A word that is not known makes an error that quotes the line, and stops
//! no other. Source of the grammar: `drivers/md/dm-*.c` of Linux 6.12, back to 3.10.

mod cache;
mod mirror;
mod raid;
mod snapshot;
#[cfg(test)]
mod tests;
mod thin;
mod thin_pool;
mod vdo;
mod writecache;

use std::collections::HashMap;

use super::diskstats::Number;
use crate::units::{Fill, SECTOR, Sectors};
pub use snapshot::CowArea;
pub use thin::Thin;
pub use thin_pool::{Pool, PoolMode};

/// Bytes of a thin pool's and a cache's metadata block, always.
const METADATA_BLOCK: u64 = 4096;

#[derive(Clone, Debug, PartialEq)]
pub struct DmDevice {
    pub number: Number,
    pub name: String,
    /// `LVM-…`, `CRYPT-…`, `mpath-…`; empty where its maker gave none.
    pub uuid: String,
    pub is_suspended: bool,
    pub targets: Vec<Target>,
}

/// One segment of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    pub length: Sectors,
    pub status: Status,
}

/// What a target says of itself, by its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    Snapshot(CowArea),
    /// The origin of a snapshot that is being merged back into it.
    SnapshotMerge(CowArea),
    ThinPool(Pool),
    Thin(Thin),
    /// A cache's data and metadata, or a VDO pool's or write cache's data, where it says so, and how it does.
    Filled {
        kind: String,
        data: Option<Fill>,
        metadata: Option<Fill>,
        health: Health,
    },
    /// A mirror or RAID: how much of it is in step, and whether a leg of it, or a mirror's log, is dead.
    InStep {
        kind: String,
        sync: Fill,
        is_degraded: bool,
    },
    /// What it says is not known to us: neither is how it is.
    NotUnderstood(String),
    /// A target without a fill, by the kernel's name for it: `linear`, `striped`, `snapshot-origin`, `raid`…
    Other(String),
}

/// Whether a cache, write cache or VDO pool works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Working,
    ReadOnly,
    NeedsCheck,
    Failed,
}

/// Devices that were understood, and the lines that were not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DmDevices {
    pub devices: Vec<DmDevice>,
    pub not_understood: Vec<String>,
    /// Whether only some devices are told of, and all others are as they were.
    pub is_again: bool,
}

impl DmDevices {
    /// What is known now, after `before`: the devices that are told of again are replaced.
    pub fn after(self, before: Vec<DmDevice>) -> Vec<DmDevice> {
        if !self.is_again {
            return self.devices;
        }
        let mut told: HashMap<Number, DmDevice> =
            self.devices.into_iter().map(|device| (device.number, device)).collect();
        let now = before.into_iter().map(|device| match told.remove(&device.number) {
            Some(told) => told.with_chunk_of(&device),
            None => device.untold(),
        });
        now.collect()
    }
}

/// Understands the text that the device-mapper's reader writes.
pub fn parse(text: &str) -> DmDevices {
    let mut found = DmDevices { is_again: text.starts_with("again\n"), ..DmDevices::default() };
    for line in text.lines().skip(usize::from(found.is_again)).filter(|line| !line.is_empty()) {
        let understood = match line.strip_prefix('\t') {
            None => device(line).map(|device| found.devices.push(device)),
            Some(line) => found.devices.last_mut().and_then(|device| device.add(line)),
        };
        if understood.is_none() {
            found.not_understood.push(line.trim().to_string());
        }
    }
    found
}

fn device(line: &str) -> Option<DmDevice> {
    let mut columns = line.split('\t');
    let number = columns.next()?.parse().ok()?;
    let (name, uuid, state) = (columns.next()?, columns.next()?, columns.next()?);
    Some(DmDevice {
        number,
        name: name.to_string(),
        uuid: uuid.to_string(),
        is_suspended: state == "suspended",
        targets: Vec::new(),
    })
}

impl DmDevice {
    fn add(&mut self, line: &str) -> Option<()> {
        let (what, line) = line.split_once(' ')?;
        let mut words = line.split_ascii_whitespace();
        let (_start, length) = (words.next()?, Sectors(words.next()?.parse().ok()?));
        let (kind, words) = (words.next()?, words.collect::<Vec<_>>());
        match what {
            "status" => {
                let understood = status(kind, &words);
                let status = understood.clone().unwrap_or_else(|| Status::NotUnderstood(kind.to_string()));
                self.targets.push(Target { length, status });
                understood?;
            }
            "table" => self.learn_chunk(words.get(2)?.parse().ok()?),
            _ => return None,
        }
        Some(())
    }

    /// A thin pool's data is counted in chunks, whose length only the table holds.
    fn learn_chunk(&mut self, chunk_sectors: u64) {
        for target in &mut self.targets {
            if let Status::ThinPool(Pool::Working { data, .. }) = &mut target.status {
                data.unit = chunk_sectors.saturating_mul(SECTOR);
            }
        }
    }

    /// Nothing is known of what should have been told of again, and was not.
    fn untold(mut self) -> Self {
        for target in self.targets.iter_mut().filter(|target| !matches!(target.status, Status::Other(_))) {
            target.status = Status::NotUnderstood(target.status.kind().to_string());
            self.is_suspended = false;
        }
        self
    }

    /// A table does not change without a word, so the length of a chunk is still what it was.
    fn with_chunk_of(mut self, before: &Self) -> Self {
        let chunk = before.targets.iter().find_map(|target| match target.status {
            Status::ThinPool(Pool::Working { data, .. }) => Some(data.unit / SECTOR),
            _ => None,
        });
        if let Some(chunk) = chunk {
            self.learn_chunk(chunk);
        }
        self
    }

    /// The kernel's name of its first target's type, `None` for a device without a table.
    pub fn kind(&self) -> Option<&str> {
        self.targets.first().map(|target| target.status.kind())
    }
}

impl Status {
    pub fn kind(&self) -> &str {
        match self {
            Self::Snapshot(_) => "snapshot",
            Self::SnapshotMerge(_) => "snapshot-merge",
            Self::ThinPool(_) => "thin-pool",
            Self::Thin(_) => "thin",
            Self::Filled { kind, .. }
            | Self::InStep { kind, .. }
            | Self::NotUnderstood(kind)
            | Self::Other(kind) => kind,
        }
    }
}

fn status(kind: &str, words: &[&str]) -> Option<Status> {
    Some(match kind {
        "snapshot" => Status::Snapshot(snapshot::parse(words)?),
        "snapshot-merge" => Status::SnapshotMerge(snapshot::parse(words)?),
        "thin-pool" => Status::ThinPool(thin_pool::parse(words)?),
        "thin" => Status::Thin(thin::parse(words)?),
        "cache" => cache::parse(words)?,
        "writecache" => writecache::parse(words)?,
        "vdo" => vdo::parse(words)?,
        "raid" => raid::parse(words)?,
        "mirror" => mirror::parse(words)?,
        _ => Status::Other(kind.to_string()),
    })
}

fn ratio(text: &str, unit: u64) -> Option<Fill> {
    let (used, total) = text.split_once('/')?;
    Some(Fill { used: used.parse().ok()?, total: total.parse().ok()?, unit })
}
