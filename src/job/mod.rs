//! Jobs: when a backup, a benchmark or a copy ran, and what is known of it.
//!
//! A snapshot volume that appears and goes is a job, known by its UUID: one life, one job. Others are told by marks.
//! What nobody said is not known: an outcome that was not reported is never success, and what was reported is weighed
//! against what became of the snapshot.

pub mod advice;
mod tracker;
pub mod course;
pub mod diagnosis;
pub mod figures;
pub mod finish;
mod follow;
pub mod layout;
pub mod remaining;
mod outcome;
pub mod rates;
pub mod phase;
mod runs;
pub mod setup;
pub mod sizing;
pub mod statistics;
mod told;
pub mod tool;
pub mod failed_run;
mod words;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::source::{Label, MarkKind, Note, ToldPhase};
use crate::topology::{State, VolumeState};
pub use outcome::{Harm, Outcome};
use phase::BackupRun;
use setup::Setup;
pub use told::{MOST_PHASES, PhaseError, PhaseSpan};
pub use tracker::{CommandError, Effect, JobChange, JobTracker};

/// What the key of a job begins with that was brought here from another host.
pub const IMPORTED: &str = "imported:";
/// Notes of a job at most.
pub const MOST_NOTES: usize = 200;

/// As it is kept, and as a file has it, but for its number and key there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    #[serde(skip)]
    pub id: i64,
    pub kind: JobKind,
    /// What makes it the same job after a restart: the snapshot's UUID, or the key that its mark chose.
    #[serde(skip)]
    pub key: String,
    pub name: String,
    pub vg: Option<String>,
    pub lv: Option<String>,
    pub origin: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// `None` while it runs.
    pub outcome: Option<Outcome>,
    /// When its snapshot was seen to be invalid. Of a command: one that was made while it ran.
    pub died_at: Option<Timestamp>,
    /// When its snapshot was seen to answer nothing but errors.
    pub io_error_at: Option<Timestamp>,
    /// What hooks told of the run that made its snapshot.
    pub heard: Option<BackupRun>,
    /// Of a command that ended by itself.
    pub exit_status: Option<i32>,
    /// The folder on which its snapshot is mounted, or was at last.
    pub mounted_on: Option<String>,
    /// When it was seen to be unmounted; `None` while it is mounted, or where it never was.
    pub unmounted_at: Option<Timestamp>,
    /// It had begun before anybody looked, or went on while nobody did.
    #[serde(default)]
    pub partly_seen: bool,
    pub last_fill_percent: Option<f64>,
    pub peak_fill_percent: Option<f64>,
    /// Of a snapshot: read from it. Of a command: read from all disks in the whole ticks while it ran.
    pub bytes_read: Option<u64>,
    /// What its device's counter of bytes read said last, to go on from.
    #[serde(skip)]
    pub read_counter: Option<u64>,
    /// What its snapshot, its origin and the machine were like.
    #[serde(default)]
    pub setup: Setup,
    /// To which set of runs it belongs, where somebody said so.
    pub label: Option<Label>,
    /// In the order of time.
    #[serde(default)]
    pub notes: Vec<Note>,
    /// Phases that somebody told, in the order of time; those of hooks are in `heard`.
    #[serde(default)]
    pub told_phases: Vec<ToldPhase>,
    /// Of a snapshot: the name of the program that made it, where it was seen.
    pub program: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// The life of a snapshot volume.
    Snapshot,
    /// A command under `cowbell run`.
    Command,
    /// A span that somebody marked.
    Mark,
}

impl JobKind {
    pub fn text(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Command => "command",
            Self::Mark => "mark",
        }
    }
}

impl From<MarkKind> for JobKind {
    fn from(kind: MarkKind) -> Self {
        match kind {
            MarkKind::Mark => Self::Mark,
            MarkKind::Command => Self::Command,
        }
    }
}

impl Job {
    pub(crate) fn new(id: i64, kind: JobKind, key: &str, name: &str, started_at: Timestamp) -> Self {
        Self {
            id,
            kind,
            key: key.into(),
            name: name.into(),
            vg: None,
            lv: None,
            origin: None,
            started_at,
            ended_at: None,
            outcome: None,
            died_at: None,
            io_error_at: None,
            heard: None,
            exit_status: None,
            mounted_on: None,
            unmounted_at: None,
            partly_seen: false,
            last_fill_percent: None,
            peak_fill_percent: None,
            bytes_read: None,
            read_counter: None,
            setup: Setup::default(),
            label: None,
            notes: Vec::new(),
            told_phases: Vec::new(),
            program: None,
        }
    }

    /// Adds a note; false if there is no room for it. The same note twice is one.
    fn note(&mut self, note: &Note) -> bool {
        let is_there = self.notes.contains(note);
        let has_room = self.notes.len() < MOST_NOTES;
        if !is_there && has_room {
            let place = self.notes.partition_point(|other| other.at <= note.at);
            self.notes.insert(place, note.clone());
        }
        is_there || has_room
    }

    /// Whether it ran on another host: then nothing here is known of its volumes.
    pub fn is_imported(&self) -> bool {
        self.key.starts_with(IMPORTED)
    }

    /// The host that it was brought from.
    pub fn imported_from(&self) -> Option<&str> {
        self.setup.host.as_deref().filter(|_| self.is_imported())
    }

    pub fn is_running(&self) -> bool {
        self.ended_at.is_none()
    }

    pub fn seconds(&self, now: Timestamp) -> f64 {
        let end = self.ended_at.unwrap_or(now);
        (end.as_millisecond() - self.started_at.as_millisecond()).max(0) as f64 / 1000.0
    }

    fn see(&mut self, at: Timestamp, state: &VolumeState) {
        match state.state {
            State::Invalid => self.died_at = self.died_at.or(Some(at)),
            State::Failed => self.io_error_at = self.io_error_at.or(Some(at)),
            _ => {}
        }
        if let Some(percent) = state.fill.map(|fill| fill.percent()) {
            self.last_fill_percent = Some(percent);
            self.peak_fill_percent = Some(self.peak_fill_percent.map_or(percent, |peak| peak.max(percent)));
        }
    }

    fn see_mounts(&mut self, at: Timestamp, mounts: Option<&[String]>) {
        match mounts {
            Some([first, ..]) => {
                (self.mounted_on, self.unmounted_at) = (Some(first.clone()), None);
            }
            Some([]) if self.mounted_on.is_some() => {
                self.unmounted_at.get_or_insert(at);
            }
            _ => {}
        }
    }

    /// A device's counter starts with the device, so what it says is what was read in the snapshot's life.
    fn count_reads(&mut self, counter: u64) {
        let grown = match self.read_counter {
            Some(before) if before <= counter => counter - before,
            _ => counter,
        };
        self.bytes_read = Some(self.bytes_read.unwrap_or_default() + grown);
        self.read_counter = Some(counter);
    }

    fn is_of(&self, run: u32) -> bool {
        self.heard.as_ref().is_some_and(|heard| heard.run == run)
    }
}

#[cfg(test)]
pub(crate) mod tests;
