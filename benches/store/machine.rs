//! A simulated machine: devices, volumes and the host, a tick a second, as the program's own intervals.

use std::sync::Arc;

use cowbell::interval::{DeviceInterval, Host, Interval, Work};
use cowbell::sample::diskstats::Counter;
use cowbell::sample::diskstats::Number;
use cowbell::topology::{self, DeviceKind, State, Topology, Volume, VolumeKind, VolumeState};
use cowbell::units::Fill;
use jiff::Timestamp;

use crate::chance::Chance;
use crate::device::{COUNTERS, Device, Habit};

/// What of the host is kept in each tick: paging (2), processor time (4), blocked processes, pressure.
pub const HOST_VALUES: u64 = 8;
/// 2026-03-02, a Monday, at midnight.
const START_US: i64 = 1_772_409_600_000_000;

/// How many of each there are.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub busy: usize,
    pub bursty: usize,
    pub idle: usize,
    pub volumes: usize,
}

impl Size {
    /// Thirty devices and ten volumes.
    pub const USUAL: Self = Self {
        busy: 12,
        bursty: 10,
        idle: 8,
        volumes: 10,
    };
    /// For a year in a few minutes.
    pub const SMALL: Self = Self {
        busy: 1,
        bursty: 1,
        idle: 1,
        volumes: 1,
    };
    pub const THOUSAND: Self = Self {
        busy: 400,
        bursty: 333,
        idle: 267,
        volumes: 10,
    };

    pub fn devices(self) -> usize {
        self.busy + self.bursty + self.idle
    }

    fn habit(self, index: usize) -> Habit {
        match index {
            _ if index < self.busy => Habit::Busy {
                has_backup: index < self.busy.div_ceil(3),
            },
            _ if index < self.busy + self.bursty => Habit::Bursty,
            _ => Habit::Idle,
        }
    }
}

pub struct Machine {
    pub size: Size,
    pub devices: Vec<Device>,
    /// Used units of each volume, of [`TOTAL`].
    pub used: Vec<u64>,
    /// The host's values, added up where they are counters.
    pub host: [u64; HOST_VALUES as usize],
    chance: Chance,
    topology: Arc<Topology>,
    second: u64,
    at_us: i64,
    /// Seconds of a tick.
    pub tick_s: i64,
}

/// Units that each volume has.
const TOTAL: u64 = 2_621_440;

impl Machine {
    /// Its first tick is a second after `at`, or after a fixed Monday's midnight.
    pub fn new(size: Size, at: Option<Timestamp>) -> Self {
        let devices =
            (0..size.devices()).map(|index| Device::new(size.habit(index), index as u64 + 1));
        Self {
            size,
            devices: devices.collect(),
            used: (0..size.volumes as u64)
                .map(|volume| TOTAL / 20 * (volume + 1))
                .collect(),
            host: [0; HOST_VALUES as usize],
            chance: Chance::new(0),
            topology: Arc::new(topology(size)),
            second: 0,
            at_us: at.map_or(START_US, |at| at.as_microsecond()),
            tick_s: 1,
        }
    }

    /// Values of a tick: counters of devices, fills of volumes, and the host's.
    pub fn values(&self) -> u64 {
        (self.size.devices() * COUNTERS + self.size.volumes) as u64 + HOST_VALUES
    }

    pub fn at(&self) -> Timestamp {
        Timestamp::from_microsecond(self.at_us).expect("a time that can be")
    }

    /// The next second. A timer comes a few microseconds early or late.
    pub fn tick(&mut self) -> Interval {
        let second = self.second;
        let works: Vec<[u64; COUNTERS]> = self
            .devices
            .iter_mut()
            .map(|device| device.second(second))
            .collect();
        let elapsed_us = self.tick_s * (1e6 + 60.0 * self.chance.normal()) as i64;
        self.second += self.tick_s.unsigned_abs();
        self.at_us += elapsed_us;
        self.fill(&works);
        Interval {
            at: self.at(),
            elapsed_us: elapsed_us.unsigned_abs(),
            topology: Arc::clone(&self.topology),
            devices: works.iter().map(interval_of).collect(),
            volumes: (0..self.used.len())
                .map(|volume| self.state(volume))
                .collect(),
            host: self.host(&works),
            devices_listed: true,
            policies: None,
            usages: Arc::default(),
            makers: Vec::new(),
            backups: Arc::default(),
            exits: Vec::new(),
            read_errors: Vec::new(),
            invalidation: None,
            touched: None,
            next_snapshot: None,
            schedule: Default::default(),
            guard: None,
        }
    }

    /// A volume fills with a part of what is written to its device; a full one is made anew.
    fn fill(&mut self, works: &[[u64; COUNTERS]]) {
        for (volume, used) in self.used.iter_mut().enumerate() {
            let written = works[volume % works.len()][3] as f64;
            *used += 16 * self.chance.count(written.min(200.0) * 0.02);
            if *used > TOTAL / 10 * 9 {
                *used = 16;
            }
        }
    }

    /// Every third is a thin pool, which has metadata as well.
    fn state(&self, volume: usize) -> VolumeState {
        let fill = |used, total, unit| Some(Fill { used, total, unit });
        let metadata = if volume % 3 == 2 {
            fill(self.used[volume] / 900, 4_096, 4_096)
        } else {
            None
        };
        VolumeState {
            fill: fill(self.used[volume], TOTAL, 512),
            metadata,
            ..VolumeState::only(State::Ok)
        }
    }

    fn host(&mut self, works: &[[u64; COUNTERS]]) -> Host {
        let counted = &works[..self.size.busy.div_ceil(3)];
        let kib = |column: usize| counted.iter().map(|work| work[column] / 2).sum::<u64>();
        let (read_kib, written_kib) = (kib(1), kib(4));
        let requests = works.iter().map(|work| work[0] + work[3]).sum::<u64>() as f64;
        let iowait = self.chance.count((requests / 300.0).min(80.0));
        let (user, system) = (
            self.chance.count(22.0),
            self.chance.count(9.0 + requests / 1_500.0),
        );
        let blocked = self.chance.count(iowait as f64 / 30.0);
        let pressure_us =
            (iowait as f64 * 4_000.0 * (1.0 + 0.2 * self.chance.normal())).max(0.0) as u64;
        let total = 200 + self.chance.between(0, 1);
        let now = [
            read_kib,
            written_kib,
            user,
            system,
            iowait,
            total,
            blocked,
            pressure_us,
        ];
        for (sum, now) in self.host.iter_mut().zip(now) {
            *sum += now;
        }
        self.host[6] = blocked;
        Host(now.map(Some))
    }
}

fn interval_of(work: &[u64; COUNTERS]) -> DeviceInterval {
    let mut counted = Work::IDLE;
    for (counter, amount) in Counter::all().zip(work) {
        counted = counted.with(counter, *amount);
    }
    DeviceInterval {
        work: counted,
        counters: None,
    }
}

/// A device's columns in the order of its counters.
pub fn columns(work: &Work) -> [u64; COUNTERS] {
    std::array::from_fn(|column| work.0[column].unwrap_or_default())
}

/// The name by which the store is asked for a device.
pub fn name(index: usize) -> String {
    format!("dm-{index}")
}

fn topology(size: Size) -> Topology {
    let devices = (0..size.devices()).map(|index| device(index, index < size.busy.div_ceil(3)));
    let volumes = (0..size.volumes).map(|index| volume(index, size.devices()));
    Topology::new(devices.collect(), Vec::new(), volumes.collect())
}

fn device(index: usize, counts: bool) -> topology::Device {
    topology::Device {
        number: Number {
            major: 253,
            minor: index as u32,
        },
        name: name(index).into(),
        identity: format!("LVM-simulated-device-{index:04}").into(),
        generation: None,
        label: format!("vg0/lv{index}"),
        kind: DeviceKind::Dm,
        vg: Some("vg0".into()),
        lv: None,
        is_pv: counts,
        slaves: Vec::new(),
        paths: Vec::new(),
        size: None,
        model: None,
        rotational: None,
        scheduler: None,
        read_ahead_kib: None,
        block_size: None,
        counts,
    }
}

fn volume(index: usize, devices: usize) -> Volume {
    Volume {
        vg: "vg0".into(),
        lv: format!("lv{index}"),
        uuid: format!("simulated-volume-{index:04}").into(),
        device: Some(index % devices),
        kind: if index % 3 == 2 {
            VolumeKind::ThinPool
        } else {
            VolumeKind::Snapshot
        },
        ..Volume::default()
    }
}
