//! Turns values into evaluations, and evaluations into alerts: raises, updates and clears them, once they have held long
//! enough.

use jiff::Timestamp;

use super::{Alert, AlertText, Rule, Rules, Severity, seconds_between};
use crate::config::{Measure, Thresholds};
use crate::sentence;
use crate::sentence::{Sentence, SentencePart};
use crate::topology::State;

/// How an alert ends whose rule the configuration has switched off.
const SWITCHED_OFF: &str = "The configuration switches this rule off.";

/// The result of a rule for one subject in one tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Evaluation {
    Raised(Severity),
    /// The problem is over, as far as the value goes.
    Clear,
    /// The problem cannot come back, such as that of a volume without data.
    Over,
    /// The value is unknown, or lies between the thresholds for raising and clearing.
    Unchanged,
}

impl Evaluation {
    pub const WARNING: Self = Self::Raised(Severity::Warning);
    pub const CRITICAL: Self = Self::Raised(Severity::Critical);

    pub fn warning_if(is_wrong: bool) -> Self {
        if is_wrong { Self::WARNING } else { Self::Clear }
    }

    /// By a value, given the severity of the open alert. Time left counts down.
    pub fn by_value(
        rule: Rule,
        value: f64,
        thresholds: Thresholds,
        raised: Option<Severity>,
    ) -> Self {
        let is_at = |threshold: f64| match rule.measure() {
            Measure::TimeLeft => value <= threshold,
            _ => value >= threshold,
        };
        let clearance = thresholds.warning - thresholds.clear;
        let is_cleared = |threshold: f64| !is_at(threshold - clearance);
        match raised {
            _ if is_at(thresholds.critical) => Self::CRITICAL,
            Some(Severity::Critical)
                if thresholds.critical.is_finite() && !is_cleared(thresholds.critical) =>
            {
                Self::Unchanged
            }
            _ if is_at(thresholds.warning) => Self::WARNING,
            Some(_) if !is_cleared(thresholds.warning) => Self::WARNING,
            _ => Self::Clear,
        }
    }
}

/// What an alert is about; see the fields of [`Alert`].
#[derive(Clone, Copy)]
pub(super) struct AlertSubject<'a> {
    pub vg: &'a str,
    pub lv: &'a str,
    pub uuid: &'a str,
}

impl<'a> AlertSubject<'a> {
    pub fn new(vg: &'a str, lv: &'a str, uuid: &'a str) -> Self {
        Self { vg, lv, uuid }
    }

    /// A part of cowbell.
    pub fn own(part: &'a str) -> Self {
        Self::new("", "", part)
    }

    /// The volume, or the name of a command that backs up no known volume.
    pub fn name(self) -> SentencePart {
        if self.vg.is_empty() {
            return SentencePart::Text(self.lv.into());
        }
        sentence::volume(format!("{}/{}", self.vg, self.lv))
    }
}

/// What a rule found.
pub(super) struct RuleFinding<'a> {
    pub rule: Rule,
    pub subject: AlertSubject<'a>,
    pub at: Timestamp,
    pub evaluation: Evaluation,
    pub value: Option<f64>,
    pub job: Option<i64>,
    pub state: Option<State>,
}

impl<'a> RuleFinding<'a> {
    /// Without a value, a job and a state.
    pub fn new(
        rule: Rule,
        subject: AlertSubject<'a>,
        at: Timestamp,
        evaluation: Evaluation,
    ) -> Self {
        Self {
            rule,
            subject,
            at,
            evaluation,
            value: None,
            job: None,
            state: None,
        }
    }
}

impl Rules {
    /// Clears alerts whose rule was switched off.
    pub(super) fn clear_off(&mut self, at: Timestamp) -> Vec<Alert> {
        let is_off = |alert: &&Alert| self.settings.of(alert.rule, &alert.vg, &alert.lv).is_none();
        let off: Vec<i64> = self
            .open
            .iter()
            .filter(is_off)
            .map(|alert| alert.id)
            .collect();
        self.clear_all(at, |alert| {
            off.contains(&alert.id).then(|| SWITCHED_OFF.into())
        })
    }

    /// Returns the alert if it is to be delivered. The texts are written only if there is an alert.
    pub(super) fn settle(
        &mut self,
        finding: &RuleFinding,
        raised: impl FnOnce(Severity) -> AlertText,
        cleared: impl FnOnce() -> Sentence,
    ) -> Option<Alert> {
        let (rule, uuid, at) = (finding.rule, finding.subject.uuid, finding.at);
        let index = self.index(rule, uuid);
        let before = index.map(|index| self.open[index].severity);
        let is_over = matches!(finding.evaluation, Evaluation::Clear | Evaluation::Over);
        if is_over && index.is_none() {
            self.drop_hold(rule, uuid);
            return None;
        }
        // `None` if the rule is off.
        let (vg, lv) = (finding.subject.vg, finding.subject.lv);
        let thresholds = self.settings.of(rule, vg, lv)?;
        let severity = match (finding.evaluation, before) {
            (Evaluation::Raised(severity), _) => severity,
            (Evaluation::Unchanged, Some(before)) if finding.value.is_some() => before,
            (Evaluation::Unchanged, _) => return None,
            (Evaluation::Clear, _) if !self.has_held(rule, uuid, at, thresholds.keep_firing_s) => {
                // What it says of the volume is true until then.
                if rule.has_outlook() {
                    let alert = &mut self.open[index?];
                    alert.value = finding.value.or(alert.value);
                    alert.text = raised(alert.severity);
                }
                return None;
            }
            (end, _) => {
                let mut alert = self.clear(index?, finding.value, at, cleared());
                alert.recovered = end == Evaluation::Clear;
                return Some(alert);
            }
        };
        let is_held = severity == Severity::Warning || rule.measure() == Measure::State;
        if before.is_none() && is_held && !self.has_held(rule, uuid, at, thresholds.hold_s) {
            return None;
        }
        self.drop_hold(rule, uuid);
        let index = index.unwrap_or_else(|| self.raise(rule, severity, uuid, at));
        let alert = &mut self.open[index];
        alert.severity = severity;
        if severity > alert.worst {
            alert.worst = severity;
            alert.worse_at = Some(at);
        }
        alert.value = finding.value;
        alert.peak = worst(rule, alert.peak, finding.value);
        alert.job = finding.job.or(alert.job);
        alert.state = finding.state;
        alert.text = raised(severity);
        vg.clone_into(&mut alert.vg);
        lv.clone_into(&mut alert.lv);
        (Some(severity) > before).then(|| alert.clone())
    }

    /// The open alert of a rule about this.
    pub(super) fn index(&self, rule: Rule, uuid: &str) -> Option<usize> {
        self.open
            .iter()
            .position(|alert| alert.rule == rule && alert.uuid == uuid)
    }

    pub(super) fn severity(&self, rule: Rule, uuid: &str) -> Option<Severity> {
        Some(self.open[self.index(rule, uuid)?].severity)
    }

    /// Whether it has been so for so many seconds; the first call begins.
    pub(super) fn has_held(&mut self, rule: Rule, uuid: &str, at: Timestamp, seconds: f64) -> bool {
        if seconds <= 0.0 {
            return true;
        }
        let since = self.holds.entry((rule, uuid.into())).or_insert(at);
        // The clock may be set back.
        *since = at.min(*since);
        seconds_between(*since, at) >= seconds
    }

    fn drop_hold(&mut self, rule: Rule, uuid: &str) {
        self.holds
            .retain(|(held_rule, held_uuid), _| *held_rule != rule || held_uuid != uuid);
    }

    /// Adds an alert without its volume and text; returns its index.
    pub(super) fn raise(
        &mut self,
        rule: Rule,
        severity: Severity,
        uuid: &str,
        at: Timestamp,
    ) -> usize {
        self.last_id += 1;
        self.open
            .push(Alert::new(self.last_id, rule, severity, uuid, at));
        self.open.len() - 1
    }

    fn clear(
        &mut self,
        index: usize,
        value: Option<f64>,
        at: Timestamp,
        ending: Sentence,
    ) -> Alert {
        let mut alert = self.open.remove(index);
        self.drop_hold(alert.rule, &alert.uuid);
        alert.cleared_at = Some(at.max(alert.raised_at));
        alert.severity = alert.worst;
        alert.text.ending = ending;
        alert.value = value.or(alert.value);
        alert
    }

    /// Clears all alerts that have ended; `ending` says how, and is `None` for those that go on.
    pub(super) fn clear_all(
        &mut self,
        at: Timestamp,
        ending: impl Fn(&Alert) -> Option<Sentence>,
    ) -> Vec<Alert> {
        let mut changed = Vec::new();
        let mut index = 0;
        while index < self.open.len() {
            match ending(&self.open[index]) {
                Some(ending) => changed.push(self.clear(index, None, at, ending)),
                None => index += 1,
            }
        }
        changed
    }

    /// The same for alerts that end because all is well again.
    pub(super) fn recover_all(
        &mut self,
        at: Timestamp,
        ending: impl Fn(&Alert) -> Option<Sentence>,
    ) -> Vec<Alert> {
        let mut recovered = self.clear_all(at, ending);
        for alert in &mut recovered {
            alert.recovered = true;
        }
        recovered
    }
}

/// The worse of two values of a rule.
fn worst(rule: Rule, before: Option<f64>, now: Option<f64>) -> Option<f64> {
    match (before, now) {
        (Some(before), Some(now)) if rule.measure() == Measure::TimeLeft => Some(before.min(now)),
        (Some(before), Some(now)) => Some(before.max(now)),
        _ => before.or(now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule's state while its value changes, one character each: `-`, `W`, `C`.
    fn course(rule: Rule, thresholds: Thresholds, values: &[f64]) -> String {
        let mut raised = None;
        let letters = values.iter().map(|value| {
            match Evaluation::by_value(rule, *value, thresholds, raised) {
                Evaluation::Raised(severity) => raised = Some(severity),
                Evaluation::Clear | Evaluation::Over => raised = None,
                Evaluation::Unchanged => {}
            }
            raised.map_or('-', |severity| {
                if severity == Severity::Warning {
                    'W'
                } else {
                    'C'
                }
            })
        });
        letters.collect()
    }

    #[test]
    fn an_alert_is_raised_at_its_threshold_and_cleared_five_points_below() {
        for (percents, expected) in [
            (&[69.99, 70.0, 65.0, 64.99][..], "-WW-"),
            (&[60.0, 90.0, 80.0, 79.99, 70.0, 65.0, 64.0], "-CCWWW-"),
            (&[84.99, 85.0, 84.0, 85.0], "WCCC"),
        ] {
            let found = course(
                Rule::SnapshotFill,
                Thresholds::percent(70.0, 85.0),
                percents,
            );
            assert_eq!(found, expected, "{percents:?}");
        }
    }

    #[test]
    fn less_time_left_is_worse() {
        let thresholds = Thresholds::time_left(30.0, 10.0);
        let found = course(
            Rule::TimeUntilFull,
            thresholds,
            &[31.0, 30.0, 40.0, 40.1, 10.0, 20.0, 20.1, 41.0],
        );
        assert_eq!(found, "-WW-CCW-");
    }

    #[test]
    fn a_limit_has_no_critical_level() {
        let found = course(
            Rule::SnapshotAge,
            Thresholds::limit(60.0),
            &[59.0, 60.0, 1e9, 59.0],
        );
        assert_eq!(found, "-WW-");
    }
}
