//! Expressions of Prometheus: selected series, states, and alerts that are raised already.
//!
//! A comparison keeps the series that it holds for, so `or`, `and` and `unless` join them.

use super::text::{alert_name, quoted};
use crate::config::{Pattern, Rule, Severity};

/// What identifies a volume of the fleet.
pub const ON: &str = "on (instance, uuid)";

/// Which volumes a rule is for.
#[derive(Clone)]
pub struct Selector<'a> {
    /// Pairs of a label and its value.
    pub labels: Vec<(&'static str, String)>,
    pub pattern: Option<&'a Pattern>,
    /// Patterns that other settings of the rule are for.
    pub not: Vec<&'a Pattern>,
}

impl Selector<'_> {
    pub fn with(&self, label: &'static str, value: &str) -> Self {
        let mut narrower = self.clone();
        narrower.labels.push((label, value.into()));
        narrower
    }

    /// What tells its rules from those for other volumes.
    pub fn own_labels(&self) -> Vec<(&'static str, String)> {
        let pattern = self
            .pattern
            .map(|pattern| ("volumes", pattern.as_str().into()));
        self.labels.iter().cloned().chain(pattern).collect()
    }

    /// The series of a metric for these volumes.
    pub fn series(&self, metric: &str) -> String {
        let series = self.of_pattern(metric, self.pattern);
        let excluded = self
            .not
            .iter()
            .map(|pattern| format!(" unless {}", self.of_pattern(metric, Some(pattern))));
        match excluded.collect::<String>() {
            none if none.is_empty() => series,
            excluded => format!("({series}{excluded})"),
        }
    }

    fn of_pattern(&self, metric: &str, pattern: Option<&Pattern>) -> String {
        let labels = self
            .labels
            .iter()
            .map(|(label, value)| format!("{label}={}", quoted(value)));
        let matchers: Vec<String> = labels.chain(pattern.map(names)).collect();
        format!("{metric}{{{}}}", matchers.join(","))
    }
}

fn names(pattern: &Pattern) -> String {
    let (vg, lv) = pattern.regular_expressions();
    format!("vg=~{},lv=~{}", quoted(&vg), quoted(&lv))
}

/// An alert that is raised already, of this severity or of any.
pub fn firing(rule: Rule, severity: Option<Severity>) -> String {
    let severity = severity.map_or_else(String::new, |severity| {
        format!(",severity=\"{}\"", severity.text())
    });
    format!(
        "{ON} ALERTS{{alertname=\"{}\",alertstate=\"firing\"{severity}}}",
        alert_name(rule.name())
    )
}

/// The series of a metric in one state, without the label of that state.
pub fn in_state(selector: &Selector, metric: &'static str, state: &str) -> String {
    format!(
        "max without ({metric}) ({}) == 1",
        selector.with(metric, state).series(metric)
    )
}
