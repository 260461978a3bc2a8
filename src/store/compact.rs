//! Writing a database anew, so that what was deleted takes no room on the disk.

use std::path::Path;

use anyhow::Context;
use sqlx::Connection;

use super::inspect::bytes;
use super::moment::Moment;
use super::{open, place};

/// Compacts the database, and gives how many bytes it took before and takes now. No daemon may have it meanwhile.
pub async fn compact(path: &Path) -> anyhow::Result<(u64, u64)> {
    let named = || format!("cannot compact the database {}", path.display());
    // What is not ours is left alone.
    Moment::of(path).await?.close().await?;
    let _lock = place::lock(path)?;
    let before = bytes(path);
    let mut connection = open::to_rewrite(path).await?;
    sqlx::query("VACUUM").execute(&mut connection).await.with_context(named)?;
    sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut connection).await.with_context(named)?;
    connection.close().await.with_context(named)?;
    Ok((before, bytes(path)))
}
