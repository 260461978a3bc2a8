//! `cowbell job`: which jobs there were, and what one of them cost, as text, Markdown or JSON.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, bail};
use jiff::Timestamp;
use serde::Deserialize;

use super::Daemon;
use crate::job::finish::Outlook;
use crate::job::{JobKind, Outcome};
use crate::report::account::Account;
use crate::report::figure::figures;
use crate::report::job::JobReport;
use crate::report::phases::plain;
use crate::source::Note;
use crate::units::{Prefix, bytes_text, duration_text, took_text};
use crate::web::{FiguresBody, JobBody, StatusBody};

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Markdown,
    /// For spreadsheets.
    Csv,
    /// As the daemon answers.
    Json,
}

/// The jobs that ran since `from`, the latest first.
pub async fn list(daemon: &Daemon, from: &str, form: Form) -> anyhow::Result<String> {
    let answer = ask(daemon, "/api/v1/jobs", &[("from", from)]).await?;
    if form == Form::Json {
        return Ok(answer + "\n");
    }
    let jobs: Vec<JobBody> = understood(&answer)?;
    let status: StatusBody = understood(&ask(daemon, "/api/v1/status", &[]).await?)?;
    Ok(listed(&jobs, status.ticks.last_at))
}

/// One job, by its number in the list.
pub async fn show(daemon: &Daemon, id: i64, form: Form) -> anyhow::Result<String> {
    let answer = ask(daemon, &format!("/api/v1/jobs/{id}/figures"), &[]).await?;
    if form == Form::Json {
        return Ok(answer + "\n");
    }
    let body: FiguresBody = understood(&answer)?;
    let report = JobReport::new(&body.name, body.figures, &body.setup, body.sizing, Prefix::default());
    Ok(match form {
        Form::Markdown => report.markdown(&body.account, &body.notes),
        _ => shown(&report, &body.account, &body.notes, body.outlook.as_ref()),
    })
}

pub(super) async fn ask(daemon: &Daemon, path: &str, query: &[(&str, &str)]) -> anyhow::Result<String> {
    ask_for(daemon, path, query, super::LONG_ANSWER).await
}

/// The daemon's answer, which may take so long.
pub async fn ask_for(
    daemon: &Daemon,
    path: &str,
    query: &[(&str, &str)],
    limit: Duration,
) -> anyhow::Result<String> {
    let url = reqwest::Url::parse_with_params(&daemon.url(path), query)?;
    let answer = daemon.http()?.get(url).timeout(limit).send().await;
    let answer = answer.map_err(|error| daemon.unheard(&error.into()))?;
    let is_refused = !answer.status().is_success();
    let text = answer.text().await.with_context(|| format!("the daemon's answer to {path} broke off"))?;
    if is_refused {
        bail!("the daemon at {} answers: {}", daemon.address, super::said(text));
    }
    Ok(text)
}

pub fn understood<'a, T: Deserialize<'a>>(answer: &'a str) -> anyhow::Result<T> {
    serde_json::from_str(answer).context("the daemon's answer cannot be understood: is it of this version?")
}

/// A line for each job, in columns.
fn listed(jobs: &[JobBody], now: Timestamp) -> String {
    if jobs.is_empty() {
        return "no job ran in this span; --from names a longer one\n".into();
    }
    let head = ["ID", "JOB", "OUTCOME", "BEGAN (UTC)", "TOOK", "READ", "PEAK FILL", "OF"].map(String::from);
    let rows: Vec<[String; 8]> = [head].into_iter().chain(jobs.iter().map(|job| row(job, now))).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

fn row(job: &JobBody, now: Timestamp) -> [String; 8] {
    let unknown = || "?".to_string();
    let ms = job.ended_at.unwrap_or(now).as_millisecond() - job.started_at.as_millisecond();
    let took = if job.ended_at.is_none() { duration_text } else { took_text };
    let since = if job.partly_seen { " or longer" } else { "" };
    let of = job.vg.as_ref().zip(job.origin.as_ref());
    let label = job.label.as_ref().map_or_else(String::new, |label| label.in_few_words(&job.name));
    let host = job.imported_from.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
    [
        job.id.to_string(),
        format!("{} {label}", job.name).trim_end().into(),
        job.outcome.map_or("running", Outcome::text).into(),
        job.started_at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        format!("{}{since}", took(ms.max(0) as f64 / 1000.0)),
        job.bytes_read.map_or_else(unknown, |bytes| bytes_text(bytes as f64, Prefix::default())),
        match (job.kind, job.peak_fill_percent) {
            (JobKind::Snapshot, percent) => percent.map_or_else(unknown, |percent| format!("{percent:.2} %")),
            _ => String::new(),
        },
        format!(
            "{}{host}",
            of.map_or_else(|| job.kind.text().into(), |(vg, origin)| format!("{vg}/{origin}"))
        ),
    ]
}

/// What it was and how it ended, what can be expected, what the figures say, what would help, and every figure that is
/// known.
fn shown(report: &JobReport, account: &Account, notes: &[Note], outlook: Option<&Outlook>) -> String {
    let mut text = format!("{}: {}\n{}\n", report.name, account.ended(), account.heading);
    for sentence in account.warning.iter().chain(&account.remarks) {
        let _ = writeln!(text, "{sentence}");
    }
    for note in notes {
        let _ = writeln!(text, "Noted at {} UTC: {}", note.at.strftime("%F %T"), note.text);
    }
    text.push('\n');
    if let Some(outlook) = outlook {
        let _ = writeln!(text, "{}\n{}\n", outlook.text, outlook.left.text);
    }
    for sentence in &report.sentences {
        let _ = writeln!(text, "{}", sentence.text);
    }
    for advice in &report.advice {
        let _ = writeln!(text, "\n{} {}", advice.text, advice.reason);
        text.push_str(&advice.setting.as_deref().map(indented).unwrap_or_default());
    }
    if let Some(sizing) = &report.sizing {
        let _ = write!(text, "\n{}\n{}", sizing.text, indented(&sizing.setting));
    }
    text.push_str(&plain(&report.figures.phases, Prefix::default()));
    let known = figures(&report.figures)
        .into_iter()
        .filter_map(|figure| Some((figure.name, figure.unit, figure.value?)));
    let known: Vec<_> = known.collect();
    let width = known.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or_default();
    text.push('\n');
    for (name, unit, value) in known {
        let _ = writeln!(text, "{name:width$}  {}", unit.text(value, Prefix::default()));
    }
    text
}

fn indented(setting: &str) -> String {
    setting.lines().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Label;

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
            mounted_on: None,
            unmounted_at: None,
            label: None,
            notes: Vec::new(),
            program: None,
            partly_seen: false,
            imported_from: None,
        }
    }

    #[test]
    fn jobs_are_a_line_each_in_columns() {
        let command = JobBody {
            kind: JobKind::Command,
            name: "dd".into(),
            label: Some(Label { set: "copy".into(), variant: None, repeat: Some(2) }),
            vg: None,
            peak_fill_percent: None,
            ..job(2, Some(1), Some(Outcome::Succeeded))
        };
        let jobs = [job(12, None, None), job(3, Some(60), Some(Outcome::Unknown)), command];
        let now = Timestamp::from_second(1_772_330_430).unwrap();
        assert_eq!(
            listed(&jobs, now),
            "ID  JOB            OUTCOME    BEGAN (UTC)          TOOK    READ      PEAK FILL  OF\n\
             12  data_snapshot  running    2026-03-01 02:00:00  30 s    ?         ?          vg0/data\n\
             3   data_snapshot  unknown    2026-03-01 02:00:00  60 s    3.00 MiB  12.50 %    vg0/data\n\
             2   dd copy · #2   succeeded  2026-03-01 02:00:00  1.00 s  3.00 MiB             command\n"
        );
    }

    #[test]
    fn no_jobs_are_said_to_be_none() {
        assert_eq!(
            listed(&[], Timestamp::UNIX_EPOCH),
            "no job ran in this span; --from names a longer one\n"
        );
    }
}
