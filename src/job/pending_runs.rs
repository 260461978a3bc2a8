//! Runs of mylvmbackup from hooks, until their snapshot appears. The `presnapshot` hook usually knows its name;
//! otherwise a new snapshot belongs to the run that was about to create one. A snapshot that another program was seen to
//! create belongs to no run. A run that ends without a snapshot becomes a job.

use jiff::Timestamp;

use super::backup_run::{BackupRun, Phase};
use super::setup::Setup;
use super::{Job, JobKind, Outcome, ReportedResult};
use crate::sample::hooks::{HookMessage, Step};
use crate::sample::processes::BackupProcess;
use crate::topology::Topology;

/// Maximum number of pending runs; the oldest is dropped first.
const MOST: usize = 16;
/// A snapshot that appears later than this after a run's last message belongs to another run.
const LATEST_MS: i64 = 5 * 60_000;
/// LVM reports creation times in whole seconds, and a moment later.
const EARLIEST_MS: i64 = 2_000;
/// If a run's first message arrives after its snapshot was created, the snapshot is at most this old.
const UNHEARD_MS: i64 = 60_000;
/// LVM's report, which shows that a thin volume is a snapshot, may take this long.
const SEEN_WITHIN_MS: i64 = 60_000;
/// A snapshot is observed within this time of its creation.
const APPEARS_WITHIN_MS: i64 = 3_000;
/// A run whose process was never observed, and which has sent no message for this long, has ended.
const UNOBSERVED_SILENCE_MS: i64 = 45_000;
/// mylvmbackup's default suffix of a snapshot's name.
const SUFFIX: &str = "_snapshot";
/// The name of such a run's job if the snapshot's name is unknown.
pub const NAMELESS: &str = "mylvmbackup";

/// Runs without a snapshot yet, in order of their first message.
#[derive(Debug, Default)]
pub struct PendingRuns(Vec<PendingRun>);

/// A run without a snapshot.
#[derive(Debug)]
pub struct PendingRun {
    run: BackupRun,
    /// The snapshot's name, as `vg0/data_snapshot`.
    snapshot: Option<String>,
    /// The volume to be backed up, as `vg0/data`.
    origin: Option<String>,
}

impl PendingRuns {
    /// Processes a message of a run without a job.
    pub fn take(&mut self, message: &HookMessage, at: Timestamp, listening_since: Timestamp) {
        if message.step == Step::Preconnect {
            // A new run with the PID of an earlier one.
            self.0
                .retain(|pending| pending.run.run != message.run || pending.run.runs());
        }
        if !self.contains(message.run) {
            self.0.push(PendingRun {
                run: BackupRun::new(message.run, at),
                snapshot: None,
                origin: None,
            });
        }
        for pending in &mut self.0 {
            if pending.run.run == message.run {
                pending.snapshot = message.snapshot.clone().or(pending.snapshot.take());
                pending.origin = message.origin.clone().or(pending.origin.take());
                pending.run.is_incremental |= message.is_incremental;
                pending.run.take(message.step, at, listening_since);
            }
        }
        let surplus = self.0.len().saturating_sub(MOST);
        self.0.drain(..surplus);
    }

    pub fn contains(&self, run: u32) -> bool {
        self.0.iter().any(|pending| pending.run.run == run)
    }

    pub fn runs(&self) -> impl Iterator<Item = &BackupRun> {
        self.0.iter().map(|pending| &pending.run)
    }

    /// Updates whether the process of a run still runs.
    pub fn update_process(&mut self, process: &BackupProcess, at: Timestamp) {
        for pending in &mut self.0 {
            if pending.run.run == process.pid {
                pending.run.update_process(process, at);
            }
        }
    }

    /// Removes and returns the first such run.
    pub fn take_run(&mut self, is_it: impl Fn(&BackupRun) -> bool) -> Option<BackupRun> {
        let index = self.0.iter().position(|pending| is_it(&pending.run))?;
        Some(self.0.remove(index).run)
    }

    /// Removes runs that are over without a snapshot; returns those that were observed from their beginning.
    pub fn take_over(&mut self, now: Timestamp) -> Vec<PendingRun> {
        let over = self.0.extract_if(.., |pending| pending.is_given_up(now));
        over.filter(PendingRun::has_begun).collect()
    }

    /// Removes and returns the run that created this job's snapshot.
    pub fn take_run_of(&mut self, job: &Job) -> Option<BackupRun> {
        if job.kind != JobKind::Snapshot || job.backup_run.is_some() {
            return None;
        }
        let all = self.0.iter().enumerate();
        let fitting = all.filter(|(_, pending)| pending.created(job));
        // The run that named it, else one without a name. Of two, the first to begin is the first to finish.
        let (index, _) = fitting.min_by_key(|(_, pending)| {
            let began = pending.run.began(Phase::Snapshot);
            (!pending.named(job), pending.snapshot.is_some(), began)
        })?;
        Some(self.0.remove(index).run)
    }
}

impl PendingRun {
    /// The job of a run that failed, or whose snapshot was never seen. Its origin is known if the hook named it, or has its usual name, and exists.
    pub fn into_job(self, id: i64, machine: &Setup, topology: &Topology) -> Job {
        let run = self.run;
        let usual = || Some(self.snapshot.as_deref()?.strip_suffix(SUFFIX)?.to_string());
        let origin = self.origin.or_else(usual);
        let origin = origin.filter(|origin| topology.volume(origin).is_some());
        let key = format!("{NAMELESS}:{}:{}", run.run, run.first_at.as_millisecond());
        let mut job = Job::new(id, JobKind::Snapshot, &key, NAMELESS, run.first_at);
        if let Some((vg, origin)) = origin.as_deref().and_then(|name| name.split_once('/')) {
            job.vg = Some(vg.into());
            job.origin = Some(origin.into());
        }
        if let Some((vg, lv)) = self
            .snapshot
            .as_deref()
            .and_then(|name| name.split_once('/'))
        {
            job.vg = Some(vg.into());
            job.lv = Some(lv.into());
            job.name = lv.into();
        }
        job.setup = machine.clone();
        if !run.has_made_snapshot() {
            job.setup.snapshots = Some(0);
        }
        // A success without a snapshot that was seen is not confirmed.
        let outcome = run.report.map_or(Outcome::Failed, ReportedResult::outcome);
        let ended_at = run.last_at;
        job.backup_run = Some(run);
        job.end(ended_at, outcome);
        job
    }

    /// Whether this run created that snapshot. Once the run has mounted a snapshot, its time decides, whatever name the hook
    /// reported.
    fn created(&self, job: &Job) -> bool {
        let is_possible =
            self.snapshot.is_none() || self.named(job) || self.run.began(Phase::Mount).is_some();
        is_possible && self.can_be(job) && could_create(&self.run, job.started_at)
    }

    fn named(&self, job: &Job) -> bool {
        self.snapshot.is_some() && self.snapshot == job.volume_name()
    }

    /// Whether the program that created a snapshot, if observed, can be this run. A run whose process was observed would have
    /// been found among the processes above it; in a container, its PID is another one.
    fn can_be(&self, job: &Job) -> bool {
        let program = job.program.as_deref();
        program.is_none_or(|program| program == NAMELESS && self.run.process_started.is_none())
    }

    fn is_given_up(&self, now: Timestamp) -> bool {
        let since_ms = now.as_millisecond() - self.run.last_at.as_millisecond();
        let waits_ms = if self.run.has_made_snapshot() {
            SEEN_WITHIN_MS
        } else if self.run.is_over() {
            0
        } else if self.run.ended_at().is_some() {
            APPEARS_WITHIN_MS
        } else {
            // Its process runs in a container, or ended before it was observed.
            UNOBSERVED_SILENCE_MS
        };
        let is_over = self.run.is_over() || self.run.process_ended_at.is_some();
        // Below 0 the clock was set back.
        is_over && !(0..waits_ms).contains(&since_ms)
    }

    /// Whether it was observed from its beginning, or when it began to create a snapshot.
    fn has_begun(&self) -> bool {
        let first = self.run.phases.first();
        if first.is_none_or(|first| first.phase == Phase::Cleanup) {
            return false;
        }
        let pid = self.run.run;
        tracing::warn!(
            "mylvmbackup (process {pid}) ended, and no snapshot of it was seen: see its log"
        );
        true
    }
}

/// Whether a run can have created a snapshot that appeared at this time.
fn could_create(run: &BackupRun, appeared_at: Timestamp) -> bool {
    let earliest_ms = match run.began(Phase::Snapshot) {
        Some(at) => at.as_millisecond() - EARLIEST_MS,
        None if run.began(Phase::Flush).is_some() => return false,
        None => run.first_at.as_millisecond() - UNHEARD_MS,
    };
    let mut latest_ms = run.last_at.as_millisecond() + LATEST_MS;
    if run.is_over() {
        latest_ms = run.last_at.as_millisecond() + EARLIEST_MS;
    }
    (earliest_ms..=latest_ms).contains(&appeared_at.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::hooks::parse;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_772_330_400 + second).unwrap()
    }

    /// Pending runs after these messages, one a second.
    fn pending(messages: &[&str]) -> PendingRuns {
        let mut runs = PendingRuns::default();
        for (second, message) in (0..).zip(messages) {
            runs.take(
                &parse(&format!("mylvmbackup {message}")).unwrap(),
                at(second),
                at(-60),
            );
        }
        runs
    }

    fn check(messages: &[&str], snapshots: &[(&str, i64)], expected: &[Option<u32>]) {
        let mut runs = pending(messages);
        let found = snapshots.iter().map(|(lv, second)| {
            let mut job = Job::new(1, JobKind::Snapshot, lv, lv, at(*second));
            (job.vg, job.lv) = (Some("vg0".into()), Some((*lv).into()));
            runs.take_run_of(&job).map(|run| run.run)
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{messages:?}");
    }

    #[test]
    fn concurrent_runs_are_distinguished_by_snapshot_names() {
        let messages = [
            "1 preconnect",
            "2 preconnect",
            "1 presnapshot vg0/one",
            "2 presnapshot vg0/two",
        ];
        check(
            &messages,
            &[("two", 4), ("other", 4), ("one", 5)],
            &[Some(2), None, Some(1)],
        );
    }

    #[test]
    fn without_names_the_first_run_created_the_first_snapshot() {
        let messages = [
            "1 preconnect",
            "2 preconnect",
            "2 presnapshot",
            "1 presnapshot",
        ];
        check(
            &messages,
            &[("a", 4), ("b", 5), ("c", 6)],
            &[Some(2), Some(1), None],
        );
    }

    #[test]
    fn a_misread_name_is_ignored_once_a_snapshot_is_mounted() {
        let messages = ["1 presnapshot vg0/one", "1 preunlock"];
        check(&messages, &[("another", 1)], &[None]);
        check(
            &[messages[0], messages[1], "1 premount"],
            &[("another", 1)],
            &[Some(1)],
        );
    }

    #[test]
    fn a_snapshot_long_before_or_after_a_run_is_not_its_own() {
        check(
            &["1 presnapshot"],
            &[("a", -10), ("b", 400), ("c", 2)],
            &[None, None, Some(1)],
        );
    }

    #[test]
    fn a_reused_pid_is_another_run() {
        check(
            &["1 preconnect", "1 presnapshot vg0/one", "1 preconnect"],
            &[("one", 2)],
            &[None],
        );
    }
}
