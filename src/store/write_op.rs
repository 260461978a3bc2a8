//! Operations in the writer's queue.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::address::Progress;
use super::catalog::CatalogRows;
use super::recent::TickRecord;
use super::stored::Gap;
use crate::alert::Alert;
use crate::commands::Note;
use crate::job::Job;
use crate::notify::{Delivery, Silence};
use crate::sizing::Curve;

/// One thing to store.
#[derive(Clone, Debug)]
pub enum WriteOp {
    /// Devices and volumes that are new or changed. They go before the ticks that refer to them.
    Catalog(CatalogRows),
    /// A tick, and the generation of the catalog that has the numbers of its devices and volumes.
    Tick(u64, TickRecord),
    Gap(Gap),
    Job(Box<Job>),
    Alert(Box<Alert>),
    /// The last delivery of an alert to a receiver.
    Delivery(Box<Delivery>),
    Silence(Silence),
    /// A note on the job of this key, which only the database has.
    Note(String, Note),
    /// Deletes the job of this key.
    Remove(String),
    /// A job of another host, with its file, packed.
    Import(Box<Job>, Arc<[u8]>),
    /// What the receiver of remote write has.
    Sent(Progress),
    /// What was measured of the volume with this UUID.
    Curve(Arc<str>, Arc<Curve>),
}

/// Why an operation is not stored: a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// It is held in memory, and writing is tried again.
    Held(String),
    /// It violates a constraint, now and at every retry, so it was dropped.
    Refused(String),
}

/// Receives the outcome of one operation.
pub type WriteReply = oneshot::Sender<Result<(), WriteError>>;

/// An operation in the queue, and where its outcome is reported.
#[derive(Debug)]
pub struct QueueEntry {
    pub op: WriteOp,
    pub reply: Option<WriteReply>,
}

impl WriteOp {
    /// Whether it may wait for the next commit of ticks. The kill of the program loses it until then.
    pub fn may_wait(&self) -> bool {
        matches!(self, Self::Tick(..) | Self::Catalog(_) | Self::Sent(_))
    }

    /// Devices and volumes one by one: the database may refuse one of them.
    pub fn parts(&self) -> Vec<Self> {
        let Self::Catalog(rows) = self else {
            return vec![self.clone()];
        };
        let devices = rows.devices.iter().map(|row| CatalogRows {
            devices: vec![row.clone()],
            ..CatalogRows::default()
        });
        let volumes = rows.volumes.iter().map(|row| CatalogRows {
            volumes: vec![row.clone()],
            ..CatalogRows::default()
        });
        devices.chain(volumes).map(Self::Catalog).collect()
    }
}

impl QueueEntry {
    /// Reports the outcome once, if the receiver still exists.
    pub fn report(&mut self, outcome: Result<(), WriteError>) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send(outcome);
        }
    }
}
