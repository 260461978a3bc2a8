//! Creates and deletes regions of statistics: the only change that cowbell makes to a device. Only `cowbell size` does it,
//! and never the daemon or its reader.
//!
//! Creating a region suspends the device inside the kernel until its requests are complete, usually for milliseconds. If
//! the storage does not answer, the caller waits in the kernel and cannot be killed.

use std::fmt;
use std::fs::File;

use rustix::io::Errno;

use super::call::Buffer;
use super::stats::{PROGRAM, StatsReader};

/// Messages that change the statistics of a device.
enum Change<'a> {
    /// A region of the whole device.
    Create {
        step: u64,
        created: &'a str,
    },
    Delete {
        id: u64,
    },
}

impl fmt::Display for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { step, created } => write!(f, "@stats_create - {step} {PROGRAM} {created}"),
            Self::Delete { id } => write!(f, "@stats_delete {id}"),
        }
    }
}

/// Creates a region of the whole device with areas of `step` sectors; returns its number. `created` is one word. Errors:
/// `ENOMEM` if the kernel refuses the memory, `EINVAL` if it has no statistics, `ENXIO` if the device is gone.
pub fn create(control: &File, device: u64, step: u64, created: &str) -> Result<u64, Errno> {
    let mut buffer = Buffer::default();
    let response = buffer.message(control, device, &Change::Create { step, created }.to_string())?;
    response.answer().trim().parse().map_err(|_| Errno::PROTO)
}

/// Deletes a region of cowbell.
pub fn delete(control: &File, device: u64, id: u64) -> Result<(), Errno> {
    Buffer::default().message(control, device, &Change::Delete { id }.to_string()).map(drop)
}

/// Deletes cowbell's regions on a device; returns their number.
pub fn delete_all(control: &File, device: u64) -> Result<usize, Errno> {
    let regions = StatsReader::default().regions(control, device)?.regions;
    for region in &regions {
        match delete(control, device, region.id) {
            // Another process deleted it.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(regions.len())
}
