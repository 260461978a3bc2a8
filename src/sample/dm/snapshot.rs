//! `snapshot` and `snapshot-merge`: how full the area of a thick snapshot is. Source: `dm-snap.c`.

use super::ratio;
use crate::units::{Fill, SECTOR, Sectors};

/// The area into which a thick snapshot's changed chunks are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CowArea {
    /// The fill counts in sectors, and the snapshot's own metadata is part of it.
    Filled {
        fill: Fill,
        metadata: Sectors,
    },
    /// It was full, or an I/O error or lack of memory ended it. The snapshot is dead.
    Invalid,
    MergeFailed,
    /// The kernel does not say.
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
                // Nothing but its own metadata: `lvs` calls that empty.
                fill.used = 0;
            }
            Some(CowArea::Filled { fill, metadata })
        }
        [fill] => Some(CowArea::Filled { fill: ratio(fill, SECTOR)?, metadata: Sectors(0) }),
        _ => None,
    }
}
