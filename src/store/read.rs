//! Series over a range, from the database and, for the last 20 minutes, from memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};

use anyhow::Context;
use sqlx::{Connection, FromRow, Row, SqliteConnection};

use super::StoreReader;
use super::catalog::DeviceRow;
use super::codec::{Presence, Rows, decode_stored};
use super::plan::{level_for, plan};
use super::readers::{Reader, on_a_thread};
use super::rollup::{SegmentAxis, Value, columns_at};
use super::seal::{Segment, rolled_until};
use super::segment::{Axis, Level, chunk_key, rows_of};
use super::stream::Stream;
use super::subject::{SeriesKey, Subject};
use super::tick::SegmentTicks;
use crate::quantity::Quantity;
use crate::series::{Downsampler, Range, Series};

/// Segments of a range, packed as they are stored, and those in memory.
#[derive(Default)]
pub(super) struct StoredRange {
    /// In order of time, each with its key.
    pub(super) stored: Vec<(i64, SegmentAxis)>,
    chunks: HashMap<i64, Vec<u8>>,
    recent: Vec<SegmentTicks>,
}

/// So many ticks in memory are summarised sooner than a thread is woken.
const QUICK_TICKS: usize = 1_500;

impl StoredRange {
    /// Whether there is little to do.
    fn is_quick(&self) -> bool {
        self.stored.is_empty()
            && self
                .recent
                .iter()
                .map(|ticks| ticks.ticks.len())
                .sum::<usize>()
                <= QUICK_TICKS
    }

    /// Unpacks one segment after the other, and calls `take` with each value and the index of its series in `wanted`.
    pub(super) fn each(
        &self,
        wanted: &[Option<(Stream, Quantity)>],
        mut take: impl FnMut(usize, Value),
    ) {
        for (key, segment) in &self.stored {
            let rows = |stream| stored_rows(stream, *key, segment, &self.chunks);
            each_of_segment(segment, rows, wanted, &mut take);
        }
        for ticks in &self.recent {
            let rows = |stream| rows_of(&ticks.ticks, stream);
            each_of_segment(&SegmentAxis::of_ticks(ticks), rows, wanted, &mut take);
        }
    }
}

fn each_of_segment(
    segment: &SegmentAxis,
    rows: impl Fn(Stream) -> Rows,
    wanted: &[Option<(Stream, Quantity)>],
    take: &mut impl FnMut(usize, Value),
) {
    let mut unpacked: HashMap<Stream, Rows> = HashMap::new();
    for (index, wanted) in wanted.iter().enumerate() {
        if let Some((stream, quantity)) = wanted {
            let rows = unpacked.entry(*stream).or_insert_with(|| rows(*stream));
            segment
                .values(stream.kind, rows, *quantity)
                .for_each(|value| take(index, value));
        }
    }
}

impl StoreReader {
    /// The series of `wanted` over the range, read in one pass, with at most `points` points each. `None` for a subject that
    /// was never seen. [`super::ReadError`] if the database is needed and does not answer.
    pub async fn series(
        &self,
        wanted: &[SeriesKey],
        range: Range,
        points: usize,
    ) -> anyhow::Result<Vec<Option<Series>>> {
        let streams = self.streams(wanted);
        let level = level_for(Downsampler::new(range, points).width_ms());
        let found = self.stored(level, range, &streams).await?;
        match found.is_quick() {
            true => Ok(series(&found, &streams, range, points)),
            false => Ok(on_a_thread(move || series(&found, &streams, range, points)).await?),
        }
    }

    /// The same from memory only: the last 20 minutes, and all data that is not written yet.
    pub fn series_in_memory(
        &self,
        wanted: &[SeriesKey],
        range: Range,
        points: usize,
    ) -> Vec<Option<Series>> {
        let recent = self.recent.view().within(range);
        let found = StoredRange {
            recent,
            ..StoredRange::default()
        };
        series(&found, &self.streams(wanted), range, points)
    }

    /// The segments in memory, and these streams' segments that only the database has.
    pub(super) async fn stored(
        &self,
        level: Level,
        range: Range,
        wanted: &[Option<(Stream, Quantity)>],
    ) -> anyhow::Result<StoredRange> {
        let view = self.recent.view();
        let streams: BTreeSet<Stream> =
            wanted.iter().flatten().map(|(stream, _)| *stream).collect();
        let is_in_memory =
            self.check_open().is_err() || view.reaches_back_to(range.from.as_millisecond());
        let mut found = StoredRange::default();
        if !is_in_memory && !streams.is_empty() {
            let first_in_memory = view.first_segment();
            let reading = move |mut connection: Reader| async move {
                stored(&mut connection, level, range, &streams, first_in_memory).await
            };
            found = self
                .readers
                .read(reading)
                .await
                .context("cannot read ticks")?;
        }
        found.recent = view.within(range);
        Ok(found)
    }

    /// The finest level that has data in the range; `None` if there are none.
    pub async fn finest(&self, range: Range) -> anyhow::Result<Option<Level>> {
        let (from_ms, to_ms) = (range.from.as_millisecond(), range.to.as_millisecond());
        if self
            .recent
            .view()
            .ticks()
            .any(|tick| (from_ms..=to_ms).contains(&tick.at_ms))
        {
            return Ok(Some(Level::Ticks));
        }
        if self.check_open().is_err() {
            return Ok(None);
        }
        let key =
            sqlx::query_scalar("SELECT min(id) FROM segment WHERE to_ms >= ? AND from_ms <= ?")
                .bind(from_ms)
                .bind(to_ms);
        let reading =
            |mut connection: Reader| async move { Ok(key.fetch_one(&mut *connection).await?) };
        let key: Option<i64> = self
            .readers
            .read(reading)
            .await
            .context("cannot read what is stored")?;
        Ok(key.and_then(Level::of_key).map(|(level, _)| level))
    }

    /// The stream of each; `None` if the subject was never seen.
    pub(super) fn streams(&self, wanted: &[SeriesKey]) -> Vec<Option<(Stream, Quantity)>> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        wanted
            .iter()
            .map(|wanted| Some((wanted.stream(&catalog)?, wanted.quantity)))
            .collect()
    }

    /// The device last seen with this identity, kernel name or label.
    pub fn device(&self, name: &str) -> Option<DeviceRow> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        let rows = catalog
            .device_rows
            .values()
            .filter(|row| [&*row.identity, &*row.name, &*row.label].contains(&name));
        rows.max_by_key(|row| (*row.identity == *name, row.last_seen_ms))
            .cloned()
    }

    /// The UUIDs of the volumes that this group had, by name, the last ones of each name.
    pub fn volumes_of(&self, vg: &str) -> BTreeMap<String, Arc<str>> {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        let mut rows: Vec<_> = catalog
            .volume_rows
            .values()
            .filter(|row| row.vg == vg)
            .collect();
        rows.sort_by_key(|row| row.last_seen_ms);
        rows.into_iter()
            .map(|row| (row.lv.clone(), Arc::clone(&row.uuid)))
            .collect()
    }

    /// Whether anything of this subject was ever stored.
    pub fn knows(&self, subject: &Subject) -> bool {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        subject.stream(&catalog).is_some()
    }
}

fn series(
    found: &StoredRange,
    wanted: &[Option<(Stream, Quantity)>],
    range: Range,
    points: usize,
) -> Vec<Option<Series>> {
    let mut samplers: Vec<_> = wanted
        .iter()
        .map(|_| Downsampler::new(range, points))
        .collect();
    found.each(wanted, |index, (at_ms, _, extent)| {
        samplers[index].push(at_ms, extent)
    });
    let finished = samplers.into_iter().map(Downsampler::finish);
    finished
        .zip(wanted)
        .map(|(series, wanted)| wanted.map(|_| series))
        .collect()
}

/// The database's segments of these streams, except those in memory.
async fn stored(
    connection: &mut SqliteConnection,
    level: Level,
    range: Range,
    streams: &BTreeSet<Stream>,
    first_in_memory: Option<i64>,
) -> anyhow::Result<StoredRange> {
    // One transaction, so that a segment that is sealed or rolled up meanwhile is read once.
    let mut transaction = connection.begin().await?;
    // Segments that are part of a sufficient roll-up are not needed.
    let ticks_from = match level {
        Level::Ticks => 0,
        _ => rolled_until(&mut transaction, Level::Minutes).await? + 1,
    };
    let minutes_from = match level {
        Level::TenMinutes => rolled_until(&mut transaction, level).await? + 1,
        _ => 0,
    };
    let rows = sqlx::query(
        "SELECT id, from_ms, to_ms, first_source, last_source, axis FROM segment
         WHERE to_ms >= ? AND from_ms <= ?
             AND (id >= ? OR id BETWEEN ? AND ? OR id BETWEEN ? AND ?)",
    )
    .bind(range.from.as_millisecond())
    .bind(range.to.as_millisecond())
    .bind(level.key(0))
    .bind(Level::Ticks.key(ticks_from))
    .bind(Level::Ticks.keys().1 - 1)
    .bind(Level::Minutes.key(minutes_from))
    .bind(Level::Minutes.keys().1 - 1)
    .fetch_all(&mut *transaction)
    .await?;
    let in_memory = first_in_memory.unwrap_or(i64::MAX);
    let (mut segments, mut axes) = (Vec::with_capacity(rows.len()), HashMap::new());
    for row in &rows {
        let segment = Segment::from_row(row)?;
        match Axis::decode(row.try_get("axis")?) {
            _ if segment.numbers().0 >= in_memory => {}
            Ok(axis) => {
                axes.insert(segment.id, axis);
                segments.push(segment);
            }
            // It does not hide another segment of the same time.
            Err(damaged) => {
                tracing::warn!("segment {} cannot be read: {damaged}", segment.number())
            }
        }
    }
    let mut found = StoredRange::default();
    for mut part in plan(level, &segments) {
        // A roll-up may cover segments that are also in memory.
        part.covered.push((in_memory, i64::MAX));
        let key = part.segment.id;
        if let Some(axis) = axes.remove(&key) {
            found.stored.push((
                key,
                SegmentAxis {
                    level: part.segment.level(),
                    axis,
                    covered: part.covered,
                },
            ));
        }
    }
    let keys = found
        .stored
        .iter()
        .flat_map(|(key, _)| streams.iter().map(|stream| chunk_key(*key, *stream)));
    let keys = serde_json::to_string(&keys.collect::<Vec<_>>())?;
    let chunks: Vec<(i64, Vec<u8>)> =
        sqlx::query_as("SELECT id, data FROM chunk WHERE id IN (SELECT value FROM json_each(?))")
            .bind(keys)
            .fetch_all(&mut *transaction)
            .await?;
    found.chunks = chunks.into_iter().collect();
    Ok(found)
}

/// The rows of a stream in a stored segment; a gap if they are damaged.
fn stored_rows(
    stream: Stream,
    key: i64,
    segment: &SegmentAxis,
    chunks: &HashMap<i64, Vec<u8>>,
) -> Rows {
    let (count, columns) = (segment.axis.len(), columns_at(segment.level, stream.kind));
    let chunk = chunks.get(&chunk_key(key, stream)).map(Vec::as_slice);
    decode_stored(columns, chunk, count).unwrap_or_else(|damaged| {
        tracing::warn!("{stream:?} in segment {key} is damaged and shown as a gap: {damaged}");
        Rows::without_values(Presence::Unknown, count, columns)
    })
}
