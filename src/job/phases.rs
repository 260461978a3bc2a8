//! The phases of a job in order of time, from hooks and from marks, and the work in each. A phase begins while its job
//! runs, and ends where the next one begins, or with the job.
//!
//! Only ticks that lie entirely inside a phase count. Amounts need ticks for nine tenths of the phase; speeds do not.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Job;
use super::time_series::{JobMeasure, JobPeriod, JobTick, JobTimeSeries, PvMeasure};
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
        let mut starts: Vec<(&str, Timestamp)> = Vec::new();
        for start in self.backup_run.iter().flat_map(|run| &run.phases) {
            starts.push((start.phase.text(), start.at));
        }
        for mark in &self.phase_marks {
            if self.ended_at.is_none_or(|end| mark.at <= end) {
                starts.push((&mark.name, mark.at));
            }
        }
        starts.sort_by_key(|(_, at)| *at);
        let mut spans = Vec::new();
        for (place, (name, began_at)) in starts.iter().enumerate() {
            let next = starts.get(place + 1).map(|(_, at)| *at);
            spans.push(PhaseSpan {
                name,
                began_at: *began_at,
                ended_at: next.or(self.ended_at),
            });
        }
        spans
    }

    /// The beginning of a phase that is marked without a time: now, but not before the last one if the clock was set back.
    pub fn next_phase_at(&self, now: Timestamp) -> Timestamp {
        let last_at = self.phases().pop().map(|last| last.began_at);
        now.max(self.started_at).max(last_at.unwrap_or(now))
    }

    /// Begins a phase, or returns why not. Repeating the current phase changes nothing.
    pub(super) fn begin_phase(&mut self, mark: PhaseMark) -> Result<(), String> {
        let id = self.id;
        let at = mark.at;
        if let Some(ended_at) = self.ended_at {
            return Err(format!(
                "job {id} ended at {ended_at}: a phase can only begin while its job runs"
            ));
        }
        let last = self.phases().pop();
        if last.is_some_and(|last| last.name == mark.name) {
            return Ok(());
        }
        if at < self.started_at {
            return Err(format!(
                "job {id} began at {}: expected its phase to begin then or later, but found {at}",
                self.started_at
            ));
        }
        if let Some(PhaseSpan { name, began_at, .. }) = last
            && at < began_at
        {
            return Err(format!(
                "phase `{name}` of job {id} began at {began_at}: expected the next one to begin then or later, but \
                 found {at}"
            ));
        }
        if self.phase_marks.len() >= MOST_PHASES {
            return Err(format!(
                "job {id} has {MOST_PHASES} phases, which is the limit"
            ));
        }
        self.phase_marks.push(mark);
        Ok(())
    }
}

/// Ends of ticks and phases are in milliseconds, lengths of ticks in microseconds, so a tick may exceed its phase by this.
const ROUNDING_S: f64 = 0.002;

/// The share of a phase that its ticks must cover for amounts.
const WELL_SEEN: f64 = 0.9;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PhaseWork {
    pub name: String,
    /// Seconds from the job's start.
    pub began_s: f64,
    /// `null` while it runs and has no tick yet.
    pub seconds: Option<f64>,
    /// The length of all ticks that lie entirely inside the phase; the fields below cover only these. 0 if it was too short.
    pub seen_seconds: f64,
    /// Read from the snapshot; for other jobs, from all disks. `null` if those ticks cover less than nine tenths of the
    /// phase.
    pub read_bytes: Option<f64>,
    pub read_bytes_per_s: Option<f64>,
    /// Written to all disks; `null` for a snapshot's job.
    pub written_bytes: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
    pub pvs: Vec<PhasePv>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PhasePv {
    pub name: String,
    /// From 0 to 1.
    pub utilisation: Option<f64>,
    pub read_bytes_per_s: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
}

impl PhaseWork {
    /// The work of each phase of a job.
    pub fn all(time_series: &JobTimeSeries, job: &Job) -> Vec<Self> {
        let phases = job.phases().into_iter();
        phases
            .map(|phase| Self::of(time_series, job, phase))
            .collect()
    }

    fn of(time_series: &JobTimeSeries, job: &Job, phase: PhaseSpan) -> Self {
        let elapsed_s =
            |at: Timestamp| (at.as_millisecond() - job.started_at.as_millisecond()) as f64 / 1000.0;
        let began_s = elapsed_s(phase.began_at);
        let whole = time_series.during.whole();
        let until_s = phase.ended_at.map(elapsed_s).or(whole.end_s());
        let until_s = until_s.filter(|until_s| *until_s >= began_s);
        let part = within(&whole, began_s, until_s.unwrap_or(began_s));
        let seconds = until_s.map(|until_s| ((until_s - began_s) * 1000.0).round() / 1000.0);
        let is_well_seen = seconds.is_some_and(|seconds| part.seconds() >= WELL_SEEN * seconds);
        let amount = |of| part.amount(of).filter(|_| is_well_seen);
        let pvs = time_series.during.pvs().keys();
        Self {
            name: phase.name.into(),
            began_s,
            seconds,
            seen_seconds: part.seconds(),
            read_bytes: amount(JobMeasure::SnapshotRead),
            read_bytes_per_s: part.mean(JobMeasure::SnapshotRead),
            written_bytes: amount(JobMeasure::Written),
            written_bytes_per_s: part.mean(JobMeasure::Written),
            pvs: pvs.map(|pv| PhasePv::of(&part, pv)).collect(),
        }
    }

    pub fn pv(&self, name: &str) -> Option<&PhasePv> {
        self.pvs.iter().find(|pv| pv.name == name)
    }
}

impl PhasePv {
    fn of(part: &JobPeriod, pv: &str) -> Self {
        Self {
            name: pv.into(),
            utilisation: part.pv_mean(pv, PvMeasure::Utilisation),
            read_bytes_per_s: part.pv_mean(pv, PvMeasure::Read),
            written_bytes_per_s: part.pv_mean(pv, PvMeasure::Written),
        }
    }

    /// Read and written together; `None` if neither is known.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let known = [self.read_bytes_per_s, self.written_bytes_per_s];
        known.into_iter().flatten().reduce(|one, other| one + other)
    }
}

/// The ticks that lie entirely between two instants.
fn within<'a>(whole: &JobPeriod<'a>, from_s: f64, until_s: f64) -> JobPeriod<'a> {
    let began = |tick: &JobTick| tick.end_s - tick.seconds >= from_s - ROUNDING_S;
    let ended = |tick: &JobTick| tick.end_s <= until_s + ROUNDING_S;
    let first = whole.ticks().iter().position(began);
    let last = whole.ticks().iter().rposition(ended);
    match first.zip(last) {
        Some((first, last)) if first <= last => whole.part(first..last + 1),
        _ => whole.part(0..0),
    }
}

#[cfg(test)]
mod tests {
    //! Phases in their order, and the work in each.

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

    /// The work of each phase.
    mod work {
        use super::*;
        use crate::commands::PhaseMark;
        use crate::job::JobKind;
        use crate::job::time_series::TickColumns;
        use jiff::Timestamp;

        fn at(s: f64) -> Timestamp {
            Timestamp::from_millisecond(60_000 + (s * 1000.0).round() as i64).unwrap()
        }

        /// A job that began at 0, with this phase only.
        fn job(name: &str, began_s: f64, ended_s: Option<f64>) -> Job {
            let mut job = Job::new(1, JobKind::Mark, "key", "bonnie++", at(0.0));
            job.begin_phase(PhaseMark {
                at: at(began_s),
                name: name.into(),
            })
            .unwrap();
            job.ended_at = ended_s.map(at);
            job
        }

        fn work(job: &Job, time_series: &JobTimeSeries) -> PhaseWork {
            PhaseWork::all(time_series, job).remove(0)
        }

        /// Ten ticks of a second: five with 100 bytes a second written by a busy `sda`, then five with 10 read.
        fn time_series() -> JobTimeSeries {
            let ticks = (1..=10)
                .map(|second| JobTick {
                    end_s: f64::from(second),
                    seconds: 1.0,
                })
                .collect();
            let halves = |first, second| {
                (0..10)
                    .map(|tick| Some(if tick < 5 { first } else { second }))
                    .collect()
            };
            let during = TickColumns::new(ticks)
                .and_then(|span| span.with(JobMeasure::SnapshotRead, halves(0.0, 10.0)))
                .and_then(|span| span.with(JobMeasure::Written, halves(100.0, 0.0)))
                .and_then(|span| span.with_pv("sda", PvMeasure::Utilisation, halves(1.0, 0.0)))
                .and_then(|span| span.with_pv("sda", PvMeasure::Written, halves(100.0, 0.0)))
                .and_then(|span| span.with_pv("sdb", PvMeasure::Read, halves(0.0, 10.0)));
            JobTimeSeries {
                before: None,
                during: during.unwrap(),
                after: None,
                took_s: Some(10.2),
            }
        }

        /// Seconds, seconds seen, read, written, and how busy `sda` was.
        fn check(job: Job, expected: (Option<f64>, f64, Option<f64>, Option<f64>, Option<f64>)) {
            let found = work(&job, &time_series());
            let busy = found.pv("sda").unwrap().utilisation;
            let (read, written) = (found.read_bytes, found.written_bytes);
            assert_eq!(
                (found.seconds, found.seen_seconds, read, written, busy),
                expected,
                "{job:?}"
            );
        }

        #[test]
        fn the_work_of_a_phase_is_that_of_its_ticks() {
            check(
                job("writing", 0.0, Some(5.0)),
                (Some(5.0), 5.0, Some(0.0), Some(500.0), Some(1.0)),
            );
            check(
                job("reading", 5.0, Some(10.0)),
                (Some(5.0), 5.0, Some(50.0), Some(0.0), Some(0.0)),
            );
            let reading = work(&job("reading", 5.0, Some(10.0)), &time_series());
            assert_eq!(
                (reading.read_bytes_per_s, reading.written_bytes_per_s),
                (Some(10.0), Some(0.0))
            );
        }

        #[test]
        fn a_tick_across_its_end_does_not_count() {
            check(
                job("writing", 0.5, Some(4.5)),
                (Some(4.0), 3.0, None, None, Some(1.0)),
            );
            check(
                job("writing", 0.0, Some(4.4)),
                (Some(4.4), 4.0, Some(0.0), Some(400.0), Some(1.0)),
            );
            check(
                job("writing", 0.001, Some(4.999)),
                (Some(4.998), 5.0, Some(0.0), Some(500.0), Some(1.0)),
            );
        }

        #[test]
        fn the_work_of_a_phase_without_a_tick_is_unknown() {
            check(
                job("mount", 4.2, Some(5.9)),
                (Some(1.7), 0.0, None, None, None),
            );
            check(
                job("mount", 5.0, Some(5.0)),
                (Some(0.0), 0.0, None, None, None),
            );
        }

        #[test]
        fn a_running_phase_has_work_until_now() {
            check(
                job("reading", 5.0, None),
                (Some(5.0), 5.0, Some(50.0), Some(0.0), Some(0.0)),
            );
            check(job("reading", 10.1, None), (None, 0.0, None, None, None));
        }

        #[test]
        fn unmeasured_work_is_unknown_and_not_zero() {
            let found = work(&job("writing", 0.0, Some(5.0)), &time_series());
            let [sda, sdb] = &found.pvs[..] else {
                panic!("{found:?}")
            };
            assert_eq!(
                (sda.read_bytes_per_s, sda.bytes_per_s()),
                (None, Some(100.0))
            );
            assert_eq!((sdb.utilisation, sdb.bytes_per_s()), (None, Some(0.0)));
            let nothing = JobTimeSeries {
                during: TickColumns::new(Vec::new()).unwrap(),
                ..time_series()
            };
            let found = work(&job("writing", 0.0, Some(5.0)), &nothing);
            assert_eq!(
                (found.seconds, found.read_bytes, found.pvs),
                (Some(5.0), None, Vec::new())
            );
        }

        #[test]
        fn a_phase_ends_where_the_next_begins() {
            let mut job = job("writing", 0.5, None);
            job.begin_phase(PhaseMark {
                at: at(8.0),
                name: "reading".into(),
            })
            .unwrap();
            job.ended_at = Some(at(10.25));
            let found = PhaseWork::all(&time_series(), &job);
            let found: Vec<_> = found
                .iter()
                .map(|work| (&*work.name, work.began_s, work.seconds))
                .collect();
            assert_eq!(
                found,
                [("writing", 0.5, Some(7.5)), ("reading", 8.0, Some(2.25))]
            );
        }
    }
}
