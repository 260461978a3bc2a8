//! The state of writing, the size of stored data, and the size that the settings will need.

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sqlx::SqliteConnection;

use super::address::Level;
use super::retention::{jobs_bytes, used_bytes};
use super::stored::{Gap, last_windows, stretches, times_of};
use super::{StoreReader, database};
use crate::config;
use crate::units::size_text;

/// A write that takes longer counts as a hanging disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// The size of a day of ticks is measured over the last windows of ten minutes, six hours at most.
const RECENT_WINDOWS: i64 = 36;
/// Size of all roll-ups relative to their ticks. Source: `benches/RESULTS.md`.
const ROLL_UPS: f64 = 0.11;
/// What SQLite adds to a record: its key and length, and the rest of a page that no record fits into.
const OVERHEAD_PER_RECORD: i64 = 15;
const OVERHEAD: f64 = 1.06;
/// Bytes of a device's ticks in a day, volumes included, on a host with half of its disks idle.
const USUAL_PER_DEVICE: f64 = 700_000.0;
/// Maximum number of gaps shown, the latest.
const GAPS: i64 = 20;
const DAY_MS: f64 = 24.0 * 3600.0 * 1000.0;

/// The state of writing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Whether the database is open.
    pub is_open: bool,
    pub error: Option<String>,
    pub took_us: u64,
    /// When the current write began; `None` while the writer is idle.
    pub(super) busy_since: Option<Instant>,
    /// Entries that were committed since the start.
    pub written: u64,
    /// Entries that violated a constraint.
    pub refused: u64,
    pub last_ok_at: Option<Timestamp>,
    /// Sentences on the opening of the database, such as on damage.
    pub notes: Vec<String>,
    /// As of the last ten minutes that were rolled up.
    pub stock: StorageUsage,
}

impl Health {
    /// While writing fails, ticks stay in memory.
    pub(super) fn set_error(&mut self, error: String) {
        if self.error.is_none() {
            tracing::error!("continuing from memory: {error}");
        }
        self.error = Some(error);
    }

    /// A sentence, if the current write takes too long.
    pub(super) fn hang(&self) -> Option<String> {
        let busy_for = self.busy_since?.elapsed();
        (busy_for > PATIENCE).then(|| {
            let seconds = busy_for.as_secs();
            format!(
                "the disk of the database has not responded for {seconds} s: continuing from memory"
            )
        })
    }
}

/// The size of stored data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StorageUsage {
    pub size_bytes: u64,
    /// The part of jobs and imported files.
    pub jobs_bytes: u64,
    /// When the oldest row of each level ends.
    pub since: [Option<Timestamp>; Level::ALL.len()],
    /// Size of a day of ticks, with what SQLite adds; `None` before ten minutes are complete.
    pub bytes_per_day: Option<u64>,
    /// Share of the time in which a job ran.
    pub jobs_share: f64,
    /// Ticks that could not be stored, the latest first.
    pub gaps: Vec<Gap>,
}

impl StorageUsage {
    /// Size of ticks and roll-ups once they are as old as the settings allow; `None` before it can be estimated.
    pub fn forecast_bytes(&self, keep: &config::Store) -> Option<u64> {
        let days = |age: config::Age| age.ms() as f64 / DAY_MS;
        let of_jobs = self.jobs_share * (days(keep.jobs) - days(keep.ticks)).max(0.0);
        let days_of_ticks = days(keep.ticks) + of_jobs + ROLL_UPS * days(keep.minutes);
        Some((self.bytes_per_day? as f64 * days_of_ticks) as u64)
    }
}

impl StoreReader {
    /// Refuses a job with a file of this many bytes if jobs and imported files would exceed their part of `size`.
    pub fn check_room(&self, bytes: u64) -> Result<(), String> {
        let stored = self.health.borrow().stock.jobs_bytes;
        let most = self.keep.bytes_for_jobs();
        if stored.saturating_add(bytes) <= most {
            return Ok(());
        }
        Err(format!(
            "jobs and imported files take {} of the {} that they may, a quarter of `size` in [store], and this one \
             takes {}: delete some, or set a larger `size`",
            size_text(stored),
            size_text(most),
            size_text(bytes)
        ))
    }
}

/// Measures the tables, in some milliseconds.
pub async fn stock(connection: &mut SqliteConnection) -> anyhow::Result<StorageUsage> {
    let mut stock = StorageUsage {
        size_bytes: used_bytes(connection).await?,
        jobs_bytes: jobs_bytes(connection).await?,
        bytes_per_day: bytes_per_day(connection).await?,
        jobs_share: jobs_share(connection).await?,
        gaps: gaps(connection).await?,
        ..StorageUsage::default()
    };
    let stretches = stretches(connection).await?;
    for level in Level::ALL {
        let times = times_of(&stretches, level);
        stock.since[level as usize] =
            times.and_then(|(from_ms, _)| Timestamp::from_millisecond(from_ms).ok());
    }
    Ok(stock)
}

async fn bytes_per_day(connection: &mut SqliteConnection) -> anyhow::Result<Option<u64>> {
    let Some((first, last, length_ms)) = last_windows(connection, RECENT_WINDOWS).await? else {
        return Ok(None);
    };
    let bytes: Option<i64> =
        sqlx::query_scalar("SELECT sum(length(record) + ?) FROM tick WHERE id BETWEEN ? AND ?")
            .bind(OVERHEAD_PER_RECORD)
            .bind(first)
            .bind(last)
            .fetch_one(connection)
            .await?;
    let Some(bytes) = bytes.filter(|_| length_ms > 0) else {
        return Ok(None);
    };
    Ok(Some(
        (bytes as f64 * OVERHEAD / length_ms as f64 * DAY_MS) as u64,
    ))
}

/// An upper limit, since jobs that ran at the same time count separately.
async fn jobs_share(connection: &mut SqliteConnection) -> anyhow::Result<f64> {
    let (ran_ms, length_ms): (Option<i64>, Option<i64>) = sqlx::query_as(
        "SELECT sum(ended_ms - started_ms), max(ended_ms) - min(started_ms) FROM job WHERE ended_ms IS NOT NULL",
    )
    .fetch_one(connection)
    .await?;
    Ok(ran_ms
        .zip(length_ms)
        .map_or(0.0, |(ran, length)| {
            ran as f64 / (length as f64).max(DAY_MS)
        })
        .min(1.0))
}

async fn gaps(connection: &mut SqliteConnection) -> anyhow::Result<Vec<Gap>> {
    let gaps = sqlx::query_as("SELECT * FROM gap ORDER BY id DESC LIMIT ?").bind(GAPS);
    Ok(gaps.fetch_all(connection).await?)
}

/// How much the database at `path` stores; nothing is changed.
pub async fn stock_of(path: &Path) -> anyhow::Result<StorageUsage> {
    stock(&mut database::to_look_at(path).await?).await
}

/// The size that these settings usually need on a host with this many devices. Source: `benches/RESULTS.md`.
pub fn usual_bytes(keep: &config::Store, devices: usize) -> u64 {
    let bytes_per_day = Some((USUAL_PER_DEVICE * devices as f64) as u64);
    let stock = StorageUsage {
        bytes_per_day,
        ..StorageUsage::default()
    };
    stock.forecast_bytes(keep).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_hangs_is_said_to_do_so_and_one_that_is_slow_is_not() {
        let hang = |seconds| {
            let busy_since = Instant::now().checked_sub(Duration::from_secs(seconds));
            Health {
                busy_since,
                ..Health::default()
            }
            .hang()
        };
        assert_eq!(hang(9), None);
        assert_eq!(
            hang(32).as_deref(),
            Some("the disk of the database has not responded for 32 s: continuing from memory")
        );
    }
}
