//! The database in the API: stored data, its size and forecast.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config;
use crate::present::Present;
use crate::store::{Gap, Level};

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct StoreBody {
    /// As of the last complete ten minutes.
    pub size_bytes: u64,
    pub size_limit_bytes: u64,
    /// Size of a day of ticks; `null` in the first ten minutes.
    pub ticks_bytes_per_day: Option<u64>,
    /// Size once the retention times are reached.
    pub forecast_bytes: Option<u64>,
    /// `ticks`, `minutes` and `ten_minutes`.
    pub levels: Vec<LevelBody>,
    /// Retention of ticks during jobs.
    pub jobs_days: u64,
    /// Ticks, jobs and alerts that were dropped since the start.
    pub lost: u64,
    /// The last gaps in stored ticks.
    pub gaps: Vec<GapBody>,
    /// Findings when the database was opened, such as damage.
    pub notes: Vec<String>,
}

/// Stored data of one resolution.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LevelBody {
    pub name: String,
    /// The oldest data.
    pub from: Option<Timestamp>,
    pub days: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct GapBody {
    pub from: Timestamp,
    pub to: Timestamp,
    pub ticks: i64,
    pub reason: String,
}

impl StoreBody {
    pub fn new(present: &Present) -> Self {
        let (stock, keep) = (&present.store.stock, &present.keep);
        let level = |level: Level, name: &str, age: config::Age| LevelBody {
            name: name.into(),
            from: stock.since[level as usize],
            days: days(age),
        };
        Self {
            size_bytes: stock.size_bytes,
            size_limit_bytes: keep.size.0,
            ticks_bytes_per_day: stock.bytes_per_day,
            forecast_bytes: stock.forecast_bytes(keep),
            levels: vec![
                level(Level::Ticks, "ticks", keep.ticks),
                level(Level::Minutes, "minutes", keep.minutes),
                level(Level::TenMinutes, "ten_minutes", keep.minutes),
            ],
            jobs_days: days(keep.jobs),
            lost: present.lost,
            gaps: stock.gaps.iter().map(GapBody::from).collect(),
            notes: present.store.notes.clone(),
        }
    }
}

impl From<&Gap> for GapBody {
    fn from(gap: &Gap) -> Self {
        let at = |ms| Timestamp::from_millisecond(ms).unwrap_or_default();
        Self {
            from: at(gap.from_ms),
            to: at(gap.to_ms),
            ticks: gap.ticks,
            reason: gap.reason.clone(),
        }
    }
}

fn days(age: config::Age) -> u64 {
    age.0.as_secs() / (24 * 3600)
}
