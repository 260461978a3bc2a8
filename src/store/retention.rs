//! Deletes old data in small steps, so that the writer is not delayed, and returns the space to the file system.
//!
//! The age of ten minutes of ticks is the time watched since then: the sum of the lengths of later ticks. It does not depend
//! on the wall clock, so a wrong clock deletes nothing, and nothing ages while cowbell is stopped. Rows are deleted in
//! windows of ten minutes, after they were rolled up.

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::address::{Level, Position};
use super::stored::{earliest_ms, watched_ms};
use crate::config::{self, Age};

/// Maximum windows that one step deletes: some milliseconds of work.
const AT_ONCE: usize = 8;
/// Maximum windows that one step looks at.
const LOOK_AT: i64 = 500;
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
    /// For each step of deletion, the number of the last window that it has dealt with.
    done_to: [i64; 3],
}

/// Ticks without a job go first, then ticks of jobs, then minutes. At last ten minutes, which have no finer level to wait
/// for.
const STEPS: [(Level, bool); 3] = [
    (Level::Ticks, false),
    (Level::Ticks, true),
    (Level::Minutes, true),
];

impl Retention {
    pub fn new(keep: config::Store) -> Self {
        Self {
            keep,
            done_at_ms: None,
            done_to: [-1; 3],
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

    async fn delete(
        &mut self,
        connection: &mut SqliteConnection,
        now_ms: i64,
    ) -> anyhow::Result<bool> {
        let keep = self.keep;
        // All used pages without the jobs' share.
        let bytes = used_bytes(connection)
            .await?
            .saturating_sub(jobs_bytes(connection).await?);
        let is_crowded = bytes > keep.bytes_for_ticks();
        let until_ms = |age: Age| {
            let age = if is_crowded { LEAST_KEPT } else { age };
            now_ms.saturating_sub(age.ms())
        };
        let ages = [keep.ticks, keep.jobs, keep.minutes];
        for ((step, done_to), age) in STEPS.into_iter().zip(&mut self.done_to).zip(ages) {
            if delete_windows(connection, step, done_to, until_ms(age)).await? {
                return Ok(true);
            }
        }
        delete_ten_minutes(connection, until_ms(keep.minutes)).await
    }
}

/// Deletes a level's rows of some of the oldest windows, up to `until_ms` of the time watched. Without `is_of_job`, windows
/// in which a job ran stay. Returns whether there may be more.
async fn delete_windows(
    connection: &mut SqliteConnection,
    (level, is_of_job): (Level, bool),
    done_to: &mut i64,
    until_ms: i64,
) -> anyhow::Result<bool> {
    let found: Vec<i64> = sqlx::query_scalar(
        "SELECT id FROM (SELECT id, watched_ms FROM ten_minute WHERE id > ? ORDER BY id LIMIT ?)
         WHERE watched_ms <= ?",
    )
    .bind(*done_to)
    .bind(LOOK_AT)
    .bind(until_ms)
    .fetch_all(&mut *connection)
    .await?;
    let has_more = !found.is_empty();
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut windows = 0;
    for last in found {
        let position = Position::numbered(last);
        let window = position.window();
        if is_of_job || !had_job(&mut transaction, window.begin_ms(), position.at_ms).await? {
            let delete = format!("DELETE FROM {} WHERE id BETWEEN ? AND ?", level.table());
            let deleted = sqlx::query(AssertSqlSafe(delete))
                .bind(window.numbers().0)
                .bind(last)
                .execute(&mut *transaction)
                .await?;
            windows += usize::from(deleted.rows_affected() > 0);
        }
        *done_to = last;
        if windows == AT_ONCE {
            break;
        }
    }
    transaction.commit().await?;
    Ok(has_more)
}

/// Whether a job of this machine ran in this time.
async fn had_job(
    connection: &mut SqliteConnection,
    from_ms: i64,
    to_ms: i64,
) -> anyhow::Result<bool> {
    let had_job = sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM job_record WHERE started_ms <= ?2 AND coalesce(ended_ms, ?2) >= ?1
             AND key NOT IN (SELECT key FROM imported))",
    );
    Ok(had_job
        .bind(from_ms)
        .bind(to_ms)
        .fetch_one(connection)
        .await?)
}

/// Deletes rows of ten minutes. Those of a job whose ticks are kept for longer stay, since retention finds ticks by them.
async fn delete_ten_minutes(
    connection: &mut SqliteConnection,
    until_ms: i64,
) -> anyhow::Result<bool> {
    let deleted = sqlx::query(
        "DELETE FROM ten_minute WHERE id IN (SELECT id FROM ten_minute WHERE watched_ms <= ?
             AND NOT EXISTS (SELECT 1 FROM tick WHERE tick.id = ten_minute.id) ORDER BY id LIMIT ?)",
    )
    .bind(until_ms)
    .bind(LOOK_AT)
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected() > 0)
}

/// Deletes alerts and gaps that are older than all ticks. Jobs stay for comparison. The last alert stays, since its number
/// must not be given again.
async fn forget_alerts_and_gaps(connection: &mut SqliteConnection) -> anyhow::Result<()> {
    let Some(first_ms) = earliest_ms(connection).await? else {
        return Ok(());
    };
    for statement in [
        "DELETE FROM alert_record WHERE cleared_ms < ? AND id < (SELECT max(id) FROM alert_record)",
        "DELETE FROM silence WHERE until_ms < ?",
        "DELETE FROM gap WHERE to_ms < ?",
    ] {
        sqlx::query(statement)
            .bind(first_ms)
            .execute(&mut *connection)
            .await?;
    }
    // A higher one is of an alert that is not written yet.
    sqlx::query(
        "DELETE FROM delivery_record WHERE alert NOT IN (SELECT id FROM alert_record)
             AND alert < (SELECT max(id) FROM alert_record)",
    )
    .execute(connection)
    .await?;
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
