//! The outcome of a job: its report, compared with the state of its snapshot. A backup that pipes into a compressor
//! does not notice read errors, so its report alone is no outcome.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Job, JobKind};

/// dmeventd checks snapshots every 10 s at the latest, and then takes a moment to unmount them.
const UNMOUNT_AFTER_DEATH_MS: i64 = 12_000;
/// The unmount may be observed first, within one tick.
const UNMOUNT_BEFORE_DEATH_MS: i64 = 1_000;
/// A snapshot whose death is observed this soon after a reported success may have been invalid before: without the
/// device-mapper, the status may be as old as the longest tick.
const LATE_DEATH_MS: i64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Succeeded,
    Failed,
    /// Success was reported, but the snapshot was lost during the backup.
    Untrustworthy,
    /// The snapshot became invalid.
    Overflowed,
    /// The job was killed, or the machine went down, so its end was not reported.
    Abandoned,
    /// Not reported.
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

/// How a backup can lose what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The snapshot became invalid.
    Death,
    IoError,
    /// Another process unmounted it.
    Unmount,
}

impl Harm {
    /// What happened to the snapshot.
    pub fn text(self) -> &'static str {
        match self {
            Self::Death => "became invalid",
            Self::IoError => "returned I/O errors",
            Self::Unmount => "was unmounted by another process",
        }
    }
}

impl Job {
    /// Ends it as reported, unless its snapshot contradicts that.
    pub(super) fn end(&mut self, at: Timestamp, reported: Outcome) {
        self.ended_at = Some(at.max(self.started_at));
        let has_died = self.died_at.is_some();
        self.outcome = Some(match (self.kind, reported) {
            _ if self.is_untrustworthy() => Outcome::Untrustworthy,
            (JobKind::Command | JobKind::Mark, Outcome::Succeeded) if has_died => Outcome::Untrustworthy,
            // The backup finished before its snapshot died.
            (_, Outcome::Succeeded) => Outcome::Succeeded,
            (JobKind::Snapshot, _) if has_died => Outcome::Overflowed,
            (_, reported) => reported,
        });
    }

    /// The outcome that hooks reported. `Abandoned` if they stopped while cowbell listened.
    pub(super) fn reported(&self) -> Outcome {
        let Some(run) = &self.backup_run else { return Outcome::Unknown };
        match run.report {
            Some(report) => report.outcome(),
            None if run.is_unbroken && !run.is_over() => Outcome::Abandoned,
            None => Outcome::Unknown,
        }
    }

    /// Whether its run reported success after it had lost its snapshot.
    pub fn is_untrustworthy(&self) -> bool {
        self.harm().is_some()
    }

    /// How and when a run that reported success lost its snapshot.
    pub fn harm(&self) -> Option<(Harm, Timestamp)> {
        let report = self.backup_run.as_ref()?.report.filter(|report| report.succeeded)?;
        let before = |at: Option<Timestamp>, late_ms: i64| {
            at.filter(|at| at.as_millisecond() < report.at.as_millisecond() + late_ms)
        };
        let died = before(self.died_at, LATE_DEATH_MS).map(|at| (Harm::Death, at));
        let failed = || before(self.io_error_at, LATE_DEATH_MS).map(|at| (Harm::IoError, at));
        // A run unmounts its snapshot itself after it reported success.
        let unmounted = || before(self.unmounted_at, 0).map(|at| (Harm::Unmount, at));
        died.or_else(failed).or_else(unmounted)
    }

    /// Whether LVM's monitoring may have unmounted it, since it was invalid.
    pub fn was_unmounted_at_its_death(&self) -> bool {
        self.died_at.zip(self.unmounted_at).is_some_and(|(died, unmounted)| {
            let ms = unmounted.as_millisecond() - died.as_millisecond();
            (-UNMOUNT_BEFORE_DEATH_MS..=UNMOUNT_AFTER_DEATH_MS).contains(&ms)
        })
    }
}
