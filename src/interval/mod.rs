//! Differences, gaps and resets between two samples.
//!
//! Differences are integers with their elapsed time, not rates. If a counter went back or a device was replaced, the
//! difference is `None`, never zero or a spike.

mod completed;
pub mod copying;

use std::collections::HashMap;
use std::ops::Index;
use std::sync::Arc;

use cowbell_touched::text::Region;
use jiff::Timestamp;

pub use completed::Accounting;

use crate::mylvmbackup::NextSnapshot;
use crate::sample::Sample;
use crate::sample::diskstats::{Counted, Counter, Counters, DeviceLine};
use crate::sample::guard::GuardSeen;
use crate::sample::host::Invalidation;
use crate::sample::lvm::Policies;
use crate::sample::mounts::Usage;
use crate::sample::processes::Maker;
use crate::sample::processes::{BackupProcess, ProcessExit};
use crate::schedule::ScheduledStart;
use crate::topology::{Device, DeviceKind, Topology, Volume, VolumeState};
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
    /// The programs that were creating volumes during this tick.
    pub makers: Vec<Maker>,
    /// Processes of running backups.
    pub backups: Arc<Vec<BackupProcess>>,
    /// Running backups, and processes below them, that exited since the last tick.
    pub exits: Vec<ProcessExit>,
    /// Devices with a read error in the kernel's log since the last tick.
    pub read_errors: Vec<String>,
    /// Why a snapshot became invalid since the last tick, by the kernel's log.
    pub invalidation: Option<Invalidation>,
    /// The measured parts of volumes; `None` in ticks that did not read them.
    pub touched: Option<Vec<Region>>,
    /// The snapshot that mylvmbackup makes next, if it is known.
    pub next_snapshot: Option<Arc<NextSnapshot>>,
    /// When programs start by crontabs and timers.
    pub schedule: Arc<Vec<ScheduledStart>>,
    /// `None` without `cowbell guard`.
    pub guard: Option<GuardSeen>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceInterval {
    pub work: Work,
    /// Its counters at the end; `None` if they could not be read.
    pub counters: Option<Counters>,
}

impl DeviceInterval {
    fn plus(self, other: Self) -> Self {
        let counters = self.counters.zip(other.counters);
        Self {
            work: Work::sum([self.work, other.work].into_iter()),
            counters: counters
                .map(|(a, b)| Counters(Work::sum([Work(a.0), Work(b.0)].into_iter()).0)),
        }
    }
}

/// Differences of a device's counters, in their units; `None` for one that is not known. The default is a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work(pub [Option<u64>; Counter::COUNT]);

impl Index<Counter> for Work {
    type Output = Option<u64>;

    fn index(&self, counter: Counter) -> &Option<u64> {
        &self.0[counter as usize]
    }
}

impl Work {
    /// Nothing was done.
    pub const IDLE: Self = {
        let mut counters = [Some(0); Counter::COUNT];
        counters[Counter::ReadsCompleted as usize] = None;
        counters[Counter::WritesCompleted as usize] = None;
        Self(counters)
    };

    /// A counter that stepped back is unknown: the kernel adds up those of its processors without a lock, and sectors wrap at
    /// 2³² on 32-bit kernels.
    ///
    /// If half of all requests and sectors went back, and not one alone, the device was recreated: nothing is known of it.
    pub fn between(before: &Counters, now: &Counters) -> Self {
        let mut work = Self::default();
        let (mut back, mut used) = (0, 0);
        for counter in Counter::all() {
            let (Some(before), Some(now)) = (before[counter], now[counter]) else {
                continue;
            };
            work.0[counter as usize] = match counter.counted() {
                Counted::Milliseconds => increase_of_ms(before, now),
                Counted::Requests | Counted::Sectors => {
                    used += usize::from(before > 0);
                    back += usize::from(now < before);
                    now.checked_sub(before)
                }
            };
        }
        if back > 1 && back * 2 >= used {
            return Self::default();
        }
        work
    }

    pub fn with(mut self, counter: Counter, amount: u64) -> Self {
        self.0[counter as usize] = Some(amount);
        self
    }

    pub fn read_bytes(&self) -> Option<u64> {
        Some(Sectors(self[Counter::SectorsRead]?).bytes())
    }

    pub fn written_bytes(&self) -> Option<u64> {
        Some(Sectors(self[Counter::SectorsWritten]?).bytes())
    }

    /// The sum of several devices. A counter is unknown if one device's is, or if there is no device.
    pub fn sum(works: impl Iterator<Item = Self>) -> Self {
        works
            .reduce(|sum, work| Self(std::array::from_fn(|n| sum.0[n]?.checked_add(work.0[n]?))))
            .unwrap_or_default()
    }
}

/// Milliseconds wrap at 2³²: 100 after 4,294,967,200 are 196 more. A step back, from 500 to 493, would be a wrap by nearly
/// 50 days.
fn increase_of_ms(before: u64, now: u64) -> Option<u64> {
    let increase = now.wrapping_sub(before) & u64::from(u32::MAX);
    (increase < u64::from(u32::MAX / 2)).then_some(increase)
}

/// What is counted of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostColumn {
    /// `vmstat`'s bi and bo.
    PagedInKib,
    PagedOutKib,
    /// CPU time by use, in clock ticks.
    User,
    System,
    Iowait,
    AllCpu,
    /// Processes blocked on I/O at the end.
    Blocked,
    /// Microseconds during which at least one process waited for I/O.
    PressureUs,
}

impl HostColumn {
    pub const COUNT: usize = Self::PressureUs as usize + 1;
}

/// The host's activity; `None` for what is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host(pub [Option<u64>; HostColumn::COUNT]);

impl Index<HostColumn> for Host {
    type Output = Option<u64>;

    fn index(&self, column: HostColumn) -> &Option<u64> {
        &self.0[column as usize]
    }
}

/// A sample and the topology of its devices.
pub struct SampledMachine {
    pub sample: Sample,
    pub topology: Arc<Topology>,
}

impl Interval {
    /// The changes from `before` to `now`. Without `before`, only fills and gauges are known.
    pub fn between(
        before: Option<&SampledMachine>,
        now: &SampledMachine,
        accounting: &mut Accounting,
    ) -> Self {
        let elapsed_us = before
            .and_then(|before| now.sample.uptime_us.checked_sub(before.sample.uptime_us))
            .unwrap_or_default();
        let before = before.filter(|_| elapsed_us > 0);
        let mut devices = device_intervals(before, now);
        accounting.correct(now, elapsed_us, &mut devices);
        count_by_paths(&now.topology, &mut devices);
        Self {
            at: now.sample.at,
            elapsed_us,
            topology: Arc::clone(&now.topology),
            devices,
            volumes: now.topology.volume_states(&now.sample),
            host: host(before.map(|before| &before.sample), &now.sample),
            devices_listed: now.sample.devices.is_some(),
            policies: now.sample.slow.policies,
            usages: Arc::clone(&now.sample.slow.usages),
            makers: now.sample.makers.clone(),
            backups: Arc::clone(&now.sample.slow.backups),
            exits: now.sample.exits.clone(),
            read_errors: now.sample.read_errors.clone(),
            invalidation: now.sample.invalidation,
            touched: now.sample.touched.clone(),
            next_snapshot: now.sample.slow.next_snapshot.clone(),
            schedule: now.sample.slow.schedule.clone(),
            guard: now.sample.guard.clone(),
        }
    }

    /// The I/O of all devices in the host's total.
    pub fn total(&self) -> Work {
        let devices = self.topology.devices.iter().zip(&self.devices);
        let counted = devices.filter(|(device, _)| device.counts);
        Work::sum(counted.map(|(_, interval)| interval.work))
    }

    /// What a device did.
    pub fn work_of(&self, device: &Device) -> Work {
        let index = self.topology.device_index(&device.identity);
        let interval = index.and_then(|index| self.devices.get(index));
        interval.map_or_else(Work::default, |interval| interval.work)
    }

    /// What a volume's own device did.
    pub fn work_of_volume(&self, volume: &Volume) -> Work {
        self.device_of(volume)
            .map_or_else(Work::default, |device| device.work)
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

    /// Used bytes of the file systems that are mounted on a volume or on the devices on top of it, if known.
    pub fn used_bytes_on(&self, volume: &Volume) -> Option<u64> {
        let (own, points) = (volume.device?, volume.mounted_on.as_ref()?);
        let mut used = None;
        for usage in self.usages.iter() {
            let devices = &self.topology.devices;
            let is_there =
                |index: &usize| devices.get(*index).map(|it| it.number) == Some(usage.mount.number);
            if (is_there(&own) || volume.on_top.iter().any(is_there))
                && points.contains(&usage.mount.point)
            {
                used = Some(used.unwrap_or(0) + usage.used_bytes);
            }
        }
        used
    }

    /// The I/O of a volume's own device.
    pub fn device_of(&self, volume: &Volume) -> Option<&DeviceInterval> {
        self.devices.get(volume.device?)
    }
}

fn device_intervals(before: Option<&SampledMachine>, now: &SampledMachine) -> Vec<DeviceInterval> {
    let counters_before = before.map(counters_by_identity).unwrap_or_default();
    let lines = by_name(&now.sample);
    let of = |device: &Device| {
        let Some(line) = lines.get(&*device.name) else {
            return DeviceInterval::default();
        };
        let before = counters_before.get(&(&*device.identity, device.generation));
        DeviceInterval {
            work: before.map_or_else(Work::default, |before| {
                Work::between(before, &line.counters)
            }),
            counters: Some(line.counters),
        }
    };
    now.topology.devices.iter().map(of).collect()
}

/// Before Linux 6.4, the paths of native NVMe multipath count, and their disk does not. How much of that was on which
/// partition is unknown.
fn count_by_paths(topology: &Topology, intervals: &mut [DeviceInterval]) {
    for (index, device) in topology.devices.iter().enumerate() {
        let counts = |interval: &DeviceInterval| {
            let counters = interval.counters;
            counters.is_some_and(|counters| !counters.is_untouched())
        };
        if device.paths.is_empty() || counts(&intervals[index]) {
            continue;
        }
        let mut paths = device.paths.iter().map(|path| {
            let path = topology.device_index(path);
            path.map_or_else(DeviceInterval::default, |path| intervals[path])
        });
        intervals[index] = match device.kind {
            DeviceKind::Partition => DeviceInterval::default(),
            _ => paths.next().map_or_else(DeviceInterval::default, |first| {
                paths.fold(first, DeviceInterval::plus)
            }),
        };
    }
}

/// Counters by identity and generation, so that a recreated device starts anew.
fn counters_by_identity(observed: &SampledMachine) -> HashMap<(&str, Option<u64>), Counters> {
    let lines = by_name(&observed.sample);
    let devices = observed.topology.devices.iter();
    devices
        .filter_map(|device| {
            Some((
                (&*device.identity, device.generation),
                lines.get(&*device.name)?.counters,
            ))
        })
        .collect()
}

/// Hidden devices share the number 0:0.
fn by_name(sample: &Sample) -> HashMap<&str, &DeviceLine> {
    sample
        .devices
        .iter()
        .flatten()
        .map(|line| (&*line.name, line))
        .collect()
}

fn host(before: Option<&Sample>, now: &Sample) -> Host {
    let mut host = Host::default();
    host.0[HostColumn::Blocked as usize] = now.blocked.map(u64::from);
    let Some(before) = before else {
        return host;
    };
    let mut set = |column: HostColumn, before: u64, now: u64| {
        host.0[column as usize] = now.checked_sub(before);
    };
    if let (Some(before), Some(now)) = (before.paging, now.paging) {
        set(HostColumn::PagedInKib, before.in_kib, now.in_kib);
        set(HostColumn::PagedOutKib, before.out_kib, now.out_kib);
    }
    if let (Some(before), Some(now)) = (before.cpu, now.cpu) {
        set(HostColumn::User, before.user, now.user);
        set(HostColumn::System, before.system, now.system);
        // The kernel documents that iowait may decrease; it counts from 0 then.
        set(
            HostColumn::Iowait,
            before.iowait.min(now.iowait),
            now.iowait,
        );
        set(HostColumn::AllCpu, before.total, now.total);
    }
    if let (Some(before), Some(now)) = (before.pressure_us, now.pressure_us) {
        set(HostColumn::PressureUs, before, now);
    }
    host
}
