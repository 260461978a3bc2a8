//! Series over a range: from the database, and from memory what is not there yet, without a seam.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use anyhow::Context;
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, FromRow, Row, SqliteConnection};

use super::StoreReader;
use super::codec::{Presence, Rows, decode};
use super::decoder::{QuantityDecoder, columns};
use super::plan::{Part, level_for, plan};
use super::readers::Reader;
use super::rolling::rolled_until;
use super::seal::Segment;
use super::segment::{Axis, Level, chunk_key};
use super::stream::Stream;
use super::subject::{Subject, Wanted};
use super::tick::{Cell, Tick};
use crate::series::quantity::Quantity;
use crate::series::{Downsampler, Extent, Range, Series};

/// A series that is being gathered.
struct SeriesInProgress {
    stream: Stream,
    quantity: Quantity,
    downsampler: Downsampler,
}

/// All series that were asked for in one go.
struct Gathering {
    found: Vec<Option<SeriesInProgress>>,
    /// What is read for them: each once, in order.
    streams: Vec<Stream>,
}

impl Gathering {
    fn add(&mut self, kept: &StoredRows, ticks: &[Arc<Tick>]) {
        for (part, axis) in &kept.parts {
            add_part(&mut self.found, &self.streams, part, axis, &kept.chunks);
        }
        for gathered in self.found.iter_mut().flatten() {
            add_ticks(gathered, ticks);
        }
    }

    fn finish(self) -> Vec<Option<Series>> {
        self.found
            .into_iter()
            .map(|gathered| gathered.map(|gathered| gathered.downsampler.finish()))
            .collect()
    }
}

/// What was read from the database.
#[derive(Default)]
pub(super) struct StoredRows {
    pub(super) parts: Vec<(Part, Axis)>,
    pub(super) chunks: HashMap<i64, Vec<u8>>,
}

impl StoreReader {
    /// Series of each of `wanted` over the range, in one pass, with at most `points` points each. A subject that was
    /// never seen has `None`. [`super::Unanswered`] where the database has a part of it and does not answer.
    pub async fn series(
        &self,
        wanted: &[Wanted],
        range: Range,
        points: usize,
    ) -> anyhow::Result<Vec<Option<Series>>> {
        let mut gathering = self.gathering(wanted, range, points);
        if gathering.streams.is_empty() {
            return Ok(gathering.finish());
        }
        let level = level_for(Downsampler::new(range, points).width_ms());
        let (ticks, kept) = self.seen(level, range, &gathering.streams).await?;
        let gathered = tokio::task::spawn_blocking(move || {
            gathering.add(&kept, &ticks);
            gathering.finish()
        });
        Ok(gathered.await?)
    }

    /// What is in memory, and what only the database has of these streams.
    pub(super) async fn seen(
        &self,
        level: Level,
        range: Range,
        streams: &[Stream],
    ) -> anyhow::Result<(Vec<Arc<Tick>>, StoredRows)> {
        loop {
            let shelved = self.recent.all();
            if !self.is_open() || shelved.reaches_back_to(range.from.as_millisecond()) {
                return Ok((shelved.ticks, StoredRows::default()));
            }
            let (streams, first) = (streams.to_vec(), shelved.first_segment);
            let reading = move |mut connection: Reader| async move {
                kept(&mut connection, level, range, &streams, first).await
            };
            // Else what is in memory was rolled up in between; that happens every four hours.
            if let Some(kept) = self.readers.read(reading).await.context("cannot read ticks")? {
                return Ok((shelved.ticks, kept));
            }
        }
    }

    /// The same as far as it is in memory: the last ten to twenty minutes, and what the disk has not taken yet.
    pub fn series_in_memory(&self, wanted: &[Wanted], range: Range, points: usize) -> Vec<Option<Series>> {
        let mut gathering = self.gathering(wanted, range, points);
        gathering.add(&StoredRows::default(), &self.recent.all().ticks);
        gathering.finish()
    }

    fn gathering(&self, wanted: &[Wanted], range: Range, points: usize) -> Gathering {
        let found = wanted.iter().map(|wanted| {
            let stream = self.stream(wanted)?;
            Some(SeriesInProgress {
                stream,
                quantity: wanted.quantity,
                downsampler: Downsampler::new(range, points),
            })
        });
        let found: Vec<Option<SeriesInProgress>> = found.collect();
        let mut streams: Vec<Stream> = found.iter().flatten().map(|gathered| gathered.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        Gathering { found, streams }
    }

    /// How finely the range is told of: the finest level of which there is something; `None` where there is nothing.
    pub async fn finest(&self, range: Range) -> anyhow::Result<Option<Level>> {
        let (from_ms, to_ms) = (range.from.as_millisecond(), range.to.as_millisecond());
        if self.recent.all().ticks.iter().any(|tick| (from_ms..=to_ms).contains(&tick.at_ms)) {
            return Ok(Some(Level::Ticks));
        }
        if !self.is_open() {
            return Ok(None);
        }
        let key = sqlx::query_scalar("SELECT min(id) FROM segment WHERE to_ms >= ? AND from_ms <= ?")
            .bind(from_ms)
            .bind(to_ms);
        let reading = |mut connection: Reader| async move { Ok(key.fetch_one(&mut *connection).await?) };
        let key: Option<i64> = self.readers.read(reading).await.context("cannot read what is kept")?;
        Ok(key.and_then(Level::of_key).map(|(level, _)| level))
    }

    pub(super) fn stream(&self, wanted: &Wanted) -> Option<Stream> {
        wanted.stream(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether anything of this subject was ever kept.
    pub fn knows(&self, subject: &Subject) -> bool {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        match subject {
            Subject::Device(name) => catalog.device_named(name).is_some(),
            Subject::Volume(name) => catalog.volume_named(name).is_some(),
            Subject::Total | Subject::Host => true,
        }
    }
}

/// What the database has of these streams, but for the segments that are in memory; `None` where one of those has
/// gone into a roll-up.
async fn kept(
    connection: &mut SqliteConnection,
    level: Level,
    range: Range,
    streams: &[Stream],
    first_in_memory: Option<i64>,
) -> anyhow::Result<Option<StoredRows>> {
    // One look at one moment: what is sealed or rolled up meanwhile is not seen halfway.
    let mut transaction = connection.begin().await?;
    let in_minutes = rolled_until(&mut transaction, Level::Minutes).await?;
    if first_in_memory.is_some_and(|first| first <= in_minutes) {
        return Ok(None);
    }
    // Of what has gone into a level that does, finer ones are of no use.
    let ticks_from = if level < Level::Minutes { 0 } else { in_minutes + 1 };
    let minutes_from = match level {
        Level::TenMinutes => rolled_until(&mut transaction, level).await? + 1,
        _ => 0,
    };
    let rows: Vec<SegmentRow> = sqlx::query_as(
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
    let is_in_memory = |segment: &Segment| {
        let last = if segment.level() == Level::Ticks { Some(segment.number()) } else { None };
        first_in_memory.zip(last).is_some_and(|(first, last)| last >= first)
    };
    // What cannot be read hides nothing that tells of the same time.
    let (segments, mut axes): (Vec<Segment>, HashMap<i64, Axis>) = rows
        .into_iter()
        .filter(|row| !is_in_memory(&row.segment))
        .filter_map(|row| Some((row.segment.clone(), (row.segment.id, row.axis()?))))
        .unzip();
    let mut kept = StoredRows::default();
    for part in plan(level, &segments) {
        if let Some(axis) = axes.remove(&part.segment.id) {
            kept.parts.push((part, axis));
        }
    }
    let keys = kept
        .parts
        .iter()
        .flat_map(|(part, _)| streams.iter().map(|stream| chunk_key(part.segment.id, *stream)));
    let keys = serde_json::to_string(&keys.collect::<Vec<_>>())?;
    let chunks: Vec<(i64, Vec<u8>)> =
        sqlx::query_as("SELECT id, data FROM chunk WHERE id IN (SELECT value FROM json_each(?))")
            .bind(keys)
            .fetch_all(&mut *transaction)
            .await?;
    kept.chunks = chunks.into_iter().collect();
    Ok(Some(kept))
}

struct SegmentRow {
    segment: Segment,
    axis: Vec<u8>,
}

impl SegmentRow {
    /// `None` where it is damaged.
    fn axis(&self) -> Option<Axis> {
        let damaged = |damaged: &_| {
            tracing::warn!("segment {} cannot be read: {damaged}", self.segment.number());
        };
        Axis::decode(&self.axis).inspect_err(damaged).ok()
    }
}

impl FromRow<'_, SqliteRow> for SegmentRow {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self { segment: Segment::from_row(row)?, axis: row.try_get("axis")? })
    }
}

/// Adds what a segment says to each of the series.
fn add_part(
    found: &mut [Option<SeriesInProgress>],
    streams: &[Stream],
    part: &Part,
    axis: &Axis,
    chunks: &HashMap<i64, Vec<u8>>,
) {
    for stream in streams {
        let rows = rows_of(*stream, part, axis, chunks);
        for gathered in found.iter_mut().flatten().filter(|gathered| gathered.stream == *stream) {
            add_rows(gathered, part, axis, &rows);
        }
    }
}

/// What a segment says of a stream; nothing where it is damaged.
pub(super) fn rows_of(stream: Stream, part: &Part, axis: &Axis, chunks: &HashMap<i64, Vec<u8>>) -> Rows {
    let columns = columns(part.segment.level(), stream.kind);
    let data = chunks.get(&chunk_key(part.segment.id, stream));
    match data.map(|data| decode(columns, data)) {
        Some(Ok(rows)) if rows.presence.len() == axis.len() => rows,
        None => Rows { presence: vec![Presence::Absent; axis.len()], columns: Vec::new() },
        damaged => {
            let number = part.segment.number();
            tracing::warn!("{stream:?} in segment {number} is damaged and shown as a gap: {damaged:?}");
            Rows { presence: vec![Presence::Unknown; axis.len()], columns: Vec::new() }
        }
    }
}

fn add_rows(gathered: &mut SeriesInProgress, part: &Part, axis: &Axis, rows: &Rows) {
    let decoder = QuantityDecoder::new(part.segment.level(), gathered.stream.kind, gathered.quantity);
    for (row, at_ms) in axis.at_ms.iter().enumerate() {
        if !part.is_covered(axis.numbers[row]) {
            gathered.downsampler.push(*at_ms, decoder.extent(rows, row, axis.elapsed_us[row]));
        }
    }
}

fn add_ticks(gathered: &mut SeriesInProgress, ticks: &[Arc<Tick>]) {
    let (stream, quantity) = (gathered.stream, gathered.quantity);
    let zeros = [0; 16];
    for tick in ticks {
        let row = match tick.cell(stream) {
            Cell::Absent | Cell::Unknown => None,
            Cell::Zero => Some(&zeros[..]),
            Cell::Row(row) => Some(row),
        };
        let seen = row.and_then(|row| stream.kind.observe(quantity, row, tick.elapsed_us));
        gathered.downsampler.push(tick.at_ms, seen.map(Extent::from));
    }
}
