//! Error messages from the kernel's log, which reports read errors that no counter shows. Without new messages, this takes
//! one system call per tick.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use super::{Part, PartReading};
use crate::source::files::Root;

/// Maximum messages to read at a tick. The rest follows at the next ticks.
const MAX_MESSAGES: usize = 200;
/// Buffer size for `read(2)` on `/dev/kmsg`, which fails for a longer message.
const MAX_LENGTH: usize = 8192;
/// The level of warnings. Messages with a higher level number are not errors.
const WARNING: u32 = 4;

/// The kernel's log from now on; `None` if it cannot be read, for example without root.
pub struct KernelLog(Option<File>);

impl KernelLog {
    pub fn below(root: &Root) -> Self {
        let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
        let file = File::options()
            .read(true)
            .custom_flags(nonblocking)
            .open(root.0.join("dev/kmsg"))
            .and_then(|mut file| {
                file.seek(SeekFrom::End(0))?;
                Ok(file)
            });
        Self(file.ok())
    }

    /// New messages of errors and invalid snapshots, a line each; `None` if there are none.
    pub fn read_new(&mut self) -> Option<PartReading> {
        let file = self.0.as_mut()?;
        let mut buffer = [0; MAX_LENGTH];
        let mut text = String::new();
        for _ in 0..MAX_MESSAGES {
            match file.read(&mut buffer) {
                Ok(1..) => {}
                // Messages were overwritten before they were read.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => continue,
                _ => break,
            }
            if let Some(message) = error_in(&String::from_utf8_lossy(&buffer)) {
                text.push_str(message);
                text.push('\n');
            }
            buffer.fill(0);
        }
        (!text.is_empty()).then(|| PartReading::timed(Part::KernelLog, || Ok(text)))
    }
}

/// The message of a record `LEVEL,NUMBER,TIME,FLAGS;MESSAGE`, if it is an error.
///
/// Source: `Documentation/ABI/testing/dev-kmsg`.
pub fn error_in(record: &str) -> Option<&str> {
    let (prefix, rest) = record.split_once(';')?;
    // The lowest three bits are the level, the others the facility.
    let level = prefix.split(',').next()?.parse::<u32>().ok()? & 7;
    let message = rest.split(['\n', '\0']).next()?;
    let is_wanted = message.contains("rror") || message.contains("nvalidating snapshot");
    (level <= WARNING && is_wanted).then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_kept_and_other_messages_are_not() {
        for (record, expected) in [
            (
                "3,1,5,-;I/O error, dev sda, sector 8 op 0x0:(READ)\n SUBSYSTEM=block\n",
                Some("I/O error, dev sda, sector 8 op 0x0:(READ)"),
            ),
            ("6,1,5,-;EXT4-fs (dm-3): mounted, errors=remount-ro\n", None),
            ("4,1,5,-;usb 1-1: reset\n", None),
            ("rubbish", None),
        ] {
            assert_eq!(error_in(record), expected, "{record}");
        }
    }
}
