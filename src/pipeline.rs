//! A reading into what happened since the one before: reading → sample → topology → interval.
//!
//! The daemon, the tests and the benches all take this way, so that a test measures what the program does.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::interval::{Interval, Observed};
use crate::sample::{PartState, Sampler};
use crate::source::{Part, Reading};
use crate::topology::Topology;

/// Turns readings into intervals, in the order of time.
#[derive(Default)]
pub struct Observer {
    sampler: Sampler,
    before: Option<Observed>,
}

impl Observer {
    /// Takes a tick. The topology is made anew only where the devices or LVM's report changed.
    pub fn observe(&mut self, reading: &Reading) -> Interval {
        let sample = self.sampler.sample(reading);
        let topology = match &self.before {
            Some(before) if sample.devices.is_none() || Topology::still_holds(&before.sample, &sample) => {
                Arc::clone(&before.topology)
            }
            _ => Arc::new(Topology::of(&sample)),
        };
        let now = Observed { sample, topology };
        let interval = Interval::between(self.before.as_ref(), &now);
        self.before = Some(now);
        interval
    }

    /// How each part of the last readings did.
    pub fn parts(&self) -> &BTreeMap<Part, PartState> {
        self.sampler.parts()
    }
}
