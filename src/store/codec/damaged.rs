//! What does not fit in a chunk, in sentences. Which chunk it is, its reader adds.

use super::{FORMAT, MOST_ROWS};

/// Why a chunk cannot be read. Nothing of it is used then.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    #[error("{0}")]
    Chunk(#[from] Damage),
    #[error("column {column}: {damage}")]
    Column { column: usize, damage: Damage },
}

/// What was expected, and what was found.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    #[error("expected the checksum {expected:08x}, but found {found:08x}")]
    Checksum { expected: u32, found: u32 },
    #[error("expected format {FORMAT}, but found {0}")]
    Format(u8),
    #[error("expected at most {MOST_ROWS} rows, but found {0}")]
    Rows(u64),
    #[error("expected runs of {expected} rows, but found {found}")]
    Runs { expected: usize, found: u64 },
    #[error("expected a form of presence, but found {0:#04x}")]
    Presence(u8),
    #[error("expected {expected} columns, but found {found}")]
    Columns { expected: usize, found: u64 },
    #[error("expected numbers packed in a way that this program packs them, but found {0:#04x}")]
    Packing(u8),
    #[error("expected packed numbers, but found: {0}")]
    Packed(String),
    #[error("expected a number of at most 64 bits, but found more")]
    Number,
    #[error("expected more bytes, but found the end")]
    Ends,
    #[error("expected the end, but found {0} more bytes")]
    GoesOn(usize),
}

impl Damage {
    pub fn of_column(self, column: usize) -> Damaged {
        Damaged::Column { column, damage: self }
    }
}
