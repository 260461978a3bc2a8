//! The figures of a job, computed from its course, also while it runs.
//!
//! Figures of reading cover the time from the first read to the last, without waiting for a lock. Means are over time;
//! medians and percentiles are over ticks.

mod bodies;
mod phases;
mod summary;

pub use bodies::{
    CopyFigures, CurvePoint, EndMeans, Figures, FillFigures, HostShares, OriginPhases, OriginWork, PvWork,
    ReadFigures,
};
pub use phases::{PhasePv, PhaseWork};

#[cfg(test)]
mod tests;
