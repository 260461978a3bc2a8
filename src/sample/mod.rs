//! Parses readings into counters, fills and names. A `Sampler` remembers parts that are not read every tick, such as
//! names and LVM's report, and the last error of each part. No clock, no file, no socket.

pub mod diskstats;
pub mod guard;
pub mod hooks;
pub mod host;
pub mod lvm;
pub mod mounts;
pub mod processes;
pub mod sysfs;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use cowbell_device_mapper::status::{self, DmDevice};
use cowbell_touched::text::{self as touched, Region};
use jiff::Timestamp;

use crate::mylvmbackup::NextSnapshot;
use crate::schedule::ScheduledStart;
use crate::source::{Part, PartReading, ReadError, ReadResult, Reading, variant_name};
use diskstats::DeviceLine;
use guard::{GuardSeen, GuardState};
use host::{CpuTimes, Paging};
use mounts::{Mount, Usage};
use processes::{BackupProcess, Maker, ProcessExit};
use sysfs::BlockDevice;

/// Each distinct parse error is logged once, up to this many.
const MAX_LOGGED_ERRORS: usize = 1_000;

/// Maximum age of fills from LVM's report. Without the device-mapper, LVM runs every 10 s and may answer slowly.
const FILLS_MAX_AGE_US: u64 = 25_000_000;
/// Maximum age of free space from LVM's report. LVM runs every minute and may be busy for several.
const FREE_SPACE_MAX_AGE_US: u64 = 300_000_000;

/// Counters and fills at one instant. `None`: not read in this tick, or not parseable.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    pub at: Timestamp,
    pub uptime_us: u64,
    pub devices: Option<Vec<DeviceLine>>,
    pub paging: Option<Paging>,
    pub cpu: Option<CpuTimes>,
    /// Processes blocked on I/O at this instant.
    pub blocked: Option<u32>,
    /// Microseconds since boot during which at least one process waited for I/O.
    pub pressure_us: Option<u64>,
    pub dm: Option<Vec<DmDevice>>,
    /// Whether the report is newer than the last device-mapper status, and recent enough to take fills from.
    pub report_has_current_fills: bool,
    /// The programs that were creating volumes during this tick.
    pub makers: Vec<Maker>,
    /// Processes below running backups that failed since the last tick.
    pub exits: Vec<ProcessExit>,
    /// Devices with a read error in the kernel's log since the last tick.
    pub read_errors: Vec<String>,
    /// Why a snapshot became invalid since the last tick.
    pub invalidation: Option<host::Invalidation>,
    /// Regions of statistics and what was written there, only in the tick of their reading, about once a minute.
    pub touched: Option<Vec<Region>>,
    /// `None` without `cowbell guard`.
    pub guard: Option<GuardSeen>,
    pub slow: SlowParts,
}

/// The parts that are not read at every tick.
#[derive(Clone, Debug, Default)]
pub struct SlowParts {
    /// The device-mapper's devices, as of the last change of a number, name, UUID or type; the same `Arc` until the next.
    pub dm_identities: Arc<Vec<DmDevice>>,
    /// Block devices from sysfs; the same `Arc` until they change.
    pub names: Arc<Vec<BlockDevice>>,
    /// LVM's last report; the same `Arc` until it changes.
    pub report: Option<Arc<lvm::Report>>,
    /// The block devices when LVM answered: what appears later, while a lock is held, is in no report yet.
    pub reported_names: Arc<Vec<BlockDevice>>,
    /// LVM's autoextend policies.
    pub policies: Option<lvm::Policies>,
    /// The host's own, which may be empty.
    pub system_id: Option<String>,
    /// Mounts of block devices; the same `Arc` until they change. `None` if they cannot be read.
    pub mounts: Option<Arc<Vec<Mount>>>,
    /// Used space of mounted file systems that may be on a snapshot.
    pub usages: Arc<Vec<Usage>>,
    /// Processes of running backups.
    pub backups: Arc<Vec<BackupProcess>>,
    /// The snapshot that mylvmbackup makes next.
    pub next_snapshot: Option<Arc<NextSnapshot>>,
    /// When programs start by crontabs and timers.
    pub schedule: Arc<Vec<ScheduledStart>>,
    pub guard: Option<Arc<GuardState>>,
}

/// The result of reading and parsing a part, from its last attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct PartState {
    pub error: Option<ReadError>,
    pub took_us: u64,
    pub last_ok_at: Option<Timestamp>,
}

/// Parses consecutive readings.
#[derive(Default)]
pub struct Sampler {
    slow: SlowParts,
    /// Monotonic time of the last report.
    report_read_us: Option<u64>,
    dm: Vec<DmDevice>,
    dm_read_us: Option<u64>,
    parts: BTreeMap<Part, PartState>,
    logged_errors: HashSet<String>,
}

impl Sampler {
    /// Parses one reading. Errors go to [`Sampler::parts`] and, once each, to the log.
    pub fn sample(&mut self, reading: &Reading) -> Sample {
        let mut sample = Sample {
            at: reading.at,
            uptime_us: reading.uptime_us,
            ..Sample::default()
        };
        for text in &reading.texts {
            let result = match text.result.text() {
                Ok(content) => self
                    .parse_part(text.part, content, &mut sample)
                    .map_err(ReadError::Failed),
                Err(error) => {
                    if text.part == Part::Mounts {
                        self.slow.mounts = None;
                        self.slow.usages = Arc::default();
                    }
                    Err(error)
                }
            };
            if let Err(error) = &result {
                self.log_error(text, &error.to_string());
            }
            self.record_result(reading.at, text, result.err());
        }
        self.forget_free_space(reading.uptime_us);
        sample.report_has_current_fills = self.report_has_current_fills(reading.uptime_us);
        let guard = self.slow.guard.clone();
        sample.guard = guard.map(|state| GuardSeen::new(state, reading.uptime_us));
        sample.slow = self.slow.clone();
        sample
    }

    /// Discards free space from an old report, since it changes.
    fn forget_free_space(&mut self, now_us: u64) {
        let is_old = self
            .report_read_us
            .is_some_and(|at_us| now_us.saturating_sub(at_us) > FREE_SPACE_MAX_AGE_US);
        let Some(report) = self
            .slow
            .report
            .as_ref()
            .filter(|report| is_old && report.has_free_space())
        else {
            return;
        };
        self.slow.report = Some(Arc::new(report.without_free_space()));
    }

    fn report_has_current_fills(&self, now_us: u64) -> bool {
        let Some(report_read_us) = self.report_read_us else {
            return false;
        };
        self.dm_read_us < self.report_read_us
            && now_us.saturating_sub(report_read_us) < FILLS_MAX_AGE_US
    }

    pub fn parts(&self) -> &BTreeMap<Part, PartState> {
        &self.parts
    }

    fn parse_part(&mut self, part: Part, text: &str, sample: &mut Sample) -> Result<(), String> {
        match part {
            Part::Diskstats => {
                let (devices, unparsed) = diskstats::parse(text);
                sample.devices = Some(devices);
                require_parsed(&unparsed)?;
            }
            Part::Vmstat => sample.paging = Some(host::parse_vmstat(text)?),
            Part::Stat => {
                let (cpu, blocked) = host::parse_stat(text)?;
                (sample.cpu, sample.blocked) = (Some(cpu), blocked);
            }
            Part::Pressure => sample.pressure_us = Some(host::parse_pressure(text)?),
            Part::Sysfs => {
                let names = sysfs::parse(text);
                if *self.slow.names != names {
                    self.slow.names = Arc::new(names);
                }
            }
            Part::Dm => {
                let found = status::parse(text);
                let unparsed = require_parsed(&found.unparsed);
                self.dm = found.updating(std::mem::take(&mut self.dm));
                self.dm_read_us = Some(sample.uptime_us);
                self.update_dm_identities();
                sample.dm = Some(self.dm.clone());
                unparsed?;
            }
            Part::Lvm => {
                let report = lvm::parse(text)?;
                if self.slow.report.as_deref() != Some(&report) {
                    self.slow.report = Some(Arc::new(report));
                }
                self.slow.reported_names = Arc::clone(&self.slow.names);
                self.report_read_us = Some(sample.uptime_us);
            }
            Part::LvmConfig => {
                self.slow.policies = Some(lvm::parse_policies(text)?);
                self.slow.system_id = lvm::system_id(text);
            }
            Part::Processes => {
                let (processes, unparsed) = processes::parse(text);
                sample.makers = processes::makers(&processes);
                require_parsed(&unparsed)?;
            }
            Part::Backups => {
                let (backups, unparsed) = processes::parse_backups(text);
                self.slow.backups = Arc::new(backups);
                require_parsed(&unparsed)?;
            }
            Part::Exits => {
                let (exits, unparsed) = processes::parse_exits(text);
                sample.exits = exits;
                require_parsed(&unparsed)?;
            }
            Part::KernelLog => {
                sample.read_errors = host::devices_with_read_errors(text);
                sample.invalidation = host::invalidation(text);
            }
            Part::Touched => {
                let (regions, unparsed) = touched::parse(text);
                sample.touched = Some(regions);
                require_parsed(&unparsed)?;
            }
            Part::BackupPlan => {
                self.slow.next_snapshot = NextSnapshot::parse(text).map(Arc::new);
                if self.slow.next_snapshot.is_none() && !text.is_empty() {
                    let first = text.lines().next().unwrap_or_default();
                    return Err(format!("expected a volume and a size, but found {first:?}"));
                }
            }
            Part::Schedule => {
                let (starts, unparsed) = parse_lines(text, ScheduledStart::parse);
                self.slow.schedule = Arc::new(starts);
                require_parsed(&unparsed)?;
            }
            Part::Guard => self.slow.guard = guard::parse(text)?.map(Arc::new),
            Part::Mounts => {
                let (mounts, unparsed) = mounts::parse(text);
                self.forget_unmounted(&mounts);
                self.slow.mounts = Some(Arc::new(mounts));
                require_parsed(&unparsed)?;
            }
            Part::Usage => {
                let found = mounts::parse_usage(text);
                self.slow.usages = Arc::new(found.usages);
                require_parsed(&found.unparsed)?;
                found.unknown.into_iter().next().map_or(Ok(()), Err)?;
            }
        }
        Ok(())
    }

    /// Discards the usage of file systems that were unmounted; another one may be mounted there next.
    fn forget_unmounted(&mut self, mounts: &[Mount]) {
        let is_there = |usage: &Usage| mounts.contains(&usage.mount);
        let usages = &mut self.slow.usages;
        if !usages.iter().all(is_there) {
            *usages = Arc::new(
                usages
                    .iter()
                    .filter(|usage| is_there(usage))
                    .cloned()
                    .collect(),
            );
        }
    }

    fn update_dm_identities(&mut self) {
        if !self
            .slow
            .dm_identities
            .iter()
            .map(DmDevice::identity)
            .eq(self.dm.iter().map(DmDevice::identity))
        {
            self.slow.dm_identities = Arc::new(self.dm.clone());
        }
    }

    /// Logs a failed read as information, but a failed parse as a warning: that is a bug in cowbell. Errors that differ only
    /// in a number are logged once.
    fn log_error(&mut self, text: &PartReading, error: &str) {
        let without_numbers = error.chars().filter(|c| !c.is_ascii_digit()).collect();
        if self.logged_errors.len() >= MAX_LOGGED_ERRORS
            || !self.logged_errors.insert(without_numbers)
        {
            return;
        }
        let part = variant_name(text.part);
        if matches!(text.result, ReadResult::Text(_)) {
            tracing::warn!("{part}: {error}");
        } else {
            tracing::info!("{part}: {error}");
        }
    }

    fn record_result(&mut self, at: Timestamp, text: &PartReading, error: Option<ReadError>) {
        let before = self
            .parts
            .get(&text.part)
            .and_then(|state| state.last_ok_at);
        let last_ok_at = if error.is_none() { Some(at) } else { before };
        self.parts.insert(
            text.part,
            PartState {
                error,
                took_us: text.took_us,
                last_ok_at,
            },
        );
    }
}

/// Parses each line that is not blank; also returns the lines that failed.
fn parse_lines<T>(text: &str, parse: impl Fn(&str) -> Option<T>) -> (Vec<T>, Vec<String>) {
    let (mut parsed, mut unparsed) = (Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match parse(line) {
            Some(value) => parsed.push(value),
            None => unparsed.push(line.to_string()),
        }
    }
    (parsed, unparsed)
}

fn require_parsed(lines: &[String]) -> Result<(), String> {
    match lines {
        [] => Ok(()),
        [line] => Err(format!(
            "1 line could not be parsed and was skipped: {line:?}"
        )),
        [first, ..] => Err(format!(
            "{} lines could not be parsed and were skipped; the first is {first:?}",
            lines.len()
        )),
    }
}
