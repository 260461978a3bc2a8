//! The only module that observes the machine. A `Reading` holds the raw texts of one tick, from the machine or from a
//! recording. Texts are not parsed here.

pub mod backup;
pub mod clock;
pub mod files;
pub mod guard;
pub mod hooks;
pub mod live;
pub mod lvm;
pub mod own;
pub mod rate;
pub mod reader;
pub mod recording;
pub mod schedule;
mod slow;
pub mod usage;

use std::time::{Duration, Instant};

use clock::{micros, uptime_us};
use cowbell_device_mapper::Scope;
use files::Root;
use jiff::Timestamp;
use live::device_mapper;
use lvm::LvmQuery;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::commands::JobCommand;
pub use cowbell_device_mapper::ReadError;

pub use own::machine_id;

/// The device-mapper answers in milliseconds. If it has not answered after this, the storage does not.
const DM_DEADLINE: Duration = Duration::from_secs(3);

/// The raw texts of one tick.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Reading {
    /// Wall clock in milliseconds; it may jump.
    pub at: Timestamp,
    /// Monotonic clock in microseconds (`CLOCK_BOOTTIME`).
    pub uptime_us: u64,
    /// The duration of taking the reading.
    pub took_us: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub texts: Vec<PartReading>,
    /// Commands on jobs since the last reading.
    #[serde(default, rename = "marks", skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<JobCommand>,
    /// Messages of hooks since the last reading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
}

impl Reading {
    /// A reading between ticks, of what was sent meanwhile.
    pub fn between_ticks(at: Timestamp, commands: Vec<JobCommand>, hooks: Vec<Hook>) -> Self {
        Self {
            at,
            uptime_us: uptime_us(),
            took_us: 0,
            texts: Vec::new(),
            commands,
            hooks,
        }
    }

    /// What names volumes, and what LVM says about them, for commands that look once.
    ///
    /// The device-mapper is asked from a thread with a time limit: it answers late if the storage does. Without it, active
    /// volumes are unknown; without LVM's report, inactive ones, thin origins and free space.
    pub async fn of_volumes(root: &Root) -> Self {
        let mut thread = device_mapper::thread();
        thread.ask(Scope::All);
        let mapped = match thread.wait(DM_DEADLINE).await {
            Ok(answer) => answer.value.1,
            Err(none) => Err(none.sentence("the device-mapper").into()),
        };
        let mut reporter = LvmQuery::default();
        reporter.start();
        let lvm = reporter.answer().await;
        let texts = [
            (Part::Diskstats, root.keep("proc/diskstats").read().into()),
            (Part::Sysfs, root.read_block_devices().into()),
            (Part::Mounts, root.keep("proc/self/mountinfo").read().into()),
            (Part::Dm, ReadResult::from(mapped)),
            (Part::Lvm, lvm.report.map_err(|error| error.sentence).into()),
        ];
        let policies = lvm
            .policies
            .map(|policies| (Part::LvmConfig, policies.into()));
        let texts = texts.into_iter().chain(policies);
        let part = |(part, result)| PartReading {
            part,
            result,
            took_us: 0,
        };
        Self {
            texts: texts.map(part).collect(),
            ..Self::between_ticks(clock::now(), Vec::new(), Vec::new())
        }
    }

    /// A reading without texts only carries commands and hook messages; it is not a tick.
    pub fn is_tick(&self) -> bool {
        !self.texts.is_empty()
    }
}

/// The text of one part, or an error. A part that is missing from a reading was not read; its last text remains valid.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct PartReading {
    pub part: Part,
    #[serde(flatten)]
    pub result: ReadResult,
    pub took_us: u64,
}

impl PartReading {
    /// Reads a part, and how long that takes.
    pub fn timed(part: Part, read: impl FnOnce() -> Result<String, String>) -> Self {
        let started = Instant::now();
        let result = read().into();
        Self {
            part,
            result,
            took_us: micros(started.elapsed()),
        }
    }
}

/// A part's text, verbatim, or why there is none.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum ReadResult {
    Text(String),
    Error(String),
    /// Only root may read it.
    NotRoot,
}

impl ReadResult {
    pub fn text(&self) -> Result<&str, ReadError> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Error(why) => Err(ReadError::Failed(why.clone())),
            Self::NotRoot => Err(ReadError::NotRoot),
        }
    }
}

impl<E: Into<ReadError>> From<Result<String, E>> for ReadResult {
    fn from(result: Result<String, E>) -> Self {
        match result.map_err(Into::into) {
            Ok(text) => Self::Text(text),
            Err(ReadError::Failed(why)) => Self::Error(why),
            Err(ReadError::NotRoot) => Self::NotRoot,
        }
    }
}

/// The parts of a reading.
#[derive(
    Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// `/proc/diskstats`
    Diskstats,
    /// `/proc/vmstat`
    Vmstat,
    /// `/proc/stat`
    Stat,
    /// `/proc/pressure/io`
    Pressure,
    /// Attributes of block devices in `/sys/class/block`: lines of `name/attribute<TAB>value`
    Sysfs,
    /// Status of the device-mapper's devices, formatted by [`cowbell_device_mapper`]
    Dm,
    /// `lvm fullreport` as JSON
    Lvm,
    /// Autoextend policies from `lvmconfig`, and whether dmeventd runs
    LvmConfig,
    /// Block devices in `/proc/self/mountinfo`
    Mounts,
    /// Usage of file systems on snapshots, formatted by [`usage`]
    Usage,
    /// Processes that create a snapshot, and their ancestors: lines of `pid (name) state ppid`
    Processes,
    /// Processes of running backups: lines of `pid<TAB>start<TAB>ancestors`, or `pid<TAB>ended`
    Backups,
    /// Running backups, and processes below them, that exited: lines of
    /// `run<TAB>milliseconds<TAB>self|child|descendant|thread<TAB>status<TAB>bytes<TAB>name`
    Exits,
    /// New errors in the kernel's log, a line each
    KernelLog,
    /// Regions of cowbell's device-mapper statistics, with the areas written to since the previous reading, formatted by
    /// [`cowbell_touched::text`]
    Touched,
    /// `vgname`, `lvname` and `lvsize` of `/etc/mylvmbackup.conf`, as a file that has nothing else
    BackupPlan,
    /// When crontabs and systemd's timers start programs, formatted by [`crate::schedule::ScheduledStart`]
    Schedule,
    /// The state file of `cowbell guard`; empty once it has ended
    Guard,
}

impl Part {
    /// In the order in which they are shown.
    pub const ALL: [Self; 18] = [
        Self::Diskstats,
        Self::Vmstat,
        Self::Stat,
        Self::Pressure,
        Self::Sysfs,
        Self::Mounts,
        Self::Usage,
        Self::Dm,
        Self::Lvm,
        Self::LvmConfig,
        Self::Touched,
        Self::BackupPlan,
        Self::Schedule,
        Self::Guard,
        Self::Processes,
        Self::Backups,
        Self::Exits,
        Self::KernelLog,
    ];

    /// Whether alerts rest on it.
    pub fn is_needed(self) -> bool {
        matches!(self, Self::Diskstats | Self::Dm | Self::Lvm)
    }

    /// Whether every tick reads it. The others are read if something is new, or less often.
    pub fn is_of_every_tick(self) -> bool {
        matches!(
            self,
            Self::Diskstats | Self::Vmstat | Self::Stat | Self::Pressure | Self::Dm
        )
    }

    /// Whether it reports what happened. Without an event it is not read, which is no failure.
    pub fn is_of_events(self) -> bool {
        matches!(
            self,
            Self::Processes | Self::Backups | Self::Exits | Self::KernelLog | Self::Guard
        )
    }
}

/// The name of a variant without fields, as in JSON.
pub fn variant_name(variant: impl Serialize) -> String {
    serde_json::to_value(variant)
        .ok()
        .and_then(|name| Some(name.as_str()?.into()))
        .unwrap_or_default()
}

/// A message from a hook, verbatim, and when it arrived.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Hook {
    pub at: Timestamp,
    #[serde(rename = "said")]
    pub text: String,
}

/// The machine, read by this process or by `cowbell reader`, or a recording of one.
pub enum Source {
    Live(Box<live::Live>),
    Remote(Box<reader::Remote>),
    Recorded(Box<recording::Player>),
}

impl Source {
    /// The next reading; `None` at the end of a recording. Cancel-safe.
    pub async fn next(&mut self) -> Option<Reading> {
        match self {
            Self::Live(live) => Some(live.next().await),
            Self::Remote(remote) => Some(remote.next().await),
            Self::Recorded(player) => player.next().await,
        }
    }

    /// Watches only these processes of backups. A recording contains the processes that were watched when it was made.
    pub async fn watch(&mut self, pids: &[u32]) {
        match self {
            Self::Live(live) => live.watch(pids),
            Self::Remote(remote) => remote.watch(pids).await,
            Self::Recorded(_) => {}
        }
    }

    /// Whether readings cannot wait.
    pub fn is_live(&self) -> bool {
        !matches!(self, Self::Recorded(_))
    }
}
