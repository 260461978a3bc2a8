//! `writecache`: usage and health. Source: `dm-writecache.c`.

use super::{Health, METADATA_BLOCK, Status};
use crate::units::Fill;

/// `<error> <blocks> <free blocks> …`; after an error all I/O fails.
pub(super) fn parse(words: &[&str]) -> Option<Status> {
    let (total, free): (u64, u64) = (words.get(1)?.parse().ok()?, words.get(2)?.parse().ok()?);
    let data = Some(Fill { used: total.checked_sub(free)?, total, unit: METADATA_BLOCK });
    let health = if words.first() == Some(&"0") { Health::Working } else { Health::Failed };
    Some(Status::Filled { kind: "writecache".into(), data, metadata: None, health })
}
