//! The three tables of rows: ticks, minutes and ten minutes, each by the number of the last tick that a row covers.
//!
//! A roll-up has the number of its last tick. So a row is covered by finer ones if there is a finer row of the same number,
//! and retention deletes whole windows of ten minutes.

use anyhow::Context;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, FromRow, Row, SqliteConnection};

use super::address::{Level, Position};

/// Ticks that were not stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    pub from_ms: i64,
    pub to_ms: i64,
    pub ticks: i64,
    pub reason: String,
}

impl Level {
    pub(super) fn table(self) -> &'static str {
        match self {
            Self::Ticks => "tick",
            Self::Minutes => "minute",
            Self::TenMinutes => "ten_minute",
        }
    }

    /// A row, for a sentence.
    pub(super) fn row_text(self) -> &'static str {
        match self {
            Self::Ticks => "tick",
            Self::Minutes => "minute",
            Self::TenMinutes => "ten minutes",
        }
    }
}

/// The numbers of a level's rows that end in this range of time, from-to, for each stretch of the clock that has some.
pub async fn numbers_between(
    connection: &mut SqliteConnection,
    level: Level,
    (from_ms, to_ms): (i64, i64),
) -> sqlx::Result<Vec<(i64, i64)>> {
    if to_ms < 0 || from_ms > Position::LATEST_MS {
        return Ok(Vec::new());
    }
    let sql = format!(
        "SELECT min(id), max(id) FROM {} WHERE id BETWEEN ? AND ?",
        level.table()
    );
    let mut numbers = Vec::new();
    for stretch in stretches(connection, level).await? {
        let [from, to] = [from_ms, to_ms].map(|at_ms| Position {
            stretch,
            at_ms: at_ms.clamp(0, Position::LATEST_MS),
        });
        let (first, last): (Option<i64>, Option<i64>) = sqlx::query_as(AssertSqlSafe(sql.clone()))
            .bind(from.number())
            .bind(to.number())
            .fetch_one(&mut *connection)
            .await?;
        numbers.extend(first.zip(last));
    }
    Ok(numbers)
}

/// Whether a level has a row that ends in this range of time.
pub async fn has_rows(
    connection: &mut SqliteConnection,
    level: Level,
    times: (i64, i64),
) -> anyhow::Result<bool> {
    Ok(!numbers_between(connection, level, times).await?.is_empty())
}

/// The stretches that a level has rows of. There are few, unless the clock goes back again and again.
async fn stretches(connection: &mut SqliteConnection, level: Level) -> sqlx::Result<Vec<i64>> {
    let table = level.table();
    let sql = format!(
        "WITH RECURSIVE stretch (n) AS (
             SELECT min(id) >> 44 FROM {table}
             UNION ALL SELECT (SELECT min(id) >> 44 FROM {table} WHERE id >= (n + 1) << 44) FROM stretch WHERE n IS NOT NULL)
         SELECT n FROM stretch WHERE n IS NOT NULL"
    );
    sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_all(connection)
        .await
}

/// The last tick, in the order of writing.
pub async fn last_tick(connection: &mut SqliteConnection) -> sqlx::Result<Option<Position>> {
    let ticks = last_of(connection, Level::Ticks).await?;
    // The ticks may be deleted, and their roll-ups not.
    Ok(ticks.max(rolled_to(connection).await?))
}

/// The last tick that is part of roll-ups.
pub async fn rolled_to(connection: &mut SqliteConnection) -> sqlx::Result<Option<Position>> {
    last_of(connection, Level::TenMinutes).await
}

async fn last_of(
    connection: &mut SqliteConnection,
    level: Level,
) -> sqlx::Result<Option<Position>> {
    let sql = format!("SELECT max(id) FROM {}", level.table());
    let last: Option<i64> = sqlx::query_scalar(AssertSqlSafe(sql))
        .fetch_one(connection)
        .await?;
    Ok(last.map(Position::numbered))
}

/// The earliest and the latest time of a level's rows.
pub async fn times_of(
    connection: &mut SqliteConnection,
    level: Level,
) -> sqlx::Result<Option<(i64, i64)>> {
    let all = (0, Position::LATEST_MS);
    let numbers = numbers_between(connection, level, all).await?;
    let from = numbers
        .iter()
        .map(|(first, _)| Position::numbered(*first).at_ms);
    let to = numbers
        .iter()
        .map(|(_, last)| Position::numbered(*last).at_ms);
    Ok(from.min().zip(to.max()))
}

/// The earliest time of all rows; `None` without rows.
pub async fn earliest_ms(connection: &mut SqliteConnection) -> sqlx::Result<Option<i64>> {
    let mut earliest: Option<i64> = None;
    for level in Level::ALL {
        if let Some((from_ms, _)) = times_of(connection, level).await? {
            earliest = Some(earliest.map_or(from_ms, |earliest| earliest.min(from_ms)));
        }
    }
    Ok(earliest)
}

/// The latest time of any tick, also of one whose roll-ups alone are left.
pub async fn latest_ms(connection: &mut SqliteConnection) -> sqlx::Result<Option<i64>> {
    let mut latest = None;
    for level in [Level::Ticks, Level::TenMinutes] {
        let times = times_of(connection, level).await?;
        latest = latest.max(times.map(|(_, to_ms)| to_ms));
    }
    Ok(latest)
}

/// The number of rows of a level that end in a range of time.
pub async fn count_rows(
    connection: &mut SqliteConnection,
    level: Level,
    times: (i64, i64),
) -> anyhow::Result<u64> {
    let sql = format!(
        "SELECT count(*) FROM {} WHERE id BETWEEN ? AND ?",
        level.table()
    );
    let mut count = 0;
    for (first, last) in numbers_between(connection, level, times).await? {
        let more: i64 = sqlx::query_scalar(AssertSqlSafe(sql.clone()))
            .bind(first)
            .bind(last)
            .fetch_one(&mut *connection)
            .await?;
        count += more.unsigned_abs();
    }
    Ok(count)
}

/// The ticks of the first window that has some after one position, and before another, from the window's beginning.
pub async fn first_window_after(
    connection: &mut SqliteConnection,
    after: Position,
    before: Option<Position>,
) -> anyhow::Result<Vec<(Position, Vec<u8>)>> {
    let end = before.map_or(i64::MAX, Position::number);
    let first: Option<i64> = sqlx::query_scalar("SELECT min(id) FROM tick WHERE id > ? AND id < ?")
        .bind(after.number())
        .bind(end)
        .fetch_one(&mut *connection)
        .await?;
    let Some(window) = first.map(|first| Position::numbered(first).window()) else {
        return Ok(Vec::new());
    };
    let (first, last) = window.numbers();
    let rows = ticks_between(connection, first, last.min(end.saturating_sub(1))).await?;
    let ticks = rows.into_iter();
    Ok(ticks
        .map(|(number, record)| (Position::numbered(number), record))
        .collect())
}

/// The ticks with these numbers, from-to, inclusive.
pub async fn ticks_between(
    connection: &mut SqliteConnection,
    first: i64,
    last: i64,
) -> sqlx::Result<Vec<(i64, Vec<u8>)>> {
    sqlx::query_as("SELECT id, record FROM tick WHERE id BETWEEN ? AND ? ORDER BY id")
        .bind(first)
        .bind(last)
        .fetch_all(connection)
        .await
}

/// Writes a tick, unless an attempt that seemed to fail has written it.
pub async fn write_tick(
    connection: &mut SqliteConnection,
    position: Position,
    record: &[u8],
) -> anyhow::Result<()> {
    sqlx::query("INSERT INTO tick (id, record) VALUES (?, ?) ON CONFLICT DO NOTHING")
        .bind(position.number())
        .bind(record)
        .execute(connection)
        .await
        .context("cannot store a tick")?;
    Ok(())
}

pub async fn write_gap(connection: &mut SqliteConnection, gap: &Gap) -> anyhow::Result<()> {
    sqlx::query("INSERT INTO gap (from_ms, to_ms, ticks, reason) VALUES (?, ?, ?, ?)")
        .bind(gap.from_ms)
        .bind(gap.to_ms)
        .bind(gap.ticks)
        .bind(&gap.reason)
        .execute(connection)
        .await?;
    Ok(())
}

impl FromRow<'_, SqliteRow> for Gap {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            from_ms: row.try_get("from_ms")?,
            to_ms: row.try_get("to_ms")?,
            ticks: row.try_get("ticks")?,
            reason: row.try_get("reason")?,
        })
    }
}

impl Gap {
    /// A gap of one tick.
    pub fn of(at_ms: i64, reason: &str) -> Self {
        Self {
            from_ms: at_ms,
            to_ms: at_ms,
            ticks: 1,
            reason: reason.into(),
        }
    }

    /// The gap with one more tick.
    pub fn and(self, at_ms: i64) -> Self {
        Self {
            from_ms: self.from_ms.min(at_ms),
            to_ms: self.to_ms.max(at_ms),
            ticks: self.ticks + 1,
            ..self
        }
    }
}

/// The time watched up to the newest roll-up: the sum of all lengths, by a clock that does not jump.
pub async fn watched_ms(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
    let newest: Option<i64> =
        sqlx::query_scalar("SELECT watched_ms FROM ten_minute ORDER BY id DESC LIMIT 1")
            .fetch_optional(connection)
            .await?;
    Ok(newest.unwrap_or_default())
}

/// The numbers of the first and the last tick of the newest complete windows, and their length. `None` if there are none.
pub async fn last_windows(
    connection: &mut SqliteConnection,
    count: i64,
) -> sqlx::Result<Option<(i64, i64, i64)>> {
    // The window before them tells where they begin.
    let windows: Vec<(i64, i64)> =
        sqlx::query_as("SELECT id, watched_ms FROM ten_minute ORDER BY id DESC LIMIT ?")
            .bind(count + 1)
            .fetch_all(connection)
            .await?;
    let (Some((last, to_ms)), Some((before, from_ms))) = (windows.first(), windows.last()) else {
        return Ok(None);
    };
    if windows.len() > 1 {
        return Ok(Some((before + 1, *last, to_ms - from_ms)));
    }
    let first = Position::numbered(*last).window().numbers().0;
    Ok(Some((first, *last, *to_ms)))
}
