//! One job in sentences: what it was and when, how it ended, and whether its result is reliable. Page, API and command
//! line show the same sentences; `job::diagnosis` explains its cost. A report is all of it as text, with all figures.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::figure::{OF_WHOLE_TICKS, figures, phase_tables};
use crate::commands::Note;
use crate::job::advice::Advice;
use crate::job::diagnosis::Explanation;
use crate::job::figures::Figures;
use crate::job::{Job, JobKind, Outcome, tool};
use crate::sentence;
use crate::sentence::Sentence;
use crate::table::{Column, Style, Table};
use crate::units::{count_text, size_text, took_text};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct JobSummary {
    /// What ran, and when.
    pub heading: Sentence,
    /// One word; `running` until it is decided.
    pub outcome: String,
    /// How the outcome is known; empty while it runs.
    pub basis: Sentence,
    /// What is wrong, and what to do.
    pub warning: Option<Sentence>,
    pub remarks: Vec<Sentence>,
}

impl JobSummary {
    /// `is_monitored` says whether LVM's dmeventd monitors snapshots here, and unmounts invalid ones.
    pub fn of(job: &Job, is_monitored: bool) -> Self {
        let judgement = job.judgement();
        let remarks = [
            labelled(job),
            made_by(job),
            read(job),
            kept(job),
            unmounted_at_its_death(job, is_monitored).or_else(|| mounted(job)),
            locked(job),
            archive(job),
        ];
        Self {
            heading: heading(job),
            outcome: judgement.word().into(),
            basis: judgement.basis,
            warning: judgement.warning,
            remarks: remarks.into_iter().flatten().collect(),
        }
    }

    /// The outcome and its basis.
    pub fn ended(&self) -> String {
        if self.basis.is_empty() {
            return self.outcome.clone();
        }
        format!("{}, {}", self.outcome, self.basis)
    }
}

fn heading(job: &Job) -> Sentence {
    let what = match (job.kind, &job.vg, &job.lv, &job.origin) {
        _ if job.made_no_snapshot() => without_snapshot(job),
        (JobKind::Snapshot, Some(vg), Some(lv), Some(origin)) => {
            let not_a_backup = if job.is_backup() { "" } else { ", no backup" };
            format!("Snapshot {vg}/{lv} of {vg}/{origin}{not_a_backup}")
        }
        (JobKind::Snapshot, Some(vg), Some(lv), None) => format!("Snapshot {vg}/{lv}"),
        (JobKind::Snapshot, ..) => "Run of mylvmbackup whose snapshot was not seen".to_string(),
        (JobKind::Mark, ..) => "Marked span".to_string(),
        (JobKind::Command, ..) => "Command".to_string(),
    };
    let host = job.imported_from().map(|host| format!("From {host} · "));
    let until = job.ended_at.map(|at| sentence![" to ", at]);
    sentence![host, what, " · ", job.started_at, until]
}

fn without_snapshot(job: &Job) -> String {
    let mut text = "Run of mylvmbackup that made no snapshot".to_string();
    if let Some(lv) = job.volume_name() {
        text += &format!(" {lv}");
    }
    if let Some(origin) = job.origin_name() {
        text += &format!(" of {origin}");
    }
    text
}

/// Explains why the directory was suddenly empty, which the backup's own log does not.
pub fn unmounted_at_its_death(job: &Job, is_monitored: bool) -> Option<Sentence> {
    let (at, folder) = job.unmounted_at.zip(job.mounted_on.as_ref())?;
    let by = if is_monitored {
        ", as LVM's dmeventd does with invalid snapshots"
    } else {
        ""
    };
    job.was_unmounted_at_its_death().then(|| {
        sentence![
            "The snapshot was unmounted from {folder} at ",
            at,
            "{by}. A backup may then report missing files, or no error at all."
        ]
    })
}

fn labelled(job: &Job) -> Option<Sentence> {
    let label = job.label.as_ref()?;
    let variant = label.variant.as_ref();
    let variant = variant.map(|variant| format!(", variant {variant}"));
    let repeat = label.repeat.map(|repeat| format!(", run {repeat}"));
    let set = &label.set;
    Some(sentence!["Set {set}", variant, repeat, "."])
}

fn made_by(job: &Job) -> Option<Sentence> {
    let (program, tool) = (job.program.as_deref(), tool::above_lvcreate(job));
    if program.is_none() && job.backup_run.is_none() {
        return tool.map(|tool| {
            sentence![
                "Probably made by {tool}, judging by its name. The process that made it was not seen."
            ]
        });
    }
    program.or(tool).map(|maker| sentence!["Made by {maker}."])
}

/// What a good backup read.
fn read(job: &Job) -> Option<Sentence> {
    if let Some(found) = &job.completeness
        && job.outcome == Some(Outcome::Succeeded)
    {
        return Some(format!("{}.", found.text()).into());
    }
    let changes = "It copies only changes, so the amount that it read was not checked.";
    job.is_incremental().then(|| changes.into())
}

fn kept(job: &Job) -> Option<Sentence> {
    let is_kept = job.left_snapshot && job.outcome == Some(Outcome::Succeeded);
    is_kept.then(|| "The snapshot was kept: it still existed when the backup ended.".into())
}

fn mounted(job: &Job) -> Option<Sentence> {
    let folder = job.mounted_on.as_ref()?;
    Some(match job.unmounted_at {
        Some(at) => sentence!["Was mounted on {folder} until ", at, "."],
        None if job.is_running() => {
            return job
                .in_use()
                .or_else(|| Some(sentence!["Mounted on {folder}."]));
        }
        None => sentence!["Was mounted on {folder}."],
    })
}

/// The maximum time for which the database was locked.
fn locked(job: &Job) -> Option<Sentence> {
    let range = job.backup_run.as_ref()?.lock_range()?;
    let seconds = range.seconds();
    // Rounds up, since this is a maximum.
    let most = if seconds < 9.0 {
        (seconds * 100.0).ceil() / 100.0
    } else {
        seconds.ceil()
    };
    let most = took_text(most);
    Some(sentence![
        "The database's global read lock was held for {most} at most, from ",
        range.from,
        " to ",
        range.to,
        "."
    ])
}

/// What was found when its archive was read through.
fn archive(job: &Job) -> Option<Sentence> {
    let found = job.certificate.as_ref()?;
    let (path, verdict) = (&found.archive, found.verdict.text());
    let files = count_text(found.files, "file", "files");
    let size = size_text(found.bytes);
    let finding = found.finding.as_ref().map(|finding| format!(" {finding}"));
    let certificate = found.certificate.as_ref();
    let certificate = certificate.map(|path| format!(" Certificate: {path}"));
    Some(sentence![
        "Archive {path} was read through at ",
        found.checked_at,
        ": {verdict}, {files}, {size}.",
        finding,
        certificate
    ])
}

pub struct JobReport {
    pub name: String,
    pub summary: JobSummary,
    pub notes: Vec<Note>,
    /// The sentences of a forecast, while it runs.
    pub forecast: Vec<String>,
    pub findings: Vec<Explanation>,
    pub advice: Vec<Advice>,
    pub figures: Figures,
}

impl JobReport {
    pub fn text(&self, style: Style) -> String {
        let (title, strong) = match style {
            Style::Plain => ("", ""),
            Style::Markdown => ("# ", "**"),
        };
        let line = |text: &str| style.line(text);
        let summary = &self.summary;
        let heading = format!("{}: {}", self.name, summary.ended());
        let mut text = format!(
            "{title}{}\n\n{}\n",
            line(&heading),
            line(&summary.heading.to_string())
        );
        if let Some(warning) = &summary.warning {
            text += &format!("\n{strong}{}{strong}\n", line(&warning.to_string()));
        }
        let mut remarks: Vec<String> = summary.remarks.iter().map(|it| it.to_string()).collect();
        for Note { at, text } in &self.notes {
            remarks.push(format!("Noted at {} UTC: {text}", at.strftime("%F %T")));
        }
        text += &list(remarks.iter(), style);
        text += &list(self.forecast.iter(), style);
        text += &list(self.findings.iter().map(|finding| &finding.text), style);
        for advice in &self.advice {
            let (what, why) = (line(&advice.text), line(&advice.reason));
            text += &format!("\n{strong}{what}{strong} {why}\n");
            // Lines for `mylvmbackup.conf`, indented as code in Markdown.
            if let Some(setting) = &advice.setting {
                text += &format!("\n    {}\n", setting.replace('\n', "\n    "));
            }
        }
        let phases = phase_tables(&self.figures.phases);
        for table in &phases {
            text += &format!("\n{}", table.write(style));
        }
        if !phases.is_empty() {
            text += &format!("\n{OF_WHOLE_TICKS}\n");
        }
        text + "\n" + &self.table().write(style)
    }

    fn table(&self) -> Table {
        let known = figures(&self.figures).into_iter().filter_map(|figure| {
            let value = figure.unit.text(figure.value?);
            Some(vec![figure.name.into(), value.into()])
        });
        Table::new("", [Column::name("Figure"), Column::number("Value")], known)
    }
}

fn list<'a>(sentences: impl Iterator<Item = &'a String>, style: Style) -> String {
    let item = match style {
        Style::Plain => "",
        Style::Markdown => "- ",
    };
    let lines: String = sentences
        .map(|text| format!("{item}{}\n", style.line(text)))
        .collect();
    if lines.is_empty() {
        return lines;
    }
    format!("\n{lines}")
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::job::advice::advice;
    use crate::job::backup_run::BackupRun;
    use crate::job::diagnosis::diagnosis;
    use crate::job::setup::{Setup, SnapshotKind};
    use crate::job::time_series::{JobTimeSeries, TickColumns};

    /// Without any tick.
    fn empty() -> Figures {
        let during = TickColumns::new(Vec::new()).unwrap();
        let time_series = JobTimeSeries {
            before: None,
            during,
            after: None,
            took_s: None,
        };
        Figures::of(&time_series, &Setup::default())
    }

    fn report(name: &str, figures: Figures) -> JobReport {
        JobReport {
            name: name.into(),
            summary: JobSummary {
                heading:
                    "Snapshot vg0/s of vg0/data · 2026-11-21 02:00:00 to 2026-11-21 03:00:00 UTC"
                        .into(),
                outcome: "untrustworthy".into(),
                basis: "the snapshot was lost".into(),
                warning: Some("Do not rely on it.".into()),
                remarks: vec!["Made by mylvmbackup.".into()],
            },
            notes: Vec::new(),
            forecast: Vec::new(),
            findings: Vec::new(),
            advice: Vec::new(),
            figures,
        }
    }

    #[test]
    fn a_job_without_figures_has_no_findings() {
        let note = Note {
            at: Timestamp::UNIX_EPOCH,
            text: "tape".into(),
        };
        let report = JobReport {
            notes: vec![note],
            findings: diagnosis(&empty(), &Setup::default()),
            ..report("night|ly", empty())
        };
        assert_eq!(
            report.text(Style::Markdown),
            "# night\\|ly: untrustworthy, the snapshot was lost\n\n\
             Snapshot vg0/s of vg0/data · 2026-11-21 02:00:00 to 2026-11-21 03:00:00 UTC\n\n\
             **Do not rely on it.**\n\n- Made by mylvmbackup.\n- Noted at 1970-01-01 00:00:00 UTC: tape\n\n\
             - No reads were observed.\n\n| Figure | Value |\n| --- | ---: |\n"
        );
    }

    #[test]
    fn advice_has_a_reason_and_a_setting() {
        let setup = Setup {
            kind: Some(SnapshotKind::Thick),
            ..Setup::default()
        };
        let mut figures = empty();
        figures.copied.write_cost = Some(2.9);
        let report = JobReport {
            advice: advice(&figures, &setup, true, &(None, "name it".into())),
            ..report("nightly", figures)
        };
        let text = report.text(Style::Markdown);
        assert!(
            text.contains("\n**Move the origin to a thin pool and use thin snapshots."),
            "{text}"
        );
        assert!(text.contains("\n\n    [misc]\n    thin=1\n"), "{text}");
        assert!(
            text.ends_with("| bytes on disk per byte written | 2.90 |\n"),
            "{text}"
        );
    }

    #[test]
    fn a_lock_of_parts_of_a_second_was_not_held_for_none() {
        let at = |ms: i64| Timestamp::from_millisecond(1_772_330_400_000 + ms).unwrap();
        let mut job = Job::new(1, JobKind::Snapshot, "key", "data_snapshot", at(0));
        let (from, until) = (Some(at(100)), Some(at(400)));
        job.backup_run = Some(BackupRun {
            locked_from: from,
            locked_until: until,
            ..BackupRun::new(7, at(0))
        });
        let expected = "The database's global read lock was held for 0.30 s at most, from 2026-03-01 02:00:00 UTC to \
                        2026-03-01 02:00:00 UTC.";
        assert_eq!(locked(&job).unwrap().to_string(), expected);
    }

    #[test]
    fn a_remark_says_what_unmounted_an_invalid_snapshot() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut job = Job::new(7, JobKind::Snapshot, "uuid", "data_snapshot", at(100));
        (job.mounted_on, job.died_at) = (Some("/mnt/snap".into()), Some(at(160)));
        let remarks = |job: &Job| {
            let remarks = JobSummary::of(job, true).remarks;
            remarks.iter().map(Sentence::to_string).collect::<String>()
        };
        assert_eq!(remarks(&job), "Mounted on /mnt/snap.");
        job.unmounted_at = Some(at(161));
        assert!(remarks(&job).starts_with(
            "The snapshot was unmounted from /mnt/snap at 1970-01-01 00:02:41 UTC, as LVM's dmeventd does"
        ));
        job.unmounted_at = Some(at(3_000));
        assert_eq!(
            remarks(&job),
            "Was mounted on /mnt/snap until 1970-01-01 00:50:00 UTC."
        );
    }
}
