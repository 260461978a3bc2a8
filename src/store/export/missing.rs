//! What of the range that was asked for could not be exported, since it is damaged.

use jiff::Timestamp;

use crate::store::seal::Segment;

/// Segments of which something cannot be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Missing {
    segments: usize,
    from_ms: i64,
    to_ms: i64,
}

impl Missing {
    pub(super) fn add(&mut self, segment: &Segment) {
        let is_first = self.segments == 0;
        self.from_ms = if is_first { segment.from_ms } else { self.from_ms.min(segment.from_ms) };
        self.to_ms = if is_first { segment.to_ms } else { self.to_ms.max(segment.to_ms) };
        self.segments += 1;
    }

    /// How much it is; `None` where nothing is missing.
    pub(super) fn sentence(self) -> Option<String> {
        let at = |ms| Timestamp::from_millisecond(ms).map_or(format!("{ms} ms"), |at| format!("{at:.0}"));
        let (from, to) = (at(self.from_ms), at(self.to_ms));
        let damaged = match self.segments {
            0 => return None,
            1 => "a segment is damaged, and what cannot be read of it".to_string(),
            several => format!("{several} segments are damaged, and what cannot be read of them"),
        };
        Some(format!("{damaged} is missing, between {from} and {to}: `cowbell db verify` says more"))
    }
}
