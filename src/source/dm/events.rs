//! Word from the device-mapper that something happened: a device came, went, was renamed or got another table, a
//! snapshot became invalid, a pool changed its mode. Fills that grow are no events.

use std::fs::File;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::call::{self, Buffer, Command};

/// The control device, opened once more: it becomes readable when something happened since it was armed.
///
/// Source: `dm_poll` of `drivers/md/dm-ioctl.c`, Linux 4.13 and later.
pub struct Events {
    control: AsyncFd<File>,
    buffer: Buffer,
}

impl Events {
    /// `None` where the device-mapper cannot be opened or tells of no events.
    pub fn open() -> Option<Self> {
        let control = call::open().ok()?;
        let mut buffer = Buffer::default();
        buffer.call(&control, Command::ArmPoll, 0, 0).ok()?;
        // SAFETY: the file owns its descriptor, and nothing replaces or closes it while it is registered.
        let control = unsafe { AsyncFd::register_with_interest(control, Interest::READABLE) }.ok()?;
        Some(Self { control, buffer })
    }

    /// Waits until something happened since the last call; `None` where that can no longer be known. Whoever hears
    /// of it asks afterwards, so that nothing falls between. May be dropped and called again.
    pub async fn next(&mut self) -> Option<()> {
        self.control.readable().await.ok()?.clear_ready();
        self.buffer.call(self.control.get_ref(), Command::ArmPoll, 0, 0).ok()?;
        Some(())
    }
}
