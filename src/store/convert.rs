//! Ticks of databases of versions 1 and 2, a row each, become segments when such a database is first opened.

use std::collections::HashSet;

use anyhow::Context;
use sqlx::{Connection, FromRow, SqliteConnection};

use super::SEGMENT_ROWS;
use super::packed::{More, Packed};
use super::recent::SegmentNumbering;
use super::rolling::roll_up;
use super::rows::last_segment;
use super::seal::write_ticks;
use super::stream::{Kind, Stream, host_columns, volume_columns, work_columns};
use super::tick::{Layout, Tick};
use super::words::in_words;
use crate::interval::Work;

#[derive(FromRow)]
struct OldTick {
    at_ms: i64,
    elapsed_us: i64,
    packed: Vec<u8>,
    more: Option<Vec<u8>>,
}

/// Turns what the table `tick` holds into segments, each as whole as if it had been kept so, and drops the table.
pub async fn old_ticks(connection: &mut SqliteConnection) -> anyhow::Result<()> {
    let table = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'tick'";
    let tables: i64 = sqlx::query_scalar(table).fetch_one(&mut *connection).await?;
    if tables == 0 {
        return Ok(());
    }
    let counted: Vec<i64> =
        sqlx::query_scalar("SELECT id FROM device WHERE counts = 1").fetch_all(&mut *connection).await?;
    let counted: HashSet<i64> = counted.into_iter().collect();
    let mut number = last_segment(connection).await? + 1;
    while let Some((ticks, last_ms)) = next_segment(connection, &counted).await? {
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        if !ticks.is_empty() {
            write_ticks(&mut transaction, number, &ticks).await?;
            number += 1;
        }
        sqlx::query("DELETE FROM tick WHERE at_ms <= ?").bind(last_ms).execute(&mut *transaction).await?;
        transaction.commit().await.context("cannot convert old ticks")?;
    }
    roll_up(connection).await?;
    sqlx::query("DROP TABLE tick").execute(connection).await?;
    Ok(())
}

struct Converted(Tick);

impl AsRef<Tick> for Converted {
    fn as_ref(&self) -> &Tick {
        &self.0
    }
}

/// The ticks of the next segment that can be read, and the instant of the last row that was looked at; `None` where there
/// are no more rows.
async fn next_segment(
    connection: &mut SqliteConnection,
    counted: &HashSet<i64>,
) -> anyhow::Result<Option<(Vec<Converted>, i64)>> {
    let rows: Vec<OldTick> =
        sqlx::query_as("SELECT at_ms, elapsed_us, packed, more FROM tick ORDER BY at_ms LIMIT ?")
            .bind(i64::try_from(SEGMENT_ROWS)?)
            .fetch_all(connection)
            .await?;
    let mut numbering = SegmentNumbering::new(0);
    let (mut ticks, mut last_ms) = (Vec::new(), None);
    for row in rows {
        if numbering.number(row.at_ms, SEGMENT_ROWS) != 0 {
            break;
        }
        last_ms = Some(row.at_ms);
        match converted(&row, counted) {
            Ok(tick) => ticks.push(Converted(tick)),
            Err(error) => {
                tracing::warn!("the old tick at {} ms cannot be read: {}", row.at_ms, in_words(&error))
            }
        }
    }
    Ok(last_ms.map(|last_ms| (ticks, last_ms)))
}

fn converted(row: &OldTick, counted: &HashSet<i64>) -> anyhow::Result<Tick> {
    let packed = Packed::of_bytes(&row.packed)?;
    let more = More::of_bytes(row.more.as_deref())?;
    let id = |id: i64| u32::try_from(id).unwrap_or(Stream::MOST_ROWS);
    let of_total = packed.devices.iter().filter(|(device, _)| counted.contains(device));
    let total = Work::sum(of_total.map(|(_, work)| (*work).into()));
    let mut rows: Vec<(Stream, Option<Vec<u64>>)> = vec![
        (Stream::HOST, Some(host_columns(&packed.host).to_vec())),
        (Stream::TOTAL, total.map(|work| work_columns(&work).to_vec())),
    ];
    for (device, work) in packed.devices {
        let work: Option<Work> = work.into();
        rows.push((Stream::new(Kind::Device, id(device)), work.map(|work| work_columns(&work).to_vec())));
    }
    for (volume, state) in packed.volumes {
        rows.push((Stream::new(Kind::Volume, id(volume)), Some(volume_columns(&state.into()).to_vec())));
    }
    for (device, share) in more.copying {
        rows.push((Stream::new(Kind::Copying, id(device)), Some(vec![share.read, share.written])));
    }
    rows.retain(|(stream, _)| stream.row < Stream::MOST_ROWS);
    rows.sort_unstable_by_key(|(stream, _)| *stream);
    rows.dedup_by_key(|(stream, _)| *stream);
    let layout = Layout { streams: rows.iter().map(|(stream, _)| *stream).collect() };
    let mut tick = Tick::new(row.at_ms, row.elapsed_us.unsigned_abs(), layout.into());
    for (place, (_, row)) in (0..).zip(&rows) {
        tick.push(place, row.as_deref());
    }
    Ok(tick)
}
