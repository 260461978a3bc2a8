//! When LVM was asked, when it answered, and whether its answer still tells how much room a group has.

use std::collections::HashMap;

use crate::source::clock::uptime_us;
use crate::source::live::Live;

/// A report tells how much room there is for so long, unless the guard itself changed that.
const REPORT_AGE_US: u64 = 2_000_000;
/// While an extension is announced, LVM is asked at least this often, so that it is known whether there is room for it.
const PLAN_REPORT_AGE_US: u64 = 60_000_000;
/// Pause between two questions.
const ASK_PAUSE_US: u64 = 1_000_000;

/// Times are in microseconds since the start of the system.
#[derive(Default)]
pub struct ReportAge {
    asked_us: Option<u64>,
    latest: Option<KnownReport>,
    /// When an extension in a group ended. A report that was asked for before says nothing about its free space.
    changed_us: HashMap<String, u64>,
}

struct KnownReport {
    asked_us: u64,
    came_us: u64,
}

impl ReportAge {
    pub fn ask(&mut self, live: &mut Live) {
        if live.ask_lvm() {
            self.asked_us = Some(uptime_us());
        }
    }

    pub fn came(&mut self, now_us: u64) {
        let came = |asked_us| KnownReport {
            asked_us,
            came_us: now_us,
        };
        self.latest = self.asked_us.map(came);
    }

    /// The guard has changed a group.
    pub fn changed(&mut self, vg: String) {
        self.changed_us.insert(vg, uptime_us());
    }

    /// Whether the free space of a group is known well enough to extend a volume now.
    pub fn are_fresh(&self, vg: &str, now_us: u64) -> bool {
        let changed_us = self.changed_us.get(vg).copied().unwrap_or_default();
        self.latest.as_ref().is_some_and(|report| {
            now_us - report.came_us <= REPORT_AGE_US && report.asked_us > changed_us
        })
    }

    /// Whether it is not known well enough even to announce an extension.
    pub fn are_old(&self, now_us: u64) -> bool {
        self.latest
            .as_ref()
            .is_none_or(|report| now_us - report.came_us > PLAN_REPORT_AGE_US)
    }

    pub fn may_ask(&self, now_us: u64) -> bool {
        self.asked_us
            .is_none_or(|asked_us| now_us - asked_us >= ASK_PAUSE_US)
    }
}
