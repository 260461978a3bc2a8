//! Devices and volumes by row number, in memory, so that look-ups never wait for the disk.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::stream::Stream;
use crate::interval::Interval;
use crate::source::variant_name;
use crate::topology::{Device, Topology, Volume};

/// Precision of a row's `last_seen_ms`.
const LEARN_AGAIN_MS: u64 = 24 * 3600 * 1000;

/// Every device and volume with stored data.
#[derive(Debug, Default)]
pub struct Catalog {
    devices: HashMap<Arc<str>, u32>,
    volumes: HashMap<Arc<str>, u32>,
    pub device_rows: BTreeMap<u32, DeviceRow>,
    pub volume_rows: BTreeMap<u32, VolumeRow>,
    topology: Option<Arc<Topology>>,
    learned_ms: i64,
    /// The database of these rows; `None` before one could be read.
    pub identity: Option<u64>,
    /// Earlier segments have the row numbers of another database.
    pub first_segment: i64,
    /// The segment of the last tick.
    pub last_segment: i64,
}

/// A device as last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRow {
    pub id: u32,
    pub identity: Arc<str>,
    pub name: String,
    pub label: String,
    pub kind: String,
    /// Whether it is part of the host's total.
    pub counts: bool,
    pub last_seen_ms: i64,
}

/// A volume as last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeRow {
    pub id: u32,
    pub uuid: Arc<str>,
    pub vg: String,
    pub lv: String,
    pub device_identity: Option<Arc<str>>,
    pub last_seen_ms: i64,
}

/// Rows that are new or changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    pub devices: Vec<DeviceRow>,
    pub volumes: Vec<VolumeRow>,
}

impl Rows {
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.volumes.is_empty()
    }

    /// Adds newer rows, which replace rows of the same number.
    pub fn add(&mut self, newer: Self) {
        self.devices
            .retain(|row| newer.devices.iter().all(|other| other.id != row.id));
        self.volumes
            .retain(|row| newer.volumes.iter().all(|other| other.id != row.id));
        self.devices.extend(newer.devices);
        self.volumes.extend(newer.volumes);
    }
}

impl Catalog {
    pub fn new(rows: Rows) -> Self {
        Self {
            devices: rows
                .devices
                .iter()
                .map(|row| (Arc::clone(&row.identity), row.id))
                .collect(),
            volumes: rows
                .volumes
                .iter()
                .map(|row| (Arc::clone(&row.uuid), row.id))
                .collect(),
            device_rows: rows.devices.into_iter().map(|row| (row.id, row)).collect(),
            volume_rows: rows.volumes.into_iter().map(|row| (row.id, row)).collect(),
            ..Self::default()
        }
    }

    /// Replaces all rows by those of another database, whose next segment is `next_segment`.
    pub fn replace(&mut self, rows: Rows, identity: u64, next_segment: i64) {
        let first_segment = next_segment.max(self.last_segment + 1);
        *self = Self {
            identity: Some(identity),
            first_segment,
            last_segment: first_segment - 1,
            ..Self::new(rows)
        };
    }

    pub fn device(&self, identity: &str) -> Option<u32> {
        self.devices.get(identity).copied()
    }

    pub fn volume(&self, uuid: &str) -> Option<u32> {
        self.volumes.get(uuid).copied()
    }

    /// Returns the rows to store, if the topology changed or a day has passed.
    pub fn learn(&mut self, interval: &Interval) -> Option<Rows> {
        let (topology, at_ms) = (&interval.topology, interval.at.as_millisecond());
        let is_known = self
            .topology
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, topology));
        if is_known && at_ms.abs_diff(self.learned_ms) < LEARN_AGAIN_MS {
            return None;
        }
        (self.topology, self.learned_ms) = (Some(Arc::clone(topology)), at_ms);
        let devices = topology
            .devices
            .iter()
            .filter_map(|device| self.see_device(device, at_ms))
            .collect();
        let volumes = topology.volumes.iter();
        let volumes = volumes
            .filter_map(|volume| self.see_volume(volume, topology, at_ms))
            .collect();
        Some(Rows { devices, volumes })
    }

    fn see_device(&mut self, device: &Device, last_seen_ms: i64) -> Option<DeviceRow> {
        let id = self
            .device(&device.identity)
            .or_else(|| next_id(&self.device_rows))?;
        let row = DeviceRow {
            id,
            identity: Arc::clone(&device.identity),
            name: device.name.to_string(),
            label: device.label.clone(),
            kind: variant_name(device.kind),
            counts: device.counts,
            last_seen_ms,
        };
        self.devices.insert(Arc::clone(&row.identity), id);
        self.device_rows.insert(id, row.clone());
        Some(row)
    }

    fn see_volume(
        &mut self,
        volume: &Volume,
        topology: &Topology,
        last_seen_ms: i64,
    ) -> Option<VolumeRow> {
        let device = volume
            .device
            .map(|index| Arc::clone(&topology.devices[index].identity));
        let known = self.volume(&volume.uuid);
        let id = known.or_else(|| next_id(&self.volume_rows))?;
        let before = known.and_then(|id| self.volume_rows.get(&id)?.device_identity.clone());
        let row = VolumeRow {
            id,
            uuid: Arc::clone(&volume.uuid),
            vg: volume.vg.clone(),
            lv: volume.lv.clone(),
            device_identity: device.or(before),
            last_seen_ms,
        };
        self.volumes.insert(Arc::clone(&row.uuid), id);
        self.volume_rows.insert(id, row.clone());
        Some(row)
    }

    /// A device by identity, kernel name or label: the one that had the name last.
    pub fn device_named(&self, name: &str) -> Option<u32> {
        if let Some(row) = self.device(name) {
            return Some(row);
        }
        let had_it = self
            .device_rows
            .values()
            .filter(|row| row.name == name || row.label == name);
        had_it
            .max_by_key(|row| (row.last_seen_ms, row.name == name))
            .map(|row| row.id)
    }

    /// A volume by `vg/lv` or UUID: the one that had the name last.
    pub fn volume_named(&self, name: &str) -> Option<u32> {
        if let Some(row) = self.volume(name) {
            return Some(row);
        }
        let (vg, lv) = name.split_once('/')?;
        let had_it = self
            .volume_rows
            .values()
            .filter(|row| row.vg == vg && row.lv == lv);
        had_it
            .max_by_key(|row| (row.last_seen_ms, row.id))
            .map(|row| row.id)
    }

    pub fn device_of_volume(&self, volume: u32) -> Option<u32> {
        self.device(&self.identity_of_volume(volume)?)
    }

    /// The identity of a volume's last device.
    pub fn identity_of_volume(&self, volume: u32) -> Option<Arc<str>> {
        self.volume_rows.get(&volume)?.device_identity.clone()
    }

    /// All rows, in the order of their numbers.
    pub fn rows(&self) -> Rows {
        Rows {
            devices: self.device_rows.values().cloned().collect(),
            volumes: self.volume_rows.values().cloned().collect(),
        }
    }
}

/// `None` if all numbers are used.
fn next_id<Row>(rows: &BTreeMap<u32, Row>) -> Option<u32> {
    let id = rows.last_key_value().map_or(1, |(id, _)| id + 1);
    (id < Stream::MOST_ROWS).then_some(id)
}
