//! Encodes a stream's rows in a segment as one compressed chunk, and decodes it.
//!
//! A chunk is the format's number, the number of rows (32 bits, little-endian), a DEFLATE stream, and a CRC-32 of all that
//! (little-endian). The DEFLATE stream has a byte of presence for each row. Then each column has the differences from row
//! to row, the first from 0, as zigzag-coded varints: seven bits in a byte, the lowest first, the top bit set if more
//! follow. Of the codecs that were compared it is the simplest (`benches/RESULTS.md`).

use std::io::{Read, Write};

use anyhow::ensure;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// Twice the maximum rows of a segment. A chunk that claims more is damaged and not decoded.
pub const MOST_ROWS: usize = 16_384;

/// Incremented when older programs cannot read new chunks. Format 1 used pco.
const FORMAT: u8 = 2;

/// Maximum bytes of a 64-bit varint.
const LONGEST_VARINT: usize = 10;

/// Whether a stream existed at a tick, and was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It did not exist.
    Absent,
    /// It existed, but its values are unknown.
    Unknown,
    Known,
}

const PRESENCES: [Presence; 3] = [Presence::Absent, Presence::Unknown, Presence::Known];

/// A stream's rows in a segment. Each column is as long as `presence`; an unknown row is 0 in all columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub presence: Vec<Presence>,
    pub columns: Vec<Vec<u64>>,
}

impl Rows {
    /// `count` rows without values.
    pub fn without_values(presence: Presence, count: usize, columns: usize) -> Self {
        Self { presence: vec![presence; count], columns: vec![vec![0; count]; columns] }
    }
}

/// Why a chunk cannot be read. None of it is used.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    #[error("expected the checksum {expected:08x}, but found {found:08x}")]
    Checksum { expected: u32, found: u32 },
    #[error("expected format {FORMAT}, but found {0}")]
    Format(u8),
    #[error("expected at most {MOST_ROWS} rows, but found {0}")]
    Rows(u32),
    #[error("expected {expected} rows as the segment has, but found {found}")]
    Misfit { expected: usize, found: usize },
    #[error("expected compressed rows, but found: {0}")]
    Compressed(#[from] std::io::Error),
    #[error("expected a presence, but found {0}")]
    Presence(u8),
    #[error("expected a number of at most 64 bits, but found more")]
    Number,
    #[error("expected more bytes, but found the end")]
    Ends,
    #[error("expected the end, but found more bytes")]
    GoesOn,
}

/// Encodes any numbers. Fails if columns differ in length or there are more than [`MOST_ROWS`] rows.
pub fn encode(rows: &Rows) -> anyhow::Result<Vec<u8>> {
    let count = rows.presence.len();
    ensure!(count <= MOST_ROWS, "expected at most {MOST_ROWS} rows in a segment, but found {count}");
    ensure!(rows.columns.iter().all(|column| column.len() == count), "expected {count} rows in each column");
    let mut plain: Vec<u8> = rows.presence.iter().map(|presence| *presence as u8).collect();
    for column in &rows.columns {
        let before = std::iter::once(&0).chain(column);
        column.iter().zip(before).for_each(|(number, before)| write_difference(*number, *before, &mut plain));
    }
    let mut chunk = vec![FORMAT];
    chunk.extend(u32::try_from(count)?.to_le_bytes());
    let mut encoder = DeflateEncoder::new(chunk, Compression::default());
    encoder.write_all(&plain)?;
    let mut chunk = encoder.finish()?;
    chunk.extend(crc32fast::hash(&chunk).to_le_bytes());
    Ok(chunk)
}

/// Decodes a chunk that was encoded with this many `columns`. Damaged bytes take no more memory than [`MOST_ROWS`] rows.
pub fn decode(columns: usize, chunk: &[u8]) -> Result<Rows, Damage> {
    let (count, packed) = checked(chunk)?;
    let longest = count * (1 + columns * LONGEST_VARINT);
    let mut plain = Vec::new();
    DeflateDecoder::new(packed).take(longest as u64 + 1).read_to_end(&mut plain)?;
    let (presence, mut left) = plain.split_at_checked(count).ok_or(Damage::Ends)?;
    let presence =
        presence.iter().map(|byte| PRESENCES.get(usize::from(*byte)).copied().ok_or(Damage::Presence(*byte)));
    let presence = presence.collect::<Result<_, _>>()?;
    let columns = (0..columns).map(|_| read_column(count, &mut left));
    let columns = columns.collect::<Result<_, _>>()?;
    if left.is_empty() { Ok(Rows { presence, columns }) } else { Err(Damage::GoesOn) }
}

/// The rows of a stored chunk, which must be `count`; without a chunk, the stream was absent.
pub fn decode_stored(columns: usize, chunk: Option<&[u8]>, count: usize) -> Result<Rows, Damage> {
    let Some(chunk) = chunk else { return Ok(Rows::without_values(Presence::Absent, count, columns)) };
    let rows = decode(columns, chunk)?;
    let found = rows.presence.len();
    if found == count { Ok(rows) } else { Err(Damage::Misfit { expected: count, found }) }
}

/// The number of rows and the compressed bytes of a chunk, if its checksum is correct.
fn checked(chunk: &[u8]) -> Result<(usize, &[u8]), Damage> {
    let (body, sum) = chunk.split_last_chunk().ok_or(Damage::Ends)?;
    let (expected, found) = (u32::from_le_bytes(*sum), crc32fast::hash(body));
    if expected != found {
        return Err(Damage::Checksum { expected, found });
    }
    match body.split_first().ok_or(Damage::Ends)? {
        (&FORMAT, body) => {
            let (rows, packed) = body.split_first_chunk().ok_or(Damage::Ends)?;
            let rows = u32::from_le_bytes(*rows);
            let count = usize::try_from(rows).ok().filter(|count| *count <= MOST_ROWS);
            Ok((count.ok_or(Damage::Rows(rows))?, packed))
        }
        (format, _) => Err(Damage::Format(*format)),
    }
}

fn read_column(count: usize, left: &mut &[u8]) -> Result<Vec<u64>, Damage> {
    let mut number = 0_u64;
    let numbers = (0..count).map(|_| {
        number = number.wrapping_add(read_difference(left)?);
        Ok(number)
    });
    numbers.collect()
}

/// Zigzag: a small difference becomes a small number, whatever its sign.
fn write_difference(number: u64, before: u64, bytes: &mut Vec<u8>) {
    let signed = number.wrapping_sub(before).cast_signed();
    let mut left = ((signed << 1) ^ (signed >> 63)).cast_unsigned();
    while left >= 0x80 {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
}

/// The inverse of [`write_difference`]. The caller adds the result with wrapping at 2⁶⁴.
fn read_difference(left: &mut &[u8]) -> Result<u64, Damage> {
    let mut number = 0;
    for place in 0..LONGEST_VARINT {
        let (byte, rest) = left.split_first().ok_or(Damage::Ends)?;
        *left = rest;
        let bits = u64::from(byte & 0x7f);
        number |= bits << (7 * place);
        if *byte < 0x80 {
            // The tenth byte has room for one bit.
            let fits = number >> (7 * place) == bits;
            return if fits { Ok((number >> 1) ^ (number & 1).wrapping_neg()) } else { Err(Damage::Number) };
        }
    }
    Err(Damage::Number)
}

#[cfg(test)]
mod tests;
