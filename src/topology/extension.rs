//! How a volume can be extended with the free space of its volume group.

use super::{Group, Volume};

/// LVM's default.
const DEFAULT_EXTENT: u64 = 4 << 20;

/// What `lvextend` can do for a volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Extensible {
    /// `vg0/mysql_snapshot`
    pub name: String,
    pub vg: String,
    pub option: &'static str,
    /// In bytes; LVM's default if unknown.
    pub extent: u64,
    /// Free bytes of the volume group; `None` if unknown.
    pub free: Option<u64>,
}

/// An extension, in whole extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    pub bytes: u64,
    pub command: String,
}

impl Extensible {
    /// `option` is `-L`, or `--poolmetadatasize` for a pool's metadata.
    pub fn new(volume: &Volume, group: Option<&Group>, option: &'static str) -> Self {
        Self {
            name: volume.full_name(),
            vg: volume.vg.clone(),
            option,
            extent: extent_of(group),
            free: group.and_then(|group| group.free),
        }
    }

    /// By at least so many bytes, if the group has them; otherwise by all that it has, and `None` if it has no extent.
    pub fn by(&self, bytes: u64) -> Option<Extension> {
        let most = self.free.map_or(u64::MAX, |free| free / self.extent);
        let extents = bytes.div_ceil(self.extent).max(1).min(most);
        let bytes = extents.saturating_mul(self.extent);
        let command = format!(
            "lvextend {} +{} {}",
            self.option,
            lvm_size(bytes),
            self.name
        );
        (extents > 0).then_some(Extension { bytes, command })
    }
}

impl Group {
    /// LVM's default if unknown.
    pub fn extent_bytes(&self) -> u64 {
        extent_of(Some(self))
    }
}

/// The size of an extent in bytes; LVM's default if unknown.
pub fn extent_of(group: Option<&Group>) -> u64 {
    let extent = group.and_then(|group| group.extent);
    extent
        .filter(|extent| *extent > 0)
        .unwrap_or(DEFAULT_EXTENT)
}

/// A size as LVM's commands take it, a whole number: `40m`
pub fn lvm_size(bytes: u64) -> String {
    let units = [(30, "g"), (20, "m"), (10, "k")];
    let (shift, unit) = units
        .into_iter()
        .find(|(shift, _)| bytes.is_multiple_of(1 << shift))
        .unwrap_or((0, "b"));
    format!("{}{unit}", bytes >> shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(free: Option<u64>, extent: u64, wanted: u64, expected: Option<&str>) {
        let room = Extensible {
            name: "vg0/snap".into(),
            option: "-L",
            extent,
            free,
            vg: "vg0".into(),
        };
        assert_eq!(room.by(wanted).map(|it| it.command).as_deref(), expected);
    }

    #[test]
    fn extensions_are_whole_extents_of_free_space() {
        check(
            Some(1 << 30),
            4 << 20,
            46 << 20,
            Some("lvextend -L +48m vg0/snap"),
        );
        check(
            Some(22 << 20),
            4 << 20,
            46 << 20,
            Some("lvextend -L +20m vg0/snap"),
        );
        check(Some(3 << 20), 4 << 20, 46 << 20, None);
        check(
            None,
            4 << 20,
            (2 << 30) - 1,
            Some("lvextend -L +2g vg0/snap"),
        );
        check(None, 4 << 20, 1, Some("lvextend -L +4m vg0/snap"));
        check(
            None,
            64 << 10,
            100 << 10,
            Some("lvextend -L +128k vg0/snap"),
        );
    }
}
