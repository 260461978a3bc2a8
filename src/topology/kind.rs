//! Kinds of volumes, and how to derive them from LVM's report.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::sample::lvm;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
    Other,
}

impl VolumeKind {
    /// Whether the kernel reports usage for an active volume of this kind.
    pub fn fills(self) -> bool {
        matches!(self, Self::Snapshot | Self::ThinPool | Self::Thin | Self::ThinSnapshot)
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

pub(super) fn from_report(volume: &lvm::Volume) -> VolumeKind {
    match volume.segment_type().unwrap_or_default() {
        "linear" if volume.attributes.starts_with(['s', 'S']) => VolumeKind::Snapshot,
        "linear" | "error" | "zero" => VolumeKind::Linear,
        "striped" => VolumeKind::Striped,
        "mirror" => VolumeKind::Mirror,
        "snapshot" => VolumeKind::Snapshot,
        "thin-pool" => VolumeKind::ThinPool,
        "thin" if volume.origin.is_some() => VolumeKind::ThinSnapshot,
        "thin" => VolumeKind::Thin,
        "cache" | "cache-pool" => VolumeKind::Cache,
        "writecache" => VolumeKind::Writecache,
        "vdo-pool" => VolumeKind::VdoPool,
        "vdo" => VolumeKind::Vdo,
        segments if segments.starts_with("raid") => VolumeKind::Raid,
        _ => VolumeKind::Other,
    }
}
