//! The report of one job as text: findings, advice, the size of the next COW area, and all figures.

use super::figure::figures;
use super::phases::{OF_WHOLE_TICKS, tables};
use super::summary::JobSummary;
use crate::job::advice::{Advice, advice};
use crate::job::diagnosis::{Explanation, diagnosis};
use crate::job::figures::Figures;
use crate::job::setup::Setup;
use crate::job::sizing::Sizing;
use crate::sentence::Sentence;
use crate::source::Note;
use crate::table::{Column, Style, Table};
use crate::units::Prefix;

#[derive(Clone, Debug, PartialEq)]
pub struct JobReport {
    pub name: String,
    pub figures: Figures,
    pub sentences: Vec<Explanation>,
    pub advice: Vec<Advice>,
    pub sizing: Option<Sizing>,
    prefix: Prefix,
}

impl JobReport {
    pub fn new(
        name: &str,
        figures: Figures,
        setup: &Setup,
        sizing: Option<Sizing>,
        prefix: Prefix,
    ) -> Self {
        let sentences = diagnosis(&figures, setup, prefix);
        let advice = advice(&figures, setup, prefix);
        Self {
            name: name.into(),
            figures,
            sentences,
            advice,
            sizing,
            prefix,
        }
    }

    /// The summary, the sentences of a forecast, the findings, the advice, and all known figures.
    pub fn text(
        &self,
        summary: &JobSummary,
        notes: &[Note],
        forecast: &[String],
        style: Style,
    ) -> String {
        let (title, item, strong) = match style {
            Style::Plain => ("", "", ""),
            Style::Markdown => ("# ", "- ", "**"),
        };
        let line = |text: &str| style.line(text);
        let list = |sentences: Vec<String>| {
            let items: String = sentences
                .iter()
                .map(|text| format!("{item}{}\n", line(text)))
                .collect();
            if items.is_empty() {
                items
            } else {
                format!("\n{items}")
            }
        };
        let heading = format!("{}: {}", self.name, summary.ended());
        let mut text = format!(
            "{title}{}\n\n{}\n",
            line(&heading),
            line(&summary.heading.to_string())
        );
        text += &summary
            .warning
            .iter()
            .map(|it| format!("\n{strong}{}{strong}\n", line(&it.to_string())))
            .collect::<String>();
        let notes = notes
            .iter()
            .map(|note| format!("Noted at {} UTC: {}", note.at.strftime("%F %T"), note.text));
        text += &list(
            summary
                .remarks
                .iter()
                .map(Sentence::to_string)
                .chain(notes)
                .collect(),
        );
        text += &list(forecast.to_vec());
        text += &list(
            self.sentences
                .iter()
                .map(|sentence| sentence.text.clone())
                .collect(),
        );
        for advice in &self.advice {
            text += &format!(
                "\n{strong}{}{strong} {}\n",
                line(&advice.text),
                line(&advice.reason)
            );
            text += &advice
                .setting
                .as_deref()
                .map(setting_text)
                .unwrap_or_default();
        }
        if let Some(sizing) = &self.sizing {
            text += &format!(
                "\n{}\n{}",
                line(&sizing.text),
                setting_text(&sizing.setting)
            );
        }
        let phases = tables(&self.figures.phases, self.prefix);
        let note = (!phases.is_empty()).then(|| format!("\n{OF_WHOLE_TICKS}\n"));
        let tables = phases
            .iter()
            .map(|table| format!("\n{}", table.write(style)));
        text.extend(tables.chain(note));
        text + "\n" + &self.table().write(style)
    }

    fn table(&self) -> Table {
        let known = figures(&self.figures).into_iter().filter_map(|figure| {
            let value = figure.unit.text(figure.value?, self.prefix);
            Some(vec![figure.name.into(), value.into()])
        });
        Table::new("", [Column::name("Figure"), Column::number("Value")], known)
    }
}

/// Lines for `mylvmbackup.conf`, indented as code in Markdown.
fn setting_text(setting: &str) -> String {
    let lines = setting.lines().map(|line| format!("    {line}\n"));
    std::iter::once("\n".to_string()).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::course::{Course, Span};
    use crate::job::sizing::{DEFAULT_MARGIN, Limits, Peak, sizing};

    fn empty() -> Figures {
        let during = Span::new(Vec::new()).unwrap();
        Figures::of(
            &Course {
                before: None,
                during,
                after: None,
                took_s: None,
            },
            &Setup::default(),
        )
    }

    fn summary() -> JobSummary {
        JobSummary {
            heading: "Snapshot vg0/s of vg0/data · 2026-11-21 02:00:00 to 2026-11-21 03:00:00 UTC"
                .into(),
            outcome: "untrustworthy".into(),
            basis: "the snapshot was lost".into(),
            warning: Some("Do not rely on it.".into()),
            remarks: vec!["Made by mylvmbackup.".into()],
        }
    }

    #[test]
    fn a_job_without_figures_has_no_findings() {
        let note = Note {
            at: jiff::Timestamp::UNIX_EPOCH,
            text: "tape".into(),
        };
        let report = JobReport::new(
            "night|ly",
            empty(),
            &Setup::default(),
            None,
            Prefix::Decimal,
        );
        assert_eq!(
            report.text(&summary(), &[note], &[], Style::Markdown),
            "# night\\|ly: untrustworthy, the snapshot was lost\n\n\
             Snapshot vg0/s of vg0/data · 2026-11-21 02:00:00 to 2026-11-21 03:00:00 UTC\n\n\
             **Do not rely on it.**\n\n- Made by mylvmbackup.\n- Noted at 1970-01-01 00:00:00 UTC: tape\n\n\
             - No reads were observed.\n\n| Figure | Value |\n| --- | ---: |\n"
        );
    }

    #[test]
    fn advice_has_a_reason_and_a_setting() {
        let setup = Setup {
            kind: Some(crate::job::setup::SnapshotKind::Thick),
            ..Setup::default()
        };
        let mut figures = empty();
        figures.copied.write_cost = Some(2.9);
        let peak = Peak {
            bytes: 15 << 20,
            overflowed: false,
        };
        let sizing = sizing(&[peak], DEFAULT_MARGIN, Limits::default());
        let report = JobReport::new("nightly", figures, &setup, sizing, Prefix::Decimal);
        let text = report.text(&summary(), &[], &[], Style::Markdown);
        assert!(
            text.contains("\n**Move the origin to a thin pool and use thin snapshots."),
            "{text}"
        );
        assert!(text.contains("\n\n    [misc]\n    thin=1\n"), "{text}");
        assert!(
            text.contains(
                "\nThe peak of the run was 15.0 MiB. 32.0 MiB holds twice that.\n\n    [lvm]\n    lvsize=32M\n"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("| bytes on disk per byte written | 2.90 |\n"),
            "{text}"
        );
    }
}
