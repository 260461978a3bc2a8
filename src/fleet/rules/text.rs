//! Rules as YAML. Each string is quoted as in JSON, which YAML reads too.
//!
//! Alerts are called as the built-in ones are at Alertmanager.

use super::ExportedRule;
use crate::config::Severity;

const HEAD: &str = "# Rules of cowbell, by `cowbell export-rules`. Export them again after a change of the configuration.\n\
    groups:\n  - name: cowbell\n    rules:\n";

/// In a summary, if it is about one.
const OF_VOLUME: &str =
    "{{ with $labels.lv }} of {{ with $labels.vg }}{{ . }}/{{ end }}{{ . }}{{ end }}";

pub fn yaml(rules: &[ExportedRule]) -> String {
    rules
        .iter()
        .fold(HEAD.into(), |text, rule| text + &entry(rule))
}

fn entry(rule: &ExportedRule) -> String {
    let shown = rule
        .severity
        .map_or("{{ $labels.severity }}", Severity::text);
    let summary = format!(
        "{{{{ $labels.instance }}}}: {shown}: {}{OF_VOLUME}",
        rule.rule.text()
    );
    let lines = [
        format!("      - alert: {}\n", alert_name(rule.rule.name())),
        format!("        expr: |-\n{}", indented(&rule.expression)),
        period("for", rule.hold_s),
        period("keep_firing_for", rule.keep_firing_s),
        labels(rule),
        format!(
            "        annotations:\n          summary: {}\n",
            quoted(&summary)
        ),
        format!("          description: {}\n", quoted(&rule.description)),
    ];
    lines.concat()
}

fn labels(rule: &ExportedRule) -> String {
    let severity = rule.severity.map(|severity| ("severity", severity.text()));
    let others = rule.labels.iter().map(|(label, value)| (*label, &**value));
    let lines = severity.into_iter().chain(others);
    let lines: String = lines
        .map(|(label, value)| format!("          {label}: {}\n", quoted(value)))
        .collect();
    if lines.is_empty() {
        lines
    } else {
        format!("        labels:\n{lines}")
    }
}

/// As built-in alerts are called at Alertmanager.
pub fn alert_name(rule: &str) -> String {
    format!("cowbell_{rule}")
}

pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn indented(expression: &str) -> String {
    expression
        .lines()
        .map(|line| format!("          {line}\n"))
        .collect()
}

/// Prometheus knows no fractions of seconds.
fn period(key: &str, seconds: f64) -> String {
    if seconds > 0.0 {
        format!("        {key}: {}s\n", seconds.ceil())
    } else {
        String::new()
    }
}
