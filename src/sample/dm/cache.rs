//! `cache`: data usage, metadata usage and health. Source: `dm-cache-target.c`.

use super::{Health, METADATA_BLOCK, Status, ratio};
use crate::units::SECTOR;

/// `8 <metadata used>/<total> <block sectors> <data used>/<total> … <flags>`, or a single word.
pub(super) fn parse(words: &[&str]) -> Option<Status> {
    let kind = "cache".to_string();
    if words.last().is_some_and(|word| matches!(*word, "Fail" | "Error")) {
        return Some(Status::Filled { kind, data: None, metadata: None, health: Health::Failed });
    }
    let block = words.get(2)?.parse::<u64>().ok()?.saturating_mul(SECTOR);
    let metadata = Some(ratio(words.get(1)?, METADATA_BLOCK)?);
    let health = match words {
        _ if words.contains(&"needs_check") => Health::NeedsCheck,
        _ if words.contains(&"ro") => Health::ReadOnly,
        _ => Health::Working,
    };
    Some(Status::Filled { kind, data: Some(ratio(words.get(3)?, block)?), metadata, health })
}
