//! The privileged half: reads this machine for one client at a time.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use anyhow::Context;
use futures_util::{SinkExt, StreamExt};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::codec::{Framed, LinesCodec};
use tokio_util::sync::CancellationToken;

use super::{MAX_REQUEST, SEND_TIMEOUT, parse_request};
use crate::config::LvmSource;
use crate::source::Reading;
use crate::source::files::Root;
use crate::source::hooks::{HookListener, remove_stale};
use crate::source::live::Live;
use crate::source::recording::RecordingHeader;
use crate::systemd::take_sockets;

/// The pause after a connection that failed before it was accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Sockets from systemd.
#[derive(Default)]
pub struct Inherited {
    listener: Option<OwnedFd>,
    /// A netlink socket of the host's network namespace, for reading exits.
    netlink: Option<OwnedFd>,
}

/// What to read, and for whom.
pub struct ReaderServer {
    root: Root,
    interval: Duration,
    lvm: LvmSource,
    pub hooks: Option<HookListener>,
    netlink: Option<OwnedFd>,
    listener: UnixListener,
    /// The group whose processes may connect, besides root.
    group: u32,
}

impl Inherited {
    /// Takes the sockets of this process's unit, once.
    pub fn take() -> Self {
        let mut sockets = Self::default();
        for socket in take_sockets() {
            match is_netlink(socket.as_fd()) {
                true => sockets.netlink = Some(socket),
                false => sockets.listener = Some(socket),
            }
        }
        sockets
    }
}

impl Inherited {
    /// Answers clients with what is wrong, until `load` succeeds. The error itself, if no socket is inherited.
    pub async fn wait_for<T>(
        &self,
        error: anyhow::Error,
        load: impl Fn() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let Some(socket) = &self.listener else {
            return Err(error);
        };
        let listener = std::os::unix::net::UnixListener::from(socket.try_clone()?);
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        tracing::error!("waits until this is mended: {error:#}");
        loop {
            let Ok((client, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            match load() {
                Ok(loaded) => return Ok(loaded),
                Err(error) => {
                    // A client that is gone needs no answer.
                    let _ = client.try_write(format!("{error:#}\n").as_bytes());
                }
            }
        }
    }
}

fn is_netlink(socket: BorrowedFd<'_>) -> bool {
    rustix::net::sockopt::socket_domain(socket)
        .is_ok_and(|domain| domain == rustix::net::AddressFamily::NETLINK)
}

impl ReaderServer {
    /// Listens on systemd's socket, or else at `path`.
    pub fn open(
        sockets: Inherited,
        path: &Path,
        root: Root,
        interval: Duration,
        lvm: LvmSource,
    ) -> anyhow::Result<Self> {
        let cannot = || format!("cannot listen for the daemon at {}", path.display());
        let listener = match sockets.listener {
            Some(socket) => {
                let socket = std::os::unix::net::UnixListener::from(socket);
                socket
                    .set_nonblocking(true)
                    .and_then(|()| UnixListener::from_std(socket))
                    .with_context(cannot)?
            }
            None => {
                let is_listening = std::os::unix::net::UnixStream::connect(path).is_ok();
                remove_stale(path, is_listening)
                    .map_err(anyhow::Error::msg)
                    .with_context(cannot)?;
                UnixListener::bind(path).with_context(cannot)?
            }
        };
        let group = std::fs::metadata(path).with_context(cannot)?.gid();
        Ok(Self {
            root,
            interval,
            lvm,
            hooks: None,
            netlink: sockets.netlink,
            listener,
            group,
        })
    }

    /// Serves one client after the other, until the token is cancelled.
    pub async fn serve(mut self, shutdown: &CancellationToken) -> anyhow::Result<()> {
        let mut touched = None;
        loop {
            let client = tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                client = self.listener.accept() => client,
            };
            let Ok((client, _)) = client else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            if let Err(why) = self.admit(&client) {
                refuse(client, &why);
                continue;
            }
            // A new one begins with a complete reading. Hooks and counts of written areas continue.
            let mut live = Live::new(self.root.clone(), self.interval, self.lvm)?;
            live.hook_listener = self.hooks.take();
            if let Some(netlink) = &self.netlink
                && let Ok(netlink) = netlink.try_clone()
            {
                live.inherit_netlink(netlink);
            }
            if live.touched.is_some() && touched.is_some() {
                live.touched = touched.take();
            }
            live.create_probes();
            if let Err(why) = self.stream(&mut live, client, shutdown).await {
                tracing::warn!("closed the daemon's connection: {why}");
            }
            self.hooks = live.hook_listener;
            touched = live.touched;
        }
    }

    /// Only root, this process's own user, and the socket's group may read.
    fn admit(&self, client: &UnixStream) -> Result<(), String> {
        let peer = client.peer_cred().map_err(|error| error.to_string())?;
        let own = rustix::process::geteuid().as_raw();
        if [0, own].contains(&peer.uid()) || peer.gid() == self.group {
            return Ok(());
        }
        Err(format!(
            "user {} with group {} is not root and not in group {}",
            peer.uid(),
            peer.gid(),
            self.group
        ))
    }

    /// Sends readings until the client leaves.
    async fn stream(
        &self,
        live: &mut Live,
        client: UnixStream,
        shutdown: &CancellationToken,
    ) -> Result<(), String> {
        let mut client = Framed::new(client, LinesCodec::new_with_max_length(MAX_REQUEST));
        send(
            &mut client,
            &RecordingHeader::of_this_machine(self.interval),
        )
        .await?;
        loop {
            let mut pids = None;
            let reading: Reading = {
                let mut next = pin!(live.next());
                loop {
                    tokio::select! {
                        () = shutdown.cancelled() => return Ok(()),
                        reading = &mut next => break reading,
                        request = client.next() => match request {
                            Some(line) => pids = Some(parse_request(&line.map_err(|error| error.to_string())?)?),
                            None => return Ok(()),
                        },
                        Ok((other, _)) = self.listener.accept() => refuse(other, "another client is connected"),
                    }
                }
            };
            if let Some(pids) = pids {
                live.watch(&pids);
            }
            send(&mut client, &reading).await?;
        }
    }
}

async fn send(
    client: &mut Framed<UnixStream, LinesCodec>,
    value: &impl serde::Serialize,
) -> Result<(), String> {
    let line = serde_json::to_string(value).map_err(|error| error.to_string())?;
    match tokio::time::timeout(SEND_TIMEOUT, client.send(line)).await {
        Ok(sent) => sent.map_err(|error| error.to_string()),
        Err(_) => Err(format!("it took nothing for {} s", SEND_TIMEOUT.as_secs())),
    }
}

/// Tells a client why it is not served, without waiting for it.
fn refuse(client: UnixStream, why: &str) {
    tracing::warn!("refused a connection: {why}");
    // A client that is gone needs no answer.
    let _ = client.try_write(format!("{why}\n").as_bytes());
}
