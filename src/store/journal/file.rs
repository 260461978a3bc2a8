//! One of the journal's two files on disk: it is opened, read, written, synced and set aside. Every error names the file
//! and what was being done. What the bytes mean is not known here.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{Advice, fadvise};

use super::format::PAGE;

/// A file grows by this many bytes at once, so that most records are written over zeros that are on disk already.
const STEP: u64 = 256 << 10;
/// Rights of a file whose database is not there to take them from; the umask goes off.
const USUAL_RIGHTS: u32 = 0o644;
/// What we need ourselves when we open it again, even if the database was made read-only.
const OWN_RIGHTS: u32 = 0o600;

/// An open file of the journal.
#[derive(Debug)]
pub struct TicksFile {
    path: PathBuf,
    file: File,
    /// Bytes that the file has, most of them zeros or left over.
    length: u64,
    is_unsynced: bool,
}

impl TicksFile {
    /// Opens or makes the file of `database` whose turn it is, which is 0 or 1. It counts as not synced: an earlier run
    /// may have been killed before it could.
    pub fn open(database: &Path, turn: usize) -> io::Result<TicksFile> {
        let rights = database.metadata().map_or(USUAL_RIGHTS, |database| database.permissions().mode());
        TicksFile::open_or_make(path_of(database, turn), rights)
    }

    /// Opens the file as it is; `None` where there is none.
    pub fn open_to_read(database: &Path, turn: usize) -> io::Result<Option<TicksFile>> {
        let path = path_of(database, turn);
        refuse_what_is_no_file(&path)?;
        match File::open(&path) {
            Ok(file) => Ok(Some(TicksFile { path, file, length: 0, is_unsynced: false })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(named("open", &path, error)),
        }
    }

    fn open_or_make(path: PathBuf, rights: u32) -> io::Result<TicksFile> {
        refuse_what_is_no_file(&path)?;
        let failed = |error| named("open", &path, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(rights & 0o666 | OWN_RIGHTS);
        let file = options.open(&path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        // Advice that is not taken makes nothing wrong.
        let _ = fadvise(&file, 0, None, Advice::Random);
        Ok(TicksFile { path, file, length: metadata.len(), is_unsynced: true })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Its first `most` bytes, or all if there are fewer.
    pub fn start(&self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut start = FromStart { file: &self.file, at: 0 }.take(most as u64);
        start.read_to_end(&mut bytes).map_err(|error| named("read", &self.path, error))?;
        Ok(bytes)
    }

    /// All of it.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        self.start(usize::MAX)
    }

    /// Whether nothing but zeros is in it: it was made, and perhaps made larger, but never used.
    pub fn is_blank(&self) -> io::Result<bool> {
        let mut reader = FromStart { file: &self.file, at: 0 };
        let mut buffer = vec![0; STEP as usize];
        loop {
            let count = reader.read(&mut buffer).map_err(|error| named("read", &self.path, error))?;
            if count == 0 || buffer[..count].iter().any(|byte| *byte != 0) {
                return Ok(count == 0);
            }
        }
    }

    /// Writes `bytes` at `at`. After an error a part of them may be there; what is before `at` is as it was.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.make_room(at + bytes.len() as u64).map_err(|error| named("make room in", &self.path, error))?;
        self.is_unsynced = true;
        self.file.write_all_at(bytes, at).map_err(|error| named("write to", &self.path, error))
    }

    /// Has the file reach to `end` at least. A disk that has room for this, but not for a whole step, is enough.
    fn make_room(&mut self, end: u64) -> io::Result<()> {
        if end <= self.length {
            return Ok(());
        }
        let written = self.write_zeros(self.length..end.next_multiple_of(STEP));
        self.length = self.file.metadata()?.len();
        if end <= self.length { Ok(()) } else { written }
    }

    /// Linux counts and holds what was written in one go as one piece: a record would then make all of a step dirty, where
    /// it touches a page. So zeros are written by the page, and the file is not read ahead.
    fn write_zeros(&self, mut range: Range<u64>) -> io::Result<()> {
        while range.start < range.end {
            let page_end = (range.start + 1).next_multiple_of(PAGE).min(range.end);
            self.file.write_all_at(&[0; PAGE as usize][..(page_end - range.start) as usize], range.start)?;
            range.start = page_end;
        }
        Ok(())
    }

    /// Has everything written so far outlive a power cut. After an error the next call tries again, but Linux may have
    /// given up pages that it could not write, and not say so twice.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.is_unsynced {
            self.file.sync_data().map_err(|error| named("sync", &self.path, error))?;
            self.is_unsynced = false;
        }
        Ok(())
    }

    /// Renames the file and makes a new one in its place; gives the name it has now.
    pub fn set_aside(&mut self) -> io::Result<PathBuf> {
        let failed = |error| named("set aside", &self.path, error);
        let rights = self.file.metadata().map_err(failed)?.permissions().mode();
        let aside = free_name(&self.path, "damaged");
        std::fs::rename(&self.path, &aside).map_err(failed)?;
        *self = TicksFile::open_or_make(self.path.clone(), rights)?;
        Ok(aside)
    }

    /// Copies the file to a name that nothing has yet.
    pub fn copy_aside(&self) -> io::Result<PathBuf> {
        let aside = free_name(&self.path, "copy");
        std::fs::copy(&self.path, &aside).map_err(|error| named("copy", &self.path, error))?;
        Ok(aside)
    }

    /// Has the file itself outlive a power cut, not only what is in it: new files and new names are in its folder.
    pub fn sync_folder(&self) -> io::Result<()> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let synced = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        match synced {
            // Some network file systems have no such thing for a folder.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
            synced => synced.map_err(|error| named("sync the folder of", &self.path, error)),
        }
    }
}

/// Opening a named pipe would wait for who writes to it.
fn refuse_what_is_no_file(path: &Path) -> io::Result<()> {
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        let error = "expected a regular file, but found something else; move it away";
        return Err(named("open", path, io::Error::new(ErrorKind::InvalidInput, error)));
    }
    Ok(())
}

fn path_of(database: &Path, turn: usize) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(format!("-ticks{turn}"));
    path.into()
}

/// Reads a file from its start, wherever others left it.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// A name that nothing has yet: renaming would delete what has it.
fn free_name(path: &Path, what: &str) -> PathBuf {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut unix_ms = since.as_millis();
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{what}-{unix_ms}"));
        let name = PathBuf::from(name);
        if name.symlink_metadata().is_err() {
            return name;
        }
        unix_ms += 1;
    }
}

fn named(doing: &str, path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {doing} the journal {}: {error}", path.display()))
}
