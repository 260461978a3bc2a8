//! What a job cost, in figures: made from its course, once it is over or while it runs.
//!
//! Everything about reading is of the stretch in which the job read, so that a backup that waits for a lock first is no
//! slow one. Means are over time; medians and percentiles are over ticks. What is not known is `None`.

mod bodies;
mod phases;
mod summary;

pub use bodies::{
    Copied, CurvePoint, Ends, Figures, Filled, HostShares, OriginPhases, OriginWork, PvWork, ReadFigures,
};
pub use phases::{PhasePv, PhaseTimes, PhaseWork};

#[cfg(test)]
mod tests;
