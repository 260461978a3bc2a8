//! How a job ended: what was reported of it, weighed against what became of its snapshot.
//!
//! A backup that pipes into a compressor does not notice that what it reads is lost, so its word alone is no outcome.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Job, JobKind};

/// dmeventd looks every 10 s at the latest, and then takes a moment.
const DEATH_AND_UNMOUNT_MS: i64 = 12_000;
/// Both may be seen in one tick, or the mount first.
const ONE_MOMENT_MS: i64 = 1_000;
/// What died so soon after success was reported may have been dead before: where the kernel's word comes late, it is
/// known no better than by the longest tick.
const DEATH_IS_KNOWN_MS: i64 = 60_000;

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

/// What takes from a backup what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The snapshot became invalid.
    Death,
    IoError,
    /// Somebody else unmounted it.
    Unmount,
}

impl Job {
    /// Ends it as reported, unless what is known of its snapshot says otherwise.
    pub(super) fn end(&mut self, at: Timestamp, reported: Outcome) {
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

    /// What its hooks reported; `abandoned` where they fell silent while somebody listened.
    pub(super) fn reported(&self) -> Outcome {
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

    /// Whether it was unmounted so soon after its snapshot died that LVM's monitoring may have done it.
    pub fn was_unmounted_with_its_death(&self) -> bool {
        let between = self.died_at.zip(self.unmounted_at);
        between.is_some_and(|(died, unmounted)| {
            let ms = unmounted.as_millisecond() - died.as_millisecond();
            (-ONE_MOMENT_MS..=DEATH_AND_UNMOUNT_MS).contains(&ms)
        })
    }
}
