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
mod tests;
