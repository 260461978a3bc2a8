//! A datagram socket on which hooks say what the program that called them does next.
//!
//! A hook neither waits nor learns whether it was heard, so all limits are on this side: a datagram's length, how many
//! there may be, and how many wait for the loop. What they say is passed on verbatim.

use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::net::UnixDatagram;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Hook;
use super::live::now;

/// The name of the socket in the folder that systemd makes for the service.
pub const FILE_NAME: &str = "hooks";
/// A hook's word has some thirty letters; what is longer is dropped as a whole.
const LONGEST: usize = 1024;
/// Words that wait for the loop, which takes each within a tick. A run has ten.
const WAITING: usize = 64;
/// So many may come at once, and then one more each [`PAUSE`]: several runs at a time stay far below.
const MOST_AT_ONCE: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);
/// What was dropped is logged this often at most.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);
/// The mode of the socket's file: mylvmbackup makes snapshots, so its hooks are root's. Whoever else could write here
/// could say that a backup succeeded.
const MODE: u32 = 0o600;

/// Hears hooks until it is dropped; its file is removed then.
pub struct HookListener {
    heard: mpsc::Receiver<Hook>,
    listener: AbortHandle,
    path: PathBuf,
}

impl HookListener {
    /// Opens the socket. A file that a killed program left there is taken over; one that is in use, or is no socket, is
    /// left alone.
    pub fn open(path: &Path) -> Result<Self, String> {
        let socket = bind(path).map_err(|error| {
            format!("cannot listen for hooks at {}: {error}; phases of backups are not seen", path.display())
        })?;
        let (hear, heard) = mpsc::channel(WAITING);
        let listener = tokio::spawn(listen(socket, hear)).abort_handle();
        Ok(Self { heard, listener, path: path.into() })
    }

    /// The next word. May be dropped and called again.
    pub async fn next(&mut self) -> Hook {
        match self.heard.recv().await {
            Some(hook) => hook,
            None => std::future::pending().await,
        }
    }
}

impl Drop for HookListener {
    fn drop(&mut self) {
        self.listener.abort();
        // Where it cannot be removed, the next start takes it over.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn bind(path: &Path) -> Result<UnixDatagram, String> {
    if path.symlink_metadata().is_ok_and(|found| !found.file_type().is_socket()) {
        return Err("there is a file that is no socket; name another place or remove it".into());
    }
    if is_in_use(path) {
        return Err("another program listens there, maybe a cowbell that runs already".into());
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.to_string()),
        _ => {}
    }
    let socket = UnixDatagram::bind(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => "its folder is not there; make it, or name another place".into(),
        _ => error.to_string(),
    })?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(MODE)).map_err(|error| error.to_string())?;
    Ok(socket)
}

fn is_in_use(path: &Path) -> bool {
    matches!(listener(path), Listener::Listens)
}

/// Whether somebody hears what is said at a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Listener {
    Listens,
    Nobody,
    /// It cannot be told, with why.
    Refuses(String),
}

/// Looks whether somebody listens there, without saying anything.
pub fn listener(path: &Path) -> Listener {
    let connected = std::os::unix::net::UnixDatagram::unbound().and_then(|socket| socket.connect(path));
    match connected.map_err(|error| (error.kind(), error)) {
        Ok(()) => Listener::Listens,
        Err((ErrorKind::PermissionDenied, error)) => Listener::Refuses(error.to_string()),
        Err(_) => Listener::Nobody,
    }
}

async fn listen(socket: UnixDatagram, hear: mpsc::Sender<Hook>) {
    let mut buffer = [0; LONGEST + 1];
    let mut rate = Rate::new(Instant::now());
    let mut complained: Option<Instant> = None;
    loop {
        let received = socket.recv(&mut buffer).await;
        let refused = match received {
            Ok(length) if length > LONGEST => Some("longer than a hook's word can be"),
            Ok(_) if !rate.allows(Instant::now()) => Some("more than hooks can be"),
            Ok(length) => {
                let said = String::from_utf8_lossy(&buffer[..length]).into_owned();
                hear.try_send(Hook { at: now(), said }).err().map(|_| "too many before the loop took them")
            }
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                Some("not to be read")
            }
        };
        if let Some(why) = refused.filter(|_| complained.is_none_or(|at| at.elapsed() >= COMPLAINT_PAUSE)) {
            complained = Some(Instant::now());
            tracing::warn!("datagrams from hooks are dropped: they are {why}");
        }
    }
}

/// How many may still come now.
struct Rate {
    left: u32,
    refilled_at: Instant,
}

impl Rate {
    fn new(now: Instant) -> Self {
        Self { left: MOST_AT_ONCE, refilled_at: now }
    }

    fn allows(&mut self, now: Instant) -> bool {
        let pauses = now.saturating_duration_since(self.refilled_at).as_millis() / PAUSE.as_millis();
        if pauses > 0 {
            let more = u32::try_from(pauses).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(more).min(MOST_AT_ONCE);
            self.refilled_at = now;
        }
        let allows = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn said(ear: &mut HookListener) -> Option<String> {
        let next = tokio::time::timeout(Duration::from_secs(5), ear.next()).await;
        next.ok().map(|hook| hook.said)
    }

    fn send(path: &Path, text: &[u8]) -> std::io::Result<usize> {
        std::os::unix::net::UnixDatagram::unbound()?.send_to(text, path)
    }

    #[tokio::test]
    async fn what_is_said_is_heard_verbatim_and_what_is_too_long_is_dropped_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let mut ear = HookListener::open(&path).unwrap();
        send(&path, b"one").unwrap();
        send(&path, &[b'x'; LONGEST + 1]).unwrap();
        send(&path, &[b'x'; LONGEST]).unwrap();
        send(&path, b"\xff<b>").unwrap();
        assert_eq!(said(&mut ear).await.as_deref(), Some("one"));
        assert_eq!(said(&mut ear).await.map(|text| text.len()), Some(LONGEST));
        assert_eq!(said(&mut ear).await.as_deref(), Some("\u{fffd}<b>"));
    }

    #[tokio::test]
    async fn only_its_owner_may_write_and_the_file_goes_with_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        let ear = HookListener::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = HookListener::open(&path).err().unwrap();
        assert!(error.contains("another program listens there"), "{error}");
        drop(ear);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn what_a_killed_program_left_is_taken_over_and_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE_NAME);
        drop(std::os::unix::net::UnixDatagram::bind(&path).unwrap());
        assert!(path.exists());
        assert_eq!(listener(&path), Listener::Nobody);
        let ear = HookListener::open(&path).unwrap();
        assert_eq!(listener(&path), Listener::Listens);
        drop(ear);
        std::fs::write(&path, "precious").unwrap();
        let error = HookListener::open(&path).err().unwrap();
        assert!(error.contains("no socket"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        let error = HookListener::open(&folder.path().join("none/hooks")).err().unwrap();
        assert!(error.contains("its folder is not there"), "{error}");
    }

    #[test]
    fn a_flood_is_let_through_at_ten_a_second() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        let count = |rate: &mut Rate, at| (0..1_000).filter(|_| rate.allows(at)).count();
        assert_eq!(count(&mut rate, start), 100);
        assert_eq!(count(&mut rate, start + Duration::from_secs(1)), 10);
        assert_eq!(count(&mut rate, start + Duration::from_secs(60)), 100);
    }
}
