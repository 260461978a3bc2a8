//! `cowbell job list` and `show`, as text, Markdown or JSON.

use jiff::Timestamp;

use super::terminal::{self, wrapped};
use super::{Daemon, LONG_LIMIT, TIME_LIMIT, parsed};
use crate::job::outcome_word;
use crate::report::job::JobReport;
use crate::series::Range;
use crate::table::{Cell, Column, Style, Table};
use crate::units::{duration_text, percent_text, size_text, took_text};
use crate::web::{FiguresBody, JobBody, StatusBody};

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Markdown,
    Csv,
    /// The daemon's answer.
    Json,
}

/// The jobs since `from`, the latest first.
pub async fn list(daemon: &Daemon, from: &str, form: Form) -> anyhow::Result<String> {
    let answer = all(daemon, from).await?;
    if form == Form::Json {
        return Ok(answer + "\n");
    }
    let jobs: Vec<JobBody> = parsed(&answer)?;
    let status: StatusBody = parsed(&daemon.ask("/api/v1/status", &[], TIME_LIMIT).await?)?;
    Ok(listed(&jobs, status.ticks.last_at))
}

/// The cost of one job.
pub async fn show(daemon: &Daemon, id: i64, form: Form) -> anyhow::Result<String> {
    let answer = daemon
        .ask(&format!("/api/v1/jobs/{id}/figures"), &[], LONG_LIMIT)
        .await?;
    if form == Form::Json {
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
    Ok(match form {
        Form::Markdown => report.text(Style::Markdown),
        _ => wrapped(&report.text(Style::Plain)),
    })
}

/// The jobs since `from`, of all pages, as one list.
pub(super) async fn all(daemon: &Daemon, from: &str) -> anyhow::Result<String> {
    let mut next = reqwest::Url::parse_with_params(&super::url("/api/v1/jobs"), [("from", from)])?;
    let mut jobs: Vec<String> = Vec::new();
    loop {
        let (page, link) = daemon.get(next, LONG_LIMIT).await?;
        let bare = page
            .strip_prefix('[')
            .and_then(|page| page.strip_suffix(']'));
        jobs.extend(bare.filter(|bare| !bare.is_empty()).map(String::from));
        match link {
            Some(path) => next = super::url(&path).parse()?,
            None => return Ok(format!("[{}]", jobs.join(","))),
        }
    }
}

/// A table with a line for each job.
fn listed(jobs: &[JobBody], now: Timestamp) -> String {
    if jobs.is_empty() {
        return "no job ran in this time; --from sets an earlier start\n".into();
    }
    let columns = [
        Column::name("ID"),
        Column::text("Job"),
        Column::text("Outcome"),
        Column::text("Started (UTC)"),
        Column::number("Took"),
        Column::number("Read").class("least"),
        Column::number("Peak"),
        Column::text("Of").class("less"),
    ];
    terminal::table(&Table::new(
        "",
        columns,
        jobs.iter().map(|job| row(job, now)),
    ))
}

fn row(job: &JobBody, now: Timestamp) -> Vec<Cell> {
    let ran = Range {
        from: job.started_at,
        to: job.ended_at.unwrap_or(now),
    };
    let took = if job.ended_at.is_none() {
        duration_text
    } else {
        took_text
    };
    let since = if job.partly_seen { " or longer" } else { "" };
    let of = job.vg.as_ref().zip(job.origin.as_ref());
    let of = of.map_or_else(
        || job.kind.text().into(),
        |(vg, origin)| format!("{vg}/{origin}"),
    );
    let label = job
        .label
        .as_ref()
        .map_or_else(String::new, |label| label.short_text(&job.name));
    let host = job
        .imported_from
        .as_ref()
        .map_or_else(String::new, |host| format!(" on {host}"));
    vec![
        job.id.to_string().into(),
        Cell::from(&*job.name).small(label),
        outcome_word(job.outcome).into(),
        job.started_at.strftime("%Y-%m-%d %H:%M").to_string().into(),
        format!("{}{since}", took(ran.seconds().max(0.0))).into(),
        Cell::known(job.bytes_read.map(size_text)),
        Cell::known(job.peak_fill_percent.map(percent_text)),
        format!("{of}{host}").into(),
    ]
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
