//! The figures of a job, with their units.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::phases::PhaseWork;
use crate::job::statistics::{Relation, Spread};

/// What a job cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Figures {
    /// From the job's start to its end; while it runs, to the end of its last tick.
    pub seconds: Option<f64>,
    /// `None` if nothing was read from the snapshot, or it is not known.
    pub read: Option<ReadFigures>,
    /// Of a job without a snapshot: what all disks wrote.
    pub written: Option<WriteFigures>,
    /// KiB a second paged in.
    pub bi: Option<Spread>,
    /// KiB a second paged out.
    pub bo: Option<Spread>,
    pub fill: Option<FillFigures>,
    pub copied: CopyFigures,
    /// Read speed by fill: bytes a second for each percentage point.
    pub read_by_fill: Relation,
    /// Read speed by the rate of first writes: bytes for each byte.
    pub read_by_first_writes: Relation,
    /// The rank correlation of fill and elapsed time. Near 1, fill and time cannot be told apart.
    pub fill_by_time: Option<f64>,
    pub pvs: Vec<PvWork>,
    pub origin: OriginPhases,
    /// What each phase did, in the order of time; empty if the job has none.
    pub phases: Vec<PhaseWork>,
    pub host: HostShares,
    /// Read speed, fill and first writes side by side, at most 480 points.
    pub curve: Vec<CurvePoint>,
}

/// What was read from the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReadFigures {
    pub bytes: f64,
    /// The time of reading, without the first and the last thousandth of the bytes.
    pub seconds: f64,
    /// The share of that time in which the speed is known.
    pub known_share: f64,
    /// Bytes a second.
    pub speed: Spread,
    /// Bytes a second.
    pub ends: Option<EndMeans>,
}

/// What was written while a command ran.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct WriteFigures {
    pub bytes: f64,
    /// Bytes a second, from the first tick with I/O to the last.
    pub speed: Spread,
    /// Bytes a second.
    pub ends: Option<EndMeans>,
}

/// The mean of the first tenth of the time of reading, and of the last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EndMeans {
    pub first: f64,
    pub last: f64,
}

/// How full the snapshot became.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FillFigures {
    pub peak_percent: f64,
    /// Of the COW area; `None` if its size is not known.
    pub peak_bytes: Option<u64>,
    pub growth_percent_per_hour: Option<f64>,
    /// Percent.
    pub ends: Option<EndMeans>,
}

/// What the snapshot cost in copying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CopyFigures {
    /// Bytes a second of chunks that were written for the first time.
    pub first_writes: Option<Spread>,
    pub chunks_per_s: Option<f64>,
    /// Written to the COW area: copies and their metadata.
    pub cow_bytes: Option<f64>,
    /// Bytes written to disks for each byte written to the origin.
    pub write_cost: Option<f64>,
}

/// What a PV did while the snapshot was read.
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

/// What the snapshot cost production: the origin's work before it, with it, and after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OriginPhases {
    pub before: OriginWork,
    pub during: OriginWork,
    pub after: OriginWork,
}

/// Sizes and latencies are means per request; `None` if nothing was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OriginWork {
    pub read_bytes_per_s: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
    pub writes_per_s: Option<f64>,
    pub write_request_bytes: Option<f64>,
    pub write_await_ms: Option<f64>,
}

/// Shares of time from 0 to 1, while the snapshot was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HostShares {
    /// Of all processors together.
    pub user: Option<f64>,
    pub system: Option<f64>,
    pub iowait: Option<f64>,
    /// In which at least one process waited for I/O.
    pub pressure_io: Option<f64>,
}

/// The means of some neighbouring ticks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CurvePoint {
    /// From the job's start to the end of the last of these ticks.
    pub end_s: f64,
    pub read_bytes_per_s: Option<f64>,
    pub fill_percent: Option<f64>,
    pub first_writes_bytes_per_s: Option<f64>,
}
