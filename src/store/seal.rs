//! Sealing: a segment's ticks go into the database for good, and roll-ups are made of segments that are complete.

use anyhow::Context;
use sqlx::{Connection, FromRow, SqliteConnection};

use super::codec::{Presence, Rows, decode, encode};
use super::lens::shape;
use super::rollup;
use super::segment::{Axis, Level, chunk_key, rows_of, stream_of_chunk, streams};
use super::stream::Stream;
use super::tick::Tick;

/// Segments that become one of the next level at most: a program that is started again and again makes short ones.
const MOST_SOURCES: usize = 100;

/// A segment's row, without its axis.
#[derive(Clone, Debug, PartialEq, FromRow)]
pub struct Segment {
    pub id: i64,
    pub from_ms: i64,
    pub to_ms: i64,
    pub first_source: Option<i64>,
    pub last_source: Option<i64>,
}

impl Segment {
    pub fn level(&self) -> Level {
        Level::of_key(self.id).map_or(Level::Ticks, |(level, _)| level)
    }

    pub fn number(&self) -> i64 {
        Level::of_key(self.id).map_or(0, |(_, number)| number)
    }

    /// Numbers of the first and of the last segment of ticks that it tells of; for one of ticks its own.
    pub fn numbers(&self) -> (i64, i64) {
        let number = self.number();
        (self.first_source.unwrap_or(number), self.last_source.unwrap_or(number))
    }
}

/// Puts a segment's ticks into the database: all of them, or none.
pub async fn seal(
    connection: &mut SqliteConnection,
    number: i64,
    ticks: &[impl AsRef<Tick>],
) -> anyhow::Result<()> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    write_ticks(&mut transaction, number, ticks).await?;
    transaction.commit().await.with_context(|| format!("cannot keep segment {number}"))
}

/// As [`seal`], within a transaction of the caller's.
pub async fn write_ticks(
    connection: &mut SqliteConnection,
    number: i64,
    ticks: &[impl AsRef<Tick>],
) -> anyhow::Result<()> {
    let key = Level::Ticks.key(number);
    insert_segment(connection, key, &Axis::of(number, ticks), None).await?;
    for stream in streams(ticks) {
        let rows = rows_of(ticks, stream);
        insert_chunk(connection, chunk_key(key, stream), &encode(stream.kind.shape(), &rows)).await?;
    }
    Ok(())
}

/// Makes the roll-ups that can be made: of every window that is over.
pub async fn roll_up(connection: &mut SqliteConnection) -> anyhow::Result<()> {
    for level in [Level::TenSeconds, Level::Minutes] {
        while let Some(sources) = complete_window(connection, level).await? {
            let range = sources.first().map(|first| first.from_ms).unwrap_or_default();
            roll(connection, level, &sources)
                .await
                .with_context(|| format!("cannot roll up the segments from {range} ms on"))?;
        }
    }
    Ok(())
}

/// The segments of the level below, one after the other, that make up the next window of this level; `None` while
/// it is not known whether more will come.
async fn complete_window(
    connection: &mut SqliteConnection,
    level: Level,
) -> anyhow::Result<Option<Vec<Segment>>> {
    let Some(finer) = level.finer() else { return Ok(None) };
    let sources: Vec<Segment> = sqlx::query_as(
        "SELECT id, from_ms, to_ms, first_source, last_source FROM segment WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
    )
    .bind(finer.key(rolled_until(connection, level).await?))
    .bind(finer.keys().1)
    .bind(i64::try_from(MOST_SOURCES)?)
    .fetch_all(connection)
    .await?;
    // The limit of the question is that of a window: one that is reached is not waited for.
    Ok(window(level, &sources).map(<[Segment]>::to_vec))
}

/// The first of these segments that make up one of `level`.
pub fn window(level: Level, sources: &[Segment]) -> Option<&[Segment]> {
    let window = |segment: &Segment| level.window(segment.from_ms);
    let first = window(sources.first()?);
    let length = sources.iter().take_while(|segment| window(segment) == first).count();
    let length = length.min(MOST_SOURCES);
    (length < sources.len() || length == MOST_SOURCES).then(|| &sources[..length])
}

/// Ticks have gone into this level up to the segment of that number. What is in a coarser one was in this one too.
pub async fn rolled_until(connection: &mut SqliteConnection, level: Level) -> anyhow::Result<i64> {
    let mut until = 0;
    for coarser in Level::ALL.into_iter().filter(|coarser| *coarser >= level) {
        let last: Option<i64> = sqlx::query_scalar(
            "SELECT last_source FROM segment WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1",
        )
        .bind(coarser.keys().0)
        .bind(coarser.keys().1)
        .fetch_optional(&mut *connection)
        .await?
        .flatten();
        until = until.max(last.unwrap_or_default());
    }
    Ok(until)
}

async fn roll(connection: &mut SqliteConnection, level: Level, sources: &[Segment]) -> anyhow::Result<()> {
    let (Some(first), Some(last), Some(finer)) = (sources.first(), sources.last(), level.finer()) else {
        return Ok(());
    };
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let axes = axes(&mut transaction, sources).await?;
    let axis = joined(&axes);
    let groups = rollup::groups(&axis, level);
    let key = level.key(first.number());
    let made_of = Some((first.numbers().0, last.numbers().1));
    insert_segment(&mut transaction, key, &rollup::rolled_axis(&axis, &groups), made_of).await?;
    for stream in streams_of(&mut transaction, first, last).await? {
        let rows = joined_rows(&mut transaction, finer, stream, sources, &axes).await?;
        let rolled = rollup::rolled(stream.kind, finer, &axis, &rows, &groups);
        let data = encode(rollup::shape(stream.kind), &rolled);
        insert_chunk(&mut transaction, chunk_key(key, stream), &data).await?;
    }
    Ok(transaction.commit().await?)
}

async fn axes(connection: &mut SqliteConnection, sources: &[Segment]) -> anyhow::Result<Vec<Axis>> {
    let mut axes = Vec::with_capacity(sources.len());
    for source in sources {
        let bytes: Vec<u8> = sqlx::query_scalar("SELECT axis FROM segment WHERE id = ?")
            .bind(source.id)
            .fetch_one(&mut *connection)
            .await?;
        axes.push(Axis::decode(&bytes)?);
    }
    Ok(axes)
}

fn joined(axes: &[Axis]) -> Axis {
    let mut joined = Axis::default();
    for axis in axes {
        joined.at_ms.extend_from_slice(&axis.at_ms);
        joined.elapsed_us.extend_from_slice(&axis.elapsed_us);
        joined.ticks.extend_from_slice(&axis.ticks);
        joined.numbers.extend_from_slice(&axis.numbers);
    }
    joined
}

async fn streams_of(
    connection: &mut SqliteConnection,
    first: &Segment,
    last: &Segment,
) -> anyhow::Result<Vec<Stream>> {
    let keys: Vec<i64> = sqlx::query_scalar("SELECT id FROM chunk WHERE id >= ? AND id < ?")
        .bind(chunk_key(first.id, Stream::HOST))
        .bind(chunk_key(last.id + 1, Stream::HOST))
        .fetch_all(connection)
        .await?;
    let mut streams: Vec<Stream> = keys.into_iter().filter_map(stream_of_chunk).collect();
    streams.sort_unstable();
    streams.dedup();
    Ok(streams)
}

/// One stream's rows of all sources; absent in those that have no chunk of it.
async fn joined_rows(
    connection: &mut SqliteConnection,
    level: Level,
    stream: Stream,
    sources: &[Segment],
    axes: &[Axis],
) -> anyhow::Result<Rows> {
    let shape = shape(level, stream.kind);
    let mut joined = Rows { presence: Vec::new(), columns: vec![Vec::new(); shape.len()] };
    for (source, axis) in sources.iter().zip(axes) {
        let data: Option<Vec<u8>> = sqlx::query_scalar("SELECT data FROM chunk WHERE id = ?")
            .bind(chunk_key(source.id, stream))
            .fetch_optional(&mut *connection)
            .await?;
        let nothing = |presence| Rows {
            presence: vec![presence; axis.len()],
            columns: vec![vec![0; axis.len()]; shape.len()],
        };
        let decoded = data.map(|data| decode(shape, &data, |_| true));
        let rows = match decoded {
            Some(Ok(rows)) if rows.presence.len() == axis.len() => rows,
            None => nothing(Presence::Absent),
            _ => {
                tracing::warn!(
                    "a chunk of {stream:?} in segment {} is damaged and left out of the roll-up",
                    source.number()
                );
                nothing(Presence::Unknown)
            }
        };
        joined.presence.extend(rows.presence);
        for (column, more) in joined.columns.iter_mut().zip(rows.columns) {
            column.extend(more);
        }
    }
    Ok(joined)
}

async fn insert_segment(
    connection: &mut SqliteConnection,
    key: i64,
    axis: &Axis,
    made_of: Option<(i64, i64)>,
) -> anyhow::Result<()> {
    let (from_ms, to_ms) = axis.range_ms();
    sqlx::query(
        "INSERT OR REPLACE INTO segment (id, from_ms, to_ms, rows, first_source, last_source, axis)
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(key)
    .bind(from_ms)
    .bind(to_ms)
    .bind(i64::try_from(axis.len())?)
    .bind(made_of.map(|(first, _)| first))
    .bind(made_of.map(|(_, last)| last))
    .bind(axis.encode())
    .execute(connection)
    .await?;
    Ok(())
}

async fn insert_chunk(connection: &mut SqliteConnection, key: i64, data: &[u8]) -> anyhow::Result<()> {
    sqlx::query("INSERT OR REPLACE INTO chunk (id, data) VALUES (?, ?)")
        .bind(key)
        .bind(data)
        .execute(connection)
        .await?;
    Ok(())
}
