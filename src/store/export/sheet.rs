//! A segment as it is exported: the rows of all streams that are asked for, at the level that is asked for.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use super::topics::{Topic, Topics};
use crate::store::codec::{Presence, Rows, decode};
use crate::store::decoder::columns;
use crate::store::plan::Part;
use crate::store::read_view::ReadView;
use crate::store::rollup;
use crate::store::segment::{Axis, Level, chunk_key, rows_of};
use crate::store::stream::Stream;
use crate::store::tick::Tick;

/// A segment's rows.
pub struct Sheet {
    pub level: Level,
    pub axis: Axis,
    /// In the order of the topics' streams.
    pub rows: Vec<Rows>,
    /// Whether all of it could be read.
    pub is_whole: bool,
}

impl ReadView {
    /// The segment with rows of this length, or as it is where it is rolled up already; `None` where nothing of it can be
    /// read.
    pub(super) async fn sheet(&mut self, part: &Part, topics: &Topics, row_ms: i64) -> Option<Sheet> {
        let axis = self.axis(part.segment.id).await.ok()?;
        let chunks = self.readable_chunks(part.segment.id, &topics.streams).await;
        let (at, mut is_whole) = (part.segment.level(), true);
        let rows = topics.streams.iter().map(|stream| {
            let chunk = chunks.get(&chunk_key(part.segment.id, *stream));
            let rows = decoded(chunk.map(Option::as_ref), at, *stream, axis.len());
            is_whole &= rows.is_some();
            rows.unwrap_or_else(|| nothing(Presence::Unknown, at, *stream, axis.len()))
        });
        let rows = rows.collect();
        Some(Sheet { level: at, axis, rows, is_whole }.rolled(topics, row_ms))
    }

    /// Each that is there; `None` where the database cannot read it.
    async fn readable_chunks(&mut self, segment: i64, streams: &[Stream]) -> HashMap<i64, Option<Vec<u8>>> {
        if let Ok(chunks) = self.chunks(segment, streams).await {
            return chunks.into_iter().map(|(key, data)| (key, Some(data))).collect();
        }
        // A page that is damaged hides no more than what is on it.
        let mut found = HashMap::new();
        for stream in streams {
            match self.chunks(segment, &[*stream]).await {
                Ok(chunk) => found.extend(chunk.into_iter().map(|(key, data)| (key, Some(data)))),
                Err(_) => drop(found.insert(chunk_key(segment, *stream), None)),
            }
        }
        found
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

/// `None` where it is damaged.
fn decoded(chunk: Option<Option<&Vec<u8>>>, level: Level, stream: Stream, length: usize) -> Option<Rows> {
    let Some(chunk) = chunk else { return Some(nothing(Presence::Absent, level, stream, length)) };
    decode(columns(level, stream.kind), chunk?).ok().filter(|rows| rows.presence.len() == length)
}

fn nothing(presence: Presence, level: Level, stream: Stream, length: usize) -> Rows {
    let columns = columns(level, stream.kind);
    Rows { presence: vec![presence; length], columns: vec![vec![0; length]; columns] }
}

impl Sheet {
    /// Ticks of a segment that is not in the database yet.
    pub fn of_ticks(number: i64, ticks: &[Arc<Tick>], topics: &Topics, row_ms: i64) -> Self {
        let rows = topics.streams.iter().map(|stream| rows_of(ticks, *stream)).collect();
        Self { level: Level::Ticks, axis: Axis::of(number, ticks), rows, is_whole: true }
            .rolled(topics, row_ms)
    }

    /// Its ticks as rows of this length. What is rolled up already is left as it is.
    fn rolled(self, topics: &Topics, row_ms: i64) -> Self {
        if self.level > Level::Ticks || row_ms == 0 {
            return self;
        }
        let groups = rollup::groups(&self.axis, row_ms);
        let rolled = |(stream, rows): (&Stream, &Rows)| {
            rollup::rolled(stream.kind, self.level, &self.axis, rows, &groups)
        };
        let rows = topics.streams.iter().zip(&self.rows).map(rolled).collect();
        Self { level: Level::Minutes, axis: rollup::rolled_axis(&self.axis, &groups), rows, ..self }
    }

    /// When its rows ended.
    pub fn instants(&self) -> impl Iterator<Item = (usize, Timestamp)> {
        let instants = self.axis.at_ms.iter().enumerate();
        instants.filter_map(|(row, at_ms)| Some((row, Timestamp::from_millisecond(*at_ms).ok()?)))
    }

    /// Whether anything of this topic was there.
    pub fn has(&self, topic: &Topic, row: usize) -> bool {
        topic.quantities.iter().any(|(place, _)| self.rows[*place].presence[row] != Presence::Absent)
    }
}
