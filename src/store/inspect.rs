//! The inventory of a database, for verification and backups, also while a daemon writes.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context;
use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::catalog::Catalog;
use super::codec::decode_stored;
use super::paths::beside;
use super::read_view::ReadView;
use super::records::readable;
use super::rollup::columns_at;
use super::segment::{Axis, Level, stream_of_chunk};
use super::stream::{Kind, Stream};
use super::words::in_words;
use crate::alert::Alert;
use crate::job::Job;

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

/// Reads all content of the database and its journal.
pub async fn inventory(path: &Path) -> anyhow::Result<Inventory> {
    let mut view = ReadView::of(path).await?;
    let mut inventory = Inventory { damage: view.damage.clone(), bytes: bytes(path), ..Inventory::default() };
    match sqlx::query_scalar("PRAGMA integrity_check").fetch_all(&mut view.connection).await {
        Ok(check) => inventory.damage.extend(check.into_iter().filter(|line: &String| line != "ok")),
        Err(error) => inventory
            .damage
            .push(format!("the database cannot be checked to its end: {}", in_words(&error.into()))),
    }
    inventory.damage.extend(damaged_records(&mut view.connection).await);
    // An unreadable page ends the reading; earlier content still counts.
    if let Err(error) = add_segments(&mut view.connection, &mut inventory).await {
        inventory.damage.push(format!("the segments cannot be read further: {}", in_words(&error)));
    }
    add_unknown(&view.catalog, &mut inventory);
    for tick in view.journaled.iter().flat_map(|segment| &segment.ticks) {
        inventory.in_journal += 1;
        inventory.ticks.push((Timestamp::from_millisecond(tick.at_ms)?, tick.elapsed_us));
    }
    Ok(inventory)
}

/// A sentence for each damaged row of a job or an alert.
async fn damaged_records(connection: &mut SqliteConnection) -> Vec<String> {
    let jobs = sqlx::query("SELECT * FROM job_record").fetch_all(&mut *connection).await;
    let alerts = sqlx::query("SELECT * FROM alert_record").fetch_all(connection).await;
    match (jobs, alerts) {
        (Ok(jobs), Ok(alerts)) => {
            let (jobs, alerts) = (readable::<Job>(&jobs).1, readable::<Alert>(&alerts).1);
            jobs.into_iter().chain(alerts).collect()
        }
        (Err(error), _) | (_, Err(error)) => {
            vec![format!("jobs and alerts cannot be read: {}", in_words(&error.into()))]
        }
    }
}

/// Devices and volumes without a row: their ticks cannot be found by name.
fn add_unknown(catalog: &Catalog, inventory: &mut Inventory) {
    let unknown = inventory.streams.iter().filter_map(|stream| match stream.kind {
        Kind::Device | Kind::Copying if *stream != Stream::TOTAL => {
            (!catalog.device_rows.contains_key(&stream.row)).then_some(("device", stream.row))
        }
        Kind::Volume => (!catalog.volume_rows.contains_key(&stream.row)).then_some(("volume", stream.row)),
        _ => None,
    });
    let unknown: BTreeSet<(&str, u32)> = unknown.collect();
    inventory.damage.extend(
        unknown.into_iter().map(|(what, id)| format!("there are ticks of {what} {id}, whose row is missing")),
    );
}

/// Of the database, SQLite's log and the journal; 0 for a missing file.
pub fn bytes(path: &Path) -> u64 {
    ["", "-wal", "-ticks"]
        .iter()
        .map(|ending| beside(path, ending).metadata().map_or(0, |file| file.len()))
        .sum()
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
        inventory.streams.insert(stream);
        if let Err(damaged) = decode_stored(columns_at(level, stream.kind), Some(&data), axis.len()) {
            inventory.damage.push(format!("chunk {key} of segment {id} cannot be read: {damaged}"));
        }
    }
    Ok(())
}
