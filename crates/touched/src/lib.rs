//! Which parts of a volume are written to, and so how large a snapshot of it would be, before there is one.
//!
//! A snapshot copies each chunk of its origin at the first write after it was made. So a snapshot of age T needs the
//! chunks that were written at least once within T, however often. The kernel counts writes to areas of a device
//! (`Documentation/admin-guide/device-mapper/statistics.rst`), and what it counts gives that number for every age at once:
//!
//! ```text
//! plan → statistics (regions in the kernel) → text, once a minute → areas or map → curve: chunks by age, by chunk size
//! ```
//!
//! - [`plan`]: what can be counted with the kernel memory that is allowed. Each area costs some hundred bytes. A small
//!   volume has all of its chunks counted. A large one has a map of large areas, and 32 probes with single chunks, and
//!   `plan` chooses where the probes are.
//! - [`statistics`] creates, reads and deletes regions, and [`label`] names each by its role and time. The kernel keeps the
//!   label, so a program that starts later finds all that it needs.
//! - [`text`]: what was written since the reading before, as text, so that it can be recorded and played again.
//! - [`Areas`]: the minute in which each chunk was last written. All ages follow from it.
//! - [`MappedVolume`]: the writes to the areas of a map, which [`estimate`] corrects by what the probes found, with an interval.
//! - [`curve`]: the result, which is stored each hour.
//!
//! Only `statistics` and [`text::read`] use the kernel; all else are functions of their arguments.

pub mod curve;
pub mod estimate;
pub mod label;
mod map;
pub mod plan;
pub mod statistics;
pub mod text;

pub use curve::{AGES_MIN, Areas, ChunkCurve, Curve, Growth, cow_bytes};
pub use map::MappedVolume;

/// The chunk sizes that a curve has, as far as they are multiples of the measured areas.
pub const CHUNKS: [u64; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 512 << 10];
