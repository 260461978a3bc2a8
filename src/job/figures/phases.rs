//! What each phase of a job did, and which PVs worked in it.
//!
//! Only ticks that lie entirely inside a phase count. A phase that is too short for one has no figures. Amounts need
//! ticks for nine tenths of the phase; speeds do not.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::Job;
use crate::job::course::{Course, Measure, PvMeasure, Stretch};

/// Ends of ticks and phases are in milliseconds, lengths of ticks in microseconds: a tick may stick out by this much.
const ROUNDING_S: f64 = 0.002;

/// From this share of a phase on, its ticks stand for all of it.
const WELL_SEEN: f64 = 0.9;

/// A phase's place in the course of its job.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseTimes {
    pub name: String,
    /// Seconds from the job's start.
    pub began_s: f64,
    /// `None` while it runs.
    pub ended_s: Option<f64>,
}

/// What a phase did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PhaseWork {
    pub name: String,
    /// Seconds from the job's start to its beginning.
    pub began_s: f64,
    /// `null` while it runs and has no tick yet.
    pub seconds: Option<f64>,
    /// The length of all ticks that lie entirely inside it, from which all below comes; 0 if it was too short.
    pub seen_seconds: f64,
    /// What a snapshot's job read from the snapshot, and other jobs from all disks. `null` if those ticks cover less than
    /// nine tenths of the phase.
    pub read_bytes: Option<f64>,
    pub read_bytes_per_s: Option<f64>,
    /// What all disks wrote; `null` for a snapshot's job.
    pub written_bytes: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
    pub pvs: Vec<PhasePv>,
}

/// What a PV did in a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PhasePv {
    pub name: String,
    /// From 0 to 1.
    pub utilisation: Option<f64>,
    pub read_bytes_per_s: Option<f64>,
    pub written_bytes_per_s: Option<f64>,
}

impl PhaseTimes {
    /// The phases of a job.
    pub fn of(job: &Job) -> Vec<Self> {
        let elapsed_s =
            |at: Timestamp| (at.as_millisecond() - job.started_at.as_millisecond()) as f64 / 1000.0;
        let times = |phase: crate::job::PhaseSpan| Self {
            name: phase.name.into(),
            began_s: elapsed_s(phase.began_at),
            ended_s: phase.ended_at.map(elapsed_s),
        };
        job.phases().into_iter().map(times).collect()
    }
}

impl PhaseWork {
    /// What each of these phases did in a course.
    pub fn all(course: &Course, phases: &[PhaseTimes]) -> Vec<Self> {
        phases.iter().map(|phase| Self::of(course, phase)).collect()
    }

    fn of(course: &Course, phase: &PhaseTimes) -> Self {
        let whole = course.during.whole();
        let until_s = phase.ended_s.or(whole.end_s()).filter(|until_s| *until_s >= phase.began_s);
        let part = within(&whole, phase.began_s, until_s.unwrap_or(phase.began_s));
        let seconds = until_s.map(|until_s| to_the_millisecond(until_s - phase.began_s));
        let is_well_seen = seconds.is_some_and(|seconds| part.seconds() >= WELL_SEEN * seconds);
        let amount = |of| part.amount(of).filter(|_| is_well_seen);
        Self {
            name: phase.name.clone(),
            began_s: phase.began_s,
            seconds,
            seen_seconds: part.seconds(),
            read_bytes: amount(Measure::SnapshotRead),
            read_bytes_per_s: part.mean(Measure::SnapshotRead),
            written_bytes: amount(Measure::Written),
            written_bytes_per_s: part.mean(Measure::Written),
            pvs: course.during.pvs().keys().map(|pv| PhasePv::of(&part, pv)).collect(),
        }
    }

    /// What a PV did in it.
    pub fn pv(&self, name: &str) -> Option<&PhasePv> {
        self.pvs.iter().find(|pv| pv.name == name)
    }
}

impl PhasePv {
    fn of(part: &Stretch, pv: &str) -> Self {
        Self {
            name: pv.into(),
            utilisation: part.pv_mean(pv, PvMeasure::Utilisation),
            read_bytes_per_s: part.pv_mean(pv, PvMeasure::Read),
            written_bytes_per_s: part.pv_mean(pv, PvMeasure::Written),
        }
    }

    /// Read and written together; `None` if neither is known.
    pub fn bytes_per_s(&self) -> Option<f64> {
        let known = self.read_bytes_per_s.into_iter().chain(self.written_bytes_per_s);
        known.reduce(|one, other| one + other)
    }
}

fn to_the_millisecond(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

/// The ticks that lie entirely between two instants.
fn within<'a>(whole: &Stretch<'a>, from_s: f64, until_s: f64) -> Stretch<'a> {
    let ticks = whole.ticks();
    let first = ticks.iter().position(|tick| tick.end_s - tick.seconds >= from_s - ROUNDING_S);
    let last = ticks.iter().rposition(|tick| tick.end_s <= until_s + ROUNDING_S);
    match first.zip(last) {
        Some((first, last)) if first <= last => whole.part(first..last + 1),
        _ => whole.part(0..0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::course::{Span, Tick};
    use crate::job::{JobKind, Outcome};

    fn phase(name: &str, began_s: f64, ended_s: Option<f64>) -> PhaseTimes {
        PhaseTimes { name: name.into(), began_s, ended_s }
    }

    /// Ten ticks of a second: it writes 100 bytes a second for five, then reads 10; `sda` is busy with the former alone.
    fn course() -> Course {
        let ticks = (1..=10).map(|second| Tick { end_s: f64::from(second), seconds: 1.0 }).collect();
        let halves =
            |first, second| (0..10).map(|tick| Some(if tick < 5 { first } else { second })).collect();
        let during = Span::new(ticks)
            .and_then(|span| span.with(Measure::SnapshotRead, halves(0.0, 10.0)))
            .and_then(|span| span.with(Measure::Written, halves(100.0, 0.0)))
            .and_then(|span| span.with_pv("sda", PvMeasure::Utilisation, halves(1.0, 0.0)))
            .and_then(|span| span.with_pv("sda", PvMeasure::Written, halves(100.0, 0.0)))
            .and_then(|span| span.with_pv("sdb", PvMeasure::Read, halves(0.0, 10.0)));
        Course { before: None, during: during.unwrap(), after: None, took_s: Some(10.2) }
    }

    /// Seconds, seconds seen, read, written, and how busy `sda` was.
    fn check(phase: PhaseTimes, expected: (Option<f64>, f64, Option<f64>, Option<f64>, Option<f64>)) {
        let found = PhaseWork::of(&course(), &phase);
        let busy = found.pv("sda").unwrap().utilisation;
        let (read, written) = (found.read_bytes, found.written_bytes);
        assert_eq!((found.seconds, found.seen_seconds, read, written, busy), expected, "{phase:?}");
    }

    #[test]
    fn a_phase_is_summed_up_from_its_own_ticks() {
        check(phase("writing", 0.0, Some(5.0)), (Some(5.0), 5.0, Some(0.0), Some(500.0), Some(1.0)));
        check(phase("reading", 5.0, Some(10.0)), (Some(5.0), 5.0, Some(50.0), Some(0.0), Some(0.0)));
        let reading = PhaseWork::of(&course(), &phase("reading", 5.0, Some(10.0)));
        assert_eq!((reading.read_bytes_per_s, reading.written_bytes_per_s), (Some(10.0), Some(0.0)));
    }

    #[test]
    fn a_tick_across_its_end_does_not_count() {
        check(phase("writing", 0.5, Some(4.5)), (Some(4.0), 3.0, None, None, Some(1.0)));
        check(phase("writing", 0.0, Some(4.4)), (Some(4.4), 4.0, Some(0.0), Some(400.0), Some(1.0)));
        check(phase("writing", 0.001, Some(4.999)), (Some(4.998), 5.0, Some(0.0), Some(500.0), Some(1.0)));
    }

    #[test]
    fn a_phase_too_short_for_one_tick_did_nothing_that_is_known() {
        check(phase("mount", 4.2, Some(5.9)), (Some(1.7), 0.0, None, None, None));
        check(phase("mount", 5.0, Some(5.0)), (Some(0.0), 0.0, None, None, None));
    }

    #[test]
    fn a_phase_that_goes_on_is_summed_up_so_far() {
        check(phase("reading", 5.0, None), (Some(5.0), 5.0, Some(50.0), Some(0.0), Some(0.0)));
        check(phase("reading", 10.1, None), (None, 0.0, None, None, None));
    }

    #[test]
    fn what_nobody_measured_is_unknown_and_not_zero() {
        let found = PhaseWork::of(&course(), &phase("writing", 0.0, Some(5.0)));
        let [sda, sdb] = &found.pvs[..] else { panic!("{found:?}") };
        assert_eq!((sda.read_bytes_per_s, sda.bytes_per_s()), (None, Some(100.0)));
        assert_eq!((sdb.utilisation, sdb.bytes_per_s()), (None, Some(0.0)));
        let nothing = Course { during: Span::new(Vec::new()).unwrap(), ..course() };
        let found = PhaseWork::of(&nothing, &phase("writing", 0.0, Some(5.0)));
        assert_eq!((found.seconds, found.read_bytes, found.pvs), (Some(5.0), None, Vec::new()));
    }

    #[test]
    fn phases_of_a_job_count_from_its_start() {
        let at = |ms| Timestamp::from_millisecond(ms).unwrap();
        let mut job = Job::new(1, JobKind::Mark, "key", "bonnie++", at(60_000));
        for (name, ms) in [("writing", 60_500), ("reading", 68_000)] {
            job.enter(crate::source::ToldPhase { at: at(ms), name: name.into() }).unwrap();
        }
        job.end(at(70_250), Outcome::Succeeded);
        let expected = [phase("writing", 0.5, Some(8.0)), phase("reading", 8.0, Some(10.25))];
        assert_eq!(PhaseTimes::of(&job), expected);
    }
}
