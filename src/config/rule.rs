//! The table of the rules of alerts: one row for each. What a rule measures, and what its alerts say, is in `alert`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct RuleRow {
    /// As in API and configuration.
    name: &'static str,
    subject: RuleSubject,
    measure: Measure,
    defaults: Thresholds,
    has_outlook: bool,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident = $row:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Rule {
            $($(#[$doc])* $rule,)*
        }

        impl Rule {
            pub const ALL: &'static [Self] = &[$(Self::$rule,)*];

            const fn row(self) -> RuleRow {
                match self {
                    $(Self::$rule => $row,)*
                }
            }
        }
    };
}

use RuleSubject::*;

rules! {
    SnapshotFill = percent("snapshot_fill", Snapshots).with_outlook();
    PoolData = percent("pool_data", ThinPools).with_outlook();
    PoolMetadata = percent("pool_metadata", ThinPools);
    /// A snapshot or pool will soon be full.
    TimeUntilFull = time_left("time_until_full", SnapshotsAndThinPools).held(30.0, 60.0).with_outlook();
    /// A snapshot or pool will be full before the backup that reads it is done. A forecast may change its mind.
    FullBeforeDone = state("full_before_done", SnapshotsAndThinPools).held(10.0, 60.0).with_outlook();
    SnapshotInvalid = state("snapshot_invalid", Snapshots);
    /// The origin has the state of a snapshot that is merged into it.
    MergeFailed = state("merge_failed", AllVolumes);
    /// A pool out of data space, read-only, failed, or whose metadata needs a check.
    PoolState = state("pool_state", PoolsAndCaches);
    /// LVM is to extend a pool, but its volume group has too little free space.
    AutoextendBlocked = state("autoextend_blocked", ThinPools);
    SnapshotAge = limit("snapshot_age", Snapshots, 24.0 * HOUR_S);
    /// A backup has ended, but its snapshot still exists.
    SnapshotLeftOver = limit("snapshot_left_over", AllSnapshots, 0.5 * HOUR_S);
    /// A backup failed, was killed, lost its snapshot or read too little.
    BackupFailed = state("backup_failed", Backups);
    /// A volume had no good backup for longer than usual.
    BackupMissing = state("backup_missing", Backups).with_period();
    /// A backup runs much longer than earlier ones.
    BackupSlow = state("backup_slow", Backups);
    /// A backup read less than half of what earlier ones read.
    BackupSmall = state("backup_small", Backups);
    /// The next snapshot of a backup is likely to overflow; at most one alert a day.
    SnapshotSmall = state("snapshot_small", NextSnapshots).held(0.0, 24.0 * HOUR_S);
    /// A backup holds the global read lock of the database.
    LockHeld = limit("lock_held", Backups, 10.0);
    /// A part of the machine cannot be read.
    PartFailed = limit("part_failed", Cowbell, 60.0);
    /// A part was not read for too long.
    DataOld = limit("data_old", Cowbell, 0.25 * HOUR_S);
    TicksMissed = state("ticks_missed", Cowbell);
    /// The database is not written.
    StoreFailed = limit("store_failed", Cowbell, 30.0);
}

const HOUR_S: f64 = 3600.0;

const fn percent(name: &'static str, subject: RuleSubject) -> RuleRow {
    RuleRow {
        measure: Measure::Percent,
        defaults: Thresholds::PERCENT,
        ..state(name, subject)
    }
}

const fn time_left(name: &'static str, subject: RuleSubject) -> RuleRow {
    RuleRow {
        measure: Measure::TimeLeft,
        defaults: Thresholds::TIME_LEFT,
        ..state(name, subject)
    }
}

const fn limit(name: &'static str, subject: RuleSubject, seconds: f64) -> RuleRow {
    RuleRow {
        measure: Measure::Limit,
        defaults: Thresholds::limit(seconds),
        ..state(name, subject)
    }
}

const fn state(name: &'static str, subject: RuleSubject) -> RuleRow {
    RuleRow {
        name,
        subject,
        measure: Measure::State,
        defaults: Thresholds::STATE,
        has_outlook: false,
    }
}

impl RuleRow {
    const fn with_outlook(mut self) -> Self {
        self.has_outlook = true;
        self
    }

    const fn with_period(mut self) -> Self {
        self.measure = Measure::Period;
        self
    }

    const fn held(mut self, hold_s: f64, keep_firing_s: f64) -> Self {
        self.defaults.hold_s = hold_s;
        self.defaults.keep_firing_s = keep_firing_s;
        self
    }
}

/// What the alerts of a rule are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleSubject {
    /// Thick ones.
    Snapshots,
    /// Thick and thin ones.
    AllSnapshots,
    ThinPools,
    SnapshotsAndThinPools,
    /// Thin and VDO pools, and cached volumes.
    PoolsAndCaches,
    AllVolumes,
    /// The volume of which the next snapshot is made.
    NextSnapshots,
    /// A volume that is backed up.
    Backups,
    Cowbell,
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

impl Thresholds {
    /// The default of rules by percentage.
    pub const PERCENT: Self = Self {
        warning: 70.0,
        critical: 85.0,
        clear: 65.0,
        ..Self::STATE
    };
    /// The default of rules by the time that is left.
    pub const TIME_LEFT: Self = Self {
        warning: 1800.0,
        critical: 600.0,
        clear: 2400.0,
        ..Self::STATE
    };
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
    pub fn name(self) -> &'static str {
        self.row().name
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|rule| rule.name() == name)
    }

    /// For display.
    pub fn text(self) -> String {
        self.name().replace('_', " ")
    }

    pub fn subject(self) -> RuleSubject {
        self.row().subject
    }

    pub fn measure(self) -> Measure {
        self.row().measure
    }

    pub fn default_thresholds(self) -> Thresholds {
        self.row().defaults
    }

    /// Whether it is about how full a volume is and will be, so that the forecast of a running backup is part of it.
    pub fn has_outlook(self) -> bool {
        self.row().has_outlook
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_api() {
        for (index, rule) in Rule::ALL.iter().enumerate() {
            assert_eq!(*rule as usize, index);
            assert_eq!(serde_json::to_value(rule).unwrap(), rule.name());
        }
    }
}
