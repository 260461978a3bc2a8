//! What the guard added, and when: limits hold across restarts. It is written before an extension begins, so that a guard
//! that is killed has counted it.
//!
//! Also when LVM was asked, when it answered, and whether its answer still tells how much room a group has.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::decision::Spent;
use crate::sample::guard::GuardedPart;
use crate::source::clock::uptime_us;
use crate::source::live::Live;

const FILE: &str = "ledger.json";
const DAY_US: u64 = 24 * 3600 * 1_000_000;
/// Volumes without an addition for a day are dropped.
const MOST_ADDITIONS: usize = 10_000;

/// An extension that was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Addition {
    /// On the monotonic clock: a clock that is set changes no limit.
    pub uptime_us: u64,
    pub uuid: String,
    pub part: GuardedPart,
    /// The pattern of its limits.
    pub limits: String,
    pub bytes: u64,
}

/// All additions of the last day, and those of volumes that are still there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    additions: Vec<Addition>,
    #[serde(skip)]
    path: PathBuf,
}

impl Ledger {
    /// The ledger in a folder that is emptied when the machine starts.
    pub fn open(folder: &Path) -> Result<Self, String> {
        let path = folder.join(FILE);
        let cannot = |why: String| {
            let path = path.display();
            format!(
                "cannot read what the guard added before, {path}: {why}; without it, no limit holds: remove the file to \
                 begin at zero"
            )
        };
        let mut ledger = match std::fs::read_to_string(&path) {
            Ok(text) => {
                serde_json::from_str::<Self>(&text).map_err(|error| cannot(error.to_string()))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::default(),
            Err(error) => return Err(cannot(error.to_string())),
        };
        ledger.path = path;
        Ok(ledger)
    }

    /// Only in memory, as in dry-run.
    pub fn in_memory() -> Self {
        Self::default()
    }

    pub fn spent(&self, uuid: &str, part: GuardedPart, limits: &str, now_us: u64) -> Spent {
        let mut spent = Spent::default();
        for addition in &self.additions {
            if addition.uuid == uuid && addition.part == part {
                spent.steps += 1;
                spent.added += addition.bytes;
            }
            if addition.limits == limits && now_us.saturating_sub(addition.uptime_us) < DAY_US {
                spent.today += addition.bytes;
            }
        }
        spent
    }

    /// Notes an extension before it begins; forgets those older than a day of volumes that are gone.
    pub fn begin(
        &mut self,
        addition: Addition,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<(), String> {
        let now_us = addition.uptime_us;
        self.additions.push(addition);
        self.additions
            .retain(|it| now_us.saturating_sub(it.uptime_us) < DAY_US || is_there(&it.uuid));
        if self.additions.len() > MOST_ADDITIONS {
            self.additions.pop();
            return Err(format!("more than {MOST_ADDITIONS} extensions are noted"));
        }
        self.write()
    }

    /// Takes back the last addition to a volume, which LVM refused.
    pub fn withdraw(&mut self, uuid: &str, part: GuardedPart) -> Result<(), String> {
        let last = self
            .additions
            .iter()
            .rposition(|it| it.uuid == uuid && it.part == part);
        if let Some(last) = last {
            self.additions.remove(last);
        }
        self.write()
    }

    /// The bytes that were added to each volume.
    pub fn added(&self) -> BTreeMap<(&str, GuardedPart), u64> {
        let mut added = BTreeMap::new();
        for it in &self.additions {
            *added.entry((&*it.uuid, it.part)).or_default() += it.bytes;
        }
        added
    }

    fn write(&self) -> Result<(), String> {
        if self.path.as_os_str().is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string(self).map_err(|error| error.to_string())?;
        replace(&self.path, &text)
    }
}

/// Replaces a file at once: a reader sees the old content or the new one.
pub fn replace(path: &Path, text: &str) -> Result<(), String> {
    let new = path.with_extension("new");
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

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
