//! `cowbell job`: its words on the command line. What it prints is made by `client::job`.

use clap::{Args, Subcommand};

use crate::client::Daemon;
use crate::client::job::{Form, list, show};

#[derive(Subcommand)]
pub enum Job {
    /// The jobs that ran, the latest first
    List {
        /// Since when, such as -7d or 2026-11-21T00:00:00Z
        #[arg(long, default_value = "-7d", allow_hyphen_values = true)]
        from: String,
        /// As JSON, as the daemon has it
        #[arg(long)]
        json: bool,
    },
    /// What one job cost: what its figures say, what would help, and every figure
    Show {
        /// Its number in the list
        id: i64,
        #[command(flatten)]
        written: Written,
    },
}

#[derive(Args)]
#[group(multiple = false)]
pub struct Written {
    /// As JSON, as the daemon has it
    #[arg(long)]
    json: bool,
    /// As a report in Markdown
    #[arg(long)]
    markdown: bool,
}

/// The text to print.
pub async fn job(daemon: &Daemon, command: Job) -> anyhow::Result<String> {
    match command {
        Job::List { from, json } => list(daemon, &from, if json { Form::Json } else { Form::Text }).await,
        Job::Show { id, written } => show(daemon, id, written.form()).await,
    }
}

impl Written {
    fn form(&self) -> Form {
        match (self.json, self.markdown) {
            (true, _) => Form::Json,
            (false, true) => Form::Markdown,
            (false, false) => Form::Text,
        }
    }
}
