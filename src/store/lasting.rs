//! Questions about what lasts: jobs and alerts, and what was open when the program ended.

use anyhow::Context;
use jiff::Timestamp;
use serde::Deserialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row, SqliteConnection};

use super::readers::Reader;
use super::rows::last_instant;
use super::{StoreReader, open, place};
use crate::alert::{Alert, Rule, Severity};
use crate::job::Job;
use crate::series::Range;
use crate::series::quantity::named;

/// Ended jobs that are gone on with after a start, should their volumes come back.
const JOBS_TO_RESUME: i64 = 200;

/// What an earlier run of the program left open, and where its numbers ended.
#[derive(Debug, Default)]
pub struct StartState {
    pub jobs: Vec<Job>,
    pub last_job_id: i64,
    pub alerts: Vec<Alert>,
    pub last_alert_id: i64,
    /// The last tick that was kept before the program ended.
    pub last_tick_at: Option<Timestamp>,
}

impl StoreReader {
    /// Jobs that ran at any time in the range, the latest first.
    pub async fn jobs(&self, range: Range, most: usize) -> anyhow::Result<Vec<Job>> {
        if !self.is_open() {
            return Ok(Vec::new());
        }
        let jobs = sqlx::query_as(
            "SELECT * FROM job WHERE started_ms <= ?1 AND coalesce(ended_ms, ?1) >= ?2
             ORDER BY started_ms DESC, id DESC LIMIT ?3",
        )
        .bind(range.to.as_millisecond())
        .bind(range.from.as_millisecond())
        .bind(i64::try_from(most)?);
        let reading = |mut connection: Reader| async move { Ok(jobs.fetch_all(&mut *connection).await?) };
        self.readers.read(reading).await.context("cannot read jobs")
    }

    pub async fn job(&self, id: i64) -> anyhow::Result<Option<Job>> {
        if !self.is_open() {
            return Ok(None);
        }
        let job = sqlx::query_as("SELECT * FROM job WHERE id = ?").bind(id);
        let reading = |mut connection: Reader| async move { Ok(job.fetch_optional(&mut *connection).await?) };
        self.readers.read(reading).await.with_context(|| format!("cannot read job {id}"))
    }

    /// The job of this key.
    pub async fn job_of(&self, key: &str) -> anyhow::Result<Option<Job>> {
        if !self.is_open() {
            return Ok(None);
        }
        let job = sqlx::query_as("SELECT * FROM job WHERE key = ?").bind(key.to_string());
        let reading = |mut connection: Reader| async move { Ok(job.fetch_optional(&mut *connection).await?) };
        self.readers.read(reading).await.with_context(|| format!("cannot read the job of the key {key}"))
    }

    /// Alerts, the latest first.
    pub async fn alerts(&self, most: usize) -> anyhow::Result<Vec<Alert>> {
        if !self.is_open() {
            return Ok(Vec::new());
        }
        let alerts = sqlx::query_as("SELECT * FROM alert ORDER BY raised_ms DESC, id DESC LIMIT ?")
            .bind(i64::try_from(most)?);
        let reading = |mut connection: Reader| async move { Ok(alerts.fetch_all(&mut *connection).await?) };
        self.readers.read(reading).await.context("cannot read alerts")
    }

    /// What an earlier run left behind.
    pub async fn known(&self) -> anyhow::Result<StartState> {
        let mut known = match place::has_content(&self.path)? {
            true => known(&mut open::to_look_at(&self.path).await?).await?,
            false => StartState::default(),
        };
        let last =
            self.recent.all().ticks.last().and_then(|tick| Timestamp::from_millisecond(tick.at_ms).ok());
        known.last_tick_at = last.or(known.last_tick_at);
        Ok(known)
    }

    /// Whether the database could be opened yet; until then there is memory alone.
    pub(super) fn is_open(&self) -> bool {
        self.health.borrow().is_open
    }
}

async fn known(connection: &mut SqliteConnection) -> anyhow::Result<StartState> {
    let jobs = sqlx::query("SELECT * FROM job ORDER BY ended_ms IS NULL DESC, id DESC LIMIT ?")
        .bind(JOBS_TO_RESUME)
        .fetch_all(&mut *connection)
        .await?;
    let alerts = sqlx::query("SELECT * FROM alert WHERE cleared_ms IS NULL ORDER BY id")
        .fetch_all(&mut *connection)
        .await?;
    let (last_job_id, last_alert_id) = sqlx::query_as(
        "SELECT max(coalesce((SELECT max(id) FROM job), 0), coalesce((SELECT job FROM deleted_number), 0)),
             coalesce((SELECT max(id) FROM alert), 0)",
    )
    .fetch_one(&mut *connection)
    .await?;
    let mut jobs = jobs.iter().map(Job::from_row).collect::<Result<Vec<_>, _>>()?;
    jobs.sort_by_key(|job| job.id);
    let last_tick_ms = last_instant(connection).await?;
    Ok(StartState {
        jobs,
        last_job_id,
        alerts: alerts.iter().map(Alert::from_row).collect::<Result<_, _>>()?,
        last_alert_id,
        last_tick_at: last_tick_ms.and_then(|at_ms| Timestamp::from_millisecond(at_ms).ok()),
    })
}

impl FromRow<'_, SqliteRow> for Alert {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            rule: word::<Rule>(row, "rule")?,
            severity: word::<Severity>(row, "severity")?,
            worst: word::<Severity>(row, "severity")?,
            vg: row.try_get("vg")?,
            lv: row.try_get("lv")?,
            uuid: row.try_get("uuid")?,
            value: row.try_get("value")?,
            raised_at: time(row, "raised_ms")?,
            cleared_at: optional_time(row, "cleared_ms")?,
            sentence: row.try_get("sentence")?,
        })
    }
}

pub(super) fn time(row: &SqliteRow, column: &str) -> sqlx::Result<Timestamp> {
    Timestamp::from_millisecond(row.try_get(column)?).map_err(|error| sqlx::Error::Decode(error.into()))
}

pub(super) fn optional_time(row: &SqliteRow, column: &str) -> sqlx::Result<Option<Timestamp>> {
    match row.try_get::<Option<i64>, _>(column)? {
        Some(_) => time(row, column).map(Some),
        None => Ok(None),
    }
}

pub(super) fn word<W: for<'a> Deserialize<'a>>(row: &SqliteRow, column: &str) -> sqlx::Result<W> {
    let text: String = row.try_get(column)?;
    named(&text).ok_or_else(|| sqlx::Error::Decode(format!("`{text}` is no word for {column}").into()))
}

pub(super) fn optional_word<W: for<'a> Deserialize<'a>>(
    row: &SqliteRow,
    column: &str,
) -> sqlx::Result<Option<W>> {
    match row.try_get::<Option<String>, _>(column)? {
        Some(_) => word(row, column).map(Some),
        None => Ok(None),
    }
}
