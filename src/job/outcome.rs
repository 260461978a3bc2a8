//! Decides the outcome of a job: the reported result, checked against the state of its snapshot, the bytes that it read
//! and its archive. A backup that pipes into a compressor notices neither read errors nor that `tar` was killed, so the
//! report is not enough. `judgement.rs` words the outcome.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::completeness::{Completeness, Coverage};
use super::judgement::{Harm, Outcome};
use super::{Job, JobKind};
use crate::commands::{ArchiveSummary, ArchiveVerdict};

/// dmeventd checks snapshots every 10 s at the latest, and then takes a moment to unmount them.
const UNMOUNT_AFTER_DEATH_MS: i64 = 12_000;
/// The unmount may be observed first, within one tick.
const UNMOUNT_BEFORE_DEATH_MS: i64 = 1_000;
/// If a snapshot is found invalid this soon after a reported success, it may have been invalid before, unless it was seen
/// valid in between: without the device-mapper, the status may be as old as the longest tick.
const LATE_DEATH_MS: i64 = 60_000;
/// The kernel logs a read error at once; cowbell reads it with the next tick.
const LATE_ERROR_MS: i64 = 1_000;

/// The result that mylvmbackup, or the command around a backup, reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedResult {
    pub at: Timestamp,
    pub succeeded: bool,
}

impl ReportedResult {
    pub fn outcome(self) -> Outcome {
        if self.succeeded {
            Outcome::Succeeded
        } else {
            Outcome::Failed
        }
    }
}

/// A read error of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskError {
    pub at: Timestamp,
    /// Such as `sda`.
    pub device: String,
}

impl Job {
    /// Ends the job with the reported outcome, unless observations contradict it.
    pub(super) fn end(&mut self, at: Timestamp, reported: Outcome) {
        self.ended_at = Some(at.max(self.started_at));
        let has_died = self.died_at.is_some();
        let was_cut_short = matches!(self.harm(), Some((Harm::Reader, _)));
        self.outcome = Some(match (self.kind, reported) {
            _ if was_cut_short && self.has_read_too_little() => Outcome::Incomplete,
            _ if self.is_untrustworthy() => Outcome::Untrustworthy,
            (JobKind::Command | JobKind::Mark, Outcome::Succeeded) if has_died => {
                Outcome::Untrustworthy
            }
            (JobKind::Snapshot, Outcome::Succeeded) => self.confirmed_success(),
            (_, Outcome::Succeeded) => Outcome::Succeeded,
            (JobKind::Snapshot, _) if has_died => Outcome::Overflowed,
            (_, reported) => reported,
        });
        self.distrust_damaged();
    }

    /// Ends a snapshot's job with the reported outcome, after comparing the bytes read with those of earlier good runs.
    pub(super) fn end_judged(&mut self, at: Timestamp, before: &[Arc<Job>]) {
        self.compare(before);
        self.end(at, self.reported());
    }

    /// Ends a job that ran when the machine went down. A snapshot outlives that.
    pub(super) fn end_at_shutdown(&mut self, at: Timestamp, before: &[Arc<Job>]) {
        self.compare(before);
        self.left_snapshot = self.kind == JobKind::Snapshot;
        self.end(
            at,
            self.report()
                .map_or(Outcome::Abandoned, ReportedResult::outcome),
        );
    }

    fn compare(&mut self, before: &[Arc<Job>]) {
        if self.is_incremental() {
            return;
        }
        let is_good = |job: &&Self| {
            job.outcome == Some(Outcome::Succeeded) && job.is_alike(self) && !job.is_incremental()
        };
        let good = before.iter().rev().map(Arc::as_ref).filter(is_good);
        self.completeness = Completeness::of(self, good);
    }

    /// Takes over the result of the command that created the snapshot, once the command has ended.
    pub(super) fn learn_result(&mut self, command: &Self, before: &[Arc<Job>]) {
        let exited = command
            .outcome
            .filter(|outcome| *outcome != Outcome::Abandoned);
        if self.command_report.is_some() || exited.is_none() {
            return;
        }
        let succeeded = exited != Some(Outcome::Failed);
        self.command_report = command.ended_at.map(|at| ReportedResult { at, succeeded });
        if let Some(at) = self.ended_at {
            self.end_judged(at, before);
        }
    }

    /// Takes over, from a snapshot that this command created, its origin, and whether it was lost or its backup is bad.
    pub(super) fn learn_loss(&mut self, snapshot: &Self) {
        self.backup_of = snapshot.origin_name().or(self.backup_of.take());
        if !snapshot
            .outcome
            .map_or(snapshot.died_at.is_some(), Outcome::is_bad)
        {
            return;
        }
        self.died_at = self.died_at.or(snapshot.died_at);
        (self.vg, self.lv, self.origin) = (
            snapshot.vg.clone(),
            snapshot.lv.clone(),
            snapshot.origin.clone(),
        );
        if self.outcome == Some(Outcome::Succeeded) {
            self.outcome = snapshot.outcome.or(self.outcome);
        }
    }

    /// The outcome of a reported success whose snapshot remained valid.
    fn confirmed_success(&self) -> Outcome {
        let is_command = self.backup_run.is_none();
        match self
            .completeness
            .as_ref()
            .map(|completeness| completeness.coverage)
        {
            _ if self.accepted_at.is_some() => Outcome::Succeeded,
            // An unknown program may make incremental backups, and read only what has changed.
            Some(Coverage::Incomplete) if !is_command => Outcome::Incomplete,
            _ if self.reported_disk_error().is_some() => Outcome::Unknown,
            Some(Coverage::Complete) => Outcome::Succeeded,
            _ if self.is_incremental() => Outcome::Succeeded,
            _ => Outcome::Unknown,
        }
    }

    /// Whether it copies only what has changed, so that nothing says how much it has to read. No pipe hides its exit status.
    pub fn is_incremental(&self) -> bool {
        self.backup_run
            .as_ref()
            .is_some_and(|run| run.is_incremental)
    }

    /// A read error of a disk below its snapshot before its success was reported.
    pub(super) fn reported_disk_error(&self) -> Option<&DiskError> {
        let report = self.report().filter(|report| report.succeeded)?;
        let is_before =
            |at: Timestamp| at.as_millisecond() < report.at.as_millisecond() + LATE_ERROR_MS;
        self.disk_error.as_ref().filter(|error| is_before(error.at))
    }

    fn has_read_too_little(&self) -> bool {
        self.completeness
            .as_ref()
            .is_some_and(|found| found.coverage != Coverage::Complete)
    }

    /// The outcome that was reported. `Abandoned` if hooks stopped while cowbell listened, or saw its process run.
    pub(super) fn reported(&self) -> Outcome {
        if let Some(report) = self.report() {
            return report.outcome();
        }
        match &self.backup_run {
            Some(run) if (run.is_unbroken || run.was_seen_running) && !run.is_over() => {
                Outcome::Abandoned
            }
            _ => Outcome::Unknown,
        }
    }

    /// Accepts the result of an ended backup; returns whether it is accepted now.
    pub(super) fn accept(&mut self, at: Timestamp) -> bool {
        let can_be = self.can_be_accepted();
        if can_be {
            (self.accepted_at, self.outcome) = (Some(at), Some(Outcome::Succeeded));
        }
        can_be || self.accepted_at.is_some()
    }

    /// Whether it reported success, but was not confirmed as complete.
    pub fn can_be_accepted(&self) -> bool {
        let is_open = matches!(self.outcome, Some(Outcome::Unknown | Outcome::Incomplete));
        let has_succeeded = self.report().is_some_and(|report| report.succeeded);
        is_open && self.kind == JobKind::Snapshot && has_succeeded && !self.is_untrustworthy()
    }

    /// Whether its run reported success although it had lost its snapshot.
    pub fn is_untrustworthy(&self) -> bool {
        self.harm().is_some()
    }

    /// How and when a run that reported success lost its snapshot.
    pub(super) fn harm(&self) -> Option<(Harm, Timestamp)> {
        let report = self.report().filter(|report| report.succeeded)?;
        let before = |at: Option<Timestamp>, late_ms: i64| {
            at.filter(|at| at.as_millisecond() < report.at.as_millisecond() + late_ms)
        };
        let status_ms = if self.outlived_report {
            0
        } else {
            LATE_DEATH_MS
        };
        let error_ms = if self.io_error_device.is_some() {
            LATE_ERROR_MS
        } else {
            status_ms
        };
        let died = before(self.died_at, status_ms).map(|at| (Harm::Death, at));
        let failed = || before(self.io_error_at, error_ms).map(|at| (Harm::IoError, at));
        let removed = || self.removed_at.map(|at| (Harm::Removal, at));
        let reader = || {
            self.backup_run
                .as_ref()?
                .failed_process
                .as_ref()
                .map(|failed| (Harm::Reader, failed.at))
        };
        died.or_else(failed).or_else(removed).or_else(reader)
    }

    /// ` (read error on sda)` or ` (tar was killed by signal 9)`; empty if nothing more is known.
    pub(super) fn harm_detail(&self, harm: Harm) -> String {
        let detail = match harm {
            Harm::IoError => self
                .io_error_device
                .as_ref()
                .map(|device| format!("read error on {device}")),
            Harm::Reader => self
                .backup_run
                .as_ref()
                .and_then(|run| run.failed_process.as_ref())
                .map(|failed| {
                    format!(
                        "{} {}",
                        failed.name.replace('`', "'"),
                        failed.failure.text()
                    )
                }),
            Harm::Death | Harm::Removal => None,
        };
        detail.map_or_else(String::new, |detail| format!(" ({detail})"))
    }

    /// Its damaged archive, unless the job had come to nothing anyway.
    pub fn damaged_archive(&self) -> Option<&ArchiveSummary> {
        let is_doubtful = !matches!(
            self.outcome,
            Some(Outcome::Failed | Outcome::Overflowed | Outcome::Abandoned)
        );
        self.certificate
            .as_ref()
            .filter(|archive| is_doubtful && archive.verdict == ArchiveVerdict::Damaged)
    }

    /// Takes the summary of its archive, which may change its outcome. A sound archive changes it only if the same archive
    /// was damaged before.
    pub(super) fn certify(&mut self, archive: &ArchiveSummary) -> Result<(), String> {
        if let Some(before) = &self.certificate
            && before.verdict == ArchiveVerdict::Damaged
            && before.archive != archive.archive
            && archive.verdict != ArchiveVerdict::Damaged
        {
            let (id, before) = (self.id, &before.archive);
            return Err(format!(
                "job {id} has another archive, which is damaged: {before}"
            ));
        }
        let was_damaged = self.damaged_archive().is_some();
        self.certificate = Some(archive.clone());
        match self.ended_at {
            Some(at) if was_damaged && self.kind == JobKind::Snapshot => {
                self.end(at, self.reported())
            }
            _ => self.distrust_damaged(),
        }
        Ok(())
    }

    /// Changes the outcome of an ended job whose archive is damaged.
    pub(super) fn distrust_damaged(&mut self) {
        if self.outcome.is_some() && self.damaged_archive().is_some() {
            self.outcome = Some(Outcome::Untrustworthy);
        }
    }

    /// The group and the volume that was backed up: the origin, or the snapshot if the origin is unknown. For a command that
    /// created no snapshot, its name.
    pub fn backed_up(&self) -> (String, String) {
        let of_command = self
            .backup_of
            .as_deref()
            .and_then(|volume| volume.split_once('/'));
        let volume = self.origin.as_deref().or(self.lv.as_deref());
        let of_snapshot = self.vg.as_deref().zip(volume);
        let (vg, lv) = of_command.or(of_snapshot).unwrap_or(("", &self.name));
        (vg.into(), lv.into())
    }

    /// Whether it decides on a backup of this host. If a command created a snapshot, the snapshot's job does: it knows more
    /// than the exit status.
    pub fn is_own_backup(&self) -> bool {
        let is_decisive = self.kind == JobKind::Snapshot || self.backup_of.is_none();
        is_decisive && !self.is_imported() && self.is_backup()
    }

    /// Whether it is a good backup of this host.
    pub fn is_good_backup(&self) -> bool {
        self.outcome == Some(Outcome::Succeeded)
            && self.damaged_archive().is_none()
            && self.is_own_backup()
    }

    /// Whether LVM's monitoring may have unmounted it, since it was invalid.
    pub fn was_unmounted_at_its_death(&self) -> bool {
        self.died_at
            .zip(self.unmounted_at)
            .is_some_and(|(died, unmounted)| {
                let ms = unmounted.as_millisecond() - died.as_millisecond();
                (-UNMOUNT_BEFORE_DEATH_MS..=UNMOUNT_AFTER_DEATH_MS).contains(&ms)
            })
    }
}
