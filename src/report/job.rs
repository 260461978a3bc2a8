//! The report of one job as text: summary, findings, advice, and all figures.

use super::figure::figures;
use super::phases::{OF_WHOLE_TICKS, tables};
use super::summary::JobSummary;
use crate::commands::Note;
use crate::job::advice::Advice;
use crate::job::diagnosis::Explanation;
use crate::job::figures::Figures;
use crate::table::{Column, Style, Table};

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
        let phases = tables(&self.figures.phases);
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
    use super::*;
    use crate::job::advice::advice;
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
            at: jiff::Timestamp::UNIX_EPOCH,
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
            advice: advice(&figures, &setup, true),
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
}
