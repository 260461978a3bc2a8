//! Arguments of `cowbell job`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use super::new_file::write_new;
use crate::client::Daemon;
use crate::client::commands::{self, MarkCommand};
use crate::client::compare::{JobSelection, compare};
use crate::client::file::{export, import, report};
use crate::client::job::{Form, list, show};
use crate::report::file::LONGEST;

#[derive(Subcommand)]
pub enum Job {
    /// List jobs, the latest first
    List {
        /// The start, such as -7d or 2026-11-21T00:00:00Z
        #[arg(long, default_value = "-7d", allow_hyphen_values = true)]
        from: String,
        /// Print JSON, as in the API
        #[arg(long)]
        json: bool,
    },
    /// Show the cost of a job: diagnosis, advice and figures
    Show {
        /// ID in the list
        id: i64,
        #[command(flatten)]
        format: OutputFormat,
    },
    /// Compare jobs: figures, ratios and confidence intervals
    Compare {
        #[command(flatten)]
        which: JobSelection,
        /// Show this figure only, by its name in the table; can be repeated
        #[arg(long = "figure", value_name = "NAME")]
        figures: Vec<String>,
        #[command(flatten)]
        format: OutputFormat,
        /// Print CSV, a row for each figure of each column
        #[arg(long, conflicts_with_all = ["json", "markdown"])]
        csv: bool,
    },
    /// Write jobs, and their comparison, to a self-contained HTML file
    Report {
        #[command(flatten)]
        which: JobSelection,
        /// The file; it must not exist
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Write an ended job to a file, for another host
    Export {
        /// ID in the list
        id: i64,
        /// The file; it must not exist
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Import the file of a job of another host
    Import {
        /// The output of `cowbell job export`
        file: PathBuf,
    },
    #[command(flatten)]
    Mark(MarkCommand),
}

#[derive(Args)]
#[group(multiple = false)]
pub struct OutputFormat {
    /// Print JSON, as in the API
    #[arg(long)]
    json: bool,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
}

/// Runs a command; returns the text to print.
pub async fn job(daemon: &Daemon, command: Job) -> anyhow::Result<String> {
    match command {
        Job::List { from, json } => {
            list(daemon, &from, if json { Form::Json } else { Form::Text }).await
        }
        Job::Compare {
            which,
            figures,
            format,
            csv,
        } => {
            let form = if csv { Form::Csv } else { format.form() };
            compare(daemon, &which, &figures, form).await
        }
        Job::Report { which, output } => write_new(&output, &report(daemon, &which).await?),
        Job::Export { id, output } => write_new(&output, &export(daemon, id).await?),
        Job::Import { file } => {
            let imported = import(daemon, read(&file)?).await;
            imported.with_context(|| format!("cannot import {}", file.display()))
        }
        Job::Mark(command) => commands::run(daemon, command).await,
        Job::Show { id, format } => show(daemon, id, format.form()).await,
    }
}

/// Reads a file to import. Pipes, which might never end, and files that are too long are rejected.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let failed = || format!("cannot read the file {}", path.display());
    let metadata = std::fs::metadata(path).with_context(failed)?;
    if !metadata.is_file() {
        bail!(
            "{} is not a regular file: expected the output of `cowbell job export`",
            path.display()
        );
    }
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(failed)?;
    file.take(LONGEST as u64 + 1)
        .read_to_end(&mut bytes)
        .with_context(failed)?;
    if bytes.len() > LONGEST {
        let (most, found) = (LONGEST / 1024 / 1024, metadata.len());
        bail!(
            "{} is too long: expected at most {most} MiB, but found {found} bytes",
            path.display()
        );
    }
    Ok(bytes)
}

impl OutputFormat {
    fn form(&self) -> Form {
        match (self.json, self.markdown) {
            (true, _) => Form::Json,
            (false, true) => Form::Markdown,
            (false, false) => Form::Text,
        }
    }
}
