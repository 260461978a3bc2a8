//! Alert rules: the volumes that each applies to, and its evaluation for one volume in one tick.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Severity;
use crate::config::{Alerts as Settings, Thresholds};
use crate::source::variant_name;
use crate::topology::{State, VolumeKind, VolumeState};
use crate::units::Fill;

/// Hysteresis: an alert clears this many percentage points below its threshold.
pub(super) const CLEARANCE: f64 = 5.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    SnapshotFill,
    PoolData,
    PoolMetadata,
    SnapshotInvalid,
    /// A backup failed, was killed, lost its snapshot or read too little.
    #[serde(alias = "backup_untrustworthy")]
    BackupFailed,
}

impl Rule {
    /// The rules that apply to volumes.
    pub(super) const OF_VOLUMES: [Self; 4] =
        [Self::SnapshotFill, Self::PoolData, Self::PoolMetadata, Self::SnapshotInvalid];

    /// As in the API.
    pub fn name(self) -> String {
        variant_name(self)
    }

    /// For display.
    pub fn text(self) -> String {
        self.name().replace('_', " ")
    }

    /// Whether the forecast of a running backup is part of its sentence.
    pub fn has_outlook(self) -> bool {
        matches!(self, Self::SnapshotFill | Self::PoolData)
    }

    pub(super) fn concerns(self, kind: VolumeKind) -> bool {
        match self {
            Self::SnapshotFill | Self::SnapshotInvalid => kind == VolumeKind::Snapshot,
            Self::PoolData | Self::PoolMetadata => kind == VolumeKind::ThinPool,
            Self::BackupFailed => false,
        }
    }

    pub(super) fn fill(self, state: &VolumeState) -> Option<Fill> {
        match self {
            Self::SnapshotFill | Self::PoolData => state.fill,
            Self::PoolMetadata => state.metadata,
            Self::SnapshotInvalid | Self::BackupFailed => None,
        }
    }

    pub(super) fn thresholds(self, settings: &Settings) -> Thresholds {
        match self {
            Self::SnapshotFill | Self::SnapshotInvalid | Self::BackupFailed => settings.snapshot_fill,
            Self::PoolData => settings.pool_data,
            Self::PoolMetadata => settings.pool_metadata,
        }
    }
}

/// The result of a rule for one volume in one tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Evaluation {
    Raised(Severity),
    Clear,
    /// The value is unknown, or lies between the thresholds for raising and clearing.
    Unchanged,
}

/// Evaluates a rule, given the severity of its open alert.
pub(super) fn evaluate(
    rule: Rule,
    state: &VolumeState,
    thresholds: Thresholds,
    raised: Option<Severity>,
) -> Evaluation {
    match state.state {
        State::Invalid if rule == Rule::SnapshotInvalid => return Evaluation::Raised(Severity::Critical),
        // The alert `SnapshotInvalid` covers it.
        State::Invalid | State::Inactive => return Evaluation::Clear,
        State::Unknown => return Evaluation::Unchanged,
        // An invalid snapshot stays invalid: another state means that it is being removed.
        _ if rule == Rule::SnapshotInvalid => return Evaluation::Unchanged,
        _ => {}
    }
    let Some(percent) = rule.fill(state).map(Fill::percent) else { return Evaluation::Unchanged };
    let cleared_below = |threshold: f64| percent < threshold - CLEARANCE;
    match raised {
        _ if percent >= thresholds.critical => Evaluation::Raised(Severity::Critical),
        Some(Severity::Critical) if !cleared_below(thresholds.critical) => Evaluation::Unchanged,
        _ if percent >= thresholds.warning => Evaluation::Raised(Severity::Warning),
        Some(_) if !cleared_below(thresholds.warning) => Evaluation::Raised(Severity::Warning),
        _ => Evaluation::Clear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule's state while a snapshot's fill changes, one character each: `-`, `W`, `C`.
    fn course(percents: &[f64]) -> String {
        let thresholds = Thresholds { warning: 70.0, critical: 85.0 };
        let mut raised = None;
        let letters = percents.iter().map(|percent| {
            let fill = Fill { used: (percent * 100.0) as u64, total: 10_000, unit: 512 };
            let state = VolumeState { fill: Some(fill), metadata: None, sync: None, state: State::Ok };
            match evaluate(Rule::SnapshotFill, &state, thresholds, raised) {
                Evaluation::Raised(severity) => raised = Some(severity),
                Evaluation::Clear => raised = None,
                Evaluation::Unchanged => {}
            }
            raised.map_or('-', |severity| if severity == Severity::Warning { 'W' } else { 'C' })
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
            assert_eq!(course(percents), expected, "{percents:?}");
        }
    }

    #[test]
    fn unknown_values_change_nothing() {
        let unknown = VolumeState { fill: None, metadata: None, sync: None, state: State::Unknown };
        let thresholds = Thresholds::default();
        for rule in Rule::OF_VOLUMES {
            assert_eq!(evaluate(rule, &unknown, thresholds, Some(Severity::Warning)), Evaluation::Unchanged);
        }
    }
}
