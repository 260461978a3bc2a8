//! Two samples into what happened between them: differences, gaps and resets.
//!
//! Integers with their elapsed time, not rates. Where a counter went back, or a device is another one than before,
//! there is no difference: `None`, never zero and never a spike.

pub mod copying;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::sample::Sample;
use crate::sample::diskstats::{Counters, DeviceLine, Number};
use crate::sample::lvm::Policies;
use crate::sample::usage::Usage;
use crate::topology::{Topology, Volume, VolumeState};
use crate::units::Sectors;

/// What happened up to `at`, since the sample before.
#[derive(Clone, Debug)]
pub struct Interval {
    pub at: Timestamp,
    /// Microseconds since the sample before, on a clock that never jumps; 0 for the first sample.
    pub elapsed_us: u64,
    pub topology: Arc<Topology>,
    /// In the order of the topology's devices.
    pub devices: Vec<DeviceInterval>,
    /// In the order of the topology's volumes, at `at`.
    pub volumes: Vec<VolumeState>,
    pub host: Host,
    /// Whether the devices could be listed at all in this tick; nothing may be taken for gone where not.
    pub saw_devices: bool,
    /// What LVM does by itself before a volume is full, as last said.
    pub policies: Option<Policies>,
    /// How much file systems hold that may be a snapshot's, as last told.
    pub usages: Arc<Vec<Usage>>,
    /// The program that made a snapshot just then, where one was seen.
    pub maker: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceInterval {
    /// What the device did; `None` is a gap.
    pub work: Option<Work>,
    /// Its counters at the end, `None` where it could not be read.
    pub counters: Option<Counters>,
}

/// Differences of a device's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    pub reads: u64,
    pub sectors_read: Sectors,
    pub read_ms: u32,
    pub writes: u64,
    pub sectors_written: Sectors,
    pub write_ms: u32,
    pub busy_ms: u32,
    pub queue_ms: u32,
}

impl Work {
    /// `None` where a counter went back: the device was made anew.
    pub fn between(before: &Counters, now: &Counters) -> Option<Self> {
        let grown = |before: u64, now: u64| now.checked_sub(before);
        // Milliseconds run over at 2³². Going back a little looks like running over, but leaps by more than half.
        let lasted = |before: u32, now: u32| Some(now.wrapping_sub(before)).filter(|ms| *ms < u32::MAX / 2);
        Some(Self {
            reads: grown(before.reads, now.reads)?,
            sectors_read: Sectors(grown(before.sectors_read.0, now.sectors_read.0)?),
            read_ms: lasted(before.read_ms, now.read_ms)?,
            writes: grown(before.writes, now.writes)?,
            sectors_written: Sectors(grown(before.sectors_written.0, now.sectors_written.0)?),
            write_ms: lasted(before.write_ms, now.write_ms)?,
            busy_ms: lasted(before.busy_ms, now.busy_ms)?,
            queue_ms: lasted(before.queue_ms, now.queue_ms)?,
        })
    }

    /// All together; `None` where one is not known, or there is none.
    pub fn sum(works: impl Iterator<Item = Option<Self>>) -> Option<Self> {
        works.reduce(|sum, work| Some(sum?.plus(work?))).flatten()
    }

    /// Both together, of two devices or of two intervals.
    pub fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            sectors_read: Sectors(self.sectors_read.0 + other.sectors_read.0),
            read_ms: self.read_ms.saturating_add(other.read_ms),
            writes: self.writes + other.writes,
            sectors_written: Sectors(self.sectors_written.0 + other.sectors_written.0),
            write_ms: self.write_ms.saturating_add(other.write_ms),
            busy_ms: self.busy_ms.saturating_add(other.busy_ms),
            queue_ms: self.queue_ms.saturating_add(other.queue_ms),
        }
    }
}

/// What the whole host did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// KiB paged in and out: the source of bi and bo.
    pub paged_kib: Option<(u64, u64)>,
    pub cpu: Option<CpuWork>,
    /// Processes that wait for I/O, at the end.
    pub blocked: Option<u32>,
    /// Microseconds in which at least one process waited for I/O.
    pub pressure_us: Option<u64>,
}

/// Processor time by what it went into, in ticks of the kernel's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuWork {
    pub user: u64,
    pub system: u64,
    pub iowait: u64,
    pub total: u64,
}

/// A sample with the topology that tells what its devices are.
pub struct Observed {
    pub sample: Sample,
    pub topology: Arc<Topology>,
}

impl Interval {
    /// What happened from `before` to `now`. Without a `before`, only fills and gauges are known.
    pub fn between(before: Option<&Observed>, now: &Observed) -> Self {
        let elapsed_us = before
            .and_then(|before| now.sample.uptime_us.checked_sub(before.sample.uptime_us))
            .unwrap_or_default();
        let before = before.filter(|_| elapsed_us > 0);
        Self {
            at: now.sample.at,
            elapsed_us,
            topology: Arc::clone(&now.topology),
            devices: device_intervals(before, now),
            volumes: now.topology.volume_states(&now.sample),
            host: host(before.map(|before| &before.sample), &now.sample),
            saw_devices: now.sample.devices.is_some(),
            policies: now.sample.policies,
            usages: Arc::clone(&now.sample.usages),
            maker: now.sample.maker.clone(),
        }
    }

    /// What all devices did that make the host's total; `None` where it is not known of each of them.
    pub fn total(&self) -> Option<Work> {
        let devices = self.topology.devices.iter().zip(&self.devices);
        Work::sum(devices.filter(|(device, _)| device.counts).map(|(_, interval)| interval.work))
    }

    /// A snapshot, pool or other volume with how it is.
    pub fn volumes(&self) -> impl Iterator<Item = (&Volume, &VolumeState)> {
        self.topology.volumes.iter().zip(&self.volumes)
    }

    /// How many bytes the file system on a volume uses, where it is mounted and told it.
    pub fn held_on(&self, volume: &Volume) -> Option<u64> {
        let number = self.topology.devices.get(volume.device?)?.number;
        let is_there = |usage: &&Usage| {
            usage.mount.number == number
                && volume.mounted_on.as_ref().is_some_and(|points| points.contains(&usage.mount.point))
        };
        self.usages.iter().find(is_there).map(|usage| usage.used_bytes)
    }

    /// What a volume's own device did.
    pub fn device_of(&self, volume: &Volume) -> Option<&DeviceInterval> {
        self.devices.get(volume.device?)
    }
}

fn device_intervals(before: Option<&Observed>, now: &Observed) -> Vec<DeviceInterval> {
    let known_before = before.map(counters_by_identity).unwrap_or_default();
    let lines = by_number(&now.sample);
    let devices = now.topology.devices.iter().map(|device| {
        let Some(line) = lines.get(&device.number) else { return DeviceInterval::default() };
        let before = known_before.get(&(&*device.identity, device.life));
        DeviceInterval {
            work: before.and_then(|before| Work::between(before, &line.counters)),
            counters: Some(line.counters),
        }
    });
    devices.collect()
}

/// Counters of each device and life: one that was made anew under its old identity counts from the start.
fn counters_by_identity(observed: &Observed) -> HashMap<(&str, Option<u64>), Counters> {
    let lines = by_number(&observed.sample);
    let devices = observed.topology.devices.iter();
    devices
        .filter_map(|device| Some(((&*device.identity, device.life), lines.get(&device.number)?.counters)))
        .collect()
}

fn by_number(sample: &Sample) -> HashMap<Number, &DeviceLine> {
    sample.devices.iter().flatten().map(|line| (line.number, line)).collect()
}

fn host(before: Option<&Sample>, now: &Sample) -> Host {
    let paged = |before: &Sample| {
        let (before, now) = (before.paging?, now.paging?);
        Some((now.in_kib.checked_sub(before.in_kib)?, now.out_kib.checked_sub(before.out_kib)?))
    };
    let pressure = |before: &Sample| now.pressure_us?.checked_sub(before.pressure_us?);
    Host {
        paged_kib: before.and_then(paged),
        cpu: before.and_then(|before| cpu_work(before, now)),
        blocked: now.blocked,
        pressure_us: before.and_then(pressure),
    }
}

/// The kernel says itself that its iowait may go back: that one counts from 0 then.
fn cpu_work(before: &Sample, now: &Sample) -> Option<CpuWork> {
    let (before, now) = (before.cpu?, now.cpu?);
    Some(CpuWork {
        user: now.user.checked_sub(before.user)?,
        system: now.system.checked_sub(before.system)?,
        iowait: now.iowait.saturating_sub(before.iowait),
        total: now.total.checked_sub(before.total).filter(|total| *total > 0)?,
    })
}
