//! The phases of a job in order of time, from hooks and from marks. A phase begins while its job runs, and ends where
//! the next one begins, or with the job.

use jiff::Timestamp;

use super::Job;
use crate::commands::PhaseMark;

/// Maximum number of marked phases: a benchmark has some five, and each is a row of a table.
pub const MOST_PHASES: usize = 64;

/// A phase with its end; `None` while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseSpan<'a> {
    pub name: &'a str,
    pub began_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl Job {
    /// Its phases in order of time, without marks after the job's end.
    pub fn phases(&self) -> Vec<PhaseSpan<'_>> {
        let hooks = self.backup_run.iter().flat_map(|run| &run.phases);
        let hooks = hooks.map(|start| (start.phase.text(), start.at));
        let marks = self
            .phase_marks
            .iter()
            .filter(|mark| self.ended_at.is_none_or(|end| mark.at <= end));
        let mut starts: Vec<_> = hooks
            .chain(marks.map(|mark| (&*mark.name, mark.at)))
            .collect();
        starts.sort_by_key(|(_, at)| *at);
        let ends: Vec<_> = starts
            .iter()
            .skip(1)
            .map(|(_, at)| Some(*at))
            .chain([self.ended_at])
            .collect();
        let span = |((name, began_at), ended_at)| PhaseSpan {
            name,
            began_at,
            ended_at,
        };
        starts.into_iter().zip(ends).map(span).collect()
    }

    /// The beginning of a phase that is marked without a time: now, but not before the last one if the clock was set back.
    pub fn next_phase_at(&self, now: Timestamp) -> Timestamp {
        let last_at = self.phases().pop().map(|last| last.began_at);
        now.max(self.started_at).max(last_at.unwrap_or(now))
    }

    /// Begins a phase, or returns why not. Repeating the current phase changes nothing.
    pub(super) fn begin_phase(&mut self, mark: PhaseMark) -> Result<(), String> {
        let Self { id, started_at, .. } = *self;
        let (at, last) = (mark.at, self.phases().pop());
        let too_early = |began_at| format!("began at {began_at}: expected");
        let then_or_later = format!("to begin then or later, but found {at}");
        Err(match (self.ended_at, last) {
            (Some(ended_at), _) => {
                format!("job {id} ended at {ended_at}: a phase can only begin while its job runs")
            }
            (_, Some(last)) if last.name == mark.name => return Ok(()),
            _ if at < started_at => {
                format!(
                    "job {id} {} its phase {then_or_later}",
                    too_early(started_at)
                )
            }
            (_, Some(PhaseSpan { name, began_at, .. })) if at < began_at => {
                format!(
                    "phase `{name}` of job {id} {} the next one {then_or_later}",
                    too_early(began_at)
                )
            }
            _ if self.phase_marks.len() >= MOST_PHASES => {
                format!("job {id} has {MOST_PHASES} phases, which is the limit")
            }
            _ => {
                self.phase_marks.push(mark);
                return Ok(());
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::backup_run::{BackupRun, Phase, PhaseStart};
    use crate::job::{JobKind, Outcome};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_772_330_400 + second).unwrap()
    }

    fn phase(name: &str, second: i64) -> PhaseMark {
        PhaseMark {
            at: at(second),
            name: name.into(),
        }
    }

    fn running() -> Job {
        Job::new(7, JobKind::Command, "key", "bonnie++", at(0))
    }

    /// A job that began at 0, with these marks.
    fn marked(phases: &[(&str, i64)]) -> Job {
        let mut job = running();
        for (name, second) in phases {
            let _ = job.begin_phase(phase(name, *second));
        }
        job
    }

    /// `writing 0 to 8, reading 8 on`
    fn text(job: &Job) -> String {
        let second = |at: Timestamp| at.as_second() - at_zero();
        let span = |span: &PhaseSpan| {
            let until = span
                .ended_at
                .map_or("on".into(), |at| format!("to {}", second(at)));
            format!("{} {} {until}", span.name, second(span.began_at))
        };
        job.phases().iter().map(span).collect::<Vec<_>>().join(", ")
    }

    fn at_zero() -> i64 {
        at(0).as_second()
    }

    #[test]
    fn a_phase_ends_where_the_next_begins_or_with_the_job() {
        let mut job = marked(&[("writing", 1), ("rewriting", 8), ("reading", 20)]);
        assert_eq!(
            text(&job),
            "writing 1 to 8, rewriting 8 to 20, reading 20 on"
        );
        job.end(at(25), Outcome::Succeeded);
        assert_eq!(
            text(&job),
            "writing 1 to 8, rewriting 8 to 20, reading 20 to 25"
        );
    }

    #[test]
    fn a_repeated_phase_continues_and_a_returning_one_is_new() {
        let job = marked(&[
            ("writing", 1),
            ("writing", 5),
            ("writing", 0),
            ("reading", 8),
            ("writing", 9),
        ]);
        assert_eq!(text(&job), "writing 1 to 8, reading 8 to 9, writing 9 on");
    }

    #[test]
    fn marks_after_the_jobs_end_are_ignored() {
        let mut job = marked(&[("writing", 1), ("reading", 8)]);
        job.end(at(5), Outcome::Succeeded);
        assert_eq!(text(&job), "writing 1 to 5");
    }

    #[test]
    fn a_phase_can_begin_after_the_clock_was_set_back() {
        let mut job = marked(&[("writing", 10)]);
        for (name, now, expected) in [
            ("reading", -3600, 10),
            ("seeking", 5, 10),
            ("deleting", 12, 12),
        ] {
            let phase = PhaseMark {
                at: job.next_phase_at(at(now)),
                name: name.into(),
            };
            assert_eq!(
                (phase.at, job.begin_phase(phase)),
                (at(expected), Ok(())),
                "{name}"
            );
        }
        assert_eq!(
            running().next_phase_at(at(-3600)),
            at(0),
            "not before its job"
        );
    }

    #[test]
    fn marked_phases_and_those_of_hooks_are_in_one_order() {
        let mut job = marked(&[("dump", 6)]);
        let start = |(phase, second)| PhaseStart {
            phase,
            at: at(second),
        };
        let phases = [(Phase::Flush, 0), (Phase::Backup, 5), (Phase::Cleanup, 9)]
            .map(start)
            .to_vec();
        job.backup_run = Some(BackupRun {
            phases,
            ..BackupRun::new(4711, at(0))
        });
        assert_eq!(
            text(&job),
            "flush 0 to 5, backup 5 to 6, dump 6 to 9, cleanup 9 on"
        );
    }

    #[test]
    fn impossible_phases_are_rejected_with_a_reason() {
        let refused = |job: &Job, second: i64, expected: &str| {
            let found = job
                .clone()
                .begin_phase(phase("seeking", second))
                .unwrap_err();
            assert_eq!(found, expected);
        };
        let job = marked(&[("writing", 10)]);
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
        let names: Vec<String> = (0..MOST_PHASES)
            .map(|number| format!("phase {number}"))
            .collect();
        let many: Vec<(&str, i64)> = names.iter().map(|name| (&**name, 10)).collect();
        refused(
            &marked(&many),
            11,
            "job 7 has 64 phases, which is the limit",
        );
        let mut over = job;
        over.end(at(20), Outcome::Succeeded);
        refused(
            &over,
            15,
            "job 7 ended at 2026-03-01T02:00:20Z: a phase can only begin while its job runs",
        );
    }
}
