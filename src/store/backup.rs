//! Backup, compaction and inventory of a database, also while a daemon writes.
//!
//! A backup is one file: `VACUUM INTO` copies the database, and the ticks of the journal are sealed into the copy.

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use jiff::Timestamp;
use sqlx::{Connection, SqliteConnection};

use super::catalog::Catalog;
use super::codec::decode_stored;
use super::damage::with_way_out;
use super::paths::beside;
use super::read_view::ReadView;
use super::records::readable;
use super::rollup::columns_at;
use super::seal::{last_segment, seal};
use super::segment::{Axis, Level, stream_of_chunk};
use super::stream::{Kind, Stream};
use super::words::in_words;
use super::{database, paths};
use crate::alert::Alert;
use crate::job::Job;

/// Rights needed to write the copy, even if the database is read-only.
const OWN_RIGHTS: u32 = 0o600;

/// The content of a database and its journal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// End and length in microseconds of each tick, in the order of storing.
    pub ticks: Vec<(Timestamp, u64)>,
    /// How many of them only the journal has.
    pub in_journal: usize,
    pub segments: usize,
    pub chunks: usize,
    /// Size of the database's files.
    pub bytes: u64,
    /// A sentence for each thing that cannot be read.
    pub damage: Vec<String>,
    /// Streams that have chunks.
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
    // The journal comes first: ticks that leave it meanwhile are in the database by then.
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
    let damage = seal_into(file, view).await.with_context(named)?;
    File::open(file)
        .and_then(|file| file.sync_all())
        .with_context(named)?;
    let read_back = inventory(file).await;
    let mut inventory =
        read_back.with_context(|| format!("the copy {} cannot be read back", file.display()))?;
    inventory.damage.extend(damage);
    Ok(inventory)
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

/// Seals the journal's ticks into the copy, if it lacks them. Returns a sentence for each damaged place of the journal.
async fn seal_into(file: &Path, view: ReadView) -> anyhow::Result<Vec<String>> {
    let mut copy = database::to_rewrite(file).await?;
    let sealed = last_segment(&mut copy).await?;
    for segment in view
        .journaled
        .iter()
        .filter(|segment| segment.number > sealed)
    {
        seal(&mut copy, segment.number, &segment.ticks).await?;
    }
    copy.close().await?;
    Ok(view.damage)
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

async fn rewrite(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    sqlx::query("VACUUM").execute(&mut *connection).await?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
        .execute(connection)
        .await?;
    Ok(())
}

/// Reads all content of the database and its journal.
pub async fn inventory(path: &Path) -> anyhow::Result<Inventory> {
    let mut view = ReadView::of(path).await?;
    let mut inventory = Inventory {
        damage: view.damage.clone(),
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
    if let Err(error) = add_segments(&mut view.connection, &mut inventory).await {
        inventory.damage.push(format!(
            "the segments cannot be read further: {}",
            in_words(&error)
        ));
    }
    add_unknown(&view.catalog, &mut inventory);
    for tick in view.journaled.iter().flat_map(|segment| &segment.ticks) {
        inventory.in_journal += 1;
        inventory
            .ticks
            .push((Timestamp::from_millisecond(tick.at_ms)?, tick.elapsed_us));
    }
    Ok(inventory)
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

/// Of the database, SQLite's log and the journal; 0 for a missing file.
fn bytes(path: &Path) -> u64 {
    ["", "-wal", "-ticks"]
        .iter()
        .map(|ending| beside(path, ending).metadata().map_or(0, |file| file.len()))
        .sum()
}

async fn add_segments(
    connection: &mut SqliteConnection,
    inventory: &mut Inventory,
) -> anyhow::Result<()> {
    let mut after = -1;
    loop {
        let next: Option<(i64, Vec<u8>)> =
            sqlx::query_as("SELECT id, axis FROM segment WHERE id > ? ORDER BY id LIMIT 1")
                .bind(after)
                .fetch_optional(&mut *connection)
                .await?;
        let Some((id, axis)) = next else {
            return Ok(());
        };
        after = id;
        inventory.segments += 1;
        let axis = match Axis::decode(&axis) {
            Ok(axis) => axis,
            Err(damaged) => {
                inventory
                    .damage
                    .push(format!("segment {id} cannot be read: {damaged}"));
                continue;
            }
        };
        let (level, _) =
            Level::of_key(id).with_context(|| format!("segment {id} is of no level"))?;
        if level == Level::Ticks {
            for (at_ms, elapsed_us) in axis.at_ms.iter().zip(&axis.elapsed_us) {
                inventory
                    .ticks
                    .push((Timestamp::from_millisecond(*at_ms)?, *elapsed_us));
            }
        }
        let chunks: Vec<(i64, Vec<u8>)> =
            sqlx::query_as("SELECT id, data FROM chunk WHERE id >= ? << 24 AND id < ? << 24")
                .bind(id)
                .bind(id + 1)
                .fetch_all(&mut *connection)
                .await?;
        for (key, data) in chunks {
            inventory.chunks += 1;
            let Some(stream) = stream_of_chunk(key) else {
                inventory
                    .damage
                    .push(format!("chunk {key} is of no stream"));
                continue;
            };
            inventory.streams.insert(stream);
            if let Err(damaged) =
                decode_stored(columns_at(level, stream.kind), Some(&data), axis.len())
            {
                inventory.damage.push(format!(
                    "chunk {key} of segment {id} cannot be read: {damaged}"
                ));
            }
        }
    }
}
