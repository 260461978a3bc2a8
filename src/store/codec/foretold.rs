//! How a column is foretold from others, and what is left of it: a disk's time in queue is nearly the sum of its times
//! reading and writing, and what is left is 0, 1 or 2.
//!
//! A mean is made by one division and one multiplication, which IEEE 754 rounds in one way everywhere.

use std::borrow::Cow;

use super::varint::{apart, difference};

/// How a column is foretold from others of its row; only the difference is kept. These are always before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Predictor {
    Nothing,
    Column(usize),
    /// The sum runs over at 2⁶⁴.
    Sum(usize, usize),
    /// A column of [`near`] values around this one; zeros, of which there are many, stay zeros.
    Mean(Mean),
}

/// The column `amount` over another, or over what is nearly always there, in the unit that `scale` makes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    pub amount: usize,
    pub over: Over,
    pub scale: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Over {
    Column(usize),
    Usually(u64),
}

/// Bits of a value's fraction that are dropped: 52 are after its point, eight stay.
const DROPPED: u32 = 44;

/// A value that is not negative as a whole number of the same order, less than 0.4 % below it.
pub fn near(value: f64) -> u64 {
    value.to_bits() >> DROPPED
}

/// As [`near`], not below it.
pub fn near_above(value: f64) -> u64 {
    value.to_bits().div_ceil(1 << DROPPED)
}

/// The value that such a number stands for.
pub fn value_of(near: u64) -> f64 {
    f64::from_bits(near << DROPPED)
}

impl Predictor {
    /// What is left of a column. `before` are the columns before it.
    pub fn left<'a>(self, column: &'a [u64], before: &[Vec<u64>]) -> Cow<'a, [u64]> {
        let differences = |foretold: &mut dyn Iterator<Item = u64>| {
            column.iter().zip(foretold).map(|(number, from)| difference(*number, from)).collect()
        };
        match self {
            Self::Nothing => Cow::Borrowed(column),
            Self::Column(of) => differences(&mut before[of].iter().copied()),
            Self::Sum(of, and) => differences(&mut sums(&before[of], &before[and])),
            Self::Mean(mean) => column
                .iter()
                .zip(mean.of_rows(before))
                .map(|(number, mean)| without_zero(*number, mean))
                .collect(),
        }
    }

    /// Makes a column of what was left of it.
    pub fn restore(self, left: &mut [u64], before: &[Vec<u64>]) {
        match self {
            Self::Nothing => {}
            Self::Column(of) => restore_from(left, before[of].iter().copied()),
            Self::Sum(of, and) => restore_from(left, sums(&before[of], &before[and])),
            Self::Mean(mean) => {
                for (number, mean) in left.iter_mut().zip(mean.of_rows(before)) {
                    *number = with_zero(*number, mean);
                }
            }
        }
    }
}

/// Which columns have to be decoded for those that are wanted.
pub fn needed(shape: &[Predictor], wanted: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut needed: Vec<bool> = (0..shape.len()).map(wanted).collect();
    for index in (0..shape.len()).rev() {
        match shape[index] {
            Predictor::Column(of) => needed[of] |= needed[index],
            Predictor::Sum(of, and) => {
                needed[of] |= needed[index];
                needed[and] |= needed[index];
            }
            Predictor::Mean(mean) => {
                needed[mean.amount] |= needed[index];
                if let Over::Column(over) = mean.over {
                    needed[over] |= needed[index];
                }
            }
            Predictor::Nothing => {}
        }
    }
    needed
}

impl Mean {
    fn of_rows(self, before: &[Vec<u64>]) -> impl Iterator<Item = u64> {
        before[self.amount].iter().enumerate().map(move |(row, amount)| {
            let over = match self.over {
                Over::Column(column) => before[column][row],
                Over::Usually(over) => over,
            };
            if over == 0 { 0 } else { near(*amount as f64 / over as f64 * self.scale) }
        })
    }
}

/// The difference, but 0 for 0; what would have been 0, up to there, is one more.
fn without_zero(number: u64, from: u64) -> u64 {
    let (apart, of_zero) = (difference(number, from), difference(0, from));
    match number {
        0 => 0,
        _ if apart < of_zero => apart + 1,
        _ => apart,
    }
}

/// The reverse of [`without_zero`].
fn with_zero(left: u64, from: u64) -> u64 {
    match left {
        0 => 0,
        _ if left <= difference(0, from) => apart(left - 1, from),
        _ => apart(left, from),
    }
}

fn sums(one: &[u64], other: &[u64]) -> impl Iterator<Item = u64> {
    one.iter().zip(other).map(|(one, other)| one.wrapping_add(*other))
}

fn restore_from(left: &mut [u64], foretold: impl Iterator<Item = u64>) {
    for (number, from) in left.iter_mut().zip(foretold) {
        *number = apart(*number, from);
    }
}
