//! Alerts: rules that are evaluated for each tick before anything is stored. An unknown value changes nothing.
//!
//! An open alert shows the current value; receivers are notified again only if it gets worse.

mod backup;
mod rule;
mod sentence;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::Alerts as Settings;
use crate::forecast::Outlook;
use crate::interval::Interval;
use crate::topology::{Volume, VolumeState};
use crate::units::Fill;
pub use rule::Rule;
use rule::{Evaluation, evaluate};

/// An alert of a rule for one volume, from when it was raised until it was cleared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Alert {
    pub id: i64,
    pub rule: Rule,
    pub severity: Severity,
    pub vg: String,
    pub lv: String,
    /// The volume's UUID, since its name may change.
    pub uuid: String,
    /// The percentage that raised or, once cleared, cleared it. `None` if unknown or not applicable.
    pub value: Option<f64>,
    pub raised_at: Timestamp,
    pub cleared_at: Option<Timestamp>,
    /// The highest severity so far; cleared alerts keep it.
    pub worst: Severity,
    /// When a warning became critical.
    #[serde(default)]
    pub worse_at: Option<Timestamp>,
    #[serde(default)]
    pub acknowledged: Option<Acknowledgement>,
    /// The problem and its remedy; once cleared, how it ended.
    pub sentence: String,
}

/// Somebody works on it: an acknowledged alert is not repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Acknowledgement {
    pub at: Timestamp,
    /// `null`: until the alert is cleared.
    pub until: Option<Timestamp>,
    pub note: String,
}

impl Alert {
    pub fn is_acknowledged(&self, at: Timestamp) -> bool {
        self.acknowledged
            .as_ref()
            .is_some_and(|acknowledged| acknowledged.until.is_none_or(|until| at < until))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    Warning,
    Critical,
}

impl Severity {
    pub fn text(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// The rules and their open alerts.
pub struct Rules {
    settings: Settings,
    open: Vec<Alert>,
    last_id: i64,
}

impl Rules {
    /// Continues with the alerts that were open when the program ended.
    pub fn resume(settings: Settings, open: Vec<Alert>, last_id: i64) -> Self {
        Self { settings, open, last_id }
    }

    /// Takes new thresholds; open alerts are judged by them at the next tick.
    pub fn reload(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Open alerts, the oldest first.
    pub fn open(&self) -> &[Alert] {
        &self.open
    }

    /// Acknowledges an open alert, or withdraws that. Returns the alert to store; `None` if it is not open.
    pub fn acknowledge(&mut self, id: i64, acknowledged: Option<Acknowledgement>) -> Option<Alert> {
        let alert = self.open.iter_mut().find(|alert| alert.id == id)?;
        alert.acknowledged = acknowledged;
        Some(alert.clone())
    }

    /// Evaluates all rules for a tick; returns alerts to deliver: raised, escalated or cleared ones.
    ///
    /// `outlook` forecasts the running backup that needs most of a snapshot or pool.
    pub fn judge(&mut self, interval: &Interval, outlook: &dyn Fn(&Volume) -> Option<Outlook>) -> Vec<Alert> {
        if !interval.devices_listed {
            return Vec::new();
        }
        let mut changed = Vec::new();
        for (volume, state) in interval.volumes() {
            for rule in Rule::OF_VOLUMES.into_iter().filter(|rule| rule.concerns(volume.kind)) {
                changed.extend(self.apply(rule, volume, state, interval, outlook));
            }
        }
        changed.extend(self.clear_gone(interval));
        changed.extend(self.clear_old_backups(interval.at));
        // Delivers raised alerts before cleared ones.
        changed.sort_by_key(|alert| alert.cleared_at.is_some());
        changed
    }

    fn apply(
        &mut self,
        rule: Rule,
        volume: &Volume,
        state: &VolumeState,
        interval: &Interval,
        outlook: &dyn Fn(&Volume) -> Option<Outlook>,
    ) -> Option<Alert> {
        let index = self.open.iter().position(|alert| alert.rule == rule && alert.uuid == *volume.uuid);
        let before = index.map(|index| self.open[index].severity);
        let severity = match (evaluate(rule, state, rule.thresholds(&self.settings), before), before) {
            (Evaluation::Raised(severity), _) => severity,
            (Evaluation::Unchanged, Some(before)) if rule.fill(state).is_some() => before,
            (Evaluation::Clear, Some(_)) => {
                let how = sentence::cleared(rule, volume, state);
                return Some(self.clear(index?, rule.fill(state).map(Fill::percent), interval.at, how));
            }
            _ => return None,
        };
        let index = index.unwrap_or_else(|| self.raise(rule, severity, &volume.uuid, interval.at));
        let thresholds = rule.thresholds(&self.settings);
        let outlook = rule.has_outlook().then(|| outlook(volume)).flatten();
        let alert = &mut self.open[index];
        alert.severity = severity;
        if severity > alert.worst {
            (alert.worst, alert.worse_at) = (severity, Some(interval.at));
        }
        alert.value = rule.fill(state).map(Fill::percent);
        alert.sentence =
            sentence::raised(rule, severity, volume, state, thresholds, interval, outlook.as_ref());
        (alert.vg, alert.lv) = (volume.vg.clone(), volume.lv.clone());
        (Some(severity) > before).then(|| alert.clone())
    }

    /// Adds an alert without its volume and sentence; returns its index.
    fn raise(&mut self, rule: Rule, severity: Severity, uuid: &str, at: Timestamp) -> usize {
        self.last_id += 1;
        self.open.push(Alert {
            id: self.last_id,
            rule,
            severity,
            vg: String::new(),
            lv: String::new(),
            uuid: uuid.into(),
            value: None,
            raised_at: at,
            cleared_at: None,
            worst: severity,
            worse_at: None,
            acknowledged: None,
            sentence: String::new(),
        });
        self.open.len() - 1
    }

    fn clear(&mut self, index: usize, value: Option<f64>, at: Timestamp, how: String) -> Alert {
        let mut alert = self.open.remove(index);
        alert.cleared_at = Some(at.max(alert.raised_at));
        alert.severity = alert.worst;
        // The store keeps only this sentence, so it includes the problem.
        let before = alert.sentence.split(". ").next().unwrap_or_default().trim_end_matches('.');
        alert.sentence = format!("{how} Before: {before}.");
        alert.value = value.or(alert.value);
        alert
    }

    /// Clears alerts whose volume is gone or changed its kind.
    fn clear_gone(&mut self, interval: &Interval) -> Vec<Alert> {
        let is_there = |alert: &Alert| {
            let mut volumes = interval.topology.volumes.iter();
            volumes.any(|volume| *volume.uuid == *alert.uuid && alert.rule.concerns(volume.kind))
        };
        let is_gone = |alert: &Alert| alert.rule != Rule::BackupFailed && !is_there(alert);
        self.clear_all(interval.at, is_gone, sentence::gone)
    }

    /// Clears all such alerts; `how` says how each ended.
    fn clear_all(
        &mut self,
        at: Timestamp,
        is_over: impl Fn(&Alert) -> bool,
        how: impl Fn(&Alert) -> String,
    ) -> Vec<Alert> {
        let mut changed = Vec::new();
        while let Some(index) = self.open.iter().position(&is_over) {
            let how = how(&self.open[index]);
            changed.push(self.clear(index, None, at, how));
        }
        changed
    }
}
