//! Many writes with few system calls, through Linux's asynchronous I/O: in the lab a system call takes longer than a write.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::workload::Write;

/// Writes in flight at most.
const BATCH: usize = 64;
/// The longest write.
const LONGEST: usize = 64 << 10;
/// `IOCB_CMD_PWRITE` of `linux/aio_abi.h`.
const PWRITE: u16 = 1;

/// `struct iocb` of `linux/aio_abi.h`, little-endian.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ControlBlock {
    data: u64,
    key: u32,
    rw_flags: i32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

#[repr(align(4096))]
struct Buffer([u8; LONGEST]);

/// 4 KiB where the kernel can take them past the page cache.
pub struct PageBuffer(Box<Buffer>);

impl PageBuffer {
    pub fn new() -> Self {
        Self(Box::new(Buffer([0x5a; LONGEST])))
    }

    pub fn page(&self) -> &[u8] {
        &self.0.0[..4096]
    }
}

/// Writes past the page cache.
pub struct Writer {
    context: u64,
    buffer: Box<Buffer>,
}

/// Opens for writing past the page cache.
pub fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}

impl Writer {
    pub fn new() -> io::Result<Self> {
        let mut context = 0_u64;
        // SAFETY: the kernel writes the context, which is as large as a pointer.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, BATCH, &raw mut context) };
        checked(result).map(|_| Self {
            context,
            buffer: Box::new(Buffer([0x5a; LONGEST])),
        })
    }

    /// Returns when all are complete.
    pub fn write(&mut self, file: &File, writes: &[Write]) -> io::Result<()> {
        for batch in writes.chunks(BATCH) {
            let block = |write: &Write| ControlBlock {
                opcode: PWRITE,
                file: file.as_raw_fd().cast_unsigned(),
                buffer: self.buffer.0.as_ptr() as u64,
                bytes: write.bytes.min(LONGEST as u64),
                offset: write.offset.cast_signed(),
                ..ControlBlock::default()
            };
            let blocks: Vec<ControlBlock> = batch.iter().map(block).collect();
            self.submit(&blocks)?;
        }
        Ok(())
    }

    fn submit(&self, blocks: &[ControlBlock]) -> io::Result<()> {
        let pointers: Vec<*const ControlBlock> =
            blocks.iter().map(|block| block as *const _).collect();
        let mut events = [Event::default(); BATCH];
        let mut submitted = 0;
        while submitted < pointers.len() {
            let rest = &pointers[submitted..];
            // SAFETY: the blocks, and the buffer that they point to, outlive the requests, which are waited for below.
            let result = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, rest.len(), rest.as_ptr())
            };
            submitted += checked(result)?;
        }
        let mut completed = 0;
        while completed < submitted {
            let wanted = submitted - completed;
            // SAFETY: the array has room for `BATCH` events.
            let result = unsafe {
                let no_limit = std::ptr::null::<libc::timespec>();
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    wanted,
                    wanted,
                    events.as_mut_ptr(),
                    no_limit,
                )
            };
            let count = checked(result)?;
            if let Some(event) = events[..count].iter().find(|event| event.result < 0) {
                return Err(io::Error::from_raw_os_error(
                    event.result.unsigned_abs() as i32
                ));
            }
            completed += count;
        }
        Ok(())
    }
}

fn checked(result: i64) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
