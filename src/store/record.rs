//! How a tick is stored: one compact record, which has only what differs from the record before it.
//!
//! A record is a byte that tells whether it is complete, the difference of its length to the one before, the rows that
//! changed, and a CRC-32 (little-endian). Numbers are varints: seven bits in a byte, the lowest first, the top bit set if
//! more follow. Differences are zigzag-coded, so that small ones of either sign are short.
//!
//! A complete record is encoded against zeros, and lists the streams and the number of columns of each kind. A later program
//! may thus add columns: they are unknown in old records. There is a complete record at least every ten minutes
//! ([`Position::window`]), after each start, gap and change of the streams.
//!
//! The checksum covers the checksum of the record before. So damage, or a record that is missing, makes unreadable what
//! depends on it, and never a wrong number.

use std::sync::Arc;

use anyhow::{Context, bail, ensure};

use super::address::{Kind, Level, Position, StoredValue, Stream};
use crate::sample::diskstats::Counter;

const DIFFERENCE: u8 = 0;
const COMPLETE: u8 = 1;
/// What follows the head of a row, in its two lowest bits: which columns changed, also which of them became unknown, or
/// neither, since the same columns changed as at the last change of this row. A busy disk mostly changes the same ones:
/// that saves 5 % of all bytes.
const FORM_BITS: u32 = 2;
const CHANGED: u64 = 0;
const CHANGED_AND_UNKNOWN: u64 = 1;
const SAME_COLUMNS: u64 = 2;
/// No kind has more columns, so that a number has a bit for each. A larger number is damage.
const MOST_COLUMNS: u64 = 63;
/// Why a record that was cut off cannot be read.
const ENDS: &str = "expected more bytes, but found the end";

/// The rows of one tick or roll-up. Rows of one stream are as long as [`Level::columns`] says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Ascending, each once, with its place in `cells`.
    streams: Vec<(Stream, usize)>,
    cells: Vec<StoredValue>,
}

impl Rows {
    /// Collects rows in any order.
    pub fn collect(
        level: Level,
        rows: impl FnOnce(&mut dyn FnMut(Stream, &[StoredValue])),
    ) -> Self {
        let mut found = Self::default();
        rows(&mut |stream, row| {
            debug_assert_eq!(row.len(), level.columns(stream.kind));
            found.streams.push((stream, found.cells.len()));
            found.cells.extend_from_slice(row);
        });
        found.streams.sort_unstable();
        found.streams.dedup_by_key(|(stream, _)| *stream);
        found
    }

    pub fn row(&self, level: Level, stream: Stream) -> Option<&[StoredValue]> {
        let index = self
            .streams
            .binary_search_by_key(&stream, |(stream, _)| *stream)
            .ok()?;
        let start = self.streams[index].1;
        self.cells.get(start..start + level.columns(stream.kind))
    }
}

/// The streams of records, ascending, and where the row of each begins.
#[derive(Debug, Default, PartialEq)]
struct RecordLayout {
    streams: Vec<Stream>,
    starts: Vec<usize>,
    length: usize,
}

impl RecordLayout {
    fn new(level: Level, streams: Vec<Stream>) -> Self {
        let mut length = 0;
        let mut starts = Vec::with_capacity(streams.len());
        for stream in &streams {
            starts.push(length);
            length += level.columns(stream.kind);
        }
        Self {
            streams,
            starts,
            length,
        }
    }
}

/// The record before: what the next one depends on.
#[derive(Clone, Copy, Debug)]
struct Before {
    position: Position,
    elapsed_us: u64,
    checksum: u32,
}

/// Encodes ticks, or roll-ups of one level, in the order of writing.
#[derive(Debug)]
pub struct Encoder {
    level: Level,
    layout: Arc<RecordLayout>,
    cells: Vec<StoredValue>,
    /// For each stream, the columns that changed last.
    changed: Vec<u64>,
    before: Option<Before>,
}

impl Encoder {
    pub fn new(level: Level) -> Self {
        Self {
            level,
            layout: Arc::default(),
            cells: Vec::new(),
            changed: Vec::new(),
            before: None,
        }
    }

    /// Makes the next record complete, since the last one is not stored.
    pub fn restart(&mut self) {
        self.before = None;
    }

    /// A decoder that has decoded the last record.
    pub fn decoder(&self) -> Decoder {
        Decoder {
            level: self.level,
            layout: Arc::clone(&self.layout),
            stored_columns: Kind::ALL.map(|kind| self.level.columns(kind)),
            cells: self.cells.clone(),
            changed: self.changed.clone(),
            before: self.before,
        }
    }

    pub fn encode(&mut self, position: Position, elapsed_us: u64, rows: &Rows) -> Vec<u8> {
        let is_same = |before: &Before| {
            before.position.window() == position.window()
                && self
                    .layout
                    .streams
                    .iter()
                    .eq(rows.streams.iter().map(|(stream, _)| stream))
        };
        let before = self.before.filter(is_same);
        let mut record = vec![if before.is_some() {
            DIFFERENCE
        } else {
            COMPLETE
        }];
        let elapsed_before = before.map_or(0, |before| before.elapsed_us);
        push_difference(&mut record, elapsed_before, elapsed_us);
        if before.is_none() {
            self.begin(&mut record, rows);
        }
        self.push_rows(&mut record, rows);
        let checksum = checksum(before, position, &record);
        record.extend(checksum.to_le_bytes());
        self.before = Some(Before {
            position,
            elapsed_us,
            checksum,
        });
        record
    }

    fn begin(&mut self, record: &mut Vec<u8>, rows: &Rows) {
        for kind in Kind::ALL {
            push_varint(record, self.level.columns(kind) as u64);
        }
        push_varint(record, rows.streams.len() as u64);
        for (stream, _) in &rows.streams {
            push_varint(record, u64::from(stream.number()));
        }
        let streams = rows.streams.iter().map(|(stream, _)| *stream).collect();
        self.layout = Arc::new(RecordLayout::new(self.level, streams));
        self.cells = vec![Some(0); self.layout.length];
        self.changed = vec![0; self.layout.streams.len()];
    }

    /// Each row that is not as predicted: how many rows before it are, which columns are not, which of those became unknown,
    /// and the differences of the others.
    fn push_rows(&mut self, record: &mut Vec<u8>, rows: &Rows) {
        let mut as_predicted = 0;
        for (place, (stream, start)) in rows.streams.iter().enumerate() {
            let columns = self.level.columns(stream.kind);
            let row = &rows.cells[*start..start + columns];
            let begin = self.layout.starts[place];
            let predicted = &mut self.cells[begin..begin + columns];
            if let Some(column) = SumColumn::of(self.level, stream.kind) {
                let before = column.parts(predicted);
                let now = column.parts(row);
                column.add(predicted, before, now);
            }
            let changed = mask(columns, |at| row[at] != predicted[at]);
            if changed == 0 {
                as_predicted += 1;
                continue;
            }
            let unknown = mask(columns, |at| changed >> at & 1 == 1 && row[at].is_none());
            let changed_before = std::mem::replace(&mut self.changed[place], changed);
            let form = if unknown != 0 {
                CHANGED_AND_UNKNOWN
            } else if changed == changed_before {
                SAME_COLUMNS
            } else {
                CHANGED
            };
            push_varint(record, as_predicted << FORM_BITS | form);
            as_predicted = 0;
            if form != SAME_COLUMNS {
                push_varint(record, changed);
            }
            if form == CHANGED_AND_UNKNOWN {
                push_varint(record, unknown);
            }
            for (now, old) in row.iter().zip(predicted) {
                if let Some(number) = now
                    && *now != *old
                {
                    push_difference(record, old.unwrap_or_default(), *number);
                }
                *old = *now;
            }
        }
    }
}

/// Decodes records in the order of writing.
#[derive(Clone, Debug)]
pub struct Decoder {
    level: Level,
    layout: Arc<RecordLayout>,
    /// Columns of each kind in the records, which an older or newer program may have written.
    stored_columns: [usize; Kind::ALL.len()],
    cells: Vec<StoredValue>,
    /// For each stream, the columns that changed last.
    changed: Vec<u64>,
    before: Option<Before>,
}

impl Decoder {
    pub fn new(level: Level) -> Self {
        Self {
            level,
            layout: Arc::default(),
            stored_columns: [0; Kind::ALL.len()],
            cells: Vec::new(),
            changed: Vec::new(),
            before: None,
        }
    }

    /// Decodes the next record. After an error, all up to the next complete record are unreadable.
    pub fn decode(&mut self, position: Position, record: &[u8]) -> anyhow::Result<()> {
        // Taken, so that an error leaves nothing to depend on.
        let before = self.before.take();
        let (body, sum) = record.split_last_chunk().context(ENDS)?;
        let (kind, mut left) = body.split_first().context(ENDS)?;
        let before = match *kind {
            COMPLETE => None,
            DIFFERENCE => Some(before.context("the record that it depends on cannot be read")?),
            other => bail!("expected a record, but found the byte {other}"),
        };
        let expected = u32::from_le_bytes(*sum);
        let found = checksum(before, position, body);
        ensure!(
            expected == found,
            "expected the checksum {expected:08x}, but found {found:08x}"
        );
        let elapsed_before = before.map_or(0, |before| before.elapsed_us);
        let elapsed_us = take_difference(&mut left, elapsed_before)?;
        if before.is_none() {
            self.begin(&mut left)?;
        }
        self.take_rows(&mut left)?;
        self.before = Some(Before {
            position,
            elapsed_us,
            checksum: found,
        });
        Ok(())
    }

    fn begin(&mut self, left: &mut &[u8]) -> anyhow::Result<()> {
        for columns in &mut self.stored_columns {
            let found = take_varint(left)?;
            ensure!(found <= MOST_COLUMNS, "expected columns, but found {found}");
            *columns = found as usize;
        }
        let count = take_varint(left)?;
        ensure!(
            count <= left.len() as u64,
            "expected {count} streams, but found the end"
        );
        let mut streams = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let number = take_varint(left)?;
            let stream = u32::try_from(number).ok().and_then(Stream::numbered);
            streams.push(stream.with_context(|| format!("there is no stream {number}"))?);
        }
        ensure!(streams.is_sorted(), "expected streams in order");
        if self.layout.streams != streams {
            self.layout = Arc::new(RecordLayout::new(self.level, streams));
        }
        self.changed.clear();
        self.changed.resize(self.layout.streams.len(), 0);
        self.cells.clear();
        for stream in &self.layout.streams {
            let stored = self.stored_columns[stream.kind as usize];
            let columns = self.level.columns(stream.kind);
            self.cells
                .extend((0..columns).map(|at| (at < stored).then_some(0)));
        }
        Ok(())
    }

    fn take_rows(&mut self, left: &mut &[u8]) -> anyhow::Result<()> {
        let mut place = 0;
        while !left.is_empty() {
            let head = take_varint(left)?;
            place += usize::try_from(head >> FORM_BITS)?;
            let stream = self
                .layout
                .streams
                .get(place)
                .context("expected a row of a stream, but found more rows")?;
            let stored = self.stored_columns[stream.kind as usize];
            let begin = self.layout.starts[place];
            let row = &mut self.cells[begin..begin + self.level.columns(stream.kind)];
            let sum = SumColumn::of(self.level, stream.kind);
            let parts_before = sum.and_then(|sum| sum.parts(row));
            let mut unknown = 0;
            match head & ((1 << FORM_BITS) - 1) {
                CHANGED => self.changed[place] = take_varint(left)?,
                CHANGED_AND_UNKNOWN => {
                    self.changed[place] = take_varint(left)?;
                    unknown = take_varint(left)?;
                }
                SAME_COLUMNS => {}
                other => bail!("expected the columns of a row, but found the form {other}"),
            }
            let changed = self.changed[place];
            for at in 0..stored {
                if let Some(sum) = sum.filter(|sum| sum.column == at) {
                    let parts = sum.parts(row);
                    sum.add(row, parts_before, parts);
                }
                if changed >> at & 1 == 0 {
                    continue;
                }
                let old = row.get(at).copied().flatten().unwrap_or_default();
                let now = match unknown >> at & 1 {
                    0 => Some(take_difference(left, old)?),
                    _ => None,
                };
                // A column that only a newer program knows is left out.
                if let Some(cell) = row.get_mut(at) {
                    *cell = now;
                }
            }
            place += 1;
        }
        Ok(())
    }

    pub fn level(&self) -> Level {
        self.level
    }

    /// The length of the last record.
    pub fn elapsed_us(&self) -> u64 {
        self.before.map_or(0, |before| before.elapsed_us)
    }

    /// The streams of the last record, ascending.
    pub fn streams(&self) -> &[Stream] {
        &self.layout.streams
    }

    /// The row of a stream in the last record; `None` if the stream was absent.
    pub fn row(&self, stream: Stream) -> Option<&[StoredValue]> {
        let place = self.layout.streams.binary_search(&stream).ok()?;
        let start = self.layout.starts[place];
        self.cells
            .get(start..start + self.level.columns(stream.kind))
    }

    /// All rows of the last record.
    pub fn rows(&self) -> impl Iterator<Item = (Stream, &[StoredValue])> {
        let streams = self.layout.streams.iter().zip(&self.layout.starts);
        streams.map(|(stream, start)| {
            let end = start + self.level.columns(stream.kind);
            (*stream, &self.cells[*start..end])
        })
    }
}

fn checksum(before: Option<Before>, position: Position, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&before.map_or(0, |before| before.checksum).to_le_bytes());
    hasher.update(&position.number().to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_varint(left: &mut &[u8]) -> anyhow::Result<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let Some((byte, rest)) = left.split_first() else {
            bail!(ENDS)
        };
        *left = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Ok(number);
        }
    }
    bail!("expected a number of at most 64 bits, but found more")
}

fn push_difference(bytes: &mut Vec<u8>, before: u64, now: u64) {
    let difference = now.wrapping_sub(before).cast_signed();
    let zigzag = (difference << 1) ^ (difference >> 63);
    push_varint(bytes, zigzag.cast_unsigned());
}

fn take_difference(left: &mut &[u8], before: u64) -> anyhow::Result<u64> {
    let zigzag = take_varint(left)?;
    let difference = (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed();
    Ok(before.wrapping_add_signed(difference))
}

/// One bit for each column, the first column lowest.
fn mask(columns: usize, is_set: impl Fn(usize) -> bool) -> u64 {
    let bits = (0..columns).map(|at| u64::from(is_set(at)) << at);
    bits.sum()
}

/// A column that is mostly the sum of two columns before it. It is predicted to grow as they do, so that what it differs by
/// is mostly nothing: a tenth of the room of ticks.
#[derive(Clone, Copy)]
struct SumColumn {
    column: usize,
    parts: [usize; 2],
}

impl SumColumn {
    /// A device's time of all requests is that of reads and writes, but for discards and flushes.
    fn of(level: Level, kind: Kind) -> Option<Self> {
        let is_work = level == Level::Ticks && kind == Kind::Device;
        is_work.then_some(Self {
            column: Counter::QueueMs as usize,
            parts: [Counter::ReadMs as usize, Counter::WriteMs as usize],
        })
    }

    fn parts(self, row: &[StoredValue]) -> Option<u64> {
        let [one, other] = self.parts;
        Some(row[one]?.wrapping_add(row[other]?))
    }

    /// Adds to the column what its parts grew by, if all are known.
    fn add(self, row: &mut [StoredValue], before: Option<u64>, now: Option<u64>) {
        if let (Some(sum), Some(before), Some(now)) = (&mut row[self.column], before, now) {
            *sum = sum.wrapping_add(now.wrapping_sub(before));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of_host: &[StoredValue]) -> Rows {
        let mut row = vec![Some(0); Kind::Host.columns()];
        row[..of_host.len()].copy_from_slice(of_host);
        Rows::collect(Level::Ticks, |push| push(Stream::HOST, &row))
    }

    /// The records of ticks a second apart.
    fn records(ticks: &[Rows]) -> Vec<(Position, Vec<u8>)> {
        let mut encoder = Encoder::new(Level::Ticks);
        let record = |(number, rows): (i64, &Rows)| {
            let at_ms = 1_000 * (number + 1);
            let position = Position { stretch: 0, at_ms };
            (position, encoder.encode(position, 1_000_000, rows))
        };
        (0..).zip(ticks).map(record).collect()
    }

    #[test]
    fn a_tick_without_a_change_has_no_rows() {
        let idle = rows(&[Some(7), None]);
        let records = records(&[idle.clone(), idle, rows(&[Some(9), Some(0)])]);
        let lengths: Vec<usize> = records.iter().map(|(_, record)| record.len()).collect();
        // The kind, the same length, and the checksum.
        assert_eq!(lengths[1], 6);
        // Which row, that the columns are those of the first record, and their differences: 7 to 9 and unknown to 0.
        assert_eq!(lengths[2], 6 + 3);
    }

    #[test]
    fn a_column_that_an_older_program_did_not_have_is_unknown() {
        let (position, mut record) = records(&[rows(&[Some(7)])]).remove(0);
        // Columns of the host, after the kind and three bytes of length.
        assert_eq!(record[4] as usize, Kind::Host.columns());
        record[4] -= 1;
        let end = record.len() - 4;
        let sum = checksum(None, position, &record[..end]);
        record[end..].copy_from_slice(&sum.to_le_bytes());
        let mut decoder = Decoder::new(Level::Ticks);
        decoder.decode(position, &record).unwrap();
        let row = decoder.row(Stream::HOST).unwrap();
        assert_eq!(
            (row[0], row[1], row.last()),
            (Some(7), Some(0), Some(&None))
        );
    }
}
