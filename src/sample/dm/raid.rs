//! `raid`: sync progress, and failed legs. Source: `dm-raid.c`.

use super::{Status, ratio};
use crate::units::SECTOR;

/// `<type> <legs> <letters> <in sync>/<total> <action> …`. Letters: `A` in sync, `a` not yet, `D` dead, `-` missing.
pub(super) fn parse(words: &[&str]) -> Option<Status> {
    let letters = words.get(2)?;
    let mut sync = ratio(words.get(3)?, SECTOR)?;
    let behind = letters.matches('a').count();
    let is_quiet = matches!(words.get(4).copied(), None | Some("idle" | "recover"));
    if sync.used == sync.total && (1..letters.len()).contains(&behind) && is_quiet {
        // The kernel is about to sync a leg. libdm does not report 100 % then either.
        sync.used = sync.used.saturating_sub(1);
    }
    Some(Status::InSync { kind: "raid".into(), sync, is_degraded: letters.contains(['D', '-']) })
}
