//! InnoDB's redo log: up to where all changes are in the data files, which files may have later ones, and whether the log
//! has its end.
//!
//! Sources: `log0log.h` and `fil0fil.cc` of MariaDB 10.11; `log0log.h` of MariaDB 10.2 to 10.7 and of MySQL, which share a
//! format.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::page::{be32, be64};
use super::{is_zero, used_length};

/// MariaDB 10.8 and newer. The highest bit is set if the log is encrypted.
const PHYSICAL: u32 = 0x5068_7973;
/// Where the log starts in a file of that format.
const START: usize = 12_288;
/// The checkpoints of that format.
const CHECKPOINTS: [usize; 2] = [4096, 8192];
/// The checkpoints of the older format.
const OLD_CHECKPOINTS: [usize; 2] = [512, 1536];
/// Maximum names of files in memory.
const MOST_NAMES: usize = 32 * 1024;
/// Maximum bytes of a file's name with its folder.
const LONGEST_NAME: usize = 1024;
const ENDING: &[u8] = b".ibd";

/// A file of the redo log.
pub struct Redo {
    size: u64,
    /// The head, and the first bytes of the log, which follow its last ones.
    head: Vec<u8>,
    /// The last bytes read, with an incomplete name.
    last: Vec<u8>,
    read: u64,
    /// The number of bytes up to the last that is not zero.
    used: u64,
    names: HashSet<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedoReport {
    pub size: u64,
    /// Older changes than this log sequence number are in the data files.
    pub checkpoint: Option<u64>,
    /// Keys of the files that may have later changes. MariaDB names them in its log, since recovery needs the names.
    pub changed: Option<HashSet<u64>>,
    /// Where the log ends, if the file is zero from before that on.
    pub lost_end: Option<u64>,
    pub has_no_head: bool,
    pub is_of_mysql: bool,
}

impl Redo {
    pub fn new(size: u64) -> Self {
        let head = Vec::with_capacity(START + LONGEST_NAME);
        Self {
            size,
            head,
            last: Vec::new(),
            read: 0,
            used: 0,
            names: HashSet::new(),
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let missing = START + LONGEST_NAME - self.head.len();
        self.head
            .extend_from_slice(&bytes[..bytes.len().min(missing)]);
        if !is_zero(bytes) {
            self.used = self.read + used_length(bytes) as u64;
            self.find_names(bytes);
        }
        self.read += bytes.len() as u64;
    }

    pub fn finish(mut self) -> RedoReport {
        // The log is a ring: a name can begin at the file's end.
        let first = self.head.get(START..).unwrap_or_default().to_vec();
        self.find_names(&first);
        self.head.resize(START, 0);
        let head = &self.head;
        let report = RedoReport {
            size: self.size,
            has_no_head: is_zero(&head[..512]),
            is_of_mysql: head[16..48].starts_with(b"MySQL"),
            ..RedoReport::default()
        };
        if be32(head, 0) & !(1 << 31) != PHYSICAL {
            let blocks = OLD_CHECKPOINTS.map(|at| &head[at..at + 512]);
            let valid = blocks
                .into_iter()
                .filter(|block| crc32c::crc32c(&block[..508]) == be32(block, 508));
            return RedoReport {
                checkpoint: valid.map(|block| be64(block, 8)).max(),
                ..report
            };
        }
        let blocks = CHECKPOINTS.map(|at| &head[at..at + 64]);
        let valid = blocks
            .into_iter()
            .filter(|block| crc32c::crc32c(&block[..60]) == be32(block, 60));
        let last = valid.max_by_key(|block| be64(block, 0));
        let end = last.and_then(|block| {
            let length = self
                .size
                .checked_sub(START as u64)
                .filter(|length| *length > 0)?;
            Some(START as u64 + be64(block, 8).checked_sub(be64(head, 8))? % length)
        });
        let has_names = be32(head, 0) == PHYSICAL && self.names.len() < MOST_NAMES;
        RedoReport {
            checkpoint: last.map(|block| be64(block, 0)),
            lost_end: end.filter(|end| self.used <= *end),
            changed: has_names.then_some(self.names),
            ..report
        }
    }

    /// Finds names such as `./test/table.ibd`, also across the borders of parts.
    fn find_names(&mut self, bytes: &[u8]) {
        let mut text = std::mem::take(&mut self.last);
        text.extend_from_slice(&bytes[..bytes.len().min(LONGEST_NAME)]);
        self.find_in(&text);
        self.find_in(bytes);
        let keep = |text: &[u8]| text[text.len().saturating_sub(LONGEST_NAME)..].to_vec();
        self.last = if bytes.len() < LONGEST_NAME {
            keep(&text)
        } else {
            keep(bytes)
        };
    }

    fn find_in(&mut self, text: &[u8]) {
        let ends = text
            .windows(ENDING.len())
            .enumerate()
            .filter(|(_, window)| *window == ENDING);
        for (at, _) in ends {
            let is_of_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_#@$-/".contains(byte);
            let length = text[..at]
                .iter()
                .rev()
                .take(LONGEST_NAME)
                .take_while(is_of_name)
                .count();
            if self.names.len() < MOST_NAMES {
                self.names
                    .insert(key(&text[at - length..at + ENDING.len()]));
            }
        }
    }
}

/// Identifies a table's file by its name and its folder's.
pub fn key(path: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut parts = path.rsplit(|byte| *byte == b'/');
    (parts.next(), parts.next()).hash(&mut hasher);
    hasher.finish()
}
