//! Accepts connections, with limits on their number and on the time for a request, so that clients cannot use up
//! file descriptors and memory, or keep others out; and tells who is at the other end.
//!
//! Over the control socket, the kernel tells which process connected. All others have an address, or came through a proxy.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;
use tower_http::add_extension::AddExtension;

use super::tls::Tls;

/// Concurrent connections from other machines, from this one, and through a proxy; further ones are closed. A browser keeps
/// up to six.
const MOST_REMOTE: usize = 384;
const MOST_LOOPBACK: usize = 448;
const MOST_PROXIED: usize = 256;
/// Over the control socket, for operators and for other users.
const MOST_OPERATORS: usize = 16;
const MOST_USERS: usize = 64;
/// One address, or one user of this machine, gets three quarters of the places of its kind. Operators and the known proxy
/// have no such limit.
const OF_ONE: (usize, usize) = (3, 4);
/// With fewer connections from this machine, it does not matter whose they are.
const LOOPBACK_OF_ALL: usize = 32;
/// File descriptors that no client gets; of a lower limit than usual, a quarter.
const MOST_RESERVED: u64 = 64;
/// The time limit for the head of a request, and for the pause before the next one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit for a body. The largest is the file of a job, from a machine nearby.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a request's head, and of a connection's buffers.
const LONGEST_HEAD: usize = 32 * 1024;
/// The pause after an error of `accept(2)`, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where clients connect.
#[derive(Debug)]
pub enum Listener {
    /// For everybody who reaches its address.
    Network {
        socket: TcpListener,
        /// With HTTPS.
        tls: Option<Arc<Tls>>,
    },
    /// For a proxy, which runs as this user. `None` if it was not said: then no forwarded address is believed.
    Proxy {
        socket: UnixListener,
        user: Option<u32>,
    },
    /// For commands on this machine. Processes of the group may change everything.
    Control {
        socket: UnixListener,
        group: Option<u32>,
    },
}

type ClientStream = Either<TcpStream, UnixStream>;

impl Listener {
    /// The same socket again; within a runtime.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Network { socket, tls } => Self::Network {
                socket: TcpListener::from_std(socket.as_fd().try_clone_to_owned()?.into())?,
                tls: tls.clone(),
            },
            Self::Proxy { socket, user } => Self::Proxy {
                socket: try_clone(socket)?,
                user: *user,
            },
            Self::Control { socket, group } => Self::Control {
                socket: try_clone(socket)?,
                group: *group,
            },
        })
    }

    fn tls(&self) -> Option<Arc<Tls>> {
        match self {
            Self::Network { tls, .. } => tls.clone(),
            _ => None,
        }
    }

    async fn accept(&self) -> io::Result<(ClientStream, Peer)> {
        Ok(match self {
            Self::Network { socket, .. } => {
                let (stream, client) = socket.accept().await?;
                // The rest of a page does not wait until the client acknowledges its head. Without this it is only later.
                let _ = stream.set_nodelay(true);
                let peer = Peer::Host(TcpPeer::new(client, stream.local_addr()?));
                (Either::Left(stream), peer)
            }
            Self::Proxy { socket, user } => {
                let (stream, _) = socket.accept().await?;
                let found = stream.peer_cred()?.uid();
                let peer = Peer::Proxy {
                    user: found,
                    is_known: Some(found) == *user,
                };
                (Either::Right(stream), peer)
            }
            Self::Control { socket, group } => {
                let (stream, _) = socket.accept().await?;
                let peer = Peer::at_control(&stream, *group)?;
                (Either::Right(stream), peer)
            }
        })
    }
}

fn try_clone(socket: &UnixListener) -> io::Result<UnixListener> {
    UnixListener::from_std(socket.as_fd().try_clone_to_owned()?.into())
}

/// Places for connections: of each kind of client, and of each client.
#[derive(Clone)]
struct Places {
    remote: Arc<Semaphore>,
    loopback: Arc<Semaphore>,
    proxied: Arc<Semaphore>,
    operators: Arc<Semaphore>,
    users: Arc<Semaphore>,
    clients: Arc<Mutex<PlacesOfOne>>,
}

/// By client and the number of its places.
type PlacesOfOne = HashMap<(CountedClient, usize), Arc<Semaphore>>;
type HeldPermits = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl Places {
    fn new() -> Self {
        let places = |most| Arc::new(Semaphore::new(most));
        Self {
            remote: places(MOST_REMOTE),
            loopback: places(MOST_LOOPBACK),
            proxied: places(MOST_PROXIED),
            operators: places(MOST_OPERATORS),
            users: places(MOST_USERS),
            clients: Arc::default(),
        }
    }

    /// `None` if there is none for this client.
    fn take(&self, peer: &Peer) -> Option<HeldPermits> {
        let (places, all, client) = match peer {
            process if process.is_operator() => (&self.operators, MOST_OPERATORS, None),
            Peer::Process(PeerProcess { user, .. }) => {
                (&self.users, MOST_USERS, Some(CountedClient::User(*user)))
            }
            Peer::Proxy { user, is_known } => {
                let client = (!is_known).then_some(CountedClient::User(*user));
                (&self.proxied, MOST_PROXIED, client)
            }
            Peer::Host(host) if host.is_loopback() => {
                let taken = MOST_LOOPBACK - self.loopback.available_permits();
                let client = (taken >= LOOPBACK_OF_ALL).then(|| host.client());
                (&self.loopback, MOST_LOOPBACK, client)
            }
            Peer::Host(host) => (&self.remote, MOST_REMOTE, Some(host.client())),
        };
        let of_one = match client {
            Some(client) => Some(self.take_of(client, all * OF_ONE.0 / OF_ONE.1)?),
            None => None,
        };
        let place = Arc::clone(places).try_acquire_owned().ok()?;
        Some((place, of_one))
    }

    fn take_of(&self, client: CountedClient, most: usize) -> Option<OwnedSemaphorePermit> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        // Who has no connection is forgotten.
        clients.retain(|(_, most), places| places.available_permits() < *most);
        let places = clients
            .entry((client, most))
            .or_insert_with(|| Arc::new(Semaphore::new(most)));
        Arc::clone(places).try_acquire_owned().ok()
    }
}

/// Serves until the token is cancelled, and then completes pending responses.
pub async fn serve(listeners: Vec<Listener>, router: Router, shutdown: CancellationToken) {
    let places = Places::new();
    let mut serving = JoinSet::new();
    for listener in listeners {
        serving.spawn(serve_one(
            listener,
            router.clone(),
            places.clone(),
            shutdown.clone(),
        ));
    }
    serving.join_all().await;
}

async fn serve_one(
    listener: Listener,
    router: Router,
    places: Places,
    shutdown: CancellationToken,
) {
    let open = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, client)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if is_reserved(&stream) && !client.is_operator() {
            continue;
        }
        if let Some(place) = places.take(&client) {
            let (router, open, tls) = (router.clone(), open.watcher(), listener.tls());
            tokio::spawn(async move {
                let stream = match tls {
                    None => Either::Left(stream),
                    Some(tls) => match tls.accept(stream, HEAD_TIMEOUT).await {
                        Ok(stream) => Either::Right(stream),
                        Err(_) => return,
                    },
                };
                // After a client's error the other connections go on.
                let _ = open.watch(connection(stream, client, router)).await;
                drop(place);
            });
        }
    }
    drop(listener);
    open.shutdown().await;
}

/// Whether a connection has one of the file descriptors that reading LVM, sysfs and the database needs: the kernel gives
/// the lowest number that is free.
fn is_reserved(stream: &ClientStream) -> bool {
    let number = match stream {
        Either::Left(stream) => stream.as_raw_fd(),
        Either::Right(stream) => stream.as_raw_fd(),
    };
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return false;
    };
    let reserved = (limit / 4).min(MOST_RESERVED);
    u64::try_from(number).unwrap_or_default() >= limit - reserved
}

/// The router with the client of a connection. A layer of the router would copy all its routes for each connection.
type Client = AddExtension<Router, Peer>;
type ServedStream = Either<ClientStream, TlsStream<ClientStream>>;
type Http1 = http1::Connection<TokioIo<ServedStream>, TowerToHyperService<Client>>;

fn connection(stream: ServedStream, client: Peer, router: Router) -> Http1 {
    let service = TowerToHyperService::new(AddExtension::new(router, client));
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(LONGEST_HEAD);
    builder.serve_connection(TokioIo::new(stream), service)
}

/// After the limit, reading the body fails and the connection is closed.
pub async fn limit_body_time(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    next.run(request.map(in_time)).await
}

fn in_time(body: Body) -> Body {
    let until = Instant::now() + BODY_TIMEOUT;
    let part = move |rest: Option<BodyDataStream>| async move {
        let mut rest = rest?;
        match timeout_at(until, rest.next()).await {
            Ok(part) => part.map(|part| (part, Some(rest))),
            Err(_) => Some((
                Err(axum::Error::new(io::Error::from(io::ErrorKind::TimedOut))),
                None,
            )),
        }
    };
    Body::from_stream(unfold(Some(body.into_data_stream()), part))
}

/// A proxy's header.
pub const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Supplementary groups of a process that are looked at; the kernel's own limit.
const MOST_GROUPS: usize = 65_536;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Peer {
    /// A host, over TCP.
    Host(TcpPeer),
    /// A program of this user, over the Unix socket for a proxy. The clients of the known proxy are on any host.
    Proxy { user: u32, is_known: bool },
    /// A process of this machine, over the control socket.
    Process(PeerProcess),
}

/// The other end of a TCP connection.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpPeer {
    address: SocketAddr,
    ours: SocketAddr,
    /// On this machine: whose program it is, once that was looked up.
    user: Arc<OnceLock<Option<u32>>>,
}

impl TcpPeer {
    pub fn new(address: SocketAddr, ours: SocketAddr) -> Self {
        Self {
            address,
            ours,
            user: Arc::default(),
        }
    }

    fn is_loopback(&self) -> bool {
        self.address.ip().to_canonical().is_loopback()
    }

    /// A user of this machine, or another host.
    fn client(&self) -> CountedClient {
        let user = self.is_loopback().then(|| self.user()).flatten();
        user.map_or_else(|| CountedClient::of(self.address.ip()), CountedClient::User)
    }

    /// As `/proc/net` tells, which takes milliseconds on a machine with many connections.
    fn user(&self) -> Option<u32> {
        *self.user.get_or_init(|| {
            let entries = match self.address {
                SocketAddr::V4(_) => procfs::net::tcp(),
                SocketAddr::V6(_) => procfs::net::tcp6(),
            };
            let ends = (self.address, self.ours);
            let mut entries = entries.ok()?.into_iter();
            let entry = entries.find(|it| (it.local_address, it.remote_address) == ends);
            Some(entry?.uid)
        })
    }
}

/// Whose connections and wrong tokens are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountedClient {
    Address(IpAddr),
    /// Of this machine, by its number.
    User(u32),
}

impl CountedClient {
    /// One client has all IPv6 addresses of a network.
    fn of(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address => address,
        })
    }
}

/// A process, as it was when it connected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerProcess {
    pub pid: u32,
    pub user: u32,
    /// Whether it may change everything. Others may record their own jobs.
    pub is_operator: bool,
}

impl Peer {
    /// Whether it is a program of this machine, as far as an address tells. A proxy on this machine is one too.
    pub fn is_loopback(&self) -> bool {
        matches!(self, Self::Host(host) if host.is_loopback())
    }

    /// Whether it is a process that may change everything.
    pub fn is_operator(&self) -> bool {
        matches!(self, Self::Process(process) if process.is_operator)
    }

    /// What its wrong tokens are counted by: the address that the known proxy adds last to a header, or what the kernel
    /// tells.
    pub fn client(&self, headers: &HeaderMap) -> CountedClient {
        let forwarded = || {
            let last = headers.get_all(FORWARDED_FOR).iter().next_back()?;
            let last = last.to_str().ok()?.rsplit(',').next()?;
            last.trim().parse().ok()
        };
        match self {
            Self::Process(PeerProcess { user, .. })
            | Self::Proxy {
                user,
                is_known: false,
            } => CountedClient::User(*user),
            Self::Host(host) => host.client(),
            Self::Proxy { .. } => {
                CountedClient::of(forwarded().unwrap_or(Ipv4Addr::UNSPECIFIED.into()))
            }
        }
    }

    /// The process at the other end of the control socket. Root, this process's user and `group` are operators.
    pub fn at_control(stream: &UnixStream, group: Option<u32>) -> io::Result<Self> {
        let peer = stream.peer_cred()?;
        let own = rustix::process::geteuid().as_raw();
        let is_member = |group: u32| {
            peer.gid() == group
                || groups(stream.as_raw_fd()).is_ok_and(|groups| groups.contains(&group))
        };
        Ok(Self::Process(PeerProcess {
            pid: peer
                .pid()
                .and_then(|pid| u32::try_from(pid).ok())
                .unwrap_or_default(),
            user: peer.uid(),
            is_operator: [0, own].contains(&peer.uid()) || group.is_some_and(is_member),
        }))
    }
}

/// The supplementary groups of the process at the other end (`SO_PEERGROUPS`).
fn groups(socket: RawFd) -> io::Result<Vec<u32>> {
    let mut groups = vec![0_u32; MOST_GROUPS];
    let mut length =
        libc::socklen_t::try_from(std::mem::size_of_val(&*groups)).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `length` bytes into the vector, which outlives the call.
    let failed = unsafe {
        libc::getsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_PEERGROUPS,
            groups.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if failed != 0 {
        return Err(io::Error::last_os_error());
    }
    groups.truncate(length as usize / std::mem::size_of::<u32>());
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stalled_body_is_an_error() {
        let first = futures_util::stream::iter([Ok::<_, io::Error>("{")]);
        let stalled = Body::from_stream(first.chain(futures_util::stream::pending()));
        let start = Instant::now();
        assert!(axum::body::to_bytes(in_time(stalled), 100).await.is_err());
        assert_eq!(start.elapsed().as_secs(), BODY_TIMEOUT.as_secs());
    }

    #[tokio::test]
    async fn a_complete_body_is_unchanged() {
        let whole = axum::body::to_bytes(in_time(Body::from("{}")), 100)
            .await
            .unwrap();
        assert_eq!(&*whole, b"{}");
    }

    fn host(address: &str) -> Peer {
        let address = SocketAddr::new(address.parse().unwrap(), 40_000);
        Peer::Host(TcpPeer::new(address, address))
    }

    #[test]
    fn no_client_takes_the_places_of_others() {
        let places = Places::new();
        let process = |user, is_operator| {
            Peer::Process(PeerProcess {
                pid: 1,
                user,
                is_operator,
            })
        };
        let proxy = |user, is_known| Peer::Proxy { user, is_known };
        // Each takes what it gets, and one more comes in.
        for (greedy, most, other) in [
            (process(1000, false), 48, process(1001, false)),
            (proxy(1000, false), 192, proxy(1001, false)),
            (host("10.0.0.5"), 288, host("10.0.0.6")),
            (host("2001:db8::5"), 288, host("2001:db8:1::5")),
            (host("10.0.0.5"), 288, host("127.0.0.1")),
            (process(1000, false), 48, process(0, true)),
        ] {
            let places = Places::new();
            let taken: Vec<_> = std::iter::from_fn(|| places.take(&greedy)).collect();
            assert_eq!(taken.len(), most, "{greedy:?}");
            assert!(places.take(&other).is_some(), "{other:?}");
        }
        // Of those on this machine, users are told apart once there are many.
        let local = |user| {
            let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 40_000);
            let host = TcpPeer {
                user: Arc::new(OnceLock::from(Some(user))),
                ..TcpPeer::new(address, address)
            };
            places.take(&Peer::Host(host))
        };
        let mut taken: Vec<_> = std::iter::from_fn(|| local(1000)).collect();
        assert_eq!(taken.len(), LOOPBACK_OF_ALL + 336);
        assert!(local(1001).is_some());
        taken.clear();
        assert!(local(1000).is_some());
        // The known proxy has all of its kind.
        let taken = std::iter::from_fn(|| places.take(&proxy(33, true)));
        assert_eq!(taken.collect::<Vec<_>>().len(), MOST_PROXIED);
    }

    #[tokio::test]
    async fn the_kernel_tells_whose_program_connected_over_loopback() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address).await else {
                continue;
            };
            let (client, accepted) = tokio::join!(
                TcpStream::connect(listener.local_addr().unwrap()),
                listener.accept()
            );
            let (stream, address) = accepted.unwrap();
            let peer = TcpPeer::new(address, stream.local_addr().unwrap());
            let own = rustix::process::geteuid().as_raw();
            assert_eq!(peer.client(), CountedClient::User(own), "{client:?}");
        }
    }

    #[tokio::test]
    async fn the_kernel_tells_process_user_and_groups() {
        let (one, _other) = UnixStream::pair().unwrap();
        let Peer::Process(process) = Peer::at_control(&one, None).unwrap() else {
            panic!()
        };
        assert_eq!(process.pid, std::process::id());
        assert_eq!(process.user, rustix::process::geteuid().as_raw());
        assert!(process.is_operator);
        let own: Vec<u32> = rustix::process::getgroups()
            .unwrap()
            .into_iter()
            .map(|group| group.as_raw())
            .collect();
        assert_eq!(groups(one.as_raw_fd()).unwrap(), own);
    }

    #[test]
    fn only_loopback_addresses_are_this_machine() {
        for (address, is_loopback) in [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.5", false),
        ] {
            assert_eq!(host(address).is_loopback(), is_loopback, "{address}");
        }
    }
}
