//! Which rows are there, and which of them are nothing but zeros: the smallest of all the same, runs, and bits.
//!
//! One byte says the form and, in it, the codes: two bits each. Then follows the number of rows, then the form's own.
//! Two codes that take turns, such as nothing and something, take one bit a row; three or four take two.

use super::damaged::Damage;
use super::reader::Reader;
use super::{MOST_ROWS, Rows, varint};

/// What is known of a stream at one tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It was not there.
    Absent,
    /// It was there, but what it did is not known.
    Unknown,
    Known,
}

/// [`Presence`], and for a known row whether the columns hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    Absent,
    Unknown,
    /// Known, and 0 in all columns.
    Zeros,
    StoredRows,
}

const CODES: [Code; 4] = [Code::Absent, Code::Unknown, Code::Zeros, Code::StoredRows];

/// The forms, in the two lowest bits of the first byte.
const SAME: u8 = 0;
const RUNS: u8 = 1;
const ONE_BIT: u8 = 2;
const TWO_BITS: u8 = 3;

impl From<Code> for Presence {
    fn from(code: Code) -> Self {
        match code {
            Code::Absent => Self::Absent,
            Code::Unknown => Self::Unknown,
            Code::Zeros | Code::StoredRows => Self::Known,
        }
    }
}

pub fn codes(rows: &Rows) -> Vec<Code> {
    let mut any = vec![0; rows.presence.len()];
    for column in &rows.columns {
        any.iter_mut().zip(column).for_each(|(any, number)| *any |= number);
    }
    rows.presence.iter().zip(any).map(|(presence, any)| code(*presence, any)).collect()
}

fn code(presence: Presence, any: u64) -> Code {
    match presence {
        Presence::Absent => Code::Absent,
        Presence::Unknown => Code::Unknown,
        Presence::Known if any == 0 => Code::Zeros,
        Presence::Known => Code::StoredRows,
    }
}

pub fn write(codes: &[Code], bytes: &mut Vec<u8>) {
    let (head, body) = smallest(codes);
    bytes.push(head);
    varint::write(codes.len() as u64, bytes);
    bytes.extend(body);
}

pub fn read(reader: &mut Reader) -> Result<Vec<Code>, Damage> {
    let head = reader.byte()?;
    let rows = rows(reader)?;
    match (head & 3, head >> 6) {
        (SAME, 0) => Ok(vec![code_at(head, 2); rows]),
        (RUNS, 0) if head == RUNS => read_runs(rows, reader),
        (ONE_BIT, 0) => read_bits::<1>(rows, reader, |bit| code_at(head, 2 + 2 * bit)),
        (TWO_BITS, 0) if head == TWO_BITS => read_bits::<2>(rows, reader, |bits| CODES[usize::from(bits)]),
        _ => Err(Damage::Presence(head)),
    }
}

fn rows(reader: &mut Reader) -> Result<usize, Damage> {
    let rows = reader.number()?;
    usize::try_from(rows).ok().filter(|rows| *rows <= MOST_ROWS).ok_or(Damage::Rows(rows))
}

fn code_at(head: u8, shift: u8) -> Code {
    CODES[usize::from(head >> shift & 3)]
}

/// The first byte and what follows the number of rows.
fn smallest(codes: &[Code]) -> (u8, Vec<u8>) {
    let first = codes.first().copied().unwrap_or(Code::Absent);
    let Some(second) = codes.iter().copied().find(|code| *code != first) else {
        return (SAME | (first as u8) << 2, Vec::new());
    };
    let packed = if codes.iter().all(|code| *code == first || *code == second) {
        let head = ONE_BIT | (first as u8) << 2 | (second as u8) << 4;
        (head, bits::<1>(codes, |code| u8::from(code == second)))
    } else {
        (TWO_BITS, bits::<2>(codes, |code| code as u8))
    };
    let runs = runs(codes);
    if runs.len() <= packed.1.len() { (RUNS, runs) } else { packed }
}

/// The code in the two lowest bits of a number, how many more rows have it in the others.
fn runs(codes: &[Code]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for run in codes.chunk_by(|one, next| one == next) {
        varint::write((run.len() as u64 - 1) << 2 | run[0] as u64, &mut bytes);
    }
    bytes
}

fn read_runs(rows: usize, reader: &mut Reader) -> Result<Vec<Code>, Damage> {
    let mut codes = Vec::with_capacity(rows);
    while codes.len() < rows {
        let number = reader.number()?;
        let reached = codes.len() as u64 + (number >> 2) + 1;
        if reached > rows as u64 {
            return Err(Damage::Runs { expected: rows, found: reached });
        }
        codes.resize(reached as usize, CODES[(number & 3) as usize]);
    }
    Ok(codes)
}

/// `WIDTH` bits a row, the first in a byte's lowest.
fn bits<const WIDTH: usize>(codes: &[Code], bits_of: impl Fn(Code) -> u8) -> Vec<u8> {
    let byte = |codes: &[Code]| codes.iter().rev().fold(0, |byte, code| byte << WIDTH | bits_of(*code));
    codes.chunks(8 / WIDTH).map(byte).collect()
}

fn read_bits<const WIDTH: usize>(
    rows: usize,
    reader: &mut Reader,
    code_of: impl Fn(u8) -> Code,
) -> Result<Vec<Code>, Damage> {
    let per_byte = 8 / WIDTH;
    let bytes = reader.bytes(rows.div_ceil(per_byte) as u64)?;
    let bits = |row: usize| bytes[row / per_byte] >> (row % per_byte * WIDTH) & ((1 << WIDTH) - 1);
    Ok((0..rows).map(|row| code_of(bits(row))).collect())
}
