//! A new configuration without a restart, at SIGHUP from systemd.

use std::sync::Arc;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::config::Config;
use crate::daemon::Reload;
use crate::store::in_words;
use crate::web::Access;

/// Reads the configuration again.
pub type Load = Box<dyn Fn() -> anyhow::Result<Config> + Send>;

/// Reloads at each SIGHUP. A configuration that is wrong changes nothing.
pub fn start(
    load: Load,
    mut current: Config,
    access: watch::Sender<Arc<Access>>,
    reloads: mpsc::Sender<Reload>,
) -> anyhow::Result<()> {
    let mut hang_up = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            let loaded = load().and_then(|config| {
                let notify = config.receivers()?;
                Ok((Access::of(&config)?, Config { notify, ..config }))
            });
            let reload = match loaded {
                Ok((new, config)) => {
                    access.send_replace(Arc::new(new));
                    let restart = config.needs_restart(&current);
                    current = config;
                    log(&restart);
                    Reload { config: Ok(Box::new(current.clone())) }
                }
                Err(error) => {
                    let sentence = format!("kept the old configuration: {}", in_words(&error));
                    tracing::error!("{sentence}");
                    Reload { config: Err(sentence) }
                }
            };
            // The loop is gone only while the program stops.
            let _ = reloads.send(reload).await;
        }
    });
    Ok(())
}

fn log(restart: &[&str]) {
    match restart.is_empty() {
        true => tracing::info!("took the new configuration"),
        false => {
            tracing::warn!("took the new configuration, but a restart is needed for {}", restart.join(", "))
        }
    }
}
