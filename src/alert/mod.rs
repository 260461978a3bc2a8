//! Alerts: rules over one tick, what they raise and clear, and the sentences that say so.
//!
//! A rule is judged in every tick before anything is stored. What is not known changes nothing: an alert goes on until
//! something is known again.

mod backup;
mod rule;
mod sentence;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::Alerts as Settings;
use crate::interval::Interval;
use crate::topology::{Volume, VolumeState};
use crate::units::Fill;
pub use rule::Rule;
use rule::{Verdict, verdict};

/// A rule raised for one volume, from-to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    pub id: i64,
    pub rule: Rule,
    pub severity: Severity,
    pub vg: String,
    pub lv: String,
    /// The volume's UUID: its name may change while the alert lasts.
    pub uuid: String,
    /// The percentage that raised it or, when cleared, cleared it. `None` where there is none to know.
    pub value: Option<f64>,
    pub raised_at: Timestamp,
    pub cleared_at: Option<Timestamp>,
    /// The worst that it was; what is kept of an alert that is over.
    pub worst: Severity,
    /// What is wrong and what helps; when cleared, how it ended.
    pub sentence: String,
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

/// What is told: an alert that was raised, grew worse, or is over (`cleared_at` is set).
pub type News = Alert;

/// The rules, and the alerts that they have raised.
pub struct Rules {
    settings: Settings,
    open: Vec<Alert>,
    last_id: i64,
}

impl Rules {
    /// Goes on with the alerts that were open when the program ended.
    pub fn resume(settings: Settings, open: Vec<Alert>, last_id: i64) -> Self {
        Self { settings, open, last_id }
    }

    /// Alerts that are raised now, the oldest first.
    pub fn open(&self) -> &[Alert] {
        &self.open
    }

    /// Closes alerts of which somebody was not told when the program ends: the next start raises, and tells, them anew.
    pub fn forget(&mut self, ids: &[i64], at: Timestamp) -> Vec<News> {
        let mut forgotten = Vec::new();
        while let Some(index) = self.open.iter().position(|alert| ids.contains(&alert.id)) {
            let how = "Not everybody was told of this before cowbell ended.".to_string();
            let value = self.open[index].value;
            forgotten.push(self.clear(index, value, at, how));
        }
        forgotten
    }

    /// Judges a tick; gives what is to be told.
    pub fn judge(&mut self, interval: &Interval) -> Vec<News> {
        if !interval.devices_listed {
            return Vec::new();
        }
        let mut news = Vec::new();
        for (volume, state) in interval.volumes() {
            for rule in Rule::OF_VOLUMES.into_iter().filter(|rule| rule.concerns(volume.kind)) {
                news.extend(self.apply(rule, volume, state, interval));
            }
        }
        news.extend(self.clear_gone(interval));
        news.extend(self.clear_old_backups(interval.at));
        // Whoever is told by pager hears of the worse first.
        news.sort_by_key(|alert| alert.cleared_at.is_some());
        news
    }

    fn apply(
        &mut self,
        rule: Rule,
        volume: &Volume,
        state: &VolumeState,
        interval: &Interval,
    ) -> Option<News> {
        let index = self.open.iter().position(|alert| alert.rule == rule && alert.uuid == *volume.uuid);
        let raised = index.map(|index| self.open[index].severity);
        let verdict = verdict(rule, state, rule.thresholds(&self.settings), raised);
        match (verdict, index) {
            (Verdict::Raised(severity), None) => Some(self.raise(rule, severity, volume, state, interval)),
            (Verdict::Raised(severity), Some(index)) => {
                self.go_on(index, severity, volume, state, interval);
                (Some(severity) > raised).then(|| self.open[index].clone())
            }
            (Verdict::AsBefore, Some(index)) if rule.fill(state).is_some() => {
                self.go_on(index, self.open[index].severity, volume, state, interval);
                None
            }
            (Verdict::Clear, Some(index)) => {
                let how = sentence::cleared(rule, volume, state);
                Some(self.clear(index, rule.fill(state).map(Fill::percent), interval.at, how))
            }
            _ => None,
        }
    }

    fn raise(
        &mut self,
        rule: Rule,
        severity: Severity,
        volume: &Volume,
        state: &VolumeState,
        interval: &Interval,
    ) -> News {
        self.last_id += 1;
        let thresholds = rule.thresholds(&self.settings);
        let alert = Alert {
            id: self.last_id,
            rule,
            severity,
            vg: volume.vg.clone(),
            lv: volume.lv.clone(),
            uuid: volume.uuid.to_string(),
            value: rule.fill(state).map(Fill::percent),
            worst: severity,
            raised_at: interval.at,
            cleared_at: None,
            sentence: sentence::raised(rule, severity, volume, state, thresholds, interval),
        };
        self.open.push(alert.clone());
        alert
    }

    /// What is shown of an alert that lasts is how it is now; only when it grows worse is it told again.
    fn go_on(
        &mut self,
        index: usize,
        severity: Severity,
        volume: &Volume,
        state: &VolumeState,
        interval: &Interval,
    ) {
        let alert = &mut self.open[index];
        let thresholds = alert.rule.thresholds(&self.settings);
        alert.severity = severity;
        alert.worst = alert.worst.max(severity);
        alert.value = alert.rule.fill(state).map(Fill::percent);
        alert.sentence = sentence::raised(alert.rule, severity, volume, state, thresholds, interval);
        (alert.vg, alert.lv) = (volume.vg.clone(), volume.lv.clone());
    }

    fn clear(&mut self, index: usize, value: Option<f64>, at: Timestamp, how: String) -> News {
        let mut alert = self.open.remove(index);
        alert.cleared_at = Some(at.max(alert.raised_at));
        alert.severity = alert.worst;
        // What had been wrong is said with how it ended: this is all that is kept of it.
        let before = alert.sentence.split(". ").next().unwrap_or_default().trim_end_matches('.');
        alert.sentence = format!("{how} Before: {before}.");
        alert.value = value.or(alert.value);
        alert
    }

    /// An alert is over when its volume is not there any more, or is something else.
    fn clear_gone(&mut self, interval: &Interval) -> Vec<News> {
        let is_there = |alert: &Alert| {
            let mut volumes = interval.topology.volumes.iter();
            volumes.any(|volume| *volume.uuid == *alert.uuid && alert.rule.concerns(volume.kind))
        };
        let mut news = Vec::new();
        let is_gone = |alert: &Alert| alert.rule != Rule::BackupUntrustworthy && !is_there(alert);
        while let Some(index) = self.open.iter().position(is_gone) {
            let how = sentence::gone(&self.open[index]);
            news.push(self.clear(index, None, interval.at, how));
        }
        news
    }
}
