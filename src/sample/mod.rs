//! Text into counters, fills and names: what one reading says.
//!
//! A `Sampler` turns readings into samples one after the other. It remembers what is not read every tick (names,
//! LVM's report), and how each part did. No clock, no file, no socket.

pub mod diskstats;
pub mod dm;
pub mod hooks;
pub mod host;
pub mod lvm;
pub mod mounts;
pub mod mylvmbackup;
pub mod processes;
pub mod sysfs;
pub mod usage;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::source::{Part, Reading, Said, Text};
use diskstats::{DeviceLine, Number};
use dm::DmDevice;
use host::{CpuTimes, Paging};
use mounts::Mount;
use sysfs::BlockDevice;
use usage::Usage;

/// Lines that were not understood are logged once each, and no more of them than this.
const MOST_COMPLAINTS: usize = 1_000;

/// LVM's report tells of fills for this long: it is asked every 10 s where the device-mapper does not answer, and may
/// take its time.
const FILLS_OF_REPORT_AGE_US: u64 = 25_000_000;
/// LVM's report tells of free space for this long: it is asked each minute, and may be busy for some.
const FREE_SPACE_AGE_US: u64 = 300_000_000;

/// Counters and fills at one instant. `None` is what could not be read or understood in this tick.
#[derive(Clone, Debug)]
pub struct Sample {
    pub at: Timestamp,
    pub uptime_us: u64,
    pub devices: Option<Vec<DeviceLine>>,
    pub paging: Option<Paging>,
    pub cpu: Option<CpuTimes>,
    /// Processes that wait for I/O, at that instant.
    pub blocked: Option<u32>,
    /// Microseconds since boot in which at least one process waited for I/O.
    pub pressure_us: Option<u64>,
    pub dm: Option<Vec<DmDevice>>,
    /// What the device-mapper's devices are, as last said; the same `Arc` for as long as that does not change.
    pub shapes: Arc<Vec<Shape>>,
    /// The names as last read; the same `Arc` for as long as they do not change.
    pub names: Arc<Vec<BlockDevice>>,
    /// LVM's report as last given; the same `Arc` for as long as no other comes.
    pub report: Option<Arc<lvm::Report>>,
    /// Whether the report is newer than the device-mapper's last word, and new enough to tell of fills.
    pub report_tells_fills: bool,
    /// What LVM does before a volume is full, as last said.
    pub policies: Option<lvm::Policies>,
    /// Mounts of block devices; the same `Arc` for as long as they do not change. `None` where they cannot be read.
    pub mounts: Option<Arc<Vec<Mount>>>,
    /// How much file systems hold that may be a snapshot's, of those that told it.
    pub usages: Arc<Vec<Usage>>,
    /// The program that made a snapshot just then, where one was seen.
    pub maker: Option<String>,
}

/// What a device of the device-mapper is, apart from how it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub number: Number,
    pub name: String,
    pub uuid: String,
    /// The kernel's name of its first target's type.
    pub kind: Option<String>,
}

impl Shape {
    fn is_of(&self, device: &DmDevice) -> bool {
        self.number == device.number
            && self.kind.as_deref() == device.kind()
            && self.name == device.name
            && self.uuid == device.uuid
    }
}

impl From<&DmDevice> for Shape {
    fn from(device: &DmDevice) -> Self {
        Self {
            number: device.number,
            name: device.name.clone(),
            uuid: device.uuid.clone(),
            kind: device.kind().map(String::from),
        }
    }
}

/// How a part of the machine did when it was last asked.
#[derive(Clone, Debug, PartialEq)]
pub struct PartState {
    pub error: Option<String>,
    pub took_us: u64,
    pub last_ok_at: Option<Timestamp>,
}

/// Turns readings into samples.
#[derive(Default)]
pub struct Sampler {
    names: Arc<Vec<BlockDevice>>,
    shapes: Arc<Vec<Shape>>,
    report: Option<Arc<lvm::Report>>,
    /// On the clock that never jumps.
    reported_us: Option<u64>,
    dm: Vec<DmDevice>,
    dm_told_us: Option<u64>,
    policies: Option<lvm::Policies>,
    mounts: Option<Arc<Vec<Mount>>>,
    usages: Arc<Vec<Usage>>,
    parts: BTreeMap<Part, PartState>,
    complaints: HashSet<String>,
}

impl Sampler {
    /// Understands one reading. What cannot be understood is counted in [`Sampler::parts`] and logged once.
    pub fn sample(&mut self, reading: &Reading) -> Sample {
        let mut sample = Sample {
            at: reading.at,
            uptime_us: reading.uptime_us,
            devices: None,
            paging: None,
            cpu: None,
            blocked: None,
            pressure_us: None,
            dm: None,
            shapes: Arc::clone(&self.shapes),
            names: Arc::clone(&self.names),
            report: None,
            report_tells_fills: false,
            policies: None,
            mounts: None,
            usages: Arc::default(),
            maker: None,
        };
        for text in &reading.texts {
            let error = match &text.said {
                Said::Text(said) => self.understand(text.part, said, &mut sample).err(),
                Said::Error(error) if text.part == Part::Mounts => {
                    self.mounts = None;
                    self.usages = Arc::default();
                    Some(error.clone())
                }
                Said::Error(error) => Some(error.clone()),
            };
            if let Some(error) = error.as_ref().filter(|error| self.is_new(error)) {
                complain(text, error);
            }
            self.note(reading.at, text, error);
        }
        self.forget_free_space(reading.uptime_us);
        sample.names = Arc::clone(&self.names);
        sample.shapes = Arc::clone(&self.shapes);
        sample.report = self.report.clone();
        sample.report_tells_fills = self.report_tells_fills(reading.uptime_us);
        sample.policies = self.policies;
        sample.mounts = self.mounts.clone();
        sample.usages = Arc::clone(&self.usages);
        sample
    }

    /// How much is free changes; what LVM said of it long ago is not known any more.
    fn forget_free_space(&mut self, now_us: u64) {
        let is_old = self.reported_us.is_some_and(|at_us| now_us.saturating_sub(at_us) > FREE_SPACE_AGE_US);
        let Some(report) = self.report.as_ref().filter(|report| is_old && report.tells_free_space()) else {
            return;
        };
        self.report = Some(Arc::new(report.without_free_space()));
    }

    fn report_tells_fills(&self, now_us: u64) -> bool {
        let Some(reported_us) = self.reported_us else { return false };
        self.dm_told_us < self.reported_us && now_us.saturating_sub(reported_us) < FILLS_OF_REPORT_AGE_US
    }

    pub fn parts(&self) -> &BTreeMap<Part, PartState> {
        &self.parts
    }

    fn understand(&mut self, part: Part, text: &str, sample: &mut Sample) -> Result<(), String> {
        match part {
            Part::Diskstats => {
                let found = diskstats::parse(text);
                sample.devices = Some(found.devices);
                all_understood(&found.not_understood)?;
            }
            Part::Vmstat => sample.paging = Some(host::parse_vmstat(text)?),
            Part::Stat => {
                let (cpu, blocked) = host::parse_stat(text)?;
                (sample.cpu, sample.blocked) = (Some(cpu), blocked);
            }
            Part::Pressure => sample.pressure_us = Some(host::parse_pressure(text)?),
            Part::Sysfs => self.learn_names(sysfs::parse(text)),
            Part::Dm => {
                let found = dm::parse(text);
                let not_understood = all_understood(&found.not_understood);
                self.dm = found.after(std::mem::take(&mut self.dm));
                self.dm_told_us = Some(sample.uptime_us);
                self.learn_shapes();
                sample.dm = Some(self.dm.clone());
                not_understood?;
            }
            Part::Lvm => {
                let report = lvm::parse(text)?;
                if self.report.as_deref() != Some(&report) {
                    self.report = Some(Arc::new(report));
                }
                self.reported_us = Some(sample.uptime_us);
            }
            Part::LvmConfig => self.policies = Some(lvm::parse_policies(text)?),
            Part::Processes => {
                let (processes, not_understood) = processes::parse(text);
                sample.maker = processes::maker(&processes);
                all_understood(&not_understood)?;
            }
            Part::Mounts => {
                let (mounts, not_understood) = mounts::parse(text);
                self.forget_unmounted(&mounts);
                self.mounts = Some(Arc::new(mounts));
                all_understood(&not_understood)?;
            }
            Part::Usage => {
                let found = usage::parse(text);
                self.usages = Arc::new(found.usages);
                all_understood(&found.not_understood)?;
                found.unknown.into_iter().next().map_or(Ok(()), Err)?;
            }
        }
        Ok(())
    }

    /// What was mounted there held so much; what comes there next holds something else.
    fn forget_unmounted(&mut self, mounts: &[Mount]) {
        let is_there = |usage: &Usage| mounts.contains(&usage.mount);
        if !self.usages.iter().all(is_there) {
            self.usages = Arc::new(self.usages.iter().filter(|usage| is_there(usage)).cloned().collect());
        }
    }

    fn learn_names(&mut self, names: Vec<BlockDevice>) {
        if *self.names != names {
            self.names = Arc::new(names);
        }
    }

    fn learn_shapes(&mut self) {
        let is_same = self.shapes.len() == self.dm.len()
            && self.shapes.iter().zip(&self.dm).all(|(shape, device)| shape.is_of(device));
        if !is_same {
            self.shapes = Arc::new(self.dm.iter().map(Shape::from).collect());
        }
    }

    /// Whether this was not complained of before.
    fn is_new(&mut self, error: &str) -> bool {
        self.complaints.len() < MOST_COMPLAINTS && self.complaints.insert(without_numbers(error))
    }

    fn note(&mut self, at: Timestamp, text: &Text, error: Option<String>) {
        let before = self.parts.get(&text.part).and_then(|state| state.last_ok_at);
        let last_ok_at = if error.is_none() { Some(at) } else { before };
        self.parts.insert(text.part, PartState { error, took_us: text.took_us, last_ok_at });
    }
}

/// That something cannot be seen here is worth a word; that it is not understood is our fault.
fn complain(text: &Text, error: &str) {
    let part = text.part.name();
    match text.said {
        Said::Text(_) => tracing::warn!("{part}: {error}"),
        Said::Error(_) => tracing::info!("{part}: {error}"),
    }
}

fn all_understood(lines: &[String]) -> Result<(), String> {
    match lines {
        [] => Ok(()),
        [line] => Err(format!("1 line was not understood and is left out: {line:?}")),
        [first, ..] => {
            Err(format!("{} lines were not understood and are left out, the first: {first:?}", lines.len()))
        }
    }
}

/// Counters grow with each tick; the same complaint with other numbers is the same complaint.
fn without_numbers(error: &str) -> String {
    error.chars().filter(|c| !c.is_ascii_digit()).collect()
}
