//! `[lvm]`: who is asked about volumes.

use serde::Deserialize;

/// How LVM is looked at.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub struct Lvm {
    pub source: LvmSource,
}

/// Who is asked about volumes, their fills and their groups.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LvmSource {
    /// The device-mapper at every tick, and LVM on change and each minute; where the device-mapper does not answer,
    /// LVM tells of fills every 10 s.
    #[default]
    Auto,
    /// The device-mapper alone: no `lvm` is run.
    Dm,
    /// LVM alone, every 10 s, for hosts where the device-mapper may not be asked.
    Lvs,
}

impl LvmSource {
    pub fn asks_dm(self) -> bool {
        self != Self::Lvs
    }

    pub fn asks_lvm(self) -> bool {
        self != Self::Dm
    }
}
