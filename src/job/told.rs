//! Phases of a job: those that a backup's hooks reported and those of commands, in order of time.
//!
//! A phase ends where the next one begins, or with the job. A phase can only begin while its job runs.

use jiff::Timestamp;
use thiserror::Error;

use super::Job;
use crate::source::ToldPhase;

/// Phases that can be told of a job: a benchmark has some five, and each is a row of a table and some figures.
pub const MOST_PHASES: usize = 64;

/// A phase with its end; `None` while it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseSpan<'a> {
    pub name: &'a str,
    pub began_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

/// Why a phase is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PhaseError {
    #[error("job {id} ended at {ended_at}: a phase can only begin while its job runs")]
    Over { id: i64, ended_at: Timestamp },
    #[error("job {id} began at {started_at}: expected its phase to begin then or later, but found {at}")]
    BeforeTheJob { id: i64, started_at: Timestamp, at: Timestamp },
    #[error(
        "phase `{last}` of job {id} began at {began_at}: expected the next one to begin then or later, but found {at}"
    )]
    BeforeTheLast { id: i64, last: String, began_at: Timestamp, at: Timestamp },
    #[error("job {id} has {MOST_PHASES} phases and can have no more")]
    TooMany { id: i64 },
}

impl Job {
    /// Its phases in the order of time. One that was told to begin after the job's end is none of it.
    pub fn phases(&self) -> Vec<PhaseSpan<'_>> {
        let heard = self.heard.iter().flat_map(|heard| &heard.phases);
        let heard = heard.map(|begun| (begun.phase.text(), begun.at));
        let told = self.told_phases.iter().filter(|phase| self.ended_at.is_none_or(|end| phase.at <= end));
        let mut begun: Vec<_> = heard.chain(told.map(|phase| (&*phase.name, phase.at))).collect();
        begun.sort_by_key(|(_, at)| *at);
        let ends: Vec<_> = begun.iter().skip(1).map(|(_, at)| Some(*at)).chain([self.ended_at]).collect();
        let span = |((name, began_at), ended_at)| PhaseSpan { name, began_at, ended_at };
        begun.into_iter().zip(ends).map(span).collect()
    }

    /// When a phase begins that was told without a time: now, but if the clock was set back not before what it follows.
    pub fn next_phase_at(&self, now: Timestamp) -> Timestamp {
        let last_at = self.phases().pop().map(|last| last.began_at);
        now.max(self.started_at).max(last_at.unwrap_or(now))
    }

    /// Begins a phase. The phase that goes on may be told again, which changes nothing.
    pub(super) fn enter(&mut self, phase: ToldPhase) -> Result<(), PhaseError> {
        let (id, at) = (self.id, phase.at);
        if let Some(ended_at) = self.ended_at {
            return Err(PhaseError::Over { id, ended_at });
        }
        let last = self.phases().pop();
        if last.is_some_and(|last| last.name == phase.name) {
            return Ok(());
        }
        if at < self.started_at {
            return Err(PhaseError::BeforeTheJob { id, started_at: self.started_at, at });
        }
        if let Some(last) = last.filter(|last| at < last.began_at) {
            let (last, began_at) = (last.name.into(), last.began_at);
            return Err(PhaseError::BeforeTheLast { id, last, began_at, at });
        }
        if self.told_phases.len() >= MOST_PHASES {
            return Err(PhaseError::TooMany { id });
        }
        self.told_phases.push(phase);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::phase::{BackupRun, Phase, PhaseStart};
    use crate::job::{JobKind, Outcome};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_772_330_400 + second).unwrap()
    }

    fn phase(name: &str, second: i64) -> ToldPhase {
        ToldPhase { at: at(second), name: name.into() }
    }

    fn running() -> Job {
        Job::new(7, JobKind::Command, "key", "bonnie++", at(0))
    }

    /// A job that began at 0 and was told so.
    fn told(phases: &[(&str, i64)]) -> Job {
        let mut job = running();
        for (name, second) in phases {
            let _ = job.enter(phase(name, *second));
        }
        job
    }

    /// `writing 0 to 8, reading 8 on`
    fn said(job: &Job) -> String {
        let second = |at: Timestamp| at.as_second() - at_zero();
        let span = |span: &PhaseSpan| {
            let until = span.ended_at.map_or("on".into(), |at| format!("to {}", second(at)));
            format!("{} {} {until}", span.name, second(span.began_at))
        };
        job.phases().iter().map(span).collect::<Vec<_>>().join(", ")
    }

    fn at_zero() -> i64 {
        at(0).as_second()
    }

    #[test]
    fn a_phase_ends_where_the_next_begins_or_with_the_job() {
        let mut job = told(&[("writing", 1), ("rewriting", 8), ("reading", 20)]);
        assert_eq!(said(&job), "writing 1 to 8, rewriting 8 to 20, reading 20 on");
        job.end(at(25), Outcome::Succeeded);
        assert_eq!(said(&job), "writing 1 to 8, rewriting 8 to 20, reading 20 to 25");
    }

    #[test]
    fn a_phase_that_is_told_again_goes_on_and_one_that_comes_back_is_another() {
        let job = told(&[("writing", 1), ("writing", 5), ("writing", 0), ("reading", 8), ("writing", 9)]);
        assert_eq!(said(&job), "writing 1 to 8, reading 8 to 9, writing 9 on");
    }

    #[test]
    fn what_was_told_to_begin_after_the_jobs_end_is_none_of_it() {
        let mut job = told(&[("writing", 1), ("reading", 8)]);
        job.end(at(5), Outcome::Succeeded);
        assert_eq!(said(&job), "writing 1 to 5");
    }

    #[test]
    fn a_clock_that_was_set_back_keeps_no_phase_from_beginning() {
        let mut job = told(&[("writing", 10)]);
        for (name, now, expected) in [("reading", -3600, 10), ("seeking", 5, 10), ("deleting", 12, 12)] {
            let phase = ToldPhase { at: job.next_phase_at(at(now)), name: name.into() };
            assert_eq!((phase.at, job.enter(phase)), (at(expected), Ok(())), "{name}");
        }
        assert_eq!(running().next_phase_at(at(-3600)), at(0), "not before its job");
    }

    #[test]
    fn told_phases_stand_among_those_of_hooks() {
        let mut job = told(&[("dump", 6)]);
        let begun = |(phase, second)| PhaseStart { phase, at: at(second) };
        let phases = [(Phase::Flush, 0), (Phase::Backup, 5), (Phase::Cleanup, 9)].map(begun).to_vec();
        job.heard = Some(BackupRun { phases, ..BackupRun::new(4711, at(0)) });
        assert_eq!(said(&job), "flush 0 to 5, backup 5 to 6, dump 6 to 9, cleanup 9 on");
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_a_sentence() {
        let refused = |job: &Job, second: i64, expected: &str| {
            let found = job.clone().enter(phase("seeking", second)).unwrap_err().to_string();
            assert_eq!(found, expected);
        };
        let job = told(&[("writing", 10)]);
        refused(
            &job,
            -1,
            "job 7 began at 2026-03-01T02:00:00Z: expected its phase to begin then or later, but found \
             2026-03-01T01:59:59Z",
        );
        refused(
            &job,
            9,
            "phase `writing` of job 7 began at 2026-03-01T02:00:10Z: expected the next one to begin then or later, \
             but found 2026-03-01T02:00:09Z",
        );
        let names: Vec<String> = (0..MOST_PHASES).map(|number| format!("phase {number}")).collect();
        let many: Vec<(&str, i64)> = names.iter().map(|name| (&**name, 10)).collect();
        refused(&told(&many), 11, "job 7 has 64 phases and can have no more");
        let mut over = job;
        over.end(at(20), Outcome::Succeeded);
        refused(&over, 15, "job 7 ended at 2026-03-01T02:00:20Z: a phase can only begin while its job runs");
    }
}
