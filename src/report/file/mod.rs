//! A job as one file: what `cowbell job export` writes, and another host imports.
//!
//! JSON, in which every number of the course is a whole one, or `null` where it is not known:
//!
//! ```json
//! {
//!   "cowbell_job": 1,
//!   "job": {"kind": "snapshot", "name": "…", "started_at": "…", "ended_at": "…", "setup": {"host": "…"}},
//!   "course": {"before": null, "during": {
//!     "end_ms": [1000, 2000], "length_us": [1000000, 1000000],
//!     "columns": {"snapshot_read_bytes_per_s": [1048576, null]},
//!     "pvs": {"sda": {"read_bytes_per_s": [1048576, 2097152]}}
//!   }, "after": null}
//! }
//! ```
//!
//! `end_ms` counts from the job's start and is below 0 before it. Figures, diagnosis and comparison are not in it: they
//! are computed anew from the course, which holds what they were computed from. A file is read whole, and checked
//! whole, before anything of it is kept.

mod check;
mod columns;
mod count;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::job::Job;
use crate::job::course::{Course, Unfit};
use columns::FiledCourse;
use count::Count;

/// Raised when an older program could not understand the file any more.
pub const VERSION: u64 = 1;

/// Bytes of a file at most: eleven hours of seconds with one PV are some 5.4 MiB.
pub const LONGEST: usize = 16 * 1024 * 1024;
/// Numbers and names of a file at most, counted by the commas between them: eleven hours with four PVs have one and a
/// half million. In memory each takes several times what it takes in a file.
const MOST_VALUES: usize = 2_000_000;
/// Values of all but the course at most: a thousand disks, as many names of PVs twice, and every note are half of it. A
/// disk takes ten times what it can take in a file.
const MOST_OF_JOB: usize = 20_000;

/// Why a file is not imported, in one sentence.
#[derive(Debug, Error)]
pub enum Unreadable {
    #[error(
        "the file is cut short: it ends in the middle of its JSON, after line {line}, column {column}; copy it again"
    )]
    Truncated { line: usize, column: usize },
    #[error("this is no file of a job: expected JSON as `cowbell job export` writes it, but found {0}")]
    Foreign(String),
    #[error(
        "the file is of version {0}, and this cowbell understands {VERSION}: import it with a newer one, or export it with this one"
    )]
    Newer(u64),
    #[error("the file cannot be understood: expected {expected}, but found {found}")]
    Absurd { expected: String, found: String },
    #[error(
        "the file is too long: expected {} MiB and {MOST_VALUES} values at most, but found {length} bytes with {values} values",
        LONGEST / 1024 / 1024
    )]
    Long { length: usize, values: usize },
    #[error("the file's course does not fit together: {0}")]
    Unfit(#[from] Unfit),
}

/// What there is of a job.
#[derive(Debug, Serialize, Deserialize)]
struct JobFile {
    cowbell_job: u64,
    /// Of the program that wrote it.
    #[serde(default)]
    cowbell: String,
    job: Job,
    course: FiledCourse,
}

/// By what a file is known before all of it is understood.
#[derive(Deserialize)]
struct Head {
    cowbell_job: Option<u64>,
}

/// How much there is besides the course.
#[derive(Deserialize)]
struct Context {
    #[serde(default)]
    job: Count,
}

/// The file of a job.
pub fn write(job: &Job, course: &Course) -> serde_json::Result<String> {
    let filed = JobFile {
        cowbell_job: VERSION,
        cowbell: env!("CARGO_PKG_VERSION").into(),
        job: job.clone(),
        course: FiledCourse::of(course),
    };
    serde_json::to_string(&filed)
}

/// Refuses what would take more memory than there is for a file.
pub fn check_length(bytes: &[u8]) -> Result<(), Unreadable> {
    let (length, values) = (bytes.len(), bytes.iter().filter(|byte| **byte == b',').count());
    if length > LONGEST || values > MOST_VALUES { Err(Unreadable::Long { length, values }) } else { Ok(()) }
}

/// What a file says that came from elsewhere at `now`. The job has no number and no key: whoever keeps it gives it both.
pub fn read(bytes: &[u8], now: Timestamp) -> Result<(Job, Course), Unreadable> {
    check_length(bytes)?;
    let filed = filed(bytes)?;
    check::job(&filed.job, now)?;
    filed.course.check(took_ms(&filed.job).unwrap_or_default())?;
    understood(filed)
}

/// What a file says that was taken in before, by the rules of then.
pub fn reread(bytes: &[u8]) -> Result<(Job, Course), Unreadable> {
    understood(filed(bytes)?)
}

fn understood(filed: JobFile) -> Result<(Job, Course), Unreadable> {
    let course = filed.course.course(took_ms(&filed.job).map(|ms| ms as f64 / 1000.0))?;
    Ok((filed.job, course))
}

fn took_ms(job: &Job) -> Option<i64> {
    job.ended_at.map(|at| at.as_millisecond() - job.started_at.as_millisecond())
}

fn filed(bytes: &[u8]) -> Result<JobFile, Unreadable> {
    let head: Head = serde_json::from_slice(bytes).map_err(|error| not_json(&error))?;
    match head.cowbell_job {
        None => return Err(Unreadable::Foreign("JSON without `cowbell_job`".into())),
        Some(version) if version > VERSION => return Err(Unreadable::Newer(version)),
        Some(_) => {}
    }
    let Context { job: Count(values) } = serde_json::from_slice(bytes).map_err(not_as_described)?;
    if values > MOST_OF_JOB {
        let expected = format!("{MOST_OF_JOB} values of a job at most");
        return Err(Unreadable::Absurd { expected, found: values.to_string() });
    }
    serde_json::from_slice(bytes).map_err(not_as_described)
}

fn not_as_described(error: serde_json::Error) -> Unreadable {
    let expected = "what the description of the format says".into();
    Unreadable::Absurd { expected, found: error.to_string() }
}

fn not_json(error: &serde_json::Error) -> Unreadable {
    match error.classify() {
        serde_json::error::Category::Eof if error.line() > 0 && error.column() > 0 => {
            Unreadable::Truncated { line: error.line(), column: error.column() }
        }
        serde_json::error::Category::Eof => Unreadable::Foreign("nothing at all".into()),
        serde_json::error::Category::Data => Unreadable::Foreign(format!("other JSON ({error})")),
        _ => Unreadable::Foreign(format!("something else ({error})")),
    }
}

#[cfg(test)]
mod tests;
