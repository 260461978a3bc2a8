//! What is old is deleted, the finest first, in small steps that never hold the writer up; and space is given back.

use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::seal::rolled_until;
use super::segment::Level;
use crate::config;

/// Segments that one step looks at most: a few milliseconds of work.
const AT_ONCE: i64 = 32;
/// Pages that one step gives back to the file system at most.
const PAGES_AT_ONCE: i64 = 256;
/// Whatever the limit of size, so much of each level stays.
const LEAST_KEPT_MS: i64 = 24 * 3600 * 1000;
/// Segments that were kept for a job are looked at again this often.
const LOOK_AGAIN: Duration = Duration::from_secs(24 * 3600);

/// Deletes what is older than it is to be, or does not fit.
#[derive(Debug)]
pub struct Retention {
    keep: config::Store,
    /// Of the ticks: segments up to these were looked at, and those that are left are a job's.
    aged: i64,
    crowded: i64,
    began: Instant,
}

/// A segment that may go, and whether it has ticks of a job.
type Candidate = (i64, bool);

impl Retention {
    pub fn new(keep: config::Store) -> Self {
        Self { keep, aged: 0, crowded: 0, began: Instant::now() }
    }

    /// Deletes a little of what is oldest and gives space back; says whether a next step may find more.
    ///
    /// A segment goes only when all of it is in the level above. Ticks of a job's time stay for as long as jobs' do,
    /// unless it gets too much.
    pub async fn step(&mut self, connection: &mut SqliteConnection, now_ms: i64) -> anyhow::Result<bool> {
        if self.began.elapsed() >= LOOK_AGAIN {
            (self.aged, self.crowded, self.began) = (0, 0, Instant::now());
        }
        let looked_at =
            self.outlived(connection, now_ms).await? || self.in_the_way(connection, now_ms).await?;
        if !looked_at {
            forget_lasting(connection, now_ms - age_ms(self.keep.minutes)).await?;
        }
        // A pragma takes no parameters.
        let vacuum = format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})");
        sqlx::query(AssertSqlSafe(vacuum)).execute(connection).await?;
        Ok(looked_at)
    }

    /// Segments that are older than they are to be.
    async fn outlived(&mut self, connection: &mut SqliteConnection, now_ms: i64) -> anyhow::Result<bool> {
        let jobs_since = now_ms - age_ms(self.keep.jobs);
        let before = now_ms - age_ms(self.keep.ticks);
        let found = candidates(connection, Level::Ticks, self.aged, before, jobs_since).await?;
        if let Some((last, _)) = found.last() {
            self.aged = *last;
            delete(connection, &free(&found)).await?;
            return Ok(true);
        }
        for (level, age) in [(Level::TenSeconds, self.keep.ten_seconds), (Level::Minutes, self.keep.minutes)]
        {
            let found = candidates(connection, level, 0, now_ms - age_ms(age), i64::MAX).await?;
            if !found.is_empty() {
                delete(connection, &free(&found)).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Where all together is too large: ticks without a job give way first, then those of the oldest jobs, then the
    /// roll-ups.
    async fn in_the_way(&mut self, connection: &mut SqliteConnection, now_ms: i64) -> anyhow::Result<bool> {
        if used_bytes(connection).await? <= i64::try_from(self.keep.size.0)? {
            return Ok(false);
        }
        let before = now_ms - LEAST_KEPT_MS;
        let found = candidates(connection, Level::Ticks, self.crowded, before, i64::MIN).await?;
        if let Some((last, _)) = found.last() {
            self.crowded = *last;
            delete(connection, &free(&found)).await?;
            return Ok(true);
        }
        for level in Level::ALL {
            let found = candidates(connection, level, 0, before, i64::MAX).await?;
            if !found.is_empty() {
                delete(connection, &free(&found)).await?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Bytes of the database's pages that are in use.
pub async fn used_bytes(connection: &mut SqliteConnection) -> anyhow::Result<i64> {
    Ok(sqlx::query_scalar(
        "SELECT (page_count - freelist_count) * page_size
         FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
    )
    .fetch_one(connection)
    .await?)
}

fn age_ms(age: config::Age) -> i64 {
    i64::try_from(age.0.as_millis()).unwrap_or(i64::MAX)
}

fn free(candidates: &[Candidate]) -> Vec<i64> {
    candidates.iter().filter(|(_, is_held)| !is_held).map(|(id, _)| *id).collect()
}

/// The oldest segments of a level behind `after` that ended before `before_ms` and are in the level above; each with
/// whether a job ran in its time, and after `jobs_since_ms`.
async fn candidates(
    connection: &mut SqliteConnection,
    level: Level,
    after: i64,
    before_ms: i64,
    jobs_since_ms: i64,
) -> anyhow::Result<Vec<Candidate>> {
    let above = Level::ALL.into_iter().find(|other| other.finer() == Some(level));
    let rolled = match above {
        Some(above) => level.key(rolled_until(connection, above).await?),
        None => level.keys().1,
    };
    let (first, end) = level.keys();
    Ok(sqlx::query_as(
        "SELECT id, EXISTS (
             SELECT 1 FROM job WHERE job.started_ms <= segment.to_ms
                 AND coalesce(job.ended_ms, segment.to_ms) >= max(segment.from_ms, ?5))
         FROM segment WHERE id >= ?1 AND id > ?2 AND id <= min(?3, ?7) AND to_ms < ?4 ORDER BY id LIMIT ?6",
    )
    .bind(first)
    .bind(after)
    .bind(rolled)
    .bind(before_ms)
    .bind(jobs_since_ms)
    .bind(AT_ONCE)
    .bind(end - 1)
    .fetch_all(connection)
    .await?)
}

async fn delete(connection: &mut SqliteConnection, doomed: &[i64]) -> anyhow::Result<()> {
    if doomed.is_empty() {
        return Ok(());
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    for id in doomed {
        sqlx::query("DELETE FROM chunk WHERE id >= ?1 << 24 AND id < (?1 + 1) << 24")
            .bind(id)
            .execute(&mut *transaction)
            .await?;
        sqlx::query("DELETE FROM segment WHERE id = ?").bind(id).execute(&mut *transaction).await?;
    }
    Ok(transaction.commit().await?)
}

/// Alerts and gaps are of no use when nothing else of their time is left. Jobs stay: they are what is compared.
async fn forget_lasting(connection: &mut SqliteConnection, before_ms: i64) -> anyhow::Result<()> {
    sqlx::query("DELETE FROM alert WHERE cleared_ms < ?").bind(before_ms).execute(&mut *connection).await?;
    sqlx::query("DELETE FROM gap WHERE to_ms < ?").bind(before_ms).execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
