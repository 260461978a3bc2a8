//! How a column is foretold from others, and what is left of it: a disk's time in queue is nearly the sum of its times
//! reading and writing, and what is left is 0, 1 or 2.

use std::borrow::Cow;

use super::varint::{apart, difference};

/// How a column is foretold from others of its row; only the difference is kept. These are always before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foretold {
    Nothing,
    Column(usize),
    /// The sum runs over at 2⁶⁴.
    Sum(usize, usize),
}

impl Foretold {
    /// What is left of a column. `before` are the columns before it.
    pub fn left<'a>(self, column: &'a [u64], before: &[Vec<u64>]) -> Cow<'a, [u64]> {
        let differences = |foretold: &mut dyn Iterator<Item = u64>| {
            column.iter().zip(foretold).map(|(number, from)| difference(*number, from)).collect()
        };
        match self {
            Self::Nothing => Cow::Borrowed(column),
            Self::Column(of) => differences(&mut before[of].iter().copied()),
            Self::Sum(of, and) => differences(&mut sums(&before[of], &before[and])),
        }
    }

    /// Makes a column of what was left of it.
    pub fn restore(self, left: &mut [u64], before: &[Vec<u64>]) {
        match self {
            Self::Nothing => {}
            Self::Column(of) => restore_from(left, before[of].iter().copied()),
            Self::Sum(of, and) => restore_from(left, sums(&before[of], &before[and])),
        }
    }
}

/// Which columns have to be decoded for those that are wanted.
pub fn needed(shape: &[Foretold], wanted: impl Fn(usize) -> bool) -> Vec<bool> {
    let mut needed: Vec<bool> = (0..shape.len()).map(wanted).collect();
    for index in (0..shape.len()).rev() {
        match shape[index] {
            Foretold::Column(of) => needed[of] |= needed[index],
            Foretold::Sum(of, and) => {
                needed[of] |= needed[index];
                needed[and] |= needed[index];
            }
            Foretold::Nothing => {}
        }
    }
    needed
}

fn sums(one: &[u64], other: &[u64]) -> impl Iterator<Item = u64> {
    one.iter().zip(other).map(|(one, other)| one.wrapping_add(*other))
}

fn restore_from(left: &mut [u64], foretold: impl Iterator<Item = u64>) {
    for (number, from) in left.iter_mut().zip(foretold) {
        *number = apart(*number, from);
    }
}
