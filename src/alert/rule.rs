//! The rules: what each is about, and what it says of one volume in one tick, given what it said before.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Severity;
use crate::config::{Alerts as Settings, Thresholds};
use crate::topology::{State, VolumeKind, VolumeState};
use crate::units::Fill;

/// An alert that was raised is cleared this many percentage points below its threshold, so that it does not flutter.
pub(super) const CLEARANCE: f64 = 5.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    SnapshotFill,
    PoolData,
    PoolMetadata,
    SnapshotInvalid,
    /// A backup reported success, but lost what it read.
    BackupUntrustworthy,
}

impl Rule {
    /// Those that are judged on volumes.
    pub(super) const OF_VOLUMES: [Self; 4] =
        [Self::SnapshotFill, Self::PoolData, Self::PoolMetadata, Self::SnapshotInvalid];

    pub fn name(self) -> &'static str {
        match self {
            Self::SnapshotFill => "snapshot_fill",
            Self::PoolData => "pool_data",
            Self::PoolMetadata => "pool_metadata",
            Self::SnapshotInvalid => "snapshot_invalid",
            Self::BackupUntrustworthy => "backup_untrustworthy",
        }
    }

    /// As it is written for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::SnapshotFill => "snapshot fill",
            Self::PoolData => "pool data",
            Self::PoolMetadata => "pool metadata",
            Self::SnapshotInvalid => "snapshot invalid",
            Self::BackupUntrustworthy => "backup untrustworthy",
        }
    }

    pub(super) fn concerns(self, kind: VolumeKind) -> bool {
        match self {
            Self::SnapshotFill | Self::SnapshotInvalid => kind == VolumeKind::Snapshot,
            Self::PoolData | Self::PoolMetadata => kind == VolumeKind::ThinPool,
            Self::BackupUntrustworthy => false,
        }
    }

    pub(super) fn fill(self, state: &VolumeState) -> Option<Fill> {
        match self {
            Self::SnapshotFill | Self::PoolData => state.fill,
            Self::PoolMetadata => state.metadata,
            Self::SnapshotInvalid | Self::BackupUntrustworthy => None,
        }
    }

    pub(super) fn thresholds(self, settings: &Settings) -> Thresholds {
        match self {
            Self::SnapshotFill | Self::SnapshotInvalid | Self::BackupUntrustworthy => settings.snapshot_fill,
            Self::PoolData => settings.pool_data,
            Self::PoolMetadata => settings.pool_metadata,
        }
    }
}

/// What one rule says of one volume in one tick.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Raised(Severity),
    Clear,
    /// Nothing can be said, or the value is between raising and clearing.
    AsBefore,
}

/// One rule's word, given what it said before.
pub(super) fn verdict(
    rule: Rule,
    state: &VolumeState,
    thresholds: Thresholds,
    raised: Option<Severity>,
) -> Verdict {
    match state.state {
        State::Invalid if rule == Rule::SnapshotInvalid => return Verdict::Raised(Severity::Critical),
        // The alert that it is invalid says all there is to say.
        State::Invalid | State::Inactive => return Verdict::Clear,
        State::Unknown => return Verdict::AsBefore,
        // What is invalid never becomes valid again: it is being removed.
        _ if rule == Rule::SnapshotInvalid => return Verdict::AsBefore,
        _ => {}
    }
    let Some(percent) = rule.fill(state).map(Fill::percent) else { return Verdict::AsBefore };
    let cleared_below = |threshold: f64| percent < threshold - CLEARANCE;
    match raised {
        _ if percent >= thresholds.critical => Verdict::Raised(Severity::Critical),
        Some(Severity::Critical) if !cleared_below(thresholds.critical) => Verdict::AsBefore,
        _ if percent >= thresholds.warning => Verdict::Raised(Severity::Warning),
        Some(_) if !cleared_below(thresholds.warning) => Verdict::Raised(Severity::Warning),
        _ => Verdict::Clear,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rule says as a snapshot's fill goes through `percents`, one letter each: `-`, `W`, `C`.
    fn course(percents: &[f64]) -> String {
        let thresholds = Thresholds { warning: 70.0, critical: 85.0 };
        let mut raised = None;
        let letters = percents.iter().map(|percent| {
            let fill = Fill { used: (percent * 100.0) as u64, total: 10_000, unit: 512 };
            let state = VolumeState { fill: Some(fill), metadata: None, sync: None, state: State::Ok };
            match verdict(Rule::SnapshotFill, &state, thresholds, raised) {
                Verdict::Raised(severity) => raised = Some(severity),
                Verdict::Clear => raised = None,
                Verdict::AsBefore => {}
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
    fn what_is_not_known_changes_nothing() {
        let unknown = VolumeState { fill: None, metadata: None, sync: None, state: State::Unknown };
        let thresholds = Thresholds::default();
        for rule in Rule::OF_VOLUMES {
            assert_eq!(verdict(rule, &unknown, thresholds, Some(Severity::Warning)), Verdict::AsBefore);
        }
    }
}
