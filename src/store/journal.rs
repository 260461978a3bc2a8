//! Ticks that are not in the database yet: one append-only file of records beside it.
//!
//! Each record carries its length, its segment, its index since the file was last cleared, and a checksum. Records are
//! read independently of each other, so damage costs only the record that it lies in. When every segment in the file is in
//! the database, the file is cleared: the next record overwrites the first. A sync after overwriting writes no file system
//! metadata, unlike one after truncating. Leftovers are recognised by their segment.
//!
//! After a sync the next record begins a page, so that no page reaches the disk twice.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::paths::{beside, free_name};

/// The start of the file, before the database's identity.
const HEADER_MAGIC: [u8; 8] = *b"cowbell2";
const HEADER: usize = 20;
const RECORD_MAGIC: [u8; 4] = *b"tick";
/// Bytes of magic, length, segment, index and checksum before each record.
const FRAME: usize = 24;
/// Zeros after the last record, which show that nothing was cut off.
const END: [u8; 8] = [0; 8];
/// A larger length is damage.
const LONGEST_RECORD: usize = 16 << 20;
/// Linux writes whole pages.
const PAGE: u64 = 4 << 10;
/// The file grows by this many zeros at once, so that records overwrite existing blocks.
const STEP: u64 = 256 << 10;
/// A longer file, from a time when the database could not be written, is cut to this length when it is cleared.
const USUAL_LENGTH: u64 = 4 << 20;
/// The file's mode: only its owner can read it.
const RIGHTS: u32 = 0o600;

/// The journal of one database, open for appending by a single writer.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    identity: u64,
    /// Where the next record begins, and its index.
    end: u64,
    index: u32,
    length: u64,
    is_unsynced: bool,
}

/// The journal's records of segments that are not in the database.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct JournalContent {
    /// The segment of each record and the record, in the order of writing.
    pub records: Vec<(i64, Vec<u8>)>,
    /// A sentence for each damaged place.
    pub damage: Vec<String>,
    end: u64,
    index: u32,
}

impl Journal {
    /// Opens or creates the journal of the database at `database` and reads the records after segment `sealed`.
    ///
    /// A damaged file is copied aside before anything is written. A file of another database is renamed.
    pub fn open(database: &Path, identity: u64, sealed: i64) -> io::Result<(Self, JournalContent)> {
        let path = path_of(database);
        let found = bytes(database)?;
        let mut recovered = recover(&found, identity, sealed);
        if identity_in(&found).is_some_and(|found| found != identity) {
            let aside = free_name(&path, "damaged");
            std::fs::rename(&path, &aside).map_err(|error| named("set aside", &path, error))?;
            let (path, aside) = (path.display(), aside.display());
            recovered.damage = vec![format!(
                "the journal {path} belongs to another database; it is now {aside}"
            )];
        } else if !recovered.damage.is_empty() {
            let copy = free_name(&path, "copy");
            std::fs::copy(&path, &copy).map_err(|error| named("copy", &path, error))?;
            recovered.damage.push(format!(
                "a copy of the damaged journal is {}",
                copy.display()
            ));
        }
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(RIGHTS)
            .open(&path);
        let file = file.map_err(|error| named("open", &path, error))?;
        file.set_permissions(Permissions::from_mode(RIGHTS))
            .map_err(|error| named("open", &path, error))?;
        let length = file.metadata()?.len();
        let (end, index) = (recovered.end.max(HEADER as u64), recovered.index);
        let mut journal = Self {
            path,
            file,
            identity,
            end,
            index,
            length,
            is_unsynced: true,
        };
        let mut start = header(identity).to_vec();
        if recovered.records.is_empty() {
            journal.clear()?;
            start.extend(END);
        }
        journal.write(0, &start)?;
        Ok((journal, recovered))
    }

    /// Appends a record. It survives a kill and, once synced, a power cut. After an error nothing was appended.
    pub fn append(&mut self, segment: i64, record: &[u8]) -> io::Result<()> {
        if record.len() > LONGEST_RECORD {
            let error = format!(
                "expected at most {LONGEST_RECORD} bytes, but found {}",
                record.len()
            );
            return Err(named(
                "append to",
                &self.path,
                io::Error::new(ErrorKind::InvalidInput, error),
            ));
        }
        let bytes = framed(self.identity, segment, self.index, record);
        self.write(self.end, &bytes)?;
        self.end += (bytes.len() - END.len()) as u64;
        self.index += 1;
        Ok(())
    }

    /// Flushes every record to the disk.
    ///
    /// After an error, the records since the last sync are safe only once their segment is in the database. Linux may drop
    /// pages that it could not write, and report success the next time.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.is_unsynced {
            self.is_unsynced = false;
            self.file
                .sync_data()
                .map_err(|error| named("sync", &self.path, error))?;
            if self.index > 0 {
                self.end = self.end.next_multiple_of(PAGE);
            }
        }
        Ok(())
    }

    /// Starts over at the beginning. Every segment in the file must be in the database.
    pub fn clear(&mut self) -> io::Result<()> {
        (self.end, self.index) = (HEADER as u64, 0);
        if self.length > USUAL_LENGTH {
            self.file
                .set_len(USUAL_LENGTH)
                .map_err(|error| named("shorten", &self.path, error))?;
            self.length = USUAL_LENGTH;
        }
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let end = at + bytes.len() as u64;
        if end > self.length {
            let grown = self.grow(end);
            self.length = self.file.metadata()?.len();
            // A full disk may have room for this record, but not for a whole step.
            if end > self.length {
                grown.map_err(|error| named("make room in", &self.path, error))?;
            }
        }
        self.is_unsynced = true;
        self.file
            .write_all_at(bytes, at)
            .map_err(|error| named("write to", &self.path, error))
    }

    /// Writes zeros page by page. After a larger write, a later record would make all of it dirty.
    fn grow(&self, end: u64) -> io::Result<()> {
        let mut at = self.length;
        while at < end.next_multiple_of(STEP) {
            let page_end = (at + 1).next_multiple_of(PAGE);
            self.file
                .write_all_at(&[0; PAGE as usize][..(page_end - at) as usize], at)?;
            at = page_end;
        }
        Ok(())
    }
}

/// The journal's bytes; empty if there is no journal.
pub fn bytes(database: &Path) -> io::Result<Vec<u8>> {
    let path = path_of(database);
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        let error = "expected a regular file, but found something else; move it away";
        return Err(named(
            "open",
            &path,
            io::Error::new(ErrorKind::InvalidInput, error),
        ));
    }
    match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(|error| named("read", &path, error)),
    }
}

/// The journal of a database.
pub fn path_of(database: &Path) -> PathBuf {
    beside(database, "-ticks")
}

/// Whether cowbell's journal is beside a database. The database is then cowbell's, however damaged.
pub fn lies_beside(database: &Path) -> bool {
    bytes(database).is_ok_and(|bytes| identity_in(&bytes).is_some())
}

/// The identity in the header; `None` if the header is damaged or missing.
fn identity_in(bytes: &[u8]) -> Option<u64> {
    let identity = u64::from_le_bytes(array(bytes.get(..HEADER)?, HEADER_MAGIC.len()));
    bytes.starts_with(&header(identity)).then_some(identity)
}

fn header(identity: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&HEADER_MAGIC);
    header[8..16].copy_from_slice(&identity.to_le_bytes());
    let checksum = crc32fast::hash(&header[..16]);
    header[16..].copy_from_slice(&checksum.to_le_bytes());
    header
}

fn framed(identity: u64, segment: i64, index: u32, record: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(FRAME + record.len() + END.len());
    bytes.extend(RECORD_MAGIC);
    bytes.extend((record.len() as u32).to_le_bytes());
    bytes.extend(segment.to_le_bytes());
    bytes.extend(index.to_le_bytes());
    bytes.extend(checksum(identity, &bytes, record).to_le_bytes());
    bytes.extend(record);
    bytes.extend(END);
    bytes
}

fn checksum(identity: u64, frame: &[u8], record: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&identity.to_le_bytes());
    hasher.update(frame);
    hasher.update(record);
    hasher.finalize()
}

/// The valid record at `at`: its segment, index, content and end.
fn record_at(bytes: &[u8], at: usize, identity: u64) -> Option<(i64, u32, &[u8], usize)> {
    let frame = bytes.get(at..at + FRAME)?;
    let length = u32::from_le_bytes(array(frame, 4)) as usize;
    if frame[..4] != RECORD_MAGIC || length > LONGEST_RECORD {
        return None;
    }
    let record = bytes.get(at + FRAME..at + FRAME + length)?;
    if checksum(identity, &frame[..FRAME - 4], record)
        != u32::from_le_bytes(array(frame, FRAME - 4))
    {
        return None;
    }
    let (segment, index) = (
        i64::from_le_bytes(array(frame, 8)),
        u32::from_le_bytes(array(frame, 16)),
    );
    Some((segment, index, record, at + FRAME + length))
}

/// The records after segment `sealed` in the bytes of a journal.
pub fn recover(bytes: &[u8], identity: u64, sealed: i64) -> JournalContent {
    let mut recovered = JournalContent {
        end: HEADER as u64,
        ..JournalContent::default()
    };
    let mut damaged = |at: usize| {
        recovered.damage.push(format!(
            "the journal is damaged at byte {at}: what stood there is lost"
        ));
    };
    if identity_in(bytes).is_none() && bytes.iter().take(HEADER).any(|byte| *byte != 0) {
        damaged(0);
    }
    let (mut at, mut expected) = (HEADER, 0);
    let current =
        |at: usize| record_at(bytes, at, identity).filter(|(segment, ..)| *segment > sealed);
    while let Some((segment, index, record, end)) = magics(bytes, at).find_map(current) {
        if index != expected {
            damaged(at);
        }
        recovered.records.push((segment, record.to_vec()));
        (at, expected) = (end, index.wrapping_add(1));
    }
    let last = recovered.records.last().map(|(segment, _)| *segment);
    if !is_clean_end(bytes, at, identity, last.map(|segment| (segment, expected))) {
        damaged(at);
    }
    (recovered.end, recovered.index) = (at as u64, expected);
    recovered
}

/// Positions from `at` on where a record may begin.
fn magics(bytes: &[u8], at: usize) -> impl Iterator<Item = usize> + '_ {
    let windows = bytes
        .get(at..)
        .unwrap_or_default()
        .windows(RECORD_MAGIC.len())
        .enumerate();
    windows
        .filter(|(_, window)| *window == RECORD_MAGIC)
        .map(move |(offset, _)| at + offset)
}

/// Whether nothing was cut off after the last record. `last` is its segment, and the index after its own.
fn is_clean_end(bytes: &[u8], at: usize, identity: u64, last: Option<(i64, u32)>) -> bool {
    let is_zero = |at: usize| bytes.get(at..at + END.len()) == Some(&END[..]);
    let Some((segment, index)) = last else {
        // A leftover record of a sealed segment may be in the place of the first record.
        return bytes.len() <= HEADER && bytes.iter().all(|byte| *byte == 0)
            || is_zero(at)
            || record_at(bytes, at, identity).is_some();
    };
    let page = at.next_multiple_of(PAGE as usize);
    // After a sync the next record begins a page. A valid leftover may be there.
    let is_ours = bytes.get(page..page + FRAME).is_some_and(|frame| {
        segment == i64::from_le_bytes(array(frame, 8))
            || frame[..4] == RECORD_MAGIC && index == u32::from_le_bytes(array(frame, 16))
    });
    let is_damaged = is_ours && record_at(bytes, page, identity).is_none();
    is_zero(at) && !is_damaged && (bytes.len() as u64).is_multiple_of(PAGE)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

fn named(doing: &str, path: &Path, error: io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("cannot {doing} the journal {}: {error}", path.display()),
    )
}

#[cfg(test)]
mod tests;
