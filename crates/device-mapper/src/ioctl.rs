//! A single ioctl of the device-mapper and its result: `struct dm_ioctl` and the data after it. Only four commands are
//! ever sent. The first three change nothing. The fourth is a message, which may create or delete statistics. Source: `include/uapi/linux/dm-ioctl.h`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::opcode;
use rustix::ioctl::{Direction, Ioctl, IoctlOutput, Opcode};

use super::{Number, ReadError};

pub const CONTROL: &str = "/dev/mapper/control";

/// The only commands that are ever sent.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Command {
    ListDevices = 2,
    TableStatus = 12,
    /// A text for a device; see `Buffer::message`.
    TargetMessage = 14,
    /// Makes the control device readable after the next event.
    ArmPoll = 16,
}

pub const STATUS_TABLE: u32 = 1 << 0x4;
const SUSPENDED: u32 = 1 << 1;
const BUFFER_FULL: u32 = 1 << 8;
pub const NO_FLUSH: u32 = 1 << 11;
const DATA_OUT: u32 = 1 << 16;

/// Size of `struct dm_ioctl`, which precedes the result.
const HEADER: usize = 312;
/// Size of `struct dm_target_msg` before its text: a sector, which messages on statistics ignore.
const MESSAGE: usize = 8;
/// Size of `struct dm_target_spec`.
const TARGET: usize = 40;
/// Initial buffer size, enough for one target; the kernel copies all of it in and out.
const FIRST_BUFFER: usize = 512;
/// Larger results are rejected, as `EOVERFLOW`.
const LARGEST_BUFFER: usize = 1024 * 1024;

/// Opens the control device.
pub fn open() -> Result<File, ReadError> {
    File::options()
        .read(true)
        .write(true)
        .open(CONTROL)
        .map_err(|error| why_not_opened(&error))
}

/// A reusable buffer, as large as the largest result so far.
pub struct Buffer(Vec<u64>);

impl Default for Buffer {
    fn default() -> Self {
        Self(vec![0; FIRST_BUFFER / 8])
    }
}

impl Buffer {
    /// Makes one call, enlarging the buffer until the result fits.
    pub fn call(
        &mut self,
        control: &File,
        command: Command,
        flags: u32,
        device: u64,
    ) -> Result<Response<'_>, CallError> {
        self.exchange(control, command, flags, device, "")?;
        Ok(Response::of(&self.0))
    }

    /// Sends a message to a device, which answers with a text. Statistics answer for every device, also a suspended one.
    pub fn message(
        &mut self,
        control: &File,
        device: u64,
        text: &str,
    ) -> Result<Response<'_>, Errno> {
        self.exchange(control, Command::TargetMessage, 0, device, text)?;
        Ok(Response::of(&self.0))
    }

    fn exchange(
        &mut self,
        control: &File,
        command: Command,
        flags: u32,
        device: u64,
        text: &str,
    ) -> Result<(), Errno> {
        loop {
            self.0.fill(0);
            request(&mut self.0, flags, device, text);
            // SAFETY: the buffer is as long as its header says, and aligned for it.
            unsafe {
                rustix::ioctl::ioctl(
                    control.as_fd(),
                    Call {
                        command,
                        buffer: &mut self.0,
                    },
                )?
            };
            if Response::of(&self.0).flags() & BUFFER_FULL == 0 {
                return Ok(());
            }
            if self.0.len() * 8 >= LARGEST_BUFFER {
                return Err(Errno::OVERFLOW);
            }
            self.0 = vec![0; self.0.len() * 2];
        }
    }
}

/// Why a call failed.
pub enum CallError {
    /// The device was removed since it was listed, which is normal for snapshots.
    Gone,
    Failed(ReadError),
}

impl From<Errno> for CallError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NXIO => Self::Gone,
            Errno::ACCESS | Errno::PERM => Self::Failed(no_right()),
            Errno::OVERFLOW => Self::Failed(
                format!("the device-mapper's answer exceeds {LARGEST_BUFFER} bytes").into(),
            ),
            _ => Self::Failed(format!("the device-mapper's ioctl failed: {errno}").into()),
        }
    }
}

/// Root lacks the capability in most containers.
fn no_right() -> ReadError {
    if rustix::process::geteuid().is_root() {
        ReadError::Failed("the device-mapper requires CAP_SYS_ADMIN, which root lacks here".into())
    } else {
        ReadError::NotRoot
    }
}

fn why_not_opened(error: &std::io::Error) -> ReadError {
    let why = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ACCESS | Errno::PERM) => return no_right(),
        Some(Errno::NOENT) => {
            "it does not exist: the kernel module dm_mod is not loaded, or this is a container"
        }
        Some(Errno::NODEV | Errno::NXIO) => {
            "it has no driver: the kernel module dm_mod is not loaded"
        }
        _ => return format!("cannot open {CONTROL}: {error}").into(),
    };
    format!("cannot open {CONTROL}: {why}").into()
}

/// Fills in the fields of `struct dm_ioctl` for a request: version 4.0.0, sizes, flags, device; and the message after it,
/// which the buffer is large enough for.
fn request(buffer: &mut [u64], flags: u32, device: u64, text: &str) {
    let size = u32::try_from(buffer.len() * 8).unwrap_or(u32::MAX);
    let mut word = |index: usize, low: u32, high: u32| {
        let bytes: [u8; 8] = [low.to_ne_bytes(), high.to_ne_bytes()]
            .concat()
            .try_into()
            .unwrap_or_default();
        buffer[index] = u64::from_ne_bytes(bytes);
    };
    word(0, 4, 0);
    word(1, 0, size);
    word(2, HEADER as u32, 0);
    word(3, 0, flags);
    buffer[5] = device;
    // Its end is the first of the zeros that follow.
    for (index, part) in text.as_bytes().chunks(8).enumerate() {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        buffer[(HEADER + MESSAGE) / 8 + index] = u64::from_ne_bytes(bytes);
    }
}

struct Call<'a> {
    command: Command,
    buffer: &'a mut [u64],
}

// SAFETY: the opcode is that of the command for `struct dm_ioctl`, and the pointer is to a buffer that starts with one.
unsafe impl Ioctl for Call<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::from_components(Direction::ReadWrite, 0xfd, self.command as u8, HEADER)
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        self.buffer.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(
        _: IoctlOutput,
        _: *mut rustix::ffi::c_void,
    ) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// The result of a call. All offsets are bounds-checked.
pub struct Response<'a> {
    bytes: &'a [u8],
}

impl<'a> Response<'a> {
    /// The result in a buffer, as the kernel filled it in.
    pub fn of(words: &'a [u64]) -> Self {
        // SAFETY: a slice of words is as many bytes as `size_of_val` says, each of which is valid.
        Self {
            bytes: unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) },
        }
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at.checked_add(4)?)?;
        bytes.try_into().ok().map(u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        bytes.try_into().ok().map(u64::from_ne_bytes)
    }

    /// The text at `at`, up to its NUL; control characters, which valid names lack, become `?`.
    fn text(&self, at: usize) -> Cow<'a, str> {
        let bytes = self.bytes.get(at..).unwrap_or_default();
        let text =
            String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default());
        if text.contains(char::is_control) {
            text.replace(char::is_control, "?").into()
        } else {
            text
        }
    }

    fn flags(&self) -> u32 {
        self.u32(28).unwrap_or_default()
    }

    /// The device's UUID.
    pub fn uuid(&self) -> Cow<'a, str> {
        self.text(176)
    }

    /// The answer to a message, whose lines end in a newline; empty if it has none.
    pub fn answer(&self) -> &'a str {
        let bytes = self
            .bytes
            .get(HEADER..)
            .filter(|_| self.flags() & DATA_OUT != 0)
            .unwrap_or_default();
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// The records of a list: `dev: u64`, `next: u32` (offset from this record to the next), `name`.
    pub fn devices(&self) -> Vec<DeviceEntry> {
        let mut devices = Vec::new();
        let mut at = HEADER;
        while let Some(number) = self.u64(at).filter(|number| *number != 0) {
            devices.push(DeviceEntry {
                number,
                name: self.text(at + 12).into_owned(),
            });
            match self.u32(at + 8) {
                Some(next) if next > 0 => at += next as usize,
                _ => break,
            }
        }
        devices
    }

    /// Appends the device's line and its status lines; returns the types of its targets.
    pub fn describe(&self, device: u64, text: &mut String) -> Vec<Cow<'a, str>> {
        let state = if self.flags() & SUSPENDED == 0 {
            "active"
        } else {
            "suspended"
        };
        let (name, uuid) = (self.text(48), self.uuid());
        let _ = writeln!(text, "{}\t{name}\t{uuid}\t{state}", Number::of_dev(device));
        self.targets("status", text)
    }

    /// The records `start, length: u64`, `status: i32`, `next: u32` (offset from the first record), `type: [u8; 16]`, text.
    pub fn targets(&self, word: &str, text: &mut String) -> Vec<Cow<'a, str>> {
        let mut kinds = Vec::new();
        let mut at = HEADER;
        for _ in 0..self.u32(20).unwrap_or_default() {
            let (Some(start), Some(length)) = (self.u64(at), self.u64(at + 8)) else {
                break;
            };
            let (kind, parameters) = (self.text(at + 24), self.text(at + TARGET));
            let _ = writeln!(text, "\t{word} {start} {length} {kind} {parameters}");
            kinds.push(kind);
            match HEADER + self.u32(at + 20).unwrap_or_default() as usize {
                next if next > at => at = next,
                // Records follow each other; another order might never end.
                _ => break,
            }
        }
        kinds
    }
}

/// An entry of the device-mapper's list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceEntry {
    pub number: u64,
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_match_the_kernels_header() {
        let mut buffer = vec![0; 64];
        for (command, number) in [
            (Command::ListDevices, 0xC138_FD02_u32),
            (Command::TableStatus, 0xC138_FD0C),
            (Command::TargetMessage, 0xC138_FD0E),
            (Command::ArmPoll, 0xC138_FD10),
        ] {
            let call = Call {
                command,
                buffer: &mut buffer,
            };
            assert_eq!(call.opcode() as u32, number);
        }
    }

    #[test]
    fn any_bytes_are_parsed_without_panic() {
        for seed in 0..=255_u64 {
            let words: Vec<u64> = (0..100)
                .map(|i| (seed << 56 | seed << 3).rotate_left(i))
                .collect();
            let answer = Response::of(&words);
            answer.devices();
            answer.describe(seed, &mut String::new());
            answer.answer();
        }
    }

    #[test]
    fn a_record_that_leads_to_itself_is_read_once() {
        let mut words = vec![0; 64];
        // The number of records: the field at byte 20.
        words[2] = u64::from_ne_bytes([0, 0, 0, 0, 255, 255, 255, 255]);
        let mut text = String::new();
        Response::of(&words).targets("status", &mut text);
        assert_eq!(text, "\tstatus 0 0  \n");
    }

    #[test]
    fn a_message_ends_in_a_zero() {
        let text = "@stats_print 0 0 4096";
        let mut buffer = vec![0; FIRST_BUFFER / 8];
        request(&mut buffer, DATA_OUT, 0xfd03, text);
        // The sector is in front of it.
        assert_eq!(Response::of(&buffer).text(HEADER + MESSAGE), text);
        assert_eq!(Response::of(&buffer).answer(), "", "{buffer:?}");
    }
}
