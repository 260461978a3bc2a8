//! What goes through the queue to the writer.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::catalog::Rows;
use super::tick::Tick;
use crate::alert::Alert;
use crate::job::Job;
use crate::source::{NoteCommand, RemoveCommand};

/// An operation in the queue, and where its outcome is reported.
#[derive(Debug)]
pub struct Queued {
    pub op: QueuedOp,
    reply: Option<Reply>,
}

/// Receives the outcome of one operation: stored, or the sentence that says why not.
pub type Reply = tokio::sync::oneshot::Sender<Result<(), String>>;

impl Queued {
    pub fn new(op: QueuedOp, reply: Option<Reply>) -> Self {
        Self { op, reply }
    }

    /// Reports the outcome, once. A receiver that is gone wanted no answer.
    pub fn report(&mut self, outcome: Result<(), String>) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(outcome);
        }
    }

    pub fn is_tick(&self) -> bool {
        matches!(self.op, QueuedOp::Tick(..))
    }
}

/// One operation.
#[derive(Clone, Debug)]
pub enum QueuedOp {
    Rows(Rows),
    Tick(i64, Arc<Tick>),
    Gap(Gap),
    Job(Box<Job>),
    Alert(Box<Alert>),
    Note(NoteCommand),
    Remove(RemoveCommand),
    Import(Box<Job>, Arc<[u8]>),
}

impl QueuedOp {
    /// What the database may refuse by itself, without all that was told with it.
    pub fn parts(&self) -> Vec<Cow<'_, Self>> {
        let Self::Rows(rows) = self else { return vec![Cow::Borrowed(self)] };
        let devices = rows.devices.iter().map(|row| Rows { devices: vec![row.clone()], ..Rows::default() });
        let volumes = rows.volumes.iter().map(|row| Rows { volumes: vec![row.clone()], ..Rows::default() });
        devices.chain(volumes).map(|row| Cow::Owned(Self::Rows(row))).collect()
    }
}

/// Ticks that could not be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    pub from_ms: i64,
    pub to_ms: i64,
    pub ticks: i64,
    pub reason: String,
}

impl Gap {
    /// One more tick that found no room in the queue.
    pub fn with(gap: Option<Self>, at_ms: i64) -> Self {
        let reason = "the disk of the database took nothing for so long that memory was full".to_string();
        let gap = gap.unwrap_or(Self { from_ms: at_ms, to_ms: at_ms, ticks: 0, reason });
        Self {
            from_ms: gap.from_ms.min(at_ms),
            to_ms: gap.to_ms.max(at_ms),
            ticks: gap.ticks + 1,
            reason: gap.reason,
        }
    }
}

/// Leaves out what is told again later: of each job and each alert the last word counts.
pub fn without_older(loads: &mut Vec<Queued>) {
    let mut seen = HashSet::new();
    loads.reverse();
    loads.retain(|load| match &load.op {
        QueuedOp::Job(job) => seen.insert(("job", job.id)),
        QueuedOp::Alert(alert) => seen.insert(("alert", alert.id)),
        QueuedOp::Rows(_) | QueuedOp::Tick(..) | QueuedOp::Gap(_) => true,
        QueuedOp::Note(_) | QueuedOp::Remove(_) | QueuedOp::Import(..) => true,
    });
    loads.reverse();
}
