//! The phases of a job, as hooks or somebody else told them: rows of a small table.

use jiff::Timestamp;

use super::moment;
use super::rows::seconds_between;
use crate::job::Job;
use crate::units::duration_text;

/// A phase, and how much of the job it took.
pub struct PhaseRow {
    pub name: String,
    pub began: String,
    pub took: String,
    /// Where its bar begins and how wide it is, in percent of the job's time.
    pub from: String,
    pub width: String,
}

pub fn phases(job: &Job, now: Timestamp) -> Vec<PhaseRow> {
    let whole = job.seconds(now).max(f64::MIN_POSITIVE);
    let percent = |seconds: f64| format!("{:.2}", (seconds / whole * 100.0).clamp(0.0, 100.0));
    let rows = job.phases().into_iter().map(|phase| {
        let seconds = seconds_between(phase.began_at, phase.ended_at.unwrap_or(now)).max(0.0);
        PhaseRow {
            name: phase.name.to_string(),
            began: moment(phase.began_at, now),
            took: duration_text(seconds),
            from: percent(seconds_between(job.started_at, phase.began_at)),
            width: percent(seconds),
        }
    });
    rows.collect()
}
