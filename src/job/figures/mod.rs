//! The figures of a job, computed from its time series, also while it runs.
//!
//! Figures of reading cover the time from the first read to the last, without waiting for a lock. Means are over time;
//! medians and percentiles are over ticks.

mod phases;
mod summary;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::statistics::{Relation, Spread};
pub use phases::{PhasePv, PhaseWork};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figures {
    /// The job's duration; while it runs, until its last tick.
    pub seconds: Option<f64>,
    /// `None` if no reads from the snapshot were observed.
    pub read: Option<ReadFigures>,
    /// For a job without a snapshot: writes to all disks.
    pub written: Option<WriteFigures>,
    /// KiB a second paged in.
    pub bi: Option<Spread>,
    /// KiB a second paged out.
    pub bo: Option<Spread>,
    pub fill: Option<FillFigures>,
    pub copied: CopyFigures,
    /// Read speed by fill: bytes a second per percentage point.
    pub read_by_fill: Relation,
    /// Read speed by the rate of first writes: bytes per byte.
    pub read_by_first_writes: Relation,
    /// The rank correlation of fill and elapsed time. Near 1, fill and time cannot be told apart.
    pub fill_by_time: Option<f64>,
    pub pvs: Vec<PvWork>,
    pub origin: OriginPhases,
    /// In order of time.
    pub phases: Vec<PhaseWork>,
    pub host: HostShares,
    /// Read speed, fill and first writes in at most 480 points.
    pub curve: Vec<CurvePoint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReadFigures {
    pub bytes: f64,
    /// The time of reading, without the first and last thousandth of the bytes.
    pub seconds: f64,
    /// The share of that time for which the speed is known.
    pub known_share: f64,
    /// Bytes a second.
    pub speed: Spread,
    /// Bytes a second.
    pub ends: Option<EndMeans>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WriteFigures {
    pub bytes: f64,
    /// Bytes a second, from the first tick with I/O to the last.
    pub speed: Spread,
    /// Bytes a second.
    pub ends: Option<EndMeans>,
}

/// Means of the first and last tenth of the time of reading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EndMeans {
    pub first: f64,
    pub last: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FillFigures {
    pub peak_percent: f64,
    /// Of the COW area; `None` if its size is unknown.
    pub peak_bytes: Option<u64>,
    /// Percent.
    pub ends: Option<EndMeans>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CopyFigures {
    /// Bytes a second of chunks that were copied at their first write.
    pub first_writes: Option<Spread>,
    pub chunks_per_s: Option<f64>,
    /// Copies and metadata written to the COW area.
    pub cow_bytes: Option<f64>,
    /// Bytes written to disks per byte written to the origin.
    pub write_cost: Option<f64>,
}

/// A PV's I/O while the snapshot was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PvWork {
    pub name: String,
    pub carries_origin: Option<bool>,
    pub carries_cow: Option<bool>,
    pub read_bytes_per_s: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
    /// From 0 to 1.
    pub utilisation: Option<f64>,
    pub read_await_ms: Option<EndMeans>,
    pub read_request_bytes: Option<EndMeans>,
}

impl PvWork {
    /// Whether it carries both the origin and the COW area.
    pub fn is_shared(&self) -> bool {
        self.carries_origin == Some(true) && self.carries_cow == Some(true)
    }
}

/// The origin's I/O before, with and after the snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OriginPhases {
    pub before: OriginWork,
    pub during: OriginWork,
    pub after: OriginWork,
}

/// Sizes and latencies are means per request; `None` without writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OriginWork {
    pub read_bytes_per_s: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
    pub writes_per_s: Option<f64>,
    pub write_request_bytes: Option<f64>,
    pub write_await_ms: Option<f64>,
}

/// Shares of time from 0 to 1 while the snapshot was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostShares {
    /// Of all processors together.
    pub user: Option<f64>,
    pub system: Option<f64>,
    pub iowait: Option<f64>,
    /// With at least one process waiting for I/O.
    pub pressure_io: Option<f64>,
}

/// Means of consecutive ticks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CurvePoint {
    /// Seconds from the job's start to the end of these ticks.
    pub end_s: f64,
    pub read_bytes_per_s: Option<f64>,
    pub fill_percent: Option<f64>,
    pub first_writes_bytes_per_s: Option<f64>,
}
