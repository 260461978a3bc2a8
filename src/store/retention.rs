//! Deletes old data in small steps, so that the writer is not delayed, and returns the space to the file system.
//!
//! The age of a segment is the time watched since then: the sum of the lengths of later ticks. It does not depend on the
//! wall clock, so a wrong clock deletes nothing, and nothing ages while cowbell is stopped.

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::seal::{delete_segment, rolled_until, watched_ms};
use super::segment::Level;
use crate::config::{self, Age};

/// Maximum segments that one step deletes: a few milliseconds of work.
const AT_ONCE: i64 = 32;
/// Maximum pages that one step returns to the file system.
const PAGES_AT_ONCE: i64 = 256;
/// This much of each level stays, whatever the size limit.
const LEAST_KEPT: Age = Age::days(1);

/// Deletes data that is too old or exceeds the size limit.
#[derive(Debug)]
pub struct Retention {
    keep: config::Store,
    /// The time watched when nothing was left to delete. Until more is stored, nothing will be.
    done_at_ms: Option<i64>,
}

impl Retention {
    pub fn new(keep: config::Store) -> Self {
        Self {
            keep,
            done_at_ms: None,
        }
    }

    /// Deletes one step's worth and frees pages. Returns whether the next step may find more.
    pub async fn step(&mut self, connection: &mut SqliteConnection) -> anyhow::Result<bool> {
        let now_ms = watched_ms(connection).await?;
        let found = self.done_at_ms != Some(now_ms) && self.delete(connection, now_ms).await?;
        if !found && self.done_at_ms != Some(now_ms) {
            forget_alerts_and_gaps(connection).await?;
            self.done_at_ms = Some(now_ms);
        }
        // A pragma takes no parameters.
        let vacuum = format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})");
        sqlx::query(AssertSqlSafe(vacuum))
            .execute(connection)
            .await?;
        Ok(found)
    }

    /// Deletes ticks without a job first, then ticks of jobs, then roll-ups, each at its own age. If the data exceeds the
    /// size limit, the age is a day for all.
    async fn delete(&self, connection: &mut SqliteConnection, now_ms: i64) -> anyhow::Result<bool> {
        let keep = &self.keep;
        // All used pages without the jobs' share.
        let bytes = used_bytes(connection)
            .await?
            .saturating_sub(jobs_bytes(connection).await?);
        let is_crowded = bytes > keep.bytes_for_ticks();
        for (level, age, is_of_job) in [
            (Level::Ticks, keep.ticks, false),
            (Level::Ticks, keep.jobs, true),
            (Level::Minutes, keep.minutes, true),
            (Level::TenMinutes, keep.minutes, true),
        ] {
            let age = if is_crowded { LEAST_KEPT } else { age };
            if delete_oldest(
                connection,
                level,
                now_ms.saturating_sub(age.ms()),
                is_of_job,
            )
            .await?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Deletes some of a level's oldest segments, up to `until_ms` of the time watched; returns whether there were any. Without
/// `is_of_job`, segments of a job's time stay. A segment that has a coarser level is deleted only after it is part of it.
async fn delete_oldest(
    connection: &mut SqliteConnection,
    level: Level,
    until_ms: i64,
    is_of_job: bool,
) -> anyhow::Result<bool> {
    let last = match level {
        Level::Ticks => level.key(rolled_until(connection, Level::Minutes).await?),
        Level::Minutes => level.key(rolled_until(connection, Level::TenMinutes).await?),
        Level::TenMinutes => level.keys().1 - 1,
    };
    let found: Vec<i64> = sqlx::query_scalar(
        "SELECT id FROM segment WHERE watched_ms <= ? AND id BETWEEN ? AND ? AND (? OR (
             SELECT 1 FROM job_record WHERE started_ms <= to_ms AND coalesce(ended_ms, to_ms) >= from_ms
                 AND key NOT IN (SELECT key FROM imported)
             ORDER BY started_ms DESC LIMIT 1) IS NULL)
         ORDER BY watched_ms LIMIT ?",
    )
    .bind(until_ms)
    .bind(level.keys().0)
    .bind(last)
    .bind(is_of_job)
    .bind(AT_ONCE)
    .fetch_all(&mut *connection)
    .await?;
    if found.is_empty() {
        return Ok(false);
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    for id in found {
        delete_segment(&mut transaction, id).await?;
    }
    transaction.commit().await?;
    Ok(true)
}

/// Deletes alerts and gaps that are older than all ticks. Jobs stay for comparison. The last alert stays, since its number
/// must not be given again.
async fn forget_alerts_and_gaps(connection: &mut SqliteConnection) -> anyhow::Result<()> {
    for statement in [
        "DELETE FROM alert_record WHERE cleared_ms < (SELECT min(from_ms) FROM segment)
             AND id < (SELECT max(id) FROM alert_record)",
        // A higher one is of an alert that is not written yet.
        "DELETE FROM delivery_record WHERE alert NOT IN (SELECT id FROM alert_record)
             AND alert < (SELECT max(id) FROM alert_record)",
        "DELETE FROM silence WHERE until_ms < (SELECT min(from_ms) FROM segment)",
        "DELETE FROM gap WHERE to_ms < (SELECT min(from_ms) FROM segment)",
    ] {
        sqlx::query(statement).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Size of jobs and imported files. Slightly overestimated, so that ticks never make room for them.
pub async fn jobs_bytes(connection: &mut SqliteConnection) -> anyhow::Result<u64> {
    let bytes: i64 = sqlx::query_scalar(
        "SELECT CAST(1.05 * (SELECT total(length(file)) FROM imported)
             + 1.05 * (SELECT total(300 + length(body)) FROM job_record) AS INTEGER)",
    )
    .fetch_one(connection)
    .await?;
    Ok(bytes.unsigned_abs())
}

/// Bytes of the database's pages that are in use.
pub async fn used_bytes(connection: &mut SqliteConnection) -> anyhow::Result<u64> {
    let bytes: i64 = sqlx::query_scalar(
        "SELECT (page_count - freelist_count) * page_size
         FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
    )
    .fetch_one(connection)
    .await?;
    Ok(bytes.unsigned_abs())
}

#[cfg(test)]
mod tests;
