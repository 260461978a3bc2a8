//! `cowbell serve`, `reader` and `demo`: start all parts in order, and stop them in reverse order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::listeners::Listeners;
use super::memory;
use super::output::{complain, print};
use super::reload::{self, Load};
use crate::check;
use crate::config::{Config, ConfigError};
use crate::daemon::{self, Inlets, Outlets, Terms};
use crate::fleet::Fleet;
use crate::notify::Notifier;
use crate::present::Present;
use crate::remote_write::{ExternalLabels, RemoteWrite};
use crate::source::files::Root;
use crate::source::hooks::{self, HookListener};
use crate::source::live::Live;
use crate::source::reader::{Inherited, ReaderServer, Remote};
use crate::source::recording::{Player, RecordingHeader, Speed};
use crate::source::{Source, machine_id};
use crate::store::{self, StoreReader, TickOrigin};
use crate::systemd::{self, feed_every, is_supervisor};
use crate::web::{self, Access, Demo, Listener, Site};

/// Maximum number of queued commands for the loop.
const COMMANDS: usize = 64;
/// Maximum number of queued commands for recorders.
const ACCEPTED: usize = 256;
/// A recording of a real LVM host on which a snapshot overflows during a backup, by `tests/lab/run experiment-demo`.
static RECORDING: &[u8] = include_bytes!("../../web/demo.cowbell");
/// What it shows.
const STORY: &str = "half an hour on a database server whose backup fails";
/// The time limit for pending requests when the program stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(300);

/// Watches this machine until a signal.
pub async fn this_machine(
    config: Config,
    load: Load,
    db: Option<PathBuf>,
    root: Root,
    reader: Option<PathBuf>,
    web: &Handle,
) -> anyhow::Result<()> {
    let interval = config.interval.0;
    let header = RecordingHeader::of_this_machine(interval);
    let path = store::path(db.as_deref())?;
    let terms = Terms::of(header).with_note(check::waits_with_a_volume(&root, &path));
    if let Some(socket) = reader {
        let source = Source::Remote(Box::new(Remote::new(socket, root, interval)?));
        return serve(config, load, source, terms, &path, web).await;
    }
    let (hook_listener, problem) = hook_listener(check::hook_socket(&config));
    let mut live = Live::new(root, interval, config.lvm.source)?;
    live.hook_listener = hook_listener;
    live.create_probes();
    let source = Source::Live(Box::new(live));
    let terms = terms.with_note(problem);
    serve(config, load, source, terms, &path, web).await
}

/// Reads this machine for a daemon, until a signal. Its hooks are received beside its socket, unless configured.
/// systemd starts it for each connection, so with a wrong configuration it waits, and tries again with each.
pub async fn reader(
    config: Result<Config, ConfigError>,
    load: Load,
    socket: &Path,
    root: Root,
) -> anyhow::Result<()> {
    let shutdown = signalled()?;
    let sockets = Inherited::take();
    let feeding = tokio::spawn(feed_watchdog());
    let config = match config {
        Ok(config) => config,
        Err(error) => {
            let loaded = sockets.wait_for(error.into(), load);
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                config = loaded => config?,
            }
        }
    };
    let hooks = config.hooks.socket.as_ref().map_or_else(
        || socket.with_file_name(hooks::FILE_NAME),
        |path| path.0.clone(),
    );
    let mut reader =
        ReaderServer::open(sockets, socket, root, config.interval.0, config.lvm.source)?;
    (reader.hooks, _) = hook_listener(Some(hooks));
    if let Err(error) = memory::lock() {
        tracing::debug!("memory is not locked: {}", store::in_words(&error));
    }
    reader.serve(&shutdown).await?;
    feeding.abort();
    Ok(())
}

/// Reports readiness, then feeds the watchdog: systemd restarts a reader that stays silent.
async fn feed_watchdog() {
    systemd::notify("READY=1");
    loop {
        tokio::time::sleep(feed_every()).await;
        systemd::notify("WATCHDOG=1");
    }
}

/// Shows a recording, with a temporary database unless one is named.
pub async fn recording(
    config: Config,
    load: Load,
    db: Option<PathBuf>,
    player: Player,
    web: &Handle,
) -> anyhow::Result<()> {
    let header = player.header().clone();
    let place = DatabasePlace::of(db)?;
    let terms = Terms::of(header);
    serve(config, load, player.into(), terms, &place.path, web).await
}

/// The database of a recording: the named one, or one that is removed when this is dropped.
struct DatabasePlace {
    path: PathBuf,
    _folder: Option<tempfile::TempDir>,
}

impl DatabasePlace {
    fn of(named: Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(path) = named {
            return Ok(Self {
                path,
                _folder: None,
            });
        }
        let folder = store::passing_folder()?;
        Ok(Self {
            path: folder.path().join("cowbell.db"),
            _folder: Some(folder),
        })
    }
}

/// Plays the recording until a signal, again whenever the button of its banner is pressed, each time with a new database
/// unless one is named.
pub async fn demo(
    config: Config,
    db: Option<PathBuf>,
    speed: Speed,
    web: &Handle,
) -> anyhow::Result<()> {
    complain("a recording of a backup that fails");
    let header = Player::of_bytes(RECORDING, speed)?.header().clone();
    let mut server = Server::open(config, &header.host, web)?;
    let demo = Demo {
        story: STORY,
        speed: speed.to_string(),
        is_repeatable: db.is_none(),
    };
    while !server.shutdown.is_cancelled() {
        let source = Player::of_bytes(RECORDING, speed)?.into();
        let terms = Terms::of(header.clone());
        let place = DatabasePlace::of(db.clone())?;
        server
            .run(source, terms, &place.path, None, Some(demo.clone()))
            .await?;
    }
    Ok(())
}

/// The listener for hooks at a path. If it fails, cowbell only warns.
pub fn hook_listener(path: Option<PathBuf>) -> (Option<HookListener>, Option<String>) {
    match path.map(|path| HookListener::open(&path)).transpose() {
        Ok(hook_listener) => (hook_listener, None),
        Err(why) => {
            tracing::warn!("{why}");
            (None, Some(why))
        }
    }
}

/// Serves until a signal.
async fn serve(
    config: Config,
    load: Load,
    source: Source,
    terms: Terms,
    path: &Path,
    web: &Handle,
) -> anyhow::Result<()> {
    let mut server = Server::open(config, &terms.host, web)?;
    server.run(source, terms, path, Some(load), None).await
}

/// What remains open while a demo is played again. Pages and notifications run on `web`, the loop on the current runtime.
struct Server<'a> {
    config: Config,
    access: Arc<Access>,
    listeners: Listeners,
    /// Cancelled by a signal.
    shutdown: CancellationToken,
    web: &'a Handle,
}

impl<'a> Server<'a> {
    fn open(config: Config, host: &str, web: &'a Handle) -> anyhow::Result<Self> {
        survive_file_size_limit()?;
        let (access, config) = reload::ready(config, host)?;
        let listeners = {
            let _web = web.enter();
            Listeners::open(&config, access.tokens().next().is_some())?
        };
        memory::keep(&config);
        Ok(Self {
            config,
            access: Arc::new(access),
            listeners,
            shutdown: signalled()?,
            web,
        })
    }

    /// Until a signal, or until a demo is to be played again.
    async fn run(
        &mut self,
        source: Source,
        terms: Terms,
        path: &Path,
        load: Option<Load>,
        demo: Option<Demo>,
    ) -> anyhow::Result<()> {
        let config = &self.config;
        let holds = if source.is_live() {
            TickOrigin::ThisMachine
        } else {
            TickOrigin::Recording
        };
        let (writer, store) = store::open(path, holds, config.store).await?;
        let known = store.start_state().clone();
        let shutdown = self.shutdown.child_token();
        let (access_sender, access) = watch::channel(Arc::clone(&self.access));
        let (reloads, reloaded) = mpsc::channel(1);
        let (present, published) = watch::channel(None);
        let (commands, requests) = mpsc::channel(COMMANDS);
        let (on_alerts, alert_requests) = mpsc::channel(COMMANDS);
        let accepted = broadcast::Sender::new(ACCEPTED);

        let on_web = self.web.enter();
        let notifier = Notifier::start(&config.notify, &terms.host, known.unfinished.clone());
        let fleet = config.fleet.as_ref().map(Fleet::new).transpose();
        let fleet = fleet.map_err(|why| anyhow!("in [fleet]: {why}"))?;
        let mut remote_write = None;
        // A demo says nothing about this machine, and is played again at the same sockets.
        let listeners = if demo.is_some() {
            let all = self.listeners.all.iter();
            all.map(Listener::try_clone).collect::<Result<_, _>>()?
        } else {
            remote_write = self.remote_write(&terms.host, &store)?;
            self.beat(published.clone())?;
            std::mem::take(&mut self.listeners.all)
        };
        if let Some(load) = load.filter(|_| is_supervisor()) {
            let inherited = self.listeners.inherited.clone();
            reload::start(load, inherited, config.clone(), access_sender, reloads)?;
        }
        if let Some(tls) = &self.listeners.tls {
            tokio::spawn(Arc::clone(tls).follow(shutdown.clone()));
        }
        drop(on_web);
        let site = Arc::new(Site {
            present: published,
            store,
            commands: source.is_live().then_some(commands),
            alert_commands: on_alerts,
            accepted: accepted.clone(),
            access,
            has_tls: config.tls.is_some(),
            prefix: config.proxy.prefix.0.as_str().into(),
            grafana: config.grafana.clone().map(Arc::new),
            fleet: fleet.map(Arc::new),
            streams: Arc::new(Semaphore::new(web::MOST_STREAMS)),
            shutdown: shutdown.clone(),
            costs: Default::default(),
            demo: demo.map(Arc::new),
        });
        announce(&mut self.listeners.places);
        if matches!(source, Source::Live(_)) {
            tracing::info!(
                "this process reads LVM and serves HTTP; the service has a process for each"
            );
        }
        let pages = self.web.spawn(web::serve(listeners, site));

        let inlets = Inlets {
            commands: requests,
            alert_commands: alert_requests,
            reloads: reloaded,
        };
        let mut outlets = Outlets {
            store: writer,
            notifier,
            remote_write,
            present,
            accepted,
        };
        let terms = terms.with_config(&self.config);
        daemon::run(source, inlets, terms, known, &mut outlets, &shutdown).await;

        shutdown.cancel();
        if self.shutdown.is_cancelled() {
            self.listeners.control.take();
        }
        outlets.store.close().await;
        match tokio::time::timeout(STOP_TIMEOUT, pages).await {
            Ok(ended) => ended.context("the pages ended early"),
            // The remaining connections are closed.
            Err(_) => Ok(()),
        }
    }

    /// Sends ticks, if a receiver is configured.
    fn remote_write(&self, host: &str, store: &StoreReader) -> anyhow::Result<Option<RemoteWrite>> {
        let Some(settings) = &self.config.remote_write else {
            return Ok(None);
        };
        let machine_id = machine_id().unwrap_or_else(|why| {
            tracing::warn!("samples of [remote_write] have no label `machine_id`: {why}");
            String::new()
        });
        let instance = settings.instance.as_ref();
        let labels = ExternalLabels {
            instance: instance.map_or(host, |label| &label.0).into(),
            machine_id,
        };
        RemoteWrite::start(settings, labels, store.clone(), self.web)
            .map(Some)
            .map_err(|why| anyhow!("in [remote_write]: {why}"))
    }

    /// Reports that cowbell runs, if a receiver of that is configured.
    fn beat(&self, published: watch::Receiver<Option<Arc<Present>>>) -> anyhow::Result<()> {
        let Some(heartbeat) = &self.config.heartbeat else {
            return Ok(());
        };
        let connected = heartbeat.connect();
        let connected = connected.map_err(|why| anyhow!("in [heartbeat]: {why}"))?;
        let problem = move || match &*published.borrow() {
            Some(present) => present.problem(),
            None => Some("no tick was taken yet".into()),
        };
        self.web.spawn(connected.beat(problem));
        Ok(())
    }
}

/// Prints each address once.
fn announce(places: &mut Vec<String>) {
    for place in places.drain(..) {
        // cowbell watches even if nothing can be printed.
        if let Err(error) = print(&format!("cowbell is at {place}\n")) {
            tracing::warn!("{}", store::in_words(&error));
        }
    }
}

/// A write beyond `ulimit -f` returns an error instead of killing cowbell: from here on, a handler replaces the signal's
/// default action.
fn survive_file_size_limit() -> anyhow::Result<()> {
    signal(SignalKind::from_raw(libc::SIGXFSZ))
        .map(drop)
        .context("cannot handle SIGXFSZ")
}

/// A token that SIGTERM and SIGINT cancel, and a closed terminal. For a service, SIGHUP means to reload.
pub fn signalled() -> anyhow::Result<CancellationToken> {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot wait for SIGINT")?;
    let mut hang_up = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv(), if !is_supervisor() => {}
        }
        cancelled.cancel();
    });
    Ok(token)
}
