//! A rule, and the volume that it is evaluated for.

use std::sync::Arc;

use jiff::Timestamp;

use super::trend::Forecast;
use super::{Clock, Rule, Situation};
use crate::topology::{Volume, VolumeState};
use crate::units::Fill;

pub(super) struct Case<'a> {
    pub rule: Rule,
    pub volume: &'a Volume,
    pub state: &'a VolumeState,
    /// `None` if its fill is unknown.
    pub forecast: &'a Option<Arc<Forecast>>,
    pub now: &'a Situation<'a>,
    pub clock: Clock,
}

impl Case<'_> {
    /// The fill that the rule is about.
    pub fn fill(&self) -> Option<Fill> {
        match self.rule {
            Rule::PoolMetadata => self.state.metadata,
            Rule::SnapshotFill | Rule::PoolData | Rule::TimeUntilFull | Rule::FullBeforeDone => {
                self.state.fill
            }
            _ => None,
        }
    }

    pub fn age_s(&self, since: Timestamp) -> f64 {
        self.clock.age_s(since, self.now.interval.at)
    }

    /// The number of the job that it concerns: the backup that reads the volume, or the snapshot's own job.
    pub fn job(&self) -> Option<i64> {
        let backup = self.forecast.as_ref().and_then(|forecast| forecast.job());
        let own = || {
            let is_its = |key: &str| *self.volume.uuid == *key;
            let mut running = self.now.jobs.running().iter();
            let running = running.find(|job| is_its(&job.key)).map(|job| job.id);
            let ended = || {
                self.now
                    .jobs
                    .ended()
                    .iter()
                    .rev()
                    .find(|job| is_its(&job.key))
                    .map(|job| job.id)
            };
            running.or_else(ended)
        };
        backup.or_else(own)
    }
}
