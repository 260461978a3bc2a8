//! What a job's snapshot, its origin and the machine were like: what does not change while it runs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a snapshot keeps what is overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotKind {
    /// Copies it into a COW area of its own, of fixed size.
    Thick,
    /// Shares a pool with its origin.
    Thin,
}

/// What is known of a job besides its course. The default knows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Setup {
    pub kind: Option<SnapshotKind>,
    /// What is copied at once.
    pub chunk_bytes: Option<u64>,
    /// Of the COW area.
    pub cow_bytes: Option<u64>,
    pub origin_bytes: Option<u64>,
    /// Thick snapshots that the origin had in that time, this one too.
    pub snapshots: Option<u32>,
    /// On which the origin lies.
    pub origin_pvs: Option<Vec<String>>,
    /// On which the COW area lies.
    pub cow_pvs: Option<Vec<String>>,
    pub processors: Option<u32>,
}

impl Setup {
    pub fn is_thick(&self) -> bool {
        self.kind == Some(SnapshotKind::Thick)
    }

    /// Whether the origin, and whether the COW area, lies on this PV; `None` where that is not known.
    pub fn carries(&self, pv: &str) -> (Option<bool>, Option<bool>) {
        let is_among = |pvs: &Option<Vec<String>>| pvs.as_ref().map(|pvs| pvs.iter().any(|name| name == pv));
        (is_among(&self.origin_pvs), is_among(&self.cow_pvs))
    }
}
