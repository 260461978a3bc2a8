//! The ticks of the last 20 minutes, and all that are not in the database yet: recent charts need no disk.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::position::Position;
use super::segment::window;
use super::tick::{SegmentTicks, Tick, add};
use crate::series::Range;

/// Segments of about ten minutes that stay in memory after they are in the database.
const SEALED_SEGMENTS: usize = 2;

/// A ring of ticks.
#[derive(Debug, Default)]
pub struct RecentTicks {
    /// The lock is held only to add a tick, or to copy pointers to ticks.
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    view: RecentView,
    /// The last tick that the writer has written.
    written: Option<Arc<Tick>>,
}

/// The ticks in memory at one moment.
#[derive(Clone, Debug, Default)]
pub struct RecentView {
    /// In order of arrival. A segment is here completely or not at all.
    pub segments: Vec<SegmentTicks>,
    /// The latest instant of ticks that only the database has.
    stored_to_ms: Option<i64>,
}

impl RecentView {
    /// Whether the database has nothing to add from this instant on.
    pub fn reaches_back_to(&self, from_ms: i64) -> bool {
        self.stored_to_ms < Some(from_ms)
            && self
                .ticks()
                .next()
                .is_some_and(|first| first.at_ms <= from_ms)
    }

    /// The first segment in memory. The database's segments from this one on are in memory too.
    pub fn first_segment(&self) -> Option<i64> {
        self.segments.first().map(|segment| segment.number)
    }

    /// The ticks of a range.
    pub fn within(self, range: Range) -> Vec<SegmentTicks> {
        let (from_ms, to_ms) = (range.from.as_millisecond(), range.to.as_millisecond());
        let mut segments = self.segments;
        segments.iter_mut().for_each(|segment| {
            segment
                .ticks
                .retain(|tick| (from_ms..=to_ms).contains(&tick.at_ms))
        });
        segments.retain(|segment| !segment.ticks.is_empty());
        segments
    }

    pub fn ticks(&self) -> impl Iterator<Item = &Arc<Tick>> {
        self.segments.iter().flat_map(|segment| &segment.ticks)
    }
}

impl RecentTicks {
    pub fn put(&self, segment: i64, tick: Arc<Tick>) {
        add(&mut self.lock().view.segments, segment, tick);
    }

    pub fn view(&self) -> RecentView {
        self.lock().view.clone()
    }

    /// The newest tick, and the last one before it that ended at least this much earlier, or later, if the clock went back.
    pub fn newest(&self, apart_ms: i64) -> Option<(Position, Option<Position>)> {
        let inside = self.lock();
        let segments = inside.view.segments.iter().rev();
        let mut positions = segments.flat_map(|segment| {
            segment
                .ticks
                .iter()
                .rev()
                .map(|tick| segment.position(tick))
        });
        let newest = positions.next()?;
        let before =
            positions.find(|other| newest.at_ms.abs_diff(other.at_ms) >= apart_ms.unsigned_abs());
        Some((newest, before))
    }

    /// The number of the first segment in memory, and the first segment with ticks after a position: those, and one before.
    pub fn after(&self, after: Position) -> (i64, Option<SegmentTicks>) {
        let inside = self.lock();
        let first = inside.view.first_segment().unwrap_or(i64::MAX);
        let rest = inside.view.segments.iter().find_map(|segment| {
            let old = segment
                .ticks
                .partition_point(|tick| segment.position(tick) <= after);
            let ticks = &segment.ticks[old.saturating_sub(1)..];
            (old < segment.ticks.len()).then(|| SegmentTicks {
                number: segment.number,
                ticks: ticks.to_vec(),
            })
        });
        (first, rest)
    }

    /// Notes that the segments up to this one are in the database. Only the last of them stay in memory.
    pub fn sealed(&self, segment: i64) {
        let view = &mut self.lock().view;
        let sealed = view
            .segments
            .partition_point(|in_memory| in_memory.number <= segment);
        for dropped in view
            .segments
            .drain(..sealed.saturating_sub(SEALED_SEGMENTS))
        {
            view.stored_to_ms = view
                .stored_to_ms
                .max(dropped.ticks.iter().map(|tick| tick.at_ms).max());
        }
    }

    /// The writer has written this tick.
    pub fn wrote(&self, tick: &Arc<Tick>) {
        self.lock().written = Some(Arc::clone(tick));
    }

    /// Every tick up to the last one that the writer has written.
    pub fn written(&self) -> Vec<(i64, Arc<Tick>)> {
        let inside = self.lock();
        let Some(last) = &inside.written else {
            return Vec::new();
        };
        let segments = inside.view.segments.iter();
        let ticks =
            segments.flat_map(|segment| segment.ticks.iter().map(|tick| (segment.number, tick)));
        let mut ticks: Vec<_> = ticks
            .map(|(number, tick)| (number, Arc::clone(tick)))
            .collect();
        let count = ticks
            .iter()
            .rposition(|(_, tick)| Arc::ptr_eq(tick, last))
            .map_or(0, |at| at + 1);
        ticks.truncate(count);
        ticks
    }

    /// Replaces the segments by these. The database has others up to `stored_to_ms`.
    pub fn replace(&self, stored_to_ms: Option<i64>, segments: Vec<SegmentTicks>) {
        *self.lock() = Inside {
            view: RecentView {
                segments,
                stored_to_ms,
            },
            written: None,
        };
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Numbers segments. Each covers one window of the wall clock, and ends early if the clock goes back.
#[derive(Clone, Copy, Debug)]
pub struct SegmentNumbering {
    number: i64,
    rows: usize,
    last_ms: Option<i64>,
}

impl SegmentNumbering {
    /// The first tick begins the segment of this number.
    pub fn new(number: i64) -> Self {
        Self {
            number,
            rows: 0,
            last_ms: None,
        }
    }

    pub fn is_before(&self, segment: i64) -> bool {
        self.number < segment
    }

    /// The segment of a tick that ended at this instant.
    pub fn number(&mut self, at_ms: i64, most_rows: usize) -> i64 {
        let continues = |last_ms: i64| last_ms < at_ms && window(last_ms) == window(at_ms);
        if self.last_ms.is_some_and(|last_ms| !continues(last_ms)) || self.rows >= most_rows {
            self.number += 1;
            self.rows = 0;
        }
        self.rows += 1;
        self.last_ms = Some(at_ms);
        self.number
    }
}
