//! The one writer: gathers entries, commits them together, and holds on to them while it cannot.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::Timestamp;
use sqlx::{Connection, Sqlite, SqliteConnection, Transaction};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout_at;

use super::packed::Packed;
use super::{Entry, Health};
use crate::alert::Alert;
use crate::interval::Interval;
use crate::job::Job;
use crate::topology::{Device, Topology, Volume};

/// Commits are at least this far apart: short ticks share one.
const COMMIT_PAUSE: Duration = Duration::from_millis(950);
/// After a commit that failed, the next try.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Entries that one commit takes at most.
const MOST_AT_ONCE: usize = 256;
/// Ticks are kept for this long.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// A clock is believed when it has not jumped for this long: a wrong one must not make all that was kept look old.
const STEADY: Duration = Duration::from_secs(600);
/// Wall clock and steady clock may differ by this much over one tick before that counts as a jump.
const SLACK_US: i64 = 2_000_000;
/// How often old ticks are deleted, and how many at once: never so many that the writer falls behind.
const CLEAN_EVERY: Duration = Duration::from_secs(60);
const CLEAN_AT_ONCE: i64 = 1_000;

pub struct Writer {
    connection: SqliteConnection,
    report: watch::Sender<Health>,
    /// Rows by identity, for the topology that was last written.
    rows: Rows,
    cleaned_at: Option<Instant>,
    clock: Clock,
}

/// The time of the last tick that was written, and since when it comes from a clock that does not jump.
struct Clock {
    last_at: Option<Timestamp>,
    steady_since: Instant,
}

impl Clock {
    fn see(&mut self, interval: &Interval) {
        let elapsed_us = i64::try_from(interval.elapsed_us).unwrap_or(i64::MAX);
        let jumped = self.last_at.is_some_and(|last_at| {
            let walked_us = interval.at.as_microsecond() - last_at.as_microsecond();
            (walked_us - elapsed_us).abs() > SLACK_US
        });
        if jumped {
            self.steady_since = Instant::now();
        }
        self.last_at = Some(interval.at);
    }

    /// The last tick's time, when it can be believed.
    fn believed(&self) -> Option<Timestamp> {
        self.last_at.filter(|_| self.steady_since.elapsed() >= STEADY)
    }
}

/// Row numbers of devices and volumes.
#[derive(Default)]
struct Rows {
    topology: Option<Arc<Topology>>,
    devices: HashMap<Arc<str>, i64>,
    volumes: HashMap<Arc<str>, i64>,
}

impl Writer {
    pub fn new(connection: SqliteConnection, report: watch::Sender<Health>) -> Self {
        Self {
            connection,
            report,
            rows: Rows::default(),
            cleaned_at: None,
            clock: Clock { last_at: None, steady_since: Instant::now() },
        }
    }

    /// Writes until the queue is closed and empty.
    pub async fn run(mut self, mut entries: mpsc::Receiver<Entry>) {
        let mut batch = Vec::new();
        let mut next_commit = tokio::time::Instant::now();
        while gather(&mut entries, &mut batch, next_commit).await > 0 {
            next_commit = tokio::time::Instant::now() + COMMIT_PAUSE;
            self.write_all(&mut batch, &mut entries).await;
            self.clean_when_due().await;
        }
        // Whoever copies the one file has all that was kept.
        if let Err(error) = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut self.connection).await
        {
            tracing::warn!("cannot move the last entries into the database's own file: {error}");
        }
        if let Err(error) = self.connection.close().await {
            tracing::error!("cannot close the database: {error}");
        }
    }

    /// Tries until the batch is in the database; when the program ends, only once.
    async fn write_all(&mut self, batch: &mut Vec<Entry>, entries: &mut mpsc::Receiver<Entry>) {
        loop {
            let started = Instant::now();
            let outcome = self.write(batch).await;
            self.tell(batch, started, outcome.as_ref().err());
            match outcome {
                Ok(()) => return self.note_written(batch),
                Err(error) if entries.is_closed() => {
                    tracing::error!("{} entries could not be kept: {error:#}", batch.len());
                    return batch.clear();
                }
                Err(_) => {
                    // What was numbered in the transaction that failed has no row.
                    self.rows = Rows::default();
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    fn note_written(&mut self, batch: &mut Vec<Entry>) {
        for entry in batch.iter() {
            if let Entry::Tick(interval) = entry {
                self.clock.see(interval);
            }
        }
        let count = batch.len() as u64;
        self.report.send_modify(|health| health.written += count);
        batch.clear();
    }

    fn tell(&self, batch: &[Entry], started: Instant, error: Option<&anyhow::Error>) {
        let last_tick = batch.iter().rev().find_map(|entry| match entry {
            Entry::Tick(interval) => Some(interval.at),
            _ => None,
        });
        self.report.send_modify(|health| {
            if let (Some(error), None) = (error, &health.error) {
                tracing::error!("cannot write to the database, going on from memory: {error:#}");
            }
            if error.is_none() {
                health.last_ok_at = last_tick.or(health.last_ok_at);
            }
            health.error = error.map(|error| format!("cannot write to the database: {error:#}"));
            health.took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        });
    }

    async fn write(&mut self, batch: &[Entry]) -> anyhow::Result<()> {
        let mut transaction = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        for entry in batch {
            match entry {
                Entry::Tick(interval) => write_tick(&mut transaction, &mut self.rows, interval).await?,
                Entry::Job(job) => write_job(&mut transaction, job).await?,
                Entry::Alert(alert) => write_alert(&mut transaction, alert).await?,
            }
        }
        Ok(transaction.commit().await?)
    }

    /// What cannot be deleted now is deleted another time.
    async fn clean_when_due(&mut self) {
        let is_due = self.cleaned_at.is_none_or(|at| at.elapsed() >= CLEAN_EVERY);
        if let Some(now) = self.clock.believed().filter(|_| is_due) {
            self.cleaned_at = Some(Instant::now());
            if let Err(error) = self.clean(now).await {
                tracing::warn!("cannot delete old ticks: {error:#}");
            }
        }
    }

    /// Deletes what is older than [`KEPT`], a little at a time, and gives its pages back.
    async fn clean(&mut self, now: Timestamp) -> anyhow::Result<()> {
        sqlx::query(
            "DELETE FROM tick WHERE at_ms IN (SELECT at_ms FROM tick WHERE at_ms < ? ORDER BY at_ms LIMIT ?)",
        )
        .bind(now.as_millisecond() - i64::try_from(KEPT.as_millis())?)
        .bind(CLEAN_AT_ONCE)
        .execute(&mut self.connection)
        .await?;
        sqlx::query("PRAGMA incremental_vacuum(100)").execute(&mut self.connection).await?;
        Ok(())
    }
}

/// Takes what comes until it is time to commit, and at once what is left when the queue was closed. Gives how much
/// there is to write; 0 when nothing will come any more.
async fn gather(
    entries: &mut mpsc::Receiver<Entry>,
    batch: &mut Vec<Entry>,
    until: tokio::time::Instant,
) -> usize {
    while batch.len() < MOST_AT_ONCE {
        let is_first = batch.is_empty();
        let more = entries.recv_many(batch, MOST_AT_ONCE);
        let came = if is_first { more.await } else { timeout_at(until, more).await.unwrap_or(0) };
        if came == 0 {
            break;
        }
    }
    batch.len()
}

async fn write_tick(
    transaction: &mut Transaction<'_, Sqlite>,
    rows: &mut Rows,
    interval: &Interval,
) -> anyhow::Result<()> {
    if !rows.topology.as_ref().is_some_and(|topology| Arc::ptr_eq(topology, &interval.topology)) {
        learn_rows(transaction, rows, interval).await?;
    }
    let devices = interval.topology.devices.iter().zip(&interval.devices);
    let packed = Packed {
        devices: devices
            .filter_map(|(device, done)| Some((*rows.devices.get(&device.identity)?, done.work.into())))
            .collect(),
        volumes: interval
            .volumes()
            .filter_map(|(volume, state)| Some((*rows.volumes.get(&volume.uuid)?, (*state).into())))
            .collect(),
        host: interval.host,
    };
    insert_tick(transaction, interval, &packed.to_bytes()?).await
}

/// A clock that was set back brings instants that are taken: the tick goes to the next free millisecond.
async fn insert_tick(
    transaction: &mut Transaction<'_, Sqlite>,
    interval: &Interval,
    packed: &[u8],
) -> anyhow::Result<()> {
    let mut at_ms = interval.at.as_millisecond();
    loop {
        let done = sqlx::query(
            "INSERT INTO tick (at_ms, elapsed_us, packed) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        )
        .bind(at_ms)
        .bind(i64::try_from(interval.elapsed_us)?)
        .bind(packed)
        .execute(&mut **transaction)
        .await?;
        if done.rows_affected() == 1 {
            return Ok(());
        }
        at_ms += 1;
    }
}

async fn learn_rows(
    transaction: &mut Transaction<'_, Sqlite>,
    rows: &mut Rows,
    interval: &Interval,
) -> anyhow::Result<()> {
    let at_ms = interval.at.as_millisecond();
    let topology = &interval.topology;
    for device in &topology.devices {
        let id = device_row(transaction, device, at_ms).await?;
        rows.devices.insert(Arc::clone(&device.identity), id);
    }
    for volume in &topology.volumes {
        let device = volume.device.map(|index| &topology.devices[index]);
        let id = volume_row(transaction, volume, device, at_ms).await?;
        rows.volumes.insert(Arc::clone(&volume.uuid), id);
    }
    rows.topology = Some(Arc::clone(topology));
    Ok(())
}

async fn device_row(
    transaction: &mut Transaction<'_, Sqlite>,
    device: &Device,
    at_ms: i64,
) -> anyhow::Result<i64> {
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
    .fetch_one(&mut **transaction)
    .await
    .context("cannot keep a device")
}

async fn volume_row(
    transaction: &mut Transaction<'_, Sqlite>,
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
    .fetch_one(&mut **transaction)
    .await
    .context("cannot keep a volume")
}

async fn write_job(transaction: &mut Transaction<'_, Sqlite>, job: &Job) -> anyhow::Result<()> {
    sqlx::query(
        "INSERT INTO job (id, kind, key, name, vg, lv, origin, started_ms, ended_ms, outcome, died_ms, partly_seen,
             last_fill_percent, peak_fill_percent, bytes_read, read_counter)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (key) DO UPDATE SET name = excluded.name, vg = excluded.vg, lv = excluded.lv,
             origin = excluded.origin, started_ms = excluded.started_ms, ended_ms = excluded.ended_ms,
             outcome = excluded.outcome, died_ms = excluded.died_ms, partly_seen = excluded.partly_seen,
             last_fill_percent = excluded.last_fill_percent, peak_fill_percent = excluded.peak_fill_percent,
             bytes_read = excluded.bytes_read, read_counter = excluded.read_counter",
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
    .execute(&mut **transaction)
    .await
    .with_context(|| format!("cannot keep job {}", job.id))?;
    Ok(())
}

async fn write_alert(transaction: &mut Transaction<'_, Sqlite>, alert: &Alert) -> anyhow::Result<()> {
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
    .execute(&mut **transaction)
    .await
    .with_context(|| format!("cannot keep alert {}", alert.id))?;
    Ok(())
}
