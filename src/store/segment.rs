//! A segment: a time axis and a chunk for each stream, for about ten minutes of ticks or a longer span of roll-ups.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::codec::{Presence, Rows, decode, encode};
use super::stream::Stream;
use super::tick::{Layout, Tick};

/// The resolution of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Every tick, at its own interval.
    Ticks,
    /// Made of ticks.
    Minutes,
    /// Made of minutes: for charts of weeks and years.
    TenMinutes,
}

/// A segment of ticks lies in one window of ten minutes on the wall clock.
const WINDOW_MS: i64 = 600_000;
/// Bits of a segment's number; 2³⁶ segments of ten minutes cover more than a million years.
const SEGMENT_BITS: u32 = 36;
/// Bits of a stream's number.
const STREAM_BITS: u32 = 24;

/// The window of an instant. A tick covers the time before it, so a tick at the end of a window is its last.
pub fn window(at_ms: i64) -> i64 {
    (at_ms - 1).div_euclid(WINDOW_MS)
}

impl Level {
    pub const ALL: [Self; 3] = [Self::Ticks, Self::Minutes, Self::TenMinutes];

    /// The length of a row; 0 if each tick is a row.
    pub fn row_ms(self) -> i64 {
        match self {
            Self::Ticks => 0,
            Self::Minutes => 60_000,
            Self::TenMinutes => 600_000,
        }
    }

    /// The first key of this level, and the first key after it.
    pub fn keys(self) -> (i64, i64) {
        (self.key(0), self.key(0) + (1 << SEGMENT_BITS))
    }

    /// The key of a segment's row.
    pub fn key(self, number: i64) -> i64 {
        ((self as i64) << SEGMENT_BITS) | number
    }

    pub fn of_key(key: i64) -> Option<(Self, i64)> {
        let level = usize::try_from(key >> SEGMENT_BITS)
            .ok()
            .and_then(|level| Self::ALL.get(level))?;
        Some((*level, key & ((1 << SEGMENT_BITS) - 1)))
    }
}

/// The key of a chunk's row, in the order of segments.
pub fn chunk_key(segment_key: i64, stream: Stream) -> i64 {
    (segment_key << STREAM_BITS) | i64::from(stream.number())
}

pub fn stream_of_chunk(key: i64) -> Option<Stream> {
    Stream::numbered(u32::try_from(key & ((1 << STREAM_BITS) - 1)).ok()?)
}

/// When a segment's rows ended and how long they were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// Milliseconds since 1970.
    pub at_ms: Vec<i64>,
    pub elapsed_us: Vec<u64>,
    /// The number of ticks in each row.
    pub ticks: Vec<u64>,
    /// The segment of ticks that each row comes from; no row comes from two.
    pub numbers: Vec<i64>,
}

/// Columns of an axis.
const COLUMNS: usize = 4;

impl Axis {
    pub fn of(number: i64, ticks: &[impl AsRef<Tick>]) -> Self {
        let ticks = ticks.iter().map(AsRef::as_ref);
        Self {
            at_ms: ticks.clone().map(|tick| tick.at_ms).collect(),
            elapsed_us: ticks.clone().map(|tick| tick.elapsed_us).collect(),
            ticks: ticks.clone().map(|_| 1).collect(),
            numbers: ticks.map(|_| number).collect(),
        }
    }

    pub fn len(&self) -> usize {
        self.at_ms.len()
    }

    /// The instants of the first and of the last row.
    pub fn range_ms(&self) -> (i64, i64) {
        let (first, last) = (self.at_ms.iter().min(), self.at_ms.iter().max());
        (
            first.copied().unwrap_or_default(),
            last.copied().unwrap_or_default(),
        )
    }

    /// The total length of the rows.
    pub fn length_ms(&self) -> i64 {
        let us = self
            .elapsed_us
            .iter()
            .fold(0_u64, |sum, us| sum.saturating_add(*us));
        i64::try_from(us / 1000).unwrap_or(i64::MAX)
    }

    pub fn encode(&self) -> anyhow::Result<Vec<u8>> {
        let mut before = 0;
        let steps = self.at_ms.iter().map(|at| {
            at.wrapping_sub(std::mem::replace(&mut before, *at))
                .cast_unsigned()
        });
        let numbers = self.numbers.iter().map(|number| number.cast_unsigned());
        let rows = Rows {
            presence: vec![Presence::Known; self.len()],
            columns: vec![
                steps.collect(),
                self.elapsed_us.clone(),
                self.ticks.clone(),
                numbers.collect(),
            ],
        };
        encode(&rows)
    }

    pub fn decode(bytes: &[u8]) -> anyhow::Result<Self> {
        let rows = decode(COLUMNS, bytes)?;
        let mut columns = rows.columns.into_iter();
        let mut at = 0i64;
        let steps = columns.next().unwrap_or_default();
        let at_ms = steps.into_iter().map(|step| {
            at = at.wrapping_add(step.cast_signed());
            at
        });
        Ok(Self {
            at_ms: at_ms.collect(),
            elapsed_us: columns.next().unwrap_or_default(),
            ticks: columns.next().unwrap_or_default(),
            numbers: columns
                .next()
                .unwrap_or_default()
                .into_iter()
                .map(u64::cast_signed)
                .collect(),
        })
    }
}

/// Every stream of these ticks, ascending.
pub fn streams(ticks: &[impl AsRef<Tick>]) -> BTreeSet<Stream> {
    let mut layouts: Vec<&Arc<Layout>> = ticks.iter().map(|tick| &tick.as_ref().layout).collect();
    layouts.dedup_by(|one, other| Arc::ptr_eq(one, other));
    layouts
        .into_iter()
        .flat_map(|layout| layout.iter().copied())
        .collect()
}

/// The rows of one stream.
pub fn rows_of(ticks: &[impl AsRef<Tick>], stream: Stream) -> Rows {
    let mut columns = vec![Vec::with_capacity(ticks.len()); stream.kind.columns()];
    let mut presence = Vec::with_capacity(ticks.len());
    for tick in ticks.iter().map(AsRef::as_ref) {
        let (known, row) = tick.row(stream);
        presence.push(known);
        for (index, column) in columns.iter_mut().enumerate() {
            column.push(row.get(index).copied().unwrap_or_default());
        }
    }
    Rows { presence, columns }
}
