//! How writing goes, as it is told to whoever asks.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::stock::StorageUsage;

/// A disk that lets the writer wait for longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// How writing goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// Whether the database could be opened yet.
    pub is_open: bool,
    pub error: Option<String>,
    pub took_us: u64,
    /// Since when the writer is at what it is doing; `None` while it waits for something to do.
    pub(super) busy_since: Option<Instant>,
    /// Entries that are in the database or its journal since the start.
    pub written: u64,
    /// Entries that the database refused, since they broke one of its constraints.
    pub refused: u64,
    pub last_ok_at: Option<Timestamp>,
    /// What was found when the database was opened, such as damage: a sentence each.
    pub notes: Vec<String>,
    /// As of the last segment that was sealed.
    pub stock: StorageUsage,
}

impl Health {
    /// What is said of a writer that has been at one thing for too long.
    pub(super) fn hang(&self) -> Option<String> {
        hang(self.busy_since?.elapsed())
    }
}

/// What is said of a writer that has been at one thing for so long.
fn hang(busy_for: Duration) -> Option<String> {
    (busy_for > PATIENCE).then(|| {
        format!(
            "the disk of the database has not responded for {} s: continuing from memory",
            busy_for.as_secs()
        )
    })
}

#[cfg(test)]
#[test]
fn a_disk_that_hangs_is_said_to_do_so_and_one_that_is_slow_is_not() {
    assert_eq!(hang(Duration::from_secs(9)), None);
    assert_eq!(
        hang(Duration::from_secs(32)).as_deref(),
        Some("the disk of the database has not responded for 32 s: continuing from memory")
    );
}
