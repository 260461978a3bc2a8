//! The program's way from a reading to what happened, without what it keeps and shows: for tests of the figures
//! themselves, and of what no test could wait for.

use std::sync::Arc;

use cowbell::interval::estimate::Estimator;
use cowbell::interval::{Interval, Observed};
use cowbell::sample::Sampler;
use cowbell::source::{Part, Reading, Said, Text};
use cowbell::topology::{Topology, Volume, VolumeState};

use crate::tape::BEGIN;

#[derive(Default)]
pub struct Observer {
    pub sampler: Sampler,
    before: Option<Observed>,
    estimator: Estimator,
}

impl Observer {
    pub fn take(&mut self, reading: &Reading) -> Interval {
        let sample = self.sampler.sample(reading);
        let topology = match &self.before {
            Some(before) if sample.devices.is_none() || Topology::still_holds(&before.sample, &sample) => {
                Arc::clone(&before.topology)
            }
            _ => Arc::new(Topology::of(&sample)),
        };
        let now = Observed { sample, topology };
        let mut interval = Interval::between(self.before.as_ref(), &now);
        self.estimator.advance(&mut interval);
        self.before = Some(now);
        interval
    }

    /// What the last reading's text of this part was not understood for.
    pub fn complaint(&self, part: Part) -> Option<&str> {
        self.sampler.parts().get(&part)?.error.as_deref()
    }
}

/// A reading so many seconds after the beginning.
pub fn reading(seconds: f64, texts: Vec<(Part, Said)>) -> Reading {
    let texts = texts.into_iter().map(|(part, said)| Text { part, said, took_us: 10 });
    Reading {
        at: BEGIN + jiff::SignedDuration::from_secs_f64(seconds),
        uptime_us: 1_000_000 + (seconds * 1e6) as u64,
        took_us: 100,
        texts: texts.collect(),
        commands: Vec::new(),
        hooks: Vec::new(),
    }
}

/// A volume by its bare name, and how it is.
pub fn volume<'a>(interval: &'a Interval, lv: &str) -> (&'a Volume, &'a VolumeState) {
    let found = interval.volumes().find(|(volume, _)| volume.lv == lv);
    found.unwrap_or_else(|| panic!("no volume {lv} in {:?}", interval.topology.volumes))
}
