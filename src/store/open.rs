//! Opening the database: only our own, never a newer one, and nothing is touched that is refused.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteAutoVacuum, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};

static MIGRATIONS: Migrator = sqlx::migrate!();

/// The first bytes of every SQLite database.
const HEADER: &[u8; 16] = b"SQLite format 3\0";
/// Where the header holds the application's own number, and which one is ours.
const APPLICATION_ID: (std::ops::Range<usize>, u32) = (68..72, 1_131_378_498);
/// Pages and API read beside the writer, two at a time: the machine has other things to do.
const READERS: u32 = 2;
/// A reader waits this long while the writer commits.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// KiB of pages that a connection keeps in memory; a negative number to SQLite.
const CACHE_KIB: u32 = 512;

/// Where the database is: as named, else in systemd's state directory, else in the user's.
pub fn path(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(named) = named {
        return Ok(named.to_path_buf());
    }
    let folder = state_directory().context("cannot tell where to keep the database: name it with --db")?;
    std::fs::create_dir_all(&folder).with_context(|| {
        format!("cannot make the state directory {}; name a database elsewhere with --db", folder.display())
    })?;
    Ok(folder.join("cowbell.db"))
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

/// A folder for a database that nobody needs when the program has ended.
pub fn passing_folder() -> anyhow::Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix("cowbell-")
        .tempdir()
        .context("cannot make a folder for a passing database")
}

/// The one connection that writes.
pub async fn for_writing(path: &Path) -> anyhow::Result<SqliteConnection> {
    let named = || format!("cannot use the database {}", path.display());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        bail!(
            "{}: there is no folder {}; make it, or name a database elsewhere with --db",
            named(),
            folder.display()
        );
    }
    refuse_foreign(path).with_context(named)?;
    let options = options(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .auto_vacuum(SqliteAutoVacuum::Incremental);
    let mut connection = options.connect().await.with_context(named)?;
    match MIGRATIONS.run(&mut connection).await {
        Ok(()) => Ok(connection),
        Err(MigrateError::VersionMissing(version)) => bail!(
            "cannot use the database {}: it is of a newer cowbell (its migration {version} is not known here); \
             install that one, or name another with --db",
            path.display()
        ),
        Err(error) => Err(error).with_context(named),
    }
}

/// Connections that only read; each is opened when it is first needed.
pub fn for_reading(path: &Path) -> SqlitePool {
    SqlitePoolOptions::new()
        .max_connections(READERS)
        .min_connections(0)
        .idle_timeout(Duration::from_secs(60))
        .connect_lazy_with(options(path).read_only(true))
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_LIMIT)
        .pragma("cache_size", format!("-{CACHE_KIB}"))
        .disable_statement_logging()
}

/// A file that is no database of ours is left alone.
fn refuse_foreign(path: &Path) -> anyhow::Result<()> {
    let mut start = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(100).read_to_end(&mut start)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let (place, id) = APPLICATION_ID;
    match start.get(place) {
        None if start.is_empty() => Ok(()),
        _ if !start.starts_with(HEADER) => bail!("it is no SQLite database; name another file with --db"),
        Some(found) if found == id.to_be_bytes() || found == [0; 4] => Ok(()),
        _ => bail!("it is another program's SQLite database; name another file with --db"),
    }
}

/// A database that is there is opened as the daemon would; where there is none, a file is made beside and removed.
pub async fn try_out(path: &Path) -> anyhow::Result<()> {
    if path.exists() {
        for_writing(path).await?.close().await?;
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = tempfile::Builder::new().prefix(".cowbell-").tempfile_in(folder);
    made.map(drop)
        .with_context(|| format!("cannot write in {}; name a database elsewhere with --db", folder.display()))
}
