//! A new configuration without a restart, at SIGHUP from systemd.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::{block_in_place, spawn_blocking};

use super::listeners::check_addresses;
use super::memory;
use crate::config::Config;
use crate::daemon::Reload;
use crate::notify;
use crate::remote_write;
use crate::source::recording::RecordingHeader;
use crate::store::in_words;
use crate::web::Access;

/// Reads the configuration again.
pub type Load = Box<dyn Fn() -> anyhow::Result<Config> + Send>;

/// Reloads at each SIGHUP, on the current runtime, which must have several threads: reading files may take long. A
/// configuration that is wrong changes nothing.
pub fn start(
    load: Load,
    inherited: Vec<SocketAddr>,
    mut current: Config,
    access: watch::Sender<Arc<Access>>,
    reloads: mpsc::Sender<Reload>,
) -> anyhow::Result<()> {
    let mut hang_up = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            let mut taken = None;
            let reload = match block_in_place(|| read(&load, &inherited)) {
                Ok((new, config)) => {
                    access.send_replace(Arc::new(new));
                    let restart = config.needs_restart(&current);
                    current = config;
                    log(&restart);
                    taken = Some(current.clone());
                    Reload {
                        config: Ok(Box::new(current.clone())),
                    }
                }
                Err(error) => {
                    let sentence = format!("kept the old configuration: {}", in_words(&error));
                    tracing::error!("{sentence}");
                    Reload {
                        config: Err(sentence),
                    }
                }
            };
            // The loop is gone only while the program stops.
            let _ = reloads.send(reload).await;
            // The first receiver may be new. Reading the program from its disk holds up no configuration.
            spawn_blocking(move || taken.iter().for_each(memory::keep));
        }
    });
    Ok(())
}

/// Reads all files. Fails if cowbell would not start with them.
fn read(load: &Load, inherited: &[SocketAddr]) -> anyhow::Result<(Access, Config)> {
    let config = load()?;
    let access = Access::of(&config)?;
    check_addresses(&config, inherited, access.token.is_some())?;
    let host = RecordingHeader::of_this_machine(config.interval.0).host;
    let config = notify::ready(config, &host)?;
    remote_write::check(&config)?;
    Ok((access, config))
}

fn log(restart: &[&str]) {
    match restart.is_empty() {
        true => tracing::info!("took the new configuration"),
        false => {
            tracing::warn!(
                "took the new configuration, but a restart is needed for {}",
                restart.join(", ")
            )
        }
    }
}
