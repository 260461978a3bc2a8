//! Differences, gaps and resets between two samples.
//!
//! Differences are integers with their elapsed time, not rates. If a counter went back or a device was replaced, the
//! difference is `None`, never zero or a spike.

pub mod copying;

use std::collections::HashMap;
use std::sync::Arc;

use cowbell_touched::text::Region;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::mylvmbackup::NextSnapshot;
use crate::sample::Sample;
use crate::sample::backups::{BackupProcess, FailedProcess};
use crate::sample::diskstats::{Counters, DeviceLine, Number};
use crate::sample::lvm::Policies;
use crate::sample::processes::Maker;
use crate::sample::usage::Usage;
use crate::topology::{Device, Topology, Volume, VolumeState};
use crate::units::Sectors;

/// The changes from the previous sample up to `at`.
#[derive(Clone, Debug)]
pub struct Interval {
    pub at: Timestamp,
    /// Microseconds since the previous sample, on the monotonic clock; 0 for the first sample.
    pub elapsed_us: u64,
    pub topology: Arc<Topology>,
    /// In the order of the topology's devices.
    pub devices: Vec<DeviceInterval>,
    /// In the order of the topology's volumes, at `at`.
    pub volumes: Vec<VolumeState>,
    pub host: Host,
    /// Whether the devices were listed in this tick. If not, no device may be considered gone.
    pub devices_listed: bool,
    /// LVM's autoextend policies.
    pub policies: Option<Policies>,
    /// Used space of mounted file systems that may be on a snapshot.
    pub usages: Arc<Vec<Usage>>,
    /// The program that created a snapshot during this tick.
    pub maker: Option<Maker>,
    /// Processes of running backups.
    pub backups: Arc<Vec<BackupProcess>>,
    /// Processes below running backups that failed since the last tick.
    pub failed_processes: Vec<FailedProcess>,
    /// Devices with a read error in the kernel's log since the last tick.
    pub read_errors: Vec<String>,
    /// The measured parts of volumes; `None` in ticks that did not read them.
    pub touched: Option<Vec<Region>>,
    /// The snapshot that mylvmbackup makes next, if it is known.
    pub next_snapshot: Option<Arc<NextSnapshot>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceInterval {
    /// The device's I/O; `None` is a gap.
    pub work: Option<Work>,
    /// Its counters at the end; `None` if they could not be read.
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
    /// `None` if a counter went back, because the device was recreated.
    pub fn between(before: &Counters, now: &Counters) -> Option<Self> {
        let increase = |before: u64, now: u64| now.checked_sub(before);
        // Milliseconds wrap at 2³². A counter that went back would look like a wrap by more than half of that.
        let increase_ms =
            |before: u32, now: u32| Some(now.wrapping_sub(before)).filter(|ms| *ms < u32::MAX / 2);
        Some(Self {
            reads: increase(before.reads, now.reads)?,
            sectors_read: Sectors(increase(before.sectors_read.0, now.sectors_read.0)?),
            read_ms: increase_ms(before.read_ms, now.read_ms)?,
            writes: increase(before.writes, now.writes)?,
            sectors_written: Sectors(increase(before.sectors_written.0, now.sectors_written.0)?),
            write_ms: increase_ms(before.write_ms, now.write_ms)?,
            busy_ms: increase_ms(before.busy_ms, now.busy_ms)?,
            queue_ms: increase_ms(before.queue_ms, now.queue_ms)?,
        })
    }

    /// The sum; `None` if one is unknown or there are none.
    pub fn sum(works: impl Iterator<Item = Option<Self>>) -> Option<Self> {
        works.reduce(|sum, work| Some(sum?.plus(work?))).flatten()
    }

    /// The sum of two devices or two intervals.
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

/// The host's activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// KiB paged in and out: `vmstat`'s bi and bo.
    pub paged_kib: Option<(u64, u64)>,
    pub cpu: Option<CpuWork>,
    /// Processes blocked on I/O at the end.
    pub blocked: Option<u32>,
    /// Microseconds during which at least one process waited for I/O.
    pub pressure_us: Option<u64>,
}

/// CPU time by use, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuWork {
    pub user: u64,
    pub system: u64,
    pub iowait: u64,
    pub total: u64,
}

/// A sample and the topology of its devices.
pub struct SampledMachine {
    pub sample: Sample,
    pub topology: Arc<Topology>,
}

impl Interval {
    /// The changes from `before` to `now`. Without `before`, only fills and gauges are known.
    pub fn between(before: Option<&SampledMachine>, now: &SampledMachine) -> Self {
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
            devices_listed: now.sample.devices.is_some(),
            policies: now.sample.slow.policies,
            usages: Arc::clone(&now.sample.slow.usages),
            maker: now.sample.maker.clone(),
            backups: Arc::clone(&now.sample.slow.backups),
            failed_processes: now.sample.failed_processes.clone(),
            read_errors: now.sample.read_errors.clone(),
            touched: now.sample.touched.clone(),
            next_snapshot: now.sample.slow.next_snapshot.clone(),
        }
    }

    /// The I/O of all devices in the host's total; `None` if one of them is unknown.
    pub fn total(&self) -> Option<Work> {
        let devices = self.topology.devices.iter().zip(&self.devices);
        Work::sum(
            devices
                .filter(|(device, _)| device.counts)
                .map(|(_, interval)| interval.work),
        )
    }

    /// What a device did.
    pub fn work_of(&self, device: &Device) -> Option<Work> {
        self.devices
            .get(self.topology.device_index(&device.identity)?)?
            .work
    }

    /// Finds a volume by `vg/lv` or UUID.
    pub fn volume(&self, name: &str) -> Option<(&Volume, &VolumeState)> {
        let index = self.topology.volume_index(name)?;
        Some((&self.topology.volumes[index], self.volumes.get(index)?))
    }

    /// Volumes and their states.
    pub fn volumes(&self) -> impl Iterator<Item = (&Volume, &VolumeState)> {
        self.topology.volumes.iter().zip(&self.volumes)
    }

    /// The volumes in a thin pool, with their states.
    pub fn thin_volumes<'a>(
        &'a self,
        pool: &'a Volume,
    ) -> impl Iterator<Item = (&'a Volume, &'a VolumeState)> {
        self.volumes()
            .filter(|(volume, _)| volume.vg == pool.vg && volume.pool.as_ref() == Some(&pool.lv))
    }

    /// Used bytes of the file system on a mounted volume, if known.
    pub fn used_bytes_on(&self, volume: &Volume) -> Option<u64> {
        let number = self.topology.devices.get(volume.device?)?.number;
        let is_there = |usage: &&Usage| {
            usage.mount.number == number
                && volume
                    .mounted_on
                    .as_ref()
                    .is_some_and(|points| points.contains(&usage.mount.point))
        };
        self.usages
            .iter()
            .find(is_there)
            .map(|usage| usage.used_bytes)
    }

    /// The I/O of a volume's own device.
    pub fn device_of(&self, volume: &Volume) -> Option<&DeviceInterval> {
        self.devices.get(volume.device?)
    }
}

fn device_intervals(before: Option<&SampledMachine>, now: &SampledMachine) -> Vec<DeviceInterval> {
    let counters_before = before.map(counters_by_identity).unwrap_or_default();
    let lines = by_number(&now.sample);
    let devices = now.topology.devices.iter().map(|device| {
        let Some(line) = lines.get(&device.number) else {
            return DeviceInterval::default();
        };
        let before = counters_before.get(&(&*device.identity, device.generation));
        DeviceInterval {
            work: before.and_then(|before| Work::between(before, &line.counters)),
            counters: Some(line.counters),
        }
    });
    devices.collect()
}

/// Counters by identity and generation, so that a recreated device starts anew.
fn counters_by_identity(observed: &SampledMachine) -> HashMap<(&str, Option<u64>), Counters> {
    let lines = by_number(&observed.sample);
    let devices = observed.topology.devices.iter();
    devices
        .filter_map(|device| {
            Some((
                (&*device.identity, device.generation),
                lines.get(&device.number)?.counters,
            ))
        })
        .collect()
}

fn by_number(sample: &Sample) -> HashMap<Number, &DeviceLine> {
    sample
        .devices
        .iter()
        .flatten()
        .map(|line| (line.number, line))
        .collect()
}

fn host(before: Option<&Sample>, now: &Sample) -> Host {
    let paged = |before: &Sample| {
        let (before, now) = (before.paging?, now.paging?);
        Some((
            now.in_kib.checked_sub(before.in_kib)?,
            now.out_kib.checked_sub(before.out_kib)?,
        ))
    };
    let pressure = |before: &Sample| now.pressure_us?.checked_sub(before.pressure_us?);
    Host {
        paged_kib: before.and_then(paged),
        cpu: before.and_then(|before| cpu_work(before, now)),
        blocked: now.blocked,
        pressure_us: before.and_then(pressure),
    }
}

/// The kernel documents that iowait may decrease; it counts from 0 then.
fn cpu_work(before: &Sample, now: &Sample) -> Option<CpuWork> {
    let (before, now) = (before.cpu?, now.cpu?);
    Some(CpuWork {
        user: now.user.checked_sub(before.user)?,
        system: now.system.checked_sub(before.system)?,
        iowait: now.iowait.saturating_sub(before.iowait),
        total: now
            .total
            .checked_sub(before.total)
            .filter(|total| *total > 0)?,
    })
}
