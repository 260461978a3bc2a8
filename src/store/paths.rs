//! Where the database is, which files lie there, the lock against a second cowbell, and how SQLite opens it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use jiff::Timestamp;
use rustix::fs::{Access, FlockOperation};
use rustix::io::Errno;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

/// SQLite's `application_id` of our databases; the first migration writes it.
pub const APPLICATION_ID: i64 = 1_131_378_498;
/// A reader waits this long while the writer commits.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// KiB of pages that a connection keeps in memory; a negative number to SQLite.
const CACHE_KIB: u32 = 512;

/// Rows that wait between SQLite's thread and the reader. With few, the two would wake one another all the time.
const ROW_BUFFER: usize = 1_000;

/// The database of the packages' service.
const SERVICE: &str = "/var/lib/cowbell/cowbell.db";

/// The first bytes of every SQLite database.
const HEADER: &[u8; 16] = b"SQLite format 3\0";
/// Bytes that a creation that failed half-way may have left empty.
const FIRST_PAGE: u64 = 8 << 10;
/// A cowbell that is ending, or a child process that it was starting, may hold the lock this long.
const LOCK_LIMIT: Duration = Duration::from_millis(500);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The path of the database: as named, else in systemd's state directory, else in the user's.
pub fn path(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        // SQLite's log is beside the database itself, whatever links lead to it.
        return Ok(named.canonicalize().unwrap_or_else(|_| named.to_path_buf()));
    }
    let folder =
        state_directory().context("cannot tell where to keep the database: name it with --db")?;
    Ok(folder.join("cowbell.db"))
}

/// The database to read: as [`path`] says, or else the service's, if only that exists.
pub fn existing_path(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let usual = path(named);
    let is_missing = usual.as_ref().map_or(true, |path| !path.exists());
    let service = Path::new(SERVICE);
    // Others than root and its user cannot look into its folder.
    if named.is_none() && is_missing && service.try_exists().unwrap_or(true) {
        Ok(service.into())
    } else {
        usual
    }
}

/// Whether this is the default path. Only the default directory is created if it is missing.
pub fn is_default(database: &Path) -> bool {
    path(None).is_ok_and(|path| path == database)
}

fn state_directory() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folders) = set("STATE_DIRECTORY") {
        return std::env::split_paths(&folders).next();
    }
    let state = set("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")))?;
    Some(state.join("cowbell"))
}

/// A directory for a temporary database.
pub fn passing_folder() -> anyhow::Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("cowbell-")
        .tempdir()
        .context("cannot make a temporary directory for the database")
}

/// Another cowbell has the database.
#[derive(Debug, thiserror::Error)]
#[error("{0}: another cowbell writes to it; end that one, or name another file with --db")]
pub struct InUse(String);

/// Locks the database against a second cowbell while the file is open. Creates the file if it is missing. SQLite's own
/// locks are of another kind.
pub fn lock(path: &Path) -> anyhow::Result<File> {
    let named = || cannot_use(path);
    has_folder(path).with_context(named)?;
    refuse_what_is_no_file(path).with_context(named)?;
    let opened = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // It shows the server's activity, so only its owner may read it.
            File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)
        }
        opened => opened,
    };
    let file = opened.with_context(named)?;
    let began = Instant::now();
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if began.elapsed() < LOCK_LIMIT => {
                std::thread::sleep(LOCK_PAUSE)
            }
            Err(Errno::WOULDBLOCK) => return Err(InUse(named()).into()),
            Err(error) => return Err(error).with_context(named),
        }
    }
}

pub fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_LIMIT)
        .row_buffer_size(ROW_BUFFER)
        .pragma("cache_size", format!("-{CACHE_KIB}"))
        .disable_statement_logging()
}

/// The database's file with this ending.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Whether SQLite's log has content.
pub fn has_log(path: &Path) -> bool {
    beside(path, "-wal")
        .metadata()
        .is_ok_and(|log| log.len() > 0)
}

/// Whether the file has content. An error if it is not SQLite's. A first page of zeros is of a creation that failed
/// half-way: it is no content.
pub fn has_content(path: &Path) -> anyhow::Result<bool> {
    refuse_what_is_no_file(path)?;
    let mut start = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(FIRST_PAGE).read_to_end(&mut start)?,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let is_empty = start.iter().all(|byte| *byte == 0);
    if !is_empty && !start.starts_with(HEADER) {
        bail!("it is no SQLite database; name another file with --db");
    }
    Ok(!is_empty)
}

/// Refuses pipes, devices and the like: opening them may block or have an effect.
fn refuse_what_is_no_file(path: &Path) -> anyhow::Result<()> {
    // A missing file will be created; opening it shows any other error.
    let Ok(kind) = path.metadata().map(|metadata| metadata.file_type()) else {
        return Ok(());
    };
    let found = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a named pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    bail!("expected a regular file, but found {found}; name a file with --db")
}

pub fn has_folder(path: &Path) -> anyhow::Result<()> {
    let folder = folder_of(path);
    if !folder.is_dir() {
        bail!(
            "there is no folder {}; make it, or name a database elsewhere with --db",
            folder.display()
        );
    }
    Ok(())
}

pub fn folder_of(path: &Path) -> &Path {
    path.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// The beginning of an error's sentence, with the reason if SQLite's own message is unclear.
pub fn cannot_use(path: &Path) -> String {
    let reason = hindrance(path);
    format!("cannot use the database {}{reason}", path.display())
}

/// The reason for an unclear message of SQLite: a full disk, or no permission to write.
pub fn hindrance(path: &Path) -> &'static str {
    let folder = folder_of(path);
    // A file system without a disk, such as /proc, has no blocks.
    if rustix::fs::statvfs(folder).is_ok_and(|disk| disk.f_bavail == 0 && disk.f_blocks > 0) {
        return " (no room is left on its disk: make some, or name one elsewhere with --db)";
    }
    if folder.is_dir() && rustix::fs::access(folder, Access::WRITE_OK).is_err() {
        return " (this user may not write in its folder: use sudo, or name one elsewhere with --db)";
    }
    ""
}

/// An unused name beside `path`, since renaming would replace a file.
pub fn free_name(path: &Path, what: &str) -> PathBuf {
    let mut unix_ms = Timestamp::now().as_millisecond();
    loop {
        let name = beside(path, &format!(".{what}-{unix_ms}"));
        if name.symlink_metadata().is_err() {
            return name;
        }
        unix_ms += 1;
    }
}
