//! Where the daemon's control socket is.
//!
//! systemd makes the service's. A daemon that is started by hand has one of its own for its port.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The name of the service's socket.
pub const FILE_NAME: &str = "control";

/// The folder of the service's sockets.
const SYSTEM: &str = "/run/cowbell";

/// Permission bits of other users who may write.
const OTHERS_WRITE: u32 = 0o022;

/// The socket of a daemon that this user starts by hand.
pub fn own_path(port: u16) -> PathBuf {
    folder(std::env::var_os("XDG_RUNTIME_DIR")).join(format!("{FILE_NAME}-{port}"))
}

/// Below this user's runtime directory. After `su`, the variable may name that of another user, who could replace the socket.
fn folder(runtime: Option<OsString>) -> PathBuf {
    let is_own = |folder: &Path| {
        let own = rustix::process::geteuid().as_raw();
        folder
            .symlink_metadata()
            .is_ok_and(|it| it.is_dir() && it.uid() == own && it.mode() & OTHERS_WRITE == 0)
    };
    let runtime = runtime.map(PathBuf::from).filter(|folder| is_own(folder));
    runtime.map_or_else(|| SYSTEM.into(), |runtime| runtime.join("cowbell"))
}

/// Where a daemon with this port may listen, the likelier first. The service is meant unless the port is named.
pub fn paths(port: u16, is_named: bool) -> Vec<PathBuf> {
    let by_root = PathBuf::from(format!("{SYSTEM}/{FILE_NAME}-{port}"));
    let service = (!is_named).then(|| PathBuf::from(format!("{SYSTEM}/{FILE_NAME}")));
    let mut paths = vec![own_path(port), by_root];
    paths.dedup();
    paths.extend(service);
    paths
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    #[test]
    fn only_a_runtime_directory_of_this_user_is_used() {
        let own = tempfile::tempdir().unwrap();
        let found = || folder(Some(own.path().into()));
        assert_eq!(found(), own.path().join("cowbell"));
        std::fs::set_permissions(own.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        assert_eq!(found(), Path::new(SYSTEM));
        std::fs::set_permissions(own.path(), PermissionsExt::from_mode(0o700)).unwrap();
        // Only root can give it away.
        if chown(own.path(), Some(65_534), None).is_ok() {
            assert_eq!(found(), Path::new(SYSTEM));
        }
        for other in [None, Some("".into()), Some("/does/not/exist".into())] {
            assert_eq!(folder(other), Path::new(SYSTEM));
        }
    }
}
