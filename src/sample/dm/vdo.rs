//! `vdo`: usage and health of the pool. Source: `dm-vdo/`.

use super::{Health, METADATA_BLOCK, Status};
use crate::units::Fill;

/// `<device> <mode> <recovery> <index> <compression> <used> <total>`; usage is valid only in mode `normal`.
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
