//! Requests from clients to the loop, each with a reply.
//!
//! The loop replies at once. Only the client waits until the result is stored.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::alert::Acknowledgement;
use crate::commands::JobCommand;
use crate::job::{CommandError, Job, JobChange};
use crate::notify::Silence;
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
    /// `None` if there was nothing to store.
    pub stored: Option<Stored>,
}

/// Receives whether it is stored, as [`crate::store::StoreWriter::append_acknowledged`] says.
pub type Stored = oneshot::Receiver<Result<(), WriteError>>;

/// A command on the delivery of alerts.
#[derive(Debug)]
pub enum AlertCommand {
    /// Acknowledges the open alert with this ID, or withdraws that.
    Acknowledge(i64, Option<Acknowledgement>),
    /// Silences volumes, or ends that.
    Silence(Silence),
}

/// A command on alerts with a channel for its reply.
#[derive(Debug)]
pub struct AlertRequest {
    pub command: AlertCommand,
    /// `None`: the alert is not open.
    pub reply: oneshot::Sender<Option<Stored>>,
}
