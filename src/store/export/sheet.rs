//! A segment as it is exported: the rows of all streams that are asked for, at the level that is asked for.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::Topics;
use crate::store::codec::{Presence, Rows, decode};
use crate::store::lens::{Lens, shape};
use crate::store::moment::Moment;
use crate::store::plan::Part;
use crate::store::rollup;
use crate::store::segment::{Axis, Level, chunk_key, rows_of};
use crate::store::stream::Stream;
use crate::store::tick::Tick;
use crate::store::words::in_words;

/// A segment's rows.
pub struct Sheet {
    level: Level,
    pub axis: Axis,
    /// In the order of the topics' streams.
    pub rows: Vec<Rows>,
}

impl Moment {
    /// The segment at `level`, or as it is where it is coarser; `None` where it is damaged.
    pub(super) async fn sheet(
        &mut self,
        part: &Part,
        topics: &Topics,
        level: Level,
    ) -> anyhow::Result<Option<Sheet>> {
        let axis = match self.axis(part.segment.id).await {
            Ok(axis) => axis,
            Err(error) => {
                tracing::warn!("segment {} is left out: {}", part.segment.number(), in_words(&error));
                return Ok(None);
            }
        };
        let chunks = self.chunks(part.segment.id, &topics.streams).await?;
        let at = part.segment.level();
        let rows = topics.streams.iter().enumerate().map(|(place, stream)| {
            let chunk = chunks.get(&chunk_key(part.segment.id, *stream));
            let wanted = topics.columns(place, at);
            // What is rolled up needs them all.
            decoded(chunk, at, *stream, axis.len(), |column| at < level || wanted.contains(&column))
        });
        let rows = rows.collect();
        Ok(Some(Sheet { level: at, axis, rows }.rolled(topics, level)))
    }

    async fn chunks(&mut self, segment: i64, streams: &[Stream]) -> anyhow::Result<HashMap<i64, Vec<u8>>> {
        let keys: Vec<i64> = streams.iter().map(|stream| chunk_key(segment, *stream)).collect();
        let chunks: Vec<(i64, Vec<u8>)> =
            sqlx::query_as("SELECT id, data FROM chunk WHERE id IN (SELECT value FROM json_each(?))")
                .bind(serde_json::to_string(&keys)?)
                .fetch_all(&mut self.connection)
                .await?;
        Ok(chunks.into_iter().collect())
    }
}

fn decoded(
    chunk: Option<&Vec<u8>>,
    level: Level,
    stream: Stream,
    length: usize,
    wanted: impl Fn(usize) -> bool,
) -> Rows {
    let shape = shape(level, stream.kind);
    let nothing =
        |presence| Rows { presence: vec![presence; length], columns: vec![vec![0; length]; shape.len()] };
    match chunk.map(|chunk| decode(shape, chunk, wanted)) {
        None => nothing(Presence::Absent),
        Some(Ok(rows)) if rows.presence.len() == length => rows,
        damaged => {
            tracing::warn!("{stream:?} is damaged in a segment, and not known there: {damaged:?}");
            nothing(Presence::Unknown)
        }
    }
}

impl Sheet {
    /// Ticks of a segment that is not in the database yet.
    pub fn of_ticks(number: i64, ticks: &[Arc<Tick>], topics: &Topics, level: Level) -> Self {
        let rows = topics.streams.iter().map(|stream| rows_of(ticks, *stream)).collect();
        Self { level: Level::Ticks, axis: Axis::of(number, ticks), rows }.rolled(topics, level)
    }

    /// Its rows at `level`; as it is where it is that already, or coarser.
    fn rolled(self, topics: &Topics, level: Level) -> Self {
        if self.level >= level {
            return self;
        }
        let groups = rollup::groups(&self.axis, level);
        let rolled = |(stream, rows): (&Stream, &Rows)| {
            rollup::rolled(stream.kind, self.level, &self.axis, rows, &groups)
        };
        let rows = topics.streams.iter().zip(&self.rows).map(rolled).collect();
        Self { level, axis: rollup::rolled_axis(&self.axis, &groups), rows }
    }

    /// When its rows ended.
    pub fn instants(&self) -> impl Iterator<Item = (usize, Timestamp)> {
        let instants = self.axis.at_ms.iter().enumerate();
        instants.filter_map(|(row, at_ms)| Some((row, Timestamp::from_millisecond(*at_ms).ok()?)))
    }

    /// For each topic what takes its quantities out of the rows, and out of those of which stream.
    pub fn lenses(&self, topics: &Topics) -> Vec<Vec<(usize, Lens)>> {
        let lens = |(place, quantity): &(usize, _)| {
            (*place, Lens::new(self.level, topics.streams[*place].kind, *quantity))
        };
        topics.list.iter().map(|topic| topic.quantities.iter().map(lens).collect()).collect()
    }

    /// Whether anything of these was there.
    pub fn has(&self, lenses: &[(usize, Lens)], row: usize) -> bool {
        lenses.iter().any(|(place, _)| self.rows[*place].presence[row] != Presence::Absent)
    }
}
