//! Tells damage of cowbell's own database from a read that failed, and moves a damaged database aside.
//!
//! SQLite reports a failed read as damage: EIO becomes "malformed", or a row of `quick_check`. So its word is never
//! enough. The file is damaged only if it could be read completely, and its content is wrong, twice. A small one is checked
//! in memory, where no read can fail.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, anyhow};
use jiff::Timestamp;
use sqlx::sqlite::{SqliteConnectOptions, SqliteOwnedBuf};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use super::TickOrigin;
use super::address::Level;
use super::paths::{APPLICATION_ID, beside, free_name, has_log, options};
use super::stored::{stretches, times_of};
use super::wal::with_log;
use super::words::{in_words, is_malformed, of_sqlite};
use crate::units::{bytes_text, count_text};

/// Positions of these numbers in SQLite's first page. Source: <https://sqlite.org/fileformat2.html>, section 1.3.
const VERSIONS_AT: usize = 18;
const SCHEMA_FORMAT_AT: usize = 44;
const ENCODING_AT: usize = 56;
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;
/// SQLite's number for UTF-8.
const UTF_8: u32 = 1;
const NEWEST_SCHEMA_FORMAT: u32 = 4;
/// Bytes of the header.
const HEADER: usize = 100;
/// Maximum size of a database whose pages are all checked at the start. A larger one would take too long.
const CHECKED_SIZE: u64 = 64 << 20;
/// A complete read is made of many, so that a disk that fails now and then is noticed.
const BLOCK: usize = 64 << 10;
/// Text of the schema, which is in the first pages. It shows that a database is ours even if its header is damaged.
const OUR_SCHEMA: &[u8] = b"CREATE TABLE ten_minute (";
const SCHEMA_WITHIN: usize = 64 << 10;
/// In a row of `quick_check`: a page could not be read.
const FAILED_READ: &str = "unable to get the page";
/// Endings of the database's files.
const ENDINGS: [&str; 3] = ["", "-wal", "-shm"];
/// What is wrong with a header.
const WRONG_HEADER: &str = "its header is not one of cowbell's";

/// What is damaged in our database at `path`; `None` if nothing was found or the file is not ours. An error if it cannot be
/// read now.
///
/// All pages are checked if the database is small, or if damage is suspected. `file` is the open database. It is read through
/// this descriptor, since closing another one would release SQLite's locks.
pub async fn of(path: &Path, file: &File, is_suspect: bool) -> anyhow::Result<Option<String>> {
    if !is_ours(file) {
        return Ok(None);
    }
    let is_small = file.metadata()?.len() <= CHECKED_SIZE;
    let has_sound_header = header(file).is_none_or(|header| is_sound(&header, has_log(path)));
    let first = if has_sound_header {
        check(path, is_small || is_suspect).await
    } else {
        Some(WRONG_HEADER.into())
    };
    let Some(mut damage) = first else {
        return Ok(None);
    };
    for _ in 0..2 {
        let again = check_content(path, file, is_small).await?;
        match again {
            Some(again) => damage = again,
            None => return Ok(None),
        }
    }
    Ok(Some(damage))
}

/// Reads the whole database, and returns what is wrong with its content. An error if a read fails.
async fn check_content(path: &Path, file: &File, is_small: bool) -> anyhow::Result<Option<String>> {
    let content = content(file, is_small)
        .with_context(|| format!("cannot read all of {}", path.display()))?;
    let log = match std::fs::read(beside(path, "-wal")) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        log => log.with_context(|| format!("cannot read the log of {}", path.display()))?,
    };
    let header = content.first_chunk::<HEADER>();
    if header.is_some_and(|header| !is_sound(header, !log.is_empty())) {
        return Ok(Some(WRONG_HEADER.into()));
    }
    if !is_small {
        // All could be read just now, so a page that cannot be read is the next attempt's matter.
        let damage = check(path, true).await;
        return match damage {
            Some(damage) if damage.contains(FAILED_READ) => Err(anyhow!(damage)),
            damage => Ok(damage),
        };
    }
    let content = SqliteOwnedBuf::try_from(with_log(content, &log).as_slice())?;
    let mut connection = SqliteConnectOptions::new()
        .in_memory(true)
        .connect()
        .await?;
    let checked = match connection.deserialize(None, content, true).await {
        Ok(()) => quick_check(&mut connection).await,
        Err(error) => Err(error),
    };
    Ok(match checked {
        Ok(said) => finding(&said),
        Err(error) => said(&error.into()),
    })
}

/// The bytes of a file. Those of a large one are read, but only the first block of them is returned.
fn content(file: &File, is_small: bool) -> std::io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    let (mut content, mut block, mut at) = (Vec::new(), vec![0; BLOCK], 0);
    while at < length {
        let count = file.read_at(&mut block, at)?;
        if count == 0 {
            break;
        }
        if is_small || at == 0 {
            content.extend_from_slice(&block[..count]);
        }
        at += count as u64;
    }
    Ok(content)
}

/// By its number, or by its schema.
fn is_ours(file: &File) -> bool {
    if header(file).is_some_and(|header| has_our_number(&header)) {
        return true;
    }
    let mut start = vec![0; SCHEMA_WITHIN];
    let count = file.read_at(&mut start, 0).unwrap_or_default();
    let mut windows = start[..count].windows(OUR_SCHEMA.len());
    windows.any(|window| window == OUR_SCHEMA)
}

fn has_our_number(header: &[u8; HEADER]) -> bool {
    i64::from(number(header, APPLICATION_ID_AT)) == APPLICATION_ID
}

/// `None` if the file is shorter.
fn header(file: &File) -> Option<[u8; HEADER]> {
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).ok()?;
    Some(header)
}

/// Checks the numbers that SQLite does not report as damage when they are wrong.
fn is_sound(header: &[u8; HEADER], has_log: bool) -> bool {
    let is_readable = header[VERSIONS_AT..][..2]
        .iter()
        .all(|version| (1..=2).contains(version))
        && number(header, SCHEMA_FORMAT_AT) <= NEWEST_SCHEMA_FORMAT;
    let is_ours = has_our_number(header)
        && number(header, USER_VERSION_AT) <= TickOrigin::Recording as u32
        && number(header, ENCODING_AT) == UTF_8;
    // The log may have content that is not in the file yet.
    is_readable && (is_ours || has_log)
}

fn number(header: &[u8; HEADER], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// Renames the log of another database before SQLite reads it as ours. Returns a sentence if it did.
pub async fn set_foreign_log_aside(path: &Path, file: &File) -> anyhow::Result<Option<String>> {
    if !has_log(path)
        || !header(file).is_some_and(|header| has_our_number(&header))
        || application_id(path)
            .await
            .is_none_or(|id| id == APPLICATION_ID)
    {
        return Ok(None);
    }
    let log = beside(path, "-wal");
    let aside = free_name(&beside(path, "-wal"), "damaged");
    std::fs::rename(&log, &aside)?;
    // SQLite makes it again.
    let _ = std::fs::remove_file(beside(path, "-shm"));
    let note = format!(
        "the log {} is of another database, and not used; it is now {}",
        log.display(),
        aside.display()
    );
    tracing::error!("{note}");
    Ok(Some(note))
}

/// As SQLite reads it, including the log.
async fn application_id(path: &Path) -> Option<i64> {
    let mut connection = options(path).read_only(true).connect().await.ok()?;
    let id = sqlx::query_scalar("PRAGMA application_id")
        .fetch_one(&mut connection)
        .await
        .ok();
    connection.close().await.ok()?;
    id
}

/// What SQLite says is damaged in the file.
pub async fn check(path: &Path, all: bool) -> Option<String> {
    match try_check(path, all).await {
        Ok(said) => finding(&said),
        Err(error) => said(&error.into()),
    }
}

async fn try_check(path: &Path, all: bool) -> sqlx::Result<String> {
    // A rollback journal must be applied to the database. A damaged log must not.
    let to_roll_back = beside(path, "-journal").exists();
    let mut connection = options(path).read_only(!to_roll_back).connect().await?;
    let said = if all {
        quick_check(&mut connection).await?
    } else {
        sqlx::query("SELECT * FROM sqlite_schema")
            .fetch_all(&mut connection)
            .await?;
        "ok".into()
    };
    connection.close().await?;
    Ok(said)
}

async fn quick_check(connection: &mut SqliteConnection) -> sqlx::Result<String> {
    sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_one(connection)
        .await
}

/// The finding in an answer of `quick_check`.
fn finding(said: &str) -> Option<String> {
    let finding = said.lines().find(|line| !line.starts_with("***"));
    finding.filter(|finding| *finding != "ok").map(String::from)
}

/// SQLite's message, if the error may come from damage of our own database.
pub fn said_by(path: &Path, error: &anyhow::Error) -> Option<String> {
    said(error).filter(|_| File::open(path).is_ok_and(|file| is_ours(&file)))
}

/// Adds the remedy to an error that comes from damage of our own database.
pub fn with_way_out(path: &Path, error: anyhow::Error) -> anyhow::Error {
    match said_by(path, &error) {
        None => error,
        Some(_) => anyhow!(
            "{}; a restart of the service sets the database aside and begins a new one",
            in_words(&error)
        ),
    }
}

/// Explains why a damaged file that may not be ours is left alone.
pub fn left_alone(path: &Path, error: anyhow::Error) -> anyhow::Error {
    if said(&error).is_none() || said_by(path, &error).is_some() {
        return error;
    }
    error.context(
        "it is damaged, and nothing in it says that it is cowbell's; move it away, or name another file with --db",
    )
}

fn said(error: &anyhow::Error) -> Option<String> {
    let (_, message) = of_sqlite(error).filter(|_| is_malformed(error))?;
    Some(message.to_string())
}

/// Renames the database and its other files. Returns a sentence on what is lost and where it is now.
pub async fn set_aside(path: &Path, damage: &str) -> anyhow::Result<String> {
    let held = held(path)
        .await
        .unwrap_or_else(|| "its content cannot be read".into());
    let size = path.metadata().map_or(0, |metadata| metadata.len());
    let aside = free_name(path, "damaged");
    for ending in ENDINGS {
        match std::fs::rename(beside(path, ending), beside(&aside, ending)) {
            Err(error) if ending.is_empty() || error.kind() != ErrorKind::NotFound => {
                return Err(error.into());
            }
            _ => {}
        }
    }
    let note = format!(
        "the database {} was damaged ({damage}): {held}; it is now {} ({}), and collecting began anew",
        path.display(),
        aside.display(),
        bytes_text(size as f64),
    );
    tracing::error!("{note}");
    Ok(note)
}

/// How much is lost, if that can still be read.
async fn held(path: &Path) -> Option<String> {
    let mut connection = options(path).read_only(true).connect().await.ok()?;
    let ticks: i64 = sqlx::query_scalar("SELECT count(*) FROM tick")
        .fetch_one(&mut connection)
        .await
        .ok()?;
    let stretches = stretches(&mut connection).await.ok()?;
    let (from_ms, to_ms) = times_of(&stretches, Level::Ticks)?;
    let at = |ms: i64| Timestamp::from_millisecond(ms).ok();
    let from = at(from_ms)?;
    let to = at(to_ms)?;
    Some(format!(
        "it held {} from {from:.0} to {to:.0}",
        count_text(ticks, "tick", "ticks")
    ))
}
