//! `thin-pool`: data usage, metadata usage, and mode; `thin`: mapped sectors of a thin volume. Source: `dm-thin.c`.

use super::{METADATA_BLOCK, ratio};
use crate::units::{Fill, Sectors};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    Working {
        data: Fill,
        metadata: Fill,
        mode: PoolMode,
        needs_check: bool,
    },
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    ReadWrite,
    ReadOnly,
    OutOfDataSpace,
}

/// `<transaction> <metadata used>/<total> <data used>/<total> <held root> <flags…>`, or a word.
pub(super) fn parse_pool(words: &[&str]) -> Option<Pool> {
    if matches!(words, ["Fail"] | ["Error"]) || words.last() == Some(&"Error") {
        return Some(Pool::Failed);
    }
    let metadata = ratio(words.get(1)?, METADATA_BLOCK)?;
    // The table has the chunk size. Until it is known, the unit is 0.
    let data = ratio(words.get(2)?, 0)?;
    let mode = match words {
        _ if words.contains(&"out_of_data_space") => PoolMode::OutOfDataSpace,
        _ if words.contains(&"ro") => PoolMode::ReadOnly,
        _ if words.contains(&"rw") => PoolMode::ReadWrite,
        _ => return None,
    };
    Some(Pool::Working {
        data,
        metadata,
        mode,
        needs_check: words.contains(&"needs_check"),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thin {
    Mapped(Sectors),
    Failed,
}

/// `<mapped sectors> <highest mapped sector>`, or a word; `-` if the thin device cannot be opened.
pub(super) fn parse_thin(words: &[&str]) -> Option<Thin> {
    match words {
        ["Fail" | "Error" | "-"] => Some(Thin::Failed),
        [mapped, _highest] => Some(Thin::Mapped(Sectors(mapped.parse().ok()?))),
        _ => None,
    }
}
