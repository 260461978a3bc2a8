//! `snapshot` and `snapshot-merge`: usage of a thick snapshot's COW area. Source: `dm-snap.c`.

use super::ratio;
use crate::units::{Fill, SECTOR};

/// The area that holds a thick snapshot's copied chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CowArea {
    /// In sectors, with the snapshot's own metadata.
    Filled(Fill),
    /// The snapshot is lost: its COW area overflowed, or an I/O error or lack of memory invalidated it.
    Invalid,
    MergeFailed,
    /// The kernel reports `Unknown`.
    Unknown,
}

/// `<allocated>/<total> <metadata>` in sectors, or a word.
pub(super) fn parse(words: &[&str]) -> Option<CowArea> {
    match words {
        ["Invalid"] | ["Overflow"] => Some(CowArea::Invalid),
        ["Merge", "failed"] => Some(CowArea::MergeFailed),
        ["Unknown"] => Some(CowArea::Unknown),
        [fill, metadata] => {
            let mut fill = ratio(fill, SECTOR)?;
            if fill.used == metadata.parse::<u64>().ok()? {
                // Only metadata is allocated: `lvs` reports 0 %.
                fill.used = 0;
            }
            Some(CowArea::Filled(fill))
        }
        [fill] => ratio(fill, SECTOR).map(CowArea::Filled),
        _ => None,
    }
}
