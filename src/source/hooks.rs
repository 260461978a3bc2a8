//! A datagram socket that receives messages from hooks, and passes them on verbatim. Two hooks run while the database
//! is locked, so they do not wait for an answer. All limits are on this side: length, rate, and queue.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::net::UnixDatagram;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Hook;
use super::clock::now;
use super::rate::Rate;

/// The socket's name in the service's runtime directory.
pub const FILE_NAME: &str = "hooks";
/// Longer messages are dropped; a hook's has about thirty characters.
const MAX_LENGTH: usize = 1024;
/// Messages that may wait for the loop, which takes them within a tick. A run has ten.
const QUEUE: usize = 64;
/// The pause after an unreadable datagram.
const PAUSE: Duration = Duration::from_millis(100);
/// Minimum time between log messages about dropped datagrams.
const LOG_PAUSE: Duration = Duration::from_secs(60);
/// The socket's mode. mylvmbackup runs as root to create snapshots; with write access, other users could fake a
/// successful backup.
const MODE: u32 = 0o600;

/// Receives messages until it is dropped, and then removes its socket.
pub struct HookListener {
    messages: mpsc::Receiver<Hook>,
    socket_state: AbortHandle,
    path: PathBuf,
}

impl HookListener {
    /// Opens the socket. Replaces a stale socket; fails if the path is in use, or is not a socket.
    pub fn open(path: &Path) -> Result<Self, String> {
        let socket = bind(path).map_err(|error| {
            format!(
                "cannot listen for hooks at {}: {error}; phases of backups are not recorded",
                path.display()
            )
        })?;
        let (hear, messages) = mpsc::channel(QUEUE);
        let socket_state = tokio::spawn(listen(socket, hear)).abort_handle();
        Ok(Self {
            messages,
            socket_state,
            path: path.into(),
        })
    }

    /// The next message. Cancel-safe.
    pub async fn next(&mut self) -> Hook {
        match self.messages.recv().await {
            Some(hook) => hook,
            None => std::future::pending().await,
        }
    }
}

impl Drop for HookListener {
    fn drop(&mut self) {
        self.socket_state.abort();
        // If this fails, the next start replaces it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes a stale socket; fails if the path is in use, or is not a socket.
pub fn remove_stale(path: &Path, is_listening: bool) -> Result<(), String> {
    if path
        .symlink_metadata()
        .is_ok_and(|found| !found.file_type().is_socket())
    {
        return Err(
            "a file that is no socket exists there; remove it, or choose another path".into(),
        );
    }
    if is_listening {
        return Err("another program listens there, perhaps another cowbell".into());
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn bind(path: &Path) -> Result<UnixDatagram, String> {
    remove_stale(path, socket_state(path) == SocketState::Listening)?;
    let socket = UnixDatagram::bind(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            "its directory does not exist; create it, or choose another path".into()
        }
        _ => error.to_string(),
    })?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(MODE))
        .map_err(|error| error.to_string())?;
    Ok(socket)
}

/// Whether a process listens on a socket.
#[derive(Debug, PartialEq, Eq)]
pub enum SocketState {
    Listening,
    Unused,
    /// Unknown, with the error.
    Unknown(String),
}

/// Checks for a listener without sending anything.
pub fn socket_state(path: &Path) -> SocketState {
    let connected =
        std::os::unix::net::UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    match connected.map_err(|error| (error.kind(), error)) {
        Ok(()) => SocketState::Listening,
        Err((ErrorKind::PermissionDenied, error)) => SocketState::Unknown(error.to_string()),
        Err(_) => SocketState::Unused,
    }
}

async fn listen(socket: UnixDatagram, hear: mpsc::Sender<Hook>) {
    let mut buffer = [0; MAX_LENGTH + 1];
    let mut rate = Rate::default();
    let mut logged_at: Option<Instant> = None;
    loop {
        let received = socket.recv(&mut buffer).await;
        let refused = match received {
            Ok(length) if length > MAX_LENGTH => Some("longer than any hook's message"),
            Ok(_) if !rate.allows(Instant::now()) => Some("more than hooks can send"),
            Ok(length) => {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                hear.try_send(Hook { at: now(), text })
                    .err()
                    .map(|_| "more than the loop could take")
            }
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                Some("unreadable")
            }
        };
        if let Some(why) = refused.filter(|_| logged_at.is_none_or(|at| at.elapsed() >= LOG_PAUSE))
        {
            logged_at = Some(Instant::now());
            tracing::warn!("dropped datagrams from hooks: they are {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn text(hook_listener: &mut HookListener) -> Option<String> {
        let next = tokio::time::timeout(Duration::from_secs(5), hook_listener.next()).await;
        next.ok().map(|hook| hook.text)
    }

    fn send(path: &Path, text: &[u8]) -> std::io::Result<usize> {
        std::os::unix::net::UnixDatagram::unbound()?.send_to(text, path)
    }

    #[tokio::test]
    async fn messages_are_received_verbatim_unless_they_are_too_long() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let mut hook_listener = HookListener::open(&path).unwrap();
        send(&path, b"one").unwrap();
        send(&path, &[b'x'; MAX_LENGTH + 1]).unwrap();
        send(&path, &[b'x'; MAX_LENGTH]).unwrap();
        send(&path, b"\xff<b>").unwrap();
        assert_eq!(text(&mut hook_listener).await.as_deref(), Some("one"));
        assert_eq!(
            text(&mut hook_listener).await.map(|text| text.len()),
            Some(MAX_LENGTH)
        );
        assert_eq!(
            text(&mut hook_listener).await.as_deref(),
            Some("\u{fffd}<b>")
        );
    }

    #[tokio::test]
    async fn only_the_owner_can_write_and_the_socket_is_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let hook_listener = HookListener::open(&path).unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let error = HookListener::open(&path).err().unwrap();
        assert!(error.contains("another program listens there"), "{error}");
        drop(hook_listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_but_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        drop(std::os::unix::net::UnixDatagram::bind(&path).unwrap());
        assert!(path.exists());
        assert_eq!(socket_state(&path), SocketState::Unused);
        let hook_listener = HookListener::open(&path).unwrap();
        assert_eq!(socket_state(&path), SocketState::Listening);
        drop(hook_listener);
        std::fs::write(&path, "precious").unwrap();
        let error = HookListener::open(&path).err().unwrap();
        assert!(error.contains("no socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        let error = HookListener::open(&folder.path().join("none/hooks"))
            .err()
            .unwrap();
        assert!(error.contains("its directory does not exist"), "{error}");
    }
}
