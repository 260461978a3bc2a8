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
mod tests {
    //! Archives that no tar makes.

    use proptest::prelude::*;

    use super::*;

    /// A member with this name, type and size field, and a valid checksum.
    fn header(name: &[u8], kind: u8, size: &[u8]) -> Vec<u8> {
        let mut block = vec![0; 512];
        block[..name.len()].copy_from_slice(name);
        block[124..124 + size.len()].copy_from_slice(size);
        block[156] = kind;
        let magic = if kind == b'x' {
            b"ustar\x0000"
        } else {
            b"ustar  \0"
        };
        block[257..265].copy_from_slice(magic);
        sealed(block)
    }

    fn sealed(mut block: Vec<u8>) -> Vec<u8> {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        block
    }

    /// A whole archive of these blocks.
    fn archive(blocks: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = blocks.concat();
        bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
        bytes
    }

    fn found(bytes: &[u8]) -> Examination {
        examine(bytes).unwrap()
    }

    fn finding(bytes: &[u8]) -> String {
        found(bytes)
            .findings
            .list
            .first()
            .cloned()
            .unwrap_or_default()
    }

    #[test]
    fn hostile_names_are_shown_without_control_characters() {
        let name = b"../../etc/\x1b[31m\xff\n\xe2\x80\xae.frm";
        let bytes = archive(&[header(name, b'0', b"00000000010\0"), vec![0; 8]]);
        assert_eq!(
            finding(&bytes),
            "../../etc/\u{fffd}[31m\u{fffd}\u{fffd}\u{fffd}.frm contains only zeros, which such a file never does."
        );
        assert_eq!(shown(&[b'n'; 5000]), "n".repeat(200) + "…");
    }

    #[test]
    fn impossible_sizes_are_errors() {
        for (size, expected) in [
            (
                &b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"[..],
                "negative binary number where unsigned expected",
            ),
            (
                b"\x80\0\0\x01\xff\xff\xff\xff\xff\xff\xff\xff",
                "numeric field overflow",
            ),
            (b"9", "invalid octal numeric field"),
            (b"-1", "invalid octal numeric field"),
        ] {
            let text = finding(&archive(&[header(b"data", b'0', size)]));
            assert_eq!(
                text,
                format!(
                    "The tar archive is damaged at byte 0, where the header of a member begins: {expected}."
                )
            );
        }
        // As large as possible, and not there.
        let text = finding(&archive(&[header(
            b"data",
            b'0',
            b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
        )]));
        assert!(
            text.starts_with("The tar archive ends within data, of which 92233720368547"),
            "{text}"
        );
    }

    #[test]
    fn an_endless_name_is_not_held_in_memory() {
        for kind in [b'L', b'x'] {
            let text = finding(&archive(&[header(b"long", kind, b"77777777777\0")]));
            assert!(
                text.ends_with("tar metadata exceeds 1 MiB limit."),
                "{text}"
            );
        }
    }

    #[test]
    fn records_of_a_pax_header_must_have_their_length() {
        for text in [
            "18446744073709551615 path=x\n",
            "5 path",
            "0 a=b\n",
            "11 path=data",
            "x path=data\n",
            "3 \n",
        ] {
            let size = format!("{:011o}\0", text.len());
            let mut block = text.as_bytes().to_vec();
            block.resize(512, 0);
            let found = finding(&archive(&[header(b"pax", b'x', size.as_bytes()), block]));
            assert!(
                found.starts_with("The tar archive is damaged at byte 0, where"),
                "{text:?}: {found}"
            );
        }
    }

    /// A sparse file of this size with one segment.
    fn sparse(offset: &[u8], length: &[u8], size: &[u8]) -> Vec<u8> {
        let mut block = header(b"t.dat", b'S', b"00000001000\0");
        block[386..386 + offset.len()].copy_from_slice(offset);
        block[398..398 + length.len()].copy_from_slice(length);
        block[483..483 + size.len()].copy_from_slice(size);
        archive(&[sealed(block), vec![1; 512]])
    }

    #[test]
    fn holes_have_a_limit() {
        let whole = found(&sparse(b"00000001000", b"00000001000", b"00000010000"));
        assert_eq!(
            (whole.figures.bytes, whole.findings.list.len()),
            (4096, 0),
            "{whole:?}"
        );
        // Seven exabytes.
        let huge = found(&sparse(
            b"00000001000",
            b"00000001000",
            b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff",
        ));
        assert_eq!(
            (huge.figures.bytes, huge.findings.list.len()),
            (0, 0),
            "{huge:?}"
        );
        for (offset, length) in [
            (&b"00000010000"[..], &b"00000001000"[..]),
            (b"0", b"00000000777"),
            (b"0", b"77777777777"),
        ] {
            let text = finding(&sparse(offset, length, b"00000010000"));
            assert!(
                text.contains("damaged at byte 0") && text.contains("sparse"),
                "{text}"
            );
        }
    }

    #[test]
    fn findings_are_counted_beyond_a_screen() {
        let member = |number: u32| {
            [
                header(format!("{number}.frm").as_bytes(), b'0', b"1"),
                vec![0; 512],
            ]
            .concat()
        };
        let members: Vec<Vec<u8>> = (0..1000).map(member).collect();
        let findings = found(&archive(&members)).findings;
        assert_eq!(
            (findings.list.len(), findings.more),
            (MOST_FINDINGS, 1000 - MOST_FINDINGS as u64)
        );
    }

    #[test]
    fn bytes_behind_the_end_are_damage() {
        let mut bytes = archive(&[header(b"data", b'0', b"0")]);
        bytes.extend([0; 9000]);
        assert!(found(&bytes).findings.is_empty());
        bytes.extend([1; 5]);
        assert!(
            finding(&bytes).starts_with("There are other bytes behind the end of the tar archive")
        );
    }

    #[test]
    fn a_lone_block_of_zeros_is_no_end_of_an_archive() {
        let member = || header(b"data", b'0', b"0");
        let text = finding(&archive(&[member(), vec![0; 512], member()]));
        assert_eq!(
            text,
            "The tar archive is damaged at byte 512, where the header of a member begins: tar zero block was not followed by a \
         second zero block."
        );
        assert!(
            found(&[member(), vec![0; 512]].concat())
                .findings
                .is_empty(),
            "an old tar writes one"
        );
    }

    #[test]
    fn zeros_of_a_file_are_no_end_of_an_archive() {
        let member = [header(b"data", b'0', b"00000001000\0"), vec![0; 512]].concat();
        assert_eq!(
            finding(&member),
            "The tar archive ends after 1024 bytes without the blocks of zeros at its end: tar was probably killed, and files \
         are missing."
        );
    }

    /// The first page of a tablespace, with its flags, pages and free limit.
    fn first_page(flags: u32, rest: &[u8]) -> Vec<u8> {
        let mut page = vec![0; 64 * 1024];
        page[25] = 8;
        page[54..58].copy_from_slice(&flags.to_be_bytes());
        let end = rest.len().min(page.len() - 64);
        page[64..64 + end].copy_from_slice(&rest[..end]);
        page
    }

    proptest! {
        #[test]
        fn any_bytes_are_examined(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
            let _ = examine(&*bytes);
            let _ = examine(&*archive(&[header(b"d/t.ibd", b'0', b"00000002000"), bytes.clone()]));
            let _ = examine(&*archive(&[header(b"d/pax", b'x', b"00000000700"), bytes]));
        }

        #[test]
        fn any_tablespace_is_examined(flags: u32, rest in proptest::collection::vec(any::<u8>(), 0..2000), size in 0u64..300_000) {
            for is_system in [false, true] {
                let mut tablespace = Tablespace::new(is_system, size);
                tablespace.push(&first_page(flags, &rest));
                tablespace.push(&rest);
                tablespace.push(&first_page(flags, &rest));
                tablespace.push(&[0; 70_000]);
                tablespace.finish();
            }
        }

        #[test]
        fn any_redo_log_is_examined(format in prop_oneof![Just(*b"Phys"), any::<[u8; 4]>()], bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let mut redo = Redo::new(bytes.len() as u64);
            redo.push(&format);
            redo.push(&bytes);
            redo.push(b"./t/name.ibd");
            redo.push(&bytes);
            redo.finish();
        }
    }
}
