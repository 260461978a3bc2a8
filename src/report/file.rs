//! A job as one file: `cowbell job export` writes it, and another host imports it.
//!
//! JSON, with `null` where a value is unknown:
//!
//! ```json
//! {
//!   "cowbell_job": 1,
//!   "job": {"kind": "snapshot", "name": "…", "started_at": "…", "ended_at": "…", "setup": {"host": "…"}},
//!   "before": null,
//!   "during": {
//!     "ticks": [[1000, 1000000], [2000, 1000000]],
//!     "columns": {"snapshot_read": [1048576, null]},
//!     "pvs": {"sda": {"read": [1048576, 2097152]}}
//!   },
//!   "after": null
//! }
//! ```
//!
//! A tick is its end, in milliseconds since the job's start, and its length in microseconds. Columns have the names and
//! units of [`Measure`] and [`PvMeasure`]. Figures are not in the file: they are computed wherever it is read. A file is
//! checked as a whole before anything of it is stored.

mod check;

use std::collections::BTreeMap;

use anyhow::{anyhow, bail, ensure};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::job::Job;
use crate::job::course::{Course, CourseError, Measure, PvMeasure, Span, Tick};

/// Raised when an older program could no longer read the file.
const VERSION: u64 = 1;
/// Bytes of a file: eleven hours of seconds with one PV are some 5 MiB.
pub const LONGEST: usize = 16 * 1024 * 1024;
/// Numbers in a file, counted by its commas, before memory is taken for them: eleven hours with four PVs have one and a
/// half million.
const MOST_VALUES: usize = 2_000_000;
/// Bytes of all but the course. In memory a disk takes ten times what it can take in a file.
const LONGEST_JOB: usize = 2 * 1024 * 1024;
/// Quotation marks in the course: three spans of 64 PVs with two for each name of a column.
const MOST_QUOTES: usize = 3_000;

#[derive(Debug, Serialize, Deserialize)]
struct JobFile {
    cowbell_job: u64,
    job: Job,
    before: Option<FiledSpan>,
    during: FiledSpan,
    after: Option<FiledSpan>,
}

/// What is read before memory is taken for the rest.
#[derive(Deserialize)]
struct Head<'a> {
    cowbell_job: Option<u64>,
    #[serde(borrow)]
    job: Option<&'a RawValue>,
}

/// A span of the course, without columns of which nothing is known.
#[derive(Debug, Serialize, Deserialize)]
struct FiledSpan {
    ticks: Vec<(i64, u64)>,
    columns: BTreeMap<Measure, Column>,
    #[serde(default)]
    pvs: BTreeMap<String, BTreeMap<PvMeasure, Column>>,
}

type Column = Vec<Option<Number>>;

/// To seven digits: figures agree to a millionth.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
struct Number(f32);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.fract() == 0.0 {
            true => serializer.serialize_u64(self.0 as u64),
            false => serializer.serialize_f32(self.0),
        }
    }
}

/// The file of a job.
pub fn write(job: &Job, course: &Course) -> serde_json::Result<String> {
    serde_json::to_string(&JobFile {
        cowbell_job: VERSION,
        job: job.clone(),
        before: course.before.as_ref().map(FiledSpan::of),
        during: FiledSpan::of(&course.during),
        after: course.after.as_ref().map(FiledSpan::of),
    })
}

/// Refuses a file that takes more memory than there is for one.
pub fn check_length(bytes: &[u8]) -> anyhow::Result<()> {
    let (length, values) = (bytes.len(), count(bytes, b','));
    ensure!(
        length <= LONGEST && values <= MOST_VALUES,
        "the file is too long: expected {} MiB and {MOST_VALUES} values at most, but found {length} bytes with {values} \
         values",
        LONGEST / 1024 / 1024
    );
    Ok(())
}

/// Reads and checks a file from elsewhere. The job has no number and no key: whoever stores it assigns both.
pub fn read(bytes: &[u8], now: Timestamp) -> anyhow::Result<(Job, Course)> {
    check_length(bytes)?;
    let file = parsed(bytes)?;
    let implausible = |why| anyhow!("the file is implausible: {why}");
    check::job(&file.job, now).map_err(implausible)?;
    let took_ms = took_ms(&file.job).unwrap_or_default();
    for span in file.before.iter().chain([&file.during]).chain(&file.after) {
        check::span(span, took_ms).map_err(implausible)?;
    }
    let job = file.job.clone();
    Ok((job, file.course().map_err(|why| anyhow!("the file's course does not fit together: {why}"))?))
}

/// The course in a file that was checked when it was imported.
pub fn course(bytes: &[u8]) -> anyhow::Result<Course> {
    Ok(parsed(bytes)?.course()?)
}

fn parsed(bytes: &[u8]) -> anyhow::Result<JobFile> {
    let head: Head = serde_json::from_slice(bytes).map_err(|error| not_a_job(&error))?;
    match head.cowbell_job {
        None => bail!("this is not the file of a job: expected `cowbell_job` in its JSON"),
        Some(VERSION) => {}
        Some(version) => bail!(
            "the file has version {version}, and this cowbell reads {VERSION}: import it with a newer one, or export it \
             with this one"
        ),
    }
    let job = head.job.map_or("", RawValue::get).as_bytes();
    let quotes = count(bytes, b'"').saturating_sub(count(job, b'"'));
    ensure!(
        job.len() <= LONGEST_JOB && quotes <= MOST_QUOTES,
        "the file is implausible: expected {LONGEST_JOB} bytes of a job and {} names in its course at most, but found {} \
         and {}",
        MOST_QUOTES / 2,
        job.len(),
        quotes / 2
    );
    serde_json::from_slice(bytes).map_err(|error| anyhow!("the file cannot be understood: {error}"))
}

fn not_a_job(error: &serde_json::Error) -> anyhow::Error {
    match error.classify() {
        Category::Eof if error.column() > 0 => anyhow!(
            "the file is truncated: its JSON breaks off at line {}, column {}; copy it again",
            error.line(),
            error.column()
        ),
        _ => anyhow!(
            "this is not the file of a job: expected JSON as `cowbell job export` writes it, but found: {error}"
        ),
    }
}

fn count(bytes: &[u8], wanted: u8) -> usize {
    bytes.iter().filter(|byte| **byte == wanted).count()
}

fn took_ms(job: &Job) -> Option<i64> {
    job.ended_at.map(|at| at.as_millisecond() - job.started_at.as_millisecond())
}

impl JobFile {
    fn course(self) -> Result<Course, CourseError> {
        Ok(Course {
            took_s: took_ms(&self.job).map(|ms| ms as f64 / 1000.0),
            before: self.before.map(FiledSpan::span).transpose()?,
            during: self.during.span()?,
            after: self.after.map(FiledSpan::span).transpose()?,
        })
    }
}

impl FiledSpan {
    fn of(span: &Span) -> Self {
        let columns = span.columns().iter();
        let columns =
            columns.filter_map(|(measure, column)| Some((*measure, filed(column, measure.most())?)));
        let pvs = span.pvs().iter().map(|(pv, columns)| {
            let columns = columns.iter();
            let filed =
                columns.filter_map(|(measure, column)| Some((*measure, filed(column, measure.most())?)));
            (pv.clone(), filed.collect())
        });
        let tick =
            |tick: &Tick| ((tick.end_s * 1e3).round() as i64, (tick.seconds * 1e6).round().max(1.0) as u64);
        Self {
            ticks: span.whole().ticks().iter().map(tick).collect(),
            columns: columns.collect(),
            pvs: pvs.collect(),
        }
    }

    /// Each column goes as it is converted, so that none is in memory twice.
    fn span(self) -> Result<Span, CourseError> {
        let tick = |(end_ms, length_us): (i64, u64)| Tick {
            end_s: end_ms as f64 / 1e3,
            seconds: length_us as f64 / 1e6,
        };
        let mut span = Span::new(self.ticks.into_iter().map(tick).collect())?;
        for (measure, column) in self.columns {
            span = span.with(measure, numbers(column))?;
        }
        for (pv, columns) in self.pvs {
            for (measure, column) in columns {
                span = span.with_pv(&pv, measure, numbers(column))?;
            }
        }
        Ok(span)
    }
}

/// `None` of a column of which nothing is known. A measured share exceeds 1 by the jitter of its tick.
fn filed(column: &[Option<f64>], most: f64) -> Option<Column> {
    let number = |value: &Option<f64>| value.map(|value| Number(value.min(most) as f32));
    column.iter().any(Option::is_some).then(|| column.iter().map(number).collect())
}

fn numbers(column: Column) -> Vec<Option<f64>> {
    column.into_iter().map(|value| value.map(|Number(value)| value.into())).collect()
}

#[cfg(test)]
mod tests;
