//! How large a snapshot's COW area has to be, by the age that the snapshot reaches. Nothing else computes such a size.
//!
//! A snapshot copies each chunk of its origin at the first write after it was made. So a snapshot of age T needs the
//! chunks that were written at least once within T, however often. Two sources tell how many: finished snapshots of the
//! origin, and device-mapper statistics, which count the areas that were written; on a large volume, in a part of it. Functions
//! of their arguments.

mod advice;
mod hours;
mod measured;
mod needs;
mod request;
#[cfg(test)]
mod tests;

pub use cowbell_touched::{Areas, CHUNKS, ChunkCurve, Curve, MappedVolume, cow_bytes};

pub use advice::{SizeAdvice, advise, next_snapshot};
pub use hours::{HourRow, Hours};
pub use measured::{Measured, MeasuredVolumes, Now, OLDEST_CURVE, Tracker};
pub use needs::{PlannedSize, SizePoint, SizeRisk, SizeRow};
pub use request::SizingRequest;

use crate::job::growth::DEFAULT_CHUNK;
use cowbell_touched::curve::BYTES_OF_AN_EXCEPTION;

/// The size of a COW area that holds every chunk of its origin. Source: dm-snap-persistent.c.
///
/// An origin of 100 MiB with chunks of 4 KiB: 25,600 chunks, 101 with their exceptions, 256 in each, and the header.
pub fn never_overflows(origin_bytes: u64, chunk: Option<u64>) -> u64 {
    let chunk = chunk
        .filter(|chunk| *chunk >= BYTES_OF_AN_EXCEPTION)
        .unwrap_or(DEFAULT_CHUNK);
    cow_bytes(origin_bytes.div_ceil(chunk), chunk)
}
