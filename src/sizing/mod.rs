//! How large a snapshot's COW area has to be, by the age that the snapshot reaches.
//!
//! A snapshot copies each chunk of its origin at the first write after it was made. So a snapshot of age T needs the
//! chunks that were written at least once within T, however often. Two sources tell how many: finished snapshots of the
//! origin, and device-mapper statistics, which count the areas that were written; on a large volume, in a part of it. Functions
//! of their arguments.

mod advice;
mod advise;
mod areas;
mod curve;
mod hours;
mod known;
mod mapped;
mod measured;
pub mod placement;
pub mod probes;
mod question;
#[cfg(test)]
mod tests;
mod text;

pub use advice::{CurvePoint, HourRow, Hours, Planned, Risk, SizeAdvice, SizeRow};
pub use advise::{advise, next_snapshot};
pub use areas::Areas;
pub use curve::{ChunkCurve, Curve};
pub use mapped::Mapped;
pub use measured::{Measured, MeasuredVolumes, Now, OLDEST_CURVE, Tracker};
pub use question::Question;

/// The chunk sizes that a curve has, as far as they are multiples of the measured areas.
pub const CHUNKS: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10];
