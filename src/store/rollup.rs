//! Roll-ups: several ticks, or several finer roll-ups, as one row, so that no byte and no peak is lost.
//!
//! A row has four columns for each quantity of its stream's kind: over and amount, which are exact sums, and the smallest
//! and the largest value of one tick, rounded outward to eight binary digits.

use std::ops::Range;
use std::sync::LazyLock;

use super::codec::{Mean, Over, Predictor, Presence, Rows, near, near_above, value_of};
use super::segment::{Axis, Level};
use super::stream::Kind;
use crate::series::quantity::{DeviceQuantity, Quantity};
use crate::series::{Extent, Observation};

/// Columns of a quantity.
pub const COLUMNS: usize = 4;

/// What a row says of one quantity.
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

impl From<Option<Observation>> for Tally {
    fn from(seen: Option<Observation>) -> Self {
        seen.map_or_else(Self::default, |seen| {
            let value = seen.value();
            Self { over: seen.over, amount: seen.amount, least: near(value), most: near_above(value) }
        })
    }
}

/// How each column of a kind's roll-ups of this level is foretold.
pub fn shape(level: Level, kind: Kind) -> &'static [Predictor] {
    static SHAPES: LazyLock<[[Vec<Predictor>; Kind::ALL.len()]; Level::ALL.len()]> =
        LazyLock::new(|| Level::ALL.map(|level| Kind::ALL.map(|kind| shape_of(level, kind))));
    &SHAPES[level as usize][kind as usize]
}

fn shape_of(level: Level, kind: Kind) -> Vec<Predictor> {
    use DeviceQuantity::*;
    let quantities = kind.quantities();
    let column_of = |quantity: DeviceQuantity| {
        let index = quantities.iter().position(|other| *other == Quantity::Device(quantity));
        index.unwrap_or_default() * COLUMNS + 1
    };
    let amount_of = |quantity: DeviceQuantity| Predictor::Column(column_of(quantity));
    let columns = quantities.iter().enumerate().flat_map(|(index, quantity)| {
        let (over, amount) = match quantity {
            Quantity::Device(ReadAwaitMs) => (amount_of(Reads), Predictor::Nothing),
            Quantity::Device(WriteAwaitMs) => (amount_of(Writes), Predictor::Nothing),
            Quantity::Device(ReadRequestBytes) => (amount_of(Reads), amount_of(ReadBytes)),
            Quantity::Device(WriteRequestBytes) => (amount_of(Writes), amount_of(WrittenBytes)),
            Quantity::Device(QueueDepth) => {
                (Predictor::Nothing, Predictor::Sum(column_of(ReadAwaitMs), column_of(WriteAwaitMs)))
            }
            _ => (Predictor::Nothing, Predictor::Nothing),
        };
        let usually = level.row_ms().unsigned_abs() * 1000;
        let per = if is_per_time(*quantity) { Over::Usually(usually) } else { Over::Column(index * COLUMNS) };
        let mean = Predictor::Mean(Mean { amount: index * COLUMNS + 1, over: per, scale: quantity.scale() });
        [over, amount, mean, mean]
    });
    columns.collect()
}

/// Whether a quantity's over is the time that passed; kept is then how much less it is than the axis has.
fn is_per_time(quantity: Quantity) -> bool {
    use DeviceQuantity::*;
    match quantity {
        Quantity::Device(quantity) => {
            !matches!(quantity, ReadAwaitMs | WriteAwaitMs | ReadRequestBytes | WriteRequestBytes)
        }
        Quantity::Share(_) => true,
        Quantity::Host(_) | Quantity::Volume(_) => false,
    }
}

/// Neighbouring rows of an axis, of one segment of ticks, that become one row of this level.
pub fn groups(axis: &Axis, level: Level) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let number = |row: usize| (level.row(axis.at_ms[row]), axis.numbers[row]);
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

/// One stream's roll-ups of the groups of rows of `from`, which is the level below.
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
                    _ => tally_of(*quantity, &numbers[index * COLUMNS..], axis.elapsed_us[row]),
                });
            }
        }
        presence.push(presence_of(&rows.presence[group.clone()]));
        if presence[place] == Presence::Known {
            let elapsed_us = sum(&axis.elapsed_us[group.clone()]);
            for (index, (tally, quantity)) in tallies.iter().zip(quantities).enumerate() {
                for (column, number) in (index * COLUMNS..).zip(kept(*quantity, *tally, elapsed_us)) {
                    columns[column][place] = number;
                }
            }
        }
    }
    Rows { presence, columns }
}

fn sum(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |sum, number| sum.saturating_add(*number))
}

/// Known where something is known, absent only where it was never there.
fn presence_of(group: &[Presence]) -> Presence {
    let has = |presence| group.contains(&presence);
    match () {
        () if has(Presence::Known) => Presence::Known,
        () if has(Presence::Unknown) => Presence::Unknown,
        () => Presence::Absent,
    }
}

fn kept(quantity: Quantity, tally: Tally, elapsed_us: u64) -> [u64; COLUMNS] {
    let over = if is_per_time(quantity) { elapsed_us.wrapping_sub(tally.over) } else { tally.over };
    [over, tally.amount, tally.least, tally.most]
}

fn tally_of(quantity: Quantity, kept: &[u64], elapsed_us: u64) -> Tally {
    let over = if is_per_time(quantity) { elapsed_us.wrapping_sub(kept[0]) } else { kept[0] };
    Tally { over, amount: kept[1], least: kept[2], most: kept[3] }
}

/// The columns of a quantity in a kind's roll-ups.
pub fn columns_of(kind: Kind, quantity: Quantity) -> Range<usize> {
    let index = kind.quantities().iter().position(|other| *other == quantity).unwrap_or_default();
    index * COLUMNS..(index + 1) * COLUMNS
}

/// What a row of roll-ups says of the quantity whose columns these are; `None` where it is not known.
pub fn extent(quantity: Quantity, kept: &[u64], elapsed_us: u64) -> Option<Extent> {
    let tally = tally_of(quantity, kept, elapsed_us);
    let all = Observation::ratio(tally.amount, tally.over, quantity.scale())?;
    Some(Extent { all, min: value_of(tally.least), max: value_of(tally.most) })
}
