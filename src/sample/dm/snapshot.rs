//! `snapshot` and `snapshot-merge`: usage of a thick snapshot's COW area. Source: `dm-snap.c`.

use super::ratio;
use crate::units::{Fill, SECTOR, Sectors};

/// The area that holds a thick snapshot's copied chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CowArea {
    /// The fill is in sectors and includes the snapshot's own metadata.
    Filled {
        fill: Fill,
        metadata: Sectors,
    },
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
            let metadata = Sectors(metadata.parse().ok()?);
            let mut fill = ratio(fill, SECTOR)?;
            if fill.used == metadata.0 {
                // Only metadata is allocated: `lvs` reports 0 %.
                fill.used = 0;
            }
            Some(CowArea::Filled { fill, metadata })
        }
        [fill] => Some(CowArea::Filled { fill: ratio(fill, SECTOR)?, metadata: Sectors(0) }),
        _ => None,
    }
}
