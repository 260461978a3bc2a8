//! `cowbell db`: looks after the database: is it whole, could it be smaller, a copy of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use jiff::Timestamp;

use super::new_file::NewFile;
use super::printing::print;
use crate::client::complain;
use crate::store::{self, Inventory};
use crate::units::{Prefix, bytes_text};

#[derive(Subcommand)]
pub enum Db {
    /// Read everything that is kept, and say what is there; exit status 1 if something is damaged
    Verify,
    /// Write the database anew, as small as it can be; not while a daemon has it
    Compact,
    /// Copy everything into one new file, also while a daemon writes, and verify the copy
    Backup {
        /// The copy; it must not be there yet
        file: PathBuf,
    },
}

pub async fn db(path: &Path, command: Db) -> anyhow::Result<ExitCode> {
    match command {
        Db::Verify => tell(path, &store::inventory(path).await?),
        Db::Compact => {
            let (before, now) = store::compact(path).await?;
            print(&format!("{} is compact: {} before, {} now\n", path.display(), size(before), size(now)))?;
            Ok(ExitCode::SUCCESS)
        }
        Db::Backup { file } => backup(path, &file).await,
    }
}

async fn backup(path: &Path, file: &Path) -> anyhow::Result<ExitCode> {
    let (made, _) = NewFile::make(file)?;
    let inventory = store::backup(path, made.path()).await?;
    // A copy of what is damaged is still the best that there is.
    made.keep();
    tell(file, &inventory)
}

/// Prints what a database holds. What is damaged is told to whoever looks for errors.
fn tell(path: &Path, inventory: &Inventory) -> anyhow::Result<ExitCode> {
    let is_whole = inventory.damage.is_empty();
    let verdict = if is_whole { "is whole" } else { "is damaged" };
    let printed = print(&format!("{} {verdict}\n{}", path.display(), text(inventory)));
    for sentence in &inventory.damage {
        complain(&format!("cowbell: {sentence}"));
    }
    printed.map(|()| ExitCode::from(u8::from(!is_whole)))
}

fn text(inventory: &Inventory) -> String {
    let Inventory { ticks, in_journal, segments, chunks, bytes, .. } = inventory;
    let instants = ticks.iter().map(|(at, _)| *at);
    let span = match (instants.clone().min(), instants.max()) {
        (Some(first), Some(last)) => format!(", {} to {}", second(first), second(last)),
        _ => String::new(),
    };
    format!(
        "ticks     {}{span}; {in_journal} of them in the journal\nsegments  {segments}, of {chunks} chunks\nsize      {}\n",
        ticks.len(),
        size(*bytes)
    )
}

fn second(at: Timestamp) -> String {
    format!("{at:.0}")
}

fn size(bytes: u64) -> String {
    bytes_text(bytes as f64, Prefix::Binary)
}
