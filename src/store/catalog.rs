//! Devices and volumes by row number: in memory, so that look-ups never wait for the disk, and their tables.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use anyhow::Context;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::address::{Kind, Position, Stream};
use super::stored::earliest_ms;
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
    pub identity: Option<i64>,
    /// How often all rows were replaced by those of another database. Ticks of an earlier generation have other numbers.
    pub generation: u64,
    /// The last tick of that database, when the rows were read from it.
    pub last: Option<Position>,
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
pub struct CatalogRows {
    pub devices: Vec<DeviceRow>,
    pub volumes: Vec<VolumeRow>,
}

impl CatalogRows {
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
    pub fn new(rows: CatalogRows) -> Self {
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

    /// Replaces all rows by those of another database, whose last tick is `last`.
    pub fn replace(&mut self, rows: CatalogRows, identity: Option<i64>, last: Option<Position>) {
        *self = Self {
            identity,
            generation: self.generation + 1,
            last,
            ..Self::new(rows)
        };
    }

    /// Adds rows that have the numbers of another catalog. Returns them with their numbers here, and the streams of each
    /// number there.
    pub fn adopt(&mut self, rows: CatalogRows) -> (CatalogRows, HashMap<Stream, Stream>) {
        let mut adopted = CatalogRows::default();
        let mut streams = HashMap::new();
        for row in rows.devices {
            let number = row.id;
            if let Some(row) = self.put_device(row) {
                for kind in [Kind::Device, Kind::Copying] {
                    streams.insert(Stream::new(kind, number), Stream::new(kind, row.id));
                }
                adopted.devices.push(row);
            }
        }
        for row in rows.volumes {
            let number = Stream::new(Kind::Volume, row.id);
            if let Some(row) = self.put_volume(row) {
                streams.insert(number, Stream::new(Kind::Volume, row.id));
                adopted.volumes.push(row);
            }
        }
        (adopted, streams)
    }

    pub fn device(&self, identity: &str) -> Option<u32> {
        self.devices.get(identity).copied()
    }

    pub fn volume(&self, uuid: &str) -> Option<u32> {
        self.volumes.get(uuid).copied()
    }

    /// Returns the rows to store, if the topology changed or a day has passed.
    pub fn learn(&mut self, interval: &Interval) -> Option<CatalogRows> {
        let topology = &interval.topology;
        let at_ms = interval.at.as_millisecond();
        let is_known = self
            .topology
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, topology));
        if is_known && at_ms.abs_diff(self.learned_ms) < LEARN_AGAIN_MS {
            return None;
        }
        self.topology = Some(Arc::clone(topology));
        self.learned_ms = at_ms;
        let devices = topology
            .devices
            .iter()
            .filter_map(|device| self.see_device(device, at_ms))
            .collect();
        let volumes = topology.volumes.iter();
        let volumes = volumes
            .filter_map(|volume| self.see_volume(volume, topology, at_ms))
            .collect();
        Some(CatalogRows { devices, volumes })
    }

    fn see_device(&mut self, device: &Device, last_seen_ms: i64) -> Option<DeviceRow> {
        self.put_device(DeviceRow {
            id: 0,
            identity: Arc::clone(&device.identity),
            name: device.name.to_string(),
            label: device.label.clone(),
            kind: variant_name(device.kind),
            counts: device.counts,
            last_seen_ms,
        })
    }

    /// Adds the row with its number in this catalog, and returns it.
    fn put_device(&mut self, row: DeviceRow) -> Option<DeviceRow> {
        let known = self.device(&row.identity);
        let id = known.or_else(|| next_id(&self.device_rows))?;
        let row = DeviceRow { id, ..row };
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
        let device = volume.device.map(|index| &topology.devices[index].identity);
        self.put_volume(VolumeRow {
            id: 0,
            uuid: Arc::clone(&volume.uuid),
            vg: volume.vg.clone(),
            lv: volume.lv.clone(),
            device_identity: device.cloned(),
            last_seen_ms,
        })
    }

    /// The same. A volume that is not active keeps its last device.
    fn put_volume(&mut self, row: VolumeRow) -> Option<VolumeRow> {
        let known = self.volume(&row.uuid);
        let id = known.or_else(|| next_id(&self.volume_rows))?;
        let before = known.and_then(|id| self.volume_rows.get(&id)?.device_identity.clone());
        let device_identity = row.device_identity.or(before);
        let row = VolumeRow {
            id,
            device_identity,
            ..row
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
    pub fn rows(&self) -> CatalogRows {
        CatalogRows {
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

/// All devices and volumes with stored data.
pub async fn catalog_rows(connection: &mut SqliteConnection) -> anyhow::Result<CatalogRows> {
    let devices: Vec<(u32, String, String, String, String, bool, i64)> = sqlx::query_as(
        "SELECT id, identity, name, label, kind, counts, last_seen_ms FROM device ORDER BY id",
    )
    .fetch_all(&mut *connection)
    .await
    .context("cannot read the devices")?;
    let volumes: Vec<(u32, String, String, String, Option<String>, i64)> = sqlx::query_as(
        "SELECT id, uuid, vg, lv, device_identity, last_seen_ms FROM volume ORDER BY id",
    )
    .fetch_all(&mut *connection)
    .await
    .context("cannot read the volumes")?;
    let mut rows = CatalogRows::default();
    for (id, identity, name, label, kind, counts, last_seen_ms) in devices {
        rows.devices.push(DeviceRow {
            id,
            identity: identity.into(),
            name,
            label,
            kind,
            counts,
            last_seen_ms,
        });
    }
    for (id, uuid, vg, lv, device_identity, last_seen_ms) in volumes {
        rows.volumes.push(VolumeRow {
            id,
            uuid: uuid.into(),
            vg,
            lv,
            device_identity: device_identity.map(Into::into),
            last_seen_ms,
        });
    }
    Ok(rows)
}

/// The number that tells this database from any other; created at the first call.
pub async fn identity(connection: &mut SqliteConnection) -> anyhow::Result<i64> {
    sqlx::query("INSERT INTO identity (one, id) VALUES (1, random()) ON CONFLICT DO NOTHING")
        .execute(&mut *connection)
        .await?;
    Ok(sqlx::query_scalar("SELECT id FROM identity")
        .fetch_one(connection)
        .await?)
}

/// Forgets devices and volumes without data. Existing ones are stored again at the first tick.
///
/// A row is stored again each day, so all data of a row that was seen last two days before the first data is deleted. A
/// number that still has data must not be reused.
pub async fn forget_unseen(connection: &mut SqliteConnection) -> anyhow::Result<()> {
    let Some(first_ms) = earliest_ms(connection).await? else {
        return Ok(());
    };
    for table in ["device", "volume"] {
        let forget = format!("DELETE FROM {table} WHERE last_seen_ms < ?");
        sqlx::query(AssertSqlSafe(forget))
            .bind(first_ms - 2 * LEARN_AGAIN_MS.cast_signed())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

pub async fn write_rows(
    connection: &mut SqliteConnection,
    rows: &CatalogRows,
) -> anyhow::Result<()> {
    for device in &rows.devices {
        sqlx::query(
            "INSERT INTO device (id, identity, name, label, kind, counts, last_seen_ms)
             VALUES (?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT (id) DO UPDATE SET name = excluded.name, label = excluded.label, kind = excluded.kind,
                 counts = excluded.counts, last_seen_ms = excluded.last_seen_ms
             -- Never under another identity: the number may be of a database that was replaced.
             WHERE device.identity = excluded.identity",
        )
        .bind(device.id)
        .bind(&*device.identity)
        .bind(&device.name)
        .bind(&device.label)
        .bind(&device.kind)
        .bind(device.counts)
        .bind(device.last_seen_ms)
        .execute(&mut *connection)
        .await
        .with_context(|| format!("cannot keep device {}", device.name))?;
    }
    for volume in &rows.volumes {
        sqlx::query(
            "INSERT INTO volume (id, uuid, vg, lv, device_identity, last_seen_ms) VALUES (?, ?, ?, ?, ?, ?)
             ON CONFLICT (id) DO UPDATE SET vg = excluded.vg, lv = excluded.lv,
                 device_identity = excluded.device_identity, last_seen_ms = excluded.last_seen_ms
             WHERE volume.uuid = excluded.uuid",
        )
        .bind(volume.id)
        .bind(&*volume.uuid)
        .bind(&volume.vg)
        .bind(&volume.lv)
        .bind(volume.device_identity.as_deref())
        .bind(volume.last_seen_ms)
        .execute(&mut *connection)
        .await
        .with_context(|| format!("cannot keep volume {}/{}", volume.vg, volume.lv))?;
    }
    Ok(())
}
