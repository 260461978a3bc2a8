//! Device-mapper events: a device was added, removed, renamed or reloaded, a snapshot became invalid, a pool changed its
//! mode. Growing usage causes no event.

use std::fs::File;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::ioctl::{self, Buffer, Command};

/// A second descriptor of the control device, which becomes readable after an event.
///
/// Source: `dm_poll` of `drivers/md/dm-ioctl.c`, Linux 4.13 and later.
pub struct Events {
    control: AsyncFd<File>,
    buffer: Buffer,
}

impl Events {
    /// `None` if the device-mapper cannot be opened or does not support events.
    pub fn open() -> Option<Self> {
        let control = ioctl::open().ok()?;
        let mut buffer = Buffer::default();
        buffer.call(&control, Command::ArmPoll, 0, 0).ok()?;
        // SAFETY: the file owns its descriptor, and nothing replaces or closes it while it is registered.
        let control =
            unsafe { AsyncFd::register_with_interest(control, Interest::READABLE) }.ok()?;
        Some(Self { control, buffer })
    }

    /// Waits for an event since the last call; `None` if events are no longer available. The caller reads the devices
    /// afterwards, so no change is missed. Cancel-safe.
    pub async fn next(&mut self) -> Option<()> {
        self.control.readable().await.ok()?.clear_ready();
        self.buffer
            .call(self.control.get_ref(), Command::ArmPoll, 0, 0)
            .ok()?;
        Some(())
    }
}
