//! Backup, compaction and inventory of a database, also while a daemon writes.
//!
//! A backup is one file, a copy by `VACUUM INTO`.

use std::collections::BTreeSet;
use std::fs::{File, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use jiff::Timestamp;
use sqlx::{Connection, SqliteConnection};

use super::address::{Kind, Level, Stream};
use super::catalog::Catalog;
use super::damage::with_way_out;
use super::paths::beside;
use super::read_view::ReadView;
use super::record::Decoder;
use super::records::readable;
use super::scan::RangeScan;
use super::words::in_words;
use super::{database, paths};
use crate::alert::Alert;
use crate::job::Job;

/// Rights needed to write the copy, even if the database is read-only.
const OWN_RIGHTS: u32 = 0o600;

/// The content of a database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// End and length in microseconds of each tick, in the order of storing.
    pub ticks: Vec<(Timestamp, u64)>,
    /// Rows of a minute, and of ten minutes.
    pub minutes: usize,
    pub ten_minutes: usize,
    /// Size of the database's files.
    pub bytes: u64,
    /// A sentence for each thing that cannot be read.
    pub damage: Vec<String>,
    /// Streams that have rows.
    streams: BTreeSet<Stream>,
}

/// Copies the database at `path` into the empty `file`, and returns the inventory that is read back from the copy.
pub async fn backup(path: &Path, file: &Path) -> anyhow::Result<Inventory> {
    copy(path, file).await.map_err(|error| {
        // Files that SQLite may leave beside the copy when it fails.
        for ending in ["-wal", "-shm", "-journal"] {
            let _ = std::fs::remove_file(beside(file, ending));
        }
        with_way_out(path, error)
    })
}

async fn copy(path: &Path, file: &Path) -> anyhow::Result<Inventory> {
    let named = || {
        format!(
            "cannot copy the database {} to {}",
            path.display(),
            file.display()
        )
    };
    let mut view = ReadView::of(path).await?;
    sqlx::query("COMMIT")
        .execute(&mut view.connection)
        .await
        .with_context(named)?;
    give_rights(path, file).with_context(named)?;
    let target = file
        .to_str()
        .with_context(|| format!("the name {} is no text", file.display()))?;
    sqlx::query("VACUUM INTO ?")
        .bind(target)
        .execute(&mut view.connection)
        .await
        .with_context(named)?;
    view.close().await.with_context(named)?;
    File::open(file)
        .and_then(|file| file.sync_all())
        .with_context(named)?;
    inventory(file)
        .await
        .with_context(|| format!("the copy {} cannot be read back", file.display()))
}

/// Gives the new `file` no more permissions than the database at `path` has.
pub fn give_rights(path: &Path, file: &Path) -> anyhow::Result<()> {
    let mode = |path: &Path| anyhow::Ok(path.metadata()?.permissions().mode());
    let rights = mode(path)? & mode(file)? & 0o666 | OWN_RIGHTS;
    match std::fs::set_permissions(file, Permissions::from_mode(rights)) {
        // A file system without permissions, such as FAT.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        given => given.with_context(|| format!("cannot change who may read {}", file.display())),
    }
}

/// Compacts the database, which no daemon may use meanwhile. Returns its size in bytes before and after.
pub async fn compact(path: &Path) -> anyhow::Result<(u64, u64)> {
    let named = || format!("cannot compact the database {}", path.display());
    // A database that is not ours is left alone.
    ReadView::of(path).await?.close().await?;
    let _lock = paths::lock(path)?;
    let before = bytes(path);
    let mut connection = database::to_rewrite(path).await?;
    let rewritten = rewrite(&mut connection).await.with_context(named);
    // Closed even after a failure, which rolls back.
    let closed = connection.close().await.with_context(named);
    rewritten
        .and(closed)
        .map_err(|error| with_way_out(path, error))?;
    Ok((before, bytes(path)))
}

/// Puts a copy in the place of the database at `path`, which no daemon may use meanwhile, with its owner and permissions.
/// Returns where the database is that was there.
pub async fn restore(path: &Path, file: &Path) -> anyhow::Result<Option<PathBuf>> {
    let named = || {
        format!(
            "cannot restore the database {} from {}",
            path.display(),
            file.display()
        )
    };
    database::refuse_copy(file).await.with_context(named)?;
    let is_there = path.exists();
    // Makes the file if it is missing.
    let _lock = paths::lock(path)?;
    let new = paths::free_name(path, "restoring");
    let copied = copy_for(path, is_there, file, &new).await;
    let replaced = paths::free_name(path, "replaced");
    let exchanged = copied.and_then(|()| {
        for ending in ["-wal", "-shm"] {
            let (from, to) = (beside(path, ending), beside(&replaced, ending));
            if is_there && from.exists() {
                std::fs::rename(from, to)?;
            }
        }
        if is_there {
            std::fs::rename(path, &replaced)?;
        }
        std::fs::rename(&new, path)?;
        Ok(File::open(paths::folder_of(path))?.sync_all()?)
    });
    if exchanged.is_err() {
        let _ = std::fs::remove_file(&new);
        if !is_there {
            let _ = std::fs::remove_file(path);
        }
    }
    exchanged.with_context(named)?;
    Ok(is_there.then_some(replaced))
}

/// Copies `file` to `new`, as the owner of its folder, with the permissions of the database at `path`.
async fn copy_for(path: &Path, is_there: bool, file: &Path, new: &Path) -> anyhow::Result<()> {
    let target = new
        .to_str()
        .with_context(|| format!("the name {} is no text", new.display()))?;
    // A copy by SQLite has its log too. Root may read a file that the owner may not: it is opened before.
    let mut connection = database::to_look_at(file).await?;
    let (mut rights, mut owner) = (OWN_RIGHTS, paths::folder_of(path).metadata()?);
    become_owner(&owner)?;
    if is_there {
        let database = path.metadata()?;
        rights = database.permissions().mode();
        // In a folder of root's, the service's database has the service's user.
        if owner.uid() == 0 {
            owner = database;
        }
    }
    let copied = sqlx::query("VACUUM INTO ?")
        .bind(target)
        .execute(&mut connection)
        .await;
    let closed = connection.close().await;
    copied?;
    closed?;
    let copy = File::open(new)?;
    copy.set_permissions(Permissions::from_mode(rights & 0o777))?;
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::fchown(&copy, Some(owner.uid()), Some(owner.gid()))?;
    }
    Ok(copy.sync_all()?)
}

/// Root becomes the owner of a folder, for the rest of the command: that user could put links where files are to be written.
fn become_owner(folder: &Metadata) -> std::io::Result<()> {
    if !rustix::process::geteuid().is_root() || folder.uid() == 0 {
        return Ok(());
    }
    // SAFETY: the calls take no pointer that is used. glibc changes all threads.
    let failed = unsafe {
        libc::setgroups(0, std::ptr::null()) != 0
            || libc::setegid(folder.gid()) != 0
            || libc::seteuid(folder.uid()) != 0
    };
    if failed {
        return Err(std::io::Error::last_os_error());
    }
    Ok(())
}

async fn rewrite(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    sqlx::query("VACUUM").execute(&mut *connection).await?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(connection)
        .await?;
    Ok(())
}

/// Reads all content of the database.
pub async fn inventory(path: &Path) -> anyhow::Result<Inventory> {
    let mut view = ReadView::of(path).await?;
    let mut inventory = Inventory {
        bytes: bytes(path),
        ..Inventory::default()
    };
    match sqlx::query_scalar("PRAGMA integrity_check")
        .fetch_all(&mut view.connection)
        .await
    {
        Ok(check) => inventory
            .damage
            .extend(check.into_iter().filter(|line: &String| line != "ok")),
        Err(error) => inventory.damage.push(format!(
            "the database cannot be checked to its end: {}",
            in_words(&error.into())
        )),
    }
    match damaged_records(&mut view.connection).await {
        Ok(damaged) => inventory.damage.extend(damaged),
        Err(error) => {
            inventory.damage.push(format!(
                "jobs and alerts cannot be read: {}",
                in_words(&error)
            ));
        }
    }
    // An unreadable page ends the reading; earlier content still counts.
    for level in Level::ALL {
        if let Err(error) = inventory.add_rows(&mut view.connection, level).await {
            inventory.damage.push(format!(
                "the table {} cannot be read further: {}",
                level.table(),
                in_words(&error)
            ));
        }
    }
    add_unknown(&view.catalog, &mut inventory);
    Ok(inventory)
}

impl Inventory {
    /// Decodes all rows of a level. One that cannot be read is damage.
    async fn add_rows(
        &mut self,
        connection: &mut SqliteConnection,
        level: Level,
    ) -> anyhow::Result<()> {
        let mut decoder = Decoder::new(level);
        let mut scan = RangeScan::all(connection, level).await?;
        while let Some((_, rows)) = scan.next(connection).await? {
            for row in rows {
                let at = Timestamp::from_millisecond(row.position.at_ms)?;
                if let Err(damaged) = decoder.decode(row.position, &row.record) {
                    let what = level.row_text();
                    self.damage
                        .push(format!("the {what} up to {at} cannot be read: {damaged}"));
                    continue;
                }
                self.streams.extend(decoder.streams());
                match level {
                    Level::Ticks => self.ticks.push((at, decoder.elapsed_us())),
                    Level::Minutes => self.minutes += 1,
                    Level::TenMinutes => self.ten_minutes += 1,
                }
            }
        }
        for at_ms in scan.left_out_ms {
            let what = level.table();
            let at = Timestamp::from_millisecond(at_ms)?;
            self.damage.push(format!(
                "a page of the table {what} up to {at:.0} cannot be read"
            ));
        }
        Ok(())
    }
}

/// A sentence for each damaged row of a job or an alert.
async fn damaged_records(connection: &mut SqliteConnection) -> anyhow::Result<Vec<String>> {
    let jobs = sqlx::query("SELECT * FROM job_record")
        .fetch_all(&mut *connection)
        .await?;
    let alerts = sqlx::query("SELECT * FROM alert_record")
        .fetch_all(connection)
        .await?;
    Ok([readable::<Job>(&jobs).1, readable::<Alert>(&alerts).1].concat())
}

/// Devices and volumes without a row: their ticks cannot be found by name.
fn add_unknown(catalog: &Catalog, inventory: &mut Inventory) {
    let unknown = inventory
        .streams
        .iter()
        .filter_map(|stream| match stream.kind {
            Kind::Device | Kind::Copying if *stream != Stream::TOTAL => {
                (!catalog.device_rows.contains_key(&stream.row)).then_some(("device", stream.row))
            }
            Kind::Volume => {
                (!catalog.volume_rows.contains_key(&stream.row)).then_some(("volume", stream.row))
            }
            _ => None,
        });
    let unknown: BTreeSet<(&str, u32)> = unknown.collect();
    inventory.damage.extend(
        unknown
            .into_iter()
            .map(|(what, id)| format!("there are ticks of {what} {id}, whose row is missing")),
    );
}

/// Of the database and SQLite's log; 0 for a missing file.
fn bytes(path: &Path) -> u64 {
    ["", "-wal"]
        .iter()
        .map(|ending| beside(path, ending).metadata().map_or(0, |file| file.len()))
        .sum()
}
