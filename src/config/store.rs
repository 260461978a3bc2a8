//! `[store]`: retention times and the size limit.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// Retention by resolution, and the size limit.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(try_from = "RawStore")]
pub struct Store {
    /// Every tick.
    pub ticks: Age,
    /// Sums of one and of ten minutes.
    pub minutes: Age,
    /// Every tick while a job ran.
    pub jobs: Age,
    /// The limit on disk; the oldest and finest data is deleted first.
    pub size: Size,
}

impl Default for Store {
    fn default() -> Self {
        Self { ticks: Age::days(30), minutes: Age::days(730), jobs: Age::days(365), size: Size(1 << 30) }
    }
}

impl Store {
    /// What ticks and roll-ups may take together. Beyond it the oldest go.
    pub fn bytes_for_ticks(&self) -> u64 {
        self.size.0 / 4 * 3
    }

    /// What jobs and imported files may take together. Beyond it new ones are refused, so that they never push ticks out.
    pub fn bytes_for_jobs(&self) -> u64 {
        self.size.0 / 4
    }
}

/// A number of days, such as "30d", "12w" or "2y"; a year has 365.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd)]
#[serde(try_from = "String")]
pub struct Age(pub Duration);

impl Age {
    pub const fn days(days: u64) -> Self {
        Self(Duration::from_secs(days * 24 * 3600))
    }

    pub fn ms(self) -> i64 {
        i64::try_from(self.0.as_millis()).unwrap_or(i64::MAX)
    }
}

/// A number of bytes, such as "500MiB" or "2GB".
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, PartialOrd)]
#[serde(try_from = "String")]
pub struct Size(pub u64);

/// A smaller store could not hold a day of a host with a few disks.
const SMALLEST_STORE: Size = Size(32 << 20);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStore {
    ticks: Option<Age>,
    /// Of earlier versions.
    ten_seconds: Option<IgnoredAny>,
    minutes: Option<Age>,
    jobs: Option<Age>,
    size: Option<Size>,
}

impl TryFrom<RawStore> for Store {
    type Error = String;

    fn try_from(raw: RawStore) -> Result<Self, String> {
        let default = Self::default();
        let store = Self {
            ticks: raw.ticks.unwrap_or(default.ticks),
            minutes: raw.minutes.unwrap_or(default.minutes),
            jobs: raw.jobs.unwrap_or(default.jobs),
            size: raw.size.unwrap_or(default.size),
        };
        if raw.ten_seconds.is_some() {
            tracing::warn!(
                "`ten_seconds` in [store] no longer has an effect: ticks are rolled up to minutes; remove the line"
            );
        }
        if store.ticks > store.minutes {
            return Err("expected ticks <= minutes, since sums are stored for longer".into());
        }
        if store.size < SMALLEST_STORE {
            return Err(format!("`size`: expected at least \"32MiB\", but found {} bytes", store.size.0));
        }
        Ok(store)
    }
}

impl TryFrom<String> for Age {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let days = |text: &str| {
            let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
            let days = match unit {
                "d" => 1,
                "w" => 7,
                "y" => 365,
                _ => return None,
            };
            count.trim().parse::<u32>().ok()?.checked_mul(days).filter(|days| (1..=36_500).contains(days))
        };
        let days = days(text.trim());
        days.map(|days| Self::days(days.into())).ok_or_else(|| {
            format!("expected a number of days, weeks or years such as \"30d\", \"12w\" or \"2y\", but found \"{text}\"")
        })
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        const UNITS: [(&str, u64); 6] = [
            ("MiB", 1 << 20),
            ("GiB", 1 << 30),
            ("TiB", 1 << 40),
            ("MB", 1_000_000),
            ("GB", 1_000_000_000),
            ("TB", 1_000_000_000_000),
        ];
        let size = UNITS.into_iter().find_map(|(unit, bytes)| {
            text.trim().strip_suffix(unit)?.trim().parse::<u64>().ok()?.checked_mul(bytes)
        });
        size.map(Self).ok_or_else(|| {
            format!("expected a whole number of MiB, GiB, MB or GB such as \"1GiB\", but found \"{text}\"")
        })
    }
}
