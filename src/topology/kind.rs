//! Kinds of volumes, and how to derive them from LVM's report.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

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
    /// Whether the kernel reports usage for an active volume of this kind.
    pub fn fills(self) -> bool {
        matches!(
            self,
            Self::Snapshot | Self::ThinPool | Self::Thin | Self::ThinSnapshot
        )
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
pub(super) fn from_report(volume: &lvm::Volume, has_origin: bool) -> VolumeKind {
    match volume.segment_type().unwrap_or_default() {
        "linear" if volume.attributes.starts_with(['s', 'S']) => VolumeKind::Snapshot,
        "error" | "zero" => VolumeKind::Linear,
        "thin" if has_origin => VolumeKind::ThinSnapshot,
        segments => VolumeKind::of_type(segments),
    }
}
