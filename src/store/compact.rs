//! Writing a database anew, so that what was deleted takes no room on the disk.

use std::path::Path;

use anyhow::Context;
use sqlx::{Connection, SqliteConnection};

use super::damage::with_way_out;
use super::inspect::bytes;
use super::read_view::ReadView;
use super::{database, paths};

/// Compacts the database, and gives how many bytes it took before and takes now. No daemon may have it meanwhile.
pub async fn compact(path: &Path) -> anyhow::Result<(u64, u64)> {
    let named = || format!("cannot compact the database {}", path.display());
    // What is not ours is left alone.
    ReadView::of(path).await?.close().await?;
    let _lock = paths::lock(path)?;
    let before = bytes(path);
    let mut connection = database::to_rewrite(path).await?;
    let rewritten = rewrite(&mut connection).await.with_context(named);
    // Also where that failed: what it began goes with the connection.
    let closed = connection.close().await.with_context(named);
    rewritten.and(closed).map_err(|error| with_way_out(path, error))?;
    Ok((before, bytes(path)))
}

async fn rewrite(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    sqlx::query("VACUUM").execute(&mut *connection).await?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(connection).await?;
    Ok(())
}
