//! The layout of a volume and its hidden parts, from LVM's report.

use super::{LvLayout, lvm_name};
use crate::sample::lvm;

/// The volume's segments, then those of its hidden parts, recursively, sorted by name. `is_visible` tells which volumes
/// the kernel shows as volumes of their own.
pub fn of(
    group: &lvm::Group,
    volume: &lvm::Volume,
    is_visible: &dyn Fn(&lvm::Volume) -> bool,
) -> Vec<LvLayout> {
    let mut parts = Vec::new();
    let mut next = vec![volume];
    while let Some(volume) = next.pop() {
        parts.push(LvLayout {
            lv: volume.name.clone(),
            segments: volume.segments.clone(),
        });
        let is_part = |other: &&lvm::Volume| is_part(other, volume, is_visible);
        // Stops even if the report contains a cycle.
        if parts.len() <= group.volumes.len() {
            let mut below: Vec<&lvm::Volume> = group.volumes.iter().filter(is_part).collect();
            below.sort_by(|a, b| b.name.cmp(&a.name));
            next.extend(below);
        }
    }
    parts
}

/// Whether `part` is a hidden part of `volume`: its parent, or a cache's origin and pool, or a snapshot that is merging
/// into its origin. A snapshot whose merge has not started is still visible.
fn is_part(
    part: &lvm::Volume,
    volume: &lvm::Volume,
    is_visible: &dyn Fn(&lvm::Volume) -> bool,
) -> bool {
    let is_subvolume = [&volume.origin, &volume.pool].contains(&&Some(part.name.clone()));
    let is_merged = part.letter(1) == Some('S')
        && part.origin.as_ref() == Some(&volume.name)
        && !is_visible(part);
    part.parent.as_ref() == Some(&volume.name)
        || is_merged
        || (is_subvolume && lvm_name::is_hidden(&part.name))
}
