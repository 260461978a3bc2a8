//! The table of the states of a volume. Grade, alerts, `status`, pages, API and `/metrics` follow from it; `docs/states.md`
//! describes each state.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::VolumeKind;
use crate::config::{Gravity, Rule, Severity};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Ok,
    /// The kernel has no device for it: it is not in use here.
    Inactive,
    /// I/O waits until it, or a device below it, is resumed.
    Suspended,
    /// A lost snapshot: its COW area overflowed or had an I/O error.
    Invalid,
    Merging,
    MergeFailed,
    ReadOnly,
    OutOfData,
    NeedsCheck,
    Failed,
    Unknown,
    /// A mirror or RAID with a failed leg.
    Degraded,
    /// A PV with a part of it is missing or gives only errors.
    Partial,
    /// A RAID that writes a leg anew.
    Rebuilding,
    /// A lost snapshot: its COW area was made smaller than what it held.
    CutShort,
    /// A RAID with a leg that failed, and whose PV is there again.
    RefreshNeeded,
    /// A RAID whose legs differ.
    MismatchesExist,
    /// A RAID with a leg that was split off for a while, such as for a backup.
    LegSplit,
}

/// From this weight on, I/O fails or hangs; below it, all data can be read.
const LOST_WEIGHT: u8 = 3;

/// A row of the table.
struct StateRow {
    text: &'static str,
    /// Of two states of one volume, the one with the higher weight counts.
    weight: u8,
    severity: Option<Severity>,
}

const fn critical(text: &'static str, weight: u8) -> StateRow {
    StateRow {
        text,
        weight,
        severity: Some(Severity::Critical),
    }
}

const fn warning(text: &'static str) -> StateRow {
    StateRow {
        text,
        weight: 1,
        severity: Some(Severity::Warning),
    }
}

const fn harmless(text: &'static str) -> StateRow {
    StateRow {
        text,
        weight: 0,
        severity: None,
    }
}

impl State {
    /// In the order of the store's numbering; append new ones.
    pub const ALL: [Self; 18] = [
        Self::Ok,
        Self::Inactive,
        Self::Suspended,
        Self::Invalid,
        Self::Merging,
        Self::MergeFailed,
        Self::ReadOnly,
        Self::OutOfData,
        Self::NeedsCheck,
        Self::Failed,
        Self::Unknown,
        Self::Degraded,
        Self::Partial,
        Self::Rebuilding,
        Self::CutShort,
        Self::RefreshNeeded,
        Self::MismatchesExist,
        Self::LegSplit,
    ];

    const fn row(self) -> StateRow {
        match self {
            Self::Ok => harmless("ok"),
            Self::Inactive => harmless("inactive"),
            Self::Merging => harmless("merging"),
            Self::Unknown => harmless("unknown"),
            Self::Rebuilding => warning("rebuilding"),
            Self::MismatchesExist => warning("mismatches exist"),
            Self::LegSplit => warning("leg split"),
            Self::RefreshNeeded => critical("refresh needed", 2),
            Self::Degraded => critical("degraded", 2),
            Self::Partial => critical("partial", 3),
            Self::Suspended => critical("suspended", 4),
            Self::Invalid => critical("invalid", 5),
            Self::CutShort => critical("cut short", 5),
            Self::MergeFailed => critical("merge failed", 5),
            Self::ReadOnly => critical("read only", 5),
            Self::OutOfData => critical("out of data", 5),
            Self::NeedsCheck => critical("needs check", 5),
            Self::Failed => critical("failed", 5),
        }
    }

    /// For display and the API.
    pub fn text(self) -> &'static str {
        self.row().text
    }

    /// Of two states of one volume, the one that counts.
    pub fn or_worse(self, other: Self) -> Self {
        if other.row().weight > self.row().weight {
            other
        } else {
            self
        }
    }

    /// What it means, and how bad it is among others that mean the same.
    pub fn urgency(self) -> (Gravity, u8) {
        let weight = self.row().weight;
        let gravity = if weight < LOST_WEIGHT {
            Gravity::Minor
        } else {
            Gravity::Lost
        };
        (gravity, weight)
    }

    /// Whether `/metrics` has a series of it for each volume of this kind; of another state, only while it lasts.
    pub fn has_series(self, kind: VolumeKind) -> bool {
        let is_plain = matches!(
            kind,
            VolumeKind::Linear | VolumeKind::Striped | VolumeKind::Mirror | VolumeKind::Raid
        );
        match self {
            Self::Ok | Self::Inactive | Self::Suspended | Self::Unknown => true,
            Self::Invalid => kind.is_thick_snapshot(),
            // The origin has the state of a snapshot that is merged into it.
            Self::Merging | Self::MergeFailed => is_plain || kind.is_thick_snapshot(),
            Self::OutOfData => kind.is_thin_pool(),
            Self::NeedsCheck => matches!(kind, VolumeKind::ThinPool | VolumeKind::Cache),
            Self::ReadOnly => kind.is_pool() || kind == VolumeKind::Cache,
            Self::Failed => !is_plain,
            Self::Degraded => matches!(kind, VolumeKind::Mirror | VolumeKind::Raid),
            Self::Partial
            | Self::Rebuilding
            | Self::CutShort
            | Self::RefreshNeeded
            | Self::MismatchesExist
            | Self::LegSplit => false,
        }
    }

    /// Whether a snapshot is lost.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::Invalid | Self::CutShort)
    }

    /// The alert that it raises for a volume of this kind.
    pub fn alert(self, kind: VolumeKind) -> Option<(Rule, Severity)> {
        let rule = match self {
            Self::Invalid | Self::CutShort => Rule::SnapshotInvalid,
            Self::MergeFailed => Rule::MergeFailed,
            Self::ReadOnly | Self::OutOfData | Self::NeedsCheck | Self::Failed
                if kind.has_health() =>
            {
                Rule::PoolState
            }
            _ => Rule::VolumeState,
        };
        Some((rule, self.row().severity?))
    }
}
