//! What is old is deleted, the finest first, in small steps that never hold the writer up; and space is given back.

mod passed;

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::rolling::{roll_up_old, rolled_until};
use super::seal::delete_segment;
use super::segment::Level;
use crate::config;
use passed::Passed;

/// Segments that one step looks at most: a few milliseconds of work.
const AT_ONCE: i64 = 32;
/// Pages that one step gives back to the file system at most.
const PAGES_AT_ONCE: i64 = 256;
/// Whatever the limit of size, so much of each level stays.
const LEAST_KEPT_MS: i64 = 24 * 3600 * 1000;
/// Segments that were kept for a job are looked at again this often.
const LOOK_AGAIN_MS: i64 = 24 * 3600 * 1000;

/// Deletes what is older than it is to be, or does not fit.
#[derive(Debug)]
pub struct Retention {
    keep: config::Store,
    /// Of the ticks: segments up to these were looked at, and those that are left are a job's.
    aged: i64,
    crowded: i64,
    began_ms: i64,
    passed: Passed,
}

/// What is old: what ended before a time, and of what is stamped later than now, what has a number up to this.
#[derive(Clone, Copy)]
struct Old {
    before_ms: i64,
    number: i64,
}

/// A segment that may go, and whether it has ticks of a job.
type Candidate = (i64, bool);

impl Retention {
    pub fn new(keep: config::Store) -> Self {
        Self { keep, aged: 0, crowded: 0, began_ms: i64::MIN, passed: Passed::default() }
    }

    /// Deletes a little of what is oldest and gives space back; says whether a next step may find more.
    ///
    /// A segment goes only when all of it is in the level above. Ticks of a job's time stay for as long as jobs' do,
    /// unless it gets too much.
    pub async fn step(&mut self, connection: &mut SqliteConnection, now_ms: i64) -> anyhow::Result<bool> {
        if !(self.began_ms..self.began_ms.saturating_add(LOOK_AGAIN_MS)).contains(&now_ms) {
            (self.aged, self.crowded, self.began_ms) = (0, 0, now_ms);
            self.passed = Passed::of(connection, &self.keep, now_ms).await?;
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
        let (keep, passed) = (self.keep, self.passed);
        let older = |age, number| Old { before_ms: now_ms - age_ms(age), number };
        let ticks = older(keep.ticks, passed.ticks);
        let tens = older(keep.ten_seconds, passed.ten_seconds);
        let jobs = older(keep.jobs, passed.jobs);
        let found = old_ticks(connection, self.aged, now_ms, ticks, tens, jobs).await?;
        if let Some((last, _)) = found.last() {
            let free = free(&found);
            // Behind what may go there may be more that is only now to be rolled up.
            if free.is_empty() {
                self.aged = *last;
            }
            delete(connection, &free).await?;
            return Ok(true);
        }
        if roll_up_old(connection, tens.before_ms, ticks.before_ms).await? {
            return Ok(true);
        }
        let minutes = older(keep.minutes, passed.minutes);
        for (level, old) in
            [(Level::TenSeconds, tens), (Level::Minutes, minutes), (Level::TenMinutes, minutes)]
        {
            if delete_oldest(connection, level, now_ms, old).await? {
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
        let old = Old { before_ms: now_ms - LEAST_KEPT_MS, number: self.passed.least };
        let tens = Old { before_ms: now_ms - age_ms(self.keep.ten_seconds), number: self.passed.ten_seconds };
        let all_jobs = Old { before_ms: i64::MIN, number: 0 };
        let found = old_ticks(connection, self.crowded, now_ms, old, tens, all_jobs).await?;
        if let Some((last, _)) = found.last() {
            let free = free(&found);
            // Behind what may go there may be more that is only now to be rolled up.
            if free.is_empty() {
                self.crowded = *last;
            }
            delete(connection, &free).await?;
            return Ok(true);
        }
        // One window after the other, each deleted before the next is rolled up: else all would grow first.
        if roll_up_old(connection, tens.before_ms, old.before_ms).await? {
            return Ok(true);
        }
        let no_jobs = Old { before_ms: i64::MAX, number: 0 };
        let of_jobs = old_ticks(connection, 0, now_ms, old, tens, no_jobs).await?;
        if !of_jobs.is_empty() {
            delete(connection, &free(&of_jobs)).await?;
            return Ok(true);
        }
        for level in [Level::TenSeconds, Level::Minutes, Level::TenMinutes] {
            if delete_oldest(connection, level, now_ms, old).await? {
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

/// The oldest segments of ticks behind `after` that are old and in minutes, and in ten seconds unless those would be old
/// too; each with whether a job ran in its time that is not old.
async fn old_ticks(
    connection: &mut SqliteConnection,
    after: i64,
    now_ms: i64,
    old: Old,
    tens: Old,
    jobs: Old,
) -> anyhow::Result<Vec<Candidate>> {
    let in_minutes = rolled_until(connection, Level::Minutes).await?;
    let in_tens = rolled_until(connection, Level::TenSeconds).await?;
    Ok(sqlx::query_as(
        "SELECT id, (to_ms <= ?7 OR id > ?10) AND EXISTS (
             SELECT 1 FROM job WHERE job.started_ms <= segment.to_ms
                 AND coalesce(job.ended_ms, segment.to_ms) >= max(segment.from_ms, ?11))
         FROM segment
         WHERE id > ?1 AND id <= ?2 AND (to_ms < ?4 OR to_ms > ?7 AND id <= ?8)
             AND (id <= ?3 OR to_ms < ?5 OR to_ms > ?7 AND id <= ?9) ORDER BY id LIMIT ?6",
    )
    .bind(after)
    .bind(Level::Ticks.key(in_minutes))
    .bind(Level::Ticks.key(in_tens))
    .bind(old.before_ms)
    .bind(tens.before_ms)
    .bind(AT_ONCE)
    .bind(now_ms)
    .bind(Level::Ticks.key(old.number))
    .bind(Level::Ticks.key(tens.number))
    .bind(Level::Ticks.key(jobs.number))
    .bind(jobs.before_ms)
    .fetch_all(connection)
    .await?)
}

/// Deletes some of the oldest roll-ups that are old, and says whether there were any. Minutes go only when they are in ten
/// minutes.
async fn delete_oldest(
    connection: &mut SqliteConnection,
    level: Level,
    now_ms: i64,
    old: Old,
) -> anyhow::Result<bool> {
    let last = match level {
        Level::Minutes => level.key(rolled_until(connection, Level::TenMinutes).await?),
        _ => level.keys().1 - 1,
    };
    let found: Vec<i64> = sqlx::query_scalar(
        "SELECT id FROM segment
         WHERE id >= ? AND id <= ? AND (to_ms < ? OR to_ms > ? AND last_source <= ?) ORDER BY id LIMIT ?",
    )
    .bind(level.keys().0)
    .bind(last)
    .bind(old.before_ms)
    .bind(now_ms)
    .bind(old.number)
    .bind(AT_ONCE)
    .fetch_all(&mut *connection)
    .await?;
    delete(connection, &found).await?;
    Ok(!found.is_empty())
}

async fn delete(connection: &mut SqliteConnection, doomed: &[i64]) -> anyhow::Result<()> {
    if doomed.is_empty() {
        return Ok(());
    }
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    for id in doomed {
        delete_segment(&mut transaction, *id).await?;
    }
    Ok(transaction.commit().await?)
}

/// Alerts and gaps are of no use when nothing else of their time is left. Jobs stay: they are what is compared.
async fn forget_lasting(connection: &mut SqliteConnection, before_ms: i64) -> anyhow::Result<()> {
    sqlx::query("DELETE FROM alert_record WHERE cleared_ms < ?")
        .bind(before_ms)
        .execute(&mut *connection)
        .await?;
    sqlx::query("DELETE FROM gap WHERE to_ms < ?").bind(before_ms).execute(connection).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
