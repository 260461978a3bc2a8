//! Roll-ups combine several ticks, or several finer roll-ups, in one row. Sums and peaks are preserved.
//!
//! A row has four columns for each quantity of its stream's kind: exact sums of `over` and `amount`, and the smallest and
//! the largest value of one tick, rounded outward to eight binary digits.

use std::ops::Range;

use super::codec::{Presence, Rows};
use super::segment::{Axis, Level};
use super::stream::Kind;
use crate::series::quantity::Quantity;
use crate::series::{Extent, Observation};

/// Columns of a quantity.
pub const COLUMNS: usize = 4;

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
        self.least = if self.over == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.over = self.over.saturating_add(other.over);
        self.amount = self.amount.saturating_add(other.amount);
    }
}

impl From<&[u64]> for Tally {
    /// The columns of a quantity.
    fn from(kept: &[u64]) -> Self {
        Self { over: kept[0], amount: kept[1], least: kept[2], most: kept[3] }
    }
}

impl From<Option<Observation>> for Tally {
    fn from(seen: Option<Observation>) -> Self {
        seen.map_or_else(Self::default, |seen| {
            let value = seen.value();
            Self { over: seen.over, amount: seen.amount, least: near(value), most: near_above(value) }
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
        at_ms: groups.iter().map(|group| axis.at_ms[group.end - 1]).collect(),
        elapsed_us: groups.iter().map(|group| sum(&axis.elapsed_us[group.clone()])).collect(),
        ticks: groups.iter().map(|group| sum(&axis.ticks[group.clone()])).collect(),
        numbers: groups.iter().map(|group| axis.numbers[group.start]).collect(),
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
        for row in group.clone().filter(|row| rows.presence[*row] == Presence::Known) {
            for (number, column) in numbers.iter_mut().zip(&rows.columns) {
                *number = column[row];
            }
            for (index, (tally, quantity)) in tallies.iter_mut().zip(quantities).enumerate() {
                tally.add(match from {
                    Level::Ticks => kind.observe(*quantity, &numbers, axis.elapsed_us[row]).into(),
                    _ => numbers[index * COLUMNS..].into(),
                });
            }
        }
        presence.push(presence_of(&rows.presence[group.clone()]));
        if presence[place] == Presence::Known {
            for (columns, tally) in columns.chunks_mut(COLUMNS).zip(tallies) {
                let kept = [tally.over, tally.amount, tally.least, tally.most];
                columns.iter_mut().zip(kept).for_each(|(column, number)| column[place] = number);
            }
        }
    }
    Rows { presence, columns }
}

fn sum(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |sum, number| sum.saturating_add(*number))
}

/// Known if any row is known; absent only if all are.
fn presence_of(group: &[Presence]) -> Presence {
    let has = |presence| group.contains(&presence);
    match () {
        () if has(Presence::Known) => Presence::Known,
        () if has(Presence::Unknown) => Presence::Unknown,
        () => Presence::Absent,
    }
}

/// The number of columns of a kind's rows at a level.
pub fn columns_at(level: Level, kind: Kind) -> usize {
    if level == Level::Ticks { kind.columns() } else { kind.quantities().len() * COLUMNS }
}

/// The columns of a quantity in a kind's roll-ups.
pub fn columns_of(kind: Kind, quantity: Quantity) -> Range<usize> {
    let index = kind.quantities().iter().position(|other| *other == quantity).unwrap_or_default();
    index * COLUMNS..(index + 1) * COLUMNS
}

/// The values in a quantity's columns; `None` if unknown.
pub fn extent(quantity: Quantity, kept: &[u64]) -> Option<Extent> {
    let tally = Tally::from(kept);
    let all = Observation::ratio(tally.amount, tally.over, quantity.scale())?;
    Some(Extent { all, min: value_of(tally.least), max: value_of(tally.most) })
}
