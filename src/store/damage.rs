//! Detects damage of cowbell's own database, at the start or while writing, and moves the database aside.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::anyhow;
use jiff::Timestamp;
use sqlx::{ConnectOptions, Connection};

use super::TickOrigin;
use super::journal;
use super::paths::{APPLICATION_ID, beside, free_name, has_log, options};
use super::segment::Level;
use super::words::{in_words, of_sqlite};
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
/// SQLite's primary codes of a malformed file, and of a file that is not a database.
const DAMAGE: [i32; 2] = [11, 26];
/// Endings of the database's files.
const ENDINGS: [&str; 4] = ["", "-wal", "-shm", "-ticks"];

/// What is damaged in our database at `path`; `None` if nothing was found or the file is not ours.
pub async fn of(path: &Path) -> Option<String> {
    if !is_ours(path) {
        return None;
    }
    // Closing a file releases SQLite's locks on it, so this comes before SQLite opens it.
    if header(path).is_some_and(|header| !is_sound(&header, has_log(path))) {
        return Some("its header is not one of cowbell's".to_string());
    }
    let is_small = path.metadata().ok()?.len() <= CHECKED_SIZE;
    match check(path, is_small).await {
        Ok(said) if said == "ok" => None,
        Ok(said) => Some(
            said.lines()
                .find(|line| !line.starts_with("***"))
                .unwrap_or_default()
                .to_string(),
        ),
        Err(error) => said(&error.into()),
    }
}

/// By its number, or by our journal beside it.
fn is_ours(path: &Path) -> bool {
    has_our_number(path)
        || path.metadata().is_ok_and(|file| file.len() > 0) && journal::lies_beside(path)
}

fn has_our_number(path: &Path) -> bool {
    header(path)
        .is_some_and(|header| i64::from(number(&header, APPLICATION_ID_AT)) == APPLICATION_ID)
}

/// `None` if the file is shorter.
fn header(path: &Path) -> Option<[u8; HEADER]> {
    let mut header = [0; HEADER];
    File::open(path).ok()?.read_exact_at(&mut header, 0).ok()?;
    Some(header)
}

/// Checks the numbers that SQLite does not report as damage when they are wrong.
fn is_sound(header: &[u8; HEADER], has_log: bool) -> bool {
    let is_readable = header[VERSIONS_AT..][..2]
        .iter()
        .all(|version| (1..=2).contains(version))
        && number(header, SCHEMA_FORMAT_AT) <= NEWEST_SCHEMA_FORMAT;
    let is_ours = i64::from(number(header, APPLICATION_ID_AT)) == APPLICATION_ID
        && number(header, USER_VERSION_AT) <= TickOrigin::Recording as u32
        && number(header, ENCODING_AT) == UTF_8;
    // The log may have content that is not in the file yet.
    is_readable && (is_ours || has_log)
}

fn number(header: &[u8; HEADER], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// Renames the log of another database before SQLite reads it as ours. Returns a sentence if it did.
pub async fn set_foreign_log_aside(path: &Path) -> anyhow::Result<Option<String>> {
    if !has_log(path)
        || !has_our_number(path)
        || application_id(path)
            .await
            .is_none_or(|id| id == APPLICATION_ID)
    {
        return Ok(None);
    }
    let (log, aside) = (
        beside(path, "-wal"),
        free_name(&beside(path, "-wal"), "damaged"),
    );
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

async fn check(path: &Path, all: bool) -> sqlx::Result<String> {
    // A rollback journal must be applied to the database. A damaged log must not.
    let to_roll_back = beside(path, "-journal").exists();
    let mut connection = options(path).read_only(!to_roll_back).connect().await?;
    let said = match all {
        true => {
            sqlx::query_scalar("PRAGMA quick_check(1)")
                .fetch_one(&mut connection)
                .await?
        }
        false => {
            sqlx::query("SELECT * FROM sqlite_schema")
                .fetch_all(&mut connection)
                .await?;
            "ok".to_string()
        }
    };
    connection.close().await?;
    Ok(said)
}

/// SQLite's message, if the error comes from damage of our own database.
pub fn said_by(path: &Path, error: &anyhow::Error) -> Option<String> {
    said(error).filter(|_| is_ours(path))
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
    match said(&error) {
        Some(_) if !is_ours(path) => error.context(
            "it is damaged, and nothing in it says that it is cowbell's; move it away, or name another file with --db",
        ),
        _ => error,
    }
}

fn said(error: &anyhow::Error) -> Option<String> {
    let (code, message) = of_sqlite(error)?;
    DAMAGE.contains(&code).then(|| message.to_string())
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
            Err(error) if ending.is_empty() || error.kind() != std::io::ErrorKind::NotFound => {
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
    let (_, end) = Level::Ticks.keys();
    let (ticks, from_ms, to_ms): (Option<i64>, Option<i64>, Option<i64>) =
        sqlx::query_as("SELECT sum(rows), min(from_ms), max(to_ms) FROM segment WHERE id < ?")
            .bind(end)
            .fetch_one(&mut connection)
            .await
            .ok()?;
    let at = |ms: Option<i64>| Timestamp::from_millisecond(ms?).ok();
    let (from, to) = (at(from_ms)?, at(to_ms)?);
    Some(format!(
        "it held {} from {from:.0} to {to:.0}",
        count_text(ticks?, "tick", "ticks")
    ))
}
