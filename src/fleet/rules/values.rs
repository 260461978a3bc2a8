//! Rules that Prometheus judges by the metrics of volumes. They raise, hold and clear as the built-in ones do, see
//! `alert::fill` and `alert::state`; `tests/fleet/rules.test.yml` has examples.

use super::ExportedRule;
use super::expression::{ON, Selector, firing, in_state};
use crate::alert::wording;
use crate::config::{Alerts, Measure, Rule, Severity, Thresholds};
use crate::fleet::eta;
use crate::fleet::volumes::{
    CREATED, FILL, HIGH_RISK, METADATA_FILL, NO_RISK, RACE, RISK, STATE, UNTIL_FULL,
};
use crate::forecast::EtaBasis;
use crate::source::variant_name;
use crate::topology::{State, VolumeKind};

/// Placeholders of Prometheus.
const NAME: &str = "{{ $labels.vg }}/{{ $labels.lv }}";
const OF: &str = "{{ with $labels.origin }} of {{ . }}{{ end }}";
const PERCENT: &str = "{{ printf \"%.2f\" $value }}";
const DURATION: &str = "{{ humanizeDuration $value }}";

/// A rule for volumes of one kind with the same settings.
struct Case<'a> {
    rule: Rule,
    kind: VolumeKind,
    thresholds: Thresholds,
    selector: Selector<'a>,
}

/// The rules of each severity, kind and setting; none if it is off, or if only the daemon can judge it.
pub fn of(rule: Rule, settings: &Alerts) -> Vec<ExportedRule> {
    let cases = settings.cases(rule);
    let mut rules = Vec::new();
    for (index, (pattern, thresholds)) in cases.iter().enumerate() {
        let Some(thresholds) = *thresholds else {
            continue;
        };
        let not: Vec<_> = cases[..index]
            .iter()
            .filter_map(|(pattern, _)| *pattern)
            .collect();
        for kind in kinds(rule) {
            let selector = Selector {
                labels: labels(rule, *kind),
                pattern: *pattern,
                not: not.clone(),
            };
            rules.extend(
                Case {
                    rule,
                    kind: *kind,
                    thresholds,
                    selector,
                }
                .rules(),
            );
        }
    }
    rules
}

/// The kinds of volumes whose sentences differ.
fn kinds(rule: Rule) -> &'static [VolumeKind] {
    match rule {
        Rule::SnapshotFill | Rule::SnapshotInvalid | Rule::SnapshotAge => &[VolumeKind::Snapshot],
        Rule::PoolData | Rule::PoolMetadata => &[VolumeKind::ThinPool],
        Rule::TimeUntilFull | Rule::FullBeforeDone => &[VolumeKind::Snapshot, VolumeKind::ThinPool],
        Rule::PoolState => &[
            VolumeKind::ThinPool,
            VolumeKind::VdoPool,
            VolumeKind::Cache,
            VolumeKind::Writecache,
        ],
        // It concerns all kinds, with the same sentence.
        Rule::MergeFailed => &[VolumeKind::Other],
        _ => &[],
    }
}

fn labels(rule: Rule, kind: VolumeKind) -> Vec<(&'static str, String)> {
    if rule == Rule::MergeFailed {
        Vec::new()
    } else {
        vec![("kind", variant_name(kind))]
    }
}

impl Case<'_> {
    fn rules(&self) -> Vec<ExportedRule> {
        match self.rule {
            Rule::SnapshotFill | Rule::PoolData => self.by_fill(&FILL.full_name()),
            Rule::PoolMetadata => self.by_fill(&METADATA_FILL.full_name()),
            Rule::TimeUntilFull => self.by_time(),
            Rule::FullBeforeDone => self.by_race(),
            Rule::SnapshotInvalid => {
                vec![self.by_state(State::Invalid, wording::invalid(NAME, OF, "before"))]
            }
            Rule::MergeFailed => {
                vec![self.by_state(State::MergeFailed, wording::merge_failed(NAME))]
            }
            Rule::PoolState => self.by_pool_state(),
            _ => vec![self.by_age()],
        }
    }

    /// A warning ends where a critical alert begins. Neither ends before it is cleared.
    fn by_fill(&self, metric: &str) -> Vec<ExportedRule> {
        let series = self.selector.series(metric);
        let Thresholds {
            warning,
            critical,
            clear,
            ..
        } = self.thresholds;
        let at = |percent: f64| format!("{series} >= {}", percent / 100.0);
        let raised = at(critical);
        let worst = self.held(
            &raised,
            &at(critical - (warning - clear)),
            Some(Severity::Critical),
        );
        let begins = if self.rule.has_outlook() {
            self.unless_done_first(&at(warning))
        } else {
            at(warning)
        };
        let mild = format!(
            "({})\nunless ({worst})",
            self.held(&begins, &at(clear), None)
        );
        [(Severity::Warning, mild), (Severity::Critical, worst)]
            .map(|(severity, expression)| {
                let subject = wording::subject(self.rule, self.kind);
                let full =
                    wording::full(subject, NAME, PERCENT, self.rule, severity, self.thresholds);
                let description = format!("{full}. {}", wording::extend(NAME));
                self.exported(severity, format!("100 * (\n{expression}\n)"), description)
            })
            .into()
    }

    fn by_time(&self) -> Vec<ExportedRule> {
        let [likely, _, latest] = UNTIL_FULL.map(|family| family.full_name());
        let Thresholds {
            warning,
            critical,
            clear,
            ..
        } = self.thresholds;
        let basis = eta::BASIS;
        let any = format!("max without ({basis}) ({})", self.selector.series(&likely));
        let tested = self
            .selector
            .with(basis, eta::basis(EtaBasis::Tested))
            .series(&likely);
        let tested = format!("max without ({basis}) ({tested})");
        let certain = format!("{tested} <= {critical} and {ON} {latest} <= {warning}");
        let worst = self.held(
            &certain,
            &format!("{any} <= {}", critical + (clear - warning)),
            Some(Severity::Critical),
        );
        let begins = self.unless_done_first(&format!("{tested} <= {warning}"));
        let mild = format!(
            "({})\nunless ({worst})",
            self.held(&begins, &format!("{any} <= {clear}"), None)
        );
        [(Severity::Warning, mild), (Severity::Critical, worst)]
            .map(|(severity, expression)| {
                let description = format!(
                    "{} in about {DURATION}{}. {}",
                    self.will_end(),
                    self.then(),
                    wording::extend(NAME)
                );
                self.exported(severity, expression, description)
            })
            .into()
    }

    fn by_race(&self) -> Vec<ExportedRule> {
        [
            (Severity::Warning, RACE, "may be"),
            (Severity::Critical, HIGH_RISK, "will probably be"),
        ]
        .map(|(severity, state, how)| {
            let subject = wording::subject(self.rule, self.kind);
            let description = format!(
                "{subject} {NAME} {how} full before the backup that reads it is done. {}",
                wording::extend(NAME)
            );
            self.exported(
                severity,
                in_state(&self.selector, RISK.name, state),
                description,
            )
        })
        .into()
    }

    fn by_pool_state(&self) -> Vec<ExportedRule> {
        let subject = wording::subject(self.rule, self.kind);
        [
            State::OutOfData,
            State::ReadOnly,
            State::NeedsCheck,
            State::Failed,
        ]
        .map(|state| {
            let remedy = if state == State::OutOfData {
                wording::EXTEND
            } else {
                ""
            };
            let writes = wording::WAIT_THEN_FAIL;
            self.by_state(
                state,
                wording::pool_state(state, subject, NAME, writes, remedy),
            )
        })
        .into()
    }

    fn by_state(&self, state: State, description: String) -> ExportedRule {
        let expression = in_state(&self.selector, STATE.name, &variant_name(state));
        let mut rule = self.exported(Severity::Critical, expression, description);
        rule.labels.push(("state", variant_name(state)));
        rule
    }

    fn by_age(&self) -> ExportedRule {
        let created = self.selector.series(&CREATED.full_name());
        let expression = format!("time() - {created} >= {}", self.thresholds.warning);
        self.exported(
            Severity::Warning,
            expression,
            wording::old(NAME, OF, DURATION, self.thresholds),
        )
    }

    /// Raised by one expression, and held by another while the alert fires.
    fn held(&self, raised: &str, kept: &str, severity: Option<Severity>) -> String {
        format!("{raised}\nor {kept} and {}", firing(self.rule, severity))
    }

    /// What a backup always needs is no warning, if it will certainly be enough.
    fn unless_done_first(&self, raised: &str) -> String {
        format!(
            "{raised} unless {ON} {0}{{{0}=\"{NO_RISK}\"}} == 1",
            RISK.name
        )
    }

    fn will_end(&self) -> String {
        format!(
            "{} {NAME} {}",
            wording::subject(self.rule, self.kind),
            wording::end(self.kind)
        )
    }

    fn then(&self) -> &'static str {
        if self.kind.is_thick_snapshot() {
            ""
        } else {
            wording::THEN_WRITES_FAIL
        }
    }

    /// Only warnings by value are held back, or rules without a value.
    fn exported(
        &self,
        severity: Severity,
        expression: String,
        description: String,
    ) -> ExportedRule {
        let is_held = severity == Severity::Warning || self.rule.measure() == Measure::State;
        ExportedRule {
            rule: self.rule,
            severity: Some(severity),
            labels: self.selector.own_labels(),
            expression,
            hold_s: if is_held { self.thresholds.hold_s } else { 0.0 },
            keep_firing_s: self.thresholds.keep_firing_s,
            description,
        }
    }
}
