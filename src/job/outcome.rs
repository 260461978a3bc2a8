//! Decides the outcome of a job: the reported result, checked against the state of its snapshot, the bytes that it read
//! and its archive. A backup that pipes into a compressor notices neither read errors nor that `tar` was killed, so the
//! report is not enough. `judgement.rs` words the outcome.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::backup_run::{ProcessFailure, ReportedResult};
use super::completeness::{self, Completeness, Coverage};
use super::judgement::{Harm, Outcome};
use super::maker::{MakerRun, MakerState, ReadShare};
use super::{Job, JobKind};
use crate::commands::{ArchiveSummary, ArchiveVerdict};
use crate::sample::host::Invalidation;

/// dmeventd checks snapshots every 10 s at the latest, and then takes a moment to unmount them.
const UNMOUNT_AFTER_DEATH_MS: i64 = 12_000;
/// The unmount may be observed first, within one tick.
const UNMOUNT_BEFORE_DEATH_MS: i64 = 1_000;
/// If a snapshot is found invalid this soon after a reported success, it may have been invalid before, unless it was seen
/// valid in between: without the device-mapper, the status may be as old as the longest tick.
const LATE_DEATH_MS: i64 = 60_000;
/// The kernel logs a read error at once; cowbell reads it with the next tick.
const LATE_ERROR_MS: i64 = 1_000;

/// What `mount` reads at most of a file system that it then refuses. One that it mounts is read by far more.
const HEADER_BYTES: u64 = 16 << 10;

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
            _ if self.is_spare && !has_died => Outcome::Unknown,
            _ if was_cut_short && self.has_read_too_little() => Outcome::Incomplete,
            _ if self.is_untrustworthy() => Outcome::Untrustworthy,
            (JobKind::Command | JobKind::Mark, Outcome::Succeeded) if has_died => {
                Outcome::Untrustworthy
            }
            (JobKind::Snapshot, Outcome::Succeeded) => self.confirmed_success(),
            (_, Outcome::Succeeded) if self.lacks_snapshot() || self.hides_failure() => {
                Outcome::Failed
            }
            (_, Outcome::Succeeded) => Outcome::Succeeded,
            (JobKind::Snapshot, _) if has_died => self.lost_outcome(),
            (_, reported) => reported,
        });
        self.distrust_damaged();
    }

    /// Ends a snapshot's job with the reported outcome, after comparing the bytes read with those of earlier good runs.
    pub(super) fn end_judged(&mut self, at: Timestamp, before: &[Arc<Job>]) {
        // Which process decides depends on the end.
        self.ended_at = Some(at.max(self.started_at));
        self.compare(before);
        self.end(at, self.reported());
    }

    /// Ends a job that ran when the machine went down. A snapshot outlives that.
    pub(super) fn end_at_shutdown(&mut self, at: Timestamp, before: &[Arc<Job>]) {
        self.compare(before);
        self.left_snapshot = self.kind == JobKind::Snapshot;
        let report = self.report().map(ReportedResult::outcome);
        self.end(at, report.unwrap_or(Outcome::Abandoned));
    }

    /// The outcome of a job whose snapshot became invalid. Most overflow.
    pub(super) fn lost_outcome(&self) -> Outcome {
        match self.invalid_because() {
            Some(Invalidation::IoError | Invalidation::Cut) => Outcome::Failed,
            Some(Invalidation::Overflow) | None => Outcome::Overflowed,
        }
    }

    fn compare(&mut self, before: &[Arc<Job>]) {
        let is_backup = |job: &Arc<Self>| {
            let is_good = job.outcome == Some(Outcome::Succeeded);
            is_good && job.has_same_name(self) && job.is_alike(self)
        };
        let maker = self.maker.as_ref();
        self.is_check =
            maker.is_some_and(MakerRun::has_only_checked) && !before.iter().any(is_backup);
        self.is_declared = self.is_declared_by(before);
        self.is_routine = self.was_left_to_others() && self.is_routine_after(before);
        if self.is_incremental() {
            return;
        }
        let is_incomplete = |job: &&Self| job.outcome == Some(Outcome::Incomplete);
        let incomplete = self.left_before(before).take_while(is_incomplete);
        self.after_incomplete = incomplete.map(|job| job.id).collect();
        let was_left = self.was_left_to_others();
        let is_good = |job: &&Self| {
            let is_good = job.outcome == Some(Outcome::Succeeded);
            let is_read = job.was_left_to_others() && job.read_share() == ReadShare::All;
            (is_good || was_left && is_read) && job.is_alike(self) && !job.is_incremental()
        };
        let latest_first = before.iter().rev().map(Arc::as_ref);
        self.completeness = Completeness::of(self, latest_first.filter(is_good));
    }

    /// Whether the script that made it read only another snapshot of the same origin.
    pub(super) fn is_spare_beside(&self, other: &Self) -> bool {
        let made = |job: &Self| job.maker.as_ref().and_then(MakerRun::nearest);
        made(self).is_some()
            && made(self) == made(other)
            && other.is_alike(self)
            && self.read_share() == ReadShare::Nothing
            && other.read_share() != ReadShare::Nothing
    }

    /// Whether most of the last snapshots of this name were read through, though no process reported how the backup went.
    pub(super) fn is_routine_after(&self, before: &[Arc<Job>]) -> bool {
        // One may have been the first of a tool that then copies only what has changed.
        let last = self.left_before(before).take(3);
        last.filter(|job| job.read_share() == ReadShare::All)
            .count()
            >= 2
    }

    /// The earlier snapshots of this name of which no process reported how the backup went, the latest first.
    fn left_before<'a>(&'a self, before: &'a [Arc<Job>]) -> impl Iterator<Item = &'a Self> {
        let latest_first = before.iter().rev().map(Arc::as_ref);
        latest_first
            .filter(|job| job.has_same_name(self) && job.is_alike(self) && job.was_left_to_others())
    }

    /// Whether a person has accepted that its script copies only what has changed. It does if no known program copied the data,
    /// or if another good run read more: a script that leaves files out leaves them out each time.
    fn is_declared_by(&self, before: &[Arc<Job>]) -> bool {
        let is_same = |job: &&Arc<Self>| job.program == self.program && job.is_alike(self);
        let good = || {
            let good = before.iter().filter(is_same);
            good.filter(|job| job.outcome == Some(Outcome::Succeeded))
        };
        let mut accepted = good().filter(|job| job.accepted_at.is_some());
        let reads_less = |job: &Arc<Self>| good().any(|other| completeness::is_less(job, other));
        let read = self.bytes_read.unwrap_or_default();
        let maker = self.maker.as_ref().filter(|maker| maker.has_copied());
        maker.is_some_and(|maker| {
            // Of a known program, it is enough that it ended well: it may have found no change.
            let has_read = self.read_share() != ReadShare::Nothing || maker.ran_whole();
            has_read
                && !self.is_untouched()
                && accepted.any(|job| maker.is_unknown_copy(read) || reads_less(job))
        })
    }

    /// Takes over the result of the command that created the snapshot, once the command has ended.
    pub(super) fn learn_result(&mut self, command: &Self, before: &[Arc<Job>]) {
        let Some(outcome) = command.outcome else {
            return;
        };
        if self.command_report.is_some() || outcome == Outcome::Abandoned {
            return;
        }
        // A command that lacks another snapshot has failed, and this one may be good.
        let succeeded = outcome != Outcome::Failed || command.exit_status == Some(0);
        self.command_report = command.ended_at.map(|at| ReportedResult { at, succeeded });
        if let Some(at) = self.ended_at {
            self.end_judged(at, before);
        }
    }

    /// Takes over, from a snapshot that this command created, its origin, and whether it was lost or its backup is bad.
    pub(super) fn learn_loss(&mut self, snapshot: &Self) {
        // The first one of this run names it.
        if self.origin_uuid.is_none() || self.backup_of == snapshot.origin_name() {
            self.backup_of = snapshot.origin_name();
            self.origin_uuid = snapshot.origin_uuid.clone().or(self.origin_uuid.take());
        }
        if snapshot.outcome == Some(Outcome::Unknown) && self.outcome == Some(Outcome::Succeeded) {
            self.outcome = snapshot.outcome;
        }
        let is_bad = match snapshot.outcome {
            Some(outcome) => outcome.is_bad(),
            None => snapshot.died_at.is_some(),
        };
        // One of several may have been made for nothing.
        let was_spare = self.snapshots_made > 1 && snapshot.read_share() == ReadShare::Nothing;
        if !is_bad || was_spare {
            return;
        }
        self.died_at = self.died_at.or(snapshot.died_at);
        self.invalidation = self.invalidation.or(snapshot.invalid_because());
        self.vg.clone_from(&snapshot.vg);
        self.lv.clone_from(&snapshot.lv);
        self.origin.clone_from(&snapshot.origin);
        if matches!(self.outcome, Some(Outcome::Succeeded | Outcome::Unknown)) {
            self.outcome = snapshot.outcome.or(self.outcome);
        }
    }

    /// The outcome of a reported success whose snapshot remained valid.
    fn confirmed_success(&self) -> Outcome {
        let coverage = self.completeness.as_ref().map(|found| found.coverage);
        match coverage {
            _ if self.accepted_at.is_some() => Outcome::Succeeded,
            // An unknown program may make incremental backups, and read only what has changed.
            Some(Coverage::Incomplete) if self.backup_run.is_some() => Outcome::Incomplete,
            _ if self.reported_disk_error().is_some() => Outcome::Unknown,
            Some(Coverage::Complete) => Outcome::Succeeded,
            _ if self.is_incremental() => Outcome::Succeeded,
            _ => Outcome::Unknown,
        }
    }

    /// Whether it copies only what has changed, so that nothing says how much it has to read. No pipe hides its exit status.
    pub fn is_incremental(&self) -> bool {
        match (&self.backup_run, &self.maker) {
            (Some(run), _) => run.is_incremental,
            _ if self.is_declared => true,
            (None, maker) => {
                let read = self.bytes_read.unwrap_or_default();
                let is_incremental = |maker: &MakerRun| maker.is_incremental(read);
                maker.as_ref().is_some_and(is_incremental) && !self.is_untouched()
            }
        }
    }

    /// Whether it was seen that its snapshot was never mounted, nor its data read.
    fn is_untouched(&self) -> bool {
        let is_empty = self.bytes_read.is_some_and(|bytes| bytes <= HEADER_BYTES);
        self.has_failed_mount() || is_empty && self.was_never_mounted()
    }

    /// Whether its mount failed, and it was not mounted in another way.
    fn has_failed_mount(&self) -> bool {
        let maker = self.maker.as_ref();
        maker.is_some_and(|maker| maker.failed_mount.is_some()) && self.was_never_mounted()
    }

    /// Whether it was never seen mounted, and no more was read of it than udev and LVM read.
    fn was_never_mounted(&self) -> bool {
        let is_unread = self.bytes_read.is_some() && self.read_share() == ReadShare::Nothing;
        self.mounted_on.is_none() && is_unread && !self.partly_seen
    }

    /// A read error of a disk below its snapshot before its success was reported.
    pub(super) fn reported_disk_error(&self) -> Option<&DiskError> {
        let report = self.report().filter(|report| report.succeeded)?;
        let error = self.disk_error.as_ref()?;
        report.is_after(error.at, LATE_ERROR_MS).then_some(error)
    }

    /// Whether a backup of which no snapshot says how it went reported success, though a program that it ran had failed.
    fn hides_failure(&self) -> bool {
        self.hidden_failure.is_some() && self.is_backup() && self.snapshots_made == 0
    }

    fn has_read_too_little(&self) -> bool {
        let found = self.completeness.as_ref();
        found.is_some_and(|found| found.coverage != Coverage::Complete)
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
            Some(_) => Outcome::Unknown,
            None => self.reported_by_processes(),
        }
    }

    /// What is known of a backup without a report.
    fn reported_by_processes(&self) -> Outcome {
        if self.failed_reader().is_some() {
            return Outcome::Failed;
        }
        match self.maker_state() {
            // It would have removed it, unless it keeps what it has read.
            MakerState::Ended(end) if self.left_snapshot && end.read != Some(ReadShare::All) => {
                Outcome::Abandoned
            }
            MakerState::Ended(_) => Outcome::Unknown,
            _ if self.is_routine && self.has_read_too_little() => Outcome::Incomplete,
            _ => Outcome::Unknown,
        }
    }

    /// Accepts the result of an ended backup; returns whether it is accepted now.
    pub(super) fn accept(&mut self, at: Timestamp) -> bool {
        let can_be = self.can_be_accepted();
        if can_be {
            self.accepted_at = Some(at);
            self.outcome = Some(Outcome::Succeeded);
        }
        can_be || self.accepted_at.is_some()
    }

    /// Whether it reported success, but was not confirmed as complete, or read less than its earlier ones without a report, or
    /// is a command that lacks a snapshot.
    pub fn can_be_accepted(&self) -> bool {
        if self.kind == JobKind::Command {
            let has_failed = self.outcome == Some(Outcome::Failed);
            return has_failed && self.exit_status == Some(0) && self.lacks_snapshot();
        }
        let is_open = matches!(self.outcome, Some(Outcome::Unknown | Outcome::Incomplete));
        let has_succeeded = self.report().is_some_and(|report| report.succeeded);
        let is_unreported = self.is_routine && self.outcome == Some(Outcome::Incomplete);
        let may_be_good = has_succeeded || is_unreported;
        let is_of_backup = self.kind == JobKind::Snapshot && self.is_backup();
        is_open && is_of_backup && may_be_good && !self.is_untrustworthy()
    }

    /// Whether its run reported success although it had lost its snapshot.
    pub fn is_untrustworthy(&self) -> bool {
        self.harm().is_some()
    }

    /// How and when a run that reported success lost its snapshot.
    pub(super) fn harm(&self) -> Option<(Harm, Timestamp)> {
        let report = self.report().filter(|report| report.succeeded)?;
        let mut status_ms = LATE_DEATH_MS;
        if self.outlived_report {
            status_ms = 0;
        }
        let mut error_ms = status_ms;
        if self.io_error_device.is_some() {
            error_ms = LATE_ERROR_MS;
        }
        if let Some(at) = self.died_at
            && report.is_after(at, status_ms)
        {
            return Some((Harm::Death, at));
        }
        if let Some(at) = self.io_error_at
            && report.is_after(at, error_ms)
        {
            return Some((Harm::IoError, at));
        }
        if let Some(at) = self.removed_at {
            return Some((Harm::Removal, at));
        }
        Some((Harm::Reader, self.failed_reader()?.at))
    }

    /// The process that read the data and failed, or the one that was to mount it.
    pub(super) fn failed_reader(&self) -> Option<&ProcessFailure> {
        if let Some(run) = &self.backup_run {
            return run.failed_process.as_ref();
        }
        let maker = self.maker.as_ref()?;
        let failed_mount = maker.failed_mount.as_ref();
        let failed_mount = failed_mount.filter(|_| self.has_failed_mount());
        maker.failed_reader().or(failed_mount)
    }

    /// ` (read error on sda)` or ` (tar was killed by signal 9)`; empty if nothing more is known.
    pub(super) fn harm_detail(&self, harm: Harm) -> String {
        match (harm, &self.io_error_device, self.failed_reader()) {
            (Harm::IoError, Some(device), _) => format!(" (read error on {device})"),
            (Harm::Reader, _, Some(failed)) => format!(" ({})", failed.text()),
            _ => String::new(),
        }
    }

    /// Its damaged archive, unless the job had come to nothing anyway.
    pub fn damaged_archive(&self) -> Option<&ArchiveSummary> {
        match self.outcome {
            Some(Outcome::Failed | Outcome::Overflowed | Outcome::Abandoned) => None,
            _ => self.certificate.as_ref().filter(|it| is_damaged(it)),
        }
    }

    /// Takes the summary of its archive, which may change its outcome. A sound archive changes it only if the same archive
    /// was damaged before.
    pub(super) fn certify(&mut self, archive: &ArchiveSummary) -> Result<(), String> {
        if let Some(before) = &self.certificate
            && is_damaged(before)
            && before.archive != archive.archive
            && !is_damaged(archive)
        {
            let (id, before) = (self.id, &before.archive);
            return Err(format!(
                "job {id} has another archive, which is damaged: {before}"
            ));
        }
        let was_damaged = self.damaged_archive().is_some();
        self.certificate = Some(archive.clone());
        if was_damaged
            && self.kind == JobKind::Snapshot
            && let Some(at) = self.ended_at
        {
            self.end(at, self.reported());
        } else {
            self.distrust_damaged();
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
        let of_command = self.backup_of.as_deref();
        let of_command = of_command.and_then(|volume| volume.split_once('/'));
        let volume = self.origin.as_deref().or(self.lv.as_deref());
        let of_snapshot = self.vg.as_deref().zip(volume);
        let (vg, lv) = of_command.or(of_snapshot).unwrap_or(("", &self.name));
        (vg.into(), lv.into())
    }

    /// Whether it decides on a backup of this host.
    pub fn is_own_backup(&self) -> bool {
        self.is_decisive() && !self.is_imported() && self.is_backup()
    }

    /// Whether it is a good backup of this host.
    pub fn is_good_backup(&self) -> bool {
        self.outcome == Some(Outcome::Succeeded)
            && self.damaged_archive().is_none()
            && self.is_own_backup()
    }

    /// Whether LVM's monitoring may have unmounted it, since it was invalid.
    pub fn was_unmounted_at_its_death(&self) -> bool {
        let (Some(died), Some(unmounted)) = (self.died_at, self.unmounted_at) else {
            return false;
        };
        let ms = unmounted.as_millisecond() - died.as_millisecond();
        (-UNMOUNT_BEFORE_DEATH_MS..=UNMOUNT_AFTER_DEATH_MS).contains(&ms)
    }
}

fn is_damaged(archive: &ArchiveSummary) -> bool {
    archive.verdict == ArchiveVerdict::Damaged
}
