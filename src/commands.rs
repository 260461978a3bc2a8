//! Commands from clients to the loop, each with a reply.
//!
//! The loop replies at once. Only the client waits until the result is stored.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::job::{CommandError, Job, JobChange};
use crate::source::JobCommand;
use crate::store::WriteError;

/// A command on jobs.
#[derive(Debug)]
pub enum Command {
    OnJob(JobCommand),
    /// Import a job with its compressed file.
    Import(Box<Job>, Arc<[u8]>),
}

/// A command with a channel for its reply.
#[derive(Debug)]
pub struct Request {
    pub command: Command,
    /// The job from the database, if it is not in memory.
    pub stored: Option<Job>,
    pub reply: oneshot::Sender<Result<Reply, CommandError>>,
}

/// A command that was carried out.
#[derive(Debug)]
pub struct Reply {
    pub change: JobChange,
    /// Receives whether it is stored, as [`crate::store::StoreWriter::append_acknowledged`] says; `None` if there was
    /// nothing to store.
    pub stored: Option<oneshot::Receiver<Result<(), WriteError>>>,
}
