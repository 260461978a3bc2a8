//! The table of the rules of alerts: one row for each. What a rule measures, and what its alerts say, is in `alert`.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct RuleRow {
    subject: RuleSubject,
    measure: Measure,
    defaults: Thresholds,
    has_outlook: bool,
    gravity: Gravity,
}

/// A name is that of the rule in API and configuration. It is a `tt`: utoipa does not read a `literal` of a macro.
macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident $name:tt = $row:expr;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        pub enum Rule {
            $($(#[$doc])* #[serde(rename = $name)] $rule,)*
        }

        impl Rule {
            pub const ALL: &'static [Self] = &[$(Self::$rule,)*];

            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$rule => $name,)*
                }
            }

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
    SnapshotFill "snapshot_fill" = percent(Snapshots).with_outlook();
    PoolData "pool_data" = percent(ThinPools).with_outlook();
    PoolMetadata "pool_metadata" = percent(ThinPools);
    /// A snapshot or pool will soon be full.
    TimeUntilFull "time_until_full" = time_left(SnapshotsAndThinPools).held(30.0, 60.0).with_outlook();
    /// A snapshot or pool will be full before the backup that reads it is done. A forecast may change its mind.
    FullBeforeDone "full_before_done" = state(SnapshotsAndThinPools).held(10.0, 60.0).with_outlook().with_gravity(Gravity::WillBeLost);
    SnapshotInvalid "snapshot_invalid" = state(Snapshots).with_gravity(Gravity::Lost);
    /// The origin has the state of a snapshot that is merged into it.
    MergeFailed "merge_failed" = state(AllVolumes);
    /// A pool out of data space, read-only, failed, or whose metadata needs a check.
    PoolState "pool_state" = state(PoolsAndCaches);
    /// A volume that is suspended, partial, degraded, rebuilding or failed.
    VolumeState "volume_state" = state(AllVolumes).held(5.0, 0.0);
    /// A volume group misses a PV, or LVM finds one twice.
    GroupState "group_state" = state(Groups);
    /// LVM would refuse the next snapshot: its pool is too full, or a volume has its name.
    NextSnapshotBlocked "next_snapshot_blocked" = state(AllVolumes).held(30.0, 0.0);
    /// LVM is to extend a pool, but its volume group has too little free space.
    AutoextendBlocked "autoextend_blocked" = state(ThinPools);
    SnapshotAge "snapshot_age" = limit(Snapshots, 24.0 * HOUR_S);
    /// A backup has ended, but its snapshot still exists.
    SnapshotLeftOver "snapshot_left_over" = limit(AllSnapshots, 0.5 * HOUR_S);
    /// A backup failed, was killed, lost its snapshot or read too little.
    BackupFailed "backup_failed" = state(Backups).with_gravity(Gravity::Lost);
    /// A volume had no good backup for longer than usual.
    BackupMissing "backup_missing" = state(Backups).with_period();
    /// A backup runs much longer than earlier ones.
    BackupSlow "backup_slow" = state(Backups);
    /// A backup read less than half of what earlier ones read.
    BackupSmall "backup_small" = state(Backups);
    /// The next snapshot of a backup is likely to overflow; at most one alert a day.
    SnapshotSmall "snapshot_small" = state(NextSnapshots).held(0.0, 24.0 * HOUR_S);
    /// A backup holds the global read lock of the database.
    LockHeld "lock_held" = limit(Backups, 10.0);
    /// A part of the machine cannot be read.
    PartFailed "part_failed" = limit(Cowbell, 60.0);
    /// A part was not read for too long.
    DataOld "data_old" = limit(Cowbell, 0.25 * HOUR_S);
    TicksMissed "ticks_missed" = state(Cowbell);
    /// The configuration file was refused when it was to be taken.
    ConfigurationRefused "configuration_refused" = state(Cowbell);
    /// `cowbell guard` does not run although it was to, acted, failed, or may not act.
    Guard "guard" = state(Cowbell).held(0.0, 60.0);
    /// The database is not written.
    StoreFailed "store_failed" = limit(Cowbell, 30.0);
}

const HOUR_S: f64 = 3600.0;

const fn percent(subject: RuleSubject) -> RuleRow {
    RuleRow {
        measure: Measure::Percent,
        defaults: Thresholds::percent(70.0, 85.0),
        ..state(subject)
    }
}

const fn time_left(subject: RuleSubject) -> RuleRow {
    RuleRow {
        measure: Measure::TimeLeft,
        defaults: Thresholds::time_left(0.5 * HOUR_S, HOUR_S / 6.0),
        ..state(subject)
    }
}

const fn limit(subject: RuleSubject, seconds: f64) -> RuleRow {
    RuleRow {
        measure: Measure::Limit,
        defaults: Thresholds::limit(seconds),
        ..state(subject)
    }
}

const fn state(subject: RuleSubject) -> RuleRow {
    RuleRow {
        subject,
        measure: Measure::State,
        defaults: Thresholds::NONE,
        has_outlook: false,
        gravity: Gravity::Minor,
    }
}

impl RuleRow {
    const fn with_outlook(mut self) -> Self {
        self.has_outlook = true;
        self.gravity = Gravity::AtRisk;
        self
    }

    const fn with_gravity(mut self, gravity: Gravity) -> Self {
        self.gravity = gravity;
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

/// What an alert means for backups: a snapshot at 95 % must not hide one that is lost. Where an alert follows from the state
/// of its volume, the state says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gravity {
    Minor,
    /// A running backup may be lost.
    AtRisk,
    /// A running backup will be lost.
    WillBeLost,
    /// Data or a backup is lost.
    Lost,
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
    /// Volume groups.
    Groups,
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
    /// Of a rule without a value.
    pub const NONE: Self = Self {
        warning: f64::INFINITY,
        critical: f64::INFINITY,
        clear: f64::INFINITY,
        hold_s: 0.0,
        keep_firing_s: 0.0,
    };

    /// Clears five percentage points below the warning: 70 clears at 65, and 4 at 2.
    pub const fn percent(warning: f64, critical: f64) -> Self {
        Self {
            warning,
            critical,
            clear: (warning - 5.0).max(warning / 2.0),
            ..Self::NONE
        }
    }

    /// Clears at a time that is a third longer than the warning: 30 min at 40 min.
    pub const fn time_left(warning: f64, critical: f64) -> Self {
        Self {
            warning,
            critical,
            clear: warning * 4.0 / 3.0,
            ..Self::NONE
        }
    }

    /// A warning from so many seconds on.
    pub const fn limit(seconds: f64) -> Self {
        Self {
            warning: seconds,
            clear: seconds,
            ..Self::NONE
        }
    }
}

impl Rule {
    pub fn named(name: &str) -> Option<Self> {
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

    pub fn gravity(self) -> Gravity {
        self.row().gravity
    }
}
