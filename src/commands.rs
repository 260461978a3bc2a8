//! What clients tell the loop: commands over one channel, each with a reply.
//!
//! The loop decides and replies at once; whether the result is stored is known later, and only the client waits for it.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::job::{CommandError, Job, JobChange};
use crate::source::JobCommand;
use crate::store::NotStored;

/// What the loop is to do.
#[derive(Debug)]
pub enum Command {
    OnJob(JobCommand),
    /// Take a job of another host, with its file, packed.
    Import(Box<Job>, Arc<[u8]>),
}

/// A command, and where its reply goes.
#[derive(Debug)]
pub struct Request {
    pub command: Command,
    /// The job as the database has it, if memory has forgotten it.
    pub stored: Option<Job>,
    pub reply: oneshot::Sender<Result<Reply, CommandError>>,
}

/// A command that was carried out.
#[derive(Debug)]
pub struct Reply {
    pub change: JobChange,
    /// Receives whether it is stored, as [`crate::store::StoreWriter::append_acknowledged`] says; `None` if there was
    /// nothing to store.
    pub stored: Option<oneshot::Receiver<Result<(), NotStored>>>,
}
