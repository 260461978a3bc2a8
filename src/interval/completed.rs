//! How many requests a device completed, and which of its times can be right.
//!
//! A disk counts a request when it ends, with its time. A device without a queue of its own, such as a volume, does so since
//! Linux 6.4 only, or where a distribution backported that. Before, it counts a request when it starts, and the time when it
//! ends: 4 writes start in a tick in which 500 end, which took 15,562 s in all. What completed is then what was counted,
//! less what more is in flight. `/proc/diskstats` does not say how many of those are reads, so this is known within bounds.
//!
//! Source: `bdev_start_io_acct` and `bdev_end_io_acct` in `block/blk-core.c`.

use std::collections::HashMap;
use std::sync::Arc;

use super::{DeviceInterval, SampledMachine, Work, by_name};
use crate::sample::diskstats::{Counter, DeviceLine};
use crate::topology::Device;

/// A count is known if its bounds differ by a fifth at most: then their middle is wrong by a tenth at most.
const MOST_DIFFERENCE: u64 = 5;

/// The counters of reads: requests, those of them that completed, and their time; then those of writes.
const TIMED: [(Counter, Counter, Counter); 2] = [
    (Counter::Reads, Counter::ReadsCompleted, Counter::ReadMs),
    (Counter::Writes, Counter::WritesCompleted, Counter::WriteMs),
];

/// When this kernel counts the requests of devices without a queue of their own, and their requests so far.
#[derive(Debug, Default)]
pub struct Accounting {
    /// How many differences only counting at the start explains, or only counting at the end. The kernel does not read its
    /// counters at one instant, so a few may be wrong.
    at_start: u64,
    at_end: u64,
    devices: HashMap<DeviceKey, Requests>,
}

/// Identity and generation.
type DeviceKey = (Arc<str>, Option<u64>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct CountBounds {
    least: u64,
    most: u64,
}

/// Microseconds since the device was first seen, and since the sample before.
#[derive(Clone, Copy)]
struct DeviceTimes {
    since_us: u64,
    elapsed_us: u64,
}

/// Reads, writes, and other requests of a device.
#[derive(Clone, Copy, Debug, Default)]
struct Requests {
    first_seen_us: u64,
    counted: [u64; 3],
    in_flight: u64,
    /// What is in flight of each, if the kernel counts at the start.
    each_in_flight: [CountBounds; 3],
    change: Option<Change>,
}

/// Since the sample before.
#[derive(Clone, Copy, Debug)]
struct Change {
    in_flight_before: u64,
    counted: u64,
    /// What completed, if the kernel counts at the start.
    completed: u64,
    each_completed: [CountBounds; 3],
}

impl Accounting {
    /// Adds what completed to the intervals of devices, and removes times that cannot be right.
    pub fn correct(
        &mut self,
        now: &SampledMachine,
        elapsed_us: u64,
        intervals: &mut [DeviceInterval],
    ) {
        if now.sample.devices.is_none() {
            return;
        }
        let lines = by_name(&now.sample);
        let mut devices = HashMap::with_capacity(lines.len());
        for (device, interval) in now.topology.devices.iter().zip(&mut *intervals) {
            let key = key_of(device);
            let before = self.devices.get(&key);
            let line = lines.get(&*device.name);
            let requests =
                line.and_then(|line| Requests::after(before, line, now.sample.uptime_us));
            let Some(requests) = requests else { continue };
            if device.counts_without_queue() {
                self.observe(&requests, interval);
            }
            devices.insert(key, requests);
        }
        self.devices = devices;
        for (device, interval) in now.topology.devices.iter().zip(intervals) {
            if let Some(requests) = self.devices.get(&key_of(device)) {
                let since_us = now.sample.uptime_us - requests.first_seen_us;
                let times = DeviceTimes {
                    since_us,
                    elapsed_us,
                };
                self.correct_device(device, requests, times, &mut interval.work);
            }
        }
    }

    /// In a tick that counts no request, one that completed had been counted at its start.
    fn observe(&mut self, requests: &Requests, interval: &DeviceInterval) {
        let Some(change) = requests.change else {
            return;
        };
        let (before, now) = (change.in_flight_before, requests.in_flight);
        let times = [Counter::ReadMs, Counter::WriteMs].map(|time| interval.work[time]);
        let took_time = times.iter().any(|time| time.is_some_and(|ms| ms > 0));
        if before > now + change.counted || (change.counted == 0 && took_time) {
            self.at_start += 1;
        } else if now > before + change.counted {
            self.at_end += 1;
        }
    }

    fn correct_device(
        &self,
        device: &Device,
        requests: &Requests,
        times: DeviceTimes,
        work: &mut Work,
    ) {
        let Some(change) = requests.change else {
            return;
        };
        let may_count_at_start = device.counts_without_queue() && self.at_start >= self.at_end;
        let may_count_at_end = !device.counts_without_queue() || self.at_start <= self.at_end;
        for (place, (counted, completed, time)) in TIMED.into_iter().enumerate() {
            let Some(count) = work[counted] else { continue };
            let mut bounds = change.each_completed[place];
            if !may_count_at_start {
                bounds = CountBounds::exactly(count);
            } else if may_count_at_end {
                bounds = bounds.and(count);
            }
            let found = bounds.middle();
            if let Some(found) = found.filter(|found| *found != count) {
                work.0[completed as usize] = Some(found);
            }
            let possible = found.is_some_and(|found| {
                work[time].is_some_and(|ms| {
                    ms.saturating_mul(1000) <= found.saturating_mul(times.since_us)
                })
            });
            if !possible {
                work.0[time as usize] = None;
            }
        }
        // Each request that was in flight is still, or has completed.
        let mut completed = 0;
        if may_count_at_start {
            completed = change.completed;
        }
        if may_count_at_end {
            completed = completed.max(change.counted);
        }
        let most = (requests.in_flight + completed).saturating_mul(times.elapsed_us);
        if work[Counter::QueueMs].is_some_and(|ms| ms.saturating_mul(1000) > most) {
            work.0[Counter::QueueMs as usize] = None;
        }
    }
}

fn key_of(device: &Device) -> DeviceKey {
    (Arc::clone(&device.identity), device.generation)
}

impl CountBounds {
    fn exactly(count: u64) -> Self {
        Self {
            least: count,
            most: count,
        }
    }

    fn and(self, count: u64) -> Self {
        Self {
            least: self.least.min(count),
            most: self.most.max(count),
        }
    }

    /// `None` if it is not known well enough.
    fn middle(self) -> Option<u64> {
        let difference = self.most.checked_sub(self.least)?;
        (difference.saturating_mul(MOST_DIFFERENCE) <= self.most)
            .then(|| self.least + difference / 2)
    }
}

impl Requests {
    /// `None` if the number of requests in flight is unknown.
    fn after(before: Option<&Self>, line: &DeviceLine, now_us: u64) -> Option<Self> {
        let in_flight = line.in_flight?;
        let [reads, writes] =
            [Counter::Reads, Counter::Writes].map(|counter| line.counters[counter]);
        let counted = [reads?, writes?, line.other_requests];
        let known = before.and_then(|before| {
            let mut since = [0; 3];
            for (since, (now, before)) in since.iter_mut().zip(counted.iter().zip(before.counted)) {
                *since = now.checked_sub(before)?;
            }
            Some((before, since))
        });
        // At first sight, each may have been counted since the device was created.
        let first = Self::default();
        let (old, since) = known.unwrap_or((&first, counted));
        let mut each_in_flight = [CountBounds::default(); 3];
        for place in 0..3 {
            let most = old.each_in_flight[place].most.saturating_add(since[place]);
            each_in_flight[place].most = most.min(in_flight);
        }
        let most_of_all: u64 = each_in_flight.iter().map(|bounds| bounds.most).sum();
        for bounds in &mut each_in_flight {
            bounds.least = in_flight.saturating_sub(most_of_all - bounds.most);
        }
        let change =
            known.map(|(before, since)| Change::new(before, since, in_flight, each_in_flight));
        Some(Self {
            first_seen_us: before.map_or(now_us, |before| before.first_seen_us),
            counted,
            in_flight,
            each_in_flight,
            change,
        })
    }
}

impl Change {
    fn new(before: &Requests, since: [u64; 3], in_flight: u64, now: [CountBounds; 3]) -> Self {
        let counted = since
            .iter()
            .fold(0, |sum: u64, count| sum.saturating_add(*count));
        let completed = counted
            .saturating_add(before.in_flight)
            .saturating_sub(in_flight);
        let mut each_completed = [CountBounds::default(); 3];
        for (place, bounds) in each_completed.iter_mut().enumerate() {
            let old = before.each_in_flight[place];
            let [least, most] = [(old.least, now[place].most), (old.most, now[place].least)]
                .map(|(before, now)| since[place].saturating_add(before).saturating_sub(now));
            *bounds = CountBounds {
                least: least.min(completed),
                most: most.min(completed),
            };
        }
        Self {
            in_flight_before: before.in_flight,
            counted,
            completed,
            each_completed,
        }
    }
}
