//! Reads ticks after a position, one segment at a time: from memory, or from the database if only it has them.

use std::sync::PoisonError;

use anyhow::Context;
use sqlx::{Connection, SqliteConnection};

use super::StoreReader;
use super::codec::{Presence, Rows, decode_stored};
use super::export::SegmentSamples;
use super::position::Position;
use super::readers::{Reader, on_a_thread};
use super::rollup::columns_at;
use super::segment::{Axis, Level, chunk_key, rows_of, stream_of_chunk, streams};
use super::stream::Stream;
use super::tick::SegmentTicks;

/// A segment as it is stored.
struct Packed {
    number: i64,
    axis: Axis,
    chunks: Vec<(i64, Vec<u8>)>,
}

impl StoreReader {
    /// The newest tick, and the last one before it that ended at least this much earlier. `None` before the first tick.
    pub fn newest(&self, apart_ms: i64) -> Option<(Position, Option<Position>)> {
        self.recent.newest(apart_ms)
    }

    /// The segment of the first tick after a position; `None` if there is none.
    pub async fn samples_after(&self, after: Position) -> anyhow::Result<Option<SegmentSamples>> {
        let (first_in_memory, recent) = self.recent.after(after);
        let mut packed = None;
        if first_in_memory > after.segment {
            self.check_open()?;
            let reading = move |mut connection: Reader| async move {
                packed_after(&mut connection, after, first_in_memory).await
            };
            packed = self
                .readers
                .read(reading)
                .await
                .context("cannot read ticks")?;
        }
        let reader = self.clone();
        let unpacked = on_a_thread(move || match (packed, recent) {
            (Some(packed), _) => Some(reader.named(after, packed.number, packed.unpacked())),
            (None, Some(recent)) => Some(reader.named(after, recent.number, unpacked(&recent))),
            (None, None) => None,
        });
        Ok(unpacked.await?)
    }

    fn named(
        &self,
        after: Position,
        number: i64,
        (axis, rows): (Axis, Vec<(Stream, Rows)>),
    ) -> SegmentSamples {
        let catalog = self.catalog.read().unwrap_or_else(PoisonError::into_inner);
        SegmentSamples::new(after, number, axis, rows, &catalog)
    }
}

impl Packed {
    /// A damaged chunk is a gap.
    fn unpacked(self) -> (Axis, Vec<(Stream, Rows)>) {
        let count = self.axis.len();
        let rows = self.chunks.into_iter().filter_map(|(key, chunk)| {
            let stream = stream_of_chunk(key)?;
            let columns = columns_at(Level::Ticks, stream.kind);
            let rows = decode_stored(columns, Some(&chunk), count).unwrap_or_else(|damaged| {
                tracing::warn!(
                    "{stream:?} in segment {} is damaged and not sent: {damaged}",
                    self.number
                );
                Rows::without_values(Presence::Unknown, count, columns)
            });
            Some((stream, rows))
        });
        let rows = rows.collect();
        (self.axis, rows)
    }
}

fn unpacked(segment: &SegmentTicks) -> (Axis, Vec<(Stream, Rows)>) {
    let rows = streams(&segment.ticks)
        .into_iter()
        .map(|stream| (stream, rows_of(&segment.ticks, stream)));
    (Axis::of(segment.number, &segment.ticks), rows.collect())
}

/// The first segment of ticks after a position and before the segments in memory. One with a damaged axis is left out.
async fn packed_after(
    connection: &mut SqliteConnection,
    after: Position,
    first_in_memory: i64,
) -> anyhow::Result<Option<Packed>> {
    // One transaction, so that retention deletes no chunk of a segment that is being read.
    let mut transaction = connection.begin().await?;
    let mut from = Level::Ticks.key(after.segment);
    let end = Level::Ticks.key(first_in_memory);
    loop {
        let found: Option<(i64, Vec<u8>)> = sqlx::query_as(
            "SELECT id, axis FROM segment WHERE id >= ? AND id < ? AND (id > ? OR to_ms > ?) ORDER BY id LIMIT 1",
        )
        .bind(from)
        .bind(end)
        .bind(Level::Ticks.key(after.segment))
        .bind(after.at_ms)
        .fetch_optional(&mut *transaction)
        .await?;
        let Some((key, axis)) = found else {
            return Ok(None);
        };
        let number = Level::of_key(key).map_or(0, |(_, number)| number);
        match Axis::decode(&axis) {
            Ok(axis) => {
                let chunks = sqlx::query_as(
                    "SELECT id, data FROM chunk WHERE id >= ? AND id < ? ORDER BY id",
                )
                .bind(chunk_key(key, Stream::HOST))
                .bind(chunk_key(key + 1, Stream::HOST))
                .fetch_all(&mut *transaction)
                .await?;
                return Ok(Some(Packed {
                    number,
                    axis,
                    chunks,
                }));
            }
            Err(damaged) => {
                tracing::warn!("segment {number} cannot be read and is not sent: {damaged}")
            }
        }
        from = key + 1;
    }
}
