//! Walks through a tar stream: its members, their content, and where it breaks off.
//!
//! `jdx-tar` reads headers, PAX records and the maps of sparse files, GNU's and PAX's, and limits what it holds in memory.
//! (The crate `tar` leaves PAX's sparse files as they are stored.) It takes the end of its input for the end of the
//! archive. Here a missing end is an error: it is the only trace that a killed tar leaves.

use std::cell::Cell;
use std::io::{self, Cursor, ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;

use jdx_tar::{Archive, Entry, EntryType};
use thiserror::Error;

const BLOCK: u64 = 512;
/// The part of a file that is read at once.
const CHUNK: u64 = 256 * 1024;
/// Maximum zeros that the holes of all sparse files become. A hole of any size costs an archive only a few bytes.
const MOST_HOLES: u64 = 1 << 40;

#[derive(Debug)]
pub struct TarMember {
    /// As in the archive; it can contain anything.
    pub name: Vec<u8>,
    pub is_file: bool,
    /// Bytes of its content, with holes.
    pub size: u64,
    /// Whether its holes are beyond the limit. Then it is skipped.
    pub is_skipped: bool,
    /// Bytes of its content in the archive.
    stored: u64,
}

/// Why a walk ended early.
#[derive(Debug, Error)]
pub enum TarError {
    #[error("its content is not a tar archive")]
    NotTar,
    #[error(
        "The tar archive ends after {at} bytes without the blocks of zeros at its end: tar was probably killed, and files are \
         missing"
    )]
    NoEnd { at: u64 },
    #[error(
        "The tar archive ends within {name}, of which {missing} bytes are missing: tar was probably killed"
    )]
    Truncated { name: String, missing: u64 },
    #[error(
        "The tar archive is damaged at byte {at}, where the header of a member begins: {error}"
    )]
    Header { at: u64, error: io::Error },
    #[error(transparent)]
    Read(io::Error),
}

/// Shows each member to `visit`, which may read its content.
pub fn walk(
    input: &mut dyn Read,
    mut visit: impl FnMut(&TarMember, &mut Content) -> Result<(), TarError>,
) -> Result<(), TarError> {
    let mut head = Vec::new();
    input
        .take(BLOCK)
        .read_to_end(&mut head)
        .map_err(TarError::Read)?;
    let is_named = head.get(257..262) == Some(b"ustar");
    let progress = Progress::default();
    let mut archive = Archive::new(Counted {
        input: Box::new(Cursor::new(head).chain(input)),
        progress: &progress,
    });
    // Where the header of the next member begins.
    let mut next = 0u64;
    let mut holes = 0u64;
    for entry in archive.entries().map_err(TarError::Read)? {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if progress.has_failed.get() => return Err(TarError::Read(error)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(TarError::NoEnd {
                    at: progress.at.get(),
                });
            }
            Err(_) if next == 0 && !is_named => return Err(TarError::NotTar),
            Err(error) => return Err(TarError::Header { at: next, error }),
        };
        let mut member = member(&entry);
        let own_holes = member.size.saturating_sub(member.stored);
        member.is_skipped = own_holes > MOST_HOLES - holes;
        if !member.is_skipped {
            holes += own_holes;
        }
        let start = progress.at.get();
        next = start.saturating_add(member.stored).next_multiple_of(BLOCK);
        let mut content = Content {
            entry,
            end: start.saturating_add(member.stored),
            progress: &progress,
        };
        visit(&member, &mut content)?;
    }
    let at = progress.at.get();
    // At the end of an archive are two blocks of zeros, and some programs write only one.
    if at < next.saturating_add(BLOCK) {
        return Err(TarError::NoEnd { at });
    }
    Ok(())
}

fn member<R: Read>(entry: &Entry<R>) -> TarMember {
    let name = match entry.path() {
        Ok(path) => path.as_os_str().as_bytes().to_vec(),
        Err(_) => Vec::new(),
    };
    TarMember {
        is_file: entry.entry_type() == EntryType::File && !name.ends_with(b"/"),
        name,
        size: entry.size(),
        is_skipped: false,
        stored: match entry.sparse_map() {
            Some(map) => map.iter().map(|segment| segment.len).sum(),
            None => entry.header().stored_size(),
        },
    }
}

/// The content of a member. What is not read of it is skipped.
pub struct Content<'a> {
    entry: Entry<Counted<'a>>,
    /// Where it ends in the archive.
    end: u64,
    progress: &'a Progress,
}

impl Content<'_> {
    /// Reads it to its end.
    pub fn each(
        &mut self,
        member: &TarMember,
        mut part: impl FnMut(&[u8]),
    ) -> Result<(), TarError> {
        let mut chunk = vec![0; member.size.min(CHUNK) as usize];
        loop {
            match self.entry.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(read) => part(&chunk[..read]),
                Err(error) if self.progress.has_failed.get() => return Err(TarError::Read(error)),
                Err(_) => {
                    return Err(TarError::Truncated {
                        name: crate::shown(&member.name),
                        missing: self.end.saturating_sub(self.progress.at.get()),
                    });
                }
            }
        }
    }
}

/// How far an archive was read.
#[derive(Default)]
struct Progress {
    at: Cell<u64>,
    /// Whether its input returned an error. All other errors are the archive's own.
    has_failed: Cell<bool>,
}

struct Counted<'a> {
    input: Box<dyn Read + 'a>,
    progress: &'a Progress,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.input.read(buffer) {
                Ok(read) => {
                    self.progress.at.update(|at| at + read as u64);
                    return Ok(read);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.progress.has_failed.set(true);
                    return Err(error);
                }
            }
        }
    }
}
