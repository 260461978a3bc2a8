//! One column in the form that takes the fewest bytes: one number for all rows, a number a row, the differences from
//! row to row, or [`packed`]. Its form and length stand before it, so that it can be passed over.

use super::damaged::Damage;
use super::reader::Reader;
use super::varint::{apart, difference};
use super::{packed, varint};

/// The forms, in the two lowest bits before a column; its length in bytes is in the others.
const CONSTANT: u8 = 0;
const NUMBERS: u8 = 1;
const DIFFERENCES: u8 = 2;
const PACKED: u8 = 3;

/// Pco describes its bins in about so many bytes: fewer numbers than this hardly get smaller.
const WORTH_PACKING: usize = 12;

/// A column's bytes, not yet understood.
pub struct Stored<'a> {
    form: u8,
    bytes: &'a [u8],
}

/// At least one number.
pub fn write(numbers: &[u64], bytes: &mut Vec<u8>) {
    let (form, body) = smallest(numbers);
    varint::write((body.len() as u64) << 2 | u64::from(form), bytes);
    bytes.extend(body);
}

/// A column's bytes, without looking at them.
pub fn take<'a>(reader: &mut Reader<'a>) -> Result<Stored<'a>, Damage> {
    let head = reader.number()?;
    Ok(Stored { form: (head & 3) as u8, bytes: reader.bytes(head >> 2)? })
}

impl Stored<'_> {
    /// A column of zeros.
    pub const NOTHING: Self = Self { form: CONSTANT, bytes: &[] };

    pub fn numbers(&self, count: usize) -> Result<Vec<u64>, Damage> {
        let mut reader = Reader::of(self.bytes);
        let numbers = match self.form {
            CONSTANT if self.bytes.is_empty() => vec![0; count],
            CONSTANT => vec![reader.number()?; count],
            NUMBERS => reader.numbers(count)?,
            DIFFERENCES => added_up(reader.numbers(count)?),
            _ => packed::read(count, &mut reader)?,
        };
        reader.end()?;
        Ok(numbers)
    }
}

fn smallest(numbers: &[u64]) -> (u8, Vec<u8>) {
    if numbers.iter().all(|number| *number == numbers[0]) {
        return (CONSTANT, if numbers[0] == 0 { Vec::new() } else { written([numbers[0]]) });
    }
    let packed = if numbers.len() >= WORTH_PACKING { packed::smallest(numbers) } else { None };
    match packed {
        // The other forms take a byte or more for each number.
        Some(packed) if packed.len() < numbers.len() => (PACKED, packed),
        packed => smallest_of(numbers, packed),
    }
}

fn smallest_of(numbers: &[u64], packed: Option<Vec<u8>>) -> (u8, Vec<u8>) {
    let plain = numbers.iter().map(|number| varint::length(*number)).sum::<usize>();
    let stepwise = differences(numbers).map(varint::length).sum::<usize>();
    match packed {
        Some(packed) if packed.len() < plain.min(stepwise) => (PACKED, packed),
        _ if plain <= stepwise => (NUMBERS, written(numbers.iter().copied())),
        _ => (DIFFERENCES, written(differences(numbers))),
    }
}

fn written(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    numbers.into_iter().for_each(|number| varint::write(number, &mut bytes));
    bytes
}

/// The first from 0, each other from the one before it.
fn differences(numbers: &[u64]) -> impl Iterator<Item = u64> {
    let before = std::iter::once(0).chain(numbers.iter().copied());
    numbers.iter().zip(before).map(|(number, before)| difference(*number, before))
}

fn added_up(mut differences: Vec<u64>) -> Vec<u64> {
    let mut before = 0;
    for number in &mut differences {
        before = apart(*number, before);
        *number = before;
    }
    differences
}
