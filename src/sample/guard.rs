//! The state file of `cowbell guard`: what it decided about each volume, and what it did last. The guard writes it, and the
//! daemon only shows it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::config::GuardMode;
use crate::units::{count_text, size_text};

/// The guard writes its state at least this often.
pub const STATE_PERIOD_US: u64 = 10_000_000;
/// A state that is older belongs to a guard that hangs or was killed.
const STATE_MAX_AGE_US: u64 = 3 * STATE_PERIOD_US;

/// The parts of LVM that the guard extends.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum GuardedPart {
    /// A pool's metadata, its data, or a thick snapshot's COW area. In the order in which they get room that is short.
    Metadata,
    Pool,
    Snapshot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum GuardPlan {
    /// It is not at risk, or nothing is known yet.
    Nothing,
    /// It will be extended later.
    WillExtend,
    /// It is being extended. In dry-run: it would be.
    Extends,
    /// It is at risk, and a limit or LVM forbids the extension.
    MayNot,
    /// It may get no more room, so its writers are slowed.
    Slows,
}

/// What the guard decided about a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GuardedVolume {
    /// The volume's UUID, of a pool for its metadata too.
    pub uuid: String,
    /// `vg0/data_snapshot`, or `vg0/pool_tmeta` for the metadata of a pool.
    pub name: String,
    pub part: GuardedPart,
    pub plan: GuardPlan,
    /// A sentence.
    pub text: String,
    /// Whether it may get all that it needs: until the backup is done or, of a pool, for ten minutes.
    pub is_enough: bool,
    pub size_bytes: u64,
    pub used_bytes: u64,
    /// How fast it fills, at the speed that the decision is made with; `null` before that is known.
    pub bytes_per_s: Option<u64>,
    /// Its growth until the backup is done, at most; `null` if unknown.
    pub growth_bytes: Option<u64>,
    /// Since it is guarded.
    pub steps: u32,
    pub added_bytes: u64,
    /// The limit of its size.
    pub largest_bytes: u64,
}

impl GuardedVolume {
    /// What it plans, and what it added.
    pub fn summary(&self) -> String {
        let name = match self.part {
            GuardedPart::Metadata => "Metadata: ",
            GuardedPart::Pool | GuardedPart::Snapshot => "",
        };
        if self.steps == 0 {
            return format!("{name}{}", self.text);
        }
        let (added, largest) = (size_text(self.added_bytes), size_text(self.largest_bytes));
        let steps = count_text(self.steps, "step", "steps");
        let text = &self.text;
        format!("{name}{text} It added {added} in {steps}, and may make it {largest} large.")
    }
}

/// A command that the guard ran or, in dry-run, would have run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GuardAction {
    pub at: Timestamp,
    pub mode: GuardMode,
    pub uuid: String,
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The size in bytes before and after; `null` if it is no extension.
    pub from_bytes: Option<u64>,
    pub to_bytes: Option<u64>,
    /// `null` while it runs, in dry-run, or if a signal ended it.
    pub exit_status: Option<i32>,
    pub took_ms: Option<u64>,
    /// For how long it was expected to hold up writes; `null` if there was no time to find out, or for a pool.
    pub expected_hold_ms: Option<u64>,
    /// For how long its device was seen suspended.
    pub suspended_ms: Option<u64>,
    /// What it did, in a sentence.
    pub text: String,
    pub failed: bool,
}

impl GuardAction {
    /// One that did `text`, without a command.
    pub fn new(at: Timestamp, mode: GuardMode, name: String, text: impl Into<String>) -> Self {
        Self {
            at,
            mode,
            uuid: String::new(),
            name,
            command: Vec::new(),
            from_bytes: None,
            to_bytes: None,
            exit_status: None,
            took_ms: None,
            expected_hold_ms: None,
            suspended_ms: None,
            text: text.into(),
            failed: false,
        }
    }

    /// Whether it is an extension, and done.
    pub fn has_extended(&self) -> bool {
        self.to_bytes.is_some() && self.took_ms.is_some() && !self.failed
    }
}

/// The content of the state file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct GuardState {
    /// On the monotonic clock: when it was written.
    pub uptime_us: u64,
    pub mode: GuardMode,
    /// Why it does not run; `null` if it does.
    pub error: Option<String>,
    pub volumes: Vec<GuardedVolume>,
    /// The last ones, the latest last.
    pub actions: Vec<GuardAction>,
}

/// The guard as the daemon sees it.
#[derive(Clone, Debug)]
pub struct GuardSeen {
    pub state: Arc<GuardState>,
    /// The seconds since its state was written, if that is too long ago.
    pub silent_s: Option<f64>,
}

impl GuardSeen {
    pub fn new(state: Arc<GuardState>, uptime_us: u64) -> Self {
        let age_us = uptime_us.saturating_sub(state.uptime_us);
        let is_silent = state.error.is_none() && age_us > STATE_MAX_AGE_US;
        Self {
            silent_s: is_silent.then_some(age_us as f64 / 1e6),
            state,
        }
    }

    /// Whether it decides and may act.
    pub fn runs(&self) -> bool {
        self.silent_s.is_none() && self.state.error.is_none()
    }

    /// What it decided about a part of a volume, while it runs.
    pub fn volume(&self, uuid: &str, part: GuardedPart) -> Option<&GuardedVolume> {
        let mut volumes = self.state.volumes.iter().filter(|_| self.runs());
        volumes.find(|volume| volume.uuid == uuid && volume.part == part)
    }

    /// What it plans, if that keeps a part of a volume from being full.
    pub fn saves(&self, uuid: &str, part: GuardedPart) -> Option<&GuardedVolume> {
        let volume = self.volume(uuid, part)?;
        let extends = matches!(volume.plan, GuardPlan::WillExtend | GuardPlan::Extends);
        (self.state.mode == GuardMode::On && extends && volume.is_enough).then_some(volume)
    }
}

pub fn parse(text: &str) -> Result<Option<GuardState>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let state = serde_json::from_str(text);
    state.map(Some).map_err(|error| error.to_string())
}
