//! Streams: the values of a device, a volume or the host over time, each with a fixed number of integer columns.
//!
//! The columns and quantities of each kind are those of `crate::quantity`.

use serde::{Deserialize, Serialize};

pub use crate::quantity::RowKind as Kind;

/// Bits of a stream's number for its kind.
pub const KIND_BITS: u32 = 3;

/// A device, a volume or the host over time, by the number of its row in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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

/// Stands for an unknown value in a column.
const UNKNOWN: u64 = u64::MAX;

/// A row as it is stored; `None` if nothing is known.
pub fn stored(row: &[Option<u64>]) -> Option<Vec<u64>> {
    let is_known = row.iter().any(Option::is_some);
    is_known.then(|| row.iter().map(|value| value.unwrap_or(UNKNOWN)).collect())
}

pub fn row_of(stored: &[u64]) -> Vec<Option<u64>> {
    let known = |value: &u64| Some(*value).filter(|value| *value != UNKNOWN);
    stored.iter().map(known).collect()
}
