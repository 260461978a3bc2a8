//! What something costs: processor time, bytes written, memory, as the kernel counts them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Bytes in a sector of `/proc/diskstats`.
const SECTOR: u64 = 512;

/// Processor time of all threads so far.
pub fn process_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

/// Processor time of this thread so far.
pub fn thread_time() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// A process that is watched from outside, or this one.
#[derive(Clone, Copy)]
pub struct Process(pub u32);

impl Process {
    pub fn own() -> Self {
        Self(std::process::id())
    }

    /// Bytes that it made dirty, in whole pages.
    pub fn written(self) -> u64 {
        number_after(&self.file("io"), "write_bytes:")
    }

    pub fn resident_mib(self) -> f64 {
        number_after(&self.file("status"), "VmRSS:") as f64 / 1024.0
    }

    /// The most that it ever was, or since [`Self::forget_most`].
    pub fn most_resident_mib(self) -> f64 {
        number_after(&self.file("status"), "VmHWM:") as f64 / 1024.0
    }

    pub fn forget_most(self) {
        // 5: the peak of resident memory. Where this is not allowed, the peak is that of the whole run.
        let _ = std::fs::write(format!("/proc/{}/clear_refs", self.0), "5");
    }

    /// Processor time of its threads that live.
    pub fn ran(self) -> Duration {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0))
            .into_iter()
            .flatten();
        let ran = tasks.filter_map(|task| {
            let schedstat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            schedstat.split_whitespace().next()?.parse::<u64>().ok()
        });
        Duration::from_nanos(ran.sum())
    }

    fn file(self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/{name}", self.0)).unwrap_or_default()
    }
}

fn number_after(text: &str, key: &str) -> u64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap_or_default();
    line.split_whitespace()
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

/// Bytes written to the block device below a folder, by everybody: the file system's journal is in it.
pub fn device_written(folder: &Path) -> u64 {
    let number = std::fs::metadata(folder).map_or(0, |folder| folder.dev());
    let stat = format!(
        "/sys/dev/block/{}:{}/stat",
        rustix::fs::major(number),
        rustix::fs::minor(number)
    );
    let stat = std::fs::read_to_string(stat).unwrap_or_default();
    stat.split_whitespace()
        .nth(6)
        .and_then(|sectors| sectors.parse::<u64>().ok())
        .unwrap_or_default()
        * SECTOR
}

/// Bytes of everything in a folder.
pub fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |path: PathBuf| match std::fs::metadata(&path) {
        Ok(entry) if entry.is_dir() => size_of(&path),
        Ok(entry) => entry.len(),
        Err(_) => 0,
    };
    entries.map(|entry| size(entry.path())).sum()
}

/// One, five and fifteen minutes' load: the machine may have other things to do.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}

pub fn us(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

pub fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
