//! The only module that observes the machine. A `Reading` holds the raw texts of one tick, from the machine or from a
//! recording. Texts are not parsed here.

pub mod backup;
mod certificate;
pub mod clock;
pub mod files;
pub mod hooks;
pub mod live;
pub mod lvm;
mod machine_id;
pub mod own;
pub mod rate;
pub mod reader;
pub mod recording;
mod slow;
pub mod usage;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use certificate::{ArchiveSummary, ArchiveVerdict, CertificateCommand};
pub use machine_id::machine_id;

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

/// A part's text, verbatim, or an error message.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum ReadResult {
    Text(String),
    Error(String),
}

impl From<Result<String, String>> for ReadResult {
    fn from(result: Result<String, String>) -> Self {
        result.map_or_else(Self::Error, Self::Text)
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
    /// Processes below running backups that exited with an error or were killed: lines of
    /// `run<TAB>milliseconds<TAB>child|descendant<TAB>status<TAB>name`
    Exits,
    /// New errors in the kernel's log, a line each
    KernelLog,
    /// Regions of cowbell's device-mapper statistics, with the areas written to since the previous reading, formatted by
    /// [`cowbell_touched::text`]
    Touched,
    /// `vgname`, `lvname` and `lvsize` of `/etc/mylvmbackup.conf`, as a file that has nothing else
    BackupPlan,
}

impl Part {
    /// The parts of every complete reading; the others are only read if something is new.
    pub const ALL: [Self; 10] = [
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
    ];
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

/// A command on a job, by the job's key. The name of the key in a recording tells the commands apart.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum JobCommand {
    Mark(Mark),
    Note(NoteCommand),
    Phase(PhaseCommand),
    Remove(RemoveCommand),
    Accept(AcceptCommand),
    Certificate(CertificateCommand),
}

/// Adds a note to a job.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct NoteCommand {
    #[serde(rename = "noted")]
    pub key: String,
    #[serde(flatten)]
    pub note: Note,
}

/// Begins a phase of a job.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct PhaseCommand {
    #[serde(rename = "phased")]
    pub key: String,
    pub name: String,
    /// The default is the time of the reading.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Deletes an ended job.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct RemoveCommand {
    #[serde(rename = "removed")]
    pub key: String,
}

/// Accepts the result of a backup that left files out on purpose.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct AcceptCommand {
    #[serde(rename = "accepted")]
    pub key: String,
}

/// The beginning of a phase, which lasts until the next one or the job's end.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct PhaseMark {
    pub at: Timestamp,
    pub name: String,
}

/// A note on a job, and the time that it refers to.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
pub struct Note {
    pub at: Timestamp,
    pub text: String,
}

/// The set that a run belongs to. Runs of a set are compared by variant, each with its repeats.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
pub struct Label {
    pub set: String,
    /// `null` in a set of a single variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// From 1; `null` if not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
}

impl Label {
    /// Set, variant and repeat, without a set that has the job's own name.
    pub fn short_text(&self, name: &str) -> String {
        let set = Some(self.set.clone()).filter(|set| set != name);
        let repeat = self.repeat.map(|repeat| format!("#{repeat}"));
        [set, self.variant.clone(), repeat]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" · ")
    }
}

/// Maximum number of characters in the name of a job, a phase, a set or a variant.
pub const LONGEST_NAME: usize = 200;

/// Checks that a text can be shown as one line: visible, at most `most` characters, without control characters and without
/// those that change the direction of text. The error names `what`.
pub fn check_letters(what: &str, text: &str, most: usize) -> Result<(), String> {
    let is_invisible = |letter: char| {
        letter.is_whitespace()
            || matches!(letter, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
    };
    let is_invalid = |letter: char| {
        letter.is_control() || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.chars().all(is_invisible) || text.chars().count() > most || text.chars().any(is_invalid)
    {
        return Err(format!(
            "expected {what} to be 1 to {most} letters without control characters"
        ));
    }
    Ok(())
}

/// Begins or ends a job. A mark may be repeated.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Mark {
    /// Identifies the job; chosen by the client.
    pub key: String,
    pub kind: MarkKind,
    pub name: String,
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    pub started_at: Timestamp,
    #[serde(default, rename = "ended", skip_serializing_if = "Option::is_none")]
    pub end: Option<MarkEnd>,
    /// The PID of `cowbell run`, if it runs on this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
}

/// The kind of job that a mark begins.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// A span between two marks.
    #[default]
    Mark,
    /// A command under `cowbell run`.
    Command,
}

/// The end of a job, as its client reports it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct MarkEnd {
    pub at: Timestamp,
    pub succeeded: bool,
    /// For a command that exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
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
