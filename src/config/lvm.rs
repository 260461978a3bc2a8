//! `[lvm]`: where volume data comes from.

use serde::Deserialize;

/// Settings for reading volumes.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Lvm {
    pub source: LvmSource,
}

/// The source of volumes, their usage and their groups.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LvmSource {
    /// The device-mapper at every tick, and LVM after changes and every minute. If the device-mapper does not answer,
    /// LVM reports usage every 10 s.
    #[default]
    Auto,
    /// The device-mapper only; `lvm` never runs.
    Dm,
    /// LVM only, every 10 s, for hosts that forbid device-mapper ioctls.
    Lvs,
}

impl LvmSource {
    pub fn uses_dm(self) -> bool {
        self != Self::Lvs
    }

    pub fn uses_lvm(self) -> bool {
        self != Self::Dm
    }
}
