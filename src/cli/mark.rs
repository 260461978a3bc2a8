//! `cowbell job start`, `stop`, `phase`, `note` and `delete`: their words on the command line.

use clap::{Args, Subcommand};

use super::run::name;
use crate::client::Daemon;
use crate::client::commands::{self, Begin, End};

#[derive(Subcommand)]
pub enum MarkCommand {
    /// Begin a job, and print its number; `stop` ends it
    Start {
        #[command(flatten)]
        begun: StartArguments,
        /// When it began, if not now: a time, or relative such as -5m
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
    },
    /// End a job that `start` began
    Stop {
        /// Its name or number
        job: String,
        /// It did not succeed
        #[arg(long)]
        failed: bool,
        /// Its exit status; all but 0 are failures
        #[arg(long, value_name = "N")]
        status: Option<u8>,
        /// When it ended, if not now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
    },
    /// Begin a phase of a job that runs, such as `writing`; the phase before ends there
    Phase {
        /// Its number or name
        job: String,
        /// What the job does from now on
        #[arg(value_parser = name)]
        name: String,
        /// When it began, if not now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
    },
    /// Keep a sentence with a job
    Note {
        /// Its number or name; of several the one that runs, or the last
        job: String,
        /// The sentence
        text: String,
        /// The instant that it is about, if not now
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        at: Option<String>,
    },
    /// Forget jobs that are over; what was measured meanwhile stays
    Delete {
        /// Their numbers in the list
        #[arg(required = true)]
        ids: Vec<i64>,
    },
}

#[derive(Args)]
pub struct StartArguments {
    /// By it the job is told of from now on; one of a name runs at a time
    #[arg(value_parser = name)]
    name: String,
    /// The set of runs that it belongs to, to be compared [default: with --variant or --repeat, the name]
    #[arg(long, value_parser = name)]
    set: Option<String>,
    /// What is different in this run from others of the set
    #[arg(long, value_parser = name)]
    variant: Option<String>,
    /// Which run of the variant it is, from 1
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
}

/// The text to print.
pub async fn run(daemon: &Daemon, command: MarkCommand) -> anyhow::Result<String> {
    match command {
        MarkCommand::Start { begun: StartArguments { name, set, variant, repeat }, at } => {
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
