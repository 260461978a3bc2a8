//! What the guard added, and when: limits hold across restarts. It is written before an extension begins, so that a guard
//! that is killed has counted it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::decision::Spent;
use crate::sample::guard::GuardedPart;

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
