//! How much is kept, since when, and what the settings will come to need.

use std::path::Path;

use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::database;
use super::retention::used_bytes;
use super::segment::Level;
use super::write_op::Gap;
use crate::config;

/// What a level takes in a day is told from its last segments, up to this many: of ticks, six hours.
const RECENT_SEGMENTS: i64 = 36;
/// What roll-ups take beside the ticks that they are made of, until there are some: a part of the ticks' bytes, as in
/// `benches/RESULTS.md`.
const TYPICAL_SHARE: [f64; Level::ALL.len()] = [1.0, 0.5, 0.1, 0.012];
/// Packed bytes that the ticks of one device take in a day, volumes included, on a host of which half the disks idle.
const USUAL_PER_DEVICE: f64 = 330_000.0;
/// Gaps that are told of, the latest.
const GAPS: i64 = 20;
/// Packed bytes below which it is not told from the file what SQLite adds, and what it usually adds.
const LITTLE: f64 = 8e6;
const USUAL_OVERHEAD: f64 = 1.15;
const DAY_MS: f64 = 24.0 * 3600.0 * 1000.0;

/// How much is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StorageUsage {
    pub size_bytes: u64,
    /// For each level.
    pub levels: [LevelUsage; Level::ALL.len()],
    /// The part of the time in which a job ran.
    pub jobs_share: f64,
    /// Ticks that could not be kept, the latest first.
    pub gaps: Vec<Gap>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LevelUsage {
    /// The end of the oldest row and of the newest.
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    /// Of packed rows, without what SQLite adds.
    pub bytes_per_day: Option<f64>,
    /// Packed bytes of all that is kept, if segments were always as large as the last ones.
    pub packed_bytes: f64,
}

impl StorageUsage {
    /// What a day of ticks takes, all that SQLite adds included; `None` before there is a segment.
    pub fn bytes_per_day(&self) -> Option<u64> {
        Some((self.levels[0].bytes_per_day? * self.overhead()) as u64)
    }

    /// What all of it will take when it has been kept for as long as the settings say; `None` before it can be told.
    pub fn forecast_bytes(&self, keep: &config::Store) -> Option<u64> {
        let ticks = self.levels[0].bytes_per_day?;
        let days = |age: config::Age| age.0.as_secs_f64() / (24.0 * 3600.0);
        // Ten seconds are made when ticks go.
        let of_tens = (days(keep.ten_seconds) - days(keep.ticks)).max(0.0);
        let ages = [days(keep.ticks), of_tens, days(keep.minutes), days(keep.minutes)];
        let levels = self.levels.iter().zip(TYPICAL_SHARE).zip(ages);
        let packed: f64 =
            levels.map(|((level, share), days)| level.bytes_per_day.unwrap_or(ticks * share) * days).sum();
        let of_jobs = ticks * self.jobs_share * (days(keep.jobs) - days(keep.ticks)).max(0.0);
        Some(((packed + of_jobs) * self.overhead()) as u64)
    }

    /// Bytes of the file for a packed byte.
    fn overhead(&self) -> f64 {
        let packed: f64 = self.levels.iter().map(|level| level.packed_bytes).sum();
        // Of a little there is more of tables and indexes than of rows.
        if packed < LITTLE { USUAL_OVERHEAD } else { (self.size_bytes as f64 / packed).clamp(1.0, 3.0) }
    }
}

/// Looks at the tables; some milliseconds.
pub async fn stock(connection: &mut SqliteConnection) -> anyhow::Result<StorageUsage> {
    let mut stock = StorageUsage {
        size_bytes: used_bytes(connection).await?.unsigned_abs(),
        jobs_share: jobs_share(connection).await?,
        gaps: gaps(connection).await?,
        ..StorageUsage::default()
    };
    for level in Level::ALL {
        stock.levels[level as usize] = level_stock(connection, level).await?;
    }
    Ok(stock)
}

async fn level_stock(connection: &mut SqliteConnection, level: Level) -> anyhow::Result<LevelUsage> {
    let (first, end) = level.keys();
    let (from, to): (Option<i64>, Option<i64>) =
        sqlx::query_as("SELECT min(from_ms), max(to_ms) FROM segment WHERE id >= ? AND id < ?")
            .bind(first)
            .bind(end)
            .fetch_one(&mut *connection)
            .await?;
    let (bytes, length_ms, recent, all): (Option<i64>, Option<i64>, i64, i64) = sqlx::query_as(
        "WITH recent AS (
             SELECT id, (to_ms - from_ms) * rows / max(rows - 1, 1) AS length_ms, length(axis) AS bytes FROM segment
             WHERE id >= ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3)
         SELECT sum(bytes) + (SELECT sum(length(data)) FROM chunk
                 WHERE id >= (SELECT min(id) FROM recent) << 24 AND id < ?2 << 24),
             sum(length_ms), count(*), (SELECT count(*) FROM segment WHERE id >= ?1 AND id < ?2)
         FROM recent",
    )
    .bind(first)
    .bind(end)
    .bind(RECENT_SEGMENTS)
    .fetch_one(connection)
    .await?;
    let at = |ms: Option<i64>| Timestamp::from_millisecond(ms?).ok();
    let bytes_per_day = bytes.zip(length_ms).filter(|(_, length_ms)| *length_ms > 0);
    let packed_bytes = bytes.unwrap_or_default() as f64 / recent.max(1) as f64 * all as f64;
    Ok(LevelUsage {
        from: at(from),
        to: at(to),
        bytes_per_day: bytes_per_day.map(|(bytes, length_ms)| bytes as f64 / length_ms as f64 * DAY_MS),
        packed_bytes,
    })
}

/// Jobs that ran together count each; it is an upper limit.
async fn jobs_share(connection: &mut SqliteConnection) -> anyhow::Result<f64> {
    let (ran_ms, length_ms): (Option<i64>, Option<i64>) = sqlx::query_as(
        "SELECT sum(ended_ms - started_ms), max(ended_ms) - min(started_ms) FROM job WHERE ended_ms IS NOT NULL",
    )
    .fetch_one(connection)
    .await?;
    Ok(ran_ms.zip(length_ms).map_or(0.0, |(ran, length)| ran as f64 / (length as f64).max(DAY_MS)).min(1.0))
}

async fn gaps(connection: &mut SqliteConnection) -> anyhow::Result<Vec<Gap>> {
    let rows: Vec<(i64, i64, i64, String)> =
        sqlx::query_as("SELECT from_ms, to_ms, ticks, reason FROM gap ORDER BY id DESC LIMIT ?")
            .bind(GAPS)
            .fetch_all(connection)
            .await?;
    Ok(rows
        .into_iter()
        .map(|(from_ms, to_ms, ticks, reason)| Gap { from_ms, to_ms, ticks, reason })
        .collect())
}

/// How much the database at `path` has; nothing is changed.
pub async fn stock_of(path: &Path) -> anyhow::Result<StorageUsage> {
    stock(&mut database::to_look_at(path).await?).await
}

/// What the settings will need on a host with so many devices, as most are used: see `benches/RESULTS.md`.
pub fn usual_bytes(keep: &config::Store, devices: usize) -> u64 {
    let usual =
        LevelUsage { bytes_per_day: Some(USUAL_PER_DEVICE * devices as f64), ..LevelUsage::default() };
    let mut stock = StorageUsage::default();
    stock.levels[Level::Ticks as usize] = usual;
    stock.forecast_bytes(keep).unwrap_or_default()
}
