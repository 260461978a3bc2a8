//! Reads `/proc` and `/sys` below a movable root, so that a captured machine can be read like this one.
//!
//! Files that are read at every tick stay open, so that clients of the pages cannot use up the file descriptors. A
//! device's directory in sysfs gets a new inode when the device is recreated; that reveals a reused number without
//! root.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use procfs::process::{Process, Stat, Task};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, Mode, OFlags, inotify};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::rate::Rate;

/// Initial buffer size: the diskstats of a hundred devices.
const FIRST_BUFFER: usize = 16 * 1024;

/// sysfs attributes of block devices; not all devices have all of them.
const ATTRIBUTES: [&str; 16] = [
    "dev",
    "size",
    "partition",
    "dm/name",
    "dm/uuid",
    "md/uuid",
    "wwid",
    "serial",
    "device/wwid",
    "device/serial",
    "device/model",
    "hidden",
    "queue/rotational",
    "queue/scheduler",
    "queue/read_ahead_kb",
    "queue/logical_block_size",
];

/// Maximum ancestors of a process to follow. Processes that end meanwhile may make their chain a circle.
pub const MAX_ANCESTORS: usize = 16;

/// The directory that contains `/proc` and `/sys`.
#[derive(Clone, Debug)]
pub struct Root(pub PathBuf);

impl Root {
    /// A file that is read at every tick and stays open.
    pub fn keep(&self, path: &str) -> OpenFile {
        OpenFile {
            path: self.0.join(path),
            file: None,
        }
    }

    /// A number that changes when a device is added, removed or recreated.
    ///
    /// A recreated device has a new symbolic link in sysfs. Its lookup from an open directory takes a microsecond.
    pub fn devices_fingerprint(&self, diskstats: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        let folder = rustix::fs::open(
            self.0.join("sys/class/block"),
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        );
        for name in diskstats
            .lines()
            .filter_map(|line| line.split_ascii_whitespace().nth(2))
        {
            name.hash(&mut hasher);
            if let Ok(folder) = &folder
                && let Ok(link) =
                    rustix::fs::statat(folder, name.replace('/', "!"), AtFlags::SYMLINK_NOFOLLOW)
            {
                link.st_ino.hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    /// The kernel's name of the block device with the file system of `path`; `None` for file systems without one.
    pub fn device_below(&self, path: &Path) -> Result<Option<String>, String> {
        let folder = path
            .ancestors()
            .skip(1)
            .find(|folder| folder.exists())
            .unwrap_or(Path::new("."));
        let device = fs::metadata(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?
            .dev();
        Ok(self.kernel_name(device))
    }

    fn kernel_name(&self, device: u64) -> Option<String> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let link = fs::read_link(self.0.join(format!("sys/dev/block/{major}:{minor}"))).ok()?;
        Some(link.file_name()?.to_str()?.to_string())
    }

    /// The device that a loop device shows, which sysfs names by the path that `losetup` got. A file elsewhere may be on a
    /// network that hangs.
    fn device_of_loop(&self, folder: &Path) -> Option<String> {
        let path = fs::read_to_string(folder.join("loop/backing_file")).ok()?;
        let path = path.trim().strip_prefix("/dev/")?;
        let device = fs::metadata(self.0.join("dev").join(path)).ok()?;
        self.kernel_name(device.rdev())
    }

    /// Attributes of all block devices in lines of `name/attribute<TAB>value`, sorted by name.
    pub fn read_block_devices(&self) -> Result<String, String> {
        let folder = self.0.join("sys/class/block");
        let entries = fs::read_dir(&folder)
            .map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        let mut text = String::new();
        for name in names {
            self.describe(&folder.join(&name), &name, &mut text);
        }
        Ok(text)
    }

    fn describe(&self, folder: &Path, name: &str, text: &mut String) {
        for attribute in ATTRIBUTES {
            if let Ok(value) = fs::read_to_string(folder.join(attribute)) {
                let value = value.trim().replace(|c: char| c.is_control(), " ");
                let _ = writeln!(text, "{name}/{attribute}\t{value}");
            }
        }
        if let Ok(folder) = fs::metadata(folder) {
            let _ = writeln!(text, "{name}/inode\t{}", folder.ino());
        }
        let parent = parent_of(folder);
        if let Some(parent) = &parent {
            let _ = writeln!(text, "{name}/parent\t{parent}");
        }
        let mut slaves: Vec<String> = fs::read_dir(folder.join("slaves"))
            .map(|entries| {
                entries
                    .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                    .collect()
            })
            .unwrap_or_default();
        slaves.extend(self.device_of_loop(folder));
        slaves.extend(parent.filter(|parent| parent.starts_with("loop")));
        slaves.sort();
        let _ = writeln!(text, "{name}/slaves\t{}", slaves.join(" "));
    }

    /// The PIDs of all processes. Empty without `/proc`.
    pub fn pids(&self) -> Vec<u32> {
        let Ok(entries) = fs::read_dir(self.0.join("proc")) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect()
    }

    /// A process, if it exists. Its open directory identifies it: a later process with the same PID has another directory.
    /// This works on every kernel, unlike `pidfd_open(2)`.
    pub fn process(&self, pid: u32) -> Option<Process> {
        Process::new_with_root(self.0.join(format!("proc/{pid}"))).ok()
    }

    /// `/proc/PID/stat`; `None` if the process has ended. Names are truncated to 15 bytes, and may contain anything.
    pub fn process_stat(&self, pid: u32) -> Option<Stat> {
        self.process(pid)?.stat().ok()
    }

    /// Whether a process runs, if only in another thread than its first.
    pub fn is_running(&self, pid: u32) -> bool {
        self.process_stat(pid)
            .is_some_and(|stat| stat.state != 'Z' || stat.num_threads > 1)
    }

    /// `/proc/PID/cmdline`; empty if the process has ended, or is another user's.
    pub fn arguments(&self, pid: u32) -> Vec<String> {
        let process = self.process(pid);
        process.and_then(|it| it.cmdline().ok()).unwrap_or_default()
    }

    /// A process and its ancestors, from the nearest on.
    pub fn with_ancestors(&self, process: Stat) -> impl Iterator<Item = Stat> {
        let above = |below: &Stat| self.process_stat(below.ppid.try_into().ok()?);
        std::iter::successors(Some(process), above).take(MAX_ANCESTORS)
    }

    /// The PID of a process's parent, 0 for the first process.
    pub fn parent_of(&self, pid: u32) -> Option<u32> {
        self.process_stat(pid)?.ppid.try_into().ok()
    }

    /// The processes that one has started and that run; empty on kernels that do not list them.
    pub fn children(&self, pid: u32) -> Vec<u32> {
        let tasks = self.process(pid).and_then(|process| process.tasks().ok());
        let children = |task: procfs::ProcResult<Task>| task.ok()?.children().ok();
        tasks
            .into_iter()
            .flatten()
            .filter_map(children)
            .flatten()
            .collect()
    }

    /// The names of all processes, at most 15 bytes each. Command lines are not read, since they may contain passwords.
    pub fn process_names(&self) -> Vec<String> {
        let pids = self.pids().into_iter();
        pids.filter_map(|pid| Some(self.process_stat(pid)?.comm))
            .collect()
    }
}

/// A file that stays open, so that it can be read even without free file descriptors.
pub struct OpenFile {
    path: PathBuf,
    file: Option<File>,
}

impl OpenFile {
    /// The file's current text, or an error message.
    pub fn read(&mut self) -> Result<String, String> {
        let read = self.read_from_start();
        if read.is_err() {
            self.file = None;
        }
        read.map_err(|error| format!("cannot read {}: {error}", self.path.display()))
    }

    fn read_from_start(&mut self) -> std::io::Result<String> {
        // Below a moved root a file may be replaced, unlike those of the kernel.
        let is_there = |file: &File| file.metadata().is_ok_and(|file| file.nlink() > 0);
        let file = match &mut self.file {
            Some(file) if is_there(file) => file,
            gone => gone.insert(File::open(&self.path)?),
        };
        let (mut bytes, mut length) = (vec![0; FIRST_BUFFER], 0);
        loop {
            match file.read_at(&mut bytes[length..], length as u64)? {
                0 => break,
                more => length += more,
            }
            if length == bytes.len() {
                bytes.resize(2 * length, 0);
            }
        }
        bytes.truncate(length);
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }
}

/// The mounts in this process's namespace. The host's mounts propagate into that of a service.
pub struct Mounts {
    file: OpenFile,
    /// Lines that were there between two readings.
    noted: BTreeSet<String>,
    /// Whether the last reading had lines that were not there any more.
    pub has_gone: bool,
    rate: Rate,
}

impl Mounts {
    pub fn below(root: &Root) -> Self {
        Self {
            file: root.keep("proc/self/mountinfo"),
            noted: BTreeSet::new(),
            has_gone: false,
            rate: Rate::default(),
        }
    }

    /// Notes for the next reading what is mounted now, which is returned; not in a storm of mounts.
    pub fn note(&mut self) -> Option<String> {
        if !self.rate.allows(Instant::now()) {
            return None;
        }
        let now = self.read().ok()?;
        self.noted.extend(now.lines().map(String::from));
        Some(now)
    }

    /// Mounts of block devices since the last reading, as in `mountinfo`; `None` if no mount changed.
    pub fn read_if_changed(&mut self) -> Option<Result<String, String>> {
        let mut noted = std::mem::take(&mut self.noted);
        let file = self.file.file.as_ref();
        if noted.is_empty() && !self.has_gone && file.is_some_and(|file| !has_changed(file)) {
            return None;
        }
        let mut now = self.read();
        if let Ok(now) = &mut now {
            for line in now.lines() {
                noted.remove(line);
            }
            self.has_gone = !noted.is_empty();
            now.extend(noted.into_iter().map(|line| line + "\n"));
        }
        Some(now)
    }

    fn read(&mut self) -> Result<String, String> {
        // Other file systems, of which container hosts have thousands, have major number 0.
        let of_a_disk = |line: &&str| {
            line.split(' ')
                .nth(2)
                .is_some_and(|number| !number.starts_with("0:"))
        };
        let kept = |text: String| {
            text.lines()
                .filter(of_a_disk)
                .map(|line| format!("{line}\n"))
                .collect()
        };
        self.file.read().map(kept)
    }
}

/// Events of the mount table.
pub struct MountEvents(AsyncFd<File>);

impl MountEvents {
    /// `None` where the kernel reports none.
    pub fn below(root: &Root) -> Option<Self> {
        let file = File::open(root.0.join("proc/self/mountinfo")).ok()?;
        // SAFETY: the file stays open as long as the `AsyncFd` that owns it.
        let events = unsafe { AsyncFd::register_with_interest(file, Interest::PRIORITY) };
        Some(Self(events.ok()?))
    }

    /// Waits for a change of a mount.
    pub async fn next(&mut self) {
        match self.0.ready(Interest::PRIORITY).await {
            Ok(mut ready) => {
                has_changed(self.0.get_ref());
                ready.clear_ready();
            }
            Err(_) => std::future::pending().await,
        }
    }
}

/// LVM's commands, as they take their locks: a program that creates a thin volume ends within milliseconds of the
/// device-mapper's event.
pub struct LockEvents {
    folder: AsyncFd<OwnedFd>,
    rate: Rate,
}

impl LockEvents {
    /// `None` if LVM has not run yet.
    pub fn below(root: &Root) -> Option<Self> {
        let folder =
            inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).ok()?;
        let place = root.0.join("run/lock/lvm");
        inotify::add_watch(
            &folder,
            place,
            inotify::WatchFlags::CREATE | inotify::WatchFlags::OPEN,
        )
        .ok()?;
        // SAFETY: the descriptor stays open as long as the `AsyncFd` that owns it.
        let folder = unsafe { AsyncFd::register_with_interest(folder, Interest::READABLE) }.ok()?;
        let rate = Rate::default();
        Some(Self { folder, rate })
    }

    /// Waits for a command that takes a lock, of a storm of them for some.
    pub async fn next(&mut self) {
        loop {
            let mut buffer = [0; 4096];
            let read = |folder: &OwnedFd| Ok(rustix::io::read(folder, &mut buffer)?);
            if self
                .folder
                .async_io(Interest::READABLE, read)
                .await
                .is_err()
            {
                std::future::pending().await
            }
            if self.rate.allows(Instant::now()) {
                return;
            }
        }
    }
}

/// The kernel signals a changed mount table with `POLLPRI`.
fn has_changed(file: &File) -> bool {
    let mut fds = [PollFd::new(file, PollFlags::PRI)];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(_) => fds[0].revents().intersects(PollFlags::PRI | PollFlags::ERR),
        Err(_) => true,
    }
}

/// Unescapes a path in mountinfo, where space, tab, newline and backslash are octal escapes.
pub fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let letter = part
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match letter.filter(u8::is_ascii) {
            Some(letter) => plain.extend([char::from(letter).to_string().as_str(), &part[3..]]),
            None => plain.extend(["\\", part]),
        }
    }
    plain
}

/// The disk of a partition, which is its parent directory.
fn parent_of(folder: &Path) -> Option<String> {
    if !folder.join("partition").exists() {
        return None;
    }
    let real = fs::canonicalize(folder).ok()?;
    Some(real.parent()?.file_name()?.to_str()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_mounted_between_two_readings_is_part_of_the_second_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proc/self/mountinfo");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let [disk, snapshot] = ["35 1 8:1 / / rw\n", "36 35 253:3 / /mnt/s ro\n"];
        fs::write(&path, disk).unwrap();
        let mut mounts = Mounts::below(&Root(folder.path().into()));
        assert_eq!(mounts.read_if_changed().unwrap().unwrap(), disk);
        assert_eq!(mounts.read_if_changed(), None);
        let both = disk.to_string() + snapshot;
        fs::write(&path, &both).unwrap();
        assert_eq!(mounts.note().unwrap(), both);
        fs::write(&path, disk).unwrap();
        assert_eq!(mounts.note().unwrap(), disk);
        assert_eq!(mounts.read_if_changed().unwrap().unwrap(), both);
        assert!(mounts.has_gone);
        assert_eq!(mounts.read_if_changed().unwrap().unwrap(), disk);
        assert!(!mounts.has_gone);
        assert_eq!(mounts.read_if_changed(), None);
    }
}
