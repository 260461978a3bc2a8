//! Jobs and alerts as rows: JSON with a checksum over the whole row.
//!
//! Users rely on a job's row to judge their backup. A damaged row is therefore refused, so that it never shows a wrong
//! outcome, or an end before its start. Other rows are not affected.

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row, SqliteConnection};

use crate::alert::{Alert, StoredAlert};
use crate::commands::Note;
use crate::job::{Job, MOST_NOTES};

/// A row that differs from the stored one.
#[derive(Debug, thiserror::Error)]
#[error("the row of {what} {id} is damaged")]
struct DamagedRow {
    what: &'static str,
    id: i64,
}

/// CRC-32 of the fields as JSON, which distinguishes `NULL` from 0, and separates texts.
fn checksum(fields: &impl Serialize) -> u32 {
    crc32fast::hash(&serde_json::to_vec(fields).unwrap_or_default())
}

pub async fn write_job(connection: &mut SqliteConnection, job: &Job) -> anyhow::Result<()> {
    let origin = job.origin.as_ref();
    let origin = origin.map(|origin| format!("{}/{origin}", job.vg.as_deref().unwrap_or_default()));
    let started_ms = job.started_at.as_millisecond();
    let ended_ms = job.ended_at.map(|at| at.as_millisecond());
    let read_counter = job.read_counter.and_then(|bytes| i64::try_from(bytes).ok());
    let body = serde_json::to_string(job)?;
    let checksum = checksum(&(
        job.id,
        &job.key,
        started_ms,
        ended_ms,
        &origin,
        read_counter,
        &body,
    ));
    sqlx::query(
        "INSERT INTO job_record (id, key, started_ms, ended_ms, origin, read_counter, body, checksum)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)
         -- A job that memory had forgotten comes back under its key with a new number.
         ON CONFLICT (key) DO UPDATE SET id = excluded.id, started_ms = excluded.started_ms,
             ended_ms = excluded.ended_ms, origin = excluded.origin, read_counter = excluded.read_counter,
             body = excluded.body, checksum = excluded.checksum",
    )
    .bind(job.id)
    .bind(&job.key)
    .bind(started_ms)
    .bind(ended_ms)
    .bind(origin)
    .bind(read_counter)
    .bind(body)
    .bind(checksum)
    .execute(connection)
    .await
    .with_context(|| format!("cannot store job {}", job.id))?;
    Ok(())
}

/// Adds a note to a job that only the database has.
pub async fn write_note(
    connection: &mut SqliteConnection,
    key: &str,
    note: &Note,
) -> anyhow::Result<()> {
    let row = sqlx::query("SELECT * FROM job_record WHERE key = ?").bind(key);
    let Some(row) = row.fetch_optional(&mut *connection).await? else {
        return Ok(());
    };
    let mut job = Job::from_row(&row)?;
    // Equal notes are stored once.
    if !job.notes.contains(note) && job.notes.len() < MOST_NOTES {
        job.notes.push(note.clone());
        job.notes.sort_by_key(|note| note.at);
    }
    write_job(connection, &job).await
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
pub async fn write_imported(
    connection: &mut SqliteConnection,
    job: &Job,
    file: &[u8],
) -> anyhow::Result<()> {
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
    let body = serde_json::to_string(&StoredAlert::from(alert.clone()))?;
    let raised_ms = alert.raised_at.as_millisecond();
    let cleared_ms = alert.cleared_at.map(|at| at.as_millisecond());
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

/// A job's row up to its checksum: number, key, start, end, origin, the device's counter, and the body.
type JobFields = (
    i64,
    String,
    i64,
    Option<i64>,
    Option<String>,
    Option<i64>,
    String,
);

impl FromRow<'_, SqliteRow> for Job {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let fields = JobFields::from_row(row)?;
        let mut job: Self = checked(row, ("job", fields.0), &fields, &fields.6)?;
        let (id, key, .., read_counter, _) = fields;
        job.id = id;
        job.key = key;
        job.read_counter = read_counter.map(i64::unsigned_abs);
        Ok(job)
    }
}

impl FromRow<'_, SqliteRow> for Alert {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let fields = <(i64, i64, Option<i64>, String)>::from_row(row)?;
        checked::<StoredAlert>(row, ("alert", fields.0), &fields, &fields.3).map(Self::from)
    }
}

/// The body of a row with these fields, if they have the row's checksum.
fn checked<T: DeserializeOwned>(
    row: &SqliteRow,
    (what, id): (&'static str, i64),
    fields: &impl Serialize,
    body: &str,
) -> sqlx::Result<T> {
    let is_sound = row
        .try_get::<u32, _>("checksum")
        .is_ok_and(|stored| stored == checksum(fields));
    let body = is_sound.then(|| serde_json::from_str(body).ok()).flatten();
    body.ok_or_else(|| sqlx::Error::Decode(DamagedRow { what, id }.into()))
}

/// Decodes rows one by one. Omits damaged rows, and returns a sentence for each.
pub fn readable<T: for<'r> FromRow<'r, SqliteRow>>(rows: &[SqliteRow]) -> (Vec<T>, Vec<String>) {
    let mut found = Vec::with_capacity(rows.len());
    let mut damage = Vec::new();
    for row in rows {
        match T::from_row(row) {
            Ok(record) => found.push(record),
            Err(sqlx::Error::Decode(error)) if error.is::<DamagedRow>() => {
                damage.push(error.to_string())
            }
            Err(error) => damage.push(format!("a row cannot be read: {error}")),
        }
    }
    (found, damage)
}

/// The valid records. Damaged rows are logged.
pub fn readable_records<T: for<'r> FromRow<'r, SqliteRow>>(rows: &[SqliteRow]) -> Vec<T> {
    let (found, damage) = readable(rows);
    damage
        .iter()
        .for_each(|sentence| tracing::warn!("{sentence} and left out"));
    found
}
