//! Opens the sockets of the site: those that systemd passes, or else those of the configuration.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use rustix::net::AddressFamily;
use rustix::net::sockopt::{socket_acceptconn, socket_domain};

use crate::client;
use crate::config::{Config, ConfigError, check_address};
use crate::source::hooks::remove_stale;
use crate::store::in_words;
use crate::systemd::{self, take_sockets};
use crate::web::{Listener, Tls};

/// Everybody may connect; who may do what is decided for each connection.
const SOCKET_MODE: u32 = 0o666;

/// All sockets of the site.
#[derive(Default)]
pub struct Listeners {
    pub all: Vec<Listener>,
    /// The user that the proxy runs as.
    proxy_user: Option<u32>,
    /// With HTTPS.
    pub tls: Option<Arc<Tls>>,
    /// Where people find the site.
    pub places: Vec<String>,
    /// Addresses of systemd's sockets, which replace the configured one.
    pub inherited: Vec<SocketAddr>,
    /// Removes the control socket when dropped; `None` if systemd made it, or if there is none.
    pub control: Option<RemovedFile>,
}

/// A socket that is removed when dropped.
pub struct RemovedFile(PathBuf);

impl Drop for RemovedFile {
    fn drop(&mut self) {
        // If this fails, the next start replaces it.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listeners {
    /// Opens all sockets; within a runtime. Fails if the site would be open to other hosts without a token.
    pub fn open(config: &Config, has_token: bool) -> anyhow::Result<Self> {
        let mut listeners = Self {
            proxy_user: config.proxy.user_number()?,
            tls: config
                .tls
                .as_ref()
                .map(Tls::open)
                .transpose()?
                .map(Arc::new),
            ..Self::default()
        };
        let sockets = take_sockets();
        let addresses: Vec<SocketAddr> = sockets.iter().filter_map(network_address).collect();
        check_addresses(config, &addresses, has_token)
            .inspect_err(|_| systemd::close_waiting(&sockets))?;
        for socket in sockets {
            listeners.add_inherited(socket)?;
        }
        if listeners.inherited.is_empty() {
            listeners.listen(config.listen.0)?;
        }
        if let Some(path) = &config.proxy.socket {
            listeners.add_proxy(bind(&path.0)?, &path.0)?;
        }
        let is_control = |listener: &Listener| matches!(listener, Listener::Control { .. });
        if !listeners.all.iter().any(is_control) {
            listeners.add_own_control(config);
        }
        Ok(listeners)
    }

    /// By its address, systemd's socket is for the network, for commands or for a proxy.
    fn add_inherited(&mut self, socket: OwnedFd) -> anyhow::Result<()> {
        if !socket_acceptconn(&socket)? {
            bail!(
                "systemd passed a socket that accepts no connections: use only `ListenStream=` in cowbell.socket"
            );
        }
        if socket_domain(&socket)? != AddressFamily::UNIX {
            let socket = TcpListener::from(socket);
            self.inherited.push(socket.local_addr()?);
            return self.add_network(socket);
        }
        let socket = UnixListener::from(socket);
        let address = socket.local_addr()?;
        let path = address.as_pathname().unwrap_or(Path::new("(unnamed)"));
        if !path.ends_with(client::CONTROL_SOCKET) {
            return self.add_proxy(socket, path);
        }
        let file = std::fs::metadata(path).with_context(|| cannot_listen(path))?;
        self.all.push(Listener::Control {
            socket: nonblocking(socket)?,
            group: Some(file.gid()),
        });
        Ok(())
    }

    /// Listens on the address, and also on loopback.
    fn listen(&mut self, address: SocketAddr) -> anyhow::Result<()> {
        let socket = bind_address(address)?;
        let port = socket.local_addr()?.port();
        self.add_network(socket)?;
        if !address.ip().is_unspecified() {
            let loopback = SocketAddr::new(client::loopback(address.ip()), port);
            if loopback.ip() != address.ip() {
                self.push_network(bind_address(loopback)?)?;
            }
        }
        Ok(())
    }

    fn add_network(&mut self, socket: TcpListener) -> anyhow::Result<()> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.places
            .push(format!("{scheme}://{}/", socket.local_addr()?));
        self.push_network(socket)
    }

    fn push_network(&mut self, socket: TcpListener) -> anyhow::Result<()> {
        socket.set_nonblocking(true)?;
        self.all.push(Listener::Network {
            socket: tokio::net::TcpListener::from_std(socket)?,
            tls: self.tls.clone(),
        });
        Ok(())
    }

    fn add_proxy(&mut self, socket: UnixListener, path: &Path) -> anyhow::Result<()> {
        self.places.push(format!("{}, for a proxy", path.display()));
        self.all.push(Listener::Proxy {
            socket: nonblocking(socket)?,
            user: self.proxy_user,
        });
        Ok(())
    }

    /// The control socket of a daemon that systemd did not start. Without it, cowbell only warns.
    fn add_own_control(&mut self, config: &Config) {
        let address = self.all.iter().find_map(|listener| match listener {
            Listener::Network { socket, .. } => socket.local_addr().ok(),
            _ => None,
        });
        let path = client::own_socket(address.unwrap_or(config.listen.0).port());
        match own_control(&path) {
            Ok(socket) => {
                self.all.push(Listener::Control {
                    socket,
                    group: None,
                });
                self.control = Some(RemovedFile(path));
            }
            Err(error) => tracing::warn!(
                "commands such as `cowbell run` do not work: {}",
                in_words(&error)
            ),
        }
    }
}

/// Fails if the site would be open to other hosts without a token.
pub fn check_addresses(
    config: &Config,
    inherited: &[SocketAddr],
    has_token: bool,
) -> Result<(), ConfigError> {
    if inherited.is_empty() {
        return check_address(config.listen.0, has_token);
    }
    inherited
        .iter()
        .try_for_each(|address| check_address(*address, has_token))
}

fn network_address(socket: &OwnedFd) -> Option<SocketAddr> {
    rustix::net::getsockname(socket).ok()?.try_into().ok()
}

fn own_control(path: &Path) -> anyhow::Result<tokio::net::UnixListener> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| cannot_listen(path))?;
    }
    nonblocking(bind(path)?)
}

fn bind_address(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => "another program uses it, maybe a running cowbell",
            ErrorKind::AddrNotAvailable => "this host does not have this address",
            ErrorKind::PermissionDenied => "ports below 1024 need root",
            _ => "the system refused",
        };
        anyhow!("cannot listen on {address}: {hint} ({error}); name another address with --listen")
    })
}

/// Replaces a stale socket, but no other file.
fn bind(path: &Path) -> anyhow::Result<UnixListener> {
    let is_listening = UnixStream::connect(path).is_ok();
    if let Err(why) = remove_stale(path, is_listening) {
        bail!("{}: {why}", cannot_listen(path));
    }
    let socket = UnixListener::bind(path).with_context(|| cannot_listen(path))?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(SOCKET_MODE))
        .with_context(|| cannot_listen(path))?;
    Ok(socket)
}

fn cannot_listen(path: &Path) -> String {
    format!("cannot listen at {}", path.display())
}

fn nonblocking(socket: UnixListener) -> anyhow::Result<tokio::net::UnixListener> {
    socket.set_nonblocking(true)?;
    Ok(tokio::net::UnixListener::from_std(socket)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_listening_sockets_of_systemd_are_accepted() {
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = Listeners::default()
            .add_inherited(datagrams.into())
            .unwrap_err();
        assert!(
            error.to_string().contains("accepts no connections"),
            "{error}"
        );
        assert!(
            Listeners::default()
                .add_inherited(TcpListener::bind("127.0.0.1:0").unwrap().into())
                .is_ok()
        );
    }

    #[test]
    fn addresses_of_systemd_replace_the_configured_one() {
        let check = |configured: &str, inherited: &[&str]| {
            let mut config = Config::default();
            config.listen.0 = configured.parse().unwrap();
            let inherited: Vec<_> = inherited
                .iter()
                .map(|address| address.parse().unwrap())
                .collect();
            assert!(check_addresses(&config, &inherited, true).is_ok());
            check_addresses(&config, &inherited, false).is_ok()
        };
        assert!(check("127.0.0.1:2692", &[]));
        assert!(!check("0.0.0.0:2692", &[]));
        assert!(check("0.0.0.0:2692", &["[::1]:2692"]));
        assert!(!check("127.0.0.1:2692", &["[::1]:2692", "10.0.0.5:2692"]));
    }
}
