//! A journal file as bytes: a header, records one behind the other, and an end mark.
//!
//! A record's checksum is that of the header and of all records up to it. So a record counts only in its segment, in
//! its place, and behind the very records that it was written behind: one left over from an earlier use of the file, or
//! one that a power cut left whole behind a torn one, never counts again. What follows a sync begins a page, so that no
//! page reaches the disk twice: the next record is right behind the last, or where the next page begins. Nothing here
//! reads or writes a file.

use crc32fast::Hasher;

/// A record is at most this long: a length above it is no length.
pub const LONGEST_RECORD: usize = 16 << 20;
/// How long a header is; with the end mark it is within the first sector, which a disk writes wholly or not at all.
pub const HEADER: usize = 36;
/// What Linux writes to a disk at least, of a file.
pub const PAGE: u64 = 4 << 10;
/// A record's length and checksum stand before it.
const FRAME: usize = 8;
/// Stands behind the last record in place of the next one's frame: what follows is left over.
const END_MARK: [u8; FRAME] = [0; FRAME];

const MAGIC: [u8; 8] = *b"cowbellJ";
const VERSION: u32 = 1;

/// Whose records a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub database_id: u64,
    pub segment: i64,
    /// Another one each time: records of a segment that was begun once before are not taken for this one's.
    pub salt: u32,
}

/// Where the next record goes, and the checksum of everything before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub at: u64,
    crc: u32,
}

/// The records of a file.
pub struct Found {
    pub records: Vec<Vec<u8>>,
    pub end: End,
    /// Something that is no whole record stands where the next one would.
    pub is_torn: bool,
}

enum Next<'a> {
    Record(&'a [u8], End),
    Nothing,
    Torn,
}

impl Header {
    /// The start of a file without records, and where the first one goes.
    pub fn bytes(&self) -> (Vec<u8>, End) {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.salt.to_le_bytes());
        bytes.extend(self.database_id.to_le_bytes());
        bytes.extend(self.segment.to_le_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes.extend(crc.to_le_bytes());
        bytes.extend(END_MARK);
        (bytes, End { at: HEADER as u64, crc })
    }

    /// The header at the start of `file`, or what does not fit, as a part of a sentence.
    pub fn of(file: &[u8]) -> Result<(Header, End), String> {
        let header = file.get(..HEADER).ok_or("it ends within its header")?;
        if header[..8] != MAGIC {
            return Err(format!(
                "expected \"{}\" at its start, but found \"{}\"",
                MAGIC.escape_ascii(),
                header[..8].escape_ascii()
            ));
        }
        let version = u32::from_le_bytes(four(header, 8));
        if version != VERSION {
            return Err(format!("expected format {VERSION}, but found {version}"));
        }
        let (summed, crc) =
            (crc32fast::hash(&header[..HEADER - 4]), u32::from_le_bytes(four(header, HEADER - 4)));
        if crc != summed {
            return Err(format!("expected {summed:08x} as its header's checksum, but found {crc:08x}"));
        }
        let salt = u32::from_le_bytes(four(header, 12));
        let database_id = u64::from_le_bytes(eight(header, 16));
        let segment = i64::from_le_bytes(eight(header, 24));
        Ok((Header { database_id, segment, salt }, End { at: HEADER as u64, crc }))
    }
}

impl End {
    /// A record as it is written here, with the end mark behind it; and where the one after it goes.
    pub fn framed(self, record: &[u8]) -> (Vec<u8>, End) {
        let length = (FRAME + record.len()) as u32;
        let crc = self.crc_behind(length, record);
        let mut bytes = Vec::with_capacity(FRAME + record.len() + END_MARK.len());
        bytes.extend(length.to_le_bytes());
        bytes.extend(crc.to_le_bytes());
        bytes.extend(record);
        bytes.extend(END_MARK);
        (bytes, End { at: self.at + u64::from(length), crc })
    }

    /// Where the next record goes after a sync.
    pub fn at_next_page(self) -> End {
        End { at: self.at.next_multiple_of(PAGE), ..self }
    }

    /// All records of `file` from here to the first that is not whole.
    pub fn records_behind(self, file: &[u8]) -> Found {
        let mut found = Found { records: Vec::new(), end: self, is_torn: false };
        loop {
            let here = found.end.next(file);
            let next = match here {
                Next::Record(..) => here,
                Next::Nothing | Next::Torn => match found.end.at_next_page().next(file) {
                    after @ Next::Record(..) => after,
                    _ => here,
                },
            };
            match next {
                Next::Record(record, end) => {
                    found.records.push(record.to_vec());
                    found.end = end;
                }
                Next::Nothing => return found,
                Next::Torn => return Found { is_torn: true, ..found },
            }
        }
    }

    fn next(self, file: &[u8]) -> Next<'_> {
        let rest = file.get(self.at as usize..).unwrap_or_default();
        if rest.iter().take(FRAME).all(|byte| *byte == 0) {
            return Next::Nothing;
        }
        if rest.len() < FRAME {
            return Next::Torn;
        }
        let (length, crc) = (u32::from_le_bytes(four(rest, 0)), u32::from_le_bytes(four(rest, 4)));
        let is_possible = (FRAME..=FRAME + LONGEST_RECORD).contains(&(length as usize));
        match rest.get(FRAME..length as usize) {
            Some(record) if is_possible && self.crc_behind(length, record) == crc => {
                Next::Record(record, End { at: self.at + u64::from(length), crc })
            }
            _ => Next::Torn,
        }
    }

    fn crc_behind(self, length: u32, record: &[u8]) -> u32 {
        let mut crc = Hasher::new_with_initial(self.crc);
        crc.update(&length.to_le_bytes());
        crc.update(record);
        crc.finalize()
    }
}

fn four(bytes: &[u8], at: usize) -> [u8; 4] {
    std::array::from_fn(|byte| bytes[at + byte])
}

fn eight(bytes: &[u8], at: usize) -> [u8; 8] {
    std::array::from_fn(|byte| bytes[at + byte])
}
