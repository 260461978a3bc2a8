//! Averages, maxima and sums of each device since the program started, like `bwm-ng`. In memory only.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::interval::{Interval, Work};
use crate::quantity::{Observation, Quantity};

/// Maximum number of devices; beyond it, averages of absent devices are dropped.
const MOST_DEVICES: usize = 10_000;

/// Averages by device identity.
#[derive(Clone, Debug, Default)]
pub struct Averages {
    devices: HashMap<Arc<str>, DeviceAverages>,
    total: DeviceAverages,
}

/// Each quantity of a device, or of the host's total, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceAverages([Average; Quantity::OF_A_DEVICE]);

/// A quantity since the start. Ticks in which it is unknown do not count; in the beginning there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Average {
    amount: u64,
    over: u64,
    max: f64,
}

impl DeviceAverages {
    fn add(&mut self, work: &Work, elapsed_us: u64) {
        for (average, quantity) in self.0.iter_mut().zip(Quantity::of_a_device()) {
            if let Some(tick) = quantity.observe(&work.0, elapsed_us) {
                average.amount = average.amount.saturating_add(tick.amount);
                average.over = average.over.saturating_add(tick.over);
                average.max = average.max.max(tick.value());
            }
        }
    }

    pub fn mean(&self, quantity: Quantity) -> Option<f64> {
        let Average { amount, over, .. } = self.0[quantity as usize];
        Observation::ratio(amount, over, quantity.scale()).map(Observation::value)
    }

    pub fn max(&self, quantity: Quantity) -> Option<f64> {
        let average = self.0[quantity as usize];
        (average.over > 0).then_some(average.max)
    }

    /// What a rate adds up to; `None` for any other quantity.
    pub fn sum(&self, quantity: Quantity) -> Option<f64> {
        let Average { amount, over, .. } = self.0[quantity as usize];
        (quantity.unit().is_rate() && over > 0).then(|| amount as f64 * quantity.scale() / 1e6)
    }
}

impl Averages {
    pub fn add(&mut self, interval: &Interval) {
        let devices = &interval.topology.devices;
        for (device, done) in devices.iter().zip(&interval.devices) {
            let averages = self.devices.entry(Arc::clone(&device.identity));
            averages.or_default().add(&done.work, interval.elapsed_us);
        }
        if self.devices.len() > MOST_DEVICES {
            let present: HashSet<&str> = devices.iter().map(|device| &*device.identity).collect();
            self.devices
                .retain(|identity, _| present.contains(&**identity));
        }
        self.total.add(&interval.total(), interval.elapsed_us);
    }

    pub fn device(&self, identity: &str) -> Option<&DeviceAverages> {
        self.devices.get(identity)
    }

    pub fn total(&self) -> &DeviceAverages {
        &self.total
    }
}
