//! Walks through a tar stream: its members, their content, and where it breaks off.
//!
//! The crate `tar` takes the end of its input for the end of the archive, and reads extended headers of any size into
//! memory. Here a missing end is an error, and everything that is held in memory has a limit. Nothing is extracted.

use std::io::{self, ErrorKind, Read};

use thiserror::Error;

use super::header::{self, BLOCK, Extended, has_checksum, number};
use super::zeros;

/// The part of a file that is read at once.
const CHUNK: usize = 256 * 1024;
/// Maximum bytes of a long name, or of a PAX header. Linux allows names of 4096 bytes.
const LONGEST_HEADER: u64 = 64 * 1024;
/// Maximum data segments of a sparse file. The content of a file with more is not judged.
const MOST_SEGMENTS: usize = 32 * 1024;
/// Maximum zeros that the holes of all sparse files become. A hole of any size costs an archive only a few bytes.
const MOST_HOLES: u64 = 1 << 40;

#[derive(Debug)]
pub struct Member {
    /// As in the archive; it can contain anything.
    pub name: Vec<u8>,
    pub is_file: bool,
    /// Bytes of its content, with holes.
    pub size: u64,
    /// Whether holes are missing from the content that is read, so that it is no image of the file.
    pub is_packed: bool,
    stored: u64,
    segments: Vec<(u64, u64)>,
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
        "The tar archive is damaged at byte {at}: expected the header of a member, but found {found}"
    )]
    Header { at: u64, found: &'static str },
    #[error(transparent)]
    Read(#[from] io::Error),
}

pub struct Walk<R> {
    input: R,
    at: u64,
    holes: u64,
    chunk: Vec<u8>,
}

impl<R: Read> Walk<R> {
    pub fn of(input: R) -> Self {
        Self {
            input,
            at: 0,
            holes: 0,
            chunk: vec![0; CHUNK],
        }
    }

    /// The next member, whose content must be read with [`Self::content`]; `None` at the archive's end.
    pub fn next(&mut self) -> Result<Option<Member>, TarError> {
        let mut extended = Extended::default();
        loop {
            let at = self.at;
            let mut block = [0; BLOCK];
            if self.fill(&mut block)? < BLOCK {
                return Err(TarError::NoEnd { at: self.at });
            }
            if zeros::is_zero(&block) {
                return self.end(at).map(|()| None);
            }
            if !has_checksum(&block) {
                return Err(if at == 0 && &block[257..262] != b"ustar" {
                    TarError::NotTar
                } else {
                    TarError::Header {
                        at,
                        found: "one with a wrong checksum",
                    }
                });
            }
            let wrong = |found| TarError::Header { at, found };
            let size = number(&block[124..136]).ok_or_else(|| wrong("an invalid size"))?;
            match block[156] {
                b'L' | b'K' | b'x' | b'g' => {
                    let text = self
                        .extension(size)
                        .map_err(|error| error.unwrap_or(wrong("a name that is too long")))?;
                    extended
                        .take(block[156], text)
                        .ok_or_else(|| wrong("an invalid extended header"))?;
                }
                _ => {
                    return self
                        .member(&block, size, extended)
                        .map(Some)
                        .map_err(|error| error.unwrap_or(wrong("an invalid sparse file")));
                }
            }
        }
    }

    /// Reads a member's content to its end.
    pub fn content(
        &mut self,
        member: &Member,
        mut part: impl FnMut(&[u8]),
    ) -> Result<(), TarError> {
        let mut place = 0;
        for (offset, length) in &member.segments {
            zeros::each(offset - place, &mut part);
            self.stored(*length, member, &mut part)?;
            place = offset + length;
        }
        if member.segments.is_empty() {
            self.stored(member.stored, member, &mut part)?;
        } else {
            zeros::each(member.size - place, &mut part);
        }
        let padding = (BLOCK as u64 - member.stored % BLOCK as u64) % BLOCK as u64;
        self.stored(padding, member, &mut |_| {})
    }

    /// Reads the second of the two blocks of zeros at the archive's end. Some programs write only one.
    fn end(&mut self, at: u64) -> Result<(), TarError> {
        let mut block = [0; BLOCK];
        let read = self.fill(&mut block)?;
        match zeros::is_zero(&block[..read]) {
            true => Ok(()),
            false => Err(TarError::Header {
                at,
                found: "a block of zeros that is not the archive's end",
            }),
        }
    }

    /// Reads what is behind the archive's end; returns whether there is anything other than zeros.
    pub fn rest(&mut self) -> io::Result<bool> {
        let mut chunk = std::mem::take(&mut self.chunk);
        let mut is_used = false;
        loop {
            match self.input.read(&mut chunk) {
                Ok(0) => return Ok(is_used),
                Ok(read) => is_used |= !zeros::is_zero(&chunk[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn stored(
        &mut self,
        mut left: u64,
        member: &Member,
        part: &mut impl FnMut(&[u8]),
    ) -> Result<(), TarError> {
        let mut chunk = std::mem::take(&mut self.chunk);
        while left > 0 {
            let wanted = left.min(CHUNK as u64) as usize;
            let read = self.fill(&mut chunk[..wanted])?;
            part(&chunk[..read]);
            left -= read as u64;
            if read < wanted {
                return Err(TarError::Truncated {
                    name: super::shown(&member.name),
                    missing: left,
                });
            }
        }
        self.chunk = chunk;
        Ok(())
    }

    /// The content of an extended header; no error of its own if it is too long.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, Option<TarError>> {
        if size > LONGEST_HEADER {
            return Err(None);
        }
        let mut text = vec![0; size.next_multiple_of(BLOCK as u64) as usize];
        if self.fill(&mut text).map_err(Some)? < text.len() {
            return Err(Some(TarError::NoEnd { at: self.at }));
        }
        text.truncate(size as usize);
        Ok(text)
    }

    fn member(
        &mut self,
        block: &[u8; BLOCK],
        size: u64,
        extended: Extended,
    ) -> Result<Member, Option<TarError>> {
        // Links and devices have no content, whatever their size says.
        let stored = if matches!(block[156], b'1'..=b'6') {
            0
        } else {
            extended.size.unwrap_or(size)
        };
        let mut member = Member {
            name: extended.name.unwrap_or_else(|| header::name(block)),
            is_file: matches!(block[156], b'0' | 0 | b'7' | b'S'),
            size: stored,
            is_packed: extended.is_sparse,
            stored,
            segments: Vec::new(),
        };
        member.is_file &= !member.name.ends_with(b"/");
        if block[156] == b'S' {
            self.sparse(block, &mut member)?;
        }
        Ok(member)
    }

    /// Reads the map of a sparse file in GNU's format: four segments in the header, 21 in each block behind it.
    fn sparse(&mut self, block: &[u8; BLOCK], member: &mut Member) -> Result<(), Option<TarError>> {
        member.size = number(&block[483..495]).ok_or(None)?;
        let mut more = block[482];
        let mut segments = header::segments(&block[386..482]).ok_or(None)?;
        while more != 0 {
            let mut block = [0; BLOCK];
            if self.fill(&mut block).map_err(Some)? < BLOCK {
                return Err(Some(TarError::NoEnd { at: self.at }));
            }
            more = block[504];
            if segments.len() <= MOST_SEGMENTS {
                segments.extend(header::segments(&block[..504]).ok_or(None)?);
            }
        }
        let holes = member.size.saturating_sub(member.stored);
        member.is_packed = segments.len() > MOST_SEGMENTS || holes > MOST_HOLES - self.holes;
        if !member.is_packed {
            self.holes += holes;
            header::check_segments(&segments, member.size, member.stored).ok_or(None)?;
            // The map of an empty file is not empty.
            member.segments = if segments.is_empty() {
                vec![(0, 0)]
            } else {
                segments
            };
        }
        Ok(())
    }

    /// Fills the buffer, or as much of it as there is.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, TarError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.input.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.at += filled as u64;
        Ok(filled)
    }
}
