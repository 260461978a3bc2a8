//! How old segments are at least, by what was seen since: for those that a wrong clock stamped with a time that has not
//! come yet, which would never be old by their stamps.

use sqlx::SqliteConnection;

use super::{LEAST_KEPT_MS, age_ms};
use crate::config;
use crate::store::segment::{Axis, Level};

/// Numbers of segments of ticks: those up to it were written at least so long ago. 0 where that is none.
///
/// Numbers grow with the writing, and lengths come from a clock that does not jump. While the program does not run nothing
/// is counted, so that it is never too much.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    pub ticks: i64,
    pub ten_seconds: i64,
    pub minutes: i64,
    pub jobs: i64,
    /// What stays whatever the limit of size.
    pub least: i64,
}

impl Passed {
    /// Reads what was seen since only where something is stamped later than now.
    pub async fn of(
        connection: &mut SqliteConnection,
        keep: &config::Store,
        now_ms: i64,
    ) -> anyhow::Result<Self> {
        if !is_any_ahead(connection, now_ms).await? {
            return Ok(Self::default());
        }
        let ages = [keep.ticks, keep.ten_seconds, keep.minutes, keep.jobs].map(age_ms);
        let [ticks, ten_seconds, minutes, jobs] = ages;
        let [ticks, ten_seconds, minutes, jobs, least] =
            written_before(connection, [ticks, ten_seconds, minutes, jobs, LEAST_KEPT_MS]).await?;
        Ok(Self { ticks, ten_seconds, minutes, jobs, least })
    }
}

async fn is_any_ahead(connection: &mut SqliteConnection, now_ms: i64) -> anyhow::Result<bool> {
    Ok(sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM segment WHERE to_ms > ?)")
        .bind(now_ms)
        .fetch_one(connection)
        .await?)
}

/// The last numbers of segments since which so many milliseconds are in minutes, from the newest back.
async fn written_before<const N: usize>(
    connection: &mut SqliteConnection,
    ages_ms: [i64; N],
) -> anyhow::Result<[i64; N]> {
    let (first, mut before) = Level::Minutes.keys();
    let (mut numbers, mut passed_us) = ([0; N], 0_u128);
    while numbers.contains(&0) {
        let minutes: Option<(i64, i64, Vec<u8>)> = sqlx::query_as(
            "SELECT id, first_source, axis FROM segment WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 1",
        )
        .bind(first)
        .bind(before)
        .fetch_optional(&mut *connection)
        .await?;
        let Some((id, first_source, axis)) = minutes else { break };
        before = id;
        // Of one that cannot be read nothing is counted.
        let lengths_us = Axis::decode(&axis).map(|axis| axis.elapsed_us).unwrap_or_default();
        passed_us += lengths_us.into_iter().map(u128::from).sum::<u128>();
        for (number, age_ms) in numbers.iter_mut().zip(ages_ms) {
            if *number == 0 && passed_us >= u128::from(age_ms.unsigned_abs()) * 1000 {
                *number = first_source - 1;
            }
        }
    }
    Ok(numbers)
}
