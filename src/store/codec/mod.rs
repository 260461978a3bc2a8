//! A stream's rows over a segment as one compressed chunk, and back: numbers in, bytes out, nothing else.
//!
//! A chunk is the format's number, the presence of each row, the columns, and a crc32 of all that in little-endian.
//! Rows of nothing but zeros are told by their presence alone; the columns hold the others, one after the other. There
//! are no columns where there is no such row. Lengths and numbers are varints.

use std::borrow::Cow;

use presence::Code;
use reader::Reader;

pub use damaged::{Damage, Damaged};
pub use foretold::{Mean, Over, Predictor, near, near_above, value_of};
pub use presence::Presence;

/// Numbers of variable length, and how differences become small ones.
mod varint;
/// What does not fit in a chunk, in sentences.
mod damaged;
/// Takes a chunk's bytes one after the other.
mod reader;
/// Which rows are there, and which of them are nothing but zeros.
mod presence;
/// What is left of a column where it is foretold from others.
mod foretold;
/// Numbers at the narrowest width, packed by pco.
mod packed;
/// One column in the form that takes the fewest bytes.
mod column;
#[cfg(test)]
mod tests;

/// A segment of ten minutes has about 600 rows; what claims to have more than this is damaged.
pub const MOST_ROWS: usize = 65_536;

/// Changes whenever a chunk could no longer be read as before.
const FORMAT: u8 = 1;

/// A stream's rows over a segment. Each column is as long as `presence`; a row that is not known is 0 in all columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    pub presence: Vec<Presence>,
    pub columns: Vec<Vec<u64>>,
}

/// `columns[c]` has the shape `shape[c]`. Any number comes back as it was; one in a row that is not known is not kept.
///
/// Panics if there are not as many columns as shapes, if they differ in length, or have more than [`MOST_ROWS`] rows.
pub fn encode(shape: &[Predictor], rows: &Rows) -> Vec<u8> {
    assert_eq!(shape.len(), rows.columns.len(), "columns have a shape each");
    assert!(
        rows.columns.iter().all(|column| column.len() == rows.presence.len()),
        "columns have a presence each"
    );
    assert!(rows.presence.len() <= MOST_ROWS, "a segment has at most {MOST_ROWS} rows");
    let codes = presence::codes(rows);
    let mut bytes = vec![FORMAT];
    presence::write(&codes, &mut bytes);
    write_columns(shape, &kept(&codes, &rows.columns), &mut bytes);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// Decodes the columns that are wanted and those they are foretold from; the others come back empty.
///
/// `shape` is the one that the chunk was encoded with: only the number of columns is checked. Whatever the bytes are,
/// it takes no more memory than [`MOST_ROWS`] rows of this shape, and less than a MiB that pco may take for its bins.
pub fn decode(shape: &[Predictor], bytes: &[u8], wanted: impl Fn(usize) -> bool) -> Result<Rows, Damaged> {
    let mut reader = Reader::of(checked(bytes)?);
    match reader.byte()? {
        FORMAT => {}
        found => return Err(Damage::Format(found).into()),
    }
    let codes = presence::read(&mut reader)?;
    let needed = foretold::needed(shape, wanted);
    let columns = read_columns(shape, &needed, &codes, &mut reader)?;
    reader.end()?;
    Ok(Rows { presence: codes.into_iter().map(Presence::from).collect(), columns })
}

/// The chunk without its checksum, which fits.
fn checked(bytes: &[u8]) -> Result<&[u8], Damaged> {
    let (body, sum) = bytes.split_last_chunk().ok_or(Damage::Ends)?;
    let (expected, found) = (u32::from_le_bytes(*sum), crc32fast::hash(body));
    if expected != found {
        return Err(Damage::Checksum { expected, found }.into());
    }
    Ok(body)
}

/// The rows of each column that are not told by their presence alone.
fn kept<'a>(codes: &[Code], columns: &'a [Vec<u64>]) -> Cow<'a, [Vec<u64>]> {
    if codes.iter().all(|code| *code == Code::StoredRows) {
        return Cow::Borrowed(columns);
    }
    let rows: Vec<usize> = (0..codes.len()).filter(|row| codes[*row] == Code::StoredRows).collect();
    columns.iter().map(|column| rows.iter().map(|row| column[*row]).collect()).collect()
}

/// The reverse of [`kept`] for one column.
fn spread(codes: &[Code], column: Vec<u64>) -> Vec<u64> {
    if column.len() == codes.len() {
        return column;
    }
    let mut numbers = column.into_iter();
    codes.iter().map(|code| if *code == Code::StoredRows { numbers.next().unwrap_or(0) } else { 0 }).collect()
}

fn write_columns(shape: &[Predictor], columns: &[Vec<u64>], bytes: &mut Vec<u8>) {
    if columns.first().is_none_or(Vec::is_empty) {
        return;
    }
    varint::write(columns.len() as u64, bytes);
    for (index, foretold) in shape.iter().enumerate() {
        column::write(&foretold.left(&columns[index], &columns[..index]), bytes);
    }
}

fn read_columns(
    shape: &[Predictor],
    needed: &[bool],
    codes: &[Code],
    reader: &mut Reader,
) -> Result<Vec<Vec<u64>>, Damaged> {
    let rows = codes.iter().filter(|code| **code == Code::StoredRows).count();
    if rows > 0 {
        expect_columns(shape.len(), reader)?;
    }
    let mut columns: Vec<Vec<u64>> = Vec::with_capacity(shape.len());
    for (index, foretold) in shape.iter().enumerate() {
        let stored = if rows > 0 { column::take(reader)? } else { column::Stored::NOTHING };
        let mut column = Vec::new();
        if needed[index] {
            column = stored.numbers(rows).map_err(|damage| damage.of_column(index))?;
            foretold.restore(&mut column, &columns);
        }
        columns.push(column);
    }
    let spread = |(column, needed): (_, &bool)| if *needed { spread(codes, column) } else { column };
    Ok(columns.into_iter().zip(needed).map(spread).collect())
}

fn expect_columns(expected: usize, reader: &mut Reader) -> Result<(), Damaged> {
    let found = reader.number()?;
    if found != expected as u64 {
        return Err(Damage::Columns { expected, found }.into());
    }
    Ok(())
}
