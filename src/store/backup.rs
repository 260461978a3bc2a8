//! Backup and compaction of a database. A backup is one file, also while a daemon writes: `VACUUM INTO` copies the
//! database, and the ticks of the journal are sealed into the copy.

use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::Context;
use sqlx::{Connection, SqliteConnection};

use super::damage::with_way_out;
use super::inspect::{Inventory, bytes, inventory};
use super::paths::beside;
use super::read_view::ReadView;
use super::seal::{last_segment, seal};
use super::{database, paths};

/// Rights needed to write the copy, even if the database is read-only.
const OWN_RIGHTS: u32 = 0o600;

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
    let named = || format!("cannot copy the database {} to {}", path.display(), file.display());
    // The journal comes first: ticks that leave it meanwhile are in the database by then.
    let mut view = ReadView::of(path).await?;
    sqlx::query("COMMIT").execute(&mut view.connection).await.with_context(named)?;
    give_rights(path, file).with_context(named)?;
    let target = file.to_str().with_context(|| format!("the name {} is no text", file.display()))?;
    sqlx::query("VACUUM INTO ?").bind(target).execute(&mut view.connection).await.with_context(named)?;
    let damage = seal_into(file, view).await.with_context(named)?;
    File::open(file).and_then(|file| file.sync_all()).with_context(named)?;
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
    for segment in view.journaled.iter().filter(|segment| segment.number > sealed) {
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
    rewritten.and(closed).map_err(|error| with_way_out(path, error))?;
    Ok((before, bytes(path)))
}

async fn rewrite(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    sqlx::query("VACUUM").execute(&mut *connection).await?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(connection).await?;
    Ok(())
}
