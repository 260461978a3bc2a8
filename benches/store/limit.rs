//! The physical limit: what no way of keeping the devices' counters can be smaller than.
//!
//! From above, the order-0 entropy of what the codec keeps (rows that are not all zero, the weighted time less that of
//! reads and writes): in each window of ten minutes with that window's own distribution for nothing, which flatters it,
//! and over the whole day with one distribution a column. From below, an estimate of the chance that went into the
//! simulation: given the hidden rate of each second, how many bits the dice had.

use std::collections::HashMap;
use std::f64::consts::{E, PI};

use crate::device::COUNTERS;
use crate::machine::Machine;

/// Seconds of a segment.
const WINDOW: u64 = 600;

/// Entropy of a normal distribution that is rounded to whole numbers; nothing where it is narrow.
pub fn bits_of_normal(deviation: f64) -> f64 {
    (2.0 * PI * E * deviation * deviation).log2().max(0.0) / 2.0
}

/// Entropy of a Poisson distribution.
pub fn bits_of_count(mean: f64) -> f64 {
    if mean > 10.0 {
        return (2.0 * PI * E * mean).log2() / 2.0;
    }
    let (mut share, mut bits) = ((-mean).exp(), 0.0);
    for count in 1..40 {
        bits -= if share > 0.0 { share * share.log2() } else { 0.0 };
        share *= mean / f64::from(count);
    }
    bits
}

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
            self.0.iter_mut().zip(left).for_each(|(tally, number)| tally.add(number));
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
                let Some(work) = done.work else { continue };
                let row = crate::machine::columns(&work);
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
            by_chance: machine.devices.iter().map(|device| device.bits).sum::<f64>() / 8.0,
        }
    }
}
