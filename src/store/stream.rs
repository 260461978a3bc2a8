//! Streams: the values of a device, a volume or the host over time, each a row of integers that may be unknown.
//!
//! The columns and quantities of each kind are those of `crate::quantity`.

pub use crate::quantity::RowKind as Kind;

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
