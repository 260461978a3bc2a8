//! `[store]`: retention times and the size limit.

use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// Retention by resolution, and the size limit.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default, remote = "Self")]
pub struct Store {
    /// Every tick.
    pub ticks: Age,
    /// One-minute and ten-minute roll-ups.
    pub minutes: Age,
    /// Every tick while a job ran.
    pub jobs: Age,
    /// The limit on disk; the oldest and finest data is deleted first.
    pub size: Size,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            ticks: Age::days(30),
            minutes: Age::days(730),
            jobs: Age::days(365),
            size: Size(1 << 30),
        }
    }
}

impl Store {
    /// The limit of ticks and roll-ups together. Beyond it, the oldest are deleted.
    pub fn bytes_for_ticks(&self) -> u64 {
        self.size.0 / 4 * 3
    }

    /// The limit of jobs and imported files together. Beyond it, new ones are refused, so that they never displace ticks.
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

impl<'de> Deserialize<'de> for Store {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let store = Self::deserialize(deserializer)?;
        if store.ticks > store.minutes {
            return Err(D::Error::custom(
                "expected ticks <= minutes, since sums are stored for longer",
            ));
        }
        if store.size < SMALLEST_STORE {
            let found = store.size.0;
            return Err(D::Error::custom(format!(
                "`size`: expected at least \"32MiB\", but found {found} bytes"
            )));
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
            count
                .trim()
                .parse::<u32>()
                .ok()?
                .checked_mul(days)
                .filter(|days| (1..=36_500).contains(days))
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
            text.trim()
                .strip_suffix(unit)?
                .trim()
                .parse::<u64>()
                .ok()?
                .checked_mul(bytes)
        });
        size.map(Self).ok_or_else(|| {
            format!("expected a whole number of MiB, GiB, MB or GB such as \"1GiB\", but found \"{text}\"")
        })
    }
}
