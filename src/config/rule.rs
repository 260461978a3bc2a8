//! The rules of alerts: their names in configuration and API, their units, and their default thresholds.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    SnapshotFill,
    PoolData,
    PoolMetadata,
    /// A snapshot or pool will soon be full.
    TimeUntilFull,
    /// A snapshot or pool will be full before the backup that reads it is done.
    FullBeforeDone,
    SnapshotInvalid,
    MergeFailed,
    /// A pool out of data space, read-only, failed, or whose metadata needs a check.
    PoolState,
    /// LVM is to extend a pool, but its volume group has too little free space.
    AutoextendBlocked,
    SnapshotAge,
    /// A backup has ended, but its snapshot still exists.
    SnapshotLeftOver,
    /// A backup failed, was killed, lost its snapshot or read too little.
    #[serde(alias = "backup_untrustworthy")]
    BackupFailed,
    /// A volume had no good backup for longer than usual.
    BackupMissing,
    /// A backup runs much longer than earlier ones.
    BackupSlow,
    /// A backup read less than half of what earlier ones read.
    BackupSmall,
    /// The next snapshot of a backup is likely to overflow.
    SnapshotSmall,
    /// A backup holds the global read lock of the database.
    LockHeld,
    /// A part of the machine cannot be read.
    PartFailed,
    /// A part was not read for too long.
    DataOld,
    TicksMissed,
    /// The database is not written.
    StoreFailed,
}

/// What the value of a rule is, and so how its thresholds are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// `{ warning = 70, critical = 85 }`
    Percent,
    /// Seconds until something happens; less is worse: `{ warning = "30m", critical = "10m" }`
    TimeLeft,
    /// Seconds that something may last: `"24h"`
    Limit,
    /// Seconds that something may last, or as long as it usually does: `{ within = "26h" }`
    Period,
    /// There is none: `"on"`
    State,
}

/// Thresholds in the unit of the rule, percent or seconds; infinite if there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    pub warning: f64,
    pub critical: f64,
    /// Where the alert clears. A critical one becomes a warning equally far from its threshold.
    pub clear: f64,
    /// How long a warning must hold before it is raised. A rule without a value is held whatever its severity.
    pub hold_s: f64,
    /// How long it must be over before it clears.
    pub keep_firing_s: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            warning: 70.0,
            critical: 85.0,
            clear: 65.0,
            hold_s: 0.0,
            keep_firing_s: 0.0,
        }
    }
}

impl Thresholds {
    /// Of a rule without a value.
    pub const STATE: Self = Self {
        warning: f64::INFINITY,
        critical: f64::INFINITY,
        clear: f64::INFINITY,
        hold_s: 0.0,
        keep_firing_s: 0.0,
    };

    /// A warning from so many seconds on.
    pub const fn limit(seconds: f64) -> Self {
        Self {
            warning: seconds,
            clear: seconds,
            ..Self::STATE
        }
    }
}

impl Rule {
    pub const ALL: [Self; 21] = [
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
        Self::BackupFailed,
        Self::BackupMissing,
        Self::BackupSlow,
        Self::BackupSmall,
        Self::SnapshotSmall,
        Self::LockHeld,
        Self::PartFailed,
        Self::DataOld,
        Self::TicksMissed,
        Self::StoreFailed,
    ];
    /// [`Rule::name`] of each, in the same order.
    pub(super) const NAMES: [&'static str; 21] = [
        "snapshot_fill",
        "pool_data",
        "pool_metadata",
        "time_until_full",
        "full_before_done",
        "snapshot_invalid",
        "merge_failed",
        "pool_state",
        "autoextend_blocked",
        "snapshot_age",
        "snapshot_left_over",
        "backup_failed",
        "backup_missing",
        "backup_slow",
        "backup_small",
        "snapshot_small",
        "lock_held",
        "part_failed",
        "data_old",
        "ticks_missed",
        "store_failed",
    ];

    /// As in API and configuration.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// For display.
    pub fn text(self) -> String {
        self.name().replace('_', " ")
    }

    /// Whether it is about cowbell itself, so that its alerts have no volume.
    pub fn is_own(self) -> bool {
        matches!(
            self,
            Self::PartFailed | Self::DataOld | Self::TicksMissed | Self::StoreFailed
        )
    }

    /// Whether it is about the backups of a volume.
    pub fn is_of_backups(self) -> bool {
        matches!(
            self,
            Self::BackupFailed
                | Self::BackupMissing
                | Self::BackupSlow
                | Self::BackupSmall
                | Self::LockHeld
        )
    }

    /// Whether it is about how full a volume is and will be.
    pub fn is_of_filling(self) -> bool {
        matches!(
            self,
            Self::SnapshotFill | Self::PoolData | Self::TimeUntilFull | Self::FullBeforeDone
        )
    }

    pub fn measure(self) -> Measure {
        match self {
            Self::SnapshotFill | Self::PoolData | Self::PoolMetadata => Measure::Percent,
            Self::TimeUntilFull => Measure::TimeLeft,
            Self::SnapshotAge
            | Self::SnapshotLeftOver
            | Self::LockHeld
            | Self::PartFailed
            | Self::DataOld
            | Self::StoreFailed => Measure::Limit,
            Self::BackupMissing => Measure::Period,
            _ => Measure::State,
        }
    }

    pub(super) fn default_thresholds(self) -> Thresholds {
        let limit = Thresholds::limit;
        match self {
            Self::SnapshotFill | Self::PoolData | Self::PoolMetadata => Thresholds::default(),
            Self::TimeUntilFull => Thresholds {
                warning: 1800.0,
                critical: 600.0,
                clear: 2400.0,
                hold_s: 30.0,
                keep_firing_s: 60.0,
            },
            // A forecast may change its mind.
            Self::FullBeforeDone => Thresholds {
                hold_s: 10.0,
                keep_firing_s: 60.0,
                ..Thresholds::STATE
            },
            // At most one a day.
            Self::SnapshotSmall => Thresholds {
                keep_firing_s: 24.0 * 3600.0,
                ..Thresholds::STATE
            },
            Self::SnapshotAge => limit(24.0 * 3600.0),
            Self::SnapshotLeftOver => limit(1800.0),
            Self::LockHeld => limit(10.0),
            Self::PartFailed => limit(60.0),
            Self::DataOld => limit(900.0),
            Self::StoreFailed => limit(30.0),
            _ => Thresholds::STATE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_api() {
        for (index, rule) in Rule::ALL.into_iter().enumerate() {
            assert_eq!(rule as usize, index);
            assert_eq!(serde_json::to_value(rule).unwrap(), rule.name());
        }
    }
}
