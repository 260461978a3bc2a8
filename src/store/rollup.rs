//! Roll-ups combine several ticks, or several finer roll-ups, in one row. Sums and peaks are preserved. Rows of any level
//! become values of quantities here.
//!
//! A row has four columns for each quantity of its stream's kind: exact sums of `over` and `amount`, and the smallest and
//! the largest value of one tick, rounded outward to eight binary digits.

use std::ops::Range;

use super::codec::{Presence, Rows};
use super::segment::{Axis, Level};
use super::stream::{Kind, row_of};
use super::tick::SegmentTicks;
use crate::quantity::{Extent, Observation, Quantity};

/// Columns of a quantity.
const COLUMNS: usize = 4;

/// The four columns of one quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    over: u64,
    amount: u64,
    least: u64,
    most: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        if other.over == 0 {
            return;
        }
        self.least = if self.over == 0 {
            other.least
        } else {
            self.least.min(other.least)
        };
        self.most = self.most.max(other.most);
        self.over = self.over.saturating_add(other.over);
        self.amount = self.amount.saturating_add(other.amount);
    }
}

impl Tally {
    /// Of a row's number in each column of a kind's roll-ups.
    fn of_row(kind: Kind, quantity: Quantity, number: impl Fn(usize) -> u64) -> Self {
        let index = kind
            .quantities()
            .iter()
            .position(|other| *other == quantity)
            .unwrap_or_default();
        let [over, amount, least, most] =
            std::array::from_fn(|column| number(index * COLUMNS + column));
        Self {
            over,
            amount,
            least,
            most,
        }
    }
}

impl From<Option<Observation>> for Tally {
    fn from(seen: Option<Observation>) -> Self {
        seen.map_or_else(Self::default, |seen| {
            let value = seen.value();
            Self {
                over: seen.over,
                amount: seen.amount,
                least: near(value),
                most: near_above(value),
            }
        })
    }
}

/// Bits of a value's fraction that are dropped: of 52, eight stay.
const DROPPED: u32 = 44;

/// A non-negative value as an integer that sorts like it, less than 0.4 % below it.
fn near(value: f64) -> u64 {
    value.to_bits() >> DROPPED
}

/// As [`near`], but not below the value.
fn near_above(value: f64) -> u64 {
    value.to_bits().div_ceil(1 << DROPPED)
}

/// The value that such an integer encodes.
fn value_of(near: u64) -> f64 {
    f64::from_bits(near << DROPPED)
}

/// Groups neighbouring rows of one segment of ticks into rows of this length.
pub fn groups(axis: &Axis, row_ms: i64) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    // A row covers the time before it, so a row at the end of a minute is the last of that minute.
    let number = |row: usize| ((axis.at_ms[row] - 1).div_euclid(row_ms), axis.numbers[row]);
    for row in 0..axis.len() {
        match groups.last_mut() {
            Some(last) if number(last.start) == number(row) => last.end = row + 1,
            _ => groups.push(row..row + 1),
        }
    }
    groups
}

/// The axis of the groups.
pub fn rolled_axis(axis: &Axis, groups: &[Range<usize>]) -> Axis {
    Axis {
        at_ms: groups
            .iter()
            .map(|group| axis.at_ms[group.end - 1])
            .collect(),
        elapsed_us: groups
            .iter()
            .map(|group| sum(&axis.elapsed_us[group.clone()]))
            .collect(),
        ticks: groups
            .iter()
            .map(|group| sum(&axis.ticks[group.clone()]))
            .collect(),
        numbers: groups
            .iter()
            .map(|group| axis.numbers[group.start])
            .collect(),
    }
}

/// One stream's roll-ups of groups of rows in `from`.
pub fn rolled(kind: Kind, from: Level, axis: &Axis, rows: &Rows, groups: &[Range<usize>]) -> Rows {
    let quantities = kind.quantities();
    let mut columns = vec![vec![0; groups.len()]; quantities.len() * COLUMNS];
    let mut presence = Vec::with_capacity(groups.len());
    let mut numbers = vec![0; rows.columns.len()];
    for (place, group) in groups.iter().enumerate() {
        let mut tallies = vec![Tally::default(); quantities.len()];
        for row in group
            .clone()
            .filter(|row| rows.presence[*row] == Presence::Known)
        {
            for (number, column) in numbers.iter_mut().zip(&rows.columns) {
                *number = column[row];
            }
            for (tally, quantity) in tallies.iter_mut().zip(quantities) {
                tally.add(match from {
                    Level::Ticks => quantity
                        .observe(&row_of(&numbers), axis.elapsed_us[row])
                        .into(),
                    _ => Tally::of_row(kind, *quantity, |column| numbers[column]),
                });
            }
        }
        // Known if any row is known; absent only if all are.
        presence.push(
            rows.presence[group.clone()]
                .iter()
                .copied()
                .max()
                .unwrap_or(Presence::Absent),
        );
        if presence[place] == Presence::Known {
            for (columns, tally) in columns.chunks_mut(COLUMNS).zip(tallies) {
                let kept = [tally.over, tally.amount, tally.least, tally.most];
                columns
                    .iter_mut()
                    .zip(kept)
                    .for_each(|(column, number)| column[place] = number);
            }
        }
    }
    Rows { presence, columns }
}

fn sum(numbers: &[u64]) -> u64 {
    numbers
        .iter()
        .fold(0, |sum, number| sum.saturating_add(*number))
}

/// The number of columns of a kind's rows at a level.
pub fn columns_at(level: Level, kind: Kind) -> usize {
    if level == Level::Ticks {
        kind.columns()
    } else {
        kind.quantities().len() * COLUMNS
    }
}

/// A row's values of a quantity; `None` if unknown.
pub fn extent(
    level: Level,
    kind: Kind,
    quantity: Quantity,
    rows: &Rows,
    row: usize,
    elapsed_us: u64,
) -> Option<Extent> {
    if rows.presence[row] != Presence::Known {
        return None;
    }
    if level == Level::Ticks {
        let mut numbers = [0; Kind::MOST_COLUMNS];
        numbers
            .iter_mut()
            .zip(&rows.columns)
            .for_each(|(number, column)| *number = column[row]);
        return quantity
            .observe(&row_of(&numbers), elapsed_us)
            .map(Extent::from);
    }
    let tally = Tally::of_row(kind, quantity, |column| rows.columns[column][row]);
    let all = Observation::ratio(tally.amount, tally.over, quantity.scale())?;
    Some(Extent {
        all,
        min: value_of(tally.least),
        max: value_of(tally.most),
    })
}

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
        Self {
            level: Level::Ticks,
            axis,
            covered: Vec::new(),
        }
    }

    /// The rows that no other segment covers.
    pub fn uncovered(&self) -> impl Iterator<Item = usize> {
        let is_covered = |number| {
            self.covered
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&number))
        };
        (0..self.axis.len()).filter(move |row| !is_covered(self.axis.numbers[*row]))
    }

    /// The values of a quantity in the rows that no other segment covers.
    pub fn values(
        &self,
        kind: Kind,
        rows: &Rows,
        quantity: Quantity,
    ) -> impl Iterator<Item = Value> {
        self.uncovered().map(move |row| {
            let elapsed_us = self.axis.elapsed_us[row];
            let extent = extent(self.level, kind, quantity, rows, row, elapsed_us);
            (self.axis.at_ms[row], elapsed_us, extent)
        })
    }
}
