//! Runs of mylvmbackup of which hooks have told, but whose snapshot is not seen yet.
//!
//! The hook before that reads the snapshot's name from mylvmbackup's configuration, where it can. Where it could not,
//! the run that was about to make one when one appeared made it. One that is over and failed without a snapshot is given
//! up to be a job of its own.

use jiff::Timestamp;

use super::failed_run::FailedRun;
use super::phase::{BackupRun, Phase};
use super::{Job, JobKind};
use crate::sample::hooks::{HookMessage, Step};

/// Runs that are remembered without a snapshot; the oldest is forgotten first.
const MOST: usize = 16;
/// A snapshot that appears so long after a run was last heard of is not that run's: it was killed, or LVM refused.
const LATEST_MS: i64 = 5 * 60_000;
/// LVM tells when a volume was made in whole seconds, and is asked a moment later.
const EARLIEST_MS: i64 = 2_000;
/// A run that is heard for the first time when its snapshot was made already, made it this long before at most.
const UNHEARD_MS: i64 = 60_000;
/// That a thin volume is a snapshot is known when LVM has said it, which may take this long. A run that came to mount one
/// has made one.
const SEEN_WITHIN_MS: i64 = 60_000;

/// Runs that wait for their snapshot, the first to be heard of first.
#[derive(Debug, Default)]
pub struct Runs {
    waiting: Vec<PendingRun>,
}

#[derive(Debug)]
struct PendingRun {
    heard: BackupRun,
    /// The snapshot's name, as `vg0/data_snapshot`.
    name: Option<String>,
}

impl Runs {
    /// Takes a step of a run that no job is known for.
    pub fn hear(&mut self, told: &HookMessage, at: Timestamp, listening_since: Timestamp) {
        self.forget_before(told);
        let index = self.waiting.iter().position(|waiting| waiting.heard.run == told.run);
        let index = index.unwrap_or_else(|| {
            self.waiting.push(PendingRun { heard: BackupRun::new(told.run, at), name: None });
            self.waiting.len() - 1
        });
        let waiting = &mut self.waiting[index];
        waiting.name = told.snapshot.clone().or(waiting.name.take());
        waiting.heard.take(told.step, at, listening_since);
        let surplus = self.waiting.len().saturating_sub(MOST);
        self.waiting.drain(..surplus);
    }

    pub fn knows(&self, run: u32) -> bool {
        self.waiting.iter().any(|waiting| waiting.heard.run == run)
    }

    /// Runs that are over, and whose snapshot nobody saw up to this tick: those that failed to make one.
    pub fn given_up(&mut self, now: Timestamp) -> Vec<FailedRun> {
        let over = self.waiting.extract_if(.., |waiting| waiting.is_given_up(now));
        over.filter_map(PendingRun::unmade).collect()
    }

    /// The run whose snapshot this job is; it waits no longer.
    pub fn of(&mut self, job: &Job) -> Option<BackupRun> {
        if job.kind != JobKind::Snapshot || job.heard.is_some() {
            return None;
        }
        let fitting = self.waiting.iter().enumerate().filter(|(_, waiting)| waiting.made(job));
        // Of two that make one at the same time, the first to begin is the first to be done.
        let first =
            fitting.min_by_key(|(_, waiting)| (waiting.name.is_none(), waiting.heard.began(Phase::Snapshot)));
        let (index, _) = first?;
        Some(self.waiting.remove(index).heard)
    }

    /// The number of a process that ended is used again: a run that begins is another than before.
    fn forget_before(&mut self, told: &HookMessage) {
        if told.step == Step::Preconnect {
            self.waiting.retain(|waiting| waiting.heard.run != told.run);
        }
    }
}

impl PendingRun {
    /// Whether this run made that snapshot. What it mounts is there: a name that is not found by then was read wrongly.
    fn made(&self, job: &Job) -> bool {
        let names = job.vg.as_ref().zip(job.lv.as_ref()).map(|(vg, lv)| format!("{vg}/{lv}"));
        let is_named = self.name.is_none() || self.name == names;
        (is_named || self.heard.began(Phase::Mount).is_some()) && could_make(&self.heard, job.started_at)
    }

    fn is_given_up(&self, now: Timestamp) -> bool {
        let since_ms = now.as_millisecond() - self.heard.last_at.as_millisecond();
        let waits_ms = if self.heard.began(Phase::Mount).is_some() { SEEN_WITHIN_MS } else { 0 };
        // A clock that was put back keeps nobody waiting.
        self.heard.is_over() && !(0..waits_ms).contains(&since_ms)
    }

    /// `None` of a run that was heard in part, or says that all went well.
    fn unmade(self) -> Option<FailedRun> {
        let Self { heard, name } = self;
        if heard.began(Phase::Snapshot).is_some() {
            tracing::warn!(
                "mylvmbackup (process {}) ended, and no snapshot of it was seen: see its own log",
                heard.run
            );
        }
        let has_failed = heard.reported.is_some_and(|report| !report.succeeded);
        let is_known = has_failed && heard.began(Phase::Snapshot).is_some();
        is_known.then_some(FailedRun { heard, snapshot: name })
    }
}

/// Whether a run can have made a snapshot that appeared at this time.
fn could_make(heard: &BackupRun, appeared_at: Timestamp) -> bool {
    let earliest = match heard.began(Phase::Snapshot) {
        Some(at) => at.as_millisecond() - EARLIEST_MS,
        // It has not come to that yet.
        None if heard.began(Phase::Flush).is_some() => return false,
        None => heard.first_at.as_millisecond() - UNHEARD_MS,
    };
    let late_ms = if heard.is_over() { EARLIEST_MS } else { LATEST_MS };
    (earliest..=heard.last_at.as_millisecond() + late_ms).contains(&appeared_at.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::hooks::parse;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_772_330_400 + second).unwrap()
    }

    /// Runs that said so, a word a second.
    fn told(words: &[&str]) -> Runs {
        let mut runs = Runs::default();
        for (second, word) in (0..).zip(words) {
            runs.hear(&parse(&format!("mylvmbackup {word}")).unwrap(), at(second), at(-60));
        }
        runs
    }

    fn check(words: &[&str], snapshots: &[(&str, i64)], expected: &[Option<u32>]) {
        let mut runs = told(words);
        let found = snapshots.iter().map(|(lv, second)| {
            let mut job = Job::new(1, JobKind::Snapshot, lv, lv, at(*second));
            (job.vg, job.lv) = (Some("vg0".into()), Some((*lv).into()));
            runs.of(&job).map(|heard| heard.run)
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{words:?}");
    }

    #[test]
    fn two_at_once_are_told_apart_by_their_snapshots_names() {
        let words = ["1 preconnect", "2 preconnect", "1 presnapshot vg0/one", "2 presnapshot vg0/two"];
        check(&words, &[("two", 4), ("other", 4), ("one", 5)], &[Some(2), None, Some(1)]);
    }

    #[test]
    fn without_names_the_first_to_begin_is_the_first_to_be_done() {
        let words = ["1 preconnect", "2 preconnect", "2 presnapshot", "1 presnapshot"];
        check(&words, &[("a", 4), ("b", 5), ("c", 6)], &[Some(2), Some(1), None]);
    }

    #[test]
    fn a_name_that_was_read_wrongly_counts_no_more_when_the_snapshot_is_mounted() {
        let words = ["1 presnapshot vg0/one", "1 preunlock"];
        check(&words, &[("another", 1)], &[None]);
        check(&[words[0], words[1], "1 premount"], &[("another", 1)], &[Some(1)]);
    }

    #[test]
    fn a_snapshot_long_before_or_after_is_not_the_runs() {
        check(&["1 presnapshot"], &[("a", -10), ("b", 400), ("c", 2)], &[None, None, Some(1)]);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_run() {
        check(&["1 preconnect", "1 presnapshot vg0/one", "1 preconnect"], &[("one", 2)], &[None]);
    }
}
