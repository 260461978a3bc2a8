//! `cowbell db`: verifies, compacts, copies and restores the database.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;

use super::output::{NewFile, complain, print};
use crate::store::{self, Inventory};
use crate::units::size_text;

#[derive(Subcommand)]
pub enum DbArguments {
    /// Read all stored data and report what is there; exit status 1 if something is damaged
    Verify,
    /// Make the database as small as possible; stop the daemon first
    Compact,
    /// Copy all data to a new file, also while a daemon writes, and verify the copy
    Backup {
        /// The copy; it must not exist
        file: PathBuf,
    },
    /// Put such a copy in the place of the database, which is kept beside it; stop the daemon first
    Restore {
        /// The copy
        file: PathBuf,
    },
}

pub async fn db(path: &Path, arguments: DbArguments) -> anyhow::Result<ExitCode> {
    match arguments {
        DbArguments::Verify => report(path, &store::inventory(path).await?),
        DbArguments::Compact => {
            let (before, now) = store::compact(path).await?;
            let (before, now) = (size_text(before), size_text(now));
            print(&format!(
                "{} is compact: {before} before, {now} now\n",
                path.display()
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        DbArguments::Backup { file } => backup(path, &file).await,
        DbArguments::Restore { file } => {
            let replaced = store::restore(path, &file).await?;
            let kept = replaced.map_or_else(String::new, |replaced| {
                format!("; what was there is now {}", replaced.display())
            });
            print(&format!(
                "{} is restored from {}{kept}\n",
                path.display(),
                file.display()
            ))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

async fn backup(path: &Path, file: &Path) -> anyhow::Result<ExitCode> {
    let (made, _) = NewFile::make(file)?;
    let inventory = store::backup(path, file).await?;
    // Even a damaged copy is useful.
    made.keep();
    report(file, &inventory)
}

/// Prints the content of a database, and damage to standard error.
fn report(path: &Path, inventory: &Inventory) -> anyhow::Result<ExitCode> {
    let is_whole = inventory.damage.is_empty();
    let verdict = if is_whole { "is intact" } else { "is damaged" };
    let printed = print(&format!(
        "{} {verdict}\n{}",
        path.display(),
        text(inventory)
    ));
    for sentence in &inventory.damage {
        complain(&format!("cowbell: {sentence}"));
    }
    printed.map(|()| ExitCode::from(u8::from(!is_whole)))
}

fn text(inventory: &Inventory) -> String {
    let Inventory {
        ticks,
        minutes,
        ten_minutes,
        bytes,
        ..
    } = inventory;
    let instants = ticks.iter().map(|(at, _)| *at);
    let span = match (instants.clone().min(), instants.max()) {
        (Some(first), Some(last)) => format!("\nfrom      {first:.0} to {last:.0}"),
        _ => String::new(),
    };
    format!(
        "ticks     {}{span}\nroll-ups  {minutes} of a minute, {ten_minutes} of ten minutes\nsize      {}\n",
        ticks.len(),
        size_text(*bytes)
    )
}
