//! What systemd and cowbell tell each other.
//!
//! Nothing here waits: systemd and its journal may hang with the disk that cowbell watches.

use std::os::fd::{FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two signs of life.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The kernel's limit of connections that wait at a socket.
const MOST_WAITING: usize = 4096;

/// Whether systemd wants to know the state of this process.
pub fn is_supervisor() -> bool {
    std::env::var_os("NOTIFY_SOCKET").is_some_and(|name| !name.is_empty())
}

/// How often systemd wants to hear that this process runs: three times within `WatchdogSec=`, or every ten seconds.
pub fn feed_every() -> Duration {
    let limit_us = std::env::var("WATCHDOG_USEC")
        .ok()
        .and_then(|text| text.parse().ok());
    let third = limit_us.map(|limit_us: u64| Duration::from_micros(limit_us / 3));
    third.map_or(LONGEST_PAUSE, |third| {
        third.clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
    })
}

/// Sends lines such as `READY=1`, see sd_notify(3). They are lost without systemd, or while it hangs.
pub fn notify(lines: &str) {
    let Ok(name) = std::env::var("NOTIFY_SOCKET") else {
        return;
    };
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    };
    if let (Ok(address), Ok(socket)) = (address, nonblocking()) {
        let _ = socket.send_to_addr(lines.as_bytes(), &address);
    }
}

fn nonblocking() -> std::io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Takes the sockets of this process's unit; nothing when called again.
pub fn take_sockets() -> Vec<OwnedFd> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    // SAFETY: systemd passes these descriptors to this process alone, and they are taken once.
    let owned = |number| unsafe { OwnedFd::from_raw_fd(number) };
    sd_notify::listen_fds()
        .into_iter()
        .flatten()
        .map(owned)
        .collect()
}

/// Closes the connections that wait for a process which cannot start: systemd would start it again for each of them.
pub fn close_waiting(sockets: &[OwnedFd]) {
    for socket in sockets {
        let is_listening = rustix::io::ioctl_fionbio(socket, true).is_ok();
        let mut waiting = MOST_WAITING;
        while is_listening && waiting > 0 && rustix::net::accept(socket).is_ok() {
            waiting -= 1;
        }
    }
}

/// Whether standard error is connected to the journal. An inherited `JOURNAL_STREAM` alone says nothing: standard error may
/// be redirected since.
pub fn stderr_is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM");
    let stderr = std::fs::metadata("/proc/self/fd/2");
    match (stream, stderr) {
        (Ok(stream), Ok(stderr)) => stream == format!("{}:{}", stderr.dev(), stderr.ino()),
        _ => false,
    }
}

/// The journal, by its own protocol, see systemd.journal-fields(7).
pub struct Journal(UnixDatagram);

impl Journal {
    /// `None` unless standard error is connected to the journal.
    pub fn connect() -> Option<Self> {
        if !stderr_is_journal() {
            return None;
        }
        let socket = nonblocking().ok()?;
        socket.connect("/run/systemd/journal/socket").ok()?;
        Some(Self(socket))
    }

    /// Sends an entry: one `NAME=value` per line. It is lost while the journal hangs.
    pub fn send(&self, entry: &[u8]) {
        let _ = self.0.send(entry);
    }
}
