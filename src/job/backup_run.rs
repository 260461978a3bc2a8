//! A run of mylvmbackup, from its hooks: its phases, the database lock, and the reported result. A reported success is
//! not the outcome yet: [`super::Job`] also considers the state of the snapshot.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::judgement::Outcome;
use super::programs::is_reader;
use crate::sample::hooks::Step;
use crate::sample::processes::{BackupProcess, ExitRelation, ExitStatus, ProcessExit};
use crate::series::Range;

/// The hook for cleanup follows the one for success within moments. After listening for less than this, cowbell may have
/// missed the success.
const SUCCESS_TO_CLEANUP_MS: i64 = 5_000;

/// `SIGPIPE`: the process behind it ended first, and its own status says whether that is a failure.
pub(super) const BROKEN_PIPE: ExitStatus = ExitStatus::Signal(13);
/// The phases of a backup, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The database flushes its tables and takes its global read lock.
    Flush,
    /// The snapshot is created, and the lock released.
    Snapshot,
    Mount,
    /// The snapshot is read.
    Backup,
    /// The snapshot is unmounted and removed.
    Cleanup,
}

impl Phase {
    pub const ALL: [Self; 5] = [
        Self::Flush,
        Self::Snapshot,
        Self::Mount,
        Self::Backup,
        Self::Cleanup,
    ];

    pub fn text(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Snapshot => "snapshot",
            Self::Mount => "mount",
            Self::Backup => "backup",
            Self::Cleanup => "cleanup",
        }
    }

    /// The phase that begins with this step.
    fn of(step: Step) -> Option<Self> {
        match step {
            Step::Preconnect => Some(Self::Flush),
            Step::Presnapshot => Some(Self::Snapshot),
            Step::Premount => Some(Self::Mount),
            Step::Prebackup => Some(Self::Backup),
            Step::Precleanup => Some(Self::Cleanup),
            _ => None,
        }
    }
}

/// The beginning of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseStart {
    pub phase: Phase,
    pub at: Timestamp,
}

/// The result that mylvmbackup, or the command around a backup, reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedResult {
    pub at: Timestamp,
    pub succeeded: bool,
}

impl ReportedResult {
    pub fn outcome(self) -> Outcome {
        Outcome::reported(self.succeeded)
    }

    /// Whether something happened before it, or so little after it that it may have.
    pub(super) fn is_after(self, at: Timestamp, late_ms: i64) -> bool {
        at.as_millisecond() < self.at.as_millisecond() + late_ms
    }
}

/// How a process that a backup needs ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessFailure {
    pub at: Timestamp,
    pub name: String,
    pub failure: ExitStatus,
}

impl ProcessFailure {
    pub fn of(process: &ProcessExit) -> Self {
        Self {
            at: process.at,
            name: process.name.clone(),
            failure: process.status,
        }
    }

    /// `tar was killed by signal 9`
    pub(super) fn text(&self) -> String {
        let name = self.name.replace('`', "'");
        format!("{name} {}", self.failure.text())
    }
}

/// One run, from the messages that arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupRun {
    /// The PID.
    pub run: u32,
    /// In the order of their beginnings.
    pub phases: Vec<PhaseStart>,
    /// The last message before the lock can have been taken.
    pub locked_from: Option<Timestamp>,
    /// The first message after the lock was released.
    pub locked_until: Option<Timestamp>,
    #[serde(rename = "reported")]
    pub report: Option<ReportedResult>,
    /// The first and the last message.
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// Whether the running cowbell process itself received the last message, and so has missed none since.
    pub is_unbroken: bool,
    /// When its process started, in clock ticks since boot; `None` if the process was not observed.
    pub process_started: Option<u64>,
    /// Whether it copies only what has changed since an earlier run.
    pub is_incremental: bool,
    /// Whether the running cowbell process itself has seen its process run.
    #[serde(skip)]
    pub was_seen_running: bool,
    /// The process that read or packed the data, if it was killed or ended with an error.
    pub failed_process: Option<ProcessFailure>,
    /// When its process was found to have ended.
    pub process_ended_at: Option<Timestamp>,
}

impl BackupRun {
    pub fn new(run: u32, at: Timestamp) -> Self {
        Self {
            run,
            first_at: at,
            last_at: at,
            ..Self::default()
        }
    }

    /// Processes a step; returns whether it changed anything. `listening_since` is when this process began to listen.
    ///
    /// Each step counts once, and none after the last one.
    pub fn take(&mut self, step: Step, at: Timestamp, listening_since: Timestamp) -> bool {
        if self.is_over() {
            return false;
        }
        let mut before = self.clone();
        // A clock that was set back must not end a phase before its beginning.
        let at = at.max(self.last_at);
        self.update_report(step, at, listening_since);
        self.update_lock(step, at);
        if let Some(phase) = Phase::of(step)
            && self.began(phase).is_none()
        {
            self.phases.push(PhaseStart { phase, at });
        }
        self.last_at = at;
        self.is_unbroken = true;
        // Other fields of a run do not come from its hooks.
        before.last_at = at;
        before.is_unbroken = true;
        *self != before
    }

    /// Updates whether its process runs. Another process with its PID means that its own has ended.
    pub fn update_process(&mut self, process: &BackupProcess, at: Timestamp) {
        if let Some(running) = &process.running
            && self.process_started.unwrap_or(running.started) == running.started
        {
            self.process_started = Some(running.started);
            self.was_seen_running = true;
        } else {
            self.process_ended_at = self.process_ended_at.or(Some(at));
        }
    }

    /// Learns how a process below its own exited. mylvmbackup knows the status of its children and of the last process
    /// of a pipe; those before it matter while it backs up. Programs that do not read the data, such as those of a person's
    /// hook scripts, may fail without harm. `tar` ends with 1 if a file shrank or changed, which a snapshot's do only if it
    /// cannot be read.
    pub fn learn_exit(&mut self, process: &ProcessExit) {
        let began = self.began(Phase::Backup);
        let backs_up = began.is_some_and(|began| began < process.at)
            && self.report.is_none_or(|report| process.at <= report.at);
        let is_failure = !process.status.is_success() && process.status != BROKEN_PIPE;
        let is_hidden = process.relation == ExitRelation::Descendant && is_reader(&process.name);
        if backs_up && is_hidden && is_failure && self.failed_process.is_none() {
            self.failed_process = Some(ProcessFailure::of(process));
        }
    }

    /// When its process ended; `None` while it runs, or if it was never observed.
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.process_started.and(self.process_ended_at)
    }

    /// Whether its process is known to run.
    pub fn runs(&self) -> bool {
        self.process_started.is_some() && self.process_ended_at.is_none()
    }

    /// When a phase began, if it did.
    pub fn began(&self, phase: Phase) -> Option<Timestamp> {
        self.phases
            .iter()
            .find(|start| start.phase == phase)
            .map(|start| start.at)
    }

    /// Whether it has created a snapshot, whether or not that was seen.
    pub fn has_made_snapshot(&self) -> bool {
        self.began(Phase::Mount).is_some() || self.report.is_some_and(|report| report.succeeded)
    }

    /// Whether it has reached its last step.
    pub fn is_over(&self) -> bool {
        self.began(Phase::Cleanup).is_some()
    }

    /// The global read lock was held within this range, for a shorter time.
    pub fn lock_range(&self) -> Option<Range> {
        Some(Range {
            from: self.locked_from?,
            to: self.locked_until?,
        })
    }

    fn update_lock(&mut self, step: Step, at: Timestamp) {
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

    /// The packaged `backupfailure.pm` replaces a script of that name. So a run that cleans up without having reported
    /// success has failed.
    fn update_report(&mut self, step: Step, at: Timestamp, listening_since: Timestamp) {
        let listened_ms = at.as_millisecond() - listening_since.as_millisecond();
        let listened = self.is_unbroken || listened_ms >= SUCCESS_TO_CLEANUP_MS;
        let succeeded = match step {
            Step::Backupsuccess => true,
            Step::Backupfailure => false,
            Step::Precleanup if listened => false,
            _ => return,
        };
        self.report.get_or_insert(ReportedResult { at, succeeded });
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

    /// A run with one step a second, observed by a process that has listened for this many seconds.
    fn run(steps: &[Step], listened: i64) -> BackupRun {
        let mut run = BackupRun::new(4711, at(0));
        for (second, step) in (0..).zip(steps) {
            run.take(*step, at(second), at(-listened));
        }
        run
    }

    /// `flush 0, snapshot 1; locked 0 to 3; succeeded`
    fn text(run: &BackupRun) -> String {
        let second = |at: Timestamp| at.as_second() - 1_772_330_400;
        let phases: Vec<String> = run
            .phases
            .iter()
            .map(|start| format!("{} {}", start.phase.text(), second(start.at)))
            .collect();
        let locked = run.lock_range().map_or("not known".into(), |range| {
            format!("locked {} to {}", second(range.from), second(range.to))
        });
        let reported = run
            .report
            .map_or("nothing", |report| report.outcome().text());
        format!("{}; {locked}; {reported}", phases.join(", "))
    }

    fn check(steps: &[Step], expected: &str) {
        assert_eq!(text(&run(steps, 3600)), expected, "{steps:?}");
    }

    #[test]
    fn hooks_of_a_good_run_report_phases_and_success() {
        check(
            &USUAL,
            "flush 0, snapshot 1, mount 4, backup 5, cleanup 7; locked 0 to 3; succeeded",
        );
    }

    #[test]
    fn a_hook_before_the_flush_narrows_the_lock_range() {
        let steps = [
            Step::Preconnect,
            Step::Preflush,
            Step::Presnapshot,
            Step::Preunlock,
            Step::Predisconnect,
        ];
        check(&steps, "flush 0, snapshot 2; locked 1 to 4; nothing");
    }

    #[test]
    fn cleanup_without_success_is_a_failure() {
        check(
            &[
                Step::Preconnect,
                Step::Presnapshot,
                Step::Prebackup,
                Step::Precleanup,
            ],
            "flush 0, snapshot 1, backup 2, cleanup 3; not known; failed",
        );
        check(
            &[Step::Backupfailure, Step::Precleanup],
            "cleanup 1; not known; failed",
        );
    }

    #[test]
    fn failure_is_unknown_to_a_process_that_may_have_missed_the_success() {
        for (is_unbroken, listened, expected) in [
            (false, 3600, "failed"),
            (false, 1, "nothing"),
            (true, 1, "failed"),
        ] {
            let mut run = BackupRun {
                is_unbroken,
                ..run(&[Step::Prebackup], 0)
            };
            run.take(Step::Precleanup, at(100), at(100 - listened));
            assert!(
                text(&run).ends_with(expected),
                "{is_unbroken}, {listened} s: {}",
                text(&run)
            );
        }
    }

    #[test]
    fn a_killed_run_reports_nothing() {
        check(
            &USUAL[..6],
            "flush 0, snapshot 1, mount 4, backup 5; locked 0 to 3; nothing",
        );
    }

    #[test]
    fn repeated_and_late_steps_change_nothing() {
        let mut run = run(&USUAL, 3600);
        let before = run.clone();
        for step in USUAL.into_iter().chain([Step::Backupfailure]) {
            assert!(!run.take(step, at(100), at(-3600)), "{step:?}");
        }
        assert_eq!(run, before);
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_phase_end_before_it_began() {
        let mut run = BackupRun::new(4711, at(50));
        for (step, second) in [
            (Step::Preconnect, 50),
            (Step::Presnapshot, 10),
            (Step::Predisconnect, 20),
        ] {
            run.take(step, at(second), at(-3600));
        }
        assert_eq!(
            text(&run),
            "flush 50, snapshot 50; locked 50 to 50; nothing"
        );
    }
}
