//! Roll-ups are made of segments that are complete: of a window, as soon as it is over, or, those of ten seconds, when its
//! ticks are to go.

use anyhow::Context;
use sqlx::{Connection, SqliteConnection};

use super::codec::{Presence, Rows, decode, encode};
use super::decoder::columns;
use super::rollup;
use super::rows::write_gap;
use super::seal::{Segment, delete_segment, insert_chunk, insert_segment};
use super::segment::{Axis, Level, chunk_key, stream_of_chunk};
use super::stream::Stream;
use super::write_op::Gap;

/// Segments that become one of the next level at most: a program that is started again and again makes short ones.
const MOST_SOURCES: usize = 100;

/// Makes the roll-ups that can be made: of every window that is over. Those of ten seconds wait until the ticks are to go.
pub async fn roll_up(connection: &mut SqliteConnection) -> anyhow::Result<()> {
    for level in [Level::Minutes, Level::TenMinutes] {
        while let Some(sources) = complete_window(connection, level).await? {
            roll(connection, level, &sources).await?;
        }
    }
    Ok(())
}

/// Makes one roll-up of ten seconds: of ticks that are in minutes already, and ended in the span from `from_ms` to before
/// `to_ms`. Says whether there was such a window.
pub async fn roll_up_old(
    connection: &mut SqliteConnection,
    from_ms: i64,
    to_ms: i64,
) -> anyhow::Result<bool> {
    let level = Level::TenSeconds;
    let in_minutes = rolled_until(connection, Level::Minutes).await?;
    let is_old = |source: &Segment| (from_ms..to_ms).contains(&source.to_ms) && source.number() <= in_minutes;
    let Some(first) = first_source(connection, level, from_ms, to_ms).await? else { return Ok(false) };
    let sources = sources(connection, level, first).await?;
    let sources = old_window(level, &sources, is_old);
    if !sources.is_empty() {
        roll(connection, level, sources).await?;
    }
    Ok(!sources.is_empty())
}

/// The first of these segments that make up one of `level`, if all that it will ever be made of is old. One of a time when
/// the clock was wrong, among old ones, ends the window: it is never waited for.
fn old_window(level: Level, sources: &[Segment], is_old: impl Fn(&Segment) -> bool) -> &[Segment] {
    let old = sources.iter().take_while(|source| is_old(source)).count();
    match window(level, sources) {
        Some(window) if window.len() <= old => window,
        _ if sources[old..].iter().any(&is_old) => &sources[..old],
        _ => &[],
    }
}

/// The number of the first segment that has not gone into this level yet and ended in the span.
async fn first_source(
    connection: &mut SqliteConnection,
    level: Level,
    from_ms: i64,
    to_ms: i64,
) -> anyhow::Result<Option<i64>> {
    let Some(source) = level.source() else { return Ok(None) };
    let key: Option<i64> = sqlx::query_scalar(
        "SELECT min(id) FROM segment WHERE id > ? AND id < ? AND to_ms >= ? AND to_ms < ?",
    )
    .bind(source.key(rolled_until(connection, level).await?))
    .bind(source.keys().1)
    .bind(from_ms)
    .bind(to_ms)
    .fetch_one(connection)
    .await?;
    Ok(key.map(|key| key - source.keys().0))
}

/// The segments, one after the other, that make up the next window of this level; `None` while it is not known whether
/// more will come.
async fn complete_window(
    connection: &mut SqliteConnection,
    level: Level,
) -> anyhow::Result<Option<Vec<Segment>>> {
    let first = rolled_until(connection, level).await? + 1;
    let sources = sources(connection, level, first).await?;
    // The limit of the question is that of a window: one that is reached is not waited for.
    Ok(window(level, &sources).map(<[Segment]>::to_vec))
}

/// What this level is made of, from this number on.
async fn sources(
    connection: &mut SqliteConnection,
    level: Level,
    first: i64,
) -> anyhow::Result<Vec<Segment>> {
    let Some(source) = level.source() else { return Ok(Vec::new()) };
    Ok(sqlx::query_as(
        "SELECT id, from_ms, to_ms, first_source, last_source FROM segment
         WHERE id >= ? AND id < ? ORDER BY id LIMIT ?",
    )
    .bind(source.key(first))
    .bind(source.keys().1)
    .bind(i64::try_from(MOST_SOURCES)?)
    .fetch_all(connection)
    .await?)
}

/// The first of these segments that make up one of `level`.
pub fn window(level: Level, sources: &[Segment]) -> Option<&[Segment]> {
    let window = |segment: &Segment| level.window(segment.from_ms);
    let first = window(sources.first()?);
    let length = sources.iter().take_while(|segment| window(segment) == first).count();
    let length = length.min(MOST_SOURCES);
    (length < sources.len() || length == MOST_SOURCES).then(|| &sources[..length])
}

/// Ticks have gone into this level up to the segment of that number; 0 where nothing of the level is left.
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

/// One whose axis cannot be read is left out, for nobody knows when its rows were: it becomes a gap.
async fn roll(connection: &mut SqliteConnection, level: Level, sources: &[Segment]) -> anyhow::Result<()> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut readable = Vec::with_capacity(sources.len());
    for source in sources {
        match axis(&mut transaction, source).await? {
            Some(axis) => readable.push((source, axis)),
            None => give_up(&mut transaction, source).await?,
        }
    }
    if let (Some(first), Some(last)) = (sources.first(), sources.last())
        && !readable.is_empty()
    {
        let made_of = (first.numbers().0, last.numbers().1);
        roll_readable(&mut transaction, level, made_of, &readable)
            .await
            .with_context(|| format!("cannot roll up the segments {} to {}", made_of.0, made_of.1))?;
    }
    Ok(transaction.commit().await?)
}

async fn roll_readable(
    connection: &mut SqliteConnection,
    level: Level,
    made_of: (i64, i64),
    sources: &[(&Segment, Axis)],
) -> anyhow::Result<()> {
    let Some(from) = level.source() else { return Ok(()) };
    let axis = joined(sources);
    let groups = rollup::groups(&axis, level);
    let key = level.key(made_of.0);
    insert_segment(connection, key, &rollup::rolled_axis(&axis, &groups), Some(made_of)).await?;
    for stream in streams_of(connection, sources).await? {
        let rows = joined_rows(connection, from, stream, sources).await?;
        let rolled = rollup::rolled(stream.kind, from, &axis, &rows, &groups);
        let data = encode(&rolled)?;
        insert_chunk(connection, chunk_key(key, stream), &data).await?;
    }
    Ok(())
}

/// `None` where it is damaged.
async fn axis(connection: &mut SqliteConnection, source: &Segment) -> anyhow::Result<Option<Axis>> {
    let bytes: Vec<u8> = sqlx::query_scalar("SELECT axis FROM segment WHERE id = ?")
        .bind(source.id)
        .fetch_one(connection)
        .await?;
    Ok(Axis::decode(&bytes).ok())
}

/// Deletes a segment of which nothing can be read, and says so.
async fn give_up(connection: &mut SqliteConnection, segment: &Segment) -> anyhow::Result<()> {
    let number = segment.number();
    tracing::warn!("segment {number} is damaged and becomes a gap");
    let rows: i64 = sqlx::query_scalar("SELECT rows FROM segment WHERE id = ?")
        .bind(segment.id)
        .fetch_one(&mut *connection)
        .await?;
    let reason = "what the database had of them is damaged".to_string();
    write_gap(connection, &Gap { from_ms: segment.from_ms, to_ms: segment.to_ms, ticks: rows, reason })
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
) -> anyhow::Result<Vec<Stream>> {
    let (Some((first, _)), Some((last, _))) = (sources.first(), sources.last()) else {
        return Ok(Vec::new());
    };
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
    sources: &[(&Segment, Axis)],
) -> anyhow::Result<Rows> {
    let columns = columns(level, stream.kind);
    let mut joined = Rows { presence: Vec::new(), columns: vec![Vec::new(); columns] };
    for (source, axis) in sources {
        let data: Option<Vec<u8>> = sqlx::query_scalar("SELECT data FROM chunk WHERE id = ?")
            .bind(chunk_key(source.id, stream))
            .fetch_optional(&mut *connection)
            .await?;
        let nothing = |presence| Rows {
            presence: vec![presence; axis.len()],
            columns: vec![vec![0; axis.len()]; columns],
        };
        let decoded = data.map(|data| decode(columns, &data));
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
