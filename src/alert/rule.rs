//! The table of rules: the volumes that each applies to, and the evaluation of values against thresholds.

use super::Severity;
use crate::config::{Measure, Rule, Thresholds};
use crate::topology::VolumeKind;

/// The result of a rule for one volume in one tick.
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

impl Rule {
    /// The rules that apply to volumes.
    pub(super) const OF_VOLUMES: [Self; 11] = [
        Self::SnapshotFill,
        Self::PoolData,
        Self::PoolMetadata,
        Self::TimeUntilFull,
        Self::FullBeforeDone,
        Self::SnapshotInvalid,
        Self::MergeFailed,
        Self::PoolState,
        Self::AutoextendBlocked,
        Self::SnapshotAge,
        Self::SnapshotLeftOver,
    ];

    /// Whether the forecast of a running backup is part of its sentence.
    pub fn has_outlook(self) -> bool {
        matches!(
            self,
            Self::SnapshotFill | Self::PoolData | Self::TimeUntilFull | Self::FullBeforeDone
        )
    }

    pub(super) fn concerns(self, kind: VolumeKind) -> bool {
        match self {
            Self::SnapshotFill | Self::SnapshotInvalid | Self::SnapshotAge => {
                kind.is_thick_snapshot()
            }
            Self::PoolData | Self::PoolMetadata | Self::AutoextendBlocked => kind.is_thin_pool(),
            Self::TimeUntilFull | Self::FullBeforeDone => kind.can_overflow(),
            Self::SnapshotLeftOver => kind.is_snapshot(),
            Self::PoolState => kind.has_health(),
            // The origin has the state of a snapshot that is merged into it.
            Self::MergeFailed => true,
            _ => false,
        }
    }
}

/// Evaluates a value, given the severity of the open alert. Time left counts down.
pub(super) fn evaluate(
    rule: Rule,
    value: f64,
    thresholds: Thresholds,
    raised: Option<Severity>,
) -> Evaluation {
    let sign = if rule.measure() == Measure::TimeLeft {
        -1.0
    } else {
        1.0
    };
    let is_at = |threshold: f64| sign * value >= sign * threshold;
    let clearance = thresholds.warning - thresholds.clear;
    let is_cleared = |threshold: f64| !is_at(threshold - clearance);
    match raised {
        _ if is_at(thresholds.critical) => Evaluation::Raised(Severity::Critical),
        Some(Severity::Critical)
            if thresholds.critical.is_finite() && !is_cleared(thresholds.critical) =>
        {
            Evaluation::Unchanged
        }
        _ if is_at(thresholds.warning) => Evaluation::Raised(Severity::Warning),
        Some(_) if !is_cleared(thresholds.warning) => Evaluation::Raised(Severity::Warning),
        _ => Evaluation::Clear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule's state while its value changes, one character each: `-`, `W`, `C`.
    fn course(rule: Rule, thresholds: Thresholds, values: &[f64]) -> String {
        let mut raised = None;
        let letters = values.iter().map(|value| {
            match evaluate(rule, *value, thresholds, raised) {
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
            let found = course(Rule::SnapshotFill, Thresholds::default(), percents);
            assert_eq!(found, expected, "{percents:?}");
        }
    }

    #[test]
    fn less_time_left_is_worse() {
        let thresholds = Thresholds {
            warning: 30.0,
            critical: 10.0,
            clear: 40.0,
            ..Thresholds::STATE
        };
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
