//! Jobs: when a backup, a benchmark or a copy ran, and its properties.
//!
//! The lifetime of a snapshot volume is a job, identified by its UUID. Marks begin and end all other jobs. Without a
//! reported outcome, a job never counts as succeeded; a reported one is checked against the state of the snapshot.

pub mod advice;
pub mod backup_run;
pub mod completeness;
pub mod diagnosis;
pub mod figures;
mod follow;
pub mod growth;
pub mod history;
mod judgement;
pub mod maker;
mod outcome;
pub mod pending_runs;
pub mod phases;
pub mod programs;
pub mod progress;
pub mod setup;
pub mod time_series;
pub mod tool;
mod tracker;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::commands::{ArchiveSummary, JobLabel, MarkKind, Note, PhaseMark};
use crate::interval::Interval;
use crate::sample::host::Invalidation;
use crate::sample::processes::ExitStatus;
use crate::topology::{State, Topology, VolumeState};
use backup_run::BackupRun;
pub use backup_run::ReportedResult;
use completeness::{Completeness, Coverage};
use judgement::PROBED_BYTES;
pub use judgement::{Grade, Judgement, Outcome, outcome_word, why_invalid};
use maker::{MakerRun, MakerState, ReadShare};
pub use outcome::DiskError;
pub use phases::{MOST_PHASES, PhaseSpan};
use setup::Setup;
pub use tracker::{CommandError, Effect, JobChange, JobTracker};

/// The prefix of an imported job's key.
pub const IMPORTED: &str = "imported:";
/// The prefix of the key of an ordinary user's command; the user's number and a colon follow.
pub const OF_USER: &str = "user:";
/// Maximum number of earlier runs that a backup is compared with: two weeks of nights.
pub const MOST_EARLIER_RUNS: usize = 14;
/// The kernel's log may be read a tick after the state.
const LATE_LOG_MS: i64 = 5_000;
/// A backup that reads nothing for this long, and for so many times its longest pause before, is stalled.
const LEAST_STALL_MS: u64 = 60_000;
/// The same once it has read nearly all, when its tool may prune its repository.
const LEAST_LAST_STALL_MS: u64 = 1_800_000;
const STALL_FACTOR: u64 = 2;
/// Maximum number of notes of a job.
pub const MOST_NOTES: usize = 200;

/// The number of the ordinary user who recorded the job of this key; `None` for jobs of operators and snapshots.
pub fn user(key: &str) -> Option<&str> {
    Some(key.strip_prefix(OF_USER)?.split_once(':')?.0)
}

/// As stored, and as in an exported file except for id and key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Job {
    #[serde(skip)]
    pub id: i64,
    pub kind: JobKind,
    /// Identifies the job across restarts: the snapshot's UUID, or the key in its mark.
    #[serde(skip)]
    pub key: String,
    pub name: String,
    pub vg: Option<String>,
    pub lv: Option<String>,
    pub origin: Option<String>,
    /// Volumes can be renamed. Jobs of earlier versions do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin_uuid: Option<String>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// `None` while it runs.
    pub outcome: Option<Outcome>,
    /// When its snapshot became invalid. For a command, a snapshot that it created.
    pub died_at: Option<Timestamp>,
    /// Why it became invalid, if the kernel's log or its state says that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalidation: Option<Invalidation>,
    /// When a read of its snapshot first failed, as far as the kernel reports that.
    pub io_error_at: Option<Timestamp>,
    /// The device with that error, such as `sda`; `None` if the snapshot returned only errors.
    pub io_error_device: Option<String>,
    /// The first read error of a disk below its snapshot, which may have been on another part of the disk.
    pub disk_error: Option<DiskError>,
    /// When its snapshot was last seen, if it was removed while the backup ran.
    pub removed_at: Option<Timestamp>,
    /// Whether its snapshot was still valid after its success was reported.
    pub outlived_report: bool,
    /// Whether its snapshot still existed at its end.
    pub left_snapshot: bool,
    /// The bytes that it read, compared with those that it should have read; set at its end.
    pub completeness: Option<Completeness>,
    /// When a person accepted its result.
    pub accepted_at: Option<Timestamp>,
    /// The key of the job of the command that created its snapshot.
    pub command_key: Option<String>,
    /// The result of that command, once it ended.
    pub command_report: Option<ReportedResult>,
    /// For a command, its PID.
    pub process: Option<u32>,
    /// For a command, the volume that it backs up, as `vg0/data`: the origin of a snapshot that this command, or an earlier
    /// run of the same name, created.
    pub backup_of: Option<String>,
    /// For a command, whether its user or its program says that it is a backup.
    pub is_declared_backup: bool,
    /// For a command, the number of snapshots that it created, and that of most earlier runs.
    pub snapshots_made: u32,
    pub snapshots_expected: u32,
    /// Whether no process reports how the backup goes, but most of the last snapshots of this name were read through.
    pub is_routine: bool,
    /// The incomplete ones of this name directly before it, by their IDs, if no process reported how it went.
    pub after_incomplete: Vec<i64>,
    /// Whether programs such as e2fsck read it to check it, and nothing copies it; while it runs, as it was the last time.
    pub is_check: bool,
    /// Whether its script made another one of the same origin, and read only that.
    pub is_spare: bool,
    /// Whether a person accepted an earlier one by the same script, which copies only what has changed.
    pub is_declared: bool,
    /// The mylvmbackup run that created its snapshot, from hooks.
    pub backup_run: Option<BackupRun>,
    /// For a command that exited.
    pub exit_status: Option<i32>,
    /// For a command that exited with success: how a program below it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden_failure: Option<String>,
    /// The last directory that its snapshot was mounted on.
    pub mounted_on: Option<String>,
    /// Where its snapshot is mounted and written to, so that it is in use and no backup.
    pub in_use_on: Option<String>,
    /// When its snapshot was unmounted; `None` while mounted or if it never was.
    pub unmounted_at: Option<Timestamp>,
    /// Whether it began, or continued, while cowbell was not running.
    pub partly_seen: bool,
    pub last_fill_percent: Option<f64>,
    pub peak_fill_percent: Option<f64>,
    /// The used bytes of its COW area, or the growth of its pool, at each of [`growth::AGES_MIN`] that it reached.
    pub growth: Vec<u64>,
    /// The most that its COW area can have grown after it was last seen.
    pub unseen_bytes: Option<u64>,
    /// Of a thin snapshot.
    pub pool: Option<growth::PoolUse>,
    /// By how much the wall clock was set forward since it began, in milliseconds.
    pub clock_set_ms: i64,
    /// The same until its snapshot became invalid.
    pub clock_set_before_death_ms: Option<i64>,
    /// Bytes read from the snapshot. For a command, from all disks in the whole ticks while it ran.
    pub bytes_read: Option<u64>,
    /// The last value of its device's counter of bytes read.
    #[serde(skip)]
    pub read_counter: Option<u64>,
    /// How long its snapshot has not been read, and the longest such pause before, in milliseconds.
    #[serde(skip)]
    pub pause_ms: u64,
    #[serde(skip)]
    pub longest_pause_ms: u64,
    /// Since when a running backup has read nothing, for much longer than before.
    pub stalled_since: Option<Timestamp>,
    /// Properties of its snapshot, its origin and the machine.
    pub setup: Setup,
    /// The set of runs that it belongs to.
    pub label: Option<JobLabel>,
    /// In order of time.
    pub notes: Vec<Note>,
    /// Phases from marks in order of time; those from hooks are in `backup_run`.
    pub phase_marks: Vec<PhaseMark>,
    /// The program that created its snapshot, if observed.
    pub program: Option<String>,
    /// The processes that created it, if observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maker: Option<MakerRun>,
    /// Its archive, if that was read through.
    pub certificate: Option<ArchiveSummary>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// The lifetime of a snapshot volume.
    #[default]
    Snapshot,
    /// A command under `cowbell run`.
    Command,
    /// A span between two marks.
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
    pub(crate) fn new(id: i64, kind: JobKind, key: &str, name: &str, at: Timestamp) -> Self {
        Self {
            id,
            kind,
            key: key.into(),
            name: name.into(),
            started_at: at,
            ..Self::default()
        }
    }

    /// Adds a note once; false if there is no room for it.
    fn note(&mut self, note: &Note) -> bool {
        if self.notes.contains(note) {
            return true;
        }
        if self.notes.len() >= MOST_NOTES {
            return false;
        }
        let place = self.notes.partition_point(|other| other.at <= note.at);
        self.notes.insert(place, note.clone());
        true
    }

    /// `vg0/data_snapshot`
    pub fn volume_name(&self) -> Option<String> {
        Some(format!("{}/{}", self.vg.as_ref()?, self.lv.as_ref()?))
    }

    /// `vg0/data`
    pub fn origin_name(&self) -> Option<String> {
        Some(format!("{}/{}", self.vg.as_ref()?, self.origin.as_ref()?))
    }

    /// Whether it ran on another host, so that its volumes are not those of this host.
    pub fn is_imported(&self) -> bool {
        self.key.starts_with(IMPORTED)
    }

    /// The host that it was imported from.
    pub fn imported_from(&self) -> Option<&str> {
        self.setup.host.as_deref().filter(|_| self.is_imported())
    }

    pub fn is_running(&self) -> bool {
        self.ended_at.is_none()
    }

    /// Whether it backs up a volume, as far as is known from hooks, its command, the processes that created the snapshot, or
    /// since it was read through. A snapshot that is kept and not read is not a backup.
    pub fn is_backup(&self) -> bool {
        match self.kind {
            JobKind::Snapshot => {
                self.backup_run.is_some() || self.command_key.is_some() || tool::is_for_backup(self)
            }
            // Everybody may call a command `mylvmbackup`.
            JobKind::Command => {
                let is_declared = self.is_declared_backup || programs::is_backup_tool(&self.name);
                self.backup_of.is_some() || user(&self.key).is_none() && is_declared
            }
            JobKind::Mark => false,
        }
    }

    /// Whether another snapshot has its name, but for the digits of a date or a number: `data-2026-11-30`.
    pub(super) fn has_same_name(&self, other: &Self) -> bool {
        let name = |job: &Self| {
            let lv = job.lv.as_deref().unwrap_or_default();
            lv.replace(|letter: char| letter.is_ascii_digit(), "")
        };
        name(self) == name(other)
    }

    /// Whether it was a snapshot of the same origin and kind as another job's, and fully observed.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        self.id != other.id
            && self.kind == JobKind::Snapshot
            && !self.partly_seen
            && other.origin.is_some()
            && (&self.vg, &self.origin, self.setup.kind)
                == (&other.vg, &other.origin, other.setup.kind)
    }

    /// The result that mylvmbackup, the command around it or the process that created the snapshot reported. Scripts swallow
    /// failures, so a failed one counts first, and then the last one: a command may leave its script in the background.
    pub fn report(&self) -> Option<ReportedResult> {
        if let Some(run) = &self.backup_run {
            return run.report.or(self.command_report);
        }
        let removed_at = self.ended_at.filter(|_| !self.left_snapshot);
        let maker = self.maker.as_ref();
        let by_process = maker.and_then(|maker| maker.report(removed_at));
        let reports = || by_process.into_iter().chain(self.command_report);
        let failed = reports().find(|report| !report.succeeded);
        failed.or_else(|| reports().max_by_key(|report| report.at))
    }

    /// How far the processes that created its snapshot are, if they decide how it went.
    pub fn maker_state(&self) -> MakerState {
        let maker = self.maker.as_ref().filter(|_| self.backup_run.is_none());
        let removed_at = self.ended_at.filter(|_| !self.left_snapshot);
        maker.map_or(MakerState::Gone, |maker| maker.state(removed_at))
    }

    /// The status of the process that created its snapshot, if that decides.
    fn script_status(&self) -> Option<ExitStatus> {
        match self.maker_state() {
            MakerState::Ended(end) => end.status,
            _ => None,
        }
    }

    /// Whether the processes that created its snapshot have ended; `None` if none of them is known.
    fn script_has_ended(&self) -> Option<bool> {
        match self.maker_state() {
            MakerState::Runs | MakerState::HandedOver => Some(false),
            MakerState::Ended(_) => Some(true),
            MakerState::Gone => None,
        }
    }

    /// How much of its snapshot's data was read, compared with its file system or its origin.
    pub(super) fn read_share(&self) -> ReadShare {
        let read = self.bytes_read.unwrap_or_default();
        let all = self.setup.file_system_bytes.or(self.setup.origin_bytes);
        match all {
            _ if read <= PROBED_BYTES => ReadShare::Nothing,
            Some(all) if completeness::is_whole(read, all) => ReadShare::All,
            _ => ReadShare::Part,
        }
    }

    /// Whether no process reports how the backup went: a script made its snapshot and left it to others, each step was a
    /// session or a unit of its own, or a service made it and goes on when it is removed.
    fn was_left_to_others(&self) -> bool {
        let has_ended = matches!(self.maker_state(), MakerState::Ended(_));
        let is_reported = self.backup_run.is_some() || self.command_report.is_some() || has_ended;
        !self.is_running() && !is_reported
    }

    /// Whether the snapshot was read through, though no process reported how the backup went.
    pub fn was_read_through_unreported(&self) -> bool {
        let coverage = self.completeness.as_ref().map(|found| found.coverage);
        let is_complete = coverage == Some(Coverage::Complete);
        let is_unreported = self.outcome == Some(Outcome::Unknown) && self.was_left_to_others();
        is_unreported && is_complete && !self.is_imported()
    }

    /// Whether it is a run of mylvmbackup that ended without a snapshot.
    pub fn made_no_snapshot(&self) -> bool {
        self.setup.made_no_snapshot()
    }

    /// Whether it is a command that ended with fewer snapshots than usual.
    pub fn lacks_snapshot(&self) -> bool {
        !self.is_running() && self.snapshots_made < self.snapshots_expected
    }

    /// Whether it says how the backup of its volume went. If a command created a snapshot, the snapshot's job does: it knows
    /// more than the exit status.
    pub fn is_decisive(&self) -> bool {
        self.kind == JobKind::Snapshot || self.backup_of.is_none() || self.lacks_snapshot()
    }

    pub fn seconds(&self, now: Timestamp) -> f64 {
        let end = self.ended_at.unwrap_or(now);
        (end.as_millisecond() - self.started_at.as_millisecond()).max(0) as f64 / 1000.0
    }

    /// Continues after its end, as if it had not been seen. A snapshot that was left was there all the time.
    fn reopen(&mut self) {
        self.ended_at = None;
        self.outcome = None;
        self.partly_seen |= !std::mem::take(&mut self.left_snapshot);
    }

    /// Takes the present names of its snapshot and its origin; returns whether one is new.
    fn take_names(&mut self, topology: &Topology) -> bool {
        let mut is_new = false;
        let is_snapshot = self.kind == JobKind::Snapshot;
        if let Some(snapshot) = topology.volume(&self.key).filter(|_| is_snapshot)
            && self.volume_name() != Some(snapshot.full_name())
        {
            self.vg = Some(snapshot.vg.clone());
            self.lv = Some(snapshot.lv.clone());
            self.name.clone_from(&snapshot.lv);
            is_new = true;
        }
        let uuid = self.origin_uuid.as_ref().filter(|_| !self.is_imported());
        let Some(origin) = uuid.and_then(|uuid| topology.volume(uuid)) else {
            return is_new;
        };
        let name = origin.full_name();
        if self.origin_name().is_some_and(|known| known != name) {
            self.vg = Some(origin.vg.clone());
            self.origin = Some(origin.lv.clone());
            is_new = true;
        }
        if self.backup_of.as_ref().is_some_and(|known| *known != name) {
            self.backup_of = Some(name);
            is_new = true;
        }
        is_new
    }

    /// Begins with the run that created its snapshot.
    fn begin_with(&mut self, run: BackupRun) {
        self.started_at = self.started_at.min(run.first_at);
        self.backup_run = Some(run);
    }

    /// The kernel's log names no snapshot, and may be read a tick before or after the state.
    fn note_invalidation(&mut self, interval: &Interval, state: &VolumeState) {
        let found = match state.state {
            State::CutShort => Some(Invalidation::Cut),
            _ => interval.invalidation,
        };
        let age_ms = |at: Timestamp| interval.at.as_millisecond() - at.as_millisecond();
        match self.died_at {
            None if !state.state.is_lost() => self.invalidation = found,
            None => self.invalidation = found.or(self.invalidation),
            Some(at) if age_ms(at) <= LATE_LOG_MS => {
                self.invalidation = self.invalidation.or(found)
            }
            Some(_) => {}
        }
    }

    /// Why its snapshot became invalid; `None` if unknown. What was not nearly full did not overflow, unless the log says so.
    pub fn invalid_because(&self) -> Option<Invalidation> {
        self.died_at?;
        if self.invalidation.is_some() {
            return self.invalidation;
        }
        if self.was_full() {
            return Some(Invalidation::Overflow);
        }
        let is_known = self.peak_fill_percent.is_some() && self.setup.peak_bytes.is_some();
        is_known.then_some(Invalidation::IoError)
    }

    fn update_state(&mut self, at: Timestamp, state: &VolumeState) {
        match state.state {
            State::Invalid | State::CutShort => {
                self.died_at = self.died_at.or(Some(at));
                self.clock_set_before_death_ms =
                    self.clock_set_before_death_ms.or(Some(self.clock_set_ms));
            }
            State::Failed => self.io_error_at = self.io_error_at.or(Some(at)),
            // LVM's report, which knows only a percentage, may be older than the tick.
            State::Ok | State::Suspended if state.fill.is_none_or(|fill| fill.unit > 0) => {
                self.outlived_report |= self.report().is_some_and(|report| report.at <= at);
            }
            _ => {}
        }
        if let Some(fill) = state.fill {
            let percent = fill.percent();
            self.last_fill_percent = Some(percent);
            self.peak_fill_percent = Some(self.peak_fill_percent.unwrap_or(percent).max(percent));
        }
    }

    fn update_mounts(&mut self, at: Timestamp, mounts: Option<&[String]>) {
        match mounts {
            Some([first, ..]) => {
                self.mounted_on = Some(first.clone());
                self.unmounted_at = None;
            }
            Some([]) if self.mounted_on.is_some() => {
                self.unmounted_at = self.unmounted_at.or(Some(at))
            }
            _ => {}
        }
    }

    /// A device's counter starts at 0 with the device, so all of it was read during the snapshot's life.
    fn count_reads(&mut self, counter: u64, at: Timestamp, elapsed_us: u64) {
        let increase = match self.read_counter {
            Some(before) if before <= counter => counter - before,
            _ => counter,
        };
        self.count_pause(increase > 0, at, elapsed_us / 1000);
        self.bytes_read = Some(self.bytes_read.unwrap_or_default() + increase);
        self.read_counter = Some(counter);
    }

    /// A backup whose reader has begun is stalled when it pauses for much longer than before.
    fn count_pause(&mut self, has_read: bool, at: Timestamp, elapsed_ms: u64) {
        if has_read {
            self.longest_pause_ms = self.longest_pause_ms.max(self.pause_ms);
            self.pause_ms = 0;
            self.stalled_since = None;
            return;
        }
        self.pause_ms += elapsed_ms;
        let least_ms = match self.read_share() {
            ReadShare::Nothing => u64::MAX,
            ReadShare::Part => LEAST_STALL_MS,
            ReadShare::All => LEAST_LAST_STALL_MS,
        };
        let is_long = self.pause_ms >= least_ms.max(STALL_FACTOR * self.longest_pause_ms);
        let reads = self.report().is_none() && self.unmounted_at.is_none();
        let since_ms = at.as_millisecond() - self.pause_ms as i64;
        // Its reader ended, and the script has something else to do, such as an upload.
        let copied_at = self.maker.as_ref().and_then(|maker| maker.copied_at);
        let was_copied =
            copied_at.is_some_and(|at| at.as_millisecond() + elapsed_ms as i64 >= since_ms);
        if is_long && reads && !was_copied && self.is_backup() && self.stalled_since.is_none() {
            self.stalled_since = Timestamp::from_millisecond(since_ms).ok();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
