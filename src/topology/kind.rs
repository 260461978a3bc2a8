//! Kinds of volumes, and how to derive them from LVM's report.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::Rule;
use crate::sample::lvm;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum VolumeKind {
    Linear,
    Striped,
    Mirror,
    Raid,
    /// A thick snapshot, with a COW area of its own.
    Snapshot,
    ThinPool,
    Thin,
    /// A thin snapshot of another volume.
    ThinSnapshot,
    Cache,
    Writecache,
    VdoPool,
    Vdo,
    #[default]
    Other,
}

impl VolumeKind {
    pub fn is_thick_snapshot(self) -> bool {
        self == Self::Snapshot
    }

    pub fn is_snapshot(self) -> bool {
        matches!(self, Self::Snapshot | Self::ThinSnapshot)
    }

    /// Whether it lies in a thin pool.
    pub fn is_thin(self) -> bool {
        matches!(self, Self::Thin | Self::ThinSnapshot)
    }

    pub fn is_thin_pool(self) -> bool {
        self == Self::ThinPool
    }

    /// Whether other volumes lie in it, so that it contains no file system of its own.
    pub fn is_pool(self) -> bool {
        matches!(self, Self::ThinPool | Self::VdoPool)
    }

    /// Whether data is lost when it is full: a thick snapshot becomes invalid, a thin pool refuses writes.
    pub fn can_overflow(self) -> bool {
        matches!(self, Self::Snapshot | Self::ThinPool)
    }

    /// The rule about its usage in percent; `None` if it cannot overflow.
    pub fn fill_rule(self) -> Option<Rule> {
        match self {
            Self::Snapshot => Some(Rule::SnapshotFill),
            Self::ThinPool => Some(Rule::PoolData),
            _ => None,
        }
    }

    /// Whether it is production data, of which snapshots and backups are made.
    pub fn can_have_snapshots(self) -> bool {
        !self.is_snapshot() && !self.is_pool()
    }

    /// Whether the kernel reports usage for an active volume of this kind.
    pub fn fills(self) -> bool {
        self.can_overflow() || self.is_thin()
    }

    /// Whether the kernel reports a state of its metadata, such as `needs check`.
    pub fn has_health(self) -> bool {
        self.is_pool() || matches!(self, Self::Cache | Self::Writecache)
    }

    /// At the start of a sentence.
    pub fn noun(self) -> &'static str {
        match self {
            Self::ThinPool => "Thin pool",
            Self::VdoPool => "VDO pool",
            Self::Cache | Self::Writecache => "Cached volume",
            Self::Snapshot | Self::ThinSnapshot => "Snapshot",
            _ => "Volume",
        }
    }

    /// The kind of a volume by the name of its segment type or kernel target.
    pub(super) fn of_type(name: &str) -> Self {
        match name {
            "linear" => Self::Linear,
            "striped" => Self::Striped,
            "mirror" => Self::Mirror,
            "snapshot" => Self::Snapshot,
            "thin-pool" => Self::ThinPool,
            "thin" => Self::Thin,
            "cache" | "cache-pool" => Self::Cache,
            "writecache" => Self::Writecache,
            "vdo-pool" => Self::VdoPool,
            "vdo" => Self::Vdo,
            _ if name.starts_with("raid") => Self::Raid,
            _ => Self::Other,
        }
    }

    /// For display.
    pub fn text(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Striped => "striped",
            Self::Mirror => "mirror",
            Self::Raid => "raid",
            Self::Snapshot => "snapshot",
            Self::ThinPool => "thin pool",
            Self::Thin => "thin",
            Self::ThinSnapshot => "thin snapshot",
            Self::Cache => "cache",
            Self::Writecache => "writecache",
            Self::VdoPool => "VDO pool",
            Self::Vdo => "VDO",
            Self::Other => "other",
        }
    }
}

/// `has_origin` is whether it is a snapshot of another volume.
pub(super) fn from_report(volume: &lvm::ReportedVolume, has_origin: bool) -> VolumeKind {
    match volume.segment_type().unwrap_or_default() {
        "linear" if volume.attributes.starts_with(['s', 'S']) => VolumeKind::Snapshot,
        "error" | "zero" => VolumeKind::Linear,
        "thin" if has_origin => VolumeKind::ThinSnapshot,
        segments => VolumeKind::of_type(segments),
    }
}
