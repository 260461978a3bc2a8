//! Who is at the other end of a connection.
//!
//! Over the control socket, the kernel tells which process connected. Everybody else has an address, or came through a proxy.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, RawFd};

use axum::http::{HeaderMap, HeaderName};
use tokio::net::UnixStream;

/// A proxy's header.
pub const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Supplementary groups of a process that are looked at; the kernel's own limit.
const MOST_GROUPS: usize = 65_536;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Peer {
    /// A host, over TCP.
    Host(IpAddr),
    /// A proxy, over its own Unix socket. Its clients are on any host.
    Proxy,
    /// A process of this machine, over the control socket.
    Process(PeerProcess),
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
        matches!(self, Self::Host(ip) if ip.to_canonical().is_loopback())
    }

    /// The client's address, which a proxy adds last to a header. One client has all IPv6 addresses of a network.
    pub fn address(&self, headers: &HeaderMap) -> IpAddr {
        let forwarded = || {
            headers
                .get_all(FORWARDED_FOR)
                .iter()
                .next_back()?
                .to_str()
                .ok()?
                .rsplit(',')
                .next()?
                .trim()
                .parse()
                .ok()
        };
        let address = match self {
            Self::Host(address) => Some(address.to_canonical()),
            _ => forwarded(),
        };
        match address {
            Some(IpAddr::V6(address)) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            Some(address) => address,
            None => Ipv4Addr::UNSPECIFIED.into(),
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
            assert_eq!(
                Peer::Host(address.parse().unwrap()).is_loopback(),
                is_loopback,
                "{address}"
            );
        }
        assert!(!Peer::Proxy.is_loopback());
    }
}
