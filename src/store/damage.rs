//! Our own database, damaged: it is found out when the program starts, set aside, and said; collecting begins anew.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use sqlx::{ConnectOptions, Connection};

use super::open::{APPLICATION_ID, options};
use super::place::{beside, has_log};
use super::segment::Level;
use crate::units::{Prefix, bytes_text};

/// Where SQLite keeps these numbers in the first page. Source: <https://sqlite.org/fileformat2.html>, section 1.3.
const PAGE_SIZE_AT: u64 = 16;
const PAGES_AT: u64 = 28;
const APPLICATION_ID_AT: u64 = 68;
/// All pages of a database up to this size are looked at; of a larger one it would take too long.
const CHECKED_SIZE: u64 = 64 << 20;
/// What belongs to a database and goes with it.
const ENDINGS: [&str; 5] = ["", "-wal", "-shm", "-ticks0", "-ticks1"];

/// What is wrong with this file, if it is ours; `None` where nothing was found, or it is another's.
pub async fn of(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    if number(&file, APPLICATION_ID_AT)? != u32::try_from(APPLICATION_ID).ok()? {
        return None;
    }
    if let Some(missing) = is_cut_short(&file, path) {
        return Some(missing);
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

/// A file with fewer pages than its header says. One whose last pages are still in the log is whole.
fn is_cut_short(file: &File, path: &Path) -> Option<String> {
    if has_log(path) {
        return None;
    }
    let mut page_size = [0; 2];
    file.read_exact_at(&mut page_size, PAGE_SIZE_AT).ok()?;
    // 1 stands for 65,536.
    let page_size = match u16::from_be_bytes(page_size) {
        1 => 65_536,
        size => u64::from(size),
    };
    let (expected, found) = (u64::from(number(file, PAGES_AT)?) * page_size, file.metadata().ok()?.len());
    (found < expected).then(|| format!("expected {expected} bytes, but found {found}"))
}

fn number(file: &File, at: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(u32::from_be_bytes(bytes))
}

async fn check(path: &Path, all: bool) -> sqlx::Result<String> {
    let mut connection = options(path).connect().await?;
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

/// What SQLite said of damage, if this error comes from that.
pub fn said_by(error: &anyhow::Error) -> Option<String> {
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
    let aside = free_name(path);
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
    Some(format!("it held {} ticks from {from:.0} to {to:.0}", ticks?))
}

/// A name that nothing has yet: renaming would delete what has it.
fn free_name(path: &Path) -> PathBuf {
    let mut unix_ms = Timestamp::now().as_millisecond();
    loop {
        let name = beside(path, &format!(".damaged-{unix_ms}"));
        if name.symlink_metadata().is_err() {
            return name;
        }
        unix_ms += 1;
    }
}
