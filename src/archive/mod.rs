//! Reads the archive of a backup through and judges it: whether it is whole, and whether its database files are.
//!
//! A snapshot that overflows returns read errors. `tar` then fills up the file with zeros, and the compressor behind it
//! hides that it failed. Here bytes go in and findings come out. Only `compression` and `certificate` use files, and
//! nothing is extracted.

pub mod certificate;
pub mod compression;
mod header;
mod innodb;
mod page;
mod redo;
mod tablespace;
mod tar;
mod zeros;

use std::io::Read;

use serde::{Deserialize, Serialize};

use innodb::InnoDb;
use redo::Redo;
use tablespace::Tablespace;
pub use tar::TarError;
use tar::{Member, Walk};

/// Maximum findings that are listed; the others are counted.
const MOST_FINDINGS: usize = 24;
/// Maximum characters of a name in a sentence.
const LONGEST_SHOWN: usize = 200;
/// Endings of files whose first bytes are never zero.
const WITH_HEAD: [&str; 9] = [
    "frm", "MYI", "MAI", "sdi", "opt", "TRG", "TRN", "par", "cnf",
];

/// Sentences, and how many more there would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sentences {
    pub list: Vec<String>,
    pub more: u64,
}

impl Sentences {
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
pub struct Figures {
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
    pub figures: Figures,
    /// Damage.
    pub findings: Sentences,
    /// What may be damage.
    pub doubts: Sentences,
    /// What is no damage, or not for certain.
    pub notes: Sentences,
}

/// How a file's content is judged.
enum Judge {
    Tablespace(Box<Tablespace>),
    Redo(Box<Redo>),
    /// Whether anything but zeros was read.
    Head(bool),
    None,
}

/// Reads a tar stream to its end. An error means that it could not be judged.
pub fn examine(input: impl Read) -> Result<Examination, TarError> {
    let mut walk = Walk::of(input);
    let mut found = Examination::default();
    let mut innodb = InnoDb::default();
    let mut has_data = false;
    let end = loop {
        match walk.next() {
            Ok(Some(member)) => {
                let read = judge_member(&mut walk, &member, &mut found, &mut innodb);
                has_data |= member.is_file && !is_position(&member.name);
                if let Err(error) = read {
                    break Err(error);
                }
            }
            Ok(None) => break Ok(()),
            Err(TarError::NotTar) => return Err(TarError::NotTar),
            Err(error) => break Err(error),
        }
    };
    match end {
        Ok(()) if walk.rest()? => found.findings.add(
            "There are other bytes behind the end of the tar archive: tar reads no files from there on."
                .into(),
        ),
        Ok(()) => {}
        // The caller knows why the stream broke.
        Err(TarError::Read(_)) => {}
        Err(error) => {
            found.findings.add(format!("{error}."));
            // The checksum of the compressed stream is at its end. If that fails, the caller knows.
            let _ = walk.rest();
        }
    }
    if found.findings.is_empty() && !has_data {
        found.findings.add(no_data(&found.figures));
    }
    innodb.conclude(&mut found);
    Ok(found)
}

fn no_data(figures: &Figures) -> String {
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
    walk: &mut Walk<impl Read>,
    member: &Member,
    found: &mut Examination,
    innodb: &mut InnoDb,
) -> Result<(), TarError> {
    found.figures.members += 1;
    found.figures.files += u64::from(member.is_file);
    let mut judge = judge_of(member);
    let mut bytes = 0;
    let read = walk.content(member, |part| {
        bytes += part.len() as u64;
        judge.push(part);
    });
    found.figures.bytes += if member.is_file { bytes } else { 0 };
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

fn judge_of(member: &Member) -> Judge {
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
        _ if member.is_packed => Judge::None,
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
            Self::Head(is_used) => *is_used = *is_used || !zeros::is_zero(part),
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

#[cfg(test)]
mod tests;
