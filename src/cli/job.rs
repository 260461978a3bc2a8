//! `cowbell job`: its words on the command line. What it prints is made by `client::job`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};

use super::new_file::write_new;
use crate::client::Daemon;
use crate::client::compare::{JobSelection, compare};
use crate::client::file::{export, import};
use crate::client::job::{Form, list, show};
use crate::client::report::report;
use crate::report::file::LONGEST;

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
        written: OutputFormat,
    },
    /// Lay jobs side by side: every figure with its ratio, and how sure that is
    Compare {
        #[command(flatten)]
        which: Which,
        /// These figures alone, by their names in the table; as often as one likes
        #[arg(long = "figure", value_name = "NAME")]
        figures: Vec<String>,
        #[command(flatten)]
        written: Table,
    },
    /// Write jobs to one HTML file that needs nothing else; of several how they compare first
    Report {
        #[command(flatten)]
        which: Which,
        /// The file, which must not be there yet
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Write a job that is over to a file, for another host
    Export {
        /// Its number in the list
        id: i64,
        /// The file, which must not be there yet
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Take in the file of a job of another host, to compare it with others
    Import {
        /// What `cowbell job export` wrote there
        file: PathBuf,
    },
    #[command(flatten)]
    Mark(super::mark::MarkCommand),
}

#[derive(Args)]
pub struct Which {
    /// Their numbers in the list; others are compared with the first
    #[arg(value_name = "ID", required_unless_present_any = ["set", "groups"])]
    ids: Vec<i64>,
    /// Repeats of one thing, such as `before:3,4` and `after:7,9`; as often as one likes
    #[arg(long = "group", value_name = "NAME:ID,ID")]
    groups: Vec<String>,
    /// All jobs of this set, by its variants
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
}

#[derive(Args)]
#[group(multiple = false)]
pub struct Table {
    /// As JSON, as the daemon has it
    #[arg(long)]
    json: bool,
    /// As a table in Markdown
    #[arg(long)]
    markdown: bool,
    /// As CSV, a row for each figure of each column
    #[arg(long)]
    csv: bool,
}

#[derive(Args)]
#[group(multiple = false)]
pub struct OutputFormat {
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
        Job::Compare { which, figures, written } => {
            compare(daemon, &which.chosen(), &figures, written.form()).await
        }
        Job::Report { which, output } => {
            write_new(&output, &report(daemon, &which.chosen()).await?)?;
            Ok(format!("{} is written\n", output.display()))
        }
        Job::Export { id, output } => {
            write_new(&output, &export(daemon, id).await?)?;
            Ok(format!("{} is written\n", output.display()))
        }
        Job::Import { file } => {
            let taken_in = import(daemon, read(&file)?).await;
            taken_in.with_context(|| format!("cannot take in {}", file.display()))
        }
        Job::Mark(command) => super::mark::run(daemon, command).await,
        Job::Show { id, written } => show(daemon, id, written.form()).await,
    }
}

/// A file that the daemon may take. What is no file, such as a pipe, might never end.
fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let failed = || format!("cannot read the file {}", path.display());
    let told = std::fs::metadata(path).with_context(failed)?;
    if !told.is_file() {
        bail!("{} is no regular file: expected one that `cowbell job export` wrote", path.display());
    }
    let mut read = Vec::new();
    let file = File::open(path).with_context(failed)?;
    // One that grows meanwhile is too long as well.
    if told.len() <= LONGEST as u64 {
        file.take(LONGEST as u64 + 1).read_to_end(&mut read).with_context(failed)?;
    }
    if told.len() > LONGEST as u64 || read.len() > LONGEST {
        let (most, found) = (LONGEST / 1024 / 1024, told.len());
        bail!(
            "{} is too long for the file of a job: expected {most} MiB at most, but found {found} bytes",
            path.display()
        );
    }
    Ok(read)
}

impl Which {
    fn chosen(self) -> JobSelection {
        JobSelection { ids: self.ids, set: self.set, groups: self.groups }
    }
}

impl Table {
    fn form(&self) -> Form {
        match (self.json, self.markdown, self.csv) {
            (true, ..) => Form::Json,
            (_, true, _) => Form::Markdown,
            (_, _, true) => Form::Csv,
            _ => Form::Text,
        }
    }
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
