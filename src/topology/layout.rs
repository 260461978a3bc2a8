//! How a volume and its hidden parts are laid out, from LVM's report.

use super::{Part, lvm_name};
use crate::sample::lvm;

/// The volume's own segments, then those of its hidden parts and of theirs, each in the order of the names. `is_seen`
/// tells what the kernel has as a volume of its own.
pub fn of(group: &lvm::Group, volume: &lvm::Volume, is_seen: &dyn Fn(&lvm::Volume) -> bool) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut next = vec![volume];
    while let Some(volume) = next.pop() {
        parts.push(Part { lv: volume.name.clone(), segments: volume.segments.clone() });
        let is_part = |other: &&lvm::Volume| is_part(other, volume, is_seen);
        // A report that goes round in circles ends all the same.
        if parts.len() <= group.volumes.len() {
            let mut below: Vec<&lvm::Volume> = group.volumes.iter().filter(is_part).collect();
            below.sort_by(|a, b| b.name.cmp(&a.name));
            next.extend(below);
        }
    }
    parts
}

/// Whether LVM hides `part` because `volume` is made of it: it says so of most, names a cache's origin and pool as such,
/// and hides a snapshot that is being merged into its origin. One that still waits for that is seen as it was.
fn is_part(part: &lvm::Volume, volume: &lvm::Volume, is_seen: &dyn Fn(&lvm::Volume) -> bool) -> bool {
    let is_named = [&volume.origin, &volume.pool].contains(&&Some(part.name.clone()));
    let is_merged =
        part.letter(1) == Some('S') && part.origin.as_ref() == Some(&volume.name) && !is_seen(part);
    part.parent.as_ref() == Some(&volume.name) || is_merged || (is_named && lvm_name::is_hidden(&part.name))
}
