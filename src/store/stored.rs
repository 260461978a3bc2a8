//! The three tables of rows: ticks, minutes and ten minutes, each by the number of the last tick that a row covers.
//!
//! A roll-up has the number of its last tick. So a row is covered by finer ones if there is a finer row of the same number,
//! and retention deletes whole windows of ten minutes.

use anyhow::Context;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, FromRow, Row, SqliteConnection};

use super::address::{Level, Position};
use super::recent::TickRecord;

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

/// The rows of a level in one stretch of the clock, from the first to the last one.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub level: Level,
    pub first: Position,
    pub last: Position,
}

/// The stretches of all levels, the coarsest level first. There are few, unless the clock goes back again and again.
pub async fn stretches(connection: &mut SqliteConnection) -> sqlx::Result<Vec<Stretch>> {
    let mut selects = Vec::new();
    for level in Level::ALL {
        let number = level as usize;
        let table = level.table();
        selects.push(format!(
            "SELECT {number} AS level, n, (SELECT min(id) FROM {table} WHERE id >= n << 44),
                 (SELECT max(id) FROM {table} WHERE id < (n + 1) << 44)
             FROM (WITH RECURSIVE stretch (n) AS (
                 SELECT min(id) >> 44 FROM {table}
                 UNION ALL SELECT (SELECT min(id) >> 44 FROM {table} WHERE id >= (n + 1) << 44)
                 FROM stretch WHERE n IS NOT NULL)
             SELECT n FROM stretch WHERE n IS NOT NULL)"
        ));
    }
    let sql = selects.join(" UNION ALL ") + " ORDER BY level DESC, n";
    let found: Vec<(i64, i64, i64, i64)> = sqlx::query_as(AssertSqlSafe(sql))
        .fetch_all(connection)
        .await?;
    let mut stretches = Vec::with_capacity(found.len());
    for (level, _, first, last) in found {
        stretches.push(Stretch {
            level: Level::ALL[level as usize],
            first: Position::numbered(first),
            last: Position::numbered(last),
        });
    }
    Ok(stretches)
}

/// The earliest and the latest time of a level's rows.
pub fn times_of(stretches: &[Stretch], level: Level) -> Option<(i64, i64)> {
    let of_level = || stretches.iter().filter(|stretch| stretch.level == level);
    let from_ms = of_level().map(|stretch| stretch.first.at_ms).min()?;
    let to_ms = of_level().map(|stretch| stretch.last.at_ms).max()?;
    Some((from_ms, to_ms))
}

/// The last tick, in the order of writing.
pub fn last_tick(stretches: &[Stretch]) -> Option<Position> {
    // The ticks may be deleted, and their roll-ups not.
    stretches.iter().map(|stretch| stretch.last).max()
}

/// The latest time of any tick, also of one whose roll-ups alone are left.
pub fn latest_ms(stretches: &[Stretch]) -> Option<i64> {
    stretches.iter().map(|stretch| stretch.last.at_ms).max()
}

/// The earliest time of all rows; `None` without rows.
pub async fn earliest_ms(connection: &mut SqliteConnection) -> sqlx::Result<Option<i64>> {
    let stretches = stretches(connection).await?;
    Ok(stretches.iter().map(|stretch| stretch.first.at_ms).min())
}

/// The number of a level's rows that end in this range of time, `most` at most.
pub async fn count_rows(
    connection: &mut SqliteConnection,
    level: Level,
    (from_ms, to_ms): (i64, i64),
    most: u32,
) -> anyhow::Result<u32> {
    let table = level.table();
    let sql =
        format!("SELECT count(*) FROM (SELECT 1 FROM {table} WHERE id BETWEEN ? AND ? LIMIT ?)");
    let mut count = 0;
    for stretch in stretches(connection).await? {
        if stretch.level == level {
            let [from, to] = [from_ms, to_ms].map(|at_ms| stretch.number_at(at_ms));
            let more: u32 = sqlx::query_scalar(AssertSqlSafe(sql.clone()))
                .bind(from)
                .bind(to)
                .bind(most - count)
                .fetch_one(&mut *connection)
                .await?;
            count += more;
        }
    }
    Ok(count)
}

impl Stretch {
    /// The number that a row of this time has.
    pub fn number_at(&self, at_ms: i64) -> i64 {
        let at_ms = at_ms.clamp(0, Position::LATEST_MS);
        Position {
            at_ms,
            ..self.first
        }
        .number()
    }
}

/// The last tick that is part of roll-ups.
pub async fn rolled_to(connection: &mut SqliteConnection) -> sqlx::Result<Option<Position>> {
    let last: Option<i64> = sqlx::query_scalar("SELECT max(id) FROM ten_minute")
        .fetch_one(connection)
        .await?;
    Ok(last.map(Position::numbered))
}

/// The ticks of the first window that has some after one position, and before another, from the window's beginning.
pub async fn first_window_after(
    connection: &mut SqliteConnection,
    after: Position,
    before: Option<Position>,
) -> anyhow::Result<Vec<TickRecord>> {
    let end = before.map_or(i64::MAX, Position::number);
    let first: Option<i64> = sqlx::query_scalar("SELECT min(id) FROM tick WHERE id > ? AND id < ?")
        .bind(after.number())
        .bind(end)
        .fetch_one(&mut *connection)
        .await?;
    let mut ticks = Vec::new();
    if let Some(first) = first {
        let (first, last) = Position::numbered(first).window().numbers();
        for (number, record) in ticks_between(connection, first, last.min(end - 1)).await? {
            ticks.push(TickRecord {
                position: Position::numbered(number),
                record: record.into(),
                decoder: None,
            });
        }
    }
    Ok(ticks)
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
