//! One job as text: what its figures say, what would help, how large the next COW area should be, and every figure.

use super::account::Account;
use super::figure::figures;
use super::phases;
use super::text::inline;
use crate::job::advice::{Advice, advice};
use crate::job::diagnosis::{Sentence, diagnosis};
use crate::job::figures::Figures;
use crate::job::setup::Setup;
use crate::job::sizing::Sizing;
use crate::source::Note;
use crate::units::Prefix;

/// What is told of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobReport {
    pub name: String,
    pub figures: Figures,
    pub sentences: Vec<Sentence>,
    pub advice: Vec<Advice>,
    /// `None` where no peak is known.
    pub sizing: Option<Sizing>,
    prefix: Prefix,
}

impl JobReport {
    pub fn new(name: &str, figures: Figures, setup: &Setup, sizing: Option<Sizing>, prefix: Prefix) -> Self {
        let sentences = diagnosis(&figures, setup, prefix);
        let advice = advice(&figures, setup, prefix);
        Self { name: name.into(), figures, sentences, advice, sizing, prefix }
    }

    pub fn markdown(&self, account: &Account, notes: &[Note]) -> String {
        let mut text = format!(
            "# {}: {}\n\n{}\n\n",
            inline(&self.name),
            inline(&account.ended()),
            inline(&account.heading)
        );
        if let Some(warning) = &account.warning {
            text.push_str(&format!("**{}**\n\n", inline(warning)));
        }
        let remarks = account.remarks.iter().map(|remark| inline(remark));
        let notes =
            notes.iter().map(|note| format!("{} UTC: {}", note.at.strftime("%F %T"), inline(&note.text)));
        for line in remarks.chain(notes) {
            text.push_str(&format!("- {line}\n"));
        }
        for sentence in &self.sentences {
            text.push_str(&format!("- {}\n", inline(&sentence.text)));
        }
        text.push_str(&self.helps());
        text.push_str(&phases::markdown(&self.figures.phases, self.prefix));
        text.push_str("\n| figure | value |\n| --- | --- |\n");
        for figure in figures(&self.figures) {
            if let Some(value) = figure.value {
                text.push_str(&format!(
                    "| {} | {} |\n",
                    inline(&figure.name),
                    figure.unit.text(value, self.prefix)
                ));
            }
        }
        text
    }

    fn helps(&self) -> String {
        let mut text = String::new();
        for advice in &self.advice {
            text.push_str(&format!("\n**{}** {}\n", inline(&advice.text), inline(&advice.reason)));
            text.push_str(&advice.setting.as_deref().map(setting_text).unwrap_or_default());
        }
        if let Some(sizing) = &self.sizing {
            text.push_str(&format!("\n{}\n{}", inline(&sizing.text), setting_text(&sizing.setting)));
        }
        text
    }
}

/// Lines of `mylvmbackup.conf`, indented as Markdown has code.
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
        Figures::of(&Course { before: None, during, after: None, took_s: None }, &Setup::default())
    }

    fn account() -> Account {
        Account {
            heading: "Snapshot vg0/s of vg0/data · 2026-11-21 02:00:00 to 2026-11-21 03:00:00 UTC".into(),
            outcome: "untrustworthy".into(),
            basis: "the snapshot was lost".into(),
            warning: Some("Do not rely on it.".into()),
            remarks: vec!["Made by mylvmbackup.".into()],
        }
    }

    #[test]
    fn a_job_of_which_nothing_is_known_says_so() {
        let note = Note { at: jiff::Timestamp::UNIX_EPOCH, text: "tape".into() };
        let report = JobReport::new("night|ly", empty(), &Setup::default(), None, Prefix::Decimal);
        assert_eq!(
            report.markdown(&account(), &[note]),
            "# night\\|ly: untrustworthy, the snapshot was lost\n\n\
             Snapshot vg0/s of vg0/data · 2026-11-21 02:00:00 to 2026-11-21 03:00:00 UTC\n\n\
             **Do not rely on it.**\n\n- Made by mylvmbackup.\n- 1970-01-01 00:00:00 UTC: tape\n\
             - No reads were observed.\n\n| figure | value |\n| --- | --- |\n"
        );
    }

    #[test]
    fn advice_stands_with_its_reason_and_its_setting() {
        let setup = Setup { kind: Some(crate::job::setup::SnapshotKind::Thick), ..Setup::default() };
        let mut figures = empty();
        figures.copied.write_cost = Some(2.9);
        let peak = Peak { bytes: 15 << 20, overflowed: false };
        let sizing = sizing(&[peak], DEFAULT_MARGIN, Limits::default(), None);
        let text =
            JobReport::new("nightly", figures, &setup, sizing, Prefix::Decimal).markdown(&account(), &[]);
        assert!(text.contains("\n**Move the origin to a thin pool and use thin snapshots."), "{text}");
        assert!(text.contains("\n\n    [misc]\n    thin=1\n"), "{text}");
        assert!(
            text.contains(
                "\nPeak 15.0 MiB; 32.0 MiB would have held the run twice over.\n\n    [lvm]\n    lvsize=32M\n"
            ),
            "{text}"
        );
        assert!(text.ends_with("| bytes on disk per byte written | 2.90 |\n"), "{text}");
    }
}
