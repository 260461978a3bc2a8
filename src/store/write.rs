//! The one writer: gathers entries, commits them together, and holds on to them while it cannot.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout_at;

use super::clock::Clock;
use super::packed::{More, Packed};
use super::rows::{Rows, learn_rows, write_alert, write_job};
use super::{Entry, Health};
use crate::interval::Interval;

/// Commits are at least this far apart: short ticks share one.
const COMMIT_PAUSE: Duration = Duration::from_millis(950);
/// After a commit that failed, the next try.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Entries that one commit takes at most.
const MOST_AT_ONCE: usize = 256;
/// Ticks are kept for this long.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
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

impl Writer {
    pub fn new(connection: SqliteConnection, report: watch::Sender<Health>) -> Self {
        Self { connection, report, rows: Rows::default(), cleaned_at: None, clock: Clock::new() }
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

    /// One entry is written as it is; several are written all or none.
    async fn write(&mut self, batch: &[Entry]) -> anyhow::Result<()> {
        if let [entry] = batch {
            return write_entry(&mut self.connection, &mut self.rows, entry).await;
        }
        let mut transaction = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        for entry in batch {
            write_entry(&mut transaction, &mut self.rows, entry).await?;
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

async fn write_entry(
    connection: &mut SqliteConnection,
    rows: &mut Rows,
    entry: &Entry,
) -> anyhow::Result<()> {
    match entry {
        Entry::Tick(interval) => write_tick(connection, rows, interval).await,
        Entry::Job(job) => write_job(connection, job).await,
        Entry::Alert(alert) => write_alert(connection, alert).await,
    }
}

async fn write_tick(
    connection: &mut SqliteConnection,
    rows: &mut Rows,
    interval: &Interval,
) -> anyhow::Result<()> {
    if !rows.topology.as_ref().is_some_and(|topology| Arc::ptr_eq(topology, &interval.topology)) {
        learn_rows(connection, rows, interval).await?;
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
    insert_tick(connection, interval, &packed.to_bytes()?, more(rows, interval).to_bytes()?).await
}

/// What the snapshots of this tick cost, and how full they probably are where nobody says it.
fn more(rows: &Rows, interval: &Interval) -> More {
    let pvs = interval.topology.devices.iter().filter(|device| device.is_pv && interval.may_copy(device));
    let shares = pvs.filter_map(|pv| Some((*rows.devices.get(&pv.identity)?, interval.share(pv)?)));
    let estimates = interval.topology.volumes.iter().zip(&interval.estimates);
    More {
        copying: shares.collect(),
        estimates: estimates
            .filter_map(|(volume, estimate)| Some((*rows.volumes.get(&volume.uuid)?, (*estimate)?)))
            .collect(),
    }
}

/// A clock that was set back brings instants that are taken: the tick goes to the next free millisecond.
async fn insert_tick(
    connection: &mut SqliteConnection,
    interval: &Interval,
    packed: &[u8],
    more: Option<Vec<u8>>,
) -> anyhow::Result<()> {
    let mut at_ms = interval.at.as_millisecond();
    loop {
        let done = sqlx::query(
            "INSERT INTO tick (at_ms, elapsed_us, packed, more) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        )
        .bind(at_ms)
        .bind(i64::try_from(interval.elapsed_us)?)
        .bind(packed)
        .bind(more.as_deref())
        .execute(&mut *connection)
        .await?;
        if done.rows_affected() == 1 {
            return Ok(());
        }
        at_ms += 1;
    }
}
