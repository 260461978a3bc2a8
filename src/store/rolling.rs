//! Makes roll-ups of a fixed number of complete segments, in the order in which they were written.

use std::collections::BTreeSet;

use anyhow::Context;
use sqlx::{Connection, SqliteConnection};

use super::codec::{Presence, Rows, encode};
use super::rollup::{self, columns_at};
use super::seal::{
    Segment, delete_segment, insert_chunk, insert_segment, read_axis, read_rows, rolled_until,
};
use super::segment::{Axis, Level, chunk_key, stream_of_chunk};
use super::stream::Stream;

/// Segments of ticks in one of minutes (four hours), and segments of minutes in one of ten minutes (five days).
pub const SOURCES: [usize; 2] = [24, 30];

/// Makes the roll-ups whose sources are complete: a fixed number of segments for each level.
pub async fn roll_up(connection: &mut SqliteConnection, counts: [usize; 2]) -> anyhow::Result<()> {
    let levels = [
        (Level::Ticks, Level::Minutes),
        (Level::Minutes, Level::TenMinutes),
    ];
    for ((from, level), count) in levels.into_iter().zip(counts) {
        while let Some(sources) = next_sources(connection, from, level, count).await? {
            roll(connection, from, level, &sources).await?;
        }
    }
    Ok(())
}

/// The sources of the next segment of this level; `None` until they are complete.
async fn next_sources(
    connection: &mut SqliteConnection,
    from: Level,
    level: Level,
    count: usize,
) -> anyhow::Result<Option<Vec<Segment>>> {
    let sources: Vec<Segment> = sqlx::query_as(
        "SELECT id, from_ms, to_ms, first_source, last_source FROM segment
         WHERE id > ? AND id < ? ORDER BY id LIMIT ?",
    )
    .bind(from.key(rolled_until(connection, level).await?))
    .bind(from.keys().1)
    .bind(i64::try_from(count)?)
    .fetch_all(connection)
    .await?;
    Ok((sources.len() == count).then_some(sources))
}

/// A source with an unreadable axis becomes a gap, since the times of its rows are lost.
async fn roll(
    connection: &mut SqliteConnection,
    from: Level,
    level: Level,
    sources: &[Segment],
) -> anyhow::Result<()> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut readable = Vec::with_capacity(sources.len());
    for source in sources {
        match read_axis(&mut transaction, source.id).await {
            Ok(axis) => readable.push((source, axis)),
            Err(error) if error.is::<sqlx::Error>() => return Err(error),
            Err(_) => give_up(&mut transaction, source).await?,
        }
    }
    if let (Some(first), Some(last)) = (sources.first(), sources.last())
        && !readable.is_empty()
    {
        let made_of = (first.numbers().0, last.numbers().1);
        roll_readable(&mut transaction, from, level, made_of, &readable)
            .await
            .with_context(|| {
                format!("cannot roll up the segments {} to {}", made_of.0, made_of.1)
            })?;
    }
    Ok(transaction.commit().await?)
}

async fn roll_readable(
    connection: &mut SqliteConnection,
    from: Level,
    level: Level,
    made_of: (i64, i64),
    sources: &[(&Segment, Axis)],
) -> anyhow::Result<()> {
    let axis = joined(sources);
    let groups = rollup::groups(&axis, level.row_ms());
    let key = level.key(made_of.0);
    let watched_ms = sqlx::query_scalar("SELECT watched_ms FROM segment WHERE id = ?")
        .bind(sources.last().map(|(last, _)| last.id))
        .fetch_one(&mut *connection)
        .await?;
    insert_segment(
        connection,
        key,
        &rollup::rolled_axis(&axis, &groups),
        Some(made_of),
        watched_ms,
    )
    .await?;
    for stream in streams_of(connection, sources).await? {
        let rows = joined_rows(connection, from, stream, sources).await?;
        let rolled = rollup::rolled(stream.kind, from, &axis, &rows, &groups);
        insert_chunk(connection, chunk_key(key, stream), &encode(&rolled)?).await?;
    }
    Ok(())
}

/// Replaces an unreadable segment by a gap.
async fn give_up(connection: &mut SqliteConnection, segment: &Segment) -> anyhow::Result<()> {
    tracing::warn!("segment {} is damaged and becomes a gap", segment.number());
    sqlx::query(
        "INSERT INTO gap (from_ms, to_ms, ticks, reason)
         SELECT from_ms, to_ms, rows, 'what the database had of them is damaged' FROM segment WHERE id = ?",
    )
    .bind(segment.id)
    .execute(&mut *connection)
    .await?;
    delete_segment(connection, segment.id).await
}

fn joined(sources: &[(&Segment, Axis)]) -> Axis {
    let mut joined = Axis::default();
    for (_, axis) in sources {
        joined.at_ms.extend_from_slice(&axis.at_ms);
        joined.elapsed_us.extend_from_slice(&axis.elapsed_us);
        joined.ticks.extend_from_slice(&axis.ticks);
        joined.numbers.extend_from_slice(&axis.numbers);
    }
    joined
}

async fn streams_of(
    connection: &mut SqliteConnection,
    sources: &[(&Segment, Axis)],
) -> anyhow::Result<BTreeSet<Stream>> {
    let (Some((first, _)), Some((last, _))) = (sources.first(), sources.last()) else {
        return Ok(BTreeSet::new());
    };
    let keys: Vec<i64> = sqlx::query_scalar("SELECT id FROM chunk WHERE id >= ? AND id < ?")
        .bind(chunk_key(first.id, Stream::HOST))
        .bind(chunk_key(last.id + 1, Stream::HOST))
        .fetch_all(connection)
        .await?;
    Ok(keys.into_iter().filter_map(stream_of_chunk).collect())
}

/// One stream's rows in all sources; absent in sources without a chunk for it.
async fn joined_rows(
    connection: &mut SqliteConnection,
    level: Level,
    stream: Stream,
    sources: &[(&Segment, Axis)],
) -> anyhow::Result<Rows> {
    let columns = columns_at(level, stream.kind);
    let mut joined = Rows::without_values(Presence::Absent, 0, columns);
    for (source, axis) in sources {
        let rows = match read_rows(connection, source.id, stream, axis.len()).await {
            Err(error) if !error.is::<sqlx::Error>() => {
                let number = source.number();
                tracing::warn!(
                    "a chunk of {stream:?} in segment {number} is damaged and not rolled up: {error}"
                );
                Rows::without_values(Presence::Unknown, axis.len(), columns)
            }
            rows => rows?,
        };
        joined.presence.extend(rows.presence);
        for (column, more) in joined.columns.iter_mut().zip(rows.columns) {
            column.extend(more);
        }
    }
    Ok(joined)
}
