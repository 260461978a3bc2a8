//! Sealing moves a segment's ticks into the database. Segments are written and deleted with all their chunks.

use anyhow::Context;
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, FromRow, SqliteConnection};

use super::codec::{Rows, decode_stored, encode};
use super::rollup::columns_at;
use super::segment::{Axis, Level, chunk_key, rows_of, streams};
use super::stream::Stream;
use super::tick::Tick;

/// A segment counts as at most one day long, so that one wrong length does not make all earlier data look old.
const LONGEST_MS: i64 = 24 * 3600 * 1000;

/// A segment's row, without its axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    pub id: i64,
    pub from_ms: i64,
    pub to_ms: i64,
    pub first_source: Option<i64>,
    pub last_source: Option<i64>,
}

impl FromRow<'_, SqliteRow> for Segment {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        let (id, from_ms, to_ms, first_source, last_source) = FromRow::from_row(row)?;
        Ok(Self {
            id,
            from_ms,
            to_ms,
            first_source,
            last_source,
        })
    }
}

impl Segment {
    pub fn level(&self) -> Level {
        Level::of_key(self.id).map_or(Level::Ticks, |(level, _)| level)
    }

    pub fn number(&self) -> i64 {
        Level::of_key(self.id).map_or(0, |(_, number)| number)
    }

    /// Numbers of the first and the last segment of ticks that it covers; its own for a segment of ticks.
    pub fn numbers(&self) -> (i64, i64) {
        let number = self.number();
        (
            self.first_source.unwrap_or(number),
            self.last_source.unwrap_or(number),
        )
    }
}

/// Puts a segment's ticks into the database: all of them, or none.
pub async fn seal(
    connection: &mut SqliteConnection,
    number: i64,
    ticks: &[impl AsRef<Tick>],
) -> anyhow::Result<()> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let (key, axis) = (Level::Ticks.key(number), Axis::of(number, ticks));
    let watched_ms = watched_ms(&mut transaction)
        .await?
        .saturating_add(axis.length_ms().min(LONGEST_MS));
    insert_segment(&mut transaction, key, &axis, None, watched_ms).await?;
    for stream in streams(ticks) {
        let rows = rows_of(ticks, stream);
        insert_chunk(&mut transaction, chunk_key(key, stream), &encode(&rows)?).await?;
    }
    transaction
        .commit()
        .await
        .with_context(|| format!("cannot keep segment {number}"))
}

/// The time watched up to the end of the newest segment: the sum of all lengths, by a clock that does not jump.
pub async fn watched_ms(connection: &mut SqliteConnection) -> anyhow::Result<i64> {
    let newest: Option<i64> = sqlx::query_scalar("SELECT max(watched_ms) FROM segment")
        .fetch_one(connection)
        .await?;
    Ok(newest.unwrap_or_default())
}

/// The last segment of ticks that was sealed, even if only its roll-ups are left; 0 if none.
pub async fn last_segment(connection: &mut SqliteConnection) -> anyhow::Result<i64> {
    let last: Option<i64> = sqlx::query_scalar("SELECT max(id) FROM segment WHERE id < ?")
        .bind(Level::Ticks.keys().1)
        .fetch_one(&mut *connection)
        .await?;
    let minutes = rolled_until(connection, Level::Minutes).await?;
    Ok(last
        .unwrap_or_default()
        .max(minutes)
        .max(rolled_until(connection, Level::TenMinutes).await?))
}

/// The last segment of ticks that is in this level; 0 if none.
pub async fn rolled_until(connection: &mut SqliteConnection, level: Level) -> anyhow::Result<i64> {
    let last: Option<Option<i64>> = sqlx::query_scalar(
        "SELECT last_source FROM segment WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1",
    )
    .bind(level.keys().0)
    .bind(level.keys().1)
    .fetch_optional(connection)
    .await?;
    Ok(last.flatten().unwrap_or_default())
}

/// The end of the latest tick, in milliseconds; `None` if there is none.
pub async fn last_instant(connection: &mut SqliteConnection) -> anyhow::Result<Option<i64>> {
    Ok(sqlx::query_scalar("SELECT max(to_ms) FROM segment")
        .fetch_one(connection)
        .await?)
}

/// The axis of a segment. An error other than SQLite's means a damaged axis.
pub async fn read_axis(connection: &mut SqliteConnection, segment: i64) -> anyhow::Result<Axis> {
    let axis: Vec<u8> = sqlx::query_scalar("SELECT axis FROM segment WHERE id = ?")
        .bind(segment)
        .fetch_one(connection)
        .await?;
    Axis::decode(&axis)
}

/// The rows of a stream in a segment of `count` rows. Without a chunk, the stream was absent. An error
/// other than SQLite's means a damaged chunk.
pub async fn read_rows(
    connection: &mut SqliteConnection,
    segment: i64,
    stream: Stream,
    count: usize,
) -> anyhow::Result<Rows> {
    let level = Level::of_key(segment).map_or(Level::Ticks, |(level, _)| level);
    let chunk: Option<Vec<u8>> = sqlx::query_scalar("SELECT data FROM chunk WHERE id = ?")
        .bind(chunk_key(segment, stream))
        .fetch_optional(connection)
        .await?;
    decode_stored(columns_at(level, stream.kind), chunk.as_deref(), count)
}

/// With its chunks.
pub async fn delete_segment(connection: &mut SqliteConnection, id: i64) -> anyhow::Result<()> {
    sqlx::query("DELETE FROM chunk WHERE id >= ?1 << 24 AND id < (?1 + 1) << 24")
        .bind(id)
        .execute(&mut *connection)
        .await?;
    sqlx::query("DELETE FROM segment WHERE id = ?")
        .bind(id)
        .execute(connection)
        .await?;
    Ok(())
}

pub async fn insert_segment(
    connection: &mut SqliteConnection,
    key: i64,
    axis: &Axis,
    made_of: Option<(i64, i64)>,
    watched_ms: i64,
) -> anyhow::Result<()> {
    let (from_ms, to_ms) = axis.range_ms();
    sqlx::query(
        "INSERT OR REPLACE INTO segment (id, from_ms, to_ms, rows, first_source, last_source, watched_ms, axis)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(key)
    .bind(from_ms)
    .bind(to_ms)
    .bind(i64::try_from(axis.len())?)
    .bind(made_of.map(|(first, _)| first))
    .bind(made_of.map(|(_, last)| last))
    .bind(watched_ms)
    .bind(axis.encode()?)
    .execute(connection)
    .await?;
    Ok(())
}

pub async fn insert_chunk(
    connection: &mut SqliteConnection,
    key: i64,
    data: &[u8],
) -> anyhow::Result<()> {
    sqlx::query("INSERT OR REPLACE INTO chunk (id, data) VALUES (?, ?)")
        .bind(key)
        .bind(data)
        .execute(connection)
        .await?;
    Ok(())
}
