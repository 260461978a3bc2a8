//! Rows of one segment, from the database or from memory, as values of quantities: the one way from either to points.

use super::codec::{Presence, Rows};
use super::rollup;
use super::segment::{Axis, Level};
use super::stream::Stream;
use super::tick::SegmentTicks;
use crate::series::Extent;
use crate::series::quantity::Quantity;

/// A segment's time axis, and which of its rows others tell of.
#[derive(Debug)]
pub struct SegmentAxis {
    pub level: Level,
    pub axis: Axis,
    /// Rows of these segments of ticks are left out: numbers from-to, inclusive.
    pub covered: Vec<(i64, i64)>,
}

/// One row of a stream: its end, its length, and the quantity's values if known.
pub type Value = (i64, u64, Option<Extent>);

impl SegmentAxis {
    /// The axis of ticks in memory.
    pub fn of_ticks(ticks: &SegmentTicks) -> Self {
        let axis = Axis::of(ticks.number, &ticks.ticks);
        Self { level: Level::Ticks, axis, covered: Vec::new() }
    }

    pub fn is_covered(&self, row: usize) -> bool {
        let number = self.axis.numbers[row];
        self.covered.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }

    /// The values of a quantity in the rows that no other segment covers.
    pub fn values<'a>(
        &'a self,
        stream: Stream,
        rows: &'a Rows,
        quantity: Quantity,
    ) -> impl Iterator<Item = Value> + 'a {
        let rows_left = (0..self.axis.len()).filter(|row| !self.is_covered(*row));
        rows_left.map(move |row| {
            let elapsed_us = self.axis.elapsed_us[row];
            let extent = extent(self.level, stream, quantity, rows, row, elapsed_us);
            (self.axis.at_ms[row], elapsed_us, extent)
        })
    }
}

/// A row's values of a quantity; `None` if unknown.
pub fn extent(
    level: Level,
    stream: Stream,
    quantity: Quantity,
    rows: &Rows,
    row: usize,
    elapsed_us: u64,
) -> Option<Extent> {
    if rows.presence[row] != Presence::Known {
        return None;
    }
    if level == Level::Ticks {
        let mut numbers = [0; 16];
        numbers.iter_mut().zip(&rows.columns).for_each(|(number, column)| *number = column[row]);
        return stream.kind.observe(quantity, &numbers, elapsed_us).map(Extent::from);
    }
    let mut numbers = [0; rollup::COLUMNS];
    let columns = rows.columns[rollup::columns_of(stream.kind, quantity)].iter();
    numbers.iter_mut().zip(columns).for_each(|(number, column)| *number = column[row]);
    rollup::extent(quantity, &numbers)
}
