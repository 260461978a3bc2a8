//! `mirror`: sync progress, and failure of a leg or the log. Source: `dm-raid1.c`.

use super::{Status, ratio};
use crate::units::SECTOR;

/// `<legs> <device>… <in sync>/<regions> 1 <letters> 3 disk <log> <letter>`, or `1 core` at the end. Each letter is the
/// state of a leg or of the log: `A` if it works, otherwise its worst failure.
pub(super) fn parse(words: &[&str]) -> Option<Status> {
    let legs: usize = words.first()?.parse().ok()?;
    let words = words.get(legs.checked_add(1)?..)?;
    let log = words.get(6).filter(|_| words.get(3) == Some(&"3"));
    let is_degraded =
        [Some(words.get(2)?), log].into_iter().flatten().any(|letters| letters.contains(is_dead));
    Some(Status::InSync { kind: "mirror".into(), sync: ratio(words.first()?, SECTOR)?, is_degraded })
}

fn is_dead(letter: char) -> bool {
    letter != 'A'
}
