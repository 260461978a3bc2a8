//! Reads the archive of a backup through and judges it: whether it is whole, and whether its database files are.
//!
//! A snapshot that overflows returns read errors. `tar` then fills up the file with zeros, and the compressor behind it
//! hides that it failed. So an archive that looks whole may contain zeros in place of tables, and only its content shows it:
//!
//! ```text
//! file → compression → tar → tablespace (pages) ┐
//!                          → redo (log)          ┴→ innodb → findings, doubts, notes → certificate
//! ```
//!
//! - [`compression`] opens the file, whatever compressed it, and computes its checksum on the way.
//! - `tar` shows the members, and tells where the stream breaks off.
//! - `tablespace` compares the checksums of InnoDB's pages (`page`), and notes which pages are zero although they are in use.
//! - `redo` reads up to where all changes are in the data files, and which files may have later ones.
//! - `innodb` puts both together: zeros are damage only if the redo log cannot have the content. That is known only at
//!   the end, since the log can stand anywhere in the archive.
//! - [`certificate`] is the file beside the archive that says what was found.
//!
//! Bytes go in and findings come out: only `compression` and `certificate` use files, and nothing is extracted. A sound
//! archive of 100 GB needs a few MB of memory, a hostile one not more: each list has a limit.

pub mod certificate;
pub mod compression;
mod innodb;
mod page;
mod redo;
mod tablespace;
mod tar;

use std::io::{self, ErrorKind, Read};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use innodb::InnoDb;
use redo::Redo;
use tablespace::Tablespace;
pub use tar::TarError;
use tar::{Content, TarMember};

/// Maximum findings that are listed; the others are counted.
const MOST_FINDINGS: usize = 24;
/// Maximum characters of a name in a sentence.
const LONGEST_SHOWN: usize = 200;
/// Endings of files whose first bytes are never zero.
const WITH_HEAD: [&str; 9] = [
    "frm", "MYI", "MAI", "sdi", "opt", "TRG", "TRN", "par", "cnf",
];

/// Sentences for the reader, and how many more there are than are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentenceList {
    pub list: Vec<String>,
    pub more: u64,
}

impl SentenceList {
    pub fn add(&mut self, sentence: String) {
        if self.list.len() < MOST_FINDINGS {
            self.list.push(sentence);
        } else {
            self.more += 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveFigures {
    /// Files, folders and others.
    pub members: u64,
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    pub innodb_files: u64,
    pub pages: u64,
    /// Pages whose checksum was compared.
    pub pages_checked: u64,
    /// Pages whose checksum or number is wrong.
    pub pages_broken: u64,
    /// Bytes of InnoDB's pages that are zero. New and free pages are.
    pub zero_bytes: u64,
}

/// What was found in an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    pub figures: ArchiveFigures,
    /// Damage.
    pub findings: SentenceList,
    /// What may be damage.
    pub doubts: SentenceList,
    /// What is no damage, or not for certain.
    pub notes: SentenceList,
}

/// How a file's content is judged.
enum Judge {
    Tablespace(Box<Tablespace>),
    Redo(Box<Redo>),
    /// Whether anything but zeros was read.
    Head(bool),
    None,
}

/// Whether an archive can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveVerdict {
    Sound,
    Damaged,
    /// It may be damaged: only a restore shows.
    Unknown,
}

impl ArchiveVerdict {
    pub fn text(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Damaged => "damaged",
            Self::Unknown => "unknown",
        }
    }
}

impl Examination {
    pub fn verdict(&self) -> ArchiveVerdict {
        if !self.findings.is_empty() {
            ArchiveVerdict::Damaged
        } else if !self.doubts.is_empty() {
            ArchiveVerdict::Unknown
        } else {
            ArchiveVerdict::Sound
        }
    }
}

/// Reads a tar stream to its end. An error means that it could not be judged.
pub fn examine(mut input: impl Read) -> Result<Examination, TarError> {
    let mut found = Examination::default();
    let mut innodb = InnoDb::default();
    let mut has_data = false;
    let end = tar::walk(&mut input, |member, content| {
        has_data |= member.is_file && !is_position(&member.name);
        judge_member(member, content, &mut found, &mut innodb)
    });
    match end {
        Ok(()) => {
            if has_rest(&mut input).map_err(TarError::Read)? {
                found.findings.add(
                    "There are other bytes behind the end of the tar archive: tar reads no files from there on."
                        .into(),
                );
            }
        }
        Err(TarError::NotTar) => return Err(TarError::NotTar),
        // The caller knows why the stream broke.
        Err(TarError::Read(_)) => {}
        Err(error) => {
            found.findings.add(format!("{error}."));
            // The checksum of the compressed stream is at its end. If that fails, the caller knows.
            let _ = has_rest(&mut input);
        }
    }
    if found.findings.is_empty() && !has_data {
        found.findings.add(no_data(&found.figures));
    }
    innodb.conclude(&mut found);
    Ok(found)
}

/// Reads what is behind the archive's end; returns whether there is anything other than zeros.
fn has_rest(input: &mut impl Read) -> io::Result<bool> {
    let mut chunk = vec![0; PART];
    let mut is_used = false;
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return Ok(is_used),
            Ok(read) => is_used |= !is_zero(&chunk[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn no_data(figures: &ArchiveFigures) -> String {
    match figures.files {
        0 => "The archive has no files.".into(),
        _ => "The archive has only mylvmbackup's own files and none of the database: is its `relpath` right?"
            .into(),
    }
}

/// Whether a file is one that mylvmbackup adds: in the folders `…-pos` and `…-cnf-DATE`.
fn is_position(name: &[u8]) -> bool {
    let folder = name
        .split(|byte| *byte == b'/')
        .find(|part| !matches!(*part, b"" | b"."))
        .unwrap_or_default();
    name.ends_with(b".pos")
        || folder.ends_with(b"-pos")
        || folder.windows(5).any(|part| part == b"-cnf-")
}

fn judge_member(
    member: &TarMember,
    content: &mut Content,
    found: &mut Examination,
    innodb: &mut InnoDb,
) -> Result<(), TarError> {
    found.figures.members += 1;
    let mut judge = judge_of(member);
    let mut bytes = 0;
    let mut read = Ok(());
    if !member.is_skipped {
        read = content.each(member, |part| {
            bytes += part.len() as u64;
            judge.push(part);
        });
    }
    if member.is_file {
        found.figures.files += 1;
        found.figures.bytes += bytes;
    }
    read?;
    match judge {
        Judge::Tablespace(tablespace) => innodb.take(member, &tablespace.finish(), found),
        Judge::Redo(redo) => innodb.take_redo(member, redo.finish(), found),
        Judge::Head(false) => {
            found.findings.add(format!(
                "{} contains only zeros, which such a file never does.",
                shown(&member.name)
            ));
        }
        Judge::Head(true) | Judge::None => {}
    }
    Ok(())
}

fn judge_of(member: &TarMember) -> Judge {
    let base = String::from_utf8_lossy(base(&member.name));
    let ending = base.rsplit_once('.').map_or("", |(_, ending)| ending);
    let is_undo = base
        .strip_prefix("undo")
        .is_some_and(|rest| rest.bytes().all(|byte| b"0123456789_".contains(&byte)));
    let is_redo = ["ib_logfile", "#ib_redo"].iter().any(|start| {
        base.strip_prefix(start)
            .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    });
    match ending {
        _ if !member.is_file || member.size == 0 => Judge::None,
        // Also one that cannot be understood is a redo log.
        "" if is_redo => Judge::Redo(Box::new(Redo::new(member.size))),
        _ if member.is_skipped => Judge::None,
        "ibd" | "ibu" => Judge::Tablespace(Box::new(Tablespace::new(false, member.size))),
        "" if base.starts_with("ibdata") || is_undo => {
            Judge::Tablespace(Box::new(Tablespace::new(true, member.size)))
        }
        ending if WITH_HEAD.contains(&ending) || base == "aria_log_control" => Judge::Head(false),
        _ => Judge::None,
    }
}

impl Judge {
    fn push(&mut self, part: &[u8]) {
        match self {
            Self::Tablespace(tablespace) => tablespace.push(part),
            Self::Redo(redo) => redo.push(part),
            Self::Head(is_used) => *is_used = *is_used || !is_zero(part),
            Self::None => {}
        }
    }
}

fn base(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// A name as it can be shown: without control characters and those that change the direction of text, and not too long.
pub fn shown(name: &[u8]) -> String {
    let is_invalid = |letter: &char| {
        letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let text = String::from_utf8_lossy(&name[..name.len().min(4 * LONGEST_SHOWN)]);
    let letters: String = text
        .chars()
        .map(|letter| {
            if is_invalid(&letter) {
                '\u{fffd}'
            } else {
                letter
            }
        })
        .collect();
    match letters.char_indices().nth(LONGEST_SHOWN) {
        Some((end, _)) => format!("{}…", &letters[..end]),
        None => letters,
    }
}

/// Zeros that are compared at once.
const PART: usize = 64 * 1024;
static ZEROS: [u8; PART] = [0; PART];

fn is_zero(bytes: &[u8]) -> bool {
    // Almost always the first bytes answer it.
    bytes.chunks(PART).all(|part| *part == ZEROS[..part.len()])
}

/// The number of bytes up to the last that is not zero.
fn used_length(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1)
}

#[cfg(test)]
mod tests;
