//! Encodes a stream's rows in a segment as one compressed chunk, and decodes it.
//!
//! A chunk is the format's number, the number of rows (32 bits, little-endian), a DEFLATE stream, and a CRC-32 of all that
//! (little-endian). The DEFLATE stream has a byte of presence for each row. Then each column has the differences from row
//! to row, the first from 0, as zigzag-coded varints: seven bits in a byte, the lowest first, the top bit set if more
//! follow. Of the codecs that were compared it is the simplest (`benches/RESULTS.md`).

use std::io::{Read, Write};

use anyhow::{Context, anyhow, bail, ensure};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// Twice the maximum rows of a segment. A chunk that claims more is damaged and not decoded.
pub const MOST_ROWS: usize = 16_384;

/// Incremented when older programs cannot read new chunks. Format 1 used pco.
const FORMAT: u8 = 2;

/// Maximum bytes of a 64-bit varint.
const LONGEST_VARINT: usize = 10;

/// Why a chunk that was cut off cannot be read.
const ENDS: &str = "expected more bytes, but found the end";

/// Whether a stream existed at a tick, and was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
        Self {
            presence: vec![presence; count],
            columns: vec![vec![0; count]; columns],
        }
    }
}

/// Encodes any numbers. Fails if columns differ in length or there are more than [`MOST_ROWS`] rows.
pub fn encode(rows: &Rows) -> anyhow::Result<Vec<u8>> {
    let count = rows.presence.len();
    ensure!(
        count <= MOST_ROWS,
        "expected at most {MOST_ROWS} rows in a segment, but found {count}"
    );
    ensure!(
        rows.columns.iter().all(|column| column.len() == count),
        "expected {count} rows in each column"
    );
    let mut plain: Vec<u8> = rows
        .presence
        .iter()
        .map(|presence| *presence as u8)
        .collect();
    for column in &rows.columns {
        let mut before = 0;
        for number in column {
            // Zigzag: a small difference becomes a small number, whatever its sign.
            plain = postcard::to_extend(&number.wrapping_sub(before).cast_signed(), plain)?;
            before = *number;
        }
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
/// The error says in a sentence why a chunk cannot be read; none of it is used.
pub fn decode(columns: usize, chunk: &[u8]) -> anyhow::Result<Rows> {
    let (count, packed) = checked(chunk)?;
    let longest = count * (1 + columns * LONGEST_VARINT);
    let mut plain = Vec::new();
    let read = DeflateDecoder::new(packed)
        .take(longest as u64 + 1)
        .read_to_end(&mut plain);
    read.map_err(|error| anyhow!("expected compressed rows, but found: {error}"))?;
    let (presence, mut left) = plain.split_at_checked(count).context(ENDS)?;
    let presence = presence.iter().map(|byte| {
        let presence = PRESENCES.get(usize::from(*byte)).copied();
        presence.with_context(|| format!("expected a presence, but found {byte}"))
    });
    let presence = presence.collect::<anyhow::Result<_>>()?;
    let columns = (0..columns).map(|_| read_column(count, &mut left));
    let columns = columns.collect::<anyhow::Result<_>>()?;
    ensure!(left.is_empty(), "expected the end, but found more bytes");
    Ok(Rows { presence, columns })
}

/// The rows of a stored chunk, which must be `count`; without a chunk, the stream was absent.
pub fn decode_stored(columns: usize, chunk: Option<&[u8]>, count: usize) -> anyhow::Result<Rows> {
    let Some(chunk) = chunk else {
        return Ok(Rows::without_values(Presence::Absent, count, columns));
    };
    let rows = decode(columns, chunk)?;
    let found = rows.presence.len();
    ensure!(
        found == count,
        "expected {count} rows as the segment has, but found {found}"
    );
    Ok(rows)
}

/// The number of rows and the compressed bytes of a chunk, if its checksum is correct.
fn checked(chunk: &[u8]) -> anyhow::Result<(usize, &[u8])> {
    let (body, sum) = chunk.split_last_chunk().context(ENDS)?;
    let (expected, found) = (u32::from_le_bytes(*sum), crc32fast::hash(body));
    ensure!(
        expected == found,
        "expected the checksum {expected:08x}, but found {found:08x}"
    );
    let (format, body) = body.split_first().context(ENDS)?;
    ensure!(
        *format == FORMAT,
        "expected format {FORMAT}, but found {format}"
    );
    let (count, packed) = body.split_first_chunk().context(ENDS)?;
    let count = u32::from_le_bytes(*count) as usize;
    ensure!(
        count <= MOST_ROWS,
        "expected at most {MOST_ROWS} rows, but found {count}"
    );
    Ok((count, packed))
}

/// Adds up the differences from row to row, with wrapping at 2⁶⁴.
fn read_column(count: usize, left: &mut &[u8]) -> anyhow::Result<Vec<u64>> {
    let mut number = 0_u64;
    let numbers = (0..count).map(|_| match postcard::take_from_bytes::<i64>(left) {
        Ok((difference, rest)) => {
            *left = rest;
            number = number.wrapping_add_signed(difference);
            Ok(number)
        }
        Err(postcard::Error::DeserializeUnexpectedEnd) => bail!(ENDS),
        Err(_) => bail!("expected a number of at most 64 bits, but found more"),
    });
    numbers.collect()
}

#[cfg(test)]
mod tests;
