//! What a row of ticks, or of roll-ups, says of one quantity.

use super::codec::{Presence, Rows};
use super::rollup;
use super::segment::Level;
use super::stream::Kind;
use crate::series::Extent;
use crate::series::quantity::Quantity;

/// The most columns of a row that are looked at for a quantity.
const MOST_COLUMNS: usize = 12;

/// Takes one quantity out of the rows of a level.
#[derive(Clone, Copy, Debug)]
pub struct QuantityDecoder {
    level: Level,
    kind: Kind,
    quantity: Quantity,
}

/// How many columns a kind's rows have.
pub fn columns(level: Level, kind: Kind) -> usize {
    if level == Level::Ticks { kind.columns() } else { rollup::columns(kind) }
}

impl QuantityDecoder {
    pub fn new(level: Level, kind: Kind, quantity: Quantity) -> Self {
        Self { level, kind, quantity }
    }

    /// `None` where it is not known.
    pub fn extent(&self, rows: &Rows, row: usize, elapsed_us: u64) -> Option<Extent> {
        if rows.presence[row] != Presence::Known {
            return None;
        }
        let columns = match self.level {
            Level::Ticks => 0..self.kind.columns(),
            _ => rollup::columns_of(self.kind, self.quantity),
        };
        let mut numbers = [0; MOST_COLUMNS];
        numbers.iter_mut().zip(&rows.columns[columns]).for_each(|(number, column)| *number = column[row]);
        match self.level {
            Level::Ticks => self.kind.observe(self.quantity, &numbers, elapsed_us).map(Extent::from),
            _ => rollup::extent(self.quantity, &numbers),
        }
    }
}
