//! What is known at this moment: made by the loop after each tick, for whoever wants to show it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::alert::Alert;
use crate::config;
use crate::interval::Interval;
use crate::job::Job;
use crate::job::finish::{Outlook, Room, outlook};
use crate::job::rates::{RecentRates, overflows};
use crate::job::remaining::{PastRuns, RemainingReads};
use crate::sample::PartState;
use crate::source::Part;
use crate::source::dm::usage_unknown;
use crate::store::Health;
use crate::tally::Tallies;
use crate::topology::{State, Volume, VolumeKind, VolumeState};

/// Ticks are fresh for three intervals, and never for less than this.
const LEAST_FRESHNESS: Duration = Duration::from_secs(3);

/// What is known at this moment, for whoever wants to show it.
#[derive(Clone, Debug)]
pub struct Present {
    pub host: String,
    pub started_at: Timestamp,
    pub interval_length: Duration,
    pub interval: Arc<Interval>,
    /// The levels at which alerts are raised.
    pub thresholds: config::Alerts,
    pub tallies: Arc<Tallies>,
    /// Jobs that run, and the last ones that ended.
    pub jobs: Vec<Arc<Job>>,
    /// How fast snapshots that live were read and filled of late.
    pub recent_rates: Arc<RecentRates>,
    pub alerts: Vec<Alert>,
    pub ticks: Ticks,
    pub parts: BTreeMap<Part, PartState>,
    pub store: Health,
    /// For how long what was seen is kept.
    pub keep: config::Store,
    /// What somebody should know of how this program was set up: a sentence each.
    pub notes: Vec<String>,
    /// Ticks, jobs and alerts that could not be kept since the start.
    pub lost: u64,
    /// When the tick was published, on this program's clock.
    pub published: Instant,
    /// Set when a recording is at its end; then nothing more comes.
    pub ended: Option<String>,
}

/// How sampling goes.
#[derive(Clone, Debug, Default)]
pub struct Ticks {
    pub taken: u64,
    /// Whole intervals without a reading.
    pub missed: u64,
    pub took_us: Percentiles,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Percentiles {
    pub p50: u64,
    pub p99: u64,
}

impl Present {
    /// The job that a snapshot's life is.
    pub fn job_of(&self, volume: &Volume) -> Option<&Job> {
        self.jobs.iter().map(Arc::as_ref).find(|job| job.is_running() && job.key == *volume.uuid)
    }

    /// Why the usage of a snapshot or pool is unknown, in a sentence; LVM's report may know it where the kernel does not.
    pub fn why_usage_is_unknown(&self, volume: &Volume, state: &VolumeState) -> Option<String> {
        let error = self.parts.get(&Part::Dm)?.error.as_deref()?;
        (volume.kind.fills() && state.state == State::Unknown).then(|| usage_unknown(error))
    }

    /// All parts in the order in which they are read, and how they did; `None` of one that has not answered yet.
    pub fn parts_in_order(&self) -> impl Iterator<Item = (Part, Option<&PartState>)> {
        let parts = Part::ALL.into_iter().map(|part| (part, self.parts.get(&part)));
        // A recording of before it was read has none, and lacks nothing.
        parts.filter(|(part, state)| *part != Part::Usage || state.is_some())
    }

    /// What can be expected of a snapshot's job that runs; `None` of one that is over, or whose snapshot is dead. Takes
    /// milliseconds.
    pub fn outlook(&self, job: &Job) -> Option<Outlook> {
        let snapshot = self.interval.topology.volume(&job.key)?;
        if !job.is_running() || job.died_at.is_some() {
            return None;
        }
        let ended = self.jobs.iter().rev().map(Arc::as_ref).filter(|other| !other.is_running());
        let left = RemainingReads::of(job, &PastRuns::of(job, ended));
        Some(outlook(left, overflows(&self.interval, snapshot).and_then(room), &self.recent_rates.of(job.id)))
    }

    /// Whether LVM's dmeventd watches snapshots here, and unmounts those that die.
    pub fn is_monitored(&self) -> bool {
        self.interval.policies.is_some_and(|policies| policies.monitoring && policies.dmeventd)
    }

    /// Whether ticks come as they should. A recording that is at its end is not late.
    pub fn is_fresh(&self) -> bool {
        self.ended.is_some() || self.published.elapsed() < LEAST_FRESHNESS.max(self.interval_length * 3)
    }
}

fn room((volume, state): (&Volume, &VolumeState)) -> Option<Room> {
    let fill = state.fill.filter(|fill| fill.unit > 0)?;
    Some(Room {
        name: format!("{} {}", volume.kind.text(), volume.full_name()),
        is_pool: volume.kind == VolumeKind::ThinPool,
        free_bytes: fill.total_bytes().saturating_sub(fill.used_bytes()),
    })
}
