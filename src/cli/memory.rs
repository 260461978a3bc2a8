//! Keeps the program in memory: the disk with its file may hang, and alerts must go out all the same.

use std::fs::read_to_string;

use anyhow::{Context, bail};
use rustix::mm::{MlockAllFlags, mlock, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::config::Config;
use crate::store::in_words;

/// Locks what alerts need while a disk hangs. Without receivers, the pages that are in use suffice.
pub fn keep(config: &Config) {
    let load = || {
        if config.notify.is_empty() {
            Ok(())
        } else {
            load()
        }
    };
    if let Err(error) = lock().and_then(|()| load()) {
        tracing::debug!(
            "memory is not locked, so alerts may be late while a disk hangs: {}",
            in_words(&error)
        );
    }
}

/// Locks all memory that is in use, now or later.
///
/// Under a limit of locked memory, later allocations could fail: so there, nothing is locked.
pub fn lock() -> anyhow::Result<()> {
    // Only root may raise it. If that fails, the limit remains.
    let _ = setrlimit(
        Resource::Memlock,
        Rlimit {
            current: None,
            maximum: None,
        },
    );
    if let Some(limit) = getrlimit(Resource::Memlock).current {
        bail!("`ulimit -l` is {} KiB, expected `unlimited`", limit / 1024);
    }
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    mlockall(flags).context("the kernel refuses it")
}

/// Reads and locks the whole program with its libraries: a delivery may need pages that were never used before.
fn load() -> anyhow::Result<()> {
    let maps = read_to_string("/proc/self/maps").context("cannot read /proc/self/maps")?;
    for (from, to) in maps.lines().filter_map(program_part) {
        // SAFETY: locking changes no content. The kernel refuses a range that is not mapped.
        unsafe { mlock(std::ptr::without_provenance_mut(from), to - from) }
            .context("the kernel refuses it")?;
    }
    Ok(())
}

/// The address range of a part of a program's or library's file that nobody changes, from a line such as
/// `55d0-55e0 r-xp 00000000 08:01 42 /usr/bin/cowbell`.
fn program_part(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (from, to) = fields.next()?.split_once('-')?;
    let is_constant = matches!(fields.next()?, "r--p" | "r-xp");
    let is_file = fields.nth(3)?.starts_with('/');
    let address = |text: &str| usize::from_str_radix(text, 16).ok();
    (is_constant && is_file).then_some((address(from)?, address(to)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_parts_of_files_are_parts_of_the_program() {
        for (line, expected) in [
            (
                "1000-3000 r-xp 00000000 08:01 42   /usr/bin/cowbell",
                Some((0x1000, 0x3000)),
            ),
            (
                "1000-3000 r--p 00000000 08:01 42   /lib/libc.so.6",
                Some((0x1000, 0x3000)),
            ),
            ("1000-3000 rw-p 00000000 08:01 42   /usr/bin/cowbell", None),
            (
                "1000-3000 rw-s 00000000 08:01 42   /var/lib/cowbell/cowbell.db-shm",
                None,
            ),
            ("1000-3000 r-xp 00000000 00:00 0    [vdso]", None),
            ("1000-3000 r--p 00000000 00:00 0", None),
            ("", None),
        ] {
            assert_eq!(program_part(line), expected, "{line}");
        }
    }
}
