//! The ticks that are not yet in the database, for readers: what is drawn does not wait for a disk.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::segment::Level;
use super::tick::Tick;

/// Ticks that are not yet in the database.
#[derive(Debug, Default)]
pub struct RecentTicks {
    /// Held only to add one, or to copy what points to them.
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    /// With the number of their segment, in the order in which they came.
    ticks: VecDeque<(i64, Arc<Tick>)>,
    /// The latest instant of which the database has a tick.
    sealed_to_ms: Option<i64>,
}

/// What was on the shelf at one moment.
#[derive(Debug)]
pub struct RecentView {
    /// The segment of the first tick: what the database has of that one or later is here already.
    pub first_segment: Option<i64>,
    pub ticks: Vec<Arc<Tick>>,
    sealed_to_ms: Option<i64>,
}

impl RecentView {
    /// Whether the database has nothing to add from this instant on.
    pub fn reaches_back_to(&self, from_ms: i64) -> bool {
        self.sealed_to_ms < Some(from_ms) && self.ticks.first().is_some_and(|first| first.at_ms <= from_ms)
    }
}

impl RecentTicks {
    /// Says what the database had at first.
    pub fn begin(&self, sealed_to_ms: Option<i64>) {
        let mut inside = self.lock();
        inside.sealed_to_ms = inside.sealed_to_ms.max(sealed_to_ms);
    }

    pub fn put(&self, segment: i64, tick: Arc<Tick>) {
        self.lock().ticks.push_back((segment, tick));
    }

    pub fn all(&self) -> RecentView {
        let inside = self.lock();
        RecentView {
            first_segment: inside.ticks.front().map(|(segment, _)| *segment),
            ticks: inside.ticks.iter().map(|(_, tick)| Arc::clone(tick)).collect(),
            sealed_to_ms: inside.sealed_to_ms,
        }
    }

    /// The ticks up to this segment are in the database.
    pub fn clear(&self, segment: i64) {
        let mut inside = self.lock();
        while inside.ticks.front().is_some_and(|(first, _)| *first <= segment) {
            let at_ms = inside.ticks.pop_front().map(|(_, tick)| tick.at_ms);
            inside.sealed_to_ms = inside.sealed_to_ms.max(at_ms);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says which segment a tick is of: one is as long as a window of the wall clock, and ends where that goes back.
#[derive(Clone, Copy, Debug)]
pub struct SegmentNumbering {
    number: i64,
    rows: usize,
    last_ms: Option<i64>,
}

impl SegmentNumbering {
    /// The first tick begins the segment of this number.
    pub fn new(number: i64) -> Self {
        Self { number, rows: 0, last_ms: None }
    }

    pub fn number(&mut self, at_ms: i64, most_rows: usize) -> i64 {
        let level = Level::Ticks;
        let goes_on = |last_ms: i64| last_ms < at_ms && level.window(last_ms) == level.window(at_ms);
        if self.last_ms.is_some_and(|last_ms| !goes_on(last_ms)) || self.rows >= most_rows {
            self.number += 1;
            self.rows = 0;
        }
        self.rows += 1;
        self.last_ms = Some(at_ms);
        self.number
    }
}
