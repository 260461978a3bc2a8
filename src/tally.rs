//! Averages, maxima and sums per device since the program started, like `bwm-ng`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::interval::{Interval, Work};

/// Maximum number of devices; beyond it, tallies of absent devices are dropped.
const MOST_DEVICES: usize = 10_000;

/// Tallies by device identity.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    devices: HashMap<Arc<str>, Tally>,
    total: Tally,
}

/// Sums and highest rates of a device or the host.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub sum: Work,
    /// The time that the sum covers, without gaps.
    pub elapsed_us: u64,
    pub most: Rates,
}

/// Rates per second over one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    pub read_bytes: f64,
    pub written_bytes: f64,
    pub total_bytes: f64,
    pub reads: f64,
    pub writes: f64,
}

impl Rates {
    /// `None` if no time passed.
    pub fn of(work: &Work, elapsed_us: u64) -> Option<Self> {
        let seconds = (elapsed_us > 0).then_some(elapsed_us as f64 / 1e6)?;
        let (read, written) = (
            work.sectors_read.bytes() as f64,
            work.sectors_written.bytes() as f64,
        );
        Some(Self {
            read_bytes: read / seconds,
            written_bytes: written / seconds,
            total_bytes: (read + written) / seconds,
            reads: work.reads as f64 / seconds,
            writes: work.writes as f64 / seconds,
        })
    }

    fn max(self, other: Self) -> Self {
        Self {
            read_bytes: self.read_bytes.max(other.read_bytes),
            written_bytes: self.written_bytes.max(other.written_bytes),
            total_bytes: self.total_bytes.max(other.total_bytes),
            reads: self.reads.max(other.reads),
            writes: self.writes.max(other.writes),
        }
    }
}

impl Tally {
    fn add(&mut self, work: Work, elapsed_us: u64) {
        let Some(rates) = Rates::of(&work, elapsed_us) else {
            return;
        };
        self.sum = self.sum.plus(work);
        self.elapsed_us += elapsed_us;
        self.most = self.most.max(rates);
    }

    /// The mean rates since the start; `None` before the first interval.
    pub fn average(&self) -> Option<Rates> {
        Rates::of(&self.sum, self.elapsed_us)
    }
}

impl Tallies {
    pub fn add(&mut self, interval: &Interval) {
        for (device, done) in interval.topology.devices.iter().zip(&interval.devices) {
            if let Some(work) = done.work {
                let tally = self
                    .devices
                    .entry(Arc::clone(&device.identity))
                    .or_default();
                tally.add(work, interval.elapsed_us);
            }
        }
        if self.devices.len() > MOST_DEVICES {
            let present = &interval.topology.devices;
            self.devices
                .retain(|identity, _| present.iter().any(|device| device.identity == *identity));
        }
        if let Some(work) = interval.total() {
            self.total.add(work, interval.elapsed_us);
        }
    }

    pub fn device(&self, identity: &str) -> Option<&Tally> {
        self.devices.get(identity)
    }

    pub fn total(&self) -> &Tally {
        &self.total
    }
}
