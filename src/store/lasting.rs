//! Reads jobs and alerts, and the state in which an earlier process ended.

use std::io::{Read, Write};
use std::sync::Arc;

use anyhow::Context;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{FromRow, Row, Sqlite, SqliteConnection};

use super::StoreReader;
use super::readers::{ReadError, Reader};
use super::records::readable;
use super::seal::last_instant;
use super::tick::Tick;
use crate::alert::Alert;
use crate::job::Job;

/// Ended jobs that may continue after a start, if their volumes reappear.
const JOBS_TO_RESUME: i64 = 200;

/// Maximum bytes to unpack. Import refuses longer files.
const LONGEST: u64 = 256 * 1024 * 1024;

/// A query with its arguments.
type Query = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

/// The state in which an earlier process ended.
#[derive(Clone, Debug, Default)]
pub struct StartState {
    /// Jobs that ran, and the last ones that ended, by their numbers.
    pub jobs: Vec<Job>,
    pub last_job_id: i64,
    /// Alerts that were open.
    pub alerts: Vec<Alert>,
    pub last_alert_id: i64,
    /// The last tick that was stored.
    pub last_tick_at: Option<Timestamp>,
}

impl StartState {
    /// Adds ticks that only the journal has.
    pub(super) fn see_ticks<'a>(&mut self, ticks: impl Iterator<Item = &'a Arc<Tick>>) {
        let last = ticks.last().and_then(|tick| Timestamp::from_millisecond(tick.at_ms).ok());
        self.last_tick_at = last.or(self.last_tick_at);
    }

    /// For a database that cannot be read: numbers so high that they do not collide with any that it may have.
    pub(super) fn unknown() -> Self {
        let base = Timestamp::now().as_second();
        Self { last_job_id: base, last_alert_id: base, ..Self::default() }
    }
}

impl StoreReader {
    /// The state in which an earlier process ended.
    pub fn start_state(&self) -> &StartState {
        &self.start
    }

    pub async fn job(&self, id: i64) -> anyhow::Result<Option<Job>> {
        let query = sqlx::query("SELECT * FROM job_record WHERE id = ?").bind(id);
        self.record(query).await.with_context(|| format!("cannot read job {id}"))
    }

    /// The job of this key.
    pub async fn job_of(&self, key: &str) -> anyhow::Result<Option<Job>> {
        let query = sqlx::query("SELECT * FROM job_record WHERE key = ?").bind(key.to_string());
        self.record(query).await.with_context(|| format!("cannot read the job of the key {key}"))
    }

    /// The file of the imported job with this key, if any.
    pub async fn imported(&self, key: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let query = sqlx::query("SELECT file FROM imported WHERE key = ?").bind(key.to_string());
        let named = || format!("cannot read the file of the job {key}");
        let Some(row) = self.rows(query).await.with_context(named)?.pop() else { return Ok(None) };
        unpacked(row.try_get("file")?).map(Some).with_context(named)
    }

    /// Alerts with IDs below `before`, the latest first.
    pub async fn alerts(&self, before: Option<i64>, most: usize) -> anyhow::Result<Vec<Alert>> {
        let query = sqlx::query("SELECT * FROM alert_record WHERE id < ? ORDER BY id DESC LIMIT ?")
            .bind(before.unwrap_or(i64::MAX))
            .bind(i64::try_from(most)?);
        Ok(readable_records(&self.rows(query).await.context("cannot read alerts")?))
    }

    /// One record; an error if its row is damaged.
    async fn record<T>(&self, query: Query) -> anyhow::Result<Option<T>>
    where
        T: for<'r> FromRow<'r, SqliteRow>,
    {
        let row = self.rows(query).await?.pop();
        Ok(row.map(|row| T::from_row(&row)).transpose()?)
    }

    pub(super) async fn rows(&self, query: Query) -> anyhow::Result<Vec<SqliteRow>> {
        self.check_open()?;
        let reading = |mut connection: Reader| async move { Ok(query.fetch_all(&mut *connection).await?) };
        self.readers.read(reading).await
    }

    pub(super) fn check_open(&self) -> Result<(), ReadError> {
        let health = self.health.borrow();
        let why = || health.error.clone().unwrap_or_else(|| "it is not open yet".into());
        if health.is_open { Ok(()) } else { Err(ReadError::Failed(why())) }
    }

    /// Whether the database is open; otherwise only memory can be read.
    pub(super) fn is_open(&self) -> bool {
        self.health.borrow().is_open
    }
}

/// The valid records. Damaged rows are logged.
pub fn readable_records<T: for<'r> FromRow<'r, SqliteRow>>(rows: &[SqliteRow]) -> Vec<T> {
    let (found, damage) = readable(rows);
    damage.iter().for_each(|sentence| tracing::warn!("{sentence} and left out"));
    found
}

/// Reads the state in which an earlier process ended. Omits damaged rows, and returns a sentence for each.
pub async fn start_state(connection: &mut SqliteConnection) -> anyhow::Result<(StartState, Vec<String>)> {
    let jobs = sqlx::query("SELECT * FROM job_record ORDER BY ended_ms IS NULL DESC, id DESC LIMIT ?")
        .bind(JOBS_TO_RESUME)
        .fetch_all(&mut *connection)
        .await?;
    let alerts = sqlx::query("SELECT * FROM alert_record WHERE cleared_ms IS NULL ORDER BY id")
        .fetch_all(&mut *connection)
        .await?;
    let (last_job_id, last_alert_id) = sqlx::query_as(
        "SELECT max(coalesce((SELECT max(id) FROM job_record), 0), coalesce((SELECT job FROM deleted_number), 0)),
             coalesce((SELECT max(id) FROM alert_record), 0)",
    )
    .fetch_one(&mut *connection)
    .await?;
    let ((mut jobs, damaged_jobs), (alerts, damaged_alerts)) = (readable::<Job>(&jobs), readable(&alerts));
    jobs.sort_by_key(|job| job.id);
    let last_tick_ms = last_instant(connection).await?;
    let last_tick_at = last_tick_ms.and_then(|at_ms| Timestamp::from_millisecond(at_ms).ok());
    let damage = damaged_jobs.into_iter().chain(damaged_alerts).collect();
    Ok((StartState { jobs, last_job_id, alerts, last_alert_id, last_tick_at }, damage))
}

/// A file as stored.
pub fn packed(file: &str) -> std::io::Result<Vec<u8>> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
    packer.write_all(file.as_bytes())?;
    packer.finish()
}

fn unpacked(file: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    GzDecoder::new(file).take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}
