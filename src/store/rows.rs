//! Rows of devices, volumes, jobs and alerts: one for each, found again by what makes it unlike all others.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context;
use sqlx::SqliteConnection;

use crate::alert::Alert;
use crate::interval::Interval;
use crate::job::Job;
use crate::topology::{Device, Topology, Volume};

/// Row numbers of devices and volumes.
#[derive(Default)]
pub struct Rows {
    pub topology: Option<Arc<Topology>>,
    pub devices: HashMap<Arc<str>, i64>,
    pub volumes: HashMap<Arc<str>, i64>,
}

pub async fn learn_rows(
    connection: &mut SqliteConnection,
    rows: &mut Rows,
    interval: &Interval,
) -> anyhow::Result<()> {
    let at_ms = interval.at.as_millisecond();
    let topology = &interval.topology;
    for device in &topology.devices {
        let id = device_row(connection, device, at_ms).await?;
        rows.devices.insert(Arc::clone(&device.identity), id);
    }
    for volume in &topology.volumes {
        let device = volume.device.map(|index| &topology.devices[index]);
        let id = volume_row(connection, volume, device, at_ms).await?;
        rows.volumes.insert(Arc::clone(&volume.uuid), id);
    }
    rows.topology = Some(Arc::clone(topology));
    Ok(())
}

async fn device_row(connection: &mut SqliteConnection, device: &Device, at_ms: i64) -> anyhow::Result<i64> {
    let kind = serde_json::to_value(device.kind)?;
    sqlx::query_scalar(
        "INSERT INTO device (identity, name, label, kind, counts, last_seen_ms) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT (identity) DO UPDATE SET name = excluded.name, label = excluded.label,
             counts = excluded.counts, last_seen_ms = excluded.last_seen_ms
         RETURNING id",
    )
    .bind(&*device.identity)
    .bind(&*device.name)
    .bind(&device.label)
    .bind(kind.as_str().unwrap_or_default())
    .bind(device.counts)
    .bind(at_ms)
    .fetch_one(&mut *connection)
    .await
    .context("cannot keep a device")
}

async fn volume_row(
    connection: &mut SqliteConnection,
    volume: &Volume,
    device: Option<&Device>,
    at_ms: i64,
) -> anyhow::Result<i64> {
    sqlx::query_scalar(
        "INSERT INTO volume (uuid, vg, lv, device_identity, last_seen_ms) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (uuid) DO UPDATE SET vg = excluded.vg, lv = excluded.lv,
             device_identity = coalesce(excluded.device_identity, device_identity),
             last_seen_ms = excluded.last_seen_ms
         RETURNING id",
    )
    .bind(&*volume.uuid)
    .bind(&volume.vg)
    .bind(&volume.lv)
    .bind(device.map(|device| &*device.identity))
    .bind(at_ms)
    .fetch_one(&mut *connection)
    .await
    .context("cannot keep a volume")
}

pub async fn write_job(connection: &mut SqliteConnection, job: &Job) -> anyhow::Result<()> {
    sqlx::query(
        "INSERT INTO job (id, kind, key, name, vg, lv, origin, started_ms, ended_ms, outcome, died_ms, partly_seen,
             last_fill_percent, peak_fill_percent, bytes_read, read_counter, mounted_on, unmounted_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (key) DO UPDATE SET name = excluded.name, vg = excluded.vg, lv = excluded.lv,
             origin = excluded.origin, started_ms = excluded.started_ms, ended_ms = excluded.ended_ms,
             outcome = excluded.outcome, died_ms = excluded.died_ms, partly_seen = excluded.partly_seen,
             last_fill_percent = excluded.last_fill_percent, peak_fill_percent = excluded.peak_fill_percent,
             bytes_read = excluded.bytes_read, read_counter = excluded.read_counter,
             mounted_on = excluded.mounted_on, unmounted_ms = excluded.unmounted_ms",
    )
    .bind(job.id)
    .bind(job.kind.text())
    .bind(&job.key)
    .bind(&job.name)
    .bind(&job.vg)
    .bind(&job.lv)
    .bind(&job.origin)
    .bind(job.started_at.as_millisecond())
    .bind(job.ended_at.map(|at| at.as_millisecond()))
    .bind(job.outcome.map(|outcome| outcome.text()))
    .bind(job.died_at.map(|at| at.as_millisecond()))
    .bind(job.partly_seen)
    .bind(job.last_fill_percent)
    .bind(job.peak_fill_percent)
    .bind(job.bytes_read.and_then(|bytes| i64::try_from(bytes).ok()))
    .bind(job.read_counter.and_then(|bytes| i64::try_from(bytes).ok()))
    .bind(&job.mounted_on)
    .bind(job.unmounted_at.map(|at| at.as_millisecond()))
    .execute(&mut *connection)
    .await
    .with_context(|| format!("cannot keep job {}", job.id))?;
    Ok(())
}

pub async fn write_alert(connection: &mut SqliteConnection, alert: &Alert) -> anyhow::Result<()> {
    sqlx::query(
        "INSERT INTO alert (id, rule, severity, vg, lv, uuid, value, raised_ms, cleared_ms, sentence)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET severity = excluded.severity, vg = excluded.vg, lv = excluded.lv, value = excluded.value,
             cleared_ms = excluded.cleared_ms, sentence = excluded.sentence",
    )
    .bind(alert.id)
    .bind(alert.rule.name())
    .bind(alert.severity.text())
    .bind(&alert.vg)
    .bind(&alert.lv)
    .bind(&alert.uuid)
    .bind(alert.value)
    .bind(alert.raised_at.as_millisecond())
    .bind(alert.cleared_at.map(|at| at.as_millisecond()))
    .bind(&alert.sentence)
    .execute(&mut *connection)
    .await
    .with_context(|| format!("cannot keep alert {}", alert.id))?;
    Ok(())
}
