//! The rules of alerts for Prometheus and vmalert, made of the configuration and the wording of the built-in alerts.
//!
//! A rule about a value is judged by Prometheus: by the thresholds, holds and clearances that the daemon itself would use,
//! where `ALERTS` stands for an alert that is already raised. A rule about what happened before, such as the usual length of a
//! backup, is judged by the daemon, which exports its open alerts.

mod expression;
mod judged;
mod text;
mod values;

use crate::config::{Alerts, Rule, Severity};

/// One rule of Prometheus.
struct ExportedRule {
    rule: Rule,
    /// `None` if it is a label of the expression.
    severity: Option<Severity>,
    /// What tells rules of the same name apart.
    labels: Vec<(&'static str, String)>,
    expression: String,
    hold_s: f64,
    keep_firing_s: f64,
    description: String,
}

/// All rules as YAML, which Prometheus from 2.42 and vmalert read.
pub fn rules(settings: &Alerts) -> String {
    let of = |rule: Rule| {
        values::of(rule, settings)
            .into_iter()
            .chain(judged::of(rule, settings))
    };
    text::yaml(&Rule::ALL.into_iter().flat_map(of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exported(configuration: &str) -> String {
        rules(&toml::from_str(configuration).unwrap())
    }

    #[test]
    fn each_rule_is_judged_either_by_prometheus_or_by_the_daemon() {
        let settings = Alerts::default();
        for rule in Rule::ALL {
            let (by_value, by_daemon) = (values::of(rule, &settings), judged::of(rule, &settings));
            assert_ne!(by_value.is_empty(), by_daemon.is_none(), "{rule:?}");
        }
    }

    #[test]
    fn rules_are_those_of_the_configuration() {
        for (configuration, present, absent) in [
            ("", ">= 0.7 unless", ">= 0.6 "),
            (
                "snapshot_fill = { warning = 60, critical = 80.05 }",
                "(critical from 80.05 %)",
                "(critical from 80 %)",
            ),
            (
                "snapshot_age = \"1h\"",
                "{kind=\"snapshot\"} >= 3600\n",
                ">= 86400",
            ),
            (
                "time_until_full = { warning = \"1h\", critical = \"9m\", for = \"7s\" }",
                "for: 7s",
                "for: 30s",
            ),
            (
                "snapshot_invalid = \"off\"",
                "cowbell_merge_failed",
                "cowbell_snapshot_invalid",
            ),
            (
                "backup_slow = \"off\"",
                "cowbell_backup_small",
                "cowbell_backup_slow",
            ),
        ] {
            let text = exported(configuration);
            assert!(
                text.contains(present) && !text.contains(absent),
                "{configuration}: {text}"
            );
        }
    }

    #[test]
    fn volumes_with_other_settings_have_a_rule_of_their_own() {
        let text = exported(
            "[[for]]\nlv = \"vg0/my*\"\nsnapshot_age = \"1h\"\n[[for]]\nlv = \"vg.1/*\"\nsnapshot_age = \"off\"",
        );
        let metric = "cowbell_volume_created_timestamp_seconds{kind=\"snapshot\"";
        for expression in [
            format!("time() - {metric},vg=~\"vg0\",lv=~\"my.*\"}} >= 3600\n"),
            format!(
                "time() - ({metric}}} unless {metric},vg=~\"vg0\",lv=~\"my.*\"}} unless {metric},vg=~\"vg[.]1\",lv=~\".*\"}}) \
                 >= 86400\n"
            ),
        ] {
            assert!(
                text.contains(&expression),
                "expected {expression} in {text}"
            );
        }
        assert_eq!(text.matches("alert: cowbell_snapshot_age").count(), 2);
    }
}
