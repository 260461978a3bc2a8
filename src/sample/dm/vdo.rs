//! `vdo`: how full the pool is, and whether it works. Source: `dm-vdo/`.

use super::{Health, METADATA_BLOCK, Status};
use crate::units::Fill;

/// `<device> <mode> <recovery> <index> <compression> <used>/<total>` with the two last as words of their own, which
/// count in the mode `normal` alone.
pub(super) fn parse(words: &[&str]) -> Option<Status> {
    let (used, total) = (words.get(5)?.parse().ok()?, words.get(6)?.parse().ok()?);
    let fill = Fill { used, total, unit: METADATA_BLOCK };
    let (data, health) = match *words.get(1)? {
        "normal" => (Some(fill), Health::Working),
        "recovering" => (None, Health::Working),
        "read-only" => (None, Health::ReadOnly),
        _ => return None,
    };
    Some(Status::Filled { kind: "vdo".into(), data, metadata: None, health })
}
