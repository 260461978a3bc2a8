//! What a row of ticks, or of roll-ups, says of one quantity.

use super::codec::{Predictor, Presence, Rows};
use super::rollup;
use super::segment::Level;
use super::stream::Kind;
use crate::series::Extent;
use crate::series::quantity::Quantity;

/// Takes one quantity out of the rows of a level.
#[derive(Clone, Debug)]
pub struct QuantityDecoder {
    level: Level,
    kind: Kind,
    quantity: Quantity,
    /// The columns that have to be decoded for it.
    pub columns: Vec<usize>,
}

/// How each column of a kind's rows is foretold.
pub fn shape(level: Level, kind: Kind) -> &'static [Predictor] {
    if level == Level::Ticks { kind.shape() } else { rollup::shape(level, kind) }
}

impl QuantityDecoder {
    pub fn new(level: Level, kind: Kind, quantity: Quantity) -> Self {
        let columns = match level {
            Level::Ticks => kind.columns_of(quantity).to_vec(),
            _ => rollup::columns_of(kind, quantity).collect(),
        };
        Self { level, kind, quantity, columns }
    }

    /// `None` where it is not known.
    pub fn extent(&self, rows: &Rows, row: usize, elapsed_us: u64) -> Option<Extent> {
        if rows.presence[row] != Presence::Known {
            return None;
        }
        let mut numbers = [0; 16];
        let of_row = self.columns.iter().map(|column| rows.columns[*column][row]);
        match self.level {
            Level::Ticks => {
                self.columns.iter().zip(of_row).for_each(|(column, number)| numbers[*column] = number);
                self.kind.observe(self.quantity, &numbers, elapsed_us).map(Extent::from)
            }
            _ => {
                numbers.iter_mut().zip(of_row).for_each(|(place, number)| *place = number);
                rollup::extent(self.quantity, &numbers, elapsed_us)
            }
        }
    }
}
