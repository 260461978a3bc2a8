//! The only module that observes the machine.
//!
//! A `Reading` holds the raw texts of one tick. The rest of the program does not depend on whether it comes from the
//! machine or from a recording. Texts are not parsed here.

pub mod backup;
pub mod dm;
pub mod files;
pub mod hooks;
pub mod live;
pub mod lvm;
pub mod own;
mod processes;
pub mod recording;
pub mod usage;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
    /// What hooks said since the last reading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
}

impl Reading {
    /// A reading without texts only carries commands and hook messages; it is no tick.
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
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
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
    /// Status of the device-mapper's devices, formatted by [`dm`]
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
}

impl Part {
    /// The parts of every complete reading; processes are only read if a device is new.
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

    pub fn name(self) -> &'static str {
        match self {
            Self::Diskstats => "diskstats",
            Self::Vmstat => "vmstat",
            Self::Stat => "stat",
            Self::Pressure => "pressure",
            Self::Sysfs => "sysfs",
            Self::Dm => "dm",
            Self::Lvm => "lvm",
            Self::LvmConfig => "lvm_config",
            Self::Mounts => "mounts",
            Self::Usage => "usage",
            Self::Processes => "processes",
        }
    }
}

/// A message from a hook, verbatim, and when it arrived.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Hook {
    pub at: Timestamp,
    pub said: String,
}

/// A command on a job, which its key names.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
#[serde(untagged)]
pub enum JobCommand {
    Mark(Mark),
    Note(NoteCommand),
    Phase(PhaseCommand),
    Remove(RemoveCommand),
}

/// Adds a note to a job.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct NoteCommand {
    /// The job's key.
    pub noted: String,
    #[serde(flatten)]
    pub note: Note,
}

/// Begins a phase of a job.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct PhaseCommand {
    /// The job's key.
    pub phased: String,
    pub name: String,
    /// When the reading was taken if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// What a job does from an instant on, until it does something else or is over.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct ToldPhase {
    pub at: Timestamp,
    pub name: String,
}

/// Deletes a job that is over.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct RemoveCommand {
    /// The job's key.
    pub removed: String,
}

/// A sentence on a job, and the instant that it is about.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
pub struct Note {
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
    pub text: String,
}

/// To which set of runs a job belongs: runs of one set are compared by their variants, each with its repeats.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
pub struct Label {
    pub set: String,
    /// `null` in a set of a single variant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// From 1; `null` where nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<u32>,
}

impl Label {
    /// Set, variant and repeat, without what the job's own name says.
    pub fn in_few_words(&self, name: &str) -> String {
        let set = Some(self.set.clone()).filter(|set| set != name);
        let repeat = self.repeat.map(|repeat| format!("#{repeat}"));
        [set, self.variant.clone(), repeat].into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}

/// Letters of the name of a job, a phase, a set or a variant at most.
pub const LONGEST_NAME: usize = 200;

/// Whether a text is fit to be shown as one line: something is to be seen, not too long, without control characters, and without
/// those that turn the writing of what follows. Markup is text. Else a sentence.
pub fn check_letters(what: &str, text: &str, most: usize) -> Result<(), String> {
    let turns = |letter: char| matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let is_unfit = |letter: char| letter.is_control() || turns(letter);
    let is_unseen = |letter: char| {
        letter.is_whitespace() || matches!(letter, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}')
    };
    let is_fine = !text.chars().all(is_unseen) && text.chars().count() <= most && !text.chars().any(is_unfit);
    is_fine
        .then_some(())
        .ok_or_else(|| format!("expected {what} to be 1 to {most} letters without control characters"))
}

/// Begins or ends a job. The same mark may come twice.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Mark {
    /// Chosen by who runs the job; names it for ever.
    pub key: String,
    pub kind: MarkKind,
    pub name: String,
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    pub started_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<MarkedEnd>,
}

/// What a mark is of.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// A span that somebody marked.
    #[default]
    Mark,
    /// A command under `cowbell run`.
    Command,
}

/// How a job ended, by the word of who ran it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct MarkedEnd {
    pub at: Timestamp,
    pub succeeded: bool,
    /// Of a command that ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
}

/// The machine, or a recording of one.
pub enum Source {
    Live(Box<live::Live>),
    Recorded(Box<recording::Player>),
}

impl Source {
    /// The next reading; `None` when a recording is at its end. May be dropped and called again at any time.
    pub async fn next(&mut self) -> Option<Reading> {
        match self {
            Self::Live(live) => Some(live.next().await),
            Self::Recorded(player) => player.next().await,
        }
    }

    /// Whether readings come at their own pace and cannot wait.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Live(_))
    }
}
