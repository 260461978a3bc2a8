//! Jobs and alerts as rows: JSON with a checksum over the whole row.
//!
//! Users rely on a job's row to judge their backup. A damaged row is therefore refused, so that it never shows a wrong
//! outcome, or an end before its start. Other rows are not affected.

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row, SqliteConnection};

use crate::alert::Alert;
use crate::job::{Job, MOST_NOTES};
use crate::source::{Note, NoteCommand};

/// A row that differs from the stored one.
#[derive(Debug, thiserror::Error)]
#[error("the row of {what} {id} is damaged")]
struct DamagedRow {
    what: &'static str,
    id: i64,
}

/// The columns beside the body, for the checksum.
struct JobColumns {
    id: i64,
    key: String,
    started_ms: i64,
    ended_ms: Option<i64>,
    origin: Option<String>,
    read_counter: Option<i64>,
}

impl JobColumns {
    fn of(job: &Job) -> Self {
        Self {
            id: job.id,
            key: job.key.clone(),
            started_ms: job.started_at.as_millisecond(),
            ended_ms: job.ended_at.map(|at| at.as_millisecond()),
            origin: job
                .origin
                .as_ref()
                .map(|origin| format!("{}/{origin}", job.vg.as_deref().unwrap_or_default())),
            read_counter: job.read_counter.and_then(|bytes| i64::try_from(bytes).ok()),
        }
    }

    fn checksum(&self, body: &str) -> u32 {
        let Self { id, key, started_ms, ended_ms, origin, read_counter } = self;
        checksum(&(id, key, started_ms, ended_ms, origin, read_counter, body))
    }
}

/// CRC-32 of the fields as JSON, which distinguishes `NULL` from 0, and separates texts.
fn checksum(fields: &impl Serialize) -> u32 {
    crc32fast::hash(&serde_json::to_vec(fields).unwrap_or_default())
}

pub async fn write_job(connection: &mut SqliteConnection, job: &Job) -> anyhow::Result<()> {
    let (columns, body) = (JobColumns::of(job), serde_json::to_string(job)?);
    let checksum = columns.checksum(&body);
    sqlx::query(
        "INSERT INTO job_record (id, key, started_ms, ended_ms, origin, read_counter, body, checksum)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)
         -- A job that memory had forgotten comes back under its key with a new number.
         ON CONFLICT (key) DO UPDATE SET id = excluded.id, started_ms = excluded.started_ms,
             ended_ms = excluded.ended_ms, origin = excluded.origin, read_counter = excluded.read_counter,
             body = excluded.body, checksum = excluded.checksum",
    )
    .bind(columns.id)
    .bind(columns.key)
    .bind(columns.started_ms)
    .bind(columns.ended_ms)
    .bind(columns.origin)
    .bind(columns.read_counter)
    .bind(body)
    .bind(checksum)
    .execute(connection)
    .await
    .with_context(|| format!("cannot store job {}", job.id))?;
    Ok(())
}

/// Adds a note to a job that only the database has.
pub async fn write_note(connection: &mut SqliteConnection, command: &NoteCommand) -> anyhow::Result<()> {
    let row = sqlx::query("SELECT * FROM job_record WHERE key = ?").bind(&command.key);
    let Some(row) = row.fetch_optional(&mut *connection).await? else { return Ok(()) };
    let mut job = Job::from_row(&row)?;
    add_note(&mut job.notes, &command.note);
    write_job(connection, &job).await
}

/// Equal notes are stored once.
fn add_note(notes: &mut Vec<Note>, note: &Note) {
    if !notes.contains(note) && notes.len() < MOST_NOTES {
        notes.push(note.clone());
        notes.sort_by_key(|note| note.at);
    }
}

/// Deletes an ended job. Its number is not reused.
pub async fn remove_job(connection: &mut SqliteConnection, key: &str) -> anyhow::Result<()> {
    sqlx::query(
        "INSERT INTO deleted_number (one, job) SELECT 1, id FROM job_record WHERE key = ? AND ended_ms IS NOT NULL
         ON CONFLICT (one) DO UPDATE SET job = max(job, excluded.job)",
    )
    .bind(key)
    .execute(&mut *connection)
    .await
    .with_context(|| format!("cannot store the number of job {key}"))?;
    sqlx::query("DELETE FROM job_record WHERE key = ? AND ended_ms IS NOT NULL")
        .bind(key)
        .execute(connection)
        .await
        .with_context(|| format!("cannot delete job {key}"))?;
    Ok(())
}

/// Stores an imported job with its file, packed.
pub async fn write_imported(connection: &mut SqliteConnection, job: &Job, file: &[u8]) -> anyhow::Result<()> {
    write_job(connection, job).await?;
    sqlx::query("INSERT INTO imported (key, file) VALUES (?, ?) ON CONFLICT (key) DO NOTHING")
        .bind(&job.key)
        .bind(file)
        .execute(connection)
        .await
        .with_context(|| format!("cannot store the file of job {}", job.id))?;
    Ok(())
}

pub async fn write_alert(connection: &mut SqliteConnection, alert: &Alert) -> anyhow::Result<()> {
    let body = serde_json::to_string(alert)?;
    let (raised_ms, cleared_ms) =
        (alert.raised_at.as_millisecond(), alert.cleared_at.map(|at| at.as_millisecond()));
    sqlx::query(
        "INSERT INTO alert_record (id, raised_ms, cleared_ms, body, checksum) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET raised_ms = excluded.raised_ms, cleared_ms = excluded.cleared_ms,
             body = excluded.body, checksum = excluded.checksum",
    )
    .bind(alert.id)
    .bind(raised_ms)
    .bind(cleared_ms)
    .bind(&body)
    .bind(checksum(&(alert.id, raised_ms, cleared_ms, &body)))
    .execute(connection)
    .await
    .with_context(|| format!("cannot store alert {}", alert.id))?;
    Ok(())
}

impl FromRow<'_, SqliteRow> for Job {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let columns = JobColumns {
            id: row.try_get("id")?,
            key: row.try_get("key")?,
            started_ms: row.try_get("started_ms")?,
            ended_ms: row.try_get("ended_ms")?,
            origin: row.try_get("origin")?,
            read_counter: row.try_get("read_counter")?,
        };
        let body: String = row.try_get("body")?;
        let mut job: Self = checked(row, ("job", columns.id), columns.checksum(&body), &body)?;
        job.read_counter = columns.read_counter.map(i64::unsigned_abs);
        (job.id, job.key) = (columns.id, columns.key);
        Ok(job)
    }
}

impl FromRow<'_, SqliteRow> for Alert {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let (id, body): (i64, String) = (row.try_get("id")?, row.try_get("body")?);
        let (raised_ms, cleared_ms): (i64, Option<i64>) =
            (row.try_get("raised_ms")?, row.try_get("cleared_ms")?);
        checked(row, ("alert", id), checksum(&(id, raised_ms, cleared_ms, &body)), &body)
    }
}

fn checked<T: DeserializeOwned>(
    row: &SqliteRow,
    (what, id): (&'static str, i64),
    checksum: u32,
    body: &str,
) -> sqlx::Result<T> {
    let damaged = || sqlx::Error::Decode(DamagedRow { what, id }.into());
    if row.try_get::<u32, _>("checksum").ok() != Some(checksum) {
        return Err(damaged());
    }
    serde_json::from_str(body).map_err(|_| damaged())
}

/// Decodes rows one by one. Omits damaged rows, and returns a sentence for each.
pub fn readable<T: for<'r> FromRow<'r, SqliteRow>>(rows: &[SqliteRow]) -> (Vec<T>, Vec<String>) {
    let (mut found, mut damage) = (Vec::with_capacity(rows.len()), Vec::new());
    for row in rows {
        match T::from_row(row) {
            Ok(record) => found.push(record),
            Err(sqlx::Error::Decode(error)) if error.is::<DamagedRow>() => damage.push(error.to_string()),
            Err(error) => damage.push(format!("a row cannot be read: {error}")),
        }
    }
    (found, damage)
}
