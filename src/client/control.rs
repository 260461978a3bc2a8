//! Where the daemon's control socket is.
//!
//! systemd makes the service's. A daemon that is started by hand has one of its own for its port.

use std::path::PathBuf;

/// The name of the service's socket.
pub const FILE_NAME: &str = "control";

/// The folder of the service's sockets.
const SYSTEM: &str = "/run/cowbell";

/// The socket of a daemon that this user starts by hand.
pub fn own_path(port: u16) -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let folder = own.map_or_else(|| PathBuf::from(SYSTEM), |folder| PathBuf::from(folder).join("cowbell"));
    folder.join(format!("{FILE_NAME}-{port}"))
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
