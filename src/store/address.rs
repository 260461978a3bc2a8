//! Where a value is stored: the table of its level, the position of its row, and the stream within the row. And what a
//! receiver has of the course of ticks.
//!
//! A stream is the values of a device, a volume or the host over time. Its columns and quantities are those of
//! `crate::quantity`.

use serde::{Deserialize, Serialize};

pub use crate::quantity::RowKind as Kind;

/// Bits of a tick's number for its time: until the year 2527.
const TIME_BITS: u32 = 44;
/// Ticks of a window share one complete record, and become one row of ten minutes.
pub const WINDOW_MS: i64 = 600_000;
/// Bits of a stream's number for its kind.
const KIND_BITS: u32 = 3;
/// Columns of a quantity in roll-ups: sums of `over` and `amount`, the smallest and the largest value.
pub const ROLLED_COLUMNS: usize = 4;

/// A value that may be unknown.
pub type StoredValue = Option<u64>;

/// The resolution of stored rows: each has a table of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Every tick, at its own interval.
    Ticks,
    /// Made of ticks.
    Minutes,
    /// Made of minutes: for charts of weeks and years.
    TenMinutes,
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

    /// The number of columns of a kind's rows.
    pub fn columns(self, kind: Kind) -> usize {
        match self {
            Self::Ticks => kind.columns(),
            Self::Minutes | Self::TenMinutes => kind.quantities().len() * ROLLED_COLUMNS,
        }
    }
}

/// A device, a volume or the host over time, by the number of its row in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stream {
    pub kind: Kind,
    pub row: u32,
}

impl Stream {
    pub const HOST: Self = Self {
        kind: Kind::Host,
        row: 0,
    };
    /// The host's total, which counts each byte once.
    pub const TOTAL: Self = Self {
        kind: Kind::Device,
        row: 0,
    };
    /// Numbers of rows are below this.
    pub const MOST_ROWS: u32 = 1 << 21;

    pub fn new(kind: Kind, row: u32) -> Self {
        Self { kind, row }
    }

    /// Below 2²⁴.
    pub fn number(self) -> u32 {
        self.row << KIND_BITS | self.kind as u32
    }

    /// `None` if there is no such kind.
    pub fn numbered(number: u32) -> Option<Self> {
        let kind = Kind::ALL.get((number & ((1 << KIND_BITS) - 1)) as usize)?;
        Some(Self {
            kind: *kind,
            row: number >> KIND_BITS,
        })
    }
}

/// A tick, in the order of writing, whatever the clock does.
///
/// Its number, `stretch << 44 | at_ms`, is the key of its row. So ticks are found by time without an index, and one integer
/// names a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// How often the clock went back before. Within a stretch, times ascend.
    pub stretch: i64,
    /// The end of the tick in milliseconds since 1970.
    pub at_ms: i64,
}

/// The ticks after one position, up to and including another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub after: Position,
    pub to: Position,
}

/// The ticks that a receiver took or refused for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// All ticks up to this one.
    pub done: Position,
    /// Later ones, ascending; they neither overlap nor touch.
    pub islands: Vec<Span>,
}

impl Position {
    /// The largest time that a tick can have.
    pub const LATEST_MS: i64 = (1 << TIME_BITS) - 1;

    /// The position of a tick that ended at this time and was taken after the tick `last`. `None` if the time is before 1970
    /// or after 2527.
    pub fn next(last: Option<Self>, at_ms: i64) -> Option<Self> {
        if !(0..=Self::LATEST_MS).contains(&at_ms) {
            return None;
        }
        let stretch = match last {
            None => 0,
            Some(last) if last.at_ms < at_ms => last.stretch,
            Some(last) => last.stretch + 1,
        };
        Some(Self { stretch, at_ms })
    }

    pub fn number(self) -> i64 {
        self.stretch << TIME_BITS | self.at_ms
    }

    pub fn numbered(number: i64) -> Self {
        Self {
            stretch: number >> TIME_BITS,
            at_ms: number & Self::LATEST_MS,
        }
    }

    /// The ten minutes that it lies in. A tick covers the time before it, so a tick at 02:10:00 is the last of the window
    /// that began at 02:00.
    pub fn window(self) -> TickWindow {
        TickWindow {
            stretch: self.stretch,
            index: (self.at_ms - 1).div_euclid(WINDOW_MS),
        }
    }
}

/// Ten minutes of the wall clock in one stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TickWindow {
    stretch: i64,
    index: i64,
}

impl TickWindow {
    /// When it begins.
    pub fn begin_ms(self) -> i64 {
        self.index * WINDOW_MS
    }

    /// The numbers that its ticks may have, from-to, inclusive.
    pub fn numbers(self) -> (i64, i64) {
        let at = |at_ms: i64| Position {
            stretch: self.stretch,
            at_ms: at_ms.clamp(0, Position::LATEST_MS),
        };
        let from_ms = self.begin_ms();
        (at(from_ms + 1).number(), at(from_ms + WINDOW_MS).number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ascend_in_the_order_of_writing() {
        let mut last = None;
        let mut numbers = Vec::new();
        for at_ms in [1_000, 2_000, 2_000, 500, 900, 5_000_000_000_000, 800] {
            let position = Position::next(last, at_ms).unwrap();
            assert_eq!(Position::numbered(position.number()), position);
            numbers.push(position.number());
            last = Some(position);
        }
        assert!(numbers.is_sorted(), "{numbers:?}");
        assert_eq!(last.unwrap().stretch, 3);
        assert_eq!(Position::next(last, -1), None);
        assert_eq!(Position::next(last, Position::LATEST_MS + 1), None);
    }

    #[test]
    fn a_tick_at_the_end_of_ten_minutes_is_their_last() {
        let at = |at_ms| Position { stretch: 2, at_ms };
        assert_eq!(at(600_000).window(), at(1).window());
        assert_ne!(at(600_000).window(), at(600_001).window());
        assert_eq!(
            at(7).window().numbers(),
            (at(1).number(), at(600_000).number())
        );
        assert_eq!(at(0).window().numbers().1, at(0).number());
    }
}
