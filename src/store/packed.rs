//! How versions 1 and 2 packed a tick into one blob, to be read once more and turned into segments.

use serde::{Deserialize, Serialize};

use crate::interval::copying::Share;
use crate::interval::{Host, Work};
use crate::topology::{State, VolumeState};
use crate::units::Fill;

/// What a tick of those versions holds; its shape never changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Packed {
    /// The device's row, and what it did.
    pub devices: Vec<(i64, PackedWork)>,
    pub volumes: Vec<(i64, PackedState)>,
    pub host: Host,
}

/// What only some ticks hold; what follows it is not read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct More {
    /// The PV's row, and the part of its work that was copying for snapshots.
    pub copying: Vec<(i64, Share)>,
}

impl More {
    pub fn of_bytes(bytes: Option<&[u8]>) -> anyhow::Result<Self> {
        Ok(bytes.map(postcard::from_bytes).transpose()?.unwrap_or_default())
    }
}

/// What a device did. Most do nothing most of the time, and that is one byte.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum PackedWork {
    Gap,
    Nothing,
    Work(Work),
}

impl From<PackedWork> for Option<Work> {
    fn from(packed: PackedWork) -> Self {
        match packed {
            PackedWork::Gap => None,
            PackedWork::Nothing => Some(Work::default()),
            PackedWork::Work(work) => Some(work),
        }
    }
}

/// [`VolumeState`] as it is kept: all but how much of a mirror is in step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackedState {
    fill: Option<Fill>,
    metadata: Option<Fill>,
    state: State,
}

impl From<PackedState> for VolumeState {
    fn from(packed: PackedState) -> Self {
        Self { fill: packed.fill, metadata: packed.metadata, sync: None, state: packed.state }
    }
}

impl Packed {
    pub fn of_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        Ok(postcard::from_bytes(bytes)?)
    }
}
