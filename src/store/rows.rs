//! Rows of devices, volumes and gaps.

use anyhow::Context;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::catalog::{DeviceRow, Rows, VolumeRow};
use super::seal::last_instant;
use super::stream::{KIND_BITS, Kind, Stream};
use super::write_op::Gap;
use crate::config;

/// All devices and volumes with stored data.
pub async fn catalog_rows(connection: &mut SqliteConnection) -> anyhow::Result<Rows> {
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
    let devices =
        devices
            .into_iter()
            .map(
                |(id, identity, name, label, kind, counts, last_seen_ms)| DeviceRow {
                    id,
                    identity: identity.into(),
                    name,
                    label,
                    kind,
                    counts,
                    last_seen_ms,
                },
            );
    let volumes = volumes
        .into_iter()
        .map(|(id, uuid, vg, lv, device_identity, last_seen_ms)| {
            let device_identity = device_identity.map(Into::into);
            VolumeRow {
                id,
                uuid: uuid.into(),
                vg,
                lv,
                device_identity,
                last_seen_ms,
            }
        });
    Ok(Rows {
        devices: devices.collect(),
        volumes: volumes.collect(),
    })
}

/// The number that ties the journal to this database; created at the first call.
pub async fn identity(connection: &mut SqliteConnection) -> anyhow::Result<u64> {
    sqlx::query("INSERT INTO identity (one, id) VALUES (1, random()) ON CONFLICT DO NOTHING")
        .execute(&mut *connection)
        .await?;
    identity_of(connection)
        .await?
        .context("the database has no identity")
}

/// As [`identity`]; `None` if it was not created yet.
pub async fn identity_of(connection: &mut SqliteConnection) -> anyhow::Result<Option<u64>> {
    let id: Option<i64> = sqlx::query_scalar("SELECT id FROM identity")
        .fetch_optional(connection)
        .await?;
    Ok(id.map(i64::cast_unsigned))
}

/// Forgets devices and volumes that have no data. Existing ones are stored again at the first tick.
///
/// Old rows are only candidates: an unchanged device is not stored again, and a clock may have been years ahead. A number
/// that still has data must not be reused.
pub async fn forget_unseen(
    connection: &mut SqliteConnection,
    keep: config::Store,
) -> anyhow::Result<()> {
    let longest = keep.minutes.0.max(keep.jobs.0);
    let Some(last_ms) = last_instant(connection).await? else {
        return Ok(());
    };
    let before_ms = last_ms.saturating_sub(i64::try_from(longest.as_millis())?);
    for (table, kinds) in [
        ("device", [Kind::Device, Kind::Copying]),
        ("volume", [Kind::Volume; 2]),
    ] {
        let forget = format!(
            "DELETE FROM {table} WHERE last_seen_ms < ? AND NOT EXISTS (
                 SELECT 1 FROM segment CROSS JOIN chunk
                 WHERE chunk.id IN ((segment.id << 24) + ({table}.id << {KIND_BITS}) + ?,
                     (segment.id << 24) + ({table}.id << {KIND_BITS}) + ?))"
        );
        let [one, other] = kinds.map(|kind| Stream::new(kind, 0).number());
        let query = sqlx::query(AssertSqlSafe(forget))
            .bind(before_ms)
            .bind(one)
            .bind(other);
        query.execute(&mut *connection).await?;
    }
    Ok(())
}

pub async fn write_rows(connection: &mut SqliteConnection, rows: &Rows) -> anyhow::Result<()> {
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

pub async fn write_gap(connection: &mut SqliteConnection, gap: &Gap) -> anyhow::Result<()> {
    sqlx::query("INSERT INTO gap (from_ms, to_ms, ticks, reason) VALUES (?, ?, ?, ?)")
        .bind(gap.from_ms)
        .bind(gap.to_ms)
        .bind(gap.ticks)
        .bind(&gap.reason)
        .execute(connection)
        .await?;
    Ok(())
}
