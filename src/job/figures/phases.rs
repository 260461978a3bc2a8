//! The work of each phase of a job, and of the PVs in it. Only ticks that lie entirely inside a phase count. Amounts
//! need ticks for nine tenths of the phase; speeds do not.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::job::time_series::{JobMeasure, JobPeriod, JobTimeSeries, PvMeasure};
use crate::job::{Job, PhaseSpan};

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
        job.phases()
            .into_iter()
            .map(|phase| Self::of(time_series, job, phase))
            .collect()
    }

    fn of(time_series: &JobTimeSeries, job: &Job, phase: PhaseSpan) -> Self {
        let elapsed_s = |at: jiff::Timestamp| {
            (at.as_millisecond() - job.started_at.as_millisecond()) as f64 / 1000.0
        };
        let began_s = elapsed_s(phase.began_at);
        let whole = time_series.during.whole();
        let until_s = phase
            .ended_at
            .map(elapsed_s)
            .or(whole.end_s())
            .filter(|until_s| *until_s >= began_s);
        let part = within(&whole, began_s, until_s.unwrap_or(began_s));
        let seconds = until_s.map(|until_s| ((until_s - began_s) * 1000.0).round() / 1000.0);
        let is_well_seen = seconds.is_some_and(|seconds| part.seconds() >= WELL_SEEN * seconds);
        let amount = |of| part.amount(of).filter(|_| is_well_seen);
        Self {
            name: phase.name.into(),
            began_s,
            seconds,
            seen_seconds: part.seconds(),
            read_bytes: amount(JobMeasure::SnapshotRead),
            read_bytes_per_s: part.mean(JobMeasure::SnapshotRead),
            written_bytes: amount(JobMeasure::Written),
            written_bytes_per_s: part.mean(JobMeasure::Written),
            pvs: time_series
                .during
                .pvs()
                .keys()
                .map(|pv| PhasePv::of(&part, pv))
                .collect(),
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
        let known = self
            .read_bytes_per_s
            .into_iter()
            .chain(self.written_bytes_per_s);
        known.reduce(|one, other| one + other)
    }
}

/// The ticks that lie entirely between two instants.
fn within<'a>(whole: &JobPeriod<'a>, from_s: f64, until_s: f64) -> JobPeriod<'a> {
    let ticks = whole.ticks();
    let first = ticks
        .iter()
        .position(|tick| tick.end_s - tick.seconds >= from_s - ROUNDING_S);
    let last = ticks
        .iter()
        .rposition(|tick| tick.end_s <= until_s + ROUNDING_S);
    match first.zip(last) {
        Some((first, last)) if first <= last => whole.part(first..last + 1),
        _ => whole.part(0..0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::PhaseMark;
    use crate::job::JobKind;
    use crate::job::time_series::{JobTick, TickColumns};
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
