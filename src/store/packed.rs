//! How a tick is packed into one blob: numbers of devices and volumes, and small integers of variable length.

use serde::{Deserialize, Serialize};

use crate::interval::copying::Share;
use crate::interval::estimate::Estimate;
use crate::interval::{Host, Work};
use crate::topology::{State, VolumeState};
use crate::units::Fill;

/// What a tick holds. Changing its shape needs a migration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Packed {
    /// The device's row, and what it did.
    pub devices: Vec<(i64, PackedWork)>,
    pub volumes: Vec<(i64, PackedState)>,
    pub host: Host,
}

/// What only some ticks hold. Changing its shape needs a migration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct More {
    /// The PV's row, and the part of its work that was copying for snapshots.
    pub copying: Vec<(i64, Share)>,
    /// The volume's row, and how full it probably was.
    pub estimates: Vec<(i64, Estimate)>,
}

impl More {
    /// `None` where there is nothing to keep.
    pub fn to_bytes(&self) -> anyhow::Result<Option<Vec<u8>>> {
        if self == &Self::default() {
            return Ok(None);
        }
        Ok(Some(postcard::to_stdvec(self)?))
    }

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

impl From<Option<Work>> for PackedWork {
    fn from(work: Option<Work>) -> Self {
        match work {
            None => Self::Gap,
            Some(work) if work == Work::default() => Self::Nothing,
            Some(work) => Self::Work(work),
        }
    }
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

impl From<VolumeState> for PackedState {
    fn from(volume: VolumeState) -> Self {
        Self { fill: volume.fill, metadata: volume.metadata, state: volume.state }
    }
}

impl From<PackedState> for VolumeState {
    fn from(packed: PackedState) -> Self {
        Self { fill: packed.fill, metadata: packed.metadata, sync: None, state: packed.state }
    }
}

impl Packed {
    pub fn to_bytes(&self) -> anyhow::Result<Vec<u8>> {
        Ok(postcard::to_stdvec(self)?)
    }

    pub fn of_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        Ok(postcard::from_bytes(bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Sectors;

    #[test]
    fn a_tick_comes_back_as_it_was_and_an_idle_device_is_small() {
        let work = Work { reads: 1 << 40, sectors_read: Sectors(u64::MAX), ..Work::default() };
        let idle = (3, Some(Work::default()).into());
        let busy = (4, Some(work).into());
        let fill = Some(Fill { used: 41_136, total: 131_072, unit: 512 });
        let state = PackedState { fill, metadata: None, state: State::Invalid };
        let packed = Packed {
            devices: vec![idle, busy, (5, None.into())],
            volumes: vec![(1, state)],
            ..Packed::default()
        };
        let bytes = packed.to_bytes().unwrap();
        assert_eq!(Packed::of_bytes(&bytes).unwrap(), packed);
        assert_eq!(Option::<Work>::from(packed.devices[1].1), Some(work));
        assert!(bytes.len() < 64, "{} bytes", bytes.len());
    }
}
