//! `[alerts]`: the percentages that raise an alert.

use serde::Deserialize;
use serde::de::{Deserializer, Error};

/// Thresholds in percent for snapshots and thin pools.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Alerts {
    pub snapshot_fill: Thresholds,
    pub pool_data: Thresholds,
    pub pool_metadata: Thresholds,
}

/// Two thresholds in percent, the warning below the critical one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Thresholds {
    pub warning: f64,
    pub critical: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { warning: 70.0, critical: 85.0 }
    }
}

impl<'de> Deserialize<'de> for Thresholds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Self { warning, critical } = Self::deserialize(deserializer)?;
        if 0.0 < warning && warning < critical && critical <= 100.0 {
            return Ok(Self { warning, critical });
        }
        Err(D::Error::custom(format!(
            "expected percentages with 0 < warning < critical <= 100, but found warning = {warning}, critical = {critical}"
        )))
    }
}
