//! Jobs: when a backup, a benchmark or a copy ran, and what is known of it.
//!
//! A snapshot volume that appears and goes is a job, known by its UUID: one life, one job. Others are told by marks.
//! What nobody said is not known: an outcome that was not reported is never success, and what was reported is weighed
//! against what became of the snapshot.

pub mod advice;
mod book;
pub mod course;
pub mod diagnosis;
pub mod figures;
pub mod finish;
pub mod layout;
pub mod left;
pub mod pace;
pub mod phase;
mod runs;
pub mod setup;
pub mod sizing;
pub mod statistics;
pub mod tool;
pub mod unmade;
mod words;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::source::{Label, MarkKind, Note};
use crate::topology::{State, VolumeState};
pub use book::JobBook;
use phase::{Begun, Heard};
use setup::Setup;

/// dmeventd looks every 10 s at the latest, and then takes a moment.
const DEATH_AND_UNMOUNT_MS: i64 = 12_000;
/// Both may be seen in one tick, or the mount first.
const ONE_MOMENT_MS: i64 = 1_000;
/// What died so soon after success was reported may have been dead before: where the kernel's word comes late, it is
/// known no better than by the longest tick.
const DEATH_IS_KNOWN_MS: i64 = 60_000;

/// What the key of a job begins with that was brought here from another host.
pub const IMPORTED: &str = "imported:";
/// What a job has of notes at most; more are left out.
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
    pub heard: Option<Heard>,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    Failed,
    /// Success was reported, but what was read was lost meanwhile.
    Untrustworthy,
    /// The snapshot became invalid while it lived.
    Overflowed,
    /// It was killed, or the machine went down: nobody came to say how it ended.
    Abandoned,
    /// Nobody said.
    Unknown,
}

impl Outcome {
    pub fn text(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Untrustworthy => "untrustworthy",
            Self::Overflowed => "overflowed",
            Self::Abandoned => "abandoned",
            Self::Unknown => "unknown",
        }
    }
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
            program: None,
        }
    }

    /// The same note twice is one.
    fn note(&mut self, note: &Note) {
        if self.notes.contains(note) || self.notes.len() >= MOST_NOTES {
            return;
        }
        let place = self.notes.partition_point(|other| other.at <= note.at);
        self.notes.insert(place, note.clone());
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

    /// Whether it was unmounted so soon after its snapshot died that LVM's monitoring may have done it.
    pub fn was_unmounted_with_its_death(&self) -> bool {
        let between = self.died_at.zip(self.unmounted_at);
        between.is_some_and(|(died, unmounted)| {
            let ms = unmounted.as_millisecond() - died.as_millisecond();
            (-ONE_MOMENT_MS..=DEATH_AND_UNMOUNT_MS).contains(&ms)
        })
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

    /// Ends it as reported, unless what is known of its snapshot says otherwise.
    fn end(&mut self, at: Timestamp, reported: Outcome) {
        self.ended_at = Some(at.max(self.started_at));
        self.outcome = Some(self.weighed(reported));
    }

    fn weighed(&self, reported: Outcome) -> Outcome {
        match (self.kind, reported) {
            _ if self.is_untrustworthy() => Outcome::Untrustworthy,
            (JobKind::Command | JobKind::Mark, Outcome::Succeeded) if self.died_at.is_some() => {
                Outcome::Untrustworthy
            }
            // A backup that was done before its snapshot died is none the worse for it.
            (_, Outcome::Succeeded) => Outcome::Succeeded,
            (JobKind::Snapshot, _) if self.died_at.is_some() => Outcome::Overflowed,
            (_, reported) => reported,
        }
    }

    /// The phases that its hooks told, each with its end; `None` while it goes on.
    pub fn phases(&self) -> impl Iterator<Item = (Begun, Option<Timestamp>)> {
        let phases = self.heard.as_ref().map_or(&[][..], |heard| &heard.phases);
        let ends = phases.iter().skip(1).map(|next| Some(next.at)).chain([self.ended_at]);
        phases.iter().copied().zip(ends)
    }

    fn is_of(&self, run: u32) -> bool {
        self.heard.as_ref().is_some_and(|heard| heard.run == run)
    }

    /// What its hooks reported; `abandoned` where they fell silent while somebody listened.
    fn reported(&self) -> Outcome {
        let Some(heard) = &self.heard else { return Outcome::Unknown };
        match heard.reported {
            Some(report) => report.outcome(),
            None if heard.is_unbroken && !heard.is_over() => Outcome::Abandoned,
            None => Outcome::Unknown,
        }
    }

    /// Whether its run reported success, but lost what it read: a backup that pipes into a compressor does not notice.
    pub fn is_untrustworthy(&self) -> bool {
        self.harm().is_some()
    }

    /// When, and by what, a run that reported success lost what it read.
    pub fn harm(&self) -> Option<(Harm, Timestamp)> {
        let report = self.heard.as_ref()?.reported.filter(|report| report.succeeded)?;
        let done_ms = report.at.as_millisecond();
        let within = |at: &Timestamp, more_ms: i64| at.as_millisecond() < done_ms + more_ms;
        let died = self.died_at.filter(|at| within(at, DEATH_IS_KNOWN_MS)).map(|at| (Harm::Death, at));
        let failed =
            self.io_error_at.filter(|at| within(at, DEATH_IS_KNOWN_MS)).map(|at| (Harm::IoError, at));
        // A run unmounts its snapshot itself, after it has said that it is done.
        let unmounted = self.unmounted_at.filter(|at| within(at, 0)).map(|at| (Harm::Unmount, at));
        died.or(failed).or(unmounted)
    }
}

/// What takes from a backup what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The snapshot became invalid.
    Death,
    IoError,
    /// Somebody else unmounted it.
    Unmount,
}

#[cfg(test)]
pub(crate) mod example;
#[cfg(test)]
mod tests;
