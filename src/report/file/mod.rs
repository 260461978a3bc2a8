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
//! A tick is its end in milliseconds since the job's start, and its length in microseconds. Columns have the names and
//! units of [`JobMeasure`] and [`PvMeasure`]. Figures are not in the file: the reader computes them. A file is checked
//! completely before anything is stored.

mod check;

use std::collections::BTreeMap;

use anyhow::{anyhow, bail, ensure};
use jiff::Timestamp;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::error::Category;
use serde_json::value::RawValue;

use crate::job::Job;
use crate::job::time_series::{JobMeasure, JobTick, JobTimeSeries, PvMeasure, TickColumns};

/// Incremented when older programs cannot read new files.
const VERSION: u64 = 1;
/// Maximum bytes of a file: eleven hours of seconds with one PV have about 5 MiB.
pub const LONGEST: usize = 16 * 1024 * 1024;
/// Maximum numbers in a file, counted by its commas before it is parsed: eleven hours with four PVs have 1.5 million.
const MOST_VALUES: usize = 2_000_000;
/// Maximum bytes of the job without its time series. In memory, a disk takes up to ten times as much as in the file.
const LONGEST_JOB: usize = 2 * 1024 * 1024;
/// Maximum quotation marks in the time series: three spans of 64 PVs, with two marks per column.
const MOST_QUOTES: usize = 3_000;

#[derive(Debug, Serialize, Deserialize)]
struct JobFile {
    cowbell_job: u64,
    job: Job,
    before: Option<FileColumns>,
    during: FileColumns,
    after: Option<FileColumns>,
}

/// The parts that are checked before the rest is parsed.
#[derive(Deserialize)]
struct FileHead<'a> {
    cowbell_job: Option<u64>,
    #[serde(borrow)]
    job: Option<&'a RawValue>,
}

/// A span of the time series, without unknown columns.
#[derive(Debug, Serialize, Deserialize)]
struct FileColumns {
    ticks: Vec<(i64, u64)>,
    columns: BTreeMap<JobMeasure, FileColumn>,
    #[serde(default)]
    pvs: BTreeMap<String, BTreeMap<PvMeasure, FileColumn>>,
}

type FileColumn = Vec<Option<ShortFloat>>;

/// Seven digits: figures agree to a millionth.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
struct ShortFloat(f32);

impl Serialize for ShortFloat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.fract() == 0.0 {
            return serializer.serialize_u64(self.0 as u64);
        }
        serializer.serialize_f32(self.0)
    }
}

/// The file of a job.
pub fn write(job: &Job, time_series: &JobTimeSeries) -> serde_json::Result<String> {
    serde_json::to_string(&JobFile {
        cowbell_job: VERSION,
        job: job.clone(),
        before: time_series.before.as_ref().map(FileColumns::of),
        during: FileColumns::of(&time_series.during),
        after: time_series.after.as_ref().map(FileColumns::of),
    })
}

/// Rejects a file that would need too much memory.
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

/// Reads and checks a file of another host. The job has no id and no key yet.
pub fn read(bytes: &[u8], now: Timestamp) -> anyhow::Result<(Job, JobTimeSeries)> {
    check_length(bytes)?;
    let file = parsed(bytes)?;
    let implausible = |why| anyhow!("the file is implausible: {why}");
    check::job(&file.job, now).map_err(implausible)?;
    let took_ms = took_ms(&file.job).unwrap_or_default();
    for span in file.before.iter().chain([&file.during]).chain(&file.after) {
        check::span(span, took_ms).map_err(implausible)?;
    }
    let job = file.job.clone();
    let time_series = file.time_series();
    let time_series = time_series
        .map_err(|why| anyhow!("the file's time series does not fit together: {why}"))?;
    Ok((job, time_series))
}

/// The time series in a file that was checked when it was imported.
pub fn time_series(bytes: &[u8]) -> anyhow::Result<JobTimeSeries> {
    parsed(bytes)?.time_series()
}

fn parsed(bytes: &[u8]) -> anyhow::Result<JobFile> {
    let head: FileHead = serde_json::from_slice(bytes).map_err(|error| not_a_job(bytes, &error))?;
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
        "the file is implausible: expected {LONGEST_JOB} bytes of a job and {} names in its time series at most, but found {} \
         and {}",
        MOST_QUOTES / 2,
        job.len(),
        quotes / 2
    );
    serde_json::from_slice(bytes).map_err(|error| anyhow!("the file cannot be understood: {error}"))
}

fn not_a_job(bytes: &[u8], error: &serde_json::Error) -> anyhow::Error {
    let (line, column) = (error.line(), error.column());
    let last = bytes.rsplit(|byte| *byte == b'\n').next();
    // `1.` at the end is a wrong number for the parser, and not an end that comes too early.
    let is_at_end = last.is_some_and(|last| last.len() == column) && bytes.starts_with(b"{");
    let is_truncated = error.classify() == Category::Eof || is_at_end;
    if is_truncated && column > 0 {
        return anyhow!(
            "the file is truncated: its JSON breaks off at line {line}, column {column}; copy it again"
        );
    }
    anyhow!(
        "this is not the file of a job: expected JSON as `cowbell job export` writes it, but found: {error}"
    )
}

fn count(bytes: &[u8], wanted: u8) -> usize {
    bytes.iter().filter(|byte| **byte == wanted).count()
}

fn took_ms(job: &Job) -> Option<i64> {
    job.ended_at
        .map(|at| at.as_millisecond() - job.started_at.as_millisecond())
}

impl JobFile {
    fn time_series(self) -> anyhow::Result<JobTimeSeries> {
        Ok(JobTimeSeries {
            took_s: took_ms(&self.job).map(|ms| ms as f64 / 1000.0),
            before: self.before.map(FileColumns::span).transpose()?,
            during: self.during.span()?,
            after: self.after.map(FileColumns::span).transpose()?,
        })
    }
}

impl FileColumns {
    fn of(span: &TickColumns) -> Self {
        let tick = |tick: &JobTick| {
            let length_us = (tick.seconds * 1e6).round().max(1.0);
            ((tick.end_s * 1e3).round() as i64, length_us as u64)
        };
        let mut pvs = BTreeMap::new();
        for (pv, columns) in span.pvs() {
            pvs.insert(pv.clone(), file_columns(columns, PvMeasure::most));
        }
        Self {
            ticks: span.whole().ticks().iter().map(tick).collect(),
            columns: file_columns(span.columns(), JobMeasure::most),
            pvs,
        }
    }

    /// Frees each column after its conversion, to save memory.
    fn span(self) -> anyhow::Result<TickColumns> {
        let tick = |(end_ms, length_us): (i64, u64)| JobTick {
            end_s: end_ms as f64 / 1e3,
            seconds: length_us as f64 / 1e6,
        };
        let mut span = TickColumns::new(self.ticks.into_iter().map(tick).collect())?;
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

/// Columns with any known value. A measured share exceeds 1 by the jitter of its tick.
fn file_columns<M: Copy + Ord>(
    columns: &BTreeMap<M, Vec<Option<f64>>>,
    most: fn(M) -> f64,
) -> BTreeMap<M, FileColumn> {
    let mut found = BTreeMap::new();
    for (measure, column) in columns {
        if column.iter().any(Option::is_some) {
            let number = |value: f64| ShortFloat(value.min(most(*measure)) as f32);
            let numbers = column.iter().map(|value| value.map(number));
            found.insert(*measure, numbers.collect());
        }
    }
    found
}

fn numbers(column: FileColumn) -> Vec<Option<f64>> {
    let numbers = column.into_iter();
    numbers.map(|it| it.map(|it| it.0.into())).collect()
}

#[cfg(test)]
mod tests;
