//! Places in the course of ticks, and what of it was sent.

use serde::{Deserialize, Serialize};

/// A tick, in the order of writing, whatever the clock does: within a segment, times ascend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    pub segment: i64,
    /// The end of the tick in milliseconds since 1970.
    pub at_ms: i64,
}

/// The ticks after one position, up to and including another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub after: Position,
    pub to: Position,
}

/// The ticks that a receiver took or refused for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// All ticks up to this one.
    pub done: Position,
    /// Later ones, ascending; they neither overlap nor touch.
    pub islands: Vec<Span>,
}
