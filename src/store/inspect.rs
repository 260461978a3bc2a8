//! What a database holds, looked at from outside: by whoever verifies, copies or exports it, also while a daemon writes.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::codec::{Rows, decode};
use super::journal::Journal;
use super::open;
use super::rollup;
use super::rows::{identity_of, last_segment};
use super::segment::{Axis, Level, stream_of_chunk};
use super::tick::Tick;
use super::write::ticks_of;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// When every tick ended and how many microseconds it was long, in the order in which they were kept.
    pub ticks: Vec<(Timestamp, u64)>,
    /// How many of them are in the journal alone.
    pub in_journal: usize,
    pub segments: usize,
    pub chunks: usize,
    /// A sentence for each thing that cannot be read.
    pub damage: Vec<String>,
}

/// Reads everything that the database and its journal hold.
pub async fn inventory(path: &Path) -> anyhow::Result<Inventory> {
    let mut connection = open::to_look_at(path).await?;
    let mut inventory = Inventory::default();
    let check: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check").fetch_all(&mut connection).await?;
    inventory.damage.extend(check.into_iter().filter(|line| line != "ok"));
    add_segments(&mut connection, &mut inventory).await?;
    for tick in journaled(&mut connection, path).await? {
        inventory.in_journal += 1;
        inventory.ticks.push((Timestamp::from_millisecond(tick.at_ms)?, tick.elapsed_us));
    }
    Ok(inventory)
}

async fn add_segments(connection: &mut SqliteConnection, inventory: &mut Inventory) -> anyhow::Result<()> {
    let mut after = -1;
    loop {
        let next: Option<(i64, Vec<u8>)> =
            sqlx::query_as("SELECT id, axis FROM segment WHERE id > ? ORDER BY id LIMIT 1")
                .bind(after)
                .fetch_optional(&mut *connection)
                .await?;
        let Some((id, axis)) = next else { return Ok(()) };
        after = id;
        inventory.segments += 1;
        match Axis::decode(&axis) {
            Ok(axis) => add_segment(connection, inventory, id, &axis).await?,
            Err(damaged) => inventory.damage.push(format!("segment {id} cannot be read: {damaged}")),
        }
    }
}

async fn add_segment(
    connection: &mut SqliteConnection,
    inventory: &mut Inventory,
    id: i64,
    axis: &Axis,
) -> anyhow::Result<()> {
    let level =
        Level::of_key(id).map(|(level, _)| level).with_context(|| format!("segment {id} is of no level"))?;
    if level == Level::Ticks {
        for (at_ms, elapsed_us) in axis.at_ms.iter().zip(&axis.elapsed_us) {
            inventory.ticks.push((Timestamp::from_millisecond(*at_ms)?, *elapsed_us));
        }
    }
    let chunks: Vec<(i64, Vec<u8>)> =
        sqlx::query_as("SELECT id, data FROM chunk WHERE id >= ? << 24 AND id < ? << 24")
            .bind(id)
            .bind(id + 1)
            .fetch_all(connection)
            .await?;
    for (key, data) in chunks {
        inventory.chunks += 1;
        let Some(stream) = stream_of_chunk(key) else {
            inventory.damage.push(format!("chunk {key} is of no stream"));
            continue;
        };
        let shape = if level == Level::Ticks { stream.kind.shape() } else { rollup::shape(stream.kind) };
        match decode(shape, &data, |_| true) {
            Ok(Rows { presence, .. }) if presence.len() == axis.len() => {}
            Ok(_) => inventory.damage.push(format!("chunk {key} does not fit segment {id}")),
            Err(damaged) => {
                inventory.damage.push(format!("chunk {key} of segment {id} cannot be read: {damaged}"))
            }
        }
    }
    Ok(())
}

/// The ticks that are in the journal and not in the database.
async fn journaled(connection: &mut SqliteConnection, path: &Path) -> anyhow::Result<Vec<Arc<Tick>>> {
    let Some(identity) = identity_of(connection).await? else { return Ok(Vec::new()) };
    let segments = Journal::look(path, identity, last_segment(connection).await?)?;
    Ok(segments.iter().flat_map(|segment| ticks_of(&segment.records)).collect())
}
