//! A run of mylvmbackup, as its hooks tell it: when each phase began, how long the database may have been locked, and
//! what the run reported of itself.
//!
//! What it reported is not how it went: `Job` weighs that against what became of the snapshot.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::sample::hooks::Step;

/// The hook for success comes moments before the one for cleaning up. Who began to listen between the two has not
/// heard that there was no success.
const SUCCESS_TO_CLEANUP_MS: i64 = 5_000;

/// What a backup does, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The database writes out its tables and takes its global read lock.
    Flush,
    /// The snapshot is made, and the lock given back.
    Snapshot,
    Mount,
    /// The snapshot is read.
    Backup,
    /// It is unmounted and removed.
    Cleanup,
}

impl Phase {
    pub const ALL: [Self; 5] = [Self::Flush, Self::Snapshot, Self::Mount, Self::Backup, Self::Cleanup];

    pub fn text(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Snapshot => "snapshot",
            Self::Mount => "mount",
            Self::Backup => "backup",
            Self::Cleanup => "cleanup",
        }
    }

    fn begun_by(step: Step) -> Option<Self> {
        match step {
            Step::Preconnect => Some(Self::Flush),
            Step::Presnapshot => Some(Self::Snapshot),
            Step::Premount => Some(Self::Mount),
            Step::Prebackup => Some(Self::Backup),
            Step::Precleanup => Some(Self::Cleanup),
            Step::Preflush
            | Step::Preunlock
            | Step::Predisconnect
            | Step::Backupsuccess
            | Step::Backupfailure => None,
        }
    }
}

/// A phase, and when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseStart {
    pub phase: Phase,
    pub at: Timestamp,
}

/// What a run said of itself, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub at: Timestamp,
    pub succeeded: bool,
}

impl Report {
    pub fn outcome(self) -> Outcome {
        if self.succeeded { Outcome::Succeeded } else { Outcome::Failed }
    }
}

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockTime {
    pub from: Timestamp,
    pub until: Timestamp,
}

/// One run, as far as it was heard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupRun {
    /// The number of the process that runs it.
    pub run: u32,
    /// Those that began, in this order.
    pub phases: Vec<PhaseStart>,
    /// The last that was heard before the lock can have been taken.
    pub locked_from: Option<Timestamp>,
    /// The first that was heard after it was given back.
    pub locked_until: Option<Timestamp>,
    pub reported: Option<Report>,
    /// When it was heard of first, and last.
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// Whether this process of the program heard its last word: then it has missed none since.
    pub is_unbroken: bool,
}

impl BackupRun {
    pub fn new(run: u32, at: Timestamp) -> Self {
        let (phases, first_at, last_at) = (Vec::new(), at, at);
        Self {
            run,
            phases,
            locked_from: None,
            locked_until: None,
            reported: None,
            first_at,
            last_at,
            is_unbroken: false,
        }
    }

    /// Takes a step; gives whether it said something new. `listening_since` is when this program began to listen.
    ///
    /// Each step counts once, and none after the last one: a run that is told twice changes nothing.
    pub fn take(&mut self, step: Step, at: Timestamp, listening_since: Timestamp) -> bool {
        if self.is_over() {
            return false;
        }
        let before = (self.phases.len(), self.locked_from, self.locked_until, self.reported);
        // A clock that goes back makes no phase end before it began.
        let at = at.max(self.last_at);
        self.report(step, at, listening_since);
        self.lock(step, at);
        let begins = Phase::begun_by(step).filter(|phase| self.began(*phase).is_none());
        self.phases.extend(begins.map(|phase| PhaseStart { phase, at }));
        (self.last_at, self.is_unbroken) = (at, true);
        before != (self.phases.len(), self.locked_from, self.locked_until, self.reported)
    }

    /// When a phase began, if it did.
    pub fn began(&self, phase: Phase) -> Option<Timestamp> {
        self.phases.iter().find(|begun| begun.phase == phase).map(|begun| begun.at)
    }

    /// Whether it has come to its end by itself; then nothing more is heard.
    pub fn is_over(&self) -> bool {
        self.began(Phase::Cleanup).is_some()
    }

    /// The span outside of which the database's global read lock was not held. It is shorter than this in truth.
    pub fn locked_at_most(&self) -> Option<LockTime> {
        let (from, until) = self.locked_from.zip(self.locked_until)?;
        Some(LockTime { from, until })
    }

    fn lock(&mut self, step: Step, at: Timestamp) {
        match step {
            Step::Preconnect | Step::Preflush if self.began(Phase::Snapshot).is_none() => {
                self.locked_from = Some(at);
            }
            Step::Predisconnect | Step::Premount => {
                self.locked_until.get_or_insert(at);
            }
            _ => {}
        }
    }

    /// The packaged `backupfailure.pm` wins over a script of that name, so a run that cleans up without having
    /// reported success has failed.
    fn report(&mut self, step: Step, at: Timestamp, listening_since: Timestamp) {
        let listened_ms = at.as_millisecond() - listening_since.as_millisecond();
        let listened = self.is_unbroken || listened_ms >= SUCCESS_TO_CLEANUP_MS;
        let succeeded = match step {
            Step::Backupsuccess => true,
            Step::Backupfailure => false,
            Step::Precleanup if listened => false,
            _ => return,
        };
        self.reported.get_or_insert(Report { at, succeeded });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: [Step; 9] = [
        Step::Preconnect,
        Step::Presnapshot,
        Step::Preunlock,
        Step::Predisconnect,
        Step::Premount,
        Step::Prebackup,
        Step::Backupsuccess,
        Step::Precleanup,
        Step::Precleanup,
    ];

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_772_330_400 + second).unwrap()
    }

    /// One step a second, by a program that has listened for so many seconds.
    fn heard(steps: &[Step], listened: i64) -> BackupRun {
        let mut heard = BackupRun::new(4711, at(0));
        for (second, step) in (0..).zip(steps) {
            heard.take(*step, at(second), at(-listened));
        }
        heard
    }

    /// `flush 0, snapshot 1; locked 0 to 3; succeeded`
    fn told(heard: &BackupRun) -> String {
        let second = |at: Timestamp| at.as_second() - 1_772_330_400;
        let phases: Vec<String> =
            heard.phases.iter().map(|begun| format!("{} {}", begun.phase.text(), second(begun.at))).collect();
        let locked = heard.locked_at_most().map_or("not known".into(), |span| {
            format!("locked {} to {}", second(span.from), second(span.until))
        });
        let reported = match heard.reported {
            None => "nothing",
            Some(Report { succeeded: true, .. }) => "succeeded",
            Some(Report { succeeded: false, .. }) => "failed",
        };
        format!("{}; {locked}; {reported}", phases.join(", "))
    }

    fn check(steps: &[Step], expected: &str) {
        assert_eq!(told(&heard(steps, 3600)), expected, "{steps:?}");
    }

    #[test]
    fn the_hooks_of_a_good_run_are_its_phases_and_its_success() {
        check(&USUAL, "flush 0, snapshot 1, mount 4, backup 5, cleanup 7; locked 0 to 3; succeeded");
    }

    #[test]
    fn a_hook_before_the_flush_makes_the_span_of_the_lock_narrower() {
        let steps =
            [Step::Preconnect, Step::Preflush, Step::Presnapshot, Step::Preunlock, Step::Predisconnect];
        check(&steps, "flush 0, snapshot 2; locked 1 to 4; nothing");
    }

    #[test]
    fn cleaning_up_without_success_is_a_failure() {
        check(
            &[Step::Preconnect, Step::Presnapshot, Step::Prebackup, Step::Precleanup],
            "flush 0, snapshot 1, backup 2, cleanup 3; not known; failed",
        );
        check(&[Step::Backupfailure, Step::Precleanup], "cleanup 1; not known; failed");
    }

    #[test]
    fn who_did_not_listen_when_success_was_told_does_not_know_of_a_failure() {
        for (is_unbroken, listened, expected) in
            [(false, 3600, "failed"), (false, 1, "nothing"), (true, 1, "failed")]
        {
            let mut heard = BackupRun { is_unbroken, ..heard(&[Step::Prebackup], 0) };
            heard.take(Step::Precleanup, at(100), at(100 - listened));
            assert!(told(&heard).ends_with(expected), "{is_unbroken}, {listened} s: {}", told(&heard));
        }
    }

    #[test]
    fn a_run_that_was_killed_reports_nothing() {
        check(&USUAL[..6], "flush 0, snapshot 1, mount 4, backup 5; locked 0 to 3; nothing");
    }

    #[test]
    fn what_is_told_twice_or_after_the_end_changes_nothing() {
        let mut heard = heard(&USUAL, 3600);
        let before = heard.clone();
        for step in USUAL.into_iter().chain([Step::Backupfailure]) {
            assert!(!heard.take(step, at(100), at(-3600)), "{step:?}");
        }
        assert_eq!(heard, before);
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_phase_end_before_it_began() {
        let mut heard = BackupRun::new(4711, at(50));
        for (step, second) in [(Step::Preconnect, 50), (Step::Presnapshot, 10), (Step::Predisconnect, 20)] {
            heard.take(step, at(second), at(-3600));
        }
        assert_eq!(told(&heard), "flush 50, snapshot 50; locked 50 to 50; nothing");
    }
}
