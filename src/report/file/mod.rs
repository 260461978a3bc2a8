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
mod tests {
    //! Files that are written and read back, and files that are refused.

    use super::*;
    use crate::commands::{JobLabel, Note};
    use crate::job::figures::Figures;
    use crate::job::tests::example::{setup, slowing};
    use crate::job::{JobKind, Outcome};

    fn job() -> Job {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut job = Job::new(
            7,
            JobKind::Snapshot,
            "uuid",
            "data_snapshot",
            at(1_772_330_400),
        );
        (job.ended_at, job.outcome) = (Some(at(1_772_330_500)), Some(Outcome::Succeeded));
        job.label = Some(JobLabel {
            set: "zfs".into(),
            variant: None,
            repeat: Some(1),
        });
        job.notes = vec![Note {
            at: at(1_772_330_450),
            text: "buffer pool is cold".into(),
        }];
        (job.setup, job.peak_fill_percent) = (setup(), Some(12.5));
        job
    }

    /// A day and an hour after the job.
    fn now() -> Timestamp {
        Timestamp::from_second(1_772_420_400).unwrap()
    }

    fn text() -> String {
        write(&job(), &slowing(100)).unwrap()
    }

    fn rejected(text: &str, part: &str) {
        let sentence = read(text.as_bytes(), now()).unwrap_err().to_string();
        assert!(
            sentence.contains(part) && sentence.len() < 400,
            "{sentence}"
        );
    }

    #[test]
    fn a_file_has_the_figures_of_its_job() {
        let (read, time_series) = read(text().as_bytes(), now()).unwrap();
        assert_eq!(
            read,
            Job {
                id: 0,
                key: String::new(),
                ..job()
            }
        );
        let figures = Figures::of(&time_series, &read.setup);
        let before = Figures::of(&slowing(100), &setup());
        let speed = |figures: &Figures| figures.read.unwrap().speed.mean;
        assert!((speed(&figures) / speed(&before) - 1.0).abs() < 1e-6);
        assert_eq!(
            (figures.seconds, figures.pvs.len()),
            (before.seconds, before.pvs.len())
        );
        let await_ms = |figures: &Figures| figures.origin.during.write_await_ms.unwrap();
        assert!((await_ms(&figures) / await_ms(&before) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_file_survives_import_and_export() {
        let (job, time_series) = read(text().as_bytes(), now()).unwrap();
        assert_eq!(write(&job, &time_series).unwrap(), text());
    }

    #[test]
    fn other_files_are_rejected_with_a_reason() {
        let whole = text();
        // Also within a number.
        for cut in (1..whole.len()).step_by(3) {
            rejected(&whole[..cut], "the file is truncated");
        }
        rejected("", "this is not the file of a job");
        rejected("PK\u{3}\u{4}", "this is not the file of a job");
        rejected("{\"rows\": []}", "expected `cowbell_job`");
        rejected("[1, 2]", "cannot be understood");
        rejected("7", "this is not the file of a job");
        rejected(
            &whole.replacen("\"cowbell_job\":1", "\"cowbell_job\":2", 1),
            "has version 2",
        );
    }

    #[test]
    fn impossible_values_are_rejected() {
        let whole = text();
        let with = |from: &str, to: &str| {
            assert!(whole.contains(from), "{from}");
            whole.replacen(from, to, 1)
        };
        let long = "x".repeat(10_000);
        rejected(
            &with("\"data_snapshot\"", &format!("\"{long}\"")),
            "`name` to be 1 to 200 letters",
        );
        rejected(
            &with("\"data_snapshot\"", "\"a\\u001b[2J\""),
            "without control characters",
        );
        rejected(&with("\"zfs\"", "\"\""), "`set` to be 1 to 200 letters");
        rejected(
            &with("\"ticks\":[[1000,1000000],", "\"ticks\":["),
            "does not fit together",
        );
        rejected(&with("[1000,1000000]", "[1000,-5]"), "cannot be understood");
        rejected(&with("[1000,1000000]", "[1000]"), "cannot be understood");
        rejected(&with("[1000,1000000]", "[1000,0]"), "each of some length");
        rejected(
            &with("[1000,1000000]", "[NaN,1000000]"),
            "this is not the file of a job",
        );
        rejected(
            &with("\"fill_percent\":[", "\"fill_percent\":[1,"),
            "does not fit together",
        );
        rejected(
            &with("\"fill_percent\":[", "\"fill_percent\":[-1,"),
            "FillPercent from 0 to 100",
        );
        rejected(
            &with("\"fill_percent\":[", "\"fill_percent\":[1e300,"),
            "FillPercent from 0 to 100",
        );
        rejected(
            &with("\"fill_percent\"", "\"phase_of_the_moon\""),
            "unknown variant `phase_of_the_moon`",
        );
        rejected(
            &with("\"peak_fill_percent\":12.5", "\"peak_fill_percent\":1e9"),
            "100 percent at most",
        );
        rejected(
            &with("\"ended_at\":\"2026-03-01T02:01:40Z\"", "\"ended_at\":null"),
            "a job that is over",
        );
        rejected(
            &with(
                "\"ended_at\":\"2026-03-01T02:01:40Z\"",
                "\"ended_at\":\"2025-03-01T02:01:40Z\"",
            ),
            "ended after that",
        );
        rejected(&with("\"repeat\":1", "\"repeat\":0"), "`repeat` from 1");
    }

    /// With other values at these places of the file's JSON.
    fn changed(changes: &[(&str, serde_json::Value)]) -> String {
        let mut file: serde_json::Value = serde_json::from_str(&text()).unwrap();
        for (place, value) in changes {
            let (parent, name) = place.rsplit_once('/').unwrap();
            match file.pointer_mut(parent).unwrap() {
                serde_json::Value::Array(list) => {
                    list[name.parse::<usize>().unwrap()] = value.clone()
                }
                parent => parent[name] = value.clone(),
            }
        }
        file.to_string()
    }

    /// What hooks told, with one thing changed.
    fn backup_run(name: &str, value: serde_json::Value) -> serde_json::Value {
        let at = "2026-03-01T02:00:10Z";
        let mut run = serde_json::json!({
            "run": 7, "phases": [{"phase": "flush", "at": at}, {"phase": "backup", "at": at}], "locked_from": at,
            "locked_until": at, "reported": null, "first_at": at, "last_at": at, "is_unbroken": false
        });
        run[name] = value;
        run
    }

    #[test]
    fn a_backup_run_is_read() {
        read(
            changed(&[("/job/backup_run", backup_run("run", 7.into()))]).as_bytes(),
            now(),
        )
        .unwrap();
    }

    #[test]
    fn marked_phases_are_read_and_optional() {
        let at = |second| format!("2026-03-01T02:00:{second:02}Z");
        let phases =
            serde_json::json!([{"name": "writing", "at": at(1)}, {"name": "reading", "at": at(5)}]);
        let (job, _) = read(changed(&[("/job/phase_marks", phases)]).as_bytes(), now()).unwrap();
        assert_eq!(
            job.phases()
                .iter()
                .map(|phase| phase.name)
                .collect::<Vec<_>>(),
            ["writing", "reading"]
        );
        let mut older: serde_json::Value = serde_json::from_str(&changed(&[])).unwrap();
        older["job"]
            .as_object_mut()
            .unwrap()
            .remove("phase_marks")
            .unwrap();
        assert!(
            read(older.to_string().as_bytes(), now())
                .unwrap()
                .0
                .phase_marks
                .is_empty()
        );
    }

    #[test]
    fn values_that_the_database_rejects_are_rejected() {
        let at = |second| serde_json::json!(format!("2026-03-01T02:00:{second:02}Z"));
        let told = |phases: &[(&str, i32)]| {
            phases
                .iter()
                .map(|(name, second)| serde_json::json!({"name": name, "at": at(*second)}))
                .collect()
        };
        let backwards =
            serde_json::json!([{"phase": "backup", "at": at(1)}, {"phase": "flush", "at": at(2)}]);
        for (changes, part) in [
            (vec![("/job/unmounted_at", at(9))], "`mounted_on` beside"),
            (
                vec![("/job/backup_run", backup_run("run", 0.into()))],
                "process from 1",
            ),
            (
                vec![("/job/backup_run", backup_run("locked_until", at(9)))],
                "released after it was taken",
            ),
            (
                vec![("/job/backup_run", backup_run("phases", backwards))],
                "phases in their order",
            ),
            (
                vec![("/job/phase_marks", told(&[("a", 9), ("b", 1)]))],
                "phases in the order of time",
            ),
            (
                vec![("/job/phase_marks", told(&[("a\nb", 1)]))],
                "`name` to be",
            ),
            (
                vec![("/job/phase_marks", told(&[("a", 1); 65]))],
                "64 phases at most",
            ),
            (vec![("/job/setup/snapshots", 0.into())], "1 of `snapshots`"),
            (
                vec![("/job/died_at", "2020-01-01T00:00:00Z".into())],
                "within a day of it",
            ),
            (
                vec![("/job/io_error_at", "2030-01-01T00:00:00Z".into())],
                "within a day of it",
            ),
            (
                vec![("/job/outcome", serde_json::Value::Null)],
                "a job that is over",
            ),
            (
                vec![
                    ("/job/exit_status", 256.into()),
                    ("/job/outcome", "failed".into()),
                ],
                "status of 255 at most",
            ),
            (vec![("/job/label/repeat", 0.into())], "`repeat` from 1"),
            (
                vec![("/job/bytes_read", u64::MAX.into())],
                "`bytes_read` from 0",
            ),
            (
                vec![("/job/label", serde_json::json!({"variant": "a"}))],
                "missing field `set`",
            ),
        ] {
            rejected(&changed(&changes), part);
        }
    }

    /// In memory each takes ten times what it takes in the file.
    fn many_names(count: u32) -> serde_json::Value {
        let named = |number: u32| (number.to_string(), serde_json::json!({}));
        (0..count)
            .map(named)
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    fn many_disks() -> serde_json::Value {
        serde_json::json!(vec![serde_json::json!({"name": "sda"}); 200_000])
    }

    fn tick(end_ms: i64, length_us: u64) -> serde_json::Value {
        serde_json::json!([end_ms, length_us])
    }

    #[test]
    fn implausible_files_are_rejected() {
        let names = |count: usize| serde_json::json!(vec!["sda"; count]);
        for (place, value, part) in [
            (
                "/job/ended_at",
                "2026-03-04T02:00:00Z".into(),
                "over by now",
            ),
            (
                "/job/started_at",
                "1969-03-01T02:00:00Z".into(),
                "began after 1970",
            ),
            (
                "/job/notes/0/at",
                "2026-03-09T02:00:00Z".into(),
                "from 1970 to now",
            ),
            (
                "/job/notes/0/at",
                "1960-03-09T02:00:00Z".into(),
                "from 1970 to now",
            ),
            ("/job/exit_status", 1.into(), "status of 0 at most"),
            (
                "/job/name",
                "a\u{202e}b".into(),
                "without control characters",
            ),
            ("/job/setup/chunk_bytes", 0.into(), "`chunk_bytes` from 1"),
            ("/job/setup/processors", 0.into(), "`processors` from 1"),
            (
                "/job/setup/read_ahead_kib",
                u64::MAX.into(),
                "`read_ahead_kib` from 0",
            ),
            (
                "/job/setup/origin_pvs",
                names(1_001),
                "1000 of `origin_pvs` at most",
            ),
            (
                "/during/columns/fill_percent/3",
                100.1.into(),
                "FillPercent from 0 to 100",
            ),
            (
                "/during/pvs/sda/utilisation/3",
                1.01.into(),
                "Utilisation from 0 to 1",
            ),
            (
                "/during/pvs/sda/utilisation/3",
                (-0.1).into(),
                "Utilisation from 0 to 1",
            ),
            ("/during/ticks/3", tick(4_000, 0), "of some length"),
            (
                "/during/ticks/3",
                tick(4_000, 3_600_000_001),
                "ticks of an hour at most",
            ),
            (
                "/during/ticks/99",
                tick(90_000_000, 1_000_000),
                "ten minutes around it",
            ),
            (
                "/before/ticks/0",
                tick(-700_000, 1_000_000),
                "ten minutes around it",
            ),
            (
                "/during/ticks/3",
                tick(3_000, 1_000_000),
                "after the one before",
            ),
            ("/job/setup/disks", many_disks(), "2097152 bytes of a job"),
            (
                "/during/columns",
                many_names(1_600),
                "1500 names in its time series at most",
            ),
            (
                "/during/pvs",
                many_names(1_600),
                "1500 names in its time series at most",
            ),
            ("/during/pvs", many_names(65), "64 PVs at most"),
            (
                "/during/pvs/sda",
                many_names(1_600),
                "1500 names in its time series at most",
            ),
        ] {
            rejected(&changed(&[(place, value)]), part);
        }
    }

    #[test]
    fn files_that_need_too_much_memory_are_rejected_unread() {
        rejected(&"a".repeat(LONGEST + 1), "expected 16 MiB");
        rejected(&",".repeat(MOST_VALUES + 1), "2000000 values at most");
    }
}
