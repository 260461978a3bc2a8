//! A new configuration without a restart, at SIGHUP from systemd.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::{block_in_place, spawn_blocking};

use super::listeners::check_addresses;
use super::memory;
use crate::config::{Config, ConfigError};
use crate::daemon::Reload;
use crate::notify;
use crate::remote_write;
use crate::source::recording::RecordingHeader;
use crate::store::in_words;
use crate::web::{Access, Tls};

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
            let config = match block_in_place(|| read(&load, &inherited)) {
                Ok((new, config)) => {
                    access.send_replace(Arc::new(new));
                    log(&config.needs_restart(&current));
                    current = config;
                    // The first receiver may be new. Reading the program from its disk holds up no configuration.
                    let taken = current.clone();
                    spawn_blocking(move || memory::keep(&taken));
                    Ok(Box::new(current.clone()))
                }
                Err(error) => {
                    let sentence = format!("kept the old configuration: {}", in_words(&error));
                    tracing::error!("{sentence}");
                    Err(sentence)
                }
            };
            // The loop is gone only while the program stops.
            let _ = reloads.send(Reload { config }).await;
        }
    });
    Ok(())
}

/// Reads all files. Fails if cowbell would not start with them.
fn read(load: &Load, inherited: &[SocketAddr]) -> anyhow::Result<(Access, Config)> {
    let config = load()?;
    let host = RecordingHeader::of_this_machine(config.interval.0).host;
    let (access, config) = ready(config, &host)?;
    check_addresses(&config, inherited, access.tokens().next().is_some())?;
    Ok((access, config))
}

/// Who may do what, and the configuration with its secrets. Fails if some message or sample could not be sent, if the
/// proxy's user is unknown, or without the certificate.
pub fn ready(config: Config, host: &str) -> anyhow::Result<(Access, Config)> {
    let access = Access::of(&config)?;
    config.proxy.user_number()?;
    config.tls.as_ref().map(Tls::open).transpose()?;
    let config = notify::ready(config, host)?;
    remote_write::check(&config)?;
    Ok((access, config))
}

/// Checks the configuration of another host, whose secrets need not be here.
pub fn check_elsewhere(config: Config) -> Result<(), ConfigError> {
    if config.clone().load_secrets().is_err() {
        return Ok(());
    }
    let config = notify::ready(config, "localhost")?;
    remote_write::check(&config)
}

/// Makes systemd's reload fail if the configuration is wrong; the daemon then says so too, and keeps the old one.
pub fn tell_daemon(config: Result<Config, ConfigError>) -> anyhow::Result<()> {
    let pid = std::env::var("MAINPID").ok();
    let pid = pid.and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    let pid =
        pid.context("expected the daemon's process in MAINPID: run `systemctl reload cowbell`")?;
    kill_process(pid, Signal::HUP).context("cannot send SIGHUP to the daemon")?;
    ready(config?, "localhost")?;
    Ok(())
}

fn log(restart: &[&str]) {
    if restart.is_empty() {
        tracing::info!("took the new configuration");
    } else {
        tracing::warn!(
            "took the new configuration, but a restart is needed for {}",
            restart.join(", ")
        );
    }
}
