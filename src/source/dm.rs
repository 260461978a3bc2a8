//! Asks the kernel's device-mapper what its devices say, through `/dev/mapper/control`.
//!
//! Two read-only calls are made: one list, then one status per device, never flushing: a thin pool that is asked
//! without that flag writes its metadata. Only a thin pool is asked for its table, which holds its chunk size; the
//! table of a crypt target would hold its key. Source: `include/uapi/linux/dm-ioctl.h`.
//!
//! The answer is text: a line `major:minor<TAB>name<TAB>uuid<TAB>active|suspended` for each device, and below it, each
//! after a tab, its `status` and `table` lines as `dmsetup` prints them.

use std::fmt::Write as _;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::ioctl::opcode;
use rustix::ioctl::{Direction, Ioctl, IoctlOutput, Opcode};
use tokio::sync::oneshot;

pub const CONTROL: &str = "/dev/mapper/control";

/// Of all commands the only ones ever sent.
const LIST_DEVICES: u8 = 2;
const TABLE_STATUS: u8 = 12;

const STATUS_TABLE: u32 = 1 << 0x4;
const SUSPENDED: u32 = 1 << 1;
const BUFFER_FULL: u32 = 1 << 8;
const NO_FLUSH: u32 = 1 << 11;

/// Bytes of `struct dm_ioctl`; what a call returns follows it.
const HEADER: usize = 312;
/// Bytes of `struct dm_target_spec`.
const TARGET: usize = 40;
/// Enough for the status of any device that is not a giant.
const FIRST_BUFFER: usize = 16 * 1024;
/// A larger answer than this is refused.
const LARGEST_BUFFER: usize = 1024 * 1024;

/// Holds the control device open, and a buffer, from one tick to the next.
#[derive(Default)]
pub struct DeviceMapper {
    control: Option<File>,
    buffer: Vec<u64>,
}

impl DeviceMapper {
    /// Lists all devices with their status as text, or says in a sentence why that cannot be had.
    pub fn read(&mut self) -> Result<String, String> {
        let devices = self.list()?;
        let mut text = String::with_capacity(128 * devices.len());
        for device in devices {
            if let Err(why) = self.describe(device, &mut text) {
                // No device's line: whoever reads this reports it, and goes on with the next.
                let _ = writeln!(text, "{} could not be asked: {why}", major_minor(device));
            }
        }
        Ok(text)
    }

    fn list(&mut self) -> Result<Vec<u64>, String> {
        match self.call(LIST_DEVICES, 0, 0) {
            Ok(()) => Ok(self.answer().devices()),
            Err(Refused::Gone) => Ok(Vec::new()),
            Err(Refused::Because(why)) => Err(why),
        }
    }

    fn describe(&mut self, device: u64, text: &mut String) -> Result<(), String> {
        match self.call(TABLE_STATUS, NO_FLUSH, device) {
            Ok(()) => {}
            Err(Refused::Gone) => return Ok(()),
            Err(Refused::Because(why)) => return Err(why),
        }
        let has_pool = self.answer().describe(device, text);
        if has_pool && self.call(TABLE_STATUS, NO_FLUSH | STATUS_TABLE, device).is_ok() {
            self.answer().targets("table", text);
        }
        Ok(())
    }

    fn answer(&self) -> Answer<'_> {
        Answer { words: &self.buffer }
    }

    /// Makes one call, with a larger buffer for as long as the answer does not fit.
    fn call(&mut self, command: u8, flags: u32, device: u64) -> Result<(), Refused> {
        self.open().map_err(Refused::Because)?;
        let Some(control) = &self.control else { return Err(Refused::Gone) };
        if self.buffer.is_empty() {
            self.buffer = vec![0; FIRST_BUFFER / 8];
        }
        loop {
            self.buffer.fill(0);
            request(&mut self.buffer, flags, device);
            // SAFETY: the buffer is as long as its header says, and aligned for it.
            unsafe { rustix::ioctl::ioctl(control.as_fd(), Call { command, buffer: &mut self.buffer })? };
            if self.answer().flags() & BUFFER_FULL == 0 {
                return Ok(());
            }
            if self.buffer.len() * 8 >= LARGEST_BUFFER {
                return Err(Refused::Because(format!("the answer is longer than {LARGEST_BUFFER} bytes")));
            }
            self.buffer = vec![0; self.buffer.len() * 2];
        }
    }

    fn open(&mut self) -> Result<(), String> {
        if self.control.is_none() {
            let opened = File::options().read(true).write(true).open(CONTROL);
            self.control = Some(opened.map_err(|error| why_not_opened(&error))?);
        }
        Ok(())
    }
}

/// Why a call gave nothing.
enum Refused {
    /// The device went away since it was listed: normal while snapshots come and go.
    Gone,
    Because(String),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NXIO => Self::Gone,
            Errno::ACCESS | Errno::PERM => Self::Because(NO_RIGHT.into()),
            _ => Self::Because(format!("the device-mapper refused the question: {errno}")),
        }
    }
}

const NO_RIGHT: &str = "the right is missing: only root (CAP_SYS_ADMIN) may ask the device-mapper";

fn why_not_opened(error: &std::io::Error) -> String {
    let why = match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => {
            "there is no such node: the kernel's dm_mod is not loaded, or this is a container"
        }
        Some(Errno::NODEV | Errno::NXIO) => {
            "there is no driver behind the node: the kernel's dm_mod is not loaded"
        }
        Some(Errno::ACCESS | Errno::PERM) => NO_RIGHT,
        _ => return format!("cannot open {CONTROL}: {error}"),
    };
    format!("cannot open {CONTROL}: {why}")
}

/// Fills in the fields of `struct dm_ioctl` that a question needs: version 4.0.0, sizes, flags, device.
fn request(buffer: &mut [u64], flags: u32, device: u64) {
    let size = u32::try_from(buffer.len() * 8).unwrap_or(u32::MAX);
    let mut word = |index: usize, low: u32, high: u32| {
        let bytes: [u8; 8] = [low.to_ne_bytes(), high.to_ne_bytes()].concat().try_into().unwrap_or_default();
        buffer[index] = u64::from_ne_bytes(bytes);
    };
    word(0, 4, 0);
    word(1, 0, size);
    word(2, HEADER as u32, 0);
    word(3, 0, flags);
    buffer[5] = device;
}

struct Call<'a> {
    command: u8,
    buffer: &'a mut [u64],
}

// SAFETY: the opcode is that of the command for `struct dm_ioctl`, and the pointer is to a buffer that starts with one.
unsafe impl Ioctl for Call<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        opcode::from_components(Direction::ReadWrite, 0xfd, self.command, HEADER)
    }

    fn as_ptr(&mut self) -> *mut rustix::ffi::c_void {
        self.buffer.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut rustix::ffi::c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// What a call left in the buffer. Every field is looked up with its bounds: nothing is taken on trust.
struct Answer<'a> {
    words: &'a [u64],
}

impl Answer<'_> {
    fn u32(&self, at: usize) -> Option<u32> {
        let word = self.words.get(at / 8)?.to_ne_bytes();
        let half = if at % 8 >= 4 { &word[4..] } else { &word[..4] };
        half.try_into().ok().map(u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        let (low, high) = (self.u32(at)?, self.u32(at + 4)?);
        [low.to_ne_bytes(), high.to_ne_bytes()].concat().try_into().ok().map(u64::from_ne_bytes)
    }

    /// The text at `at`, up to its NUL; control characters, which no honest name has, become `?`.
    fn text(&self, at: usize) -> String {
        let bytes = self.words.iter().skip(at / 8).flat_map(|word| word.to_ne_bytes()).skip(at % 8);
        let bytes: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&bytes).replace(|c: char| c.is_control(), "?")
    }

    fn flags(&self) -> u32 {
        self.u32(28).unwrap_or_default()
    }

    /// Device numbers in a list: records of `dev: u64`, `next: u32` from this record to the following one.
    fn devices(&self) -> Vec<u64> {
        let mut devices = Vec::new();
        let mut at = HEADER;
        while let Some(device) = self.u64(at).filter(|device| *device != 0) {
            devices.push(device);
            match self.u32(at + 8) {
                Some(next) if next > 0 => at += next as usize,
                _ => break,
            }
        }
        devices
    }

    /// Writes the device's line and its status lines; tells whether a thin pool is among its targets.
    fn describe(&self, device: u64, text: &mut String) -> bool {
        let state = if self.flags() & SUSPENDED == 0 { "active" } else { "suspended" };
        let (name, uuid) = (self.text(48), self.text(176));
        let _ = writeln!(text, "{}\t{name}\t{uuid}\t{state}", major_minor(device));
        self.targets("status", text)
    }

    /// Records of `start, length: u64`, `status: i32`, `next: u32` from the first record, `type: [u8; 16]`, then text.
    fn targets(&self, word: &str, text: &mut String) -> bool {
        let mut has_pool = false;
        let mut at = HEADER;
        for _ in 0..self.u32(20).unwrap_or_default() {
            let (Some(start), Some(length)) = (self.u64(at), self.u64(at + 8)) else { break };
            let (kind, parameters) = (self.text(at + 24), self.text(at + TARGET));
            has_pool |= kind == "thin-pool";
            let _ = writeln!(text, "\t{word} {start} {length} {kind} {parameters}");
            at = HEADER + self.u32(at + 20).unwrap_or_default() as usize;
        }
        has_pool
    }
}

/// `dev` as the device-mapper packs it (`huge_encode_dev`), written as people write it.
fn major_minor(device: u64) -> String {
    let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
    format!("{major}:{minor}")
}

/// The device-mapper on a thread of its own, since a call can wait in the kernel for as long as a disk does.
pub struct Worker {
    questions: mpsc::Sender<oneshot::Sender<Answered>>,
    unanswered: Option<(Instant, oneshot::Receiver<Answered>)>,
}

/// An answer, and when it was complete.
struct Answered {
    at: Instant,
    text: Result<String, String>,
}

/// An answer that came after its deadline is as good as a new one for this long.
const STILL_NEW: Duration = Duration::from_secs(1);

impl Worker {
    pub fn start() -> std::io::Result<Self> {
        let (questions, asked) = mpsc::channel::<oneshot::Sender<Answered>>();
        std::thread::Builder::new().name("device-mapper".into()).spawn(move || {
            let mut device_mapper = DeviceMapper::default();
            while let Ok(reply) = asked.recv() {
                let text = device_mapper.read();
                // Nobody waits any more where the program ends.
                let _ = reply.send(Answered { at: Instant::now(), text });
            }
        })?;
        Ok(Self { questions, unanswered: None })
    }

    /// Asks, and waits for the answer until the deadline. While an old question hangs no new one is put; an answer
    /// that came since the last tick is taken as this one's.
    pub async fn read(&mut self, deadline: Duration) -> Result<String, String> {
        let (asked_at, mut reply) = match self.unanswered.take() {
            Some((asked_at, mut reply)) => match reply.try_recv() {
                Ok(late) if late.at.elapsed() < STILL_NEW => return late.text,
                Err(oneshot::error::TryRecvError::Empty) => (asked_at, reply),
                _ => self.ask()?,
            },
            None => self.ask()?,
        };
        match tokio::time::timeout(deadline, &mut reply).await {
            Ok(answer) => answer.map_err(|_| "the device-mapper's reader has ended".to_string())?.text,
            Err(_) => {
                self.unanswered = Some((asked_at, reply));
                Err(format!(
                    "the device-mapper has not answered for {:.1} s",
                    asked_at.elapsed().as_secs_f64()
                ))
            }
        }
    }

    fn ask(&self) -> Result<(Instant, oneshot::Receiver<Answered>), String> {
        let (reply, answer) = oneshot::channel();
        self.questions.send(reply).map_err(|_| "the device-mapper's reader has ended".to_string())?;
        Ok((Instant::now(), answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_those_of_the_kernels_header() {
        let mut buffer = vec![0; 64];
        for (command, number) in [(LIST_DEVICES, 0xC138_FD02_u32), (TABLE_STATUS, 0xC138_FD0C)] {
            let call = Call { command, buffer: &mut buffer };
            assert_eq!(call.opcode() as u32, number);
        }
    }

    #[test]
    fn an_answer_of_any_bytes_is_read_without_harm() {
        for seed in 0..=255_u64 {
            let words: Vec<u64> = (0..100).map(|i| (seed << 56 | seed << 3).rotate_left(i)).collect();
            let answer = Answer { words: &words };
            answer.devices();
            answer.describe(seed, &mut String::new());
        }
    }

    #[test]
    fn device_numbers_are_unpacked() {
        assert_eq!(major_minor(0xfd03), "253:3");
        assert_eq!(major_minor(0x0010_fd03), "253:259");
    }
}
