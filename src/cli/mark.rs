//! Arguments of `cowbell job start`, `stop`, `phase`, `note` and `delete`.

use clap::Subcommand;

use super::run::{SetArguments, name};
use crate::client::Daemon;
use crate::client::commands::{self, Begin, End};

#[derive(Subcommand)]
pub enum MarkCommand {
    /// Start a job and print its ID; `stop` ends it
    Start {
        /// The name of the job; only one job of each name can run
        #[arg(value_parser = name)]
        name: String,
        #[command(flatten)]
        set: SetArguments,
        /// The number of the run within its variant, from 1
        #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
        repeat: Option<u32>,
        /// The time of the start if not now, absolute or relative such as -5m
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
    },
    /// End a job that `start` started
    Stop {
        /// Name or ID
        job: String,
        /// The job failed
        #[arg(long)]
        failed: bool,
        /// The exit status; 0 is success
        #[arg(long, value_name = "N")]
        status: Option<u8>,
        /// The time of the end if not now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
    },
    /// Start a phase of a running job, such as `writing`; the previous phase ends
    Phase {
        /// ID or name
        job: String,
        /// The name of the phase
        #[arg(value_parser = name)]
        name: String,
        /// The time of the start if not now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
    },
    /// Add a note to a job
    Note {
        /// ID or name; of several, the running one or the last
        job: String,
        /// The text of the note
        text: String,
        /// The time that it is about if not now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
    },
    /// Delete ended jobs; their measurements remain
    Delete {
        /// IDs of the jobs
        #[arg(required = true)]
        ids: Vec<i64>,
    },
}

/// Runs a command; returns the text to print.
pub async fn run(daemon: &Daemon, command: MarkCommand) -> anyhow::Result<String> {
    match command {
        MarkCommand::Start { name, set: SetArguments { set, variant }, repeat, at } => {
            return commands::start(daemon, Begin { name, set, variant, repeat }, at.as_deref()).await;
        }
        MarkCommand::Stop { job, failed, status, at } => {
            commands::stop(daemon, &job, End { has_failed: failed, status }, at.as_deref()).await?;
        }
        MarkCommand::Phase { job, name, at } => commands::phase(daemon, &job, name, at.as_deref()).await?,
        MarkCommand::Note { job, text, at } => commands::note(daemon, &job, text, at.as_deref()).await?,
        MarkCommand::Delete { ids } => commands::delete(daemon, &ids).await?,
    }
    Ok(String::new())
}
