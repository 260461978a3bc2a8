//! How large a snapshot's COW area has to be, by the age that the snapshot reaches.
//!
//! A snapshot copies each chunk of its origin at the first write after it was made. So a snapshot of age T needs the
//! chunks that were written at least once within T, however often. Two sources tell how many: finished snapshots of the
//! origin, and device-mapper statistics, which count the areas that were written; on a large volume, in a part of it. Functions
//! of their arguments.

mod advice;
mod advise;
mod hours;
mod known;
mod measured;
mod question;
#[cfg(test)]
mod tests;
mod text;

pub use cowbell_touched::{Areas, CHUNKS, ChunkCurve, Curve, MappedVolume};

pub use advice::{CurvePoint, HourRow, Hours, Planned, Risk, SizeAdvice, SizeRow};
pub use advise::{advise, next_snapshot};
pub use measured::{Measured, MeasuredVolumes, Now, OLDEST_CURVE, Tracker};
pub use question::Question;
