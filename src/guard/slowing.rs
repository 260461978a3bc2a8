//! Slows writers by the administrator's command while a volume gets no more room. The undo is run in every path: when the
//! backup has ended, before an extension, after the longest time, at a stop, by `--lift` after a kill, and at the next start.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::command::{Order, run};
use super::decision::{Decision, GuardSubject};
use super::ledger::replace;
use crate::config::{SlowWriters, SlowingUser};

const FILE: &str = "slowed.json";
/// What the commands print; while one runs, it has the lock.
const OUTPUT: &str = "slow.output";
/// A command that hangs is ended after so many seconds, by its own user.
const LONGEST_S: &str = "60";
/// Pause between two attempts to undo it.
const UNDO_PAUSE_US: u64 = 10_000_000;

/// What was begun, as noted before its command is run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Slowed {
    since_us: u64,
    pub command: PathBuf,
    undo: PathBuf,
    user: SlowingUser,
    /// The UUIDs and names of the volumes that it is for.
    pub volumes: Vec<(String, String)>,
}

impl Slowed {
    pub fn is_for(&self, uuid: &str) -> bool {
        self.volumes.iter().any(|(found, _)| found == uuid)
    }

    pub fn names(&self) -> String {
        let names: Vec<&str> = self.volumes.iter().map(|(_, name)| &**name).collect();
        names.join(", ")
    }

    pub fn order(&self, folder: &Path, program: &Path) -> Order {
        let timeout = ["timeout", "--kill-after=5", LONGEST_S].map(String::from);
        let program = program.to_string_lossy().into_owned();
        Order {
            command: timeout.into_iter().chain([program]).collect(),
            user: Some(self.user),
            output: folder.join(OUTPUT),
            ..Order::default()
        }
    }

    pub fn undo(&self, folder: &Path) -> Order {
        self.order(folder, &self.undo)
    }
}

/// What is to be done about writers in a tick.
#[derive(Debug)]
pub enum SlowingStep {
    Slow(Slowed),
    Lift(Slowed),
}

/// Writers between two ticks.
#[derive(Default)]
pub struct Slowing {
    folder: PathBuf,
    slowed: Option<Slowed>,
    /// An earlier guard began it, or it is to end.
    is_over: bool,
    /// A command of it runs.
    is_busy: bool,
    undone_us: Option<u64>,
    /// The volumes that it was tried for as long as is allowed.
    tried: Vec<String>,
}

impl Slowing {
    /// What an earlier guard left is undone in the first tick.
    pub fn open(folder: &Path) -> Result<Self, String> {
        let slowed = noted(folder)?;
        Ok(Self {
            folder: folder.into(),
            is_over: slowed.is_some(),
            slowed,
            ..Self::default()
        })
    }

    pub fn slowed(&self) -> Option<&Slowed> {
        self.slowed.as_ref()
    }

    /// Decides what to do. `may_begin`: nothing is being extended; `is_needed`: an extension waits for the end of it.
    pub fn step(
        &mut self,
        settings: Option<&SlowWriters>,
        volumes: &[(&GuardSubject, &Decision)],
        now_us: u64,
        may_begin: bool,
        extension_waits: bool,
    ) -> Option<SlowingStep> {
        let is_at_risk = |uuid: &str| {
            let mut found = volumes.iter().filter(|(it, _)| it.uuid == uuid);
            found.any(|(it, _)| it.left_alone.is_none())
        };
        self.tried.retain(|uuid| is_at_risk(uuid));
        if self.is_busy {
            return None;
        }
        if let Some(slowed) = &self.slowed {
            let lasted_us = now_us.saturating_sub(slowed.since_us);
            let is_too_long =
                settings.is_none_or(|it| u128::from(lasted_us) >= it.at_most.0.as_micros());
            if is_too_long && !self.is_over {
                let uuids = slowed.volumes.iter().map(|(uuid, _)| uuid.clone());
                self.tried.extend(uuids);
            }
            let has_ended = !slowed.volumes.iter().any(|(uuid, _)| is_at_risk(uuid));
            self.is_over |= is_too_long || has_ended || extension_waits;
            let is_recent = self.undone_us.is_some_and(|at| now_us - at < UNDO_PAUSE_US);
            if !self.is_over || is_recent {
                return None;
            }
            self.is_busy = true;
            self.undone_us = Some(now_us);
            return Some(SlowingStep::Lift(slowed.clone()));
        }
        let settings = settings.filter(|_| may_begin)?;
        let short = volumes
            .iter()
            .filter(|(subject, decision)| decision.is_short && !self.tried.contains(&subject.uuid));
        let volumes: Vec<(String, String)> = short
            .map(|(subject, _)| (subject.uuid.clone(), subject.name.clone()))
            .collect();
        if volumes.is_empty() {
            return None;
        }
        Some(SlowingStep::Slow(Slowed {
            since_us: now_us,
            command: settings.command.0.clone(),
            undo: settings.undo.0.clone(),
            user: settings.user,
            volumes,
        }))
    }

    /// At the end of the guard, what is slowed is undone.
    pub fn end(&mut self) -> Option<SlowingStep> {
        self.slowed.clone().map(SlowingStep::Lift)
    }

    /// In dry-run: as if it had been slowed for as long as is allowed.
    pub fn skip(&mut self, slowed: Slowed) {
        self.tried
            .extend(slowed.volumes.into_iter().map(|(uuid, _)| uuid));
    }

    /// Notes it, before its command is run.
    pub fn begin(&mut self, slowed: &Slowed) -> Result<(), String> {
        let text = serde_json::to_string(slowed).map_err(|error| error.to_string())?;
        replace(&self.folder.join(FILE), &text)?;
        self.slowed = Some(slowed.clone());
        self.is_busy = true;
        Ok(())
    }

    /// After the command: if it failed, whatever it did is undone.
    pub fn begun(&mut self, failed: bool) {
        self.is_busy = false;
        if failed && let Some(slowed) = &self.slowed {
            self.is_over = true;
            let uuids = slowed.volumes.iter().map(|(uuid, _)| uuid.clone());
            self.tried.extend(uuids);
        }
    }

    /// After the undo. If it failed, it is tried again.
    pub fn lifted(&mut self, failed: bool) -> Result<(), String> {
        self.is_busy = false;
        if failed {
            return Ok(());
        }
        (self.slowed, self.is_over, self.undone_us) = (None, false, None);
        forget(&self.folder)
    }
}

/// Undoes what a guard left that was killed.
pub fn lift(folder: &Path) -> Result<(), String> {
    let Some(slowed) = noted(folder)? else {
        return Ok(());
    };
    match run(&slowed.undo(folder)).error {
        Some(why) => Err(format!("writers are still slowed: {why}")),
        None => forget(folder),
    }
}

fn noted(folder: &Path) -> Result<Option<Slowed>, String> {
    let path = folder.join(FILE);
    let cannot = |why: String| {
        let path = path.display();
        format!(
            "cannot read whether writers are slowed, {path}: {why}; run the undo by hand, and remove the file"
        )
    };
    match std::fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| cannot(error.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(cannot(error.to_string())),
    }
}

fn forget(folder: &Path) -> Result<(), String> {
    let path = folder.join(FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}
