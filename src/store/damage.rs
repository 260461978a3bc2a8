//! Our own database, damaged: it is found out when the program starts, set aside, and said; collecting begins anew.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::anyhow;
use jiff::Timestamp;
use sqlx::{ConnectOptions, Connection};

use super::Holds;
use super::database::{APPLICATION_ID, options};
use super::journal;
use super::paths::{beside, free_name, has_log};
use super::segment::Level;
use super::words::in_words;
use crate::units::{Prefix, bytes_text, count_text};

/// Stands at the start of every SQLite database.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Where SQLite keeps these numbers in the first page. Source: <https://sqlite.org/fileformat2.html>, section 1.3.
const PAGE_SIZE_AT: usize = 16;
const VERSIONS_AT: usize = 18;
const FRACTIONS_AT: usize = 21;
const PAGES_AT: u64 = 28;
const SCHEMA_FORMAT_AT: usize = 44;
const ENCODING_AT: usize = 56;
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;
/// SQLite's number for UTF-8.
const UTF_8: u32 = 1;
const NEWEST_SCHEMA_FORMAT: i32 = 4;
/// What stands before the first page's own content.
const HEADER: u64 = 100;
/// Numbers that are the same in every database.
const FRACTIONS: [u8; 3] = [64, 32, 32];
/// All pages of a database up to this size are looked at; of a larger one it would take too long.
const CHECKED_SIZE: u64 = 64 << 20;
/// What belongs to a database and goes with it.
const ENDINGS: [&str; 4] = ["", "-wal", "-shm", "-ticks"];

/// What is wrong with this file, if it is ours; `None` where nothing was found, or it is another's.
pub async fn of(path: &Path) -> Option<String> {
    if !is_ours(path) {
        return None;
    }
    let file = File::open(path).ok()?;
    if let Some(damage) = in_header(&file, has_log(path)).or_else(|| is_cut_short(&file, path)) {
        return Some(damage);
    }
    // Closing a file lets go of locks that SQLite holds on it, so it has to be closed before that.
    let length = file.metadata().ok()?.len();
    drop(file);
    match check(path, length <= CHECKED_SIZE).await {
        Ok(said) if said == "ok" => None,
        Ok(said) => Some(said.lines().find(|line| !line.starts_with("***")).unwrap_or_default().to_string()),
        Err(sqlx::Error::Database(error)) if is_damage(&*error) => Some(error.message().to_string()),
        Err(_) => None,
    }
}

/// By its number, or by our journal beside it.
fn is_ours(path: &Path) -> bool {
    has_our_number(path) || path.metadata().is_ok_and(|file| file.len() > 0) && journal::lies_beside(path)
}

fn has_our_number(path: &Path) -> bool {
    let number = File::open(path).ok().and_then(|file| number(&file, APPLICATION_ID_AT as u64));
    number.map(i64::from) == Some(APPLICATION_ID)
}

/// What SQLite would not read or not write, and of which it does not say that it is damage.
fn in_header(file: &File, has_log: bool) -> Option<String> {
    let (mut header, length) = ([0; HEADER as usize], file.metadata().ok()?.len());
    if length < HEADER {
        return Some(format!("expected {HEADER} bytes and more, but found {length}"));
    }
    file.read_exact_at(&mut header, 0).ok()?;
    let is_sound = header.starts_with(MAGIC)
        && page_size(&header).is_some()
        // The log may have what is not in the file yet.
        && (has_log || i64::from(big_endian(&header, APPLICATION_ID_AT)) == APPLICATION_ID)
        && (has_log || big_endian(&header, USER_VERSION_AT) <= Holds::ARecording as u32)
        && (has_log || big_endian(&header, ENCODING_AT) == UTF_8)
        && header[VERSIONS_AT..][..2].iter().all(|version| (1..=2).contains(version))
        && header[FRACTIONS_AT..].starts_with(&FRACTIONS)
        && big_endian(&header, SCHEMA_FORMAT_AT).cast_signed() <= NEWEST_SCHEMA_FORMAT;
    (!is_sound).then(|| "its header is not one of cowbell's".to_string())
}

/// `None` where it is none. 1 stands for 65,536.
fn page_size(header: &[u8; HEADER as usize]) -> Option<u64> {
    match u16::from_be_bytes([header[PAGE_SIZE_AT], header[PAGE_SIZE_AT + 1]]) {
        1 => Some(65_536),
        size => (size >= 512 && size.is_power_of_two()).then_some(size.into()),
    }
}

fn big_endian(header: &[u8; HEADER as usize], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// A file with fewer pages than its header says. One whose last pages are still in the log is whole.
fn is_cut_short(file: &File, path: &Path) -> Option<String> {
    if has_log(path) {
        return None;
    }
    let mut header = [0; HEADER as usize];
    file.read_exact_at(&mut header, 0).ok()?;
    let expected = u64::from(number(file, PAGES_AT)?) * page_size(&header)?;
    let found = file.metadata().ok()?.len();
    (found < expected).then(|| format!("expected {expected} bytes, but found {found}"))
}

fn number(file: &File, at: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(u32::from_be_bytes(bytes))
}

/// A log of another program's database makes that of ours, as SQLite reads it: it is renamed before it does. Gives a
/// sentence.
pub async fn set_foreign_log_aside(path: &Path) -> anyhow::Result<Option<String>> {
    if !has_log(path)
        || !has_our_number(path)
        || application_id(path).await.is_none_or(|id| id == APPLICATION_ID)
    {
        return Ok(None);
    }
    let (log, aside) = (beside(path, "-wal"), free_name(&beside(path, "-wal"), "damaged"));
    std::fs::rename(&log, &aside)?;
    // Made anew of the log that is there.
    let _ = std::fs::remove_file(beside(path, "-shm"));
    let note = format!(
        "the log {} is of another database, and not used; it is now {}",
        log.display(),
        aside.display()
    );
    tracing::error!("{note}");
    Ok(Some(note))
}

/// As SQLite reads it, with what is in the log.
async fn application_id(path: &Path) -> Option<i64> {
    let mut connection = options(path).read_only(true).connect().await.ok()?;
    let id = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut connection).await.ok();
    connection.close().await.ok()?;
    id
}

async fn check(path: &Path, all: bool) -> sqlx::Result<String> {
    // What is in a log that is damaged is not to be written into what is not. A file to roll back from has to be.
    let to_roll_back = beside(path, "-journal").exists();
    let mut connection = options(path).read_only(!to_roll_back).connect().await?;
    let said = match all {
        true => sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(&mut connection).await?,
        false => {
            sqlx::query("SELECT * FROM sqlite_schema").fetch_all(&mut connection).await?;
            "ok".to_string()
        }
    };
    connection.close().await?;
    Ok(said)
}

/// What SQLite said of damage of our own database, if this error comes from that.
pub fn said_by(path: &Path, error: &anyhow::Error) -> Option<String> {
    said(error).filter(|_| is_ours(path))
}

/// Says what to do besides, where that is what an error comes from: for whoever is not to set anything aside.
pub fn with_way_out(path: &Path, error: anyhow::Error) -> anyhow::Error {
    if said_by(path, &error).is_none() {
        return error;
    }
    anyhow!("{}; see by `cowbell db verify` what can be read, and {}", in_words(&error), begin_anew(path))
}

/// The same of a database of which so much is damaged that nothing can be read, by `cowbell db verify` neither.
pub fn unreadable(path: &Path, error: anyhow::Error) -> anyhow::Error {
    if said_by(path, &error).is_none() {
        return error;
    }
    anyhow!("{}; nothing in it can be read: {}", in_words(&error), begin_anew(path))
}

fn begin_anew(path: &Path) -> &'static str {
    let is_looked_at = path.metadata().is_ok_and(|file| file.len() <= CHECKED_SIZE);
    match is_looked_at {
        true => "restart the service, which sets it aside and begins anew",
        false => "stop the service and move it away, to begin anew",
    }
}

/// A file that is damaged and not known to be ours is left to whoever looks after it.
pub fn left_alone(path: &Path, error: anyhow::Error) -> anyhow::Error {
    match said(&error) {
        Some(_) if !is_ours(path) => error.context(
            "it is damaged, and nothing in it says that it is cowbell's; move it away, or name another file with --db",
        ),
        _ => error,
    }
}

fn said(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| match cause.downcast_ref::<sqlx::Error>()? {
        sqlx::Error::Database(error) if is_damage(&**error) => Some(error.message().to_string()),
        _ => None,
    })
}

/// SQLite's own words for it: 11 is "malformed", 26 "file is not a database"; the rest of a code says more.
fn is_damage(error: &dyn sqlx::error::DatabaseError) -> bool {
    let code = error.code().and_then(|code| code.parse::<i64>().ok()).unwrap_or_default();
    matches!(code & 0xff, 11 | 26)
}

/// Renames the database and what belongs to it; gives a sentence of what is lost, and where it is now.
pub async fn set_aside(path: &Path, damage: &str) -> anyhow::Result<String> {
    let held = held(path).await.unwrap_or_else(|| "nobody can tell what it held".into());
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
        bytes_text(size as f64, Prefix::default()),
    );
    tracing::error!("{note}");
    Ok(note)
}

/// What can still be read of how much is lost.
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
    Some(format!("it held {} from {from:.0} to {to:.0}", count_text(ticks?, "tick", "ticks")))
}
