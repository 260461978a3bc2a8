//! Creates and deletes regions of statistics: the only change that cowbell makes to a device. Only `cowbell size` does it,
//! and never the daemon or its reader.
//!
//! Creating a region suspends the device inside the kernel until its requests are complete, usually for milliseconds. If
//! the storage does not answer, the caller waits in the kernel and cannot be killed.

use std::fmt;
use std::fs::File;
use std::str::FromStr;

use rustix::io::Errno;

use super::call::Buffer;
use super::label::Label;
use super::stats::{PROGRAM, RegionEntry, StatsReader};

/// A region to create. All sizes are in sectors.
#[derive(Clone, Debug)]
pub struct NewRegion {
    pub place: Place,
    /// The size of an area.
    pub step: u64,
    pub label: Label,
}

/// Where a region is, in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    WholeDevice,
    Extent { start: u64, length: u64 },
}

/// The kernel's word: `-`, or `START+LENGTH`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WholeDevice => f.write_str("-"),
            Self::Extent { start, length } => write!(f, "{start}+{length}"),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let extent = || {
            let (start, length) = word.split_once('+')?;
            Some(Self::Extent {
                start: start.parse().ok()?,
                length: length.parse().ok()?,
            })
        };
        let whole = (word == "-").then_some(Self::WholeDevice);
        whole
            .or_else(extent)
            .ok_or_else(|| format!("expected - or START+LENGTH, but found {word:?}"))
    }
}

/// Messages that change the statistics of a device.
enum Change<'a> {
    Create(&'a NewRegion),
    Delete { id: u64 },
}

impl fmt::Display for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(NewRegion { place, step, label }) => {
                write!(f, "@stats_create {place} {step} {PROGRAM} {label}")
            }
            Self::Delete { id } => write!(f, "@stats_delete {id}"),
        }
    }
}

/// Creates a region; returns its number. Errors: `ENOMEM` if the kernel refuses the memory, `EINVAL` if it has no
/// statistics, `ENXIO` if the device is gone.
pub fn create(control: &File, device: u64, region: &NewRegion) -> Result<u64, Errno> {
    let mut buffer = Buffer::default();
    let response = buffer.message(control, device, &Change::Create(region).to_string())?;
    response.answer().trim().parse().map_err(|_| Errno::PROTO)
}

/// Deletes a region of cowbell.
pub fn delete(control: &File, device: u64, id: u64) -> Result<(), Errno> {
    Buffer::default()
        .message(control, device, &Change::Delete { id }.to_string())
        .map(drop)
}

/// Deletes cowbell's regions on a device, as far as they are meant; returns their number.
pub fn delete_all(
    control: &File,
    device: u64,
    is_meant: fn(&RegionEntry) -> bool,
) -> Result<usize, Errno> {
    let mut regions = StatsReader::default().regions(control, device)?.regions;
    regions.retain(is_meant);
    for region in &regions {
        match delete(control, device, region.id) {
            // Another process deleted it.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(regions.len())
}
