//! Turns a reading into the interval since the previous one: reading → sample → topology → interval.
//!
//! Daemon, tests and benches all use it, so tests measure what the daemon does.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::interval::{Accounting, Interval, SampledMachine};
use crate::sample::{PartState, Sampler};
use crate::source::{Part, Reading};
use crate::topology::Topology;

/// Turns consecutive readings into intervals.
#[derive(Default)]
pub struct Observer {
    sampler: Sampler,
    before: Option<SampledMachine>,
    accounting: Accounting,
}

impl Observer {
    /// Processes one tick. The topology is rebuilt only if devices, mounts or LVM's report changed.
    pub fn observe(&mut self, reading: &Reading) -> Interval {
        let sample = self.sampler.sample(reading);
        let topology = match &self.before {
            Some(before)
                if sample.devices.is_none() || Topology::is_unchanged(&before.sample, &sample) =>
            {
                Arc::clone(&before.topology)
            }
            _ => Arc::new(Topology::of(&sample)),
        };
        let now = SampledMachine { sample, topology };
        let interval = Interval::between(self.before.as_ref(), &now, &mut self.accounting);
        self.before = Some(now);
        interval
    }

    /// The last result of each part.
    pub fn parts(&self) -> &BTreeMap<Part, PartState> {
        self.sampler.parts()
    }
}
