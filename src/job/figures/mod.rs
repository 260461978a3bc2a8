//! What a job cost, in figures: computed from its course, also while it runs.
//!
//! Figures of reading cover the time from the first read to the last, so that waiting for a lock does not make a backup
//! slow. Means are over time; medians and percentiles are over ticks. Unknown is `None`.

mod bodies;
mod phases;
mod summary;

pub use bodies::{
    CopyFigures, CurvePoint, EndMeans, Figures, FillFigures, HostShares, OriginPhases, OriginWork, PvWork,
    ReadFigures,
};
pub use phases::{PhasePv, PhaseTimes, PhaseWork};

#[cfg(test)]
mod tests;
