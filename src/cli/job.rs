//! `cowbell job`: jobs listed, shown, compared, and as files.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use hyper::{Method, StatusCode};
use jiff::Timestamp;

use super::mark::{self, MarkArguments};
use super::output::{JsonFlag, OutputFormat, fitted_table, write_new};
use crate::client::{Daemon, LONG_LIMIT, LONGEST_LIMIT, QUICK_LIMIT, parsed};
use crate::job::outcome_word;
use crate::report::compare::ComparedRow;
use crate::report::file::LONGEST;
use crate::report::job::JobReport;
use crate::report::text::{csv, text};
use crate::series::Range;
use crate::table::{Cell, Column, Table};
use crate::units::{duration_text, percent_text, size_text, took_text};
use crate::web::{CompareBody, FiguresBody, JobBody, StatusBody, escaped};

/// The time limit for the file of a long job, which is read from or written to a busy disk.
const FILE_LIMIT: Duration = Duration::from_secs(60);

#[derive(Subcommand)]
pub enum JobArguments {
    /// List jobs, the latest first
    List {
        /// The start, such as -7d or 2026-11-21T00:00:00Z
        #[arg(long, default_value = "-7d", allow_hyphen_values = true)]
        from: String,
        #[command(flatten)]
        format: JsonFlag,
    },
    /// Show the cost of a job: diagnosis, advice and figures
    Show {
        /// ID in the list
        id: i64,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Compare jobs: figures, ratios and confidence intervals
    Compare {
        #[command(flatten)]
        which: JobSelection,
        /// Show this figure only, by its name in the table; can be repeated
        #[arg(long = "figure", value_name = "NAME")]
        figures: Vec<String>,
        #[command(flatten)]
        format: OutputFormat,
        /// Print CSV, a row for each figure of each column
        #[arg(long, conflicts_with_all = ["json", "markdown"])]
        csv: bool,
    },
    /// Write jobs, and their comparison, to a self-contained HTML file
    Report {
        #[command(flatten)]
        which: JobSelection,
        /// The file; it must not exist
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Write an ended job to a file, for another host
    Export {
        /// ID in the list
        id: i64,
        /// The file; it must not exist
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Import the file of a job of another host
    Import {
        /// The output of `cowbell job export`
        file: PathBuf,
    },
    #[command(flatten)]
    Mark(MarkArguments),
}

// The selected jobs. (A doc comment would become the help of the command.)
#[derive(Args)]
pub struct JobSelection {
    /// IDs in the list; the others are compared with the first
    #[arg(value_name = "ID", required_unless_present_any = ["set", "groups"])]
    ids: Vec<i64>,
    /// A named group of repeats such as `before:3,4`; can be repeated
    #[arg(long = "group", value_name = "NAME:ID,ID")]
    groups: Vec<String>,
    /// All jobs of this set, by variant
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
}

impl JobSelection {
    /// As in the address of a comparison: `group=before%3A3%2C4&ids=5`.
    fn query(&self) -> String {
        let ids: Vec<String> = self.ids.iter().map(i64::to_string).collect();
        let mut fields = Vec::new();
        for group in &self.groups {
            fields.push(format!("group={}", escaped(group)));
        }
        if !ids.is_empty() {
            fields.push(format!("ids={}", ids.join(",")));
        }
        if let Some(set) = &self.set {
            fields.push(format!("set={}", escaped(set)));
        }
        fields.join("&")
    }
}

/// Runs a command; returns the text to print.
pub async fn run(daemon: &Daemon, arguments: JobArguments) -> anyhow::Result<String> {
    match arguments {
        JobArguments::List { from, format } => list(daemon, &from, &format).await,
        JobArguments::Show { id, format } => show(daemon, id, &format).await,
        JobArguments::Compare {
            which,
            figures,
            format,
            csv,
        } => compare(daemon, &which, &figures, &format, csv).await,
        JobArguments::Report { which, output } => {
            let path = format!("/api/v1/jobs/report?{}", which.query());
            write_new(&output, &daemon.text(&path, LONGEST_LIMIT).await?)
        }
        JobArguments::Export { id, output } => {
            let path = format!("/api/v1/jobs/{id}/export");
            write_new(&output, &daemon.text(&path, FILE_LIMIT).await?)
        }
        JobArguments::Import { file } => {
            let imported = import(daemon, read(&file)?).await;
            imported.with_context(|| format!("cannot import {}", file.display()))
        }
        JobArguments::Mark(arguments) => mark::run(daemon, arguments).await,
    }
}

async fn list(daemon: &Daemon, from: &str, format: &JsonFlag) -> anyhow::Result<String> {
    let answer = daemon.jobs(from).await?;
    if format.json {
        return Ok(answer + "\n");
    }
    let jobs: Vec<JobBody> = parsed(&answer)?;
    let status: StatusBody = daemon.get("/api/v1/status", QUICK_LIMIT).await?;
    Ok(listed(&jobs, status.ticks.last_at))
}

/// A table with a line for each job.
fn listed(jobs: &[JobBody], now: Timestamp) -> String {
    if jobs.is_empty() {
        return "no job ran in this time; --from sets an earlier start\n".into();
    }
    let table = Table::of("", jobs)
        .column(Column::name("ID"), |job| job.id.to_string())
        .column(Column::text("Job"), |job| {
            let label = job.label.as_ref().map(|label| label.short_text(&job.name));
            Cell::from(&*job.name).small(label.unwrap_or_default())
        })
        .column(Column::text("Outcome"), |job| outcome_word(job.outcome))
        .column(Column::text("Started (UTC)"), |job| {
            job.started_at.strftime("%Y-%m-%d %H:%M").to_string()
        })
        .column(Column::number("Took"), |job| took(job, now))
        .column(Column::number("Read").class("least"), |job| {
            Cell::known(job.bytes_read.map(size_text))
        })
        .column(Column::number("Peak"), |job| {
            Cell::known(job.peak_fill_percent.map(percent_text))
        })
        .column(Column::text("Of").class("less"), |job| of(job));
    fitted_table(&table.done())
}

fn took(job: &JobBody, now: Timestamp) -> String {
    let ran = Range {
        from: job.started_at,
        to: job.ended_at.unwrap_or(now),
    };
    let seconds = ran.seconds().max(0.0);
    let took = match job.ended_at {
        None => duration_text(seconds),
        Some(_) => took_text(seconds),
    };
    let longer = if job.partly_seen { " or longer" } else { "" };
    took + longer
}

/// The origin of a snapshot or the kind of another job, and the host that it was imported from.
fn of(job: &JobBody) -> String {
    let mut of = match (&job.vg, &job.origin) {
        (Some(vg), Some(origin)) => format!("{vg}/{origin}"),
        _ => job.kind.text().into(),
    };
    if let Some(host) = &job.imported_from {
        of += &format!(" on {host}");
    }
    of
}

async fn show(daemon: &Daemon, id: i64, format: &OutputFormat) -> anyhow::Result<String> {
    let path = format!("/api/v1/jobs/{id}/figures");
    let answer = daemon.text(&path, LONG_LIMIT).await?;
    if format.is_json() {
        return Ok(answer + "\n");
    }
    let body: FiguresBody = parsed(&answer)?;
    let mut forecast = Vec::new();
    if let Some(outlook) = body.outlook {
        forecast.extend([body.verdict.sentence.to_string(), outlook.left.text]);
    }
    let report = JobReport {
        name: body.name,
        summary: body.summary,
        notes: body.notes,
        forecast,
        findings: body.diagnosis,
        advice: body.advice,
        figures: body.figures,
    };
    Ok(format.styled(|style| report.text(style)))
}

async fn compare(
    daemon: &Daemon,
    chosen: &JobSelection,
    figures: &[String],
    format: &OutputFormat,
    is_csv: bool,
) -> anyhow::Result<String> {
    let path = format!("/api/v1/jobs/compare?{}", chosen.query());
    let answer = daemon.text(&path, LONGEST_LIMIT).await?;
    if format.is_json() {
        return Ok(answer + "\n");
    }
    let mut body: CompareBody = parsed(&answer)?;
    if !figures.is_empty() {
        body.comparison.rows = named(&body.comparison.rows, figures)?;
    }
    if is_csv {
        return Ok(String::from_utf8(csv(&body.comparison).csv()?)?);
    }
    if figures.is_empty() {
        body.comparison.drop_zeros();
    }
    // Sentences on the whole comparison precede the remarks.
    let remarks = body.comparison.remarks.len();
    let count = body.sentences.len().saturating_sub(remarks);
    let of_all: String = body.sentences[..count]
        .iter()
        .map(|sentence| format!("{sentence}\n\n"))
        .collect();
    Ok(format.styled(|style| format!("{of_all}{}", text(&body.comparison, style))))
}

/// The rows of these figures, in their order.
fn named(rows: &[ComparedRow], figures: &[String]) -> anyhow::Result<Vec<ComparedRow>> {
    let mut found = Vec::new();
    for figure in figures {
        let row = rows.iter().find(|row| row.figure == *figure);
        found.push(row.cloned().with_context(|| {
            let known: Vec<&str> = rows.iter().map(|row| &*row.figure).collect();
            format!(
                "expected a figure of these jobs, but found \"{figure}\"; they have: {}",
                known.join(", ")
            )
        })?);
    }
    Ok(found)
}

/// Imports a file; returns a line to print.
async fn import(daemon: &Daemon, file: Vec<u8>) -> anyhow::Result<String> {
    let path = "/api/v1/jobs/import";
    let answer = daemon.send(Method::POST, path, file, FILE_LIMIT).await?;
    let job: JobBody = parsed(&answer.text)?;
    let mut name = job.name;
    if let Some(host) = job.imported_from {
        name += &format!(" of {host}");
    }
    let how = match answer.status {
        StatusCode::CREATED => "is",
        _ => "exists already as",
    };
    Ok(format!("{name} {how} job {}\n", job.id))
}

/// Reads a file to import. Pipes, which might never end, and files that are too long are rejected.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let failed = || format!("cannot read the file {}", path.display());
    let metadata = std::fs::metadata(path).with_context(failed)?;
    if !metadata.is_file() {
        bail!(
            "{} is not a regular file: expected the output of `cowbell job export`",
            path.display()
        );
    }
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(failed)?;
    file.take(LONGEST as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(failed)?;
    if bytes.len() > LONGEST {
        bail!(
            "{} is too long: expected at most {} MiB, but found {} bytes",
            path.display(),
            LONGEST / 1024 / 1024,
            metadata.len()
        );
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::JobLabel;
    use crate::job::{JobKind, Outcome};
    use crate::verdict::{Grade, Verdict};

    fn job(id: i64, ended_s: Option<i64>, outcome: Option<Outcome>) -> JobBody {
        let at = |second: i64| Timestamp::from_second(1_772_330_400 + second).unwrap();
        JobBody {
            id,
            kind: JobKind::Snapshot,
            key: None,
            name: "data_snapshot".into(),
            vg: Some("vg0".into()),
            lv: Some("data_snapshot".into()),
            origin: Some("data".into()),
            started_at: at(0),
            ended_at: ended_s.map(at),
            outcome,
            exit_status: None,
            reported: None,
            phases: Vec::new(),
            locked_at_most: None,
            io_error_at: None,
            peak_fill_percent: outcome.map(|_| 12.5),
            bytes_read: outcome.map(|_| 3 << 20),
            last_fill_percent: None,
            died_at: None,
            io_error_device: None,
            removed_at: None,
            left_snapshot: false,
            is_backup: true,
            completeness: None,
            accepted_at: None,
            mounted_on: None,
            unmounted_at: None,
            label: None,
            notes: Vec::new(),
            program: None,
            partly_seen: false,
            imported_from: None,
            certificate: None,
            verdict: Verdict {
                grade: Grade::Ok,
                sentence: "".into(),
            },
        }
    }

    #[test]
    fn jobs_are_listed_in_columns() {
        let command = JobBody {
            kind: JobKind::Command,
            name: "dd".into(),
            label: Some(JobLabel {
                set: "copy".into(),
                variant: None,
                repeat: Some(2),
            }),
            vg: None,
            peak_fill_percent: None,
            ..job(2, Some(1), Some(Outcome::Succeeded))
        };
        let jobs = [
            job(12, None, None),
            job(3, Some(60), Some(Outcome::Unknown)),
            command,
        ];
        let now = Timestamp::from_second(1_772_330_430).unwrap();
        assert_eq!(
            listed(&jobs, now),
            "ID  Job            Outcome    Started (UTC)       Took      Read     Peak  Of\n\
             12  data_snapshot  running    2026-03-01 02:00    30 s         -        -  vg0/data\n\
             3   data_snapshot  unknown    2026-03-01 02:00    60 s  3.00 MiB  12.50 %  vg0/data\n\
             2   dd copy · #2   succeeded  2026-03-01 02:00  1.00 s  3.00 MiB        -  command\n"
        );
    }

    #[test]
    fn an_empty_list_has_a_sentence() {
        assert_eq!(
            listed(&[], Timestamp::UNIX_EPOCH),
            "no job ran in this time; --from sets an earlier start\n"
        );
    }
}
