//! The folder of `cowbell guard`, which lies in memory, and its state file, which the guard replaces and the daemon reads.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::files::Root;
use super::{Part, PartReading};

/// Of the guard's files.
pub const FOLDER: &str = "/run/cowbell-guard";
pub const STATE_FILE: &str = "state.json";
/// A state is a few KiB.
const MAX_STATE: u64 = 1 << 20;

/// The state file as it was last read.
pub struct GuardStateFile {
    path: PathBuf,
    /// Its inode and modification; `None` if there was none.
    version: Option<(u64, i64, i64)>,
}

impl GuardStateFile {
    pub fn below(root: &Root) -> Self {
        Self {
            path: root.0.join(&FOLDER[1..]).join(STATE_FILE),
            version: None,
        }
    }

    /// Its text if it was replaced; empty if it was removed.
    pub fn read_if_changed(&mut self) -> Option<PartReading> {
        let found = fs::metadata(&self.path).ok();
        let version = found.map(|it| (it.ino(), it.mtime(), it.mtime_nsec()));
        if version == self.version {
            return None;
        }
        self.version = version;
        Some(PartReading::timed(Part::Guard, || {
            if version.is_none() {
                return Ok(String::new());
            }
            let mut text = String::new();
            let file = fs::File::open(&self.path).map_err(|error| error.to_string())?;
            let read = file.take(MAX_STATE).read_to_string(&mut text);
            read.map(|_| text).map_err(|error| error.to_string())
        }))
    }
}
