//! Sockets that systemd passes to this process.

use std::os::fd::{FromRawFd, OwnedFd};

/// Takes the sockets of this process's unit; to be called once.
pub fn take_sockets() -> Vec<OwnedFd> {
    // SAFETY: systemd passes these descriptors to this process alone, and they are taken once.
    let owned = |number| unsafe { OwnedFd::from_raw_fd(number) };
    sd_notify::listen_fds().into_iter().flatten().map(owned).collect()
}
