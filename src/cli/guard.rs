//! `cowbell guard`: reads its configuration, and guards until a signal.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use clap::Args;

use super::memory;
use super::output::print;
use super::serve::signalled;
use crate::config::{GUARD_PATH, GuardMode, GuardSettings};
use crate::guard::{self, Guard, TICK};
use crate::source::files::Root;
use crate::source::live::Live;
use crate::store;

#[derive(Args)]
pub struct GuardArguments {
    /// The configuration of the guard, which only root may write
    #[arg(
        id = "guard_config",
        long = "config",
        value_name = "FILE",
        default_value = GUARD_PATH
    )]
    config: PathBuf,
    /// Print the last decision about a volume, such as vg0/data_snapshot, or vg0/pool_tmeta for metadata
    #[arg(long, value_name = "VG/LV")]
    explain: Option<String>,
    /// Run the undo of [slow_writers] if a guard that was killed left writers slowed; the service does it when it stops
    #[arg(long, conflicts_with = "explain")]
    lift: bool,
}

pub async fn run(arguments: &GuardArguments, root: Root) -> anyhow::Result<()> {
    if let Some(name) = &arguments.explain {
        return print(&guard::explain(name)?);
    }
    if !rustix::process::geteuid().is_root() {
        bail!("`cowbell guard` extends volumes, which only root may do: use sudo");
    }
    if arguments.lift {
        return guard::lift().map_err(|why| anyhow!(why));
    }
    let mut mode = GuardMode::DryRun;
    let ended = guard_volumes(&arguments.config, root, &mut mode).await;
    if let Err(error) = &ended {
        guard::leave_error(mode, &store::in_words(error));
    }
    ended
}

async fn guard_volumes(path: &Path, root: Root, mode: &mut GuardMode) -> anyhow::Result<()> {
    let settings = GuardSettings::load(path)?;
    *mode = settings.mode;
    let shutdown = signalled()?;
    let live = Live::for_guard(root, TICK)?;
    let guard = Guard::open(settings)?;
    if let Err(error) = memory::lock() {
        tracing::debug!("memory is not locked: {}", store::in_words(&error));
    }
    guard.run(live, &shutdown).await
}
