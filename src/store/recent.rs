//! The ticks of the last 20 minutes, and all that are not committed yet: recent charts need no disk.
//!
//! They are held as the records that the database gets, so that both are read in the same way, and a tick of 30 devices
//! takes 250 bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::address::{Position, TickWindow};
use super::record::Decoder;

/// Windows of ten minutes that stay in memory after they were committed.
const COMMITTED_WINDOWS: usize = 2;

/// A tick, encoded.
#[derive(Clone, Debug)]
pub struct TickRecord {
    pub position: Position,
    pub record: Arc<[u8]>,
    /// Once a minute, a decoder that has decoded the tick. A chart of five minutes thus need not decode up to ten before.
    pub decoder: Option<Arc<Decoder>>,
}

/// A ring of ticks, in the order of writing. The first one is complete.
#[derive(Debug, Default)]
pub struct RecentTicks {
    /// The lock is held only to add a tick, or to copy pointers to ticks.
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    ticks: VecDeque<TickRecord>,
    /// The last tick that the database has.
    committed: Option<Position>,
    /// The latest instant of ticks that only the database has.
    stored_to_ms: Option<i64>,
}

/// The ticks in memory at one moment.
#[derive(Clone, Debug, Default)]
pub struct RecentView {
    pub ticks: Vec<TickRecord>,
    stored_to_ms: Option<i64>,
}

impl RecentView {
    /// Whether the database has nothing to add from this instant on.
    pub fn reaches_back_to(&self, from_ms: i64) -> bool {
        let first = self.ticks.first();
        self.stored_to_ms < Some(from_ms)
            && first.is_some_and(|first| first.position.at_ms <= from_ms)
    }

    /// The first tick in memory. The database's ticks from this one on are in memory too.
    pub fn first(&self) -> Option<Position> {
        self.ticks.first().map(|first| first.position)
    }
}

impl RecentTicks {
    pub fn put(&self, tick: TickRecord) {
        self.lock().ticks.push_back(tick);
    }

    pub fn view(&self) -> RecentView {
        let inside = self.lock();
        RecentView {
            ticks: inside.ticks.iter().cloned().collect(),
            stored_to_ms: inside.stored_to_ms,
        }
    }

    /// The newest tick, and the last one before it that ended at least this much earlier, or later, if the clock went back.
    pub fn newest(&self, apart_ms: i64) -> Option<(Position, Option<Position>)> {
        let inside = self.lock();
        let mut positions = inside.ticks.iter().rev().map(|tick| tick.position);
        let newest = positions.next()?;
        let before =
            positions.find(|other| newest.at_ms.abs_diff(other.at_ms) >= apart_ms.unsigned_abs());
        Some((newest, before))
    }

    /// The first tick in memory, and the ticks of the first window with ticks after a position, from the window's beginning.
    pub fn window_after(&self, after: Position) -> (Option<Position>, Vec<TickRecord>) {
        let inside = self.lock();
        let first = inside.ticks.front().map(|tick| tick.position);
        let next = inside.ticks.partition_point(|tick| tick.position <= after);
        let Some(next) = inside.ticks.get(next) else {
            return (first, Vec::new());
        };
        let window = next.position.window();
        let of_window = inside
            .ticks
            .iter()
            .skip_while(|tick| tick.position.window() != window)
            .take_while(|tick| tick.position.window() == window);
        (first, of_window.cloned().collect())
    }

    /// Notes that the ticks up to this one are in the database. Only the last windows of them stay in memory.
    pub fn committed(&self, position: Position) {
        let inside = &mut *self.lock();
        inside.committed = inside.committed.max(Some(position));
        let mut windows: Vec<TickWindow> = Vec::new();
        for tick in &inside.ticks {
            let window = tick.position.window();
            if tick.position > position || window == position.window() {
                break;
            }
            if windows.last() != Some(&window) {
                windows.push(window);
            }
        }
        let Some(last_dropped) = windows
            .len()
            .checked_sub(COMMITTED_WINDOWS + 1)
            .map(|index| windows[index])
        else {
            return;
        };
        while let Some(first) = inside.ticks.front()
            && first.position.window() <= last_dropped
        {
            inside.stored_to_ms = inside.stored_to_ms.max(Some(first.position.at_ms));
            inside.ticks.pop_front();
        }
    }

    /// The ticks in memory that the last database had.
    pub fn all_committed(&self) -> Vec<TickRecord> {
        let inside = self.lock();
        let committed = inside
            .ticks
            .iter()
            .take_while(|tick| Some(tick.position) <= inside.committed);
        committed.cloned().collect()
    }

    /// Forgets all ticks. The database has others, up to `stored_to_ms`. Returns the ticks, and the last one that an earlier
    /// database had.
    pub fn clear(&self, stored_to_ms: Option<i64>) -> (VecDeque<TickRecord>, Option<Position>) {
        let forgotten = std::mem::replace(
            &mut *self.lock(),
            Inside {
                stored_to_ms,
                ..Inside::default()
            },
        );
        (forgotten.ticks, forgotten.committed)
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(at_ms: i64) -> TickRecord {
        TickRecord {
            position: Position { stretch: 0, at_ms },
            record: Arc::from([]),
            decoder: None,
        }
    }

    #[test]
    fn two_committed_windows_stay_and_all_that_is_not_committed() {
        let recent = RecentTicks::default();
        // One tick a minute for an hour.
        for minute in 1..=60 {
            recent.put(tick(minute * 60_000));
        }
        let first_minute = || recent.view().first().unwrap().at_ms / 60_000;
        recent.committed(tick(35 * 60_000).position);
        assert_eq!(first_minute(), 11, "21 to 30 and 11 to 20 stay");
        assert!(recent.view().reaches_back_to(11 * 60_000));
        assert!(!recent.view().reaches_back_to(10 * 60_000));
        assert_eq!(recent.all_committed().len(), 25);
        recent.committed(tick(60 * 60_000).position);
        assert_eq!(first_minute(), 31);
        let (first, window) = recent.window_after(tick(44 * 60_000).position);
        assert_eq!(first.unwrap().at_ms, 31 * 60_000);
        let minutes: Vec<i64> = window
            .iter()
            .map(|tick| tick.position.at_ms / 60_000)
            .collect();
        assert_eq!(minutes, (41..=50).collect::<Vec<_>>());
    }
}
