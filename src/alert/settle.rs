//! Turns the evaluation of a rule into alerts: raises, updates and clears them, once it has held long enough.

use jiff::Timestamp;

use super::rule::Evaluation;
use super::{Alert, Rule, Rules, Severity};
use crate::config::{Measure, Thresholds};

/// How an alert ends whose rule the configuration has switched off.
const SWITCHED_OFF: &str = "The configuration switches this rule off.";

/// A problem that is not raised yet, or an open alert that does not clear yet.
pub(super) struct Hold {
    rule: Rule,
    uuid: String,
    since: Timestamp,
}

/// What a rule found.
pub(super) struct Finding<'a> {
    pub rule: Rule,
    pub vg: &'a str,
    pub lv: &'a str,
    pub uuid: &'a str,
    pub thresholds: Thresholds,
    pub evaluation: Evaluation,
    pub value: Option<f64>,
}

/// The sentences of a finding, and its job; called only if there is an alert.
pub(super) trait Words {
    fn raised(&self, severity: Severity) -> String;
    fn cleared(&self) -> String;
    fn job(&self) -> Option<i64>;
}

/// Sentences that closures make.
pub(super) struct Texts<R: Fn() -> String, C: Fn() -> String> {
    pub raised: R,
    pub cleared: C,
    pub job: Option<i64>,
}

impl<R: Fn() -> String, C: Fn() -> String> Words for Texts<R, C> {
    fn raised(&self, _: Severity) -> String {
        (self.raised)()
    }

    fn cleared(&self) -> String {
        (self.cleared)()
    }

    fn job(&self) -> Option<i64> {
        self.job
    }
}

impl Rules {
    /// Clears alerts about backups and about cowbell itself whose rule was switched off.
    pub(super) fn clear_off(&mut self, at: Timestamp) -> Vec<Alert> {
        let is_off = |alert: &&Alert| self.settings.of(alert.rule, &alert.vg, &alert.lv).is_none();
        let off: Vec<i64> = self
            .open
            .iter()
            .filter(is_off)
            .map(|alert| alert.id)
            .collect();
        self.clear_all(at, |alert| off.contains(&alert.id), |_| SWITCHED_OFF.into())
    }

    pub(super) fn settle(
        &mut self,
        finding: &Finding,
        at: Timestamp,
        words: &dyn Words,
    ) -> Option<Alert> {
        let Finding {
            rule,
            uuid,
            thresholds,
            value,
            ..
        } = *finding;
        let index = self.index(rule, uuid);
        let before = index.map(|index| self.open[index].severity);
        let severity = match (finding.evaluation, before) {
            (Evaluation::Raised(severity), _) => severity,
            (Evaluation::Unchanged, Some(before)) if value.is_some() => before,
            (Evaluation::Clear | Evaluation::Over, Some(_)) => {
                let keeps = finding.evaluation == Evaluation::Clear
                    && !self.has_held(rule, uuid, at, thresholds.keep_firing_s);
                if keeps {
                    return None;
                }
                let cleared = self.clear(index?, value, at, words.cleared());
                return Some(Alert {
                    recovered: finding.evaluation == Evaluation::Clear,
                    ..cleared
                });
            }
            (Evaluation::Clear | Evaluation::Over, None) => {
                self.drop_hold(rule, uuid);
                return None;
            }
            _ => return None,
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
            (alert.worst, alert.worse_at) = (severity, Some(at));
        }
        alert.value = value;
        alert.peak = worst(rule, alert.peak, value);
        alert.job = words.job().or(alert.job);
        alert.sentence = words.raised(severity);
        if (&*alert.vg, &*alert.lv) != (finding.vg, finding.lv) {
            (alert.vg, alert.lv) = (finding.vg.into(), finding.lv.into());
        }
        (Some(severity) > before).then(|| alert.clone())
    }

    /// The open alert of a rule about this.
    pub(super) fn index(&self, rule: Rule, uuid: &str) -> Option<usize> {
        self.open
            .iter()
            .position(|alert| alert.rule == rule && alert.uuid == uuid)
    }

    /// Whether it has been so for so many seconds; the first call begins.
    pub(super) fn has_held(&mut self, rule: Rule, uuid: &str, at: Timestamp, seconds: f64) -> bool {
        if seconds <= 0.0 {
            return true;
        }
        let found = self
            .holds
            .iter()
            .position(|hold| hold.rule == rule && hold.uuid == uuid);
        let index = found.unwrap_or_else(|| {
            self.holds.push(Hold {
                rule,
                uuid: uuid.into(),
                since: at,
            });
            self.holds.len() - 1
        });
        let hold = &mut self.holds[index];
        // The clock may be set back.
        hold.since = hold.since.min(at);
        (at.as_millisecond() - hold.since.as_millisecond()) as f64 >= seconds * 1000.0
    }

    fn drop_hold(&mut self, rule: Rule, uuid: &str) {
        self.retain_holds(|other, subject| other != rule || subject != uuid);
    }

    pub(super) fn retain_holds(&mut self, is_kept: impl Fn(Rule, &str) -> bool) {
        self.holds.retain(|hold| is_kept(hold.rule, &hold.uuid));
    }

    /// Adds an alert without its volume and sentence; returns its index.
    pub(super) fn raise(
        &mut self,
        rule: Rule,
        severity: Severity,
        uuid: &str,
        at: Timestamp,
    ) -> usize {
        self.last_id += 1;
        self.open.push(Alert {
            id: self.last_id,
            rule,
            severity,
            vg: String::new(),
            lv: String::new(),
            uuid: uuid.into(),
            value: None,
            peak: None,
            job: None,
            raised_at: at,
            cleared_at: None,
            recovered: false,
            worst: severity,
            worse_at: None,
            acknowledged: None,
            sentence: String::new(),
        });
        self.open.len() - 1
    }

    pub(super) fn clear(
        &mut self,
        index: usize,
        value: Option<f64>,
        at: Timestamp,
        how: String,
    ) -> Alert {
        let mut alert = self.open.remove(index);
        self.drop_hold(alert.rule, &alert.uuid);
        alert.cleared_at = Some(at.max(alert.raised_at));
        alert.severity = alert.worst;
        // The store keeps only this sentence, so it includes the problem.
        let before = alert
            .sentence
            .split(". ")
            .next()
            .unwrap_or_default()
            .trim_end_matches('.');
        alert.sentence = format!("{how} Before: {before}.");
        alert.value = value.or(alert.value);
        alert
    }

    /// The same for alerts that end because all is well again.
    pub(super) fn recover_all(
        &mut self,
        at: Timestamp,
        is_over: impl Fn(&Alert) -> bool,
        how: &str,
    ) -> Vec<Alert> {
        let recovered = |alert| Alert {
            recovered: true,
            ..alert
        };
        self.clear_all(at, is_over, |_| how.into())
            .into_iter()
            .map(recovered)
            .collect()
    }

    /// Clears all such alerts; `how` says how each ended.
    pub(super) fn clear_all(
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

/// The worse of two values of a rule.
fn worst(rule: Rule, before: Option<f64>, now: Option<f64>) -> Option<f64> {
    let worse = if rule.measure() == Measure::TimeLeft {
        f64::min
    } else {
        f64::max
    };
    match (before, now) {
        (Some(before), Some(now)) => Some(worse(before, now)),
        _ => before.or(now),
    }
}
