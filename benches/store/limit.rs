//! The physical limit: what no way of keeping the devices' counters can be smaller than.
//!
//! From above, the order-0 entropy of what the codec keeps (rows that are not all zero, the weighted time less that of
//! reads and writes): in each window of ten minutes with that window's own distribution for nothing, which flatters it,
//! and over the whole day with one distribution a column. From below, an estimate of the chance that went into the
//! simulation: given the hidden rate of each second, how many bits the dice had.

use std::collections::HashMap;

use crate::device::COUNTERS;
use crate::machine::Machine;

/// Seconds of a window.
const WINDOW: u64 = 600;

/// How often each number was there.
#[derive(Default)]
struct Tally {
    counts: HashMap<u64, u64>,
    all: u64,
}

impl Tally {
    fn add(&mut self, number: u64) {
        *self.counts.entry(number).or_default() += 1;
        self.all += 1;
    }

    fn bits(&self) -> f64 {
        let bits = |count: &u64| *count as f64 * (self.all as f64 / *count as f64).log2();
        self.counts.values().map(bits).sum()
    }
}

/// One device's columns, the last of them for whether there is anything in the row.
#[derive(Default)]
struct Columns([Tally; COUNTERS + 1]);

impl Columns {
    fn add(&mut self, work: &[u64; COUNTERS]) {
        let mut left = *work;
        left[COUNTERS - 1] = work[COUNTERS - 1].wrapping_sub(work[2] + work[5]);
        let is_any = work.iter().any(|number| *number != 0);
        self.0[COUNTERS].add(is_any.into());
        if is_any {
            self.0
                .iter_mut()
                .zip(left)
                .for_each(|(tally, number)| tally.add(number));
        }
    }

    fn bits(&self) -> f64 {
        self.0.iter().map(Tally::bits).sum()
    }
}

/// Bytes of all devices' counters over so many ticks.
#[derive(Debug)]
pub struct Limit {
    pub by_window: f64,
    pub by_day: f64,
    pub by_chance: f64,
}

impl Limit {
    pub fn of(mut machine: Machine, ticks: u64) -> Self {
        let devices = machine.devices.len();
        let empty = || (0..devices).map(|_| Columns::default()).collect::<Vec<_>>();
        let (mut window, mut day, mut by_window) = (empty(), empty(), 0.0);
        for tick in 0..ticks {
            let interval = machine.tick();
            for (index, done) in interval.devices.iter().enumerate() {
                let row = crate::machine::columns(&done.work);
                window[index].add(&row);
                day[index].add(&row);
            }
            if (tick + 1) % WINDOW == 0 {
                by_window += window.iter().map(Columns::bits).sum::<f64>();
                window = empty();
            }
        }
        Self {
            by_window: by_window / 8.0,
            by_day: day.iter().map(Columns::bits).sum::<f64>() / 8.0,
            by_chance: machine
                .devices
                .iter()
                .map(|device| device.bits)
                .sum::<f64>()
                / 8.0,
        }
    }
}
