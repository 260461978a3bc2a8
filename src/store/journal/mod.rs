//! Ticks since the last sealed segment: an append-only journal of two files that are used in turn.
//!
//! A segment's records are in one file, the next segment's in the other, over what was there. A kill at any moment
//! leaves every record that was appended; a power cut leaves every record that was synced, and perhaps some behind.
//! What a record says is not known here.

mod file;
mod format;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use file::TicksFile;
use format::{End, HEADER, Header, LONGEST_RECORD};

/// The journal of one database. Only one at a time may be open on it.
#[derive(Debug)]
pub struct Journal {
    files: [TicksFile; 2],
    owner: Owner,
    /// The segment that records are appended to, if one was begun or found, and where the next one goes.
    current: Option<(i64, End)>,
}

/// The database that a journal is of.
#[derive(Clone, Copy, Debug)]
struct Owner {
    database_id: u64,
    /// The newest segment of which nothing is needed here any more, as of opening.
    sealed: i64,
}

/// What a journal held when it was opened.
#[derive(Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Oldest first. One that was begun is among them even if it has no record yet.
    pub segments: Vec<Segment>,
    /// What was left out or set aside: one sentence each, for the log.
    pub said: Vec<String>,
}

/// The records of one segment, in the order in which they were appended.
#[derive(Debug, PartialEq, Eq)]
pub struct Segment {
    pub number: i64,
    pub records: Vec<Vec<u8>>,
}

/// What is in a file, as far as it matters to the database.
enum Content {
    /// Nothing yet, or a segment that is sealed.
    Spent,
    Segment(Segment, End, Option<String>),
    /// Not ours, for a reason that is part of a sentence.
    Unfit(String),
}

impl Journal {
    /// Opens or makes both files of the database at `database`; gives what they hold of it after segment `sealed`.
    ///
    /// A torn last record is left out. A file that is damaged in its header, or of another database, is renamed to
    /// `<file>.damaged-<unix ms>`. Both are said. If any segment was found, `append` goes on behind the newest.
    pub fn open(database: &Path, database_id: u64, sealed: i64) -> io::Result<(Journal, Replayed)> {
        let files = [TicksFile::open(database, 0)?, TicksFile::open(database, 1)?];
        let mut journal = Journal { files, owner: Owner { database_id, sealed }, current: None };
        // Both are read before either is renamed: an error leaves everything as it was.
        let contents =
            [journal.owner.content(&journal.files[0], 0)?, journal.owner.content(&journal.files[1], 1)?];
        let replayed = journal.take_up(contents)?;
        // A file that is still empty may be new, or its folder could not be synced when it was.
        if let Some(file) = journal.files.iter().find(|file| file.is_empty()) {
            file.sync_folder()?;
        }
        Ok((journal, replayed))
    }

    /// What [`Self::open`] would give, of a journal that another process may be writing; nothing is made or changed.
    /// Only a file that cannot be used is said: a torn last record may be one that is being written.
    pub fn look(database: &Path, database_id: u64, sealed: i64) -> io::Result<Replayed> {
        let owner = Owner { database_id, sealed };
        let mut found = Replayed { segments: Vec::new(), said: Vec::new() };
        for turn in 0..2 {
            let Some(file) = TicksFile::open_to_read(database, turn)? else { continue };
            match owner.content(&file, turn)? {
                Content::Spent => {}
                Content::Segment(segment, ..) => found.segments.push(segment),
                Content::Unfit(reason) => {
                    found
                        .said
                        .push(format!("the journal {} cannot be used: {reason}", file.path().display()));
                }
            }
        }
        found.segments.sort_by_key(|segment| segment.number);
        Ok(found)
    }

    /// Copies the file of a segment, before it is written to again; gives the copy's name.
    pub fn copy_aside(&self, segment: i64) -> io::Result<PathBuf> {
        self.files[turn(segment)].copy_aside()
    }

    /// Has the records that follow be of `segment`, one after the current.
    ///
    /// They go over the last segment whose number is odd if this one is odd, or even if it is even: that one has to be
    /// sealed, and safe from a power cut, by now. Waits for the disk, as `sync` does.
    /// After an error the current segment is still the current one, and `begin` can be called again.
    pub fn begin(&mut self, segment: i64) -> io::Result<()> {
        self.check_turn(segment)?;
        let salt = RandomState::new().hash_one(segment) as u32;
        let (bytes, end) = Header { database_id: self.owner.database_id, segment, salt }.bytes();
        let file = &mut self.files[turn(segment)];
        file.write(0, &bytes)?;
        // Else a power cut could leave records without their header, which looks like damage.
        file.sync()?;
        self.current = Some((segment, end));
        Ok(())
    }

    /// Appends a record of at most 16 MiB to the current segment. It outlives a kill, and a power cut once synced.
    ///
    /// After an error, as of a full disk, it is as if nothing had been appended, and the same record can be again.
    pub fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let Some((segment, end)) = self.current else {
            return Err(refused(format!(
                "cannot append to the journal {}: begin a segment first",
                self.name(0)
            )));
        };
        if record.len() > LONGEST_RECORD {
            let (name, length) = (self.name(turn(segment)), record.len());
            return Err(refused(format!(
                "cannot append to the journal {name}: expected at most {LONGEST_RECORD} bytes, but found {length}"
            )));
        }
        let (bytes, next) = end.framed(record);
        self.files[turn(segment)].write(end.at, &bytes)?;
        self.current = Some((segment, next));
        Ok(())
    }

    /// Has all that was appended outlive a power cut. Does nothing if nothing was written since.
    ///
    /// After an error, records since the sync before are safe only once their segment is sealed: Linux may give up pages
    /// that it could not write, and let a later sync succeed without them.
    pub fn sync(&mut self) -> io::Result<()> {
        // The other file too: the segment before may have been left without a sync.
        self.files.iter_mut().map(TicksFile::sync).fold(Ok(()), io::Result::and)?;
        if let Some((_, end)) = &mut self.current {
            *end = end.at_next_page();
        }
        Ok(())
    }

    fn take_up(&mut self, contents: [Content; 2]) -> io::Result<Replayed> {
        let mut replayed = Replayed { segments: Vec::new(), said: Vec::new() };
        for (file, content) in self.files.iter_mut().zip(contents) {
            match content {
                Content::Spent => {}
                Content::Segment(segment, end, said) => {
                    if self.current.is_none_or(|(newest, _)| newest < segment.number) {
                        self.current = Some((segment.number, end));
                    }
                    replayed.segments.push(segment);
                    replayed.said.extend(said.map(|said| format!("{said}; {}", copied(file))));
                }
                Content::Unfit(reason) => replayed.said.push(set_aside(file, &reason)?),
            }
        }
        replayed.segments.sort_by_key(|segment| segment.number);
        Ok(replayed)
    }

    fn check_turn(&self, segment: i64) -> io::Result<()> {
        let newest = self.current.map_or(self.owner.sealed, |(current, _)| current);
        if segment > newest {
            return Ok(());
        }
        let name = self.name(turn(segment));
        Err(refused(format!(
            "cannot begin segment {segment} in the journal {name}: expected one after {newest}"
        )))
    }

    fn name(&self, turn: usize) -> std::path::Display<'_> {
        self.files[turn].path().display()
    }
}

impl Owner {
    fn content(&self, file: &TicksFile, turn: usize) -> io::Result<Content> {
        let (header, start) = match Header::of(&file.start(HEADER)?) {
            Ok(header) => header,
            Err(_) if file.is_blank()? => return Ok(Content::Spent),
            // A daemon may have begun it between the two looks.
            Err(_) => match Header::of(&file.start(HEADER)?) {
                Ok(header) => header,
                Err(reason) => return Ok(Content::Unfit(reason)),
            },
        };
        match self.misfit(turn, header) {
            Some(reason) => Ok(Content::Unfit(reason)),
            None if header.segment <= self.sealed => Ok(Content::Spent),
            None => Ok(segment(file, header, start)?),
        }
    }

    fn misfit(&self, turn_of_file: usize, header: Header) -> Option<String> {
        if header.database_id != self.database_id {
            let (expected, found) = (self.database_id, header.database_id);
            return Some(format!("expected database {expected:016x}, but found {found:016x}"));
        }
        let is_misplaced = turn(header.segment) != turn_of_file;
        is_misplaced.then(|| format!("segment {} belongs in the other file", header.segment))
    }
}

fn segment(file: &TicksFile, header: Header, start: End) -> io::Result<Content> {
    let found = start.records_behind(&file.bytes()?);
    let said = found.is_torn.then(|| {
        format!(
            "in the journal {}, expected a whole record of segment {} behind the first {}, but found a torn one at \
             byte {}; it is left out, with what may be behind it",
            file.path().display(), header.segment, found.records.len(), found.end.at,
        )
    });
    Ok(Content::Segment(Segment { number: header.segment, records: found.records }, found.end, said))
}

/// Where what cannot be read is now, before it is written over.
fn copied(file: &TicksFile) -> String {
    match file.copy_aside() {
        Ok(copy) => format!("a copy of the file is {}", copy.display()),
        Err(error) => format!("no copy could be made: {error}"),
    }
}

fn set_aside(file: &mut TicksFile, reason: &str) -> io::Result<String> {
    let name = file.path().display().to_string();
    let aside = file.set_aside()?;
    Ok(format!("the journal {name} cannot be used: {reason}; it is now {}", aside.display()))
}

/// Whether a file of a journal lies beside a database, of whichever one.
pub fn is_journal_of_ours_beside(database: &Path) -> bool {
    let starts = |turn| TicksFile::open_to_read(database, turn).ok()??.start(HEADER).ok();
    [0, 1].into_iter().filter_map(starts).any(|start| Header::of(&start).is_ok())
}

/// Which of the two files a segment is in.
fn turn(segment: i64) -> usize {
    segment.rem_euclid(2) as usize
}

fn refused(sentence: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, sentence)
}
