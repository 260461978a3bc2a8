//! Rules that only the daemon can judge, since they need its history: Prometheus passes on its open alerts.
//! Its sentences have no numbers: those are in the alert on the page of the host.

use super::ExportedRule;
use crate::config::{Alerts, Rule};
use crate::fleet::backups::ALERTS;

const VOLUME: &str = "{{ with $labels.vg }}{{ . }}/{{ end }}{{ $labels.lv }}";
const PART: &str = "{{ $labels.part }}";

/// The rule; `None` if it is off, or if Prometheus judges it.
pub fn of(rule: Rule, settings: &Alerts) -> Option<ExportedRule> {
    let is_on = settings
        .cases(rule)
        .iter()
        .any(|(_, thresholds)| thresholds.is_some());
    let finding = finding(rule).filter(|_| is_on)?;
    Some(ExportedRule {
        rule,
        severity: None,
        labels: Vec::new(),
        expression: format!("{}{{rule=\"{}\"}}", ALERTS.full_name(), rule.name()),
        hold_s: 0.0,
        keep_firing_s: 0.0,
        description: format!("{finding} The page of the host has the details."),
    })
}

fn finding(rule: Rule) -> Option<String> {
    let finding = match rule {
        Rule::AutoextendBlocked => {
            format!(
                "Thin pool {VOLUME} cannot be extended by LVM: its VG has too little free space."
            )
        }
        Rule::SnapshotLeftOver => {
            format!("Snapshot {VOLUME} still exists, although its backup has ended.")
        }
        Rule::BackupFailed => {
            format!("The backup of {VOLUME} is bad, or may be: do not rely on it.")
        }
        Rule::BackupMissing => format!("There was no good backup of {VOLUME} for too long."),
        Rule::BackupSlow => format!("The backup of {VOLUME} runs much longer than earlier ones."),
        Rule::BackupSmall => format!("The backup of {VOLUME} read much less than it usually does."),
        Rule::SnapshotSmall => format!("The next snapshot of {VOLUME} is likely to overflow."),
        Rule::LockHeld => {
            format!(
                "The backup of {VOLUME} holds the global read lock of the database: all writes wait."
            )
        }
        Rule::PartFailed => format!("cowbell cannot read a part of the machine: {PART}."),
        Rule::DataOld => format!("What cowbell knows of the machine is old: {PART}."),
        Rule::TicksMissed => "cowbell misses ticks: alerts come late.".into(),
        Rule::StoreFailed => {
            "cowbell cannot write its database. It continues from memory and raises alerts.".into()
        }
        _ => return None,
    };
    Some(finding)
}
